/* N shootdowns: thread 0 maps, touches and unmaps a page N times while the others spin on their CPUs. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { THREADS = 4, DEADLINE = 120 };
static atomic_int ready, done;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("sched_setaffinity"), exit(1);
}

static void *spin(void *cpu)
{
	pin((int)(long)cpu);
	atomic_fetch_add(&ready, 1);
	for (double end = now() + DEADLINE; !atomic_load(&done) && now() < end;)
		for (volatile int i = 0; i < 10000; i++)
			;
	return NULL;
}

static void tlb(const char *when)
{
	char line[4096];
	FILE *file = fopen("/proc/interrupts", "r");
	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "TLB:"))
			printf("%-6s %s", when, line);
	if (file)
		fclose(file);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000;
	pthread_t threads[THREADS];
	pin(0);
	for (long i = 1; i < THREADS; i++)
		pthread_create(&threads[i], NULL, spin, (void *)i);
	while (atomic_load(&ready) < THREADS - 1)
		;
	tlb("before");
	double start = now();
	for (int i = 0; i < n; i++) {
		char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*(volatile char *)page = 1;
		munmap(page, 4096);
	}
	double took = now() - start;
	tlb("after");
	atomic_store(&done, 1);
	for (int i = 1; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d munmaps, %.1f us each\n", n, took / n * 1e6);
	return 0;
}
