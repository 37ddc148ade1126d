// MADV_DONTNEED: zeros at once, on anonymous private memory only, and nothing is filled by it.
#include "check.h"

int main(void) {
	// The kernel's, where hardly anything is there. Of another size than the next, which is no less likely to be used for it.
	char *p = map(256 * PAGE);
	p[10 * PAGE] = 1;
	MUST(madvise(p, 256 * PAGE, MADV_DONTNEED) == 0 && resident(p, 256 * PAGE) == 0 && p[10 * PAGE] == 0);
	p = map(64 * PAGE);
	memset(p, 5, 10 * PAGE), memset(p + 14 * PAGE, 5, 50 * PAGE);
	MUST(madvise(p, 64 * PAGE, MADV_DONTNEED) == 0);
	MUST(resident(p, 64 * PAGE) == 60); // zeroed where it was, and no other page came
	MUST(zero(p, 64 * PAGE));
	memset(p, 5, 64 * PAGE);
	MUST(madvise(p + PAGE, 3 * PAGE, MADV_DONTNEED) == 0);
	MUST(p[PAGE - 1] == 5 && zero(p + PAGE, 3 * PAGE) && p[4 * PAGE] == 5);
	// Every second page is there: more runs than are worth a call each.
	for (int i = 0; i < 64; i += 2)
		MUST(madvise(p + i * PAGE, PAGE, MADV_PAGEOUT) == 0 || errno == EINVAL);
	MUST(madvise(p, 64 * PAGE, MADV_DONTNEED) == 0 && zero(p, 64 * PAGE));

	// A private mapping of a file shows the file again.
	char name[] = "/tmp/quell-shim-XXXXXX";
	int fd = mkstemp(name);
	MUST(fd >= 0 && unlink(name) == 0 && write(fd, "file", 4) == 4 && ftruncate(fd, 4 * PAGE) == 0);
	char *f = mmap(0, 4 * PAGE, RW, MAP_PRIVATE, fd, 0);
	f[0] = 'X';
	MUST(madvise(f, 4 * PAGE, MADV_DONTNEED) == 0 && memcmp(f, "file", 4) == 0);
	// Shared memory keeps what is in it.
	char *s = mmap(0, 4 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s[0] = 'S';
	MUST(madvise(s, 4 * PAGE, MADV_DONTNEED) == 0 && s[0] == 'S');
	// What can't be written can be given back.
	char *r = filled(4 * PAGE);
	MUST(mprotect(r, 4 * PAGE, PROT_READ) == 0 && madvise(r, 4 * PAGE, MADV_DONTNEED) == 0);
	MUST(zero(r, 4 * PAGE));
	MUST(mprotect(r, 4 * PAGE, PROT_NONE) == 0 && madvise(r, 4 * PAGE, MADV_DONTNEED) == 0);
	// What is locked can't.
	char *l = filled(4 * PAGE);
	MUST(mlock(l, 4 * PAGE) == 0);
	MUST(madvise(l, 4 * PAGE, MADV_DONTNEED) == -1 && errno == EINVAL && l[0] == 7);
	// What is not mapped is ENOMEM, also where it was until just now.
	char *gone = filled(4 * PAGE);
	MUST(munmap(gone + PAGE, PAGE) == 0);
	MUST(madvise(gone, 4 * PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);
	MUST(zero(gone, PAGE) && zero(gone + 2 * PAGE, 2 * PAGE));
	return 0;
}
