// One thread gives memory back, beside which there is a hole; another maps into the hole, writes there, and unmaps around it.
// What it has written stays, and nobody faults: a page of the library's never comes there meanwhile.
#include "check.h"
#include <sched.h>

#define LEN (16 * PAGE)

static char *_Atomic wanted;
static _Atomic int at_work, stop;

static void *gives_back(void *unused) {
	while (!stop) {
		at_work = 1;
		char *p = wanted;
		if (p) {
			memset(p, 7, LEN);
			MUST(madvise(p, LEN, MADV_DONTNEED) == 0);
		}
		at_work = 0;
	}
	return unused;
}

static void wait_some(int rounds) {
	for (volatile int n = 0; n < rounds; n++)
		;
}

int main(void) {
	pthread_t thread;
	MUST(pthread_create(&thread, 0, gives_back, 0) == 0);
	for (int n = 0; n < 20000; n++) {
		// A hole, the memory, and nothing else beside it.
		char *p = mmap(0, LEN + 3 * PAGE, PROT_NONE, ANON, -1, 0), *hole = p + PAGE;
		MUST(p != MAP_FAILED && munmap(hole, PAGE) == 0);
		char *memory = mmap(hole + PAGE, LEN, RW, ANON | MAP_FIXED, -1, 0);
		MUST(memory == hole + PAGE);
		wanted = memory;
		wait_some(rand() % 20000);
		switch (n % 3) {
		case 0:
			MUST(mmap(hole, PAGE, RW, ANON | MAP_FIXED, -1, 0) == hole);
			break;
		case 1:
			MUST(mmap(hole, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == hole);
			break;
		case 2:
			MUST(munmap(p, 2 * PAGE) == 0);
			break;
		}
		if (n % 3 < 2) {
			memset(hole, 9, PAGE);
			wait_some(2000);
			for (size_t i = 0; i < PAGE; i++)
				MUST(hole[i] == 9);
		}
		wanted = 0;
		while (at_work)
			sched_yield();
		MUST(munmap(p, LEN + 3 * PAGE) == 0);
	}
	stop = 1;
	MUST(pthread_join(thread, 0) == 0);
	return 0;
}
