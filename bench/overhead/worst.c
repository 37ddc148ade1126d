/*
 * The worst case for a tracer of shootdowns: two pinned threads that do nothing but touch a page
 * of their own and give it back with MADV_DONTNEED, so that each call interrupts the other CPU.
 *
 *   worst OPERATIONS [CPU CPU]
 *
 * prints three numbers: the wall time of one operation of one thread in ns, by how much TLB: in
 * /proc/interrupts grew meanwhile, and the time in ns that a quarter of all operations stay below. On a
 * shared machine the first has in it what the host takes away, which the last does not feel.
 *
 * Built with frame pointers, so that tracers that unwind user stacks do their full work.
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
#include <x86intrin.h>

/* Times of operations: ticks of the time stamp counter, 16 to a step; the last is for all that is longer. */
#define STEPS 16384
#define STEP_LOG2 4

static pthread_barrier_t start;
static long operations;

struct worker {
	int cpu;
	pthread_t thread;
	double seconds;
	long ticks;
	unsigned times[STEPS];
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* The interrupts for shootdowns that all CPUs had since boot, -1 if the kernel doesn't say. */
static long interrupts(void)
{
	FILE *file = fopen("/proc/interrupts", "r");
	char *line = NULL, *at, *end;
	size_t room = 0;
	long sum = -1;

	while (file && getline(&line, &room, file) > 0) {
		if (!(at = strstr(line, "TLB:")))
			continue;
		sum = 0;
		for (at += 4;; at = end) {
			long n = strtol(at, &end, 10);

			if (end == at)
				break;
			sum += n;
		}
		break;
	}
	if (file)
		fclose(file);
	free(line);
	return sum;
}

static __attribute__((noinline)) void give_back(volatile char *page)
{
	*page = 1;
	if (madvise((void *)page, 4096, MADV_DONTNEED)) {
		perror("worst: madvise");
		exit(1);
	}
}

static void *churn(void *arg)
{
	struct worker *w = arg;
	cpu_set_t set;
	char *page;
	unsigned long first, last;
	double begin;

	CPU_ZERO(&set);
	CPU_SET(w->cpu, &set);
	if ((errno = pthread_setaffinity_np(pthread_self(), sizeof(set), &set))) {
		fprintf(stderr, "worst: can't run on CPU %d: %s\n", w->cpu, strerror(errno));
		exit(1);
	}
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED) {
		perror("worst: mmap");
		exit(1);
	}
	pthread_barrier_wait(&start);
	begin = now();
	first = last = __rdtsc();
	for (long i = 0; i < operations; i++) {
		unsigned long t, step;

		give_back(page);
		t = __rdtsc();
		step = (t - last) >> STEP_LOG2;
		w->times[step < STEPS ? step : STEPS - 1]++;
		last = t;
	}
	w->seconds = now() - begin;
	w->ticks = last - first;
	return NULL;
}

/* A quarter of the operations of both threads take less than that, ns. */
static double lower_quartile(const struct worker *w)
{
	long seen = 0, step;

	for (step = 0; step < STEPS && seen < operations / 2; step++)
		seen += w[0].times[step] + w[1].times[step];
	return (double)(step << STEP_LOG2) * w->seconds * 1e9 / w->ticks;
}

int main(int argc, char **argv)
{
	static struct worker w[2] = { { .cpu = 0 }, { .cpu = 1 } };
	double longest = 0;
	long before;

	if ((argc != 2 && argc != 4) || (operations = atol(argv[1])) < 1) {
		fprintf(stderr, "usage: worst OPERATIONS [CPU CPU]\n");
		return 2;
	}
	if (argc == 4)
		for (int i = 0; i < 2; i++)
			w[i].cpu = atoi(argv[2 + i]);
	pthread_barrier_init(&start, NULL, 2);
	before = interrupts();
	for (int i = 0; i < 2; i++)
		if ((errno = pthread_create(&w[i].thread, NULL, churn, &w[i]))) {
			perror("worst: pthread_create");
			return 1;
		}
	for (int i = 0; i < 2; i++) {
		pthread_join(w[i].thread, NULL);
		if (w[i].seconds > longest)
			longest = w[i].seconds;
	}
	printf("%.1f %ld %.1f\n", longest * 1e9 / operations, interrupts() - before, lower_quartile(w));
	return 0;
}
