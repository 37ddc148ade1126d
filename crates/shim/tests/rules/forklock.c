// A library that was started before the program's others registers a lock with pthread_atfork(3), as
// allocators do: fork takes our lock first, and waits for that one. Its holder goes on meanwhile, and is
// held up once, not at each of its calls.
#include "check.h"

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static volatile int begun;

static void take(void) {
	pthread_mutex_lock(&own);
}

static void leave(void) {
	pthread_mutex_unlock(&own);
}

static long ms(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Before the preload library's own: it is asked after that one then.
static void first(void) {
	pthread_atfork(take, leave, leave);
}
__attribute__((section(".preinit_array"), used)) static void (*before)(void) = first;

static void *purges(void *unused) {
	char *p = filled(64 * PAGE);
	take();
	begun = 1;
	usleep(50000);
	long start = ms();
	for (int n = 0; n < 300; n++)
		MUST(madvise(p, 64 * PAGE, MADV_DONTNEED) == 0);
	MUST(ms() - start < 1000);
	leave();
	MUST(zero(p, 64 * PAGE));
	MUST(munmap(p, 64 * PAGE) == 0);
	return unused;
}

int main(void) {
	pthread_t thread;
	for (int round = 0; round < 2; round++) {
		begun = 0;
		MUST(pthread_create(&thread, 0, purges, 0) == 0);
		while (!begun)
			usleep(1000);
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		MUST(child > 0 && waitpid(child, 0, 0) == child && pthread_join(thread, 0) == 0);
	}
	// It is not off.
	kept(64 * PAGE);
	return 0;
}
