// What a program maps over memory that it has unmapped, by system calls of its own, as it may: it keeps its content and its
// attributes while the library serves from what is around it, gives back and unmaps what it keeps.
#include "check.h"
#include <sys/resource.h>

enum { COUNT = 24, LEN = 16 * PAGE };

struct over {
	char *at, *own;
	size_t len;
	int fd;
};

static void *raw_map(char *at, size_t len, int prot, int flags, int fd) {
	return (void *)raw(SYS_mmap, (long)at, (long)len, prot, flags | MAP_FIXED, fd, 0);
}

static void put(struct over *o, int how) {
	o->at = kept(LEN);
	// All of it, a page in the middle, its begin, its end.
	size_t from[] = {0, 7 * PAGE, 0, 12 * PAGE}, len[] = {LEN, PAGE, 4 * PAGE, 4 * PAGE};
	o->own = o->at + from[how % 4], o->len = len[how % 4];
	o->fd = -1;
	switch (how / 4 % 3) {
	case 0:
		MUST(raw_map(o->own, o->len, RW, ANON, -1) == o->own);
		break;
	case 1:
		MUST(raw_map(o->own, o->len, RW, MAP_SHARED | MAP_ANONYMOUS, -1) == o->own);
		break;
	default:
		o->fd = memfd_create("file", 0);
		MUST(o->fd >= 0 && ftruncate(o->fd, (off_t)o->len) == 0);
		MUST(raw_map(o->own, o->len, RW, MAP_PRIVATE, o->fd) == o->own);
	}
	memset(o->own, 'a' + how % 24, o->len);
}

static void check(const struct over *all) {
	for (int n = 0; n < COUNT; n++)
		for (size_t i = 0; i < all[n].len; i++)
			MUST(all[n].own[i] == 'a' + n % 24);
}

int main(void) {
	static struct over all[COUNT];
	for (int n = 0; n < COUNT; n++)
		put(&all[n], n);
	check(all);
	// Serves.
	char *new[COUNT];
	for (int round = 0; round < 10; round++) {
		for (int n = 0; n < COUNT; n++) {
			MUST(zero(new[n] = map((1 + (size_t)n % 16) * PAGE), (1 + (size_t)n % 16) * PAGE));
			memset(new[n], 7, (1 + (size_t)n % 16) * PAGE);
		}
		check(all);
		for (int n = 0; n < COUNT; n++)
			MUST(munmap(new[n], (1 + (size_t)n % 16) * PAGE) == 0);
		check(all);
	}
	// Gives back, as more is kept than may be.
	for (int n = 0; n < 200; n++)
		MUST(munmap(filled(40 * PAGE), 40 * PAGE) == 0);
	check(all);
	// Again, and this time all that is kept goes: by a fork, and by a limit.
	for (int n = 0; n < COUNT; n++) {
		for (size_t i = 0; i < all[n].len; i += PAGE)
			all[n].own[i] = 'a' + n % 24;
	}
	pid_t child = fork();
	if (child == 0) {
		check(all);
		exit(0);
	}
	wait_for(child);
	check(all);
	struct over last[4];
	for (int n = 0; n < 4; n++)
		put(&last[n], n);
	struct rlimit limit;
	MUST(getrlimit(RLIMIT_AS, &limit) == 0);
	if (limit.rlim_cur == RLIM_INFINITY) {
		limit.rlim_cur = 64UL << 30;
		MUST(setrlimit(RLIMIT_AS, &limit) == 0 && counter(DIRTY) == 0);
	}
	check(all);
	for (int n = 0; n < 4; n++)
		for (size_t i = 0; i < last[n].len; i++)
			MUST(last[n].own[i] == 'a' + n);
	// It is the program's to unmap.
	for (int n = 0; n < COUNT; n++)
		MUST(munmap(all[n].own, all[n].len) == 0 && resident(all[n].own, all[n].len) == -1);
	return 0;
}
