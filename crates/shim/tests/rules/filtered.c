// A program that was started under a filter which kills for what only the library asks of the kernel, as
// systemd's SystemCallFilter= does: it makes none of those calls, and so it can't find out what memory is, and keeps none.
#include "check.h"
#include "filter.h"

static void close_door(void) {
	struct sock_filter code[] = {
		NUMBER,
		KILL(440), // process_madvise
		KILL(SYS_mincore), KILL(SYS_process_vm_readv), KILL(SYS_clock_gettime), KILL(SYS_getpid),
		ALLOW_ALL_ELSE,
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}

int main(int argc, char **argv) {
	if (argc == 1) {
		char *again[] = { argv[0], "again", 0 };
		close_door();
		execv("/proc/self/exe", again);
		return 1;
	}
	size_t len = 64 * PAGE;
	char *p = filled(len);
	int ends[2];
	MUST(pipe(ends) == 0 && write(ends[1], p, 1) == 1);
	MUST(munmap(p, len) == 0 && write(ends[1], p, 1) == -1 && errno == EFAULT);
	MUST(zero(map(len), len) && counter(KEPT) == 0);
	for (int n = 0; n < 500; n++) {
		char *a = filled((1 + n % 40) * 8 * PAGE), *b = filled(len);
		MUST(madvise(b, len, MADV_DONTNEED) == 0 && zero(b, len));
		MUST(madvise(b, PAGE, MADV_DONTNEED) == 0 && madvise(b, len, MADV_FREE) == 0);
		MUST(munmap(a, (1 + n % 40) * 8 * PAGE) == 0 && munmap(b, len) == 0);
	}
	MUST(counter(KEPT) == 0 && counter(SERVED) == 0);
	p = map(len);
	MUST(zero(p, len) && mremap(p, len, 2 * len, MREMAP_MAYMOVE) != MAP_FAILED);
	return 0;
}
