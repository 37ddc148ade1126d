// A process with nearly as many mappings as it may have (vm.max_map_count): what the kernel refuses on the way leaves
// all as it was.
#include "check.h"

enum { LEN = 4 * PAGE };

// One mapping to the program, and two to the kernel (see fixed.c).
static char *both(void) {
	char *p = map(8 * LEN);
	MUST(madvise(p, 8 * LEN, MADV_NOHUGEPAGE) == 0 && munmap(p, 8 * LEN) == 0);
	for (int i = 0; i < 3; i++) {
		char *part = p + (size_t)(i == 0 ? 0 : 3 - i) * LEN;
		MUST(mmap(part, LEN, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == part);
		memset(part, 7, LEN);
	}
	for (int i = 0; i < 3; i++)
		MUST(munmap(p + (size_t)i * LEN, LEN) == 0);
	MUST(map(3 * LEN) == p);
	memset(p, 8, 3 * LEN);
	return p;
}

static int all(const char *p, char value) {
	for (size_t i = 0; i < 3 * LEN; i++)
		if (p[i] != value)
			return 0;
	return 1;
}

int main(void) {
	long limit, refused = 0, moved = 0;
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
	MUST(f && fscanf(f, "%ld", &limit) == 1);
	fclose(f);
	if (limit > 200000) {
		printf("not looked at: vm.max_map_count is %ld\n", limit);
		return 0;
	}
	char *p = both(), *a = map(LEN * 40) + 8 * LEN, *b = a + 16 * LEN;
	// Each other page may not be used, so each page is a mapping. The library does not see them.
	size_t len = (size_t)limit * PAGE;
	char *many = (char *)syscall(SYS_mmap, 0, len, RW, ANON | MAP_NORESERVE, -1, 0);
	MUST(many != MAP_FAILED);
	for (long n = 1; n < limit - 1 && refused < 12; n += 2) {
		if (syscall(SYS_mprotect, many + (size_t)n * PAGE, PAGE, PROT_NONE))
			break;
		if (n < limit - 200)
			continue;
		char *to = mremap(p, 3 * LEN, 3 * LEN, MREMAP_MAYMOVE | MREMAP_FIXED, p == a ? b : a);
		if (to == MAP_FAILED) {
			MUST(errno == ENOMEM && all(p, 8));
			refused++;
			continue;
		}
		MUST(all(to, 8));
		p = to;
		moved++;
	}
	MUST(moved > 0 && refused > 0);
	return 0;
}
