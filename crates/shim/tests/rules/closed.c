// From the moment that the program forbids itself system calls, none is made that it does not make itself:
// the filter kills for any but those for memory, and for writing and leaving.
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#define ALLOW(number)                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##number, 0, 1),     \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(void) {
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(mmap), ALLOW(munmap), ALLOW(madvise), ALLOW(mprotect), ALLOW(mremap), ALLOW(write), ALLOW(exit_group), ALLOW(futex),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
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
