// What is given back or freed is left to the kernel where that takes less time: MADV_FREE of a program with one thread, and
// of few pages; MADV_DONTNEED of ranges of which next to nothing is used, though they were zeroed and stayed.
#include "check.h"

enum { LEN = 256 * PAGE, TIMES = 250, FREE_DROPPED = 7, ZEROED = 5 };

static void *sleeps(void *until) {
	MUST(read(*(int *)until, &(char){0}, 1) == 1);
	return 0;
}

// How often MADV_FREE was dropped, of so many times that so many pages were touched.
static long dropped(char *at, size_t pages) {
	long before = counter(FREE_DROPPED);
	for (int i = 0; i < TIMES; i++) {
		for (size_t page = 0; page < pages; page++)
			at[page * PAGE] = 1;
		MUST(madvise(at, LEN, MADV_FREE) == 0);
		// How many threads there are is looked at every tenth of a second at most.
		usleep(1000);
	}
	return counter(FREE_DROPPED) - before;
}

// How often MADV_DONTNEED was answered by zeroing, of so many times that so many pages were used.
static long zeroed(char *at, size_t pages) {
	long before = counter(ZEROED);
	for (int i = 0; i < TIMES; i++) {
		for (size_t page = 0; page < pages; page++)
			memset(at + page * PAGE, 1, PAGE);
		MUST(madvise(at, LEN, MADV_DONTNEED) == 0);
		MUST(zero(at, PAGE));
	}
	return counter(ZEROED) - before;
}

int main(void) {
	// A huge page would be all in memory for one byte.
	MUST(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
	char *at = map(LEN);
	MUST(dropped(at, 256) == 0);
	MUST(zeroed(at, 256) > TIMES * 8 / 10);
	int until[2];
	pthread_t other;
	MUST(pipe(until) == 0 && pthread_create(&other, 0, sleeps, &until[0]) == 0);
	MUST(dropped(at, 256) > TIMES / 2);
	MUST(zeroed(at, 256) > TIMES * 8 / 10);
	// All of it is in memory, and zero: it stays a few times, until that is known.
	MUST(zeroed(at, 4) < TIMES / 10);
	MUST(dropped(at, 4) == 0);
	MUST(write(until[1], "", 1) == 1 && pthread_join(other, 0) == 0);
	return 0;
}
