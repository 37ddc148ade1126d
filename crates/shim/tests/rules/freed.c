// Of what the program frees by MADV_FREE, and does not use again, no more than a bound (the argument, in KB) stays where
// the kernel can't take it: the rest is given to it. What is zeroed after that does not count as freed.
#include "check.h"

enum { PIECE = 16 * PAGE, ALL = 64 << 20, FREE_DROPPED = 7, ZEROED = 5 };

// What the kernel may take of the mapping at this address, in KB.
static long lazy_free(const char *at) {
	char line[256];
	long kb = 0;
	int is_it = 0;
	FILE *f = fopen("/proc/self/smaps", "r");
	MUST(f);
	while (fgets(line, sizeof line, f)) {
		unsigned long start, end;
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			is_it = start < (uintptr_t)at + ALL && (uintptr_t)at < end;
		else if (is_it) {
			long more;
			if (sscanf(line, "LazyFree: %ld kB", &more) == 1)
				kb += more;
		}
	}
	fclose(f);
	return kb;
}

int main(int argc, char **argv) {
	MUST(argc == 2);
	long bound = atol(argv[1]);
	// A huge page would be freed as a whole or not at all.
	MUST(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
	char *all = map(ALL);
	for (size_t at = 0; at < ALL; at += PIECE) {
		memset(all + at, 7, PIECE);
		MUST(madvise(all + at, PIECE, MADV_FREE) == 0);
	}
	MUST(counter(FREE_DROPPED) > 0); // or this test shows nothing
	// The kernel marks pages by some dozens for each CPU, so that some are not yet.
	long kept = resident(all, ALL) * 4 - lazy_free(all);
	if (kept > bound + (4 << 10)) {
		fprintf(stderr, "%ld KB stay of %ld\n", kept, bound);
		return 1;
	}
	// What was dropped is given back, so that there is room again.
	MUST(madvise(all, ALL, MADV_DONTNEED) == 0 && zero(all, ALL));
	return 0;
}
