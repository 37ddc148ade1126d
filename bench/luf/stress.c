// Changes files in every way there is while others read them through read-only mappings, and checks each line read.
//
//   stress DIR SECONDS [SEED]
//
// A file is cut into pages, and these into lines of 64 bytes. Each line says which file, page and line it is, and the
// version of its page; a sum over that makes sure that it is one thing. Beside each page stand, in memory that all
// processes share, the version that the last change that is over has left, and that of the change that is under way.
// A reader looks at the first before it reads, and at the second after it: what it reads must lie between. A page that
// is all zeros is a hole, and has a version as any other.
//
// Those who change: write(2), direct IO, a store through a shared mapping, hole punch, truncate and back. Those who
// change mappings while a thread reads there: munmap, mprotect, mremap, madvise, a private copy, and fork. All of it
// under memory pressure: a child reads files that are larger than memory, so that pages are reclaimed all the time.
//
// Prints one line of JSON. Exits with 1 if anything was read that should not have been.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define PAGE 4096
#define LINES (PAGE / 64)
#define FILES 6
#define PAGES 256
#define BALLAST_MB 96

struct line {
	uint32_t file, page, line, pad;
	uint64_t version, sum;
	uint64_t fill[4];
};

// Of a page: what the last change that is over has left, and what is being made. The lowest bit says that it is a hole.
struct state {
	_Atomic uint64_t over, begun;
	pthread_mutex_t changing;
};

enum { WRITE, DIRECT, STORE, PUNCH, TRUNCATE, HOWS };
static const char *const hows[] = {"write", "direct", "store", "punch", "truncate"};
enum { MUNMAP, MPROTECT, MREMAP, DONTNEED, PRIVATE, FORK, MAPPINGS };
static const char *const mappings[] = {"munmap", "mprotect", "mremap", "dontneed", "private", "fork"};

static struct shared {
	_Atomic int over;
	_Atomic uint64_t reads, bad, changes[HOWS], mappings[MAPPINGS], refused;
	struct state pages[FILES][PAGES];
} *shared;
static char paths[FILES][256];
static char ballast[256];
static uint64_t seed = 1;

static __thread uint64_t random_state;

static uint64_t below(uint64_t n)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (random_state >> 33) % n;
}

static uint64_t sum(const struct line *l)
{
	return mix(l->file * 0x9e3779b97f4a7c15 + l->page * 1000003 + l->line * 101 + l->version);
}

static void make_line(struct line *l, int file, int page, int line, uint64_t version)
{
	memset(l, 0, sizeof(*l));
	*l = (struct line){.file = file, .page = page, .line = line, .version = version};
	l->sum = sum(l);
	for (int i = 0; i < 4; i++)
		l->fill[i] = l->sum + i;
}

static void make_page(void *at, int file, int page, uint64_t version)
{
	for (int i = 0; i < LINES; i++)
		make_line((struct line *)at + i, file, page, i, version);
}

static _Atomic int told;

static void bad(const char *what, int file, int page, int line, uint64_t found, uint64_t from, uint64_t to)
{
	atomic_fetch_add(&shared->bad, 1);
	if (atomic_fetch_add(&told, 1) < 8)
		fprintf(stderr, "stress: %s: file %d page %d line %d has version %llu, not %llu to %llu\n", what, file, page,
			line, (unsigned long long)found, (unsigned long long)from, (unsigned long long)to);
}

// Reads a line through a mapping, in two halves: the words may be of two versions, and each must be one that may be.
static void check(const char *what, const volatile struct line *at, int file, int page, int line)
{
	struct state *s = &shared->pages[file][page];
	uint64_t from = atomic_load(&s->over), to, version = at->version;
	struct line want;

	atomic_thread_fence(memory_order_seq_cst);
	to = atomic_load(&s->begun);
	atomic_fetch_add_explicit(&shared->reads, 1, memory_order_relaxed);
	if (version == 0) {
		// a hole, of one of the versions between, or the line is being written
		for (uint64_t v = from; v <= to; v++)
			if (v & 1)
				return;
		bad(what, file, page, line, 0, from, to);
		return;
	}
	if (version < from || version > to) {
		bad(what, file, page, line, version, from, to);
		return;
	}
	if (from != to || atomic_load(&s->begun) != to)
		return;
	// nobody changes it: it is whole
	make_line(&want, file, page, line, version);
	if ((at->sum != want.sum || at->file != want.file || at->page != want.page) && atomic_load(&s->begun) == to)
		bad("a line is in pieces", file, page, line, version, from, to);
}

static int opened(int file, int flags)
{
	int fd = open(paths[file], flags | O_CLOEXEC);

	if (fd < 0)
		fail(paths[file]);
	return fd;
}

// One change of one page. The next version is even for content, odd for a hole.
static int change(int how, int file, int page, void *buffer)
{
	struct state *s = &shared->pages[file][page];
	uint64_t now, next;
	int fd, done = 0;
	char *at;

	if (pthread_mutex_lock(&s->changing))
		fail("pthread_mutex_lock");
	now = atomic_load(&s->over);
	next = (now & ~1ull) + (how == PUNCH || how == TRUNCATE ? 3 : 2);
	atomic_store(&s->begun, next);
	make_page(buffer, file, page, next);
	switch (how) {
	case WRITE:
		fd = opened(file, O_RDWR);
		done = pwrite(fd, buffer, PAGE, (off_t)page * PAGE) == PAGE;
		close(fd);
		break;
	case DIRECT:
		fd = open(paths[file], O_RDWR | O_DIRECT | O_CLOEXEC);
		if (fd < 0)
			break;
		done = pwrite(fd, buffer, PAGE, (off_t)page * PAGE) == PAGE;
		close(fd);
		break;
	case STORE:
		fd = opened(file, O_RDWR);
		at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)page * PAGE);
		close(fd);
		if (at == MAP_FAILED)
			break;
		memcpy(at, buffer, PAGE);
		munmap(at, PAGE);
		done = 1;
		break;
	case PUNCH:
		fd = opened(file, O_RDWR);
		done = !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page * PAGE, PAGE);
		close(fd);
		break;
	case TRUNCATE:
		// the last page only: others would go, too
		fd = opened(file, O_RDWR);
		done = !ftruncate(fd, (off_t)page * PAGE) && !ftruncate(fd, (off_t)(page + 1) * PAGE);
		close(fd);
		break;
	}
	if (done) {
		atomic_store(&s->over, next);
		atomic_fetch_add_explicit(&shared->changes[how], 1, memory_order_relaxed);
	} else {
		atomic_store(&s->begun, now);
		atomic_fetch_add_explicit(&shared->refused, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&s->changing);
	return done;
}

static void *writer(void *arg)
{
	void *buffer;

	random_state = mix(seed + (uintptr_t)arg);
	if (posix_memalign(&buffer, PAGE, PAGE))
		fail("posix_memalign");
	while (!atomic_load(&shared->over)) {
		int file = below(FILES), how = below(HOWS);

		change(how, file, how == TRUNCATE ? PAGES - 1 : below(PAGES - 1), buffer);
		usleep(below(3000));
	}
	return NULL;
}

// Stays on some pages for a while, so that their entries stay in the TLB and the pages look cold: nobody walks the page
// tables for them.
static __thread sigjmp_buf back;

static void fault(int signal)
{
	siglongjmp(back, signal);
}

static void *reader(void *arg)
{
	struct line *at[FILES];

	random_state = mix(seed + (uintptr_t)arg);
	for (int file = 0; file < FILES; file++) {
		int fd = opened(file, O_RDONLY);

		at[file] = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		if (at[file] == MAP_FAILED)
			fail("mmap");
	}
	while (!atomic_load(&shared->over)) {
		int file[8], page[8];

		for (int i = 0; i < 8; i++)
			file[i] = below(FILES), page[i] = below(PAGES);
		// beyond the end while the file is cut
		if (sigsetjmp(back, 1))
			continue;
		for (int turn = 0; turn < 4000; turn++) {
			int i = turn % 8, line = turn / 8 % LINES;

			check("a reader", at[file[i]] + (size_t)page[i] * LINES + line, file[i], page[i], line);
		}
	}
	return NULL;
}

// A mapping of its own, which one thread changes while another reads there.
static struct line *moving;
static _Atomic int phase, sees, watching;
static _Atomic uint64_t expected;

static void *watcher(void *arg)
{
	(void)arg;
	while (!atomic_load(&shared->over)) {
		if (!atomic_load(&watching)) {
			atomic_store(&sees, 0);
			sched_yield();
			continue;
		}
		if (sigsetjmp(back, 1)) {
			atomic_store(&sees, 2);
			while (atomic_load(&watching) && !atomic_load(&shared->over))
				sched_yield();
			continue;
		}
		while (atomic_load(&watching)) {
			int now = atomic_load(&phase);
			uint64_t want = atomic_load(&expected), found = ((volatile struct line *)moving)->version;

			atomic_store(&sees, 1);
			// in phase 2 the address is gone, in phase 3 it has what the private copy has
			if (now == 2 && atomic_load(&phase) == 2)
				bad("read where nothing is mapped", -1, 0, 0, found, 0, 0);
			if (now == 3 && atomic_load(&phase) == 3 && found != want)
				bad("not the private copy", -1, 0, 0, found, want, want);
			atomic_fetch_add_explicit(&shared->reads, 1, memory_order_relaxed);
		}
	}
	return NULL;
}

static void *mapper(void *arg)
{
	random_state = mix(seed + (uintptr_t)arg);
	while (!atomic_load(&shared->over)) {
		int how = below(MAPPINGS), file = below(FILES), fd = opened(file, O_RDONLY);
		struct timespec end, now;
		char *at, *other;
		pid_t child;

		at = mmap(NULL, PAGE, PROT_READ | (how == PRIVATE || how == FORK ? PROT_WRITE : 0),
			  how == PRIVATE || how == FORK ? MAP_PRIVATE : MAP_SHARED, fd, (off_t)below(PAGES - 1) * PAGE);
		close(fd);
		if (at == MAP_FAILED)
			fail("mmap");
		moving = (struct line *)at;
		atomic_store(&phase, 1);
		atomic_store(&watching, 1);
		// long enough that the page is reclaimed under the reader
		usleep(20000 + below(200000));
		switch (how) {
		case MUNMAP:
			munmap(at, PAGE);
			atomic_store(&phase, 2);
			break;
		case MPROTECT:
			mprotect(at, PAGE, PROT_NONE);
			atomic_store(&phase, 2);
			break;
		case MREMAP:
			other = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other)
				atomic_store(&phase, 2);
			break;
		case DONTNEED:
			madvise(at, PAGE, MADV_DONTNEED);
			break;
		case PRIVATE:
		case FORK:
			if (how == FORK) {
				child = fork();
				if (child == 0) {
					((volatile struct line *)at)->version = 7;
					_exit(0);
				}
				if (child > 0)
					waitpid(child, NULL, 0);
			}
			atomic_store(&expected, ~0ull - below(1000));
			((volatile struct line *)at)->version = atomic_load(&expected);
			atomic_store(&phase, 3);
			break;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		end = now;
		while (atomic_load(&sees) != 2 && (end.tv_sec - now.tv_sec) * 1000000000 + end.tv_nsec - now.tv_nsec < 20000000)
			clock_gettime(CLOCK_MONOTONIC, &end);
		atomic_store(&watching, 0);
		while (atomic_load(&sees) && !atomic_load(&shared->over))
			sched_yield();
		atomic_store(&phase, 0);
		if (how == MREMAP)
			munmap(other, PAGE);
		else if (how != MUNMAP)
			munmap(at, PAGE);
		atomic_fetch_add_explicit(&shared->mappings[how], 1, memory_order_relaxed);
	}
	return NULL;
}

// Reads what is larger than memory, again and again, through a mapping too.
static void *presser(void *arg)
{
	int fd = open(ballast, O_RDONLY | O_CLOEXEC);
	size_t size = (size_t)BALLAST_MB << 20;
	volatile uint64_t *at;

	(void)arg;
	if (fd < 0)
		fail(ballast);
	at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	while (!atomic_load(&shared->over))
		for (size_t page = 0; page < size / PAGE && !atomic_load(&shared->over); page++)
			if (at[page * PAGE / 8] != mix(page)) {
				bad("the ballast", -2, (int)page, 0, at[page * PAGE / 8], mix(page), mix(page));
			} else {
				atomic_fetch_add_explicit(&shared->reads, 1, memory_order_relaxed);
			}
	return NULL;
}

static void prepare(const char *dir)
{
	pthread_mutexattr_t attr;
	void *buffer;
	FILE *file;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || posix_memalign(&buffer, PAGE, PAGE))
		fail("memory");
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	for (int f = 0; f < FILES; f++) {
		snprintf(paths[f], sizeof(paths[f]), "%s/file-%d", dir, f);
		file = fopen(paths[f], "w");
		if (!file)
			fail(paths[f]);
		for (int p = 0; p < PAGES; p++) {
			struct state *s = &shared->pages[f][p];

			atomic_store(&s->over, 2);
			atomic_store(&s->begun, 2);
			pthread_mutex_init(&s->changing, &attr);
			make_page(buffer, f, p, 2);
			if (fwrite(buffer, PAGE, 1, file) != 1)
				fail(paths[f]);
		}
		if (fclose(file))
			fail(paths[f]);
	}
	snprintf(ballast, sizeof(ballast), "%s/ballast", dir);
	file = fopen(ballast, "w");
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
	sync();
}

static void start(void *(*run)(void *), uintptr_t number)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, (void *)number))
		fail("pthread_create");
}

int main(int argc, char **argv)
{
	struct sigaction act = {.sa_handler = fault};
	int seconds;
	pid_t child;

	if (argc < 3) {
		fprintf(stderr, "usage: stress DIR SECONDS [SEED]\n");
		return 2;
	}
	seconds = atoi(argv[2]);
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 10);
	prepare(argv[1]);
	sigaction(SIGSEGV, &act, NULL);
	sigaction(SIGBUS, &act, NULL);

	// readers in two processes: the same file in two address spaces
	child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		start(reader, 11);
		start(presser, 12);
		while (!atomic_load(&shared->over))
			sleep(1);
		_exit(0);
	}
	start(reader, 1);
	start(reader, 2);
	start(writer, 3);
	start(watcher, 4);
	start(mapper, 5);
	start(presser, 6);
	sleep(seconds);
	atomic_store(&shared->over, 1);
	waitpid(child, NULL, 0);
	sleep(1);

	printf("{\"seconds\":%d,\"reads\":%llu,\"bad\":%llu,\"refused\":%llu", seconds,
	       (unsigned long long)shared->reads, (unsigned long long)shared->bad, (unsigned long long)shared->refused);
	for (int i = 0; i < HOWS; i++)
		printf(",\"%s\":%llu", hows[i], (unsigned long long)shared->changes[i]);
	for (int i = 0; i < MAPPINGS; i++)
		printf(",\"%s\":%llu", mappings[i], (unsigned long long)shared->mappings[i]);
	printf("}\n");
	return shared->bad != 0;
}
