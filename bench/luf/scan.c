// Reads a mapped file that does not fit into memory, and checks every word of what it reads.
//
//   scan make FILE MIB
//   scan MODE FILE LUF_MAX THREADS READS [SEED]
//
// MODE is seq (each thread from one end to the other), hot (80 % of the reads in 20 % of the file), or lookup (a binary
// search in the first quarter, then rows all over the rest: the access pattern of XSBench, a lookup of cross sections).
// One more thread only spins, so that there is a CPU that does not read and is interrupted all the same.
//
// It sets vm.luf_max (if the kernel has it), drops the page cache, runs, and prints one line of JSON: what
// /proc/interrupts and /proc/vmstat counted meanwhile, the time, the reads, and how many were wrong.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "counts.h"

#define PAGE 4096
#define WORDS (PAGE / sizeof(uint64_t))
#define MOST_THREADS 64

static const uint64_t *words;
static uint64_t pages;
static uint64_t reads_each;
static uint64_t seed = 1;
static const char *mode;
static int over;

// What word i of the file is: it grows with i, so that it can be searched, and cannot be told from few others.
static uint64_t word(uint64_t i)
{
	return i * 1024 + (mix(i) & 1023);
}

static void make(const char *path, uint64_t mib)
{
	FILE *file = fopen(path, "w");
	uint64_t buffer[WORDS];

	if (!file)
		fail(path);
	for (uint64_t page = 0; page < mib * 256; page++) {
		for (uint64_t i = 0; i < WORDS; i++)
			buffer[i] = word(page * WORDS + i);
		if (fwrite(buffer, PAGE, 1, file) != 1)
			fail(path);
	}
	if (fclose(file))
		fail(path);
}

struct reader {
	pthread_t thread;
	uint64_t number, random, reads, bad;
};

static uint64_t next(struct reader *r, uint64_t below)
{
	r->random = r->random * 6364136223846793005 + 1442695040888963407;
	return (r->random >> 33) * below >> 31;
}

static uint64_t get(struct reader *r, uint64_t i)
{
	uint64_t found = __atomic_load_n(&words[i], __ATOMIC_RELAXED);

	r->reads++;
	if (found != word(i))
		r->bad++;
	return found;
}

static void page(struct reader *r, uint64_t number)
{
	for (int i = 0; i < 16; i++)
		get(r, number * WORDS + next(r, WORDS));
}

static void lookup(struct reader *r)
{
	uint64_t low = 0, high = pages / 4 * WORDS, what = next(r, high) * 1024;

	while (low + 1 < high) {
		uint64_t middle = (low + high) / 2;

		if (get(r, middle) <= what)
			low = middle;
		else
			high = middle;
	}
	for (int row = 0; row < 6; row++) {
		uint64_t at = (pages / 4 + next(r, pages - pages / 4 - 1)) * WORDS + next(r, WORDS - 6);

		for (int i = 0; i < 6; i++)
			get(r, at + i);
	}
}

static void *run(void *arg)
{
	struct reader *r = arg;
	uint64_t at = 0;

	while (r->reads < reads_each) {
		if (!strcmp(mode, "seq"))
			page(r, at++ % pages);
		else if (!strcmp(mode, "hot"))
			page(r, next(r, 10) < 8 ? next(r, pages / 5) : pages / 5 + next(r, pages - pages / 5));
		else
			lookup(r);
	}
	return NULL;
}

// Ends with the readers, or after ten minutes.
static void *spin(void *arg)
{
	time_t end = time(NULL) + 600;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED) && time(NULL) < end)
		;
	return arg;
}

int main(int argc, char **argv)
{
	struct reader reader[MOST_THREADS] = {};
	struct counts before, after;
	struct timespec start;
	double seconds;
	uint64_t reads = 0, bad = 0;
	pthread_t spinner;
	struct stat st;
	int fd, threads;

	if (argc == 4 && !strcmp(argv[1], "make")) {
		make(argv[2], strtoull(argv[3], NULL, 10));
		return 0;
	}
	if (argc < 6) {
		fprintf(stderr, "usage: scan make FILE MIB | scan seq|hot|lookup FILE LUF_MAX THREADS READS [SEED]\n");
		return 2;
	}
	mode = argv[1];
	threads = atoi(argv[4]);
	reads_each = strtoull(argv[5], NULL, 10);
	if (argc > 6)
		seed = strtoull(argv[6], NULL, 10);
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || threads < 1 || threads > MOST_THREADS)
		fail(argv[2]);
	pages = st.st_size / PAGE;
	words = mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED)
		fail("mmap");
	begin_run(argv[3]);

	look(&before);
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (pthread_create(&spinner, NULL, spin, NULL))
		fail("pthread_create");
	for (int i = 0; i < threads; i++) {
		reader[i].number = i;
		reader[i].random = mix(seed * MOST_THREADS + i + 1);
		if (pthread_create(&reader[i].thread, NULL, run, &reader[i]))
			fail("pthread_create");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(reader[i].thread, NULL);
		reads += reader[i].reads;
		bad += reader[i].bad;
	}
	seconds = since(&start);
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	pthread_join(spinner, NULL);
	look(&after);

	printf("{\"mode\":\"%s\",\"luf_max\":%s,\"seconds\":%.3f,\"reads\":%llu,\"bad\":%llu", mode, argv[3],
	       seconds, (unsigned long long)reads, (unsigned long long)bad);
	print_counts(&before, &after);
	return bad != 0;
}
