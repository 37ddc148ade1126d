/*
 * What the workloads share: two threads, each on a CPU of its own, that take blocks of memory, write
 * to every page, and give back blocks that either of them took. The content of each block is checked
 * before it is given back, so that a remedy that loses data fails the run.
 *
 * Sizes follow from the seed and the number of the operation, whichever thread does it; so both
 * threads work to the end, and each CPU has something to be interrupted for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { THREADS = 2, PAGE = 4096 };

struct block {
	char *at;
	size_t size;
	uint64_t tag;
};

static long operations;
static uint64_t seed = 1;
static int cpu_of[THREADS];
static pthread_barrier_t together;

static void fail(const char *what)
{
	fprintf(stderr, "workload: %s\n", what);
	exit(1);
}

static uint64_t mixed(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Between the two, each power of two as likely as the next; most is least times a power of two. */
static size_t size_of(uint64_t random, size_t least, size_t most)
{
	int powers = 0;
	size_t base;

	while (least << (powers + 1) <= most)
		powers++;
	base = least << random % powers;
	return base + (random >> 16) % base;
}

static void put_word(char *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

static uint64_t word(const char *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/*
 * Writes first, to every page of the block, and then looks whether the rest was zero where it has to
 * be: a read of a fresh page would map the shared page of zeros, and cost a shootdown at the write,
 * which no calloc asks for.
 */
static struct block filled(char *at, size_t size, uint64_t tag, int zeroed)
{
	size_t last = size - 8;

	if (!at)
		fail("out of memory");
	for (size_t i = 0; i < last; i += PAGE)
		put_word(at + i, tag ^ i);
	put_word(at + last, ~tag);
	for (size_t i = 0; zeroed && i < last; i += PAGE)
		for (size_t j = i + 8; j < i + PAGE && j + 8 <= last; j += 8)
			if (word(at + j))
				fail("memory that has to be zero is not");
	return (struct block){ at, size, tag };
}

static void check(struct block b)
{
	size_t last = b.size - 8;

	if (word(b.at + last) != ~b.tag)
		fail("the end of a block has changed");
	for (size_t i = 0; i + 8 <= last; i += PAGE)
		if (word(b.at + i) != (b.tag ^ i))
			fail("the content of a block has changed");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void find_cpus(void)
{
	cpu_set_t may;
	int found = 0;

	if (sched_getaffinity(0, sizeof(may), &may))
		fail("can't read which CPUs it may use");
	for (int cpu = 0; cpu < CPU_SETSIZE && found < THREADS; cpu++)
		if (CPU_ISSET(cpu, &may))
			cpu_of[found++] = cpu;
	if (found < THREADS)
		fail("needs two CPUs: a shootdown takes two");
}

static void stay_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one))
		fail("can't stay on a CPU");
}

/* Runs `work` in both threads, given 0 and 1, and prints the one line. */
static int run(int argc, char **argv, void *(*work)(void *))
{
	pthread_t thread[THREADS];
	double begin;

	if (argc < 2 || argc > 3 || (operations = atol(argv[1])) < 1) {
		fprintf(stderr, "usage: %s OPERATIONS [SEED]\n", argv[0]);
		return 2;
	}
	if (argc == 3)
		seed = strtoull(argv[2], NULL, 0);
	find_cpus();
	pthread_barrier_init(&together, NULL, THREADS);
	begin = now();
	for (intptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)i))
			fail("can't start a thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("operations %ld ns %.0f\n", operations, now() - begin);
	return 0;
}
