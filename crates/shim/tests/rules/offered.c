// What is kept beyond a few megabytes is offered to the kernel: it takes that where memory is short, what has served since is the
// program's own, and once it has taken some no more is kept than those few.
#include "check.h"

enum { BLOCK = 1 << 20, BLOCKS = 24, FIRM = 4 << 20, FOREIGN = 21, OFFERED = 24 };
static char *blocks[BLOCKS];

// Bytes of this process that the kernel may take.
static long lazy(void) {
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	MUST(file);
	char line[256];
	long kb = -1;
	while (kb < 0 && fgets(line, sizeof line, file))
		(void)sscanf(line, "LazyFree: %ld", &kb);
	MUST(fclose(file) == 0 && kb >= 0);
	return kb * 1024;
}

static void map_all(void) {
	for (int n = 0; n < BLOCKS; n++) {
		MUST(zero(blocks[n] = map(BLOCK), BLOCK));
		memset(blocks[n], n + 1, BLOCK);
	}
}

static void unmap_all(void) {
	for (int n = 0; n < BLOCKS; n++)
		MUST(munmap(blocks[n], BLOCK) == 0);
}

// Whether all is offered that is to be. A page that the kernel has on no list yet it does not take note of
// (folio_mark_lazyfree, mm/swap.c): a few of those that were touched last.
static int is_offered(long kept) { return kept > 2 * FIRM && lazy() >= kept - FIRM - 128 * (long)PAGE; }

// As the kernel does where memory is short.
static void take_all(void) {
	for (int n = 0; n < BLOCKS; n++)
		(void)raw(SYS_madvise, (long)blocks[n], BLOCK, MADV_PAGEOUT, 0, 0, 0);
}

int main(void) {
	for (int n = 0; counter(OFFERED) == 0 && n < 8; n++) {
		map_all();
		unmap_all();
	}
	MUST(is_offered(counter(DIRTY)));

	long before = counter(SERVED);
	map_all();
	MUST(counter(SERVED) > before);
	take_all();
	for (int n = 0; n < BLOCKS; n++)
		for (size_t at = 0; at < BLOCK; at++)
			MUST(blocks[n][at] == n + 1);
	unmap_all();
	MUST(is_offered(counter(DIRTY)));

	// Somebody maps past the library over what is not offered: that says nothing of what the kernel does with what is.
	char *last = blocks[BLOCKS - 1];
	before = counter(FOREIGN);
	MUST(raw(SYS_mmap, (long)last, BLOCK, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == (long)last);
	for (int n = 0; n < 3; n++) {
		map_all();
		unmap_all();
	}
	MUST(counter(FOREIGN) > before && zero(last, BLOCK));
	MUST(is_offered(counter(DIRTY)));

	take_all();
	MUST(lazy() < BLOCK);
	for (int n = 0; n < 3; n++) {
		map_all();
		unmap_all();
	}
	MUST(counter(DIRTY) <= FIRM && lazy() <= FIRM);
	return 0;
}
