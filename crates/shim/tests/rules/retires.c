// Many threads want the library's lock just when it is to keep nothing any more: all that it kept goes all the same.
#include "check.h"

static volatile int ends;

static void *use(void *nothing) {
	while (!ends) {
		char *p = filled(4 * PAGE);
		MUST(munmap(p, 4 * PAGE) == 0);
	}
	return nothing;
}

int main(void) {
	for (int round = 0; round < 100; round++) {
		pid_t child = fork();
		MUST(child >= 0);
		if (child > 0) {
			wait_for(child);
			continue;
		}
		pthread_t threads[6];
		for (int n = 0; n < 6; n++)
			MUST(pthread_create(&threads[n], 0, use, 0) == 0);
		for (int ms = 0; counter(KEPT) == 0 && ms < 60000; ms++)
			usleep(1000);
		// MPOL_BIND to node 0. Whoever asks for that must not be served another node's memory, also where there are no nodes.
		unsigned long nodes = 1;
		(void)syscall(SYS_set_mempolicy, 2L, &nodes, 64L);
		ends = 1;
		for (int n = 0; n < 6; n++)
			MUST(pthread_join(threads[n], 0) == 0);
		MUST(counter(KEPT) > 0 && counter(DIRTY) == 0);
		_exit(0);
	}
	return 0;
}
