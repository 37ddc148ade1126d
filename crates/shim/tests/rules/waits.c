// A fork waits for malloc's lock, whose holder is in a signal handler that wants ours.
#include "check.h"

static volatile int stop;
static pthread_t worker;

static void handler(int sig) {
	int saved = errno;
	char *p = mmap(0, 4 * PAGE, RW, ANON, -1, 0);
	p[0] = sig;
	if (munmap(p, 4 * PAGE))
		abort();
	errno = saved;
}

static void *allocate(void *arg) {
	void *all[64] = {0};
	for (unsigned i = 0; !stop; i++) {
		free(all[i % 64]);
		all[i % 64] = malloc(1 + i * 7919 % 5000);
	}
	return arg;
}

static void *signals(void *arg) {
	while (!stop) {
		pthread_kill(worker, SIGUSR1);
		usleep(50);
	}
	return arg;
}

int main(void) {
	pthread_t other;
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	alarm(40);
	sigaction(SIGUSR1, &action, 0);
	pthread_create(&worker, 0, allocate, 0);
	pthread_create(&other, 0, signals, 0);
	for (int i = 0; i < 400; i++) {
		int status = 0;
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	}
	stop = 1;
	pthread_join(worker, 0);
	pthread_join(other, 0);
	return 0;
}
