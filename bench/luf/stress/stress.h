// What the parts of the stress share.
//
// A file is cut into pages, and these into lines of 64 bytes. Each line says which file, page and line it is, and the
// version of its page; all its other words follow from that. Beside each page stand, in memory that all processes
// share, the version that the last change that is over has left, and that of the change that is under way. A reader
// looks at the first before it reads, and at the second after it: what it reads must lie between. Where both are the
// same nothing was changed meanwhile, and every word is known. A page that is all zeros is a hole, and has a version as
// any other, an odd one.
#ifndef STRESS_H
#define STRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "../common.h"

#define PAGE 4096
#define LINES (PAGE / 64)
#define FILES 6
#define PAGES 256
#define BALLAST_MB 192
#define ANON_MB 24

struct line {
	uint64_t version, where, sum, fill[5];
};

struct state {
	_Atomic uint64_t over, begun;
	pthread_mutex_t changing;
};

// Each is a number in what is printed at the end, and has its name there.
enum count {
	READS, BAD, REFUSED,
	WRITE, DIRECT, STORE, PUNCH, TRUNCATE, RENAME,
	MUNMAP, MPROTECT, MREMAP, DONTNEED, PRIVATE, FORK, UFFD,
	CPU_OFFLINE, MEMORY_OFFLINE, SWEPT, DIRECTED,
	COUNTS
};

struct shared {
	_Atomic int over;
	_Atomic uint64_t count[COUNTS];
	struct state pages[FILES][PAGES];
	// of the file that is replaced as a whole: the version that the last rename has left
	_Atomic uint64_t replaced;
};

extern struct shared *shared;
// Those that are changed, the one that is replaced, and that of directed.c.
extern char paths[FILES + 2][256];
extern char ballast[256];
// One generator a thread.
extern __thread uint64_t random_state;
uint64_t below(uint64_t n);

static inline int is_over(void)
{
	return atomic_load_explicit(&shared->over, memory_order_relaxed);
}

static inline void counted(enum count what, uint64_t n)
{
	atomic_fetch_add_explicit(&shared->count[what], n, memory_order_relaxed);
}

// page.c
void make_page(void *at, int file, int page, uint64_t version);
void check(const char *what, const void *line_at, int file, int page, int line);
void bad(const char *what, int file, int page, int line, uint64_t found, uint64_t from, uint64_t to);
int opened(int file, int flags);

// Threads, each until it is over. The argument is the seed of its generator.
void *changer(void *seed);	// change.c
void *replacer(void *seed);
void *mapper(void *seed);	// remap.c, with the next
void *watcher(void *seed);
void *reader(void *seed);	// read.c
void *descriptor_reader(void *seed);
void *presser(void *seed);
void *anonymous(void *seed);
void *shaker(void *seed);	// shake.c
void *directed_reader(void *seed);	// directed.c
void *directed(void *pause_us);

#endif
