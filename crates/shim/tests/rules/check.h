// What the programs share.
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
	unsigned char v[4096];
	long count = 0;
	if (mincore(p, len, v))
		return -1;
	for (size_t i = 0; i < len / PAGE; i++)
		count += v[i] & 1;
	return count;
}

// One mapping to the program, 3 * len of eights, and two to the kernel, which does not make three one: each has its
// own reverse map (struct anon_vma) by the time that the third comes between them, and they are served as one.
static inline char *in_pieces(size_t len) {
	char *p = map(8 * len);
	MUST(madvise(p, 8 * len, MADV_NOHUGEPAGE) == 0 && munmap(p, 8 * len) == 0 && resident(p, len) == -1);
	for (int i = 0; i < 3; i++) {
		char *part = p + (size_t)(i == 0 ? 0 : 3 - i) * len;
		MUST(mmap(part, len, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == part);
		memset(part, 7, len);
	}
	for (int i = 0; i < 3; i++)
		MUST(munmap(p + (size_t)i * len, len) == 0);
	MUST(map(3 * len) == p && zero(p, 3 * len));
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
