// One thread takes the right to write and gives it again, another one asks for memory to be given back: the
// kernel does one after the other, and nobody faults.
#include "check.h"

static char *p;
static const size_t len = 64 << 10;
static volatile int stop;

static void *protects(void *unused) {
	while (!stop)
		MUST(mprotect(p, len, PROT_READ) == 0 && mprotect(p, len, RW) == 0);
	return unused;
}

int main(void) {
	pthread_t thread;
	struct timespec now, begin;
	p = filled(len);
	MUST(pthread_create(&thread, 0, protects, 0) == 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (int n = 0; n < 1000; n++)
			MUST(madvise(p, len, MADV_DONTNEED) == 0);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec < 2);
	stop = 1;
	MUST(pthread_join(thread, 0) == 0 && zero(p, len));
	p[len - 1] = 1;
	return 0;
}
