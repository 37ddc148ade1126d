// From the moment that the program forbids itself system calls, none is made that it does not make itself:
// the filter kills for any but those for memory, and for writing and leaving.
#include "check.h"
#include "filter.h"

int main(void) {
	struct sock_filter code[] = {
		NUMBER,
		ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_madvise), ALLOW(SYS_mprotect),
		ALLOW(SYS_mremap), ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_futex),
		KILL_ALL_ELSE,
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	char *p = filled(64 * PAGE), *q = filled(256 * PAGE);
	MUST(munmap(p, 64 * PAGE) == 0);
	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
	for (int n = 0; n < 500; n++) {
		p = filled(64 * PAGE);
		MUST(madvise(p, 64 * PAGE, MADV_DONTNEED) == 0 && zero(p, 64 * PAGE));
		MUST(madvise(p, 64 * PAGE, MADV_FREE) == 0);
		MUST(mprotect(p, PAGE, PROT_READ) == 0);
		MUST(munmap(p, 64 * PAGE) == 0);
	}
	char *to = map(64 * PAGE);
	p = filled(64 * PAGE);
	MUST(mremap(p, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to && to[0] == 7);
	MUST(munmap(q, 256 * PAGE) == 0);
	return 0;
}
