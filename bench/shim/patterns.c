/* Threads that use memory again and again, by one pattern: what bench/shim/patterns measures.
 *
 *   patterns OPERATION PATTERN BYTES THREADS CYCLES
 *
 * OPERATION  map: mmap, touch, munmap; give: touch and MADV_DONTNEED; free: touch and MADV_FREE
 * PATTERN    dense: every page is touched; thin: one page; alternate: every second; nine: all but every tenth;
 *            random: each with a chance of one half, others in each cycle; changing: dense in one cycle of
 *            two, thin in the other; once: dense in the first cycle, and thin ever after
 *
 * Prints the time of the cycles of all threads and the CPU time that the process took for them, in microseconds.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

enum { PAGE = 4096, MOST_THREADS = 64 };

static const char *operation, *pattern;
static size_t pages;
static long cycles;
static pthread_barrier_t begin, end;

static double clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void touch(volatile char *at, long cycle, unsigned *seed)
{
	char kind = pattern[0];
	size_t step = 1;

	if (!strcmp(pattern, "changing"))
		kind = cycle % 2 ? 't' : 'd';
	else if (!strcmp(pattern, "once"))
		kind = cycle ? 't' : 'd';
	if (kind == 't') {
		at[0] = 1;
		return;
	}
	if (kind == 'a')
		step = 2;
	for (size_t page = 0; page < pages; page += step) {
		if (kind == 'n' && page % 10 == 9)
			continue;
		if (kind == 'r' && rand_r(seed) % 2)
			continue;
		at[page * PAGE] = 1;
	}
}

static char *map(void)
{
	char *at = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED) {
		perror("patterns: mmap");
		exit(1);
	}
	return at;
}

static void *run(void *number)
{
	unsigned seed = 1 + (unsigned)(size_t)number;
	int advice = !strcmp(operation, "free") ? MADV_FREE : MADV_DONTNEED;
	int maps = !strcmp(operation, "map");
	char *at = maps ? 0 : map();

	pthread_barrier_wait(&begin);
	for (long cycle = 0; cycle < cycles; cycle++) {
		if (maps)
			at = map();
		touch(at, cycle, &seed);
		if (maps ? munmap(at, pages * PAGE) : madvise(at, pages * PAGE, advice)) {
			perror("patterns");
			exit(1);
		}
	}
	pthread_barrier_wait(&end);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[MOST_THREADS];
	size_t count;
	double wall, cpu;

	if (argc != 6 || strtoul(argv[3], 0, 10) < PAGE || strtoul(argv[4], 0, 10) < 1 ||
	    strtoul(argv[4], 0, 10) > MOST_THREADS || atol(argv[5]) < 1) {
		fprintf(stderr, "patterns: OPERATION PATTERN BYTES THREADS CYCLES; see the top of patterns.c\n");
		return 2;
	}
	operation = argv[1];
	pattern = argv[2];
	pages = strtoul(argv[3], 0, 10) / PAGE;
	count = strtoul(argv[4], 0, 10);
	cycles = atol(argv[5]);
	pthread_barrier_init(&begin, 0, count + 1);
	pthread_barrier_init(&end, 0, count + 1);
	for (size_t n = 0; n < count; n++)
		if (pthread_create(&threads[n], 0, run, (void *)n)) {
			fprintf(stderr, "patterns: can't start thread %zu of %zu\n", n + 1, count);
			return 1;
		}
	wall = clock_us(CLOCK_MONOTONIC);
	cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID);
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
	printf("%.1f %.1f\n", clock_us(CLOCK_MONOTONIC) - wall, clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	return 0;
}
