// What is given back or freed is left to the kernel where that takes less time: MADV_FREE of few pages, and of some where no
// other thread is at work; MADV_DONTNEED of ranges of which next to nothing is used, though they were zeroed and stayed, and
// of a page where no other thread is at work.
#include "check.h"

enum { LEN = 256 * PAGE, TIMES = 250, FREE_DROPPED = 7, ZEROED = 5 };

static volatile int over;

static void *sleeps(void *until) {
	MUST(read(*(int *)until, &(char){0}, 1) == 1);
	return 0;
}

// Not for longer than a minute.
static void *works(void *unused) {
	struct timespec now;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while (!over && now.tv_sec < 60);
	return unused;
}

// How often MADV_FREE of so much was dropped, of so many times that so many pages were touched.
static long dropped(char *at, size_t len, size_t pages) {
	long before = counter(FREE_DROPPED);
	for (int i = 0; i < TIMES; i++) {
		for (size_t page = 0; page < pages; page++)
			at[page * PAGE] = 1;
		MUST(madvise(at, len, MADV_FREE) == 0);
		// Whether others are at work is looked at every tenth of a second at most.
		usleep(1000);
	}
	return counter(FREE_DROPPED) - before;
}

// How often MADV_DONTNEED of so much was answered by zeroing, of so many times that so many pages were used.
static long zeroed(char *at, size_t len, size_t pages) {
	long before = counter(ZEROED);
	for (int i = 0; i < TIMES; i++) {
		for (size_t page = 0; page < pages; page++)
			memset(at + page * PAGE, 1, PAGE);
		MUST(madvise(at, len, MADV_DONTNEED) == 0);
		MUST(zero(at, PAGE));
		usleep(1000);
	}
	return counter(ZEROED) - before;
}

// Whatever other threads there are, if they sleep.
static void alone(char *at) {
	MUST(dropped(at, LEN, 256) > TIMES / 2);
	MUST(dropped(at, LEN / 2, 128) == 0);
	MUST(zeroed(at, LEN, 256) > TIMES * 8 / 10);
	// All of it is in memory, and zero: it stays a few times, until that is known.
	MUST(zeroed(at, LEN, 4) < TIMES / 10);
	MUST(dropped(at, LEN, 4) == 0);
	MUST(zeroed(at, PAGE, 1) == 0);
	MUST(zeroed(at, 8 * PAGE, 8) > TIMES * 8 / 10);
	MUST(zeroed(at, 8 * PAGE, 1) < TIMES / 10);
}

int main(void) {
	// A huge page would be all in memory for one byte.
	MUST(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
	char *at = map(LEN);
	alone(at);
	int until[2];
	pthread_t other;
	MUST(pipe(until) == 0 && pthread_create(&other, 0, sleeps, &until[0]) == 0);
	alone(at);
	MUST(write(until[1], "", 1) == 1 && pthread_join(other, 0) == 0);
	MUST(pthread_create(&other, 0, works, 0) == 0);
	// Until it is seen.
	for (int i = 0; i < 100 && !zeroed(at, PAGE, 1); i++)
		;
	MUST(zeroed(at, PAGE, 1) > TIMES * 8 / 10);
	MUST(dropped(at, LEN / 2, 128) > TIMES / 4);
	over = 1;
	MUST(pthread_join(other, 0) == 0);
	return 0;
}
