// Never more than the budget stays, whatever is unmapped; the settings say 1 MB for each kind.
#include "check.h"

int main(void) {
	long before = rss();
	for (int i = 0; i < 200; i++) {
		size_t len = (1 + i % 60) * 4 * PAGE;
		char *all[8];
		for (int n = 0; n < 8; n++)
			all[n] = filled(len);
		for (int n = 0; n < 8; n++)
			MUST(munmap(all[n], len) == 0);
		MUST(rss() - before < 1024 + 512); // and what the program itself has come to use
	}
	// Larger than all of it: unmapped.
	char *large = filled(4 << 20);
	MUST(munmap(large, 4 << 20) == 0 && resident(large, 4 << 20) == -1);
	// What was asked to be given back.
	large = filled(64 << 20);
	for (size_t at = 0; at < 64 << 20; at += 16 * PAGE)
		MUST(madvise(large + at, 16 * PAGE, MADV_DONTNEED) == 0);
	MUST(zero(large, 1 << 20));
	MUST(rss() - before < 3 * 1024);
	return 0;
}
