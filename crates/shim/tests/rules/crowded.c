// A process with nearly as many mappings as it may have (vm.max_map_count): what the kernel refuses on the way leaves
// all as it was.
#include "check.h"

enum { LEN = 4 * PAGE };

static int all(const char *p, char value) {
	for (size_t i = 0; i < 3 * LEN; i++)
		if (p[i] != value)
			return 0;
	return 1;
}

// Moves to and fro while mappings become too many: whether it is refused or not, nothing is lost.
static void crowd(long limit, int flags, size_t apart) {
	long refused = 0, moved = 0;
	char *p = in_pieces(LEN);
	MUST(syscall(SYS_mmap, 0, apart, PROT_READ, ANON, -1, 0) != -1);
	char *a = map(LEN * 40) + 8 * LEN, *b = a + 16 * LEN;
	// Each other page may not be used, so each page is a mapping. The library does not see them.
	size_t len = (size_t)limit * PAGE;
	char *many = (char *)syscall(SYS_mmap, 0, len, RW, ANON | MAP_NORESERVE, -1, 0);
	MUST(many != MAP_FAILED);
	for (long n = 1; n < limit - 1 && refused < 12; n += 2) {
		if (syscall(SYS_mprotect, many + (size_t)n * PAGE, PAGE, PROT_NONE))
			break;
		if (n < limit - 200)
			continue;
		char *to = mremap(p, 3 * LEN, 3 * LEN, MREMAP_MAYMOVE | MREMAP_FIXED | flags, p == a ? b : a);
		if (to == MAP_FAILED) {
			MUST(errno == ENOMEM && all(p, 8));
			refused++;
			continue;
		}
		MUST(all(to, 8) && (flags == 0 || all(p, 0)));
		p = to;
		moved++;
	}
	MUST(moved > 0 && refused > 0);
}

int main(void) {
	long limit;
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
	MUST(f && fscanf(f, "%ld", &limit) == 1);
	fclose(f);
	if (limit > 200000) {
		printf("not looked at: vm.max_map_count is %ld\n", limit);
		return 0;
	}
	for (int n = 0; n < 4; n++) {
		pid_t child = fork();
		if (child == 0) {
			crowd(limit, n & 1 ? MREMAP_DONTUNMAP : 0, n & 2 ? PAGE : 64 * PAGE);
			exit(0);
		}
		wait_for(child);
	}
	return 0;
}
