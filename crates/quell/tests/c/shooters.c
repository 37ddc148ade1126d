/*
 * Many who shoot: short processes one after the other, or each in a cgroup of its own.
 *
 *   shooters processes COUNT RATE     so many short processes, of which every fourth shoots before it ends
 *   shooters moved A B SHOTS          shoots in the cgroup A, and then, as the same process, in B
 *   shooters cgroups DIR COUNT SHOTS  makes DIR/0, DIR/1 and so on, and has a process shoot in each
 *
 * RATE is a second. processes and cgroups print how many ns it took.
 * A shootdown is a munmap() of pages that were written to, while a second thread is running. Those of cgroups, each for well
 * under a millisecond, and of moved do it as real-time, so that a machine that is busy still runs both: see
 * examples/culprit.rs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGES 4
/* What a process that shoots does. */
#define SHOTS 2
/* Processes that may be under way: a machine that is behind is not to be buried. */
#define MOST 32

static unsigned long beats;
static int done;
/* Where the peers of those who hurry run. */
static int pinned;
static cpu_set_t peers;

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/*
 * From now on this runs on one CPU, its peers on another, and both before whatever else does, for so many us without a
 * pause at most.
 */
static void hurry(long us)
{
	struct rlimit most = { us, us };
	struct sched_param first = { .sched_priority = 1 };
	cpu_set_t may, mine;
	int n = 0;

	if (sched_getaffinity(0, sizeof(may), &may))
		fail("sched_getaffinity");
	CPU_ZERO(&mine);
	CPU_ZERO(&peers);
	for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
		if (CPU_ISSET(cpu, &may))
			CPU_SET(cpu, n++ ? &peers : &mine);
	if (sched_setaffinity(0, sizeof(mine), &mine) || n < 2)
		fail("two CPUs are needed");
	pinned = 1;
	/* the kernel ends whoever runs on and on; without the right to hurry it stays as it was */
	setrlimit(RLIMIT_RTTIME, &most);
	sched_setscheduler(0, SCHED_FIFO, &first);
}

static void *peer(void *unused)
{
	if (pinned)
		sched_setaffinity(0, sizeof(peers), &peers);
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
		__atomic_fetch_add(&beats, 1, __ATOMIC_RELAXED);
	return unused;
}

/*
 * Waits until the peer runs, for so many ms at most: one that doesn't is not interrupted, and a flush without one is no
 * shootdown, and mostly not even an empty send. Where all are counted the time is long: real-time threads too give way to
 * others, 50 ms in a second (the kernel's fair server), and a hypervisor has other guests.
 */
static void wait_for_peer(int ms)
{
	unsigned long before = __atomic_load_n(&beats, __ATOMIC_RELAXED);
	long until = now() + ms * 1000000L;

	while (__atomic_load_n(&beats, __ATOMIC_RELAXED) < before + 10 && now() < until)
		sched_yield();
}

static void shoot(int ms)
{
	size_t size = PAGES * getpagesize();
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail("mmap");
	memset(p, 1, size);
	wait_for_peer(ms);
	if (munmap(p, size))
		fail("munmap");
}

static void start_peer(pthread_t *thread)
{
	if (pthread_create(thread, NULL, peer, NULL))
		fail("pthread_create");
}

static int one(void)
{
	pthread_t thread;

	start_peer(&thread);
	for (int i = 0; i < SHOTS; i++)
		shoot(2);
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	return 0;
}

static int processes(char *self, long count, long rate)
{
	char *const argv[] = { self, "shoot", NULL }, *const idle[] = { self, "end", NULL };
	long begun = now(), under_way = 0;

	for (long i = 0; i < count; i++) {
		long early = begun + i * (1000000000L / rate) - now();
		pid_t pid;

		if (early > 0)
			nanosleep(&(struct timespec){ early / 1000000000L, early % 1000000000L }, NULL);
		while (under_way && waitpid(-1, NULL, under_way < MOST ? WNOHANG : 0) > 0)
			under_way--;
		pid = vfork();
		if (pid < 0)
			fail("vfork");
		if (!pid) {
			execv("/proc/self/exe", i % 4 ? idle : argv);
			_exit(127);
		}
		under_way++;
	}
	while (wait(NULL) > 0)
		;
	printf("%ld\n", now() - begun);
	return 0;
}

/* This process, with all its threads. */
static void enter(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		fail(path);
	close(fd);
}

static int moved(char *const dirs[2], int shots)
{
	pthread_t thread;
	char path[4096];

	hurry(3000000);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", dirs[i]);
		enter(path);
		if (!i)
			start_peer(&thread);
		for (int shot = 0; shot < shots; shot++)
			shoot(200);
	}
	return 0;
}

static void in_cgroup(const char *path, int shots)
{
	pthread_t thread;

	enter(path);
	start_peer(&thread);
	for (int i = 0; i < shots; i++)
		shoot(200);
	_exit(0);
}

static int cgroups(const char *dir, long count, int shots)
{
	long begun = now();
	char path[4096];

	hurry(900000);
	for (long i = 0; i < count; i++) {
		int status;

		snprintf(path, sizeof(path), "%s/%ld", dir, i);
		if (mkdir(path, 0755) && errno != EEXIST)
			fail(path);
		strcat(path, "/cgroup.procs");
		if (!fork())
			in_cgroup(path, shots);
		if (wait(&status) < 0 || status) {
			fprintf(stderr, "%s: failed\n", path);
			return 1;
		}
	}
	printf("%ld\n", now() - begun);
	return 0;
}

int main(int argc, char **argv)
{
	alarm(300);
	if (argc == 2 && !strcmp(argv[1], "end"))
		return 0;
	if (argc == 2 && !strcmp(argv[1], "shoot"))
		return one();
	if (argc == 4 && !strcmp(argv[1], "processes"))
		return processes(argv[0], atol(argv[2]), atol(argv[3]));
	if (argc == 5 && !strcmp(argv[1], "moved"))
		return moved(argv + 2, atoi(argv[4]));
	if (argc == 5 && !strcmp(argv[1], "cgroups"))
		return cgroups(argv[2], atol(argv[3]), atoi(argv[4]));
	fprintf(stderr, "shooters: see its source\n");
	return 2;
}
