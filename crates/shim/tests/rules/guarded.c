// A guard page, which process_madvise(2) or madvise(2) has put into memory of the program's (Linux 6.13): it stays one
// while the memory is the program's, and nobody is given it afterwards.
#include "check.h"
#include <sys/uio.h>

enum { LEN = 16 * PAGE, GUARD = 102, SELF = -10001 };

static int is_guard(char *at) {
	int status;
	pid_t child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		_exit(*(volatile char *)at);
	}
	MUST(child > 0 && waitpid(child, &status, 0) == child);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static int by_process(char *at) {
	struct iovec part = {at, PAGE};
	return process_madvise(SELF, &part, 1, GUARD, 0) == (ssize_t)PAGE;
}

static int by_number(char *at) {
	struct iovec part = {at, PAGE};
	return syscall(SYS_process_madvise, (long)SELF, &part, 1L, (long)GUARD, 0L) == (long)PAGE;
}

static int by_madvise(char *at) {
	return madvise(at, PAGE, GUARD) == 0;
}

static int unseen(char *at) {
	return raw(SYS_madvise, (long)at, PAGE, GUARD, 0, 0, 0) == 0;
}

int main(void) {
	int (*const ways[])(char *) = {by_process, by_number, by_madvise, unseen};
	served(LEN); // or this test shows nothing
	for (int i = 0; i < 4; i++) {
		char *p = filled(LEN);
		if (!ways[i](p + 2 * PAGE)) {
			MUST(munmap(p, LEN) == 0);
			continue;
		}
		MUST(madvise(p, LEN, MADV_DONTNEED) == 0 && is_guard(p + 2 * PAGE));
		MUST(zero(p, 2 * PAGE) && zero(p + 3 * PAGE, LEN - 3 * PAGE));
		memset(p, 7, 2 * PAGE), memset(p + 3 * PAGE, 7, LEN - 3 * PAGE);
		MUST(munmap(p, LEN) == 0 && resident(p, LEN) == -1);
		// The next ones are whole.
		for (int n = 0; n < 8; n++) {
			char *next = map(LEN);
			MUST(zero(next, LEN));
			memset(next, 7, LEN);
		}
	}
	return 0;
}
