// What a page holds, and whether what was read may be that.
#include <fcntl.h>

#include "stress.h"

static uint64_t where(int file, int page, int line)
{
	return (uint64_t)file << 48 | (uint64_t)page << 16 | line;
}

static void make_line(struct line *l, int file, int page, int line, uint64_t version)
{
	l->version = version;
	l->where = where(file, page, line);
	l->sum = mix(l->where * 0x9e3779b97f4a7c15 + version);
	for (int i = 0; i < 5; i++)
		l->fill[i] = l->sum + i;
}

void make_page(void *at, int file, int page, uint64_t version)
{
	for (int i = 0; i < LINES; i++)
		make_line((struct line *)at + i, file, page, i, version);
}

void bad(const char *what, int file, int page, int line, uint64_t found, uint64_t from, uint64_t to)
{
	static _Atomic int told;

	counted(BAD, 1);
	if (atomic_fetch_add(&told, 1) < 8)
		fprintf(stderr, "stress: %s: file %d page %d line %d has version %llx, not %llx to %llx\n", what, file,
			page, line, (unsigned long long)found, (unsigned long long)from, (unsigned long long)to);
}

// Each word that is known is counted as one read.
void check(const char *what, const void *line_at, int file, int page, int line)
{
	const volatile uint64_t *at = line_at;
	struct state *s = &shared->pages[file][page];
	uint64_t from = atomic_load(&s->over), to, found[8], want[8] = {0};

	for (int i = 0; i < 8; i++)
		found[i] = at[i];
	atomic_thread_fence(memory_order_seq_cst);
	to = atomic_load(&s->begun);

	if (from != to) {
		// it is being changed: the version lies between, or there is a hole, of which none has the number
		int hole = found[0] == 0 && (from & 1 || to & 1 || to > from + 2);

		counted(READS, 1);
		// a page is also all zeros between being cut off and being written
		if (!hole && (found[0] < from || found[0] > to))
			bad(what, file, page, line, found[0], from, to);
		return;
	}
	if (!(from & 1))
		make_line((struct line *)want, file, page, line, from);
	counted(READS, 8);
	for (int i = 0; i < 8; i++)
		if (found[i] != want[i]) {
			bad(what, file, page, line, found[i], from, to);
			return;
		}
}

int opened(int file, int flags)
{
	int fd = open(paths[file], flags | O_CLOEXEC, 0644);

	if (fd < 0)
		fail(paths[file]);
	return fd;
}
