// What the kernel still reads after it is unmapped or given back: the pages that vmsplice(2) has lent to a
// pipe. The reader finds what was in them, and nothing of what came after.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include <sys/socket.h>
#include <sys/uio.h>

enum { LEN = 8 * 4096 };

static void lend(int raw, int unmap) {
	int ends[2];
	static char got[LEN];
	char *p = filled(LEN), *next;
	struct iovec part = { p + 1, LEN - 1 };
	MUST(pipe(ends) == 0);
	memset(p, 'A', LEN);
	MUST((raw ? syscall(SYS_vmsplice, ends[1], &part, 1, 0) : vmsplice(ends[1], &part, 1, 0)) == LEN - 1);
	if (unmap) {
		MUST(munmap(p, LEN) == 0);
		next = map(LEN);
		memset(next, 'S', LEN);
	} else {
		MUST(madvise(p, LEN, MADV_DONTNEED) == 0 && zero(p, LEN));
	}
	size_t have = 0;
	while (have < LEN - 1) {
		ssize_t more = read(ends[0], got + have, LEN - 1 - have);
		MUST(more > 0);
		have += more;
	}
	for (size_t n = 0; n < LEN - 1; n++)
		MUST(got[n] == 'A');
	close(ends[0]);
	close(ends[1]);
}

int main(void) {
	for (int n = 0; n < 4; n++)
		lend(n & 1, n & 2);
	// Bad arguments are the kernel's to refuse.
	MUST(vmsplice(-1, 0, 1, 0) == -1 && errno == EBADF);
	char *p = served(LEN); // or this test shows nothing
	// With zero-copy sends nothing is kept any more.
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	if (fd >= 0) {
		MUST(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)) == 0);
		served(LEN);
		setsockopt(fd, SOL_SOCKET, 60, &one, sizeof(one));
		p = filled(LEN);
		MUST(munmap(p, LEN) == 0 && resident(p, LEN) == -1);
	}
	return 0;
}
