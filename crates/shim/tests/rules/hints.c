// Where a mapping asks for an address without insisting: it gets it if it is free, and another thing that is kept only
// where it is said that no more than a multiple of 32 MB is meant. An address of 32 bits is always meant.
#include "check.h"

enum { LEN = 16 * PAGE };

int main(void) {
	const char *settings = getenv("QUELL_SHIM");
	int loose = settings && strstr(settings, "hint=");
	char *high = (char *)(0x200000000000UL), *other = high + (1UL << 30), *low = (char *)0x20000000UL;
	char *first = mmap(high, LEN, RW, ANON, -1, 0);
	MUST(first == high);
	memset(first, 7, LEN);
	MUST(munmap(first, LEN) == 0 && resident(first, LEN) == 16);

	char *p = mmap(low, LEN, RW, ANON, -1, 0);
	MUST(p == low && zero(p, LEN));
	memset(p, 7, LEN);
	MUST(munmap(p, LEN) == 0 && resident(p, LEN) == 16);
	// What is kept at `low` is newer, and may serve too.
	p = mmap(other, LEN, RW, ANON, -1, 0);
	MUST(p == (loose ? first : other) || (loose && p == low));
	MUST(zero(p, LEN));
	// Larger than anything that is kept: as it asks for it.
	char *large = other + (1UL << 30);
	MUST(mmap(large, 4 * LEN, RW, ANON, -1, 0) == large);
	// Without a hint anything serves.
	memset(p, 7, LEN);
	MUST(munmap(p, LEN) == 0);
	char *q = map(LEN);
	MUST((q == p || q == first || q == low) && zero(q, LEN));
	return 0;
}
