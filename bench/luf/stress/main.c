// Changes files in every way there is while others read them through read-only mappings, and checks each word read.
//
//   stress DIR BALLAST_DIR SECONDS [SEED] [first | directed]
//
// The files lie in DIR; what presses memory, 192 MB, in BALLAST_DIR. Those who change: write(2), direct IO, a store
// through a shared mapping, hole punch, truncate and back, another file in its place. Those who change mappings while a
// thread reads there: munmap, mprotect, mremap, madvise, a private copy, fork, userfaultfd. A CPU and memory are taken
// away and given back. All of it under memory pressure, of one process of two in the memory cgroup /sys/fs/cgroup/stress
// if there is one. And a pair of threads that does one thing after the other (directed.c); with "directed" only that.
//
// Prints one line of JSON. Exits with 1 if anything was read that should not have been; with "first" and "directed" at
// the first of it.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

static const char *const names[COUNTS] = {
	[READS] = "reads", [BAD] = "bad", [REFUSED] = "refused", [WRITE] = "write", [DIRECT] = "direct", [STORE] = "store",
	[PUNCH] = "punch", [TRUNCATE] = "truncate", [RENAME] = "rename", [MUNMAP] = "munmap", [MPROTECT] = "mprotect",
	[MREMAP] = "mremap", [DONTNEED] = "dontneed", [PRIVATE] = "private", [FORK] = "fork", [UFFD] = "userfaultfd",
	[CPU_OFFLINE] = "cpu_offline", [MEMORY_OFFLINE] = "memory_offline", [SWEPT] = "swept",
	[DIRECTED] = "directed",
};

struct shared *shared;
char paths[FILES + 2][256];
char ballast[256];
__thread uint64_t random_state;
__thread sigjmp_buf back;

uint64_t below(uint64_t n)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (random_state >> 33) % n;
}

static void fault(int signal)
{
	siglongjmp(back, signal);
}

static void make_file(int f, void *buffer)
{
	FILE *file = fopen(paths[f], "w");

	if (!file)
		fail(paths[f]);
	for (int p = 0; p < PAGES; p++) {
		make_page(buffer, f, p, 2);
		if (fwrite(buffer, PAGE, 1, file) != 1)
			fail(paths[f]);
	}
	if (fclose(file))
		fail(paths[f]);
}

static void make_ballast(void *buffer)
{
	FILE *file = fopen(ballast, "w");

	if (!file)
		fail(ballast);
	memset(buffer, 0, PAGE);
	for (uint64_t page = 0; page < (uint64_t)BALLAST_MB * 256; page++) {
		*(uint64_t *)buffer = mix(page);
		if (fwrite(buffer, PAGE, 1, file) != 1)
			fail(ballast);
	}
	if (fclose(file))
		fail(ballast);
}

static void prepare(const char *dir, const char *ballast_dir, int with_ballast)
{
	pthread_mutexattr_t attr;
	void *buffer;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || posix_memalign(&buffer, PAGE, PAGE))
		fail("memory");
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	for (int f = 0; f <= FILES + 1; f++) {
		snprintf(paths[f], sizeof(paths[f]), "%s/file-%d", dir, f);
		make_file(f, buffer);
		for (int p = 0; f < FILES && p < PAGES; p++) {
			struct state *s = &shared->pages[f][p];

			atomic_store(&s->over, 2);
			atomic_store(&s->begun, 2);
			pthread_mutex_init(&s->changing, &attr);
		}
	}
	atomic_store(&shared->replaced, 2);
	snprintf(ballast, sizeof(ballast), "%s/ballast", ballast_dir);
	if (with_ballast)
		make_ballast(buffer);
	free(buffer);
	sync();
}

static void start(void *(*run)(void *), uint64_t seed)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, (void *)(uintptr_t)seed))
		fail("pthread_create");
}

// Readers in a process of their own: the same files in two address spaces.
static pid_t second(uint64_t seed)
{
	pid_t child = fork();
	int fd;

	if (child < 0)
		fail("fork");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open("/sys/fs/cgroup/stress/cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "0", 1) != 1)
		fail("/sys/fs/cgroup/stress/cgroup.procs");
	start(reader, seed + 11);
	start(presser, seed + 12);
	while (!is_over())
		usleep(100000);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct sigaction act = {.sa_handler = fault};
	int only = argc > 5 && !strcmp(argv[5], "directed");
	int first = only || (argc > 5 && !strcmp(argv[5], "first"));
	uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) * 1000 : 1000;
	time_t began;
	pid_t child = 0;

	if (argc < 4) {
		fprintf(stderr, "usage: stress DIR BALLAST_DIR SECONDS [SEED] [first | directed]\n");
		return 2;
	}
	prepare(argv[1], argv[2], !only);
	sigaction(SIGSEGV, &act, NULL);
	sigaction(SIGBUS, &act, NULL);

	if (!only) {
		child = second(seed);
		start(reader, seed + 1);
		start(reader, seed + 2);
		start(changer, seed + 3);
		start(watcher, seed + 4);
		start(mapper, seed + 5);
		start(presser, seed + 6);
		start(descriptor_reader, seed + 7);
		start(replacer, seed + 8);
		start(anonymous, seed + 9);
		start(shaker, seed + 10);
	}
	start(directed_reader, 0);
	// beside the others it leaves them most of the CPUs
	start(directed, only ? 0 : 20000);
	began = time(NULL);
	while (time(NULL) < began + atoi(argv[3]) && !(first && atomic_load(&shared->count[BAD])))
		usleep(50000);
	atomic_store(&shared->over, 1);
	if (child)
		waitpid(child, NULL, 0);
	sleep(2);

	printf("{\"seconds\":%lld", (long long)(time(NULL) - began));
	for (int i = 0; i < COUNTS; i++)
		printf(",\"%s\":%llu", names[i], (unsigned long long)atomic_load(&shared->count[i]));
	printf("}\n");
	return atomic_load(&shared->count[BAD]) != 0;
}
