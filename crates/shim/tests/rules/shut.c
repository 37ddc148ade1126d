// A program that forbids itself system calls by a call that nobody sees, as the Go parts of a program do: the library
// finds it before it makes a call that the filter kills for.
#include "check.h"
#include "filter.h"
#include <sys/resource.h>
#include <sys/uio.h>

static void close_door(void) {
	struct sock_filter code[] = {
		NUMBER,
		KILL(440), // process_madvise
		KILL(SYS_mincore), KILL(SYS_process_vm_readv), KILL(SYS_openat), KILL(SYS_open), KILL(SYS_getpid), KILL(SYS_ioctl),
		KILL(SYS_msync), KILL(SYS_pread64), KILL(SYS_read), KILL(SYS_prlimit64), KILL(SYS_getdents64), KILL(SYS_readlinkat),
		ALLOW_ALL_ELSE,
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	MUST(raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0) == 0);
	MUST(raw(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program, 0, 0, 0) == 0);
}

static void *use(void *nothing) {
	for (int n = 0; n < 500; n++) {
		size_t len = (size_t)(1 + n % 40) * 8 * PAGE;
		char *a = filled(len), *b = filled(64 * PAGE);
		MUST(madvise(b, 64 * PAGE, MADV_DONTNEED) == 0 && zero(b, 64 * PAGE));
		MUST(madvise(b, 64 * PAGE, MADV_FREE) == 0 && mprotect(b, PAGE, PROT_READ) == 0);
		MUST(munmap(a, len) == 0 && munmap(b, 64 * PAGE) == 0);
	}
	return nothing;
}

// Each way first by itself: which call of the library's would be the first differs.
int main(void) {
	for (int way = 0; way < 9; way++) {
		pid_t child = fork();
		if (child > 0) {
			wait_for(child);
			continue;
		}
		char *q = filled(256 * PAGE), *p = kept(64 * PAGE);
		struct iovec part = { q, PAGE };
		struct rlimit limit = { 4UL << 30, 4UL << 30 };
		int ends[2];
		MUST(pipe(ends) == 0);
		close_door();
		switch (way) {
		case 0:
			MUST((p = map(64 * PAGE)) && zero(p, 64 * PAGE));
			break;
		case 1:
			MUST(munmap(q, 256 * PAGE) == 0);
			break;
		case 2:
			MUST(madvise(q, 256 * PAGE, MADV_DONTNEED) == 0 && zero(q, 256 * PAGE));
			break;
		case 3:
			MUST(madvise(q, 8 * PAGE, MADV_DONTNEED) == 0 && zero(q, 8 * PAGE));
			break;
		case 4:
			MUST(vmsplice(ends[1], (void *)8, 1, 0) == -1 && errno == EFAULT);
			MUST(vmsplice(ends[1], &part, 1, 0) == PAGE);
			break;
		case 5:
			MUST(syscall(SYS_setrlimit, RLIMIT_AS, &limit) == 0);
			break;
		case 6:
			if ((child = fork()) == 0) {
				MUST(madvise(q, 256 * PAGE, MADV_DONTNEED) == 0 && zero(q, 256 * PAGE));
				_exit(0);
			}
			wait_for(child);
			MUST(madvise(q, 8 * PAGE, MADV_DONTNEED) == 0 && zero(q, 8 * PAGE));
			break;
		case 7:
			MUST(mremap(q, 256 * PAGE, 128 * PAGE, 0) == q);
			break;
		default:
			MUST(madvise(q, 256 * PAGE, MADV_FREE) == 0 && mprotect(q, 256 * PAGE, PROT_READ) == 0);
		}
		long before = counter(SERVED);
		pthread_t threads[4];
		for (int n = 0; n < 4; n++)
			MUST(pthread_create(&threads[n], 0, use, 0) == 0);
		for (int n = 0; n < 4; n++)
			MUST(pthread_join(threads[n], 0) == 0);
		MUST(counter(SERVED) == before && counter(DIRTY) == 0);
		_exit(0);
	}
	return 0;
}
