// MADV_FREE is dropped, and never comes later: what is written after it stays.
#include "check.h"

int main(void) {
	enum { N = 64 };
	char *all[N];
	for (int i = 0; i < N; i++) {
		all[i] = filled(16 * PAGE);
		MUST(madvise(all[i], 16 * PAGE, MADV_FREE) == 0);
		memset(all[i], i + 1, 16 * PAGE);
	}
	// Trims, and memory under pressure.
	for (int i = 0; i < 300; i++)
		MUST(munmap(filled(64 * PAGE), 64 * PAGE) == 0);
	for (int i = 0; i < N; i++)
		for (size_t n = 0; n < 16 * PAGE; n += 511)
			MUST(all[i][n] == i + 1);
	return 0;
}
