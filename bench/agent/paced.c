/*
 * Shootdowns at a steady rate: one thread gives back a page of its own with MADV_DONTNEED, so many times a second, while
 * another of the same process spins on another CPU and is interrupted each time.
 *
 *   paced RATE SECONDS [CPU CPU]
 *
 * Prints how many calls it made. Both threads end by the clock, whatever happens.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double seconds;
static struct timespec start;
static int cpus[2] = { 0, 1 };

static void fail(const char *doing)
{
	fprintf(stderr, "paced: %s: %s\n", doing, strerror(errno));
	exit(2);
}

static double elapsed(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void *victim(void *arg)
{
	pin(cpus[1]);
	while (elapsed() < seconds)
		;
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	double rate;
	long calls = 0;
	char *page;

	if ((argc != 3 && argc != 5) || (rate = atof(argv[1])) <= 0 || (seconds = atof(argv[2])) <= 0) {
		fprintf(stderr, "usage: paced RATE SECONDS [CPU CPU]\n");
		return 2;
	}
	for (int i = 3; i < argc; i++)
		cpus[i - 3] = atoi(argv[i]);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		fail("mmap");
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (pthread_create(&thread, NULL, victim, NULL))
		fail("pthread_create");
	pin(cpus[0]);
	while (elapsed() < seconds) {
		const struct timespec pause = { 0, 1000 * 1000 };

		/* what is due by now: a late wake-up is made up for */
		while ((double)calls < rate * elapsed() && elapsed() < seconds) {
			*(volatile char *)page = 1;
			if (madvise(page, 4096, MADV_DONTNEED))
				fail("madvise");
			calls++;
		}
		nanosleep(&pause, NULL);
	}
	pthread_join(thread, NULL);
	printf("%ld\n", calls);
	return 0;
}
