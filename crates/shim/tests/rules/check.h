// What the programs share.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define MUST(what)                                                                       \
	do {                                                                             \
		if (!(what)) {                                                           \
			fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno); \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

// Past the library, as gperftools does it: nothing can see this.
static inline long raw(long n, long a, long b, long c, long d, long e, long f) {
	long out;
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(out) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return out;
}

// Fills the gaps between the libraries, so that what a program maps lies in the large free area: beside it there is room
// then for a page of the library's, without which it keeps nothing. Which gaps there are differs from run to run.
__attribute__((constructor(101), unused)) static void fill_gaps(void) {
	static int done;
	if (done++)
		return; // what a program has mapped before its constructors keeps its room
	const size_t sizes[] = {16 * PAGE, 4 * PAGE, PAGE}, large = 16 << 20;
	uintptr_t area = (uintptr_t)raw(SYS_mmap, 0, (long)large, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
	if (area > -PAGE)
		return;
	raw(SYS_munmap, (long)area, (long)large, 0, 0, 0, 0);
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int n = 0; n < 4096; n++) {
			uintptr_t at = (uintptr_t)raw(SYS_mmap, 0, (long)sizes[i], PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
			if (at > -PAGE)
				break;
			if (area <= at && at < area + large) {
				raw(SYS_munmap, (long)at, (long)sizes[i], 0, 0, 0, 0);
				break;
			}
		}
}

// What the library has counted, by the order in its counters.rs.
enum { SERVED = 1, KEPT = 3, DIRTY = 11, OFF = 18, PINNED = 22 };
static inline long counter(int which) {
	static uint64_t *all;
	if (!all)
		MUST((all = dlsym(RTLD_DEFAULT, "quell_shim_counters")));
	return (long)((volatile uint64_t *)all)[2 + which];
}

static inline char *map(size_t len) {
	char *p = mmap(0, len, RW, ANON, -1, 0);
	MUST(p != MAP_FAILED);
	return p;
}

// Maps so much and fills it.
static inline char *filled(size_t len) {
	char *p = map(len);
	memset(p, 7, len);
	return p;
}

// Whether all of it is zero.
static inline int zero(const char *p, size_t len) {
	for (size_t i = 0; i < len; i++)
		if (p[i])
			return 0;
	return 1;
}

// How many pages are in memory; -1 if not all of it is mapped.
static inline long resident(void *p, size_t len) {
	unsigned char v[16384];
	long count = 0;
	if (mincore(p, len, v))
		return -1;
	for (size_t i = 0; i < len / PAGE; i++)
		count += v[i] & 1;
	return count;
}

// Memory that was unmapped and is kept, or the program shows nothing. Where there was no room for a page beside it, the
// next mapping of that size brings one with it.
static inline char *kept(size_t len) {
	for (int n = 0; n < 4; n++) {
		char *p = filled(len);
		MUST(munmap(p, len) == 0);
		if (resident(p, len) == (long)(len / PAGE))
			return p;
	}
	fprintf(stderr, "nothing is kept\n");
	exit(1);
}

// A new mapping, that what is kept serves.
static inline char *served(size_t len) {
	char *p;
	long before = counter(SERVED);
	kept(len);
	p = map(len);
	MUST(counter(SERVED) > before && zero(p, len));
	return p;
}

// 3 * len of eights, side by side and all alike, but two mappings to the kernel, which does not make three one: each has
// its own reverse map (struct anon_vma) by the time that the third comes between them.
static inline char *in_pieces(size_t len) {
	char *p = map(8 * len);
	MUST(munmap(p, 8 * len) == 0 && resident(p, len) == -1);
	for (int i = 0; i < 3; i++) {
		char *part = p + (size_t)(i == 0 ? 0 : 3 - i) * len;
		MUST(mmap(part, len, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == part);
		memset(part, 7, len);
	}
	memset(p, 8, 3 * len);
	return p;
}

// A child that ends well.
static inline void wait_for(pid_t child) {
	int status = 0;
	MUST(child > 0 && waitpid(child, &status, 0) == child);
	if (status) {
		fprintf(stderr, "a child ended with %#x\n", status);
		exit(1);
	}
}

// Resident memory of the process, in KB.
static inline long rss(void) {
	long all, own;
	FILE *f = fopen("/proc/self/statm", "r");
	MUST(f && fscanf(f, "%ld %ld", &all, &own) == 2);
	fclose(f);
	return own * 4;
}
