/*
 * Churn: each operation takes a block, puts it into a slot that chance names, and gives back the block
 * that was there, which the other thread may have taken.
 */
#include "common.h"

/* Of each workload. */
static char *take(size_t size);
static void give(char *at, size_t size);
static const size_t least, most;
static const int zeroed;

enum { MOST_SLOTS = 128 };
static const int slots;

static struct {
	pthread_mutex_t lock;
	struct block block;
} table[MOST_SLOTS];
static atomic_long next_operation;

static void put(int slot, struct block new)
{
	struct block old;

	pthread_mutex_lock(&table[slot].lock);
	old = table[slot].block;
	table[slot].block = new;
	pthread_mutex_unlock(&table[slot].lock);
	if (!old.at)
		return;
	check(old);
	give(old.at, old.size);
}

static void *churn(void *arg)
{
	long i;

	stay_on(cpu_of[(intptr_t)arg]);
	pthread_barrier_wait(&together);
	while ((i = atomic_fetch_add(&next_operation, 1)) < operations) {
		uint64_t random = mixed(seed << 32 ^ i);
		size_t size = size_of(random, least, most);

		put(mixed(random) % slots, filled(take(size), size, random, zeroed));
	}
	pthread_barrier_wait(&together);
	for (int slot = (intptr_t)arg; slot < slots; slot += THREADS)
		put(slot, (struct block){ 0 });
	return NULL;
}

int main(int argc, char **argv)
{
	for (int slot = 0; slot < slots; slot++)
		pthread_mutex_init(&table[slot].lock, NULL);
	return run(argc, argv, churn);
}
