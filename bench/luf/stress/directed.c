// One page at a time, and one change at a time: a thread reads the page without a pause, so that the entry stays in the TLB
// of its CPU; another has the page reclaimed, which defers the flush of that entry, and at once does what must not be done
// before the flush. Then the reader may not see what was there before. The other threads of the stress come upon that by
// chance, a few times a minute; here it is every few milliseconds, and nothing else has the flush made meanwhile.
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

extern __thread sigjmp_buf back;

#define WORDS (PAGE / 8)
// Where nothing else is mapped, so that what is unmapped stays so. The page before it stays mapped: else the page table
// would go too, and with it comes a flush that is not LUF's.
#define PLACE ((char *)(1ull << 41))
#define AT (PLACE + PAGE)

// What is done to the page. After the last three there is nothing at the address.
enum way { WAY_WRITE, WAY_DIRECT, WAY_STORE, WAY_PUNCH, WAY_PRIVATE, WAY_KEPT, WAY_MUNMAP, WAY_MPROTECT, WAY_MREMAP, WAYS };

static const char *const ways[WAYS] = {
	[WAY_WRITE] = "write(2)", [WAY_DIRECT] = "direct IO", [WAY_STORE] = "a store through another mapping",
	[WAY_PUNCH] = "a hole was punched", [WAY_PRIVATE] = "a store to a private page",
	[WAY_KEPT] = "the page was kept, given up, and used for something else", [WAY_MUNMAP] = "munmap",
	[WAY_MPROTECT] = "mprotect", [WAY_MREMAP] = "mremap",
};

// The reader's side: it reads at `place` for as long as that is not null, and says what, how often, and whether it faulted.
// It says that it reads before it looks where, so that who has taken the place away can wait for it.
static _Atomic(volatile uint64_t *) place;
static _Atomic uint64_t turns, value;
static _Atomic int faulted, reads;

// What a change has mapped besides, until the reader has looked.
static void *left;
static size_t left_bytes;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	// with fewer CPUs it runs where it may
	(void)!sched_setaffinity(0, sizeof(set), &set);
}

void *directed_reader(void *seed)
{
	(void)seed;
	pin(1);
	while (!is_over()) {
		volatile uint64_t *at;

		atomic_store(&reads, 1);
		at = atomic_load(&place);
		if (!at || atomic_load(&faulted)) {
			atomic_store(&reads, 0);
			sched_yield();
			continue;
		}
		if (sigsetjmp(back, 1)) {
			atomic_store(&faulted, 1);
			continue;
		}
		while (atomic_load(&place) == at) {
			atomic_store(&value, *at);
			atomic_fetch_add(&turns, 1);
		}
	}
	atomic_store(&reads, 0);
	return NULL;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

// Until the reader has read once more from the beginning on, or faulted: whether it has, within a second.
static int read_again(void)
{
	uint64_t from = atomic_load(&turns);
	int64_t end = now_ms() + 1000;

	while (atomic_load(&turns) < from + 2 && !atomic_load(&faulted))
		if (is_over() || now_ms() > end)
			return 0;
	return 1;
}

static void rest(void)
{
	atomic_store(&place, NULL);
	while (atomic_load(&reads) && !is_over())
		sched_yield();
	atomic_store(&faulted, 0);
	if (left)
		munmap(left, left_bytes);
	left = NULL;
}

static void fill(void *page, uint64_t with)
{
	for (int i = 0; i < WORDS; i++)
		((uint64_t *)page)[i] = with;
}

// Somebody has a reference to the page while it is reclaimed, so that it is kept; then nobody has, it is given up, and the
// next page that this CPU allocates is most likely that one.
static int kept(int fd, off_t offset)
{
	char *other, buffer[PAGE];
	loff_t at = offset;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		fail("pipe2");
	if (splice(fd, &at, ends[1], NULL, PAGE, 0) != PAGE)
		fail("splice");
	madvise(AT, PAGE, MADV_PAGEOUT);
	if (read(ends[0], buffer, PAGE) != PAGE)
		fail("read");
	close(ends[0]);
	close(ends[1]);
	posix_fadvise(fd, offset, PAGE, POSIX_FADV_DONTNEED);
	other = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (other == MAP_FAILED)
		fail("mmap");
	left = other;
	left_bytes = 64 * PAGE;
	for (int i = 0; i < 64; i++)
		fill(other + i * PAGE, 0x6a6a6a6a);
	return 1;
}

// Returns whether it was done, and what the page holds after it.
static int done(enum way how, int fd, off_t offset, void *buffer, uint64_t *holds)
{
	uint64_t next = *holds + 1;
	int direct;
	char *at;

	fill(buffer, next);
	switch (how) {
	case WAY_WRITE:
		*holds = next;
		return pwrite(fd, buffer, PAGE, offset) == PAGE;
	case WAY_DIRECT:
		direct = open(paths[FILES + 1], O_RDWR | O_DIRECT | O_CLOEXEC);
		*holds = next;
		if (direct < 0)
			return 0;
		next = pwrite(direct, buffer, PAGE, offset);
		close(direct);
		return next == PAGE;
	case WAY_STORE:
		at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
		if (at == MAP_FAILED)
			fail("mmap");
		left = at;
		left_bytes = PAGE;
		*holds = *(volatile uint64_t *)at = next;
		return 1;
	case WAY_PUNCH:
		*holds = 0;
		return !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, PAGE);
	case WAY_PRIVATE:
		*holds = *(volatile uint64_t *)AT = next;
		return 1;
	case WAY_KEPT:
		return kept(fd, offset);
	case WAY_MUNMAP:
		return !munmap(AT, PAGE);
	case WAY_MPROTECT:
		return !mprotect(AT, PAGE, PROT_NONE);
	default:
		at = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		left = at;
		left_bytes = PAGE;
		return mremap(AT, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at;
	}
}

static void once(enum way how, int fd, int page, void *buffer)
{
	off_t offset = (off_t)page * PAGE;
	int private = how == WAY_PRIVATE, gone = how >= WAY_MUNMAP;
	unsigned char resident = 1;
	uint64_t holds = below(1ull << 30) + 1;

	// clean, for only what is clean is deferred
	fill(buffer, holds);
	if (pwrite(fd, buffer, PAGE, offset) != PAGE || fdatasync(fd))
		fail(paths[FILES + 1]);
	if (mmap(AT, PAGE, private ? PROT_READ | PROT_WRITE : PROT_READ, (private ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED_NOREPLACE,
		 fd, offset) != AT)
		fail("mmap");
	atomic_store(&place, (volatile uint64_t *)AT);
	if (read_again() && how != WAY_KEPT) {
		madvise(AT, PAGE, MADV_PAGEOUT);
		// who reads it through the old entry brings no page back
		mincore(AT, PAGE, &resident);
	}
	if (how == WAY_KEPT || !(resident & 1)) {
		if (done(how, fd, offset, buffer, &holds) && read_again()) {
			if (gone && !atomic_load(&faulted))
				bad(ways[how], FILES + 1, page, 0, atomic_load(&value), 0, 0);
			if (!gone && (atomic_load(&faulted) || atomic_load(&value) != holds))
				bad(ways[how], FILES + 1, page, 0, atomic_load(&value), holds, holds);
			counted(DIRECTED, 1);
		}
	}
	counted(READS, 2);
	rest();
}

void *directed(void *pause_us)
{
	char *table = mmap(PLACE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	void *buffer;

	random_state = mix((uintptr_t)pause_us);
	pin(2);
	if (table != PLACE || posix_memalign(&buffer, PAGE, PAGE))
		fail("memory");
	table[0] = 1;
	for (unsigned int turn = 0; !is_over(); turn++) {
		int fd = opened(FILES + 1, O_RDWR);

		once(turn % WAYS, fd, below(PAGES), buffer);
		close(fd);
		munmap(AT, PAGE);
		usleep((uintptr_t)pause_us);
	}
	return NULL;
}
