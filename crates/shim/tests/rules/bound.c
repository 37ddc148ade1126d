// The settings say that nothing more is kept from 64 MB of resident memory on. Phases that together need
// twice as much: what one leaves goes before the next has come far above the bound; a large region goes
// in part, and what of it stays serves again. No more than 64 MB ever stay.
#include "check.h"

#define MB (1UL << 20)

int main(void) {
	long bound = 64 << 10;
	for (int phase = 0; phase < 8; phase++) {
		size_t len = (2 + phase % 3) * MB;
		char *all[16];
		for (int n = 0; n < 16; n++) {
			all[n] = filled(len);
			MUST(all[n][0] == 7 && all[n][len - 1] == 7);
		}
		for (int n = 0; n < 16; n++)
			MUST(munmap(all[n], len) == 0);
		MUST(rss() < bound + (12 << 10)); // and what comes between two looks
	}
	// 40 MB are kept, and 40 more are too much.
	char *large = filled(40 * MB), *more = filled(40 * MB);
	MUST(munmap(large, 40 * MB) == 0 && munmap(more, 40 * MB) == 0);
	MUST(rss() < bound + (4 << 10) && rss() > bound / 2);
	long before = counter(SERVED);
	for (int n = 0; n < 40; n++)
		MUST(zero(map(MB), MB));
	MUST(counter(SERVED) - before >= 20);
	// More than may ever stay.
	large = filled(80 * MB);
	MUST(munmap(large, 80 * MB) == 0 && mincore(large, PAGE, (unsigned char[1]){0}) == -1);
	return 0;
}
