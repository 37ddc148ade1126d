// What is mapped at a certain address finds it free, whatever is kept there.
#include "check.h"

int main(void) {
	size_t len = 16 * PAGE;
	char *p = kept(len);
	MUST(mmap(p, len, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == p && zero(p, len));
	p[0] = 1;
	MUST(mmap(p, len, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED && errno == EEXIST && p[0] == 1);

	p = kept(len);
	MUST(mmap(p + PAGE, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + PAGE);
	strcpy(p + PAGE, "mine");
	for (int i = 0; i < 50; i++) // the rest is served and trimmed around it
		MUST(munmap(filled(14 * PAGE), 14 * PAGE) == 0);
	MUST(strcmp(p + PAGE, "mine") == 0);

	char *from = filled(len);
	p = kept(len);
	MUST(mremap(from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p && p[len - 1] == 7);
	MUST(resident(from, len) == -1);

	// A hint that is free is taken.
	p = kept(len);
	MUST(mmap(p, len, PROT_READ, ANON, -1, 0) == p);

	// shmat(2) takes no address where something is.
	p = kept(len);
	int id = shmget(IPC_PRIVATE, len, IPC_CREAT | 0600);
	if (id >= 0) {
		void *at = shmat(id, p, 0);
		shmctl(id, IPC_RMID, 0);
		MUST(at == p && zero(p, len));
	}

	// To grow where it is, behind which something is kept.
	p = filled(2 * len);
	MUST(munmap(p + len, len) == 0 && resident(p + len, len) == 16);
	MUST(mremap(p, len, 2 * len, 0) == p && p[len - 1] == 7 && zero(p + len, len));

	// Of several mappings to the kernel, it is moved and grows as one, also where an advice has made it unknown.
	p = in_pieces(len);
	MUST(madvise(p, 3 * len, MADV_DODUMP) == 0);
	MUST(mremap(p, 3 * len, 4 * len, 0) == p && p[3 * len - 1] == 8 && zero(p + 3 * len, len));
	from = p;
	p = map(4 * len);
	MUST(mremap(from, 4 * len, 4 * len, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p);
	MUST(p[0] == 8 && p[3 * len - 1] == 8 && zero(p + 3 * len, len) && resident(from, len) == -1);

	// A range with kept holes: all of it is unmapped, and calls on it find the holes.
	p = filled(8 * PAGE);
	MUST(munmap(p + 2 * PAGE, 2 * PAGE) == 0);
	MUST(mprotect(p, 8 * PAGE, PROT_READ) == -1 && errno == ENOMEM);
	MUST(mlock(p, 8 * PAGE) == -1 && errno == ENOMEM && munlock(p, PAGE) == 0);
	MUST(munmap(p, 8 * PAGE) == 0 && munmap(p, 8 * PAGE) == 0);
	MUST(munmap(p, 1UL << 62) == -1 && errno == EINVAL);
	return 0;
}
