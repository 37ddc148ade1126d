// What was only read has the shared page of zeros: it is neither filled when it is given back or served,
// nor served as it is, where each write would copy a page and interrupt the other threads.
#include "check.h"

// How many pages in memory are this process's alone (Documentation/admin-guide/mm/pagemap.rst), or not.
static int pages(char *p, size_t len, int own) {
	int fd = open("/proc/self/pagemap", O_RDONLY), count = 0;
	for (size_t at = 0; at < len; at += PAGE) {
		uint64_t entry;
		MUST(pread(fd, &entry, 8, (uintptr_t)(p + at) / PAGE * 8) == 8);
		count += entry >> 63 && (entry >> 56 & 1) == own;
	}
	close(fd);
	return count;
}

int main(void) {
	size_t len = 64 * PAGE;
	char *p = map(len);
	MUST(zero(p, len) && pages(p, len, 0) == 64);
	MUST(madvise(p, len, MADV_DONTNEED) == 0);
	MUST(pages(p, len, 1) == 0);
	// Some with content, which are zeroed, and more that were read: all are given back for those.
	for (int n = 0; n < 16; n++)
		p[n * PAGE + 8 * n] = 1;
	MUST(zero(p + 16 * PAGE, len - 16 * PAGE) && pages(p, len, 0) == 48);
	MUST(munmap(p, len) == 0 && map(len) == p);
	MUST(pages(p, len, 0) == 0 && zero(p, len));
	return 0;
}
