/*
 * Phases: both threads grow, each frees all that the other took, and both pause, for longer than the
 * 10 ms after which allocators think of giving memory back.
 */
#include "common.h"

enum { BURST = 48, PAUSE_NS = 12000000 };

static struct block held[THREADS][BURST];

static void *phases(void *arg)
{
	int self = (intptr_t)arg, other = 1 - self;
	long each = operations / THREADS;

	stay_on(cpu_of[self]);
	for (long done = 0; done < each; done += BURST) {
		long count = each - done < BURST ? each - done : BURST;

		pthread_barrier_wait(&together);
		for (long i = 0; i < count; i++) {
			uint64_t random = mixed(seed << 32 ^ (done + i) * THREADS ^ self);
			size_t size = size_of(random, 64 << 10, 4 << 20);

			held[self][i] = filled(malloc(size), size, random, 0);
		}
		pthread_barrier_wait(&together);
		for (long i = 0; i < count; i++) {
			check(held[other][i]);
			free(held[other][i].at);
		}
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	return run(argc, argv, phases);
}
