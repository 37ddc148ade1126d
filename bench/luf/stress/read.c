// Who reads, and who presses, so that what is read is reclaimed all the time.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stress.h"

extern __thread sigjmp_buf back;

static void *mapped(int file, int flags)
{
	int fd = opened(file, O_RDONLY);
	void *at = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, flags, fd, 0);

	close(fd);
	if (at == MAP_FAILED)
		fail("mmap");
	return at;
}

// The file that is replaced: a mapping is of one version, not older than what was there before it was opened.
static void read_replaced(void)
{
	uint64_t from = atomic_load(&shared->replaced), version;
	struct line *at = mapped(FILES, MAP_SHARED);

	version = ((volatile struct line *)at)->version;
	if (version < from)
		bad("the file before the rename", FILES, 0, 0, version, from, ~0ull);
	for (int turn = 0; turn < 2000; turn++) {
		int page = below(PAGES), line = below(LINES);
		uint64_t found = ((volatile struct line *)at)[page * LINES + line].version;

		if (found != version)
			bad("another file than was mapped", FILES, page, line, found, version, version);
	}
	counted(READS, 2001);
	munmap(at, (size_t)PAGES * PAGE);
}

// Stays on some pages for a while, so that their entries stay in the TLB and the pages look cold: nobody walks the page
// tables for them. So it reads through entries that were cleared, for as long as those may live.
void *reader(void *seed)
{
	struct line *at[FILES];

	random_state = mix((uintptr_t)seed);
	for (int file = 0; file < FILES; file++)
		at[file] = mapped(file, MAP_SHARED);
	while (!is_over()) {
		int file[8], page[8];

		for (int i = 0; i < 8; i++)
			file[i] = below(FILES), page[i] = below(PAGES);
		// SIGBUS, beyond the end while the file is cut
		if (sigsetjmp(back, 1))
			continue;
		for (int turn = 0; turn < 16000; turn++) {
			int i = turn % 8, line = turn / 8 % LINES;

			check("a reader", at[file[i]] + (size_t)page[i] * LINES + line, file[i], page[i], line);
		}
		if (below(8) == 0)
			read_replaced();
	}
	return NULL;
}

// By read(2), which has a reference to the page meanwhile: reclaim has to keep it.
void *descriptor_reader(void *seed)
{
	int fd[FILES];
	void *buffer;

	random_state = mix((uintptr_t)seed);
	if (posix_memalign(&buffer, PAGE, PAGE))
		fail("posix_memalign");
	for (int file = 0; file < FILES; file++)
		fd[file] = opened(file, O_RDONLY);
	while (!is_over()) {
		int file = below(FILES), page = below(PAGES);
		struct state *s = &shared->pages[file][page];
		uint64_t from = atomic_load(&s->over), version, to;

		if (pread(fd[file], buffer, PAGE, (off_t)page * PAGE) != PAGE)
			continue;
		version = ((struct line *)buffer)->version;
		to = atomic_load(&s->begun);
		counted(READS, 1);
		if (version ? version < from || version > to : from == to && !(from & 1))
			bad("read(2)", file, page, 0, version, from, to);
		usleep(below(200));
	}
	return NULL;
}

// Reads what is larger than memory allows, again and again.
void *presser(void *seed)
{
	int fd = open(ballast, O_RDONLY | O_CLOEXEC);
	size_t size = (size_t)BALLAST_MB << 20;
	volatile uint64_t *at;

	(void)seed;
	if (fd < 0)
		fail(ballast);
	at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	while (!is_over()) {
		uint64_t page, found;

		for (page = 0; page < size / PAGE && !is_over(); page++) {
			found = at[page * PAGE / 8];
			if (found != mix(page))
				bad("the ballast", -2, (int)page, 0, found, mix(page), mix(page));
		}
		counted(READS, page);
		counted(SWEPT, 1);
	}
	return NULL;
}

// Memory without a file, which goes to swap where there is some.
void *anonymous(void *seed)
{
	size_t words = ((size_t)ANON_MB << 20) / 8, step = PAGE / 8;
	volatile uint64_t *at = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		fail("mmap");
	for (uint64_t turn = (uintptr_t)seed; !is_over(); turn++) {
		for (size_t i = 0; i < words; i += step)
			at[i] = mix(turn + i);
		usleep(300000);
		for (size_t i = 0; i < words; i += step)
			if (at[i] != mix(turn + i))
				bad("anonymous memory", -3, (int)(i / step), 0, at[i], mix(turn + i), mix(turn + i));
		counted(READS, words / step);
	}
	return NULL;
}
