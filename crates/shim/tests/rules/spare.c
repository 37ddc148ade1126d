// What is kept and was not needed for a second is given back, while the program makes other calls.
#include "check.h"

enum { LEN = 1024 * PAGE };

int main(void) {
	alarm(50);
	for (int round = 0; round < 2; round++) {
		char *p = kept(LEN), *q = kept(LEN / 2);
		MUST(counter(DIRTY) > 0);
		do {
			MUST(munmap(filled(4 * PAGE), 4 * PAGE) == 0);
			usleep(1000);
		} while (resident(p, LEN) != -1 || resident(q, LEN / 2) != -1 || counter(DIRTY) > 8 * (long)PAGE);
	}
	return 0;
}
