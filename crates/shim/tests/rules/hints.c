// Where a mapping asks for an address without insisting: it gets it if it is free, and another thing that is kept only
// where it is said that no more than a multiple of 32 MB is meant. An address of 32 bits is always meant.
#include "check.h"

enum { LEN = 16 * PAGE };

int main(void) {
	const char *settings = getenv("QUELL_SHIM");
	int loose = settings && strstr(settings, "hint=");
	char *high = (char *)(0x200000000000UL), *other = high + (1UL << 30), *low = (char *)0x20000000UL;
	char *kept = mmap(high, LEN, RW, ANON, -1, 0);
	MUST(kept == high);
	memset(kept, 7, LEN);
	MUST(munmap(kept, LEN) == 0 && resident(kept, LEN) == 16);

	char *p = mmap(low, LEN, RW, ANON, -1, 0);
	MUST(p == low && zero(p, LEN) && munmap(p, LEN) == 0);
	// What is kept at `low` is newer, and may serve too.
	p = mmap(other, LEN, RW, ANON, -1, 0);
	MUST(p == (loose ? kept : other) || (loose && p == low));
	MUST(zero(p, LEN));
	// Larger than anything that is kept: as it asks for it.
	char *large = other + (1UL << 30);
	MUST(mmap(large, 4 * LEN, RW, ANON, -1, 0) == large);
	// Without a hint anything serves.
	MUST(munmap(p, LEN) == 0);
	char *q = map(LEN);
	MUST((q == p || q == kept || q == low) && zero(q, LEN));
	return 0;
}
