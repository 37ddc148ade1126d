// Who changes a mapping while a thread reads there.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

// Of Linux 6.7 and 6.4: older headers lack them.
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

extern __thread sigjmp_buf back;

// What the mapping is now: as it was made; gone; a private copy that holds what is expected.
enum { NONE, MADE, GONE, COPY };

static struct line *moving;
static _Atomic int phase, sees, watching;
static _Atomic uint64_t expected;

void *watcher(void *seed)
{
	(void)seed;
	while (!is_over()) {
		if (!atomic_load(&watching)) {
			atomic_store(&sees, 0);
			sched_yield();
			continue;
		}
		if (sigsetjmp(back, 1)) {
			atomic_store(&sees, 2);
			while (atomic_load(&watching) && !is_over())
				sched_yield();
			continue;
		}
		while (atomic_load(&watching)) {
			int now = atomic_load(&phase);
			uint64_t want = atomic_load(&expected), found = ((volatile struct line *)moving)->version;

			atomic_store(&sees, 1);
			if (now == GONE && atomic_load(&phase) == GONE)
				bad("read where nothing is mapped", -1, 0, 0, found, 0, 0);
			if (now == COPY && atomic_load(&phase) == COPY && found != want)
				bad("not the private copy", -1, 0, 0, found, want, want);
			counted(READS, 1);
		}
	}
	return NULL;
}

// Write protection without a handler of faults: the only kind that a file's mapping can have (mm/userfaultfd.c,
// vma_can_userfault(), 6.12).
static int protected_by_userfaultfd(void *at)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED};
	struct uffdio_register region = {.range = {(uintptr_t)at, PAGE}, .mode = UFFDIO_REGISTER_MODE_WP};
	struct uffdio_writeprotect protect = {.range = {(uintptr_t)at, PAGE}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &region) ||
	    ioctl(fd, UFFDIO_WRITEPROTECT, &protect)) {
		counted(REFUSED, 1);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

static void forked_write(volatile struct line *at)
{
	pid_t child = fork();

	if (child == 0) {
		at->version = 7;
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

// The mapping is changed; returns where it has gone, for what is left to unmap.
static void *changed(enum count how, char *at)
{
	char *other = at;

	switch (how) {
	case MUNMAP:
		munmap(at, PAGE);
		atomic_store(&phase, GONE);
		return NULL;
	case MPROTECT:
		mprotect(at, PAGE, PROT_NONE);
		atomic_store(&phase, GONE);
		break;
	case MREMAP:
		other = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other)
			atomic_store(&phase, GONE);
		break;
	case DONTNEED:
		madvise(at, PAGE, MADV_DONTNEED);
		break;
	default: // a private copy
		if (how == FORK)
			forked_write((volatile struct line *)at);
		atomic_store(&expected, ~0ull - below(1000));
		((volatile struct line *)at)->version = atomic_load(&expected);
		atomic_store(&phase, COPY);
	}
	return other;
}

void *mapper(void *seed)
{
	random_state = mix((uintptr_t)seed);
	while (!is_over()) {
		enum count how = MUNMAP + below(UFFD - MUNMAP + 1);
		int private = how >= PRIVATE, fd = opened(below(FILES), O_RDONLY), uffd = -1;
		int64_t end;
		void *left;
		// far from where the kernel puts the mappings of other threads: what is gone stays so
		char *at = mmap((void *)(1ull << 40), PAGE, private ? PROT_READ | PROT_WRITE : PROT_READ,
				(private ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED_NOREPLACE, fd, (off_t)below(PAGES - 1) * PAGE);

		close(fd);
		if (at == MAP_FAILED)
			fail("mmap");
		if (how == UFFD)
			uffd = protected_by_userfaultfd(at);
		moving = (struct line *)at;
		atomic_store(&phase, MADE);
		atomic_store(&watching, 1);
		// long enough that the page is reclaimed under the reader
		usleep(20000 + below(200000));
		left = changed(how, at);
		for (end = now_ns() + 20000000; atomic_load(&sees) != 2 && now_ns() < end;)
			;
		atomic_store(&watching, 0);
		while (atomic_load(&sees) && !is_over())
			sched_yield();
		atomic_store(&phase, NONE);
		if (left)
			munmap(left, PAGE);
		if (uffd >= 0)
			close(uffd);
		counted(how, 1);
	}
	return NULL;
}
