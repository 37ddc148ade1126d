// A stack that grows (MAP_GROWSDOWN) over memory that was unmapped below it, before the stack was mapped or after: nothing
// is in its way, and no closer than the gap that the kernel keeps below it.
#include "check.h"

enum { LEN = 1024 * PAGE, STACK = 64 * PAGE, GROWTH = 600 };

static void grow(int before) {
	char *area = kept(LEN), *stack = area + LEN - STACK;
	if (!before) {
		// Anew, so that it is the program's until the stack is there.
		MUST(mmap(area, LEN, RW, ANON | MAP_FIXED, -1, 0) == area);
		memset(area, 7, LEN);
	}
	MUST(mmap(stack, STACK, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0) == stack);
	if (!before)
		MUST(munmap(area, LEN - STACK) == 0);
	for (int n = 1; n <= GROWTH; n++) {
		volatile char *page = stack - n * PAGE;
		MUST(*page == 0);
		*page = (char)n;
	}
	for (int n = 1; n <= GROWTH; n++)
		MUST(stack[-n * (long)PAGE] == (char)n);
	// Other memory comes nowhere near.
	for (int n = 0; n < 50; n++)
		MUST(munmap(filled(STACK), STACK) == 0);
	for (int n = 1; n <= GROWTH; n++)
		MUST(stack[-n * (long)PAGE] == (char)n);
}

int main(void) {
	for (int before = 0; before < 2; before++) {
		pid_t child = fork();
		if (child == 0) {
			grow(before);
			exit(0);
		}
		wait_for(child);
	}
	return 0;
}
