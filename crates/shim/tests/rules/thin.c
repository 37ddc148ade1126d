// Memory of a size that was used densely before is kept for the next mapping; once the mappings of that size are used
// thinly, what is kept is not zeroed for them, and none finds pages in memory that it did not touch.
#include "check.h"

enum { LEN = 64 * PAGE, TIMES = 500 };

int main(void) {
	for (int i = 0; i < TIMES; i++)
		MUST(munmap(filled(LEN), LEN) == 0);
	long dense = counter(SERVED);
	MUST(dense > TIMES * 9 / 10); // or this test shows nothing
	int with_pages = 0;
	for (int i = 0; i < TIMES; i++) {
		char *p = map(LEN);
		p[5 * PAGE] = 1;
		with_pages += resident(p, LEN) > 1;
		MUST(munmap(p, LEN) == 0);
	}
	// Nobody knows before the first one, and one among many that were dense says nothing yet.
	MUST(with_pages <= 2 && counter(SERVED) - dense <= 2);
	// A page here and there is not dense either, and what was only read is nobody's.
	dense = counter(SERVED);
	for (int i = 0; i < TIMES; i++) {
		char *p = map(LEN);
		MUST(zero(p, LEN));
		for (int n = 1; n < 64; n += 4)
			p[n * PAGE] = 1;
		MUST(munmap(p, LEN) == 0);
	}
	MUST(counter(SERVED) == dense);
	// One in twenty that is used thinly ends nothing: after it none is kept, so one more is not served. One in three does.
	for (int each = 20; each >= 3; each -= 17) {
		size_t len = each * 16 * PAGE;
		long before = counter(SERVED);
		for (int i = 1; i <= TIMES; i++) {
			char *p = i % each ? filled(len) : map(len);
			p[5 * PAGE] = 1;
			MUST(munmap(p, len) == 0);
		}
		long served = counter(SERVED) - before;
		MUST(each == 20 ? served > TIMES * 17 / 20 : served < TIMES / 2);
	}
	return 0;
}
