// What the program has let the kernel have by MADV_FREE, and unmapped then, is taken while it is kept: it goes all the same when
// nothing is to be kept any more.
#include "check.h"

static const size_t LEN = 256 * PAGE;

int main(void) {
	char *p = filled(LEN);
	MUST(madvise(p, 16 * PAGE, MADV_FREE) == 0);
	MUST(munmap(p, LEN) == 0);
	MUST(counter(KEPT) == 1);
	// As the kernel does where memory is short. What is dirty stays, as there is no swap, or is swapped out.
	(void)raw(SYS_madvise, (long)p, LEN, MADV_PAGEOUT, 0, 0, 0);
	unsigned long nodes = 1;
	(void)syscall(SYS_set_mempolicy, 2L, &nodes, 64L);
	MUST(counter(DIRTY) == 0);
	unsigned char there[256];
	for (size_t n = 0; n < 256; n++)
		MUST(mincore(p + n * PAGE, PAGE, there) == -1 && errno == ENOMEM);
	return 0;
}
