// fork(2) among threads that map and unmap, from a handler, and vfork(2).
#include "check.h"
#include <spawn.h>

extern char **environ;
static volatile int stop;

static void *churn(void *arg) {
	while (!stop) {
		char *p = map(64 * PAGE);
		MUST(zero(p, 64 * PAGE));
		memset(p, 1, 64 * PAGE);
		MUST(madvise(p, 8 * PAGE, MADV_DONTNEED) == 0 && zero(p, 8 * PAGE));
		MUST(munmap(p, 64 * PAGE) == 0);
	}
	return arg;
}

static void in_child(char *own) {
	alarm(20);
	MUST(own[0] == 42 && own[63 * PAGE] == 43);
	for (int i = 0; i < 50; i++) {
		char *p = map(32 * PAGE);
		MUST(zero(p, 32 * PAGE));
		memset(p, 9, 32 * PAGE);
		MUST(munmap(p, 32 * PAGE) == 0);
		// Whatever was in progress in other threads is in nobody's way.
		MUST(mmap(p, 32 * PAGE, RW, ANON | MAP_FIXED, -1, 0) == p && zero(p, 32 * PAGE));
		MUST(munmap(p, 32 * PAGE) == 0);
	}
	MUST(madvise(own, PAGE, MADV_DONTNEED) == 0 && own[0] == 0);
	_exit(0);
}

static char *shared;
static void handler(int sig) {
	int status;
	pid_t child = fork();
	if (child == 0) {
		char *p = mmap(0, 16 * PAGE, RW, ANON, -1, 0);
		p[0] = sig;
		munmap(p, 16 * PAGE);
		_exit(p == MAP_FAILED);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		abort();
}

int main(void) {
	pthread_t threads[3];
	alarm(50);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, churn, 0);
	shared = map(64 * PAGE);
	for (int i = 0; i < 150; i++) {
		shared[0] = 42, shared[63 * PAGE] = 43;
		pid_t child = fork();
		if (child == 0)
			in_child(shared);
		// The parent gives back what the child still has: each has its own.
		MUST(madvise(shared, 64 * PAGE, MADV_DONTNEED) == 0 && zero(shared, 64 * PAGE));
		wait_for(child);
	}
	// Unmapped and served again in the parent while the child reads.
	for (int i = 0; i < 30; i++) {
		char *p = filled(64 * PAGE);
		int go[2];
		MUST(pipe(go) == 0);
		pid_t child = fork();
		if (child == 0) {
			char c;
			alarm(20);
			MUST(read(go[0], &c, 1) == 1 && p[0] == 7 && p[64 * PAGE - 1] == 7);
			_exit(0);
		}
		MUST(munmap(p, 64 * PAGE) == 0);
		char *again = map(64 * PAGE);
		MUST(zero(again, 64 * PAGE));
		memset(again, 1, 64 * PAGE);
		MUST(munmap(again, 64 * PAGE) == 0 && write(go[1], "x", 1) == 1);
		wait_for(child);
		close(go[0]), close(go[1]);
	}
	for (int i = 0; i < 50; i++) {
		char *arguments[] = {"true", 0};
		pid_t child;
		MUST(posix_spawnp(&child, "true", 0, 0, arguments, environ) == 0);
		wait_for(child);
		child = vfork();
		if (child == 0) {
			char *p = mmap(0, 16 * PAGE, RW, ANON, -1, 0);
			p[0] = 1;
			munmap(p, 16 * PAGE);
			_exit(0);
		}
		wait_for(child);
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);

	struct sigaction action = {.sa_handler = handler};
	sigaction(SIGALRM, &action, 0);
	struct itimerval timer = {{0, 3000}, {0, 3000}};
	setitimer(ITIMER_REAL, &timer, 0);
	for (int i = 0; i < 20000; i++) {
		char *p = filled(4 * PAGE);
		MUST(munmap(p, 4 * PAGE) == 0);
	}
	return 0;
}
