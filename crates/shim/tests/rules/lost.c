// A program that maps over what it has unmapped, or unmaps a page of it once more, by calls that the library does not see: the
// rest of such a range stays mapped, as nobody can tell any more whose it is. That does not pile up.
#include "check.h"

enum { LEN = 1 << 20, TIMES = 200, MOST_MB = 24 };

static void map_over_and_over(int unmaps) {
	char *at = (char *)0x600000000000 + (unmaps ? (1L << 36) : 0);
	long before, more;
	served(LEN); // or this test shows nothing
	before = rss();
	for (int n = 0; n < TIMES; n++, at += 2 * LEN) {
		char *p = mmap(at, LEN, RW, ANON, -1, 0), *in = p + LEN / 2;
		MUST(p != MAP_FAILED);
		memset(p, 7, LEN);
		MUST(munmap(p, LEN) == 0);
		if (unmaps) {
			MUST(raw(SYS_munmap, (long)in, PAGE, 0, 0, 0, 0) == 0);
			continue;
		}
		MUST(raw(SYS_mmap, (long)in, PAGE, RW, ANON | MAP_FIXED, -1, 0) == (long)in && zero(in, PAGE));
		*in = 9;
	}
	more = (rss() - before) >> 10;
	if (more > MOST_MB) {
		fprintf(stderr, "%ld MB stay in memory\n", more);
		exit(1);
	}
	for (int n = 1; !unmaps && n <= TIMES; n++)
		MUST(at[LEN / 2 - n * 2 * LEN] == 9);
}

int main(void) {
	for (int unmaps = 0; unmaps < 2; unmaps++) {
		pid_t child = fork();
		if (child > 0) {
			wait_for(child);
			continue;
		}
		map_over_and_over(unmaps);
		return 0;
	}
	return 0;
}
