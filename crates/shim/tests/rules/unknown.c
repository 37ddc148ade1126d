// Memory that the library has not seen being mapped is the kernel's business alone.
#include "check.h"

int main(void) {
	// Mapped past the library: unmapped at once, and DONTNEED is the kernel's.
	char *p = (char *)raw(SYS_mmap, 0, 8 * PAGE, RW, ANON, -1, 0);
	memset(p, 1, 8 * PAGE);
	MUST(madvise(p, 8 * PAGE, MADV_DONTNEED) == 0 && resident(p, 8 * PAGE) == 0);
	MUST(munmap(p, 8 * PAGE) == 0 && resident(p, 8 * PAGE) == -1);

	// By syscall(2), which is seen: kept, as by mmap(2).
	p = (char *)syscall(SYS_mmap, 0, 8 * PAGE, RW, ANON, -1, 0L);
	memset(p, 1, 8 * PAGE);
	MUST(syscall(SYS_munmap, p, 8 * PAGE) == 0);
	MUST(resident(p, 8 * PAGE) == 8);
	errno = 0;
	MUST(syscall(SYS_munmap, p + 1, PAGE) == -1 && errno == EINVAL);
	MUST(syscall(SYS_close, 9999) == -1 && errno == EBADF && syscall(SYS_getpid) == getpid());

	// Unmapped past the library while it is kept: not served, and not wiped.
	char *q = filled(16 * PAGE);
	MUST(munmap(q, 16 * PAGE) == 0);
	MUST(raw(SYS_munmap, (long)q, 16 * PAGE, 0, 0, 0, 0) == 0);
	char *again = map(16 * PAGE);
	MUST(zero(again, 16 * PAGE));
	memset(again, 3, 16 * PAGE);

	// Unmapped past the library while it is the program's: it is not mapped any more.
	q = filled(16 * PAGE);
	MUST(raw(SYS_munmap, (long)q, 16 * PAGE, 0, 0, 0, 0) == 0);
	MUST(madvise(q, 16 * PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);

	// libc's own: malloc maps and unmaps without us.
	for (int i = 0; i < 200; i++) {
		char *m = malloc(1 << 20);
		memset(m, i, 1 << 20);
		char *n = map(64 * PAGE);
		MUST(zero(n, 64 * PAGE));
		n[0] = 1;
		MUST(munmap(n, 64 * PAGE) == 0 && m[12345] == (char)i);
		free(m);
	}
	return 0;
}
