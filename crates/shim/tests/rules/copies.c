// Copies of a process that the library is not told of: by _Fork(3), and by clone(2) by its number, while other threads map
// and unmap. The tables in a copy may be in the middle of anything. So the library is off there: nothing is kept, nobody
// waits for a thread that is not there, and what the copy maps and protects is the kernel's business.
#include "check.h"
#include <sys/resource.h>

enum { LEN = 16 * PAGE, ROUNDS = 150 };

static volatile int stop;

// In a copy, where the C library's locks may be held for good.
#define SURE(what)                                                      \
	do {                                                            \
		if (!(what)) {                                          \
			static const char text[] = "in a copy: " #what "\n"; \
			_exit(write(2, text, sizeof text - 1) > 0 ? 1 : 2); \
		}                                                       \
	} while (0)

static void *churn(void *arg) {
	for (size_t n = 0; !stop; n++) {
		size_t len = (1 + n % 40) * 4 * PAGE;
		char *p = map(len);
		memset(p, 1, len);
		if (n % 3 == 0)
			MUST(madvise(p, len, MADV_DONTNEED) == 0 && zero(p, len));
		memset(p, 2, len);
		if (n % 5 == 0)
			MUST(mprotect(p, PAGE, PROT_READ) == 0);
		MUST(munmap(p, len) == 0);
	}
	return arg;
}

static void in_copy(char *own) {
	struct rusage used;
	alarm(20);
	SURE(own[0] == 42 && own[LEN - 1] == 43);
	for (int i = 0; i < 50; i++) {
		char *p = mmap(0, LEN, RW, ANON, -1, 0);
		SURE(p != MAP_FAILED && zero(p, LEN));
		memset(p, 9, LEN);
		SURE(mprotect(p, PAGE, PROT_READ) == 0 && mprotect(p, PAGE, RW) == 0);
		SURE(madvise(p, LEN, MADV_DONTNEED) == 0 && zero(p, LEN));
		memset(p, 9, LEN);
		SURE(munmap(p, LEN) == 0 && resident(p, LEN) == -1);
		SURE(mmap(p, LEN, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == p && zero(p, LEN));
		SURE(munmap(p, LEN) == 0);
	}
	SURE(madvise(own, PAGE, MADV_DONTNEED) == 0 && own[0] == 0);
	SURE(munmap(own, LEN) == 0 && resident(own, LEN) == -1);
	SURE(counter(OFF) == 1);
	// Each time that it waits for somebody it gives up the CPU.
	SURE(getrusage(RUSAGE_SELF, &used) == 0 && used.ru_nvcsw < 20);
	_exit(0);
}

static pid_t copy(int way) {
	switch (way) {
	case 0:
		return _Fork();
	case 1:
		return (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
	case 2:
		return (pid_t)raw(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
	default:
		return (pid_t)syscall(SYS_fork);
	}
}

int main(void) {
	pthread_t threads[3];
	alarm(50);
	MUST(counter(OFF) == 0);
	for (int i = 0; i < 3; i++)
		MUST(pthread_create(&threads[i], 0, churn, 0) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		char *own = filled(LEN);
		own[0] = 42, own[LEN - 1] = 43;
		pid_t child = copy(i % 4);
		if (child == 0)
			in_copy(own);
		MUST(own[0] == 42 && own[LEN - 1] == 43);
		wait_for(child);
		MUST(munmap(own, LEN) == 0);
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		MUST(pthread_join(threads[i], 0) == 0);
	// It goes on where it was started.
	MUST(counter(OFF) == 0);
	long before = counter(SERVED);
	MUST(zero(map(LEN), LEN) && counter(SERVED) > before);
	return 0;
}
