/*
 * A thread on every CPU spins on the time stamp counter and keeps each difference of two readings that is more than
 * eight times the least one: the way of rigtorp/hiccups, as its README tells it, for bench/lab/floor.
 *
 *   spinners CPU MILLISECONDS     prints what the thread on this CPU saw, as JSON, in ns
 *
 * It ends by the counter, and by an alarm should that fail. No thread is real-time.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define TIMES 8
#define SHORT 4096
#define MOST_GAPS (1 << 20)
#define MOST_CPUS 1024

struct spinner {
	pthread_t thread;
	int cpu;
	uint64_t least;
	uint64_t turns[SHORT]; /* by ticks, those below the threshold */
	uint64_t *gaps;
	size_t gap_count;
};

static struct spinner *spinners;
static uint64_t ticks;
static pthread_barrier_t all;

static uint64_t now(void)
{
	unsigned int cpu;
	uint64_t t = __rdtscp(&cpu);

	_mm_lfence();
	return t;
}

static void *spin(void *arg)
{
	struct spinner *s = arg;
	uint64_t begin, last, t;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(s->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		_exit(1);
	s->least = UINT64_MAX;
	for (begin = last = now(); last - begin < ticks / 20; last = t) {
		t = now();
		if (t - last < s->least)
			s->least = t - last;
	}
	pthread_barrier_wait(&all);
	for (begin = last = now(); last - begin < ticks; last = t) {
		t = now();
		if (t - last > TIMES * s->least) {
			if (s->gap_count < MOST_GAPS)
				s->gaps[s->gap_count++] = t - last;
		} else if (t - last < SHORT) {
			s->turns[t - last]++;
		}
	}
	return NULL;
}

static int by_length(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The length in ticks that a share of all turns, gaps among them, lies at or below. */
static uint64_t quantile(const struct spinner *s, double share)
{
	uint64_t total = s->gap_count, seen = 0, rank;
	int i;

	for (i = 0; i < SHORT; i++)
		total += s->turns[i];
	rank = (uint64_t)((double)total * share);
	for (i = 0; i < SHORT; i++) {
		seen += s->turns[i];
		if (seen > rank)
			return i;
	}
	return rank - seen < s->gap_count ? s->gaps[rank - seen] : 0;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct spinner *told = NULL;
	cpu_set_t allowed;
	uint64_t from;
	double at, ns;
	int i, count = 0, ms;

	if (argc != 3 || (ms = atoi(argv[2])) < 100 || ms > 60000) {
		fprintf(stderr, "usage: spinners CPU MILLISECONDS, 100 to 60000\n");
		return 2;
	}
	alarm(ms / 1000 + 10);
	/* how fast the counter is */
	at = seconds();
	from = now();
	usleep(50000);
	ns = (seconds() - at) * 1e9 / (double)(now() - from);
	ticks = (uint64_t)(ms * 1e6 / ns);
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return 1;
	spinners = calloc(MOST_CPUS, sizeof(*spinners));
	if (!spinners)
		return 1;
	for (i = 0; i < MOST_CPUS; i++)
		if (CPU_ISSET(i, &allowed))
			spinners[count++].cpu = i;
	pthread_barrier_init(&all, NULL, count);
	for (i = 0; i < count; i++) {
		struct spinner *s = &spinners[i];

		s->gaps = malloc(MOST_GAPS * sizeof(*s->gaps));
		if (!s->gaps)
			return 1;
		/* the kernel gives pages when they are written, which would be gaps of our own making */
		memset(s->gaps, 1, MOST_GAPS * sizeof(*s->gaps));
		if (s->cpu == atoi(argv[1]))
			told = s;
		if (pthread_create(&s->thread, NULL, spin, s))
			return 1;
	}
	for (i = 0; i < count; i++)
		pthread_join(spinners[i].thread, NULL);
	if (!told) {
		fprintf(stderr, "spinners: CPU %s is not one of ours\n", argv[1]);
		return 2;
	}
	qsort(told->gaps, told->gap_count, sizeof(*told->gaps), by_length);
	printf("{\"least\": %.1f, \"threshold\": %.1f, \"p50\": %.1f, \"p999\": %.1f, \"gaps\": %zu, \"smallest\": %.1f}\n",
	       told->least * ns, TIMES * told->least * ns, quantile(told, 0.5) * ns, quantile(told, 0.999) * ns,
	       told->gap_count, told->gap_count ? told->gaps[0] * ns : 0.0);
	return 0;
}
