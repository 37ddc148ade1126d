// A handler on the smallest signal stack that is usual finds room for the library, also when its call is the first,
// so that what is read of the machine is read in it.
#include "check.h"

enum { LEN = 64 * PAGE, SIZE = 8192 };

static char *p;
static int which;

static void handler(int number) {
	(void)number;
	if (which == 0)
		munmap(p, LEN);
	else if (which == 1)
		madvise(p, LEN, MADV_DONTNEED);
	else if (which == 2)
		map(LEN);
	else if (which == 3)
		madvise(p, LEN, MADV_FREE);
	else if (which == 4)
		// Again and again, of a size that is not looked at.
		for (int n = 0; n < 8; n++) {
			memset(p, 7, 2 * PAGE);
			madvise(p, 2 * PAGE, MADV_DONTNEED);
		}
	else
		mremap(p, LEN, 2 * LEN, MREMAP_MAYMOVE);
}

// In a process of its own, so that each is the first of its kind.
static void first(int what) {
	which = what;
	p = filled(LEN);
	// What is below the stack faults.
	char *low = (char *)syscall(SYS_mmap, 0, 2 * SIZE, PROT_NONE, ANON, -1, 0), *stack = low + SIZE;
	MUST(syscall(SYS_mprotect, stack, SIZE, RW) == 0);
	stack_t alternate = {.ss_sp = stack, .ss_size = SIZE};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	MUST(sigaltstack(&alternate, 0) == 0 && sigaction(SIGUSR1, &action, 0) == 0);
	MUST(raise(SIGUSR1) == 0);
}

int main(void) {
	for (int what = 0; what < 6; what++) {
		pid_t child = fork();
		if (child == 0) {
			first(what);
			exit(0);
		}
		wait_for(child);
	}
	return 0;
}
