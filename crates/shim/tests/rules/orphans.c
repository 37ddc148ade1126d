// Pages that a child of fork(2) had are zeroed where they are once it is gone, and given back while it lives,
// however large the range.
#include "check.h"

#define MB (1UL << 20)

static pid_t forked(int *go) {
	MUST(pipe(go) == 0);
	pid_t child = fork();
	if (child == 0) {
		char c;
		alarm(20);
		_exit(read(go[0], &c, 1) != 1);
	}
	MUST(child > 0);
	return child;
}

static void end(pid_t child, const int *go) {
	int status;
	MUST(write(go[1], "x", 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
	close(go[0]), close(go[1]);
}

int main(void) {
	int go[2];
	for (size_t len = MB / 2; len <= 16 * MB; len *= 2) {
		char *p = filled(len);
		pid_t child = forked(go);
		MUST(madvise(p, len, MADV_DONTNEED) == 0);
		MUST(resident(p, len) == 0 && zero(p, len));

		// The last page alone is shared.
		memset(p, 7, len);
		end(child, go);
		child = forked(go);
		memset(p, 7, len - PAGE);
		MUST(madvise(p, len, MADV_DONTNEED) == 0);
		MUST(resident(p, len) == 0);

		memset(p, 7, len);
		end(child, go);
		MUST(madvise(p, len, MADV_DONTNEED) == 0);
		MUST(resident(p, len) == (long)(len / PAGE) && zero(p, len));

		memset(p, 7, len);
		end(forked(go), go);
		MUST(madvise(p, len, MADV_DONTNEED) == 0);
		MUST(resident(p, len) == (long)(len / PAGE) && zero(p, len));

		memset(p, 7, len);
		MUST(munmap(p, len) == 0 && map(len) == p);
		MUST(resident(p, len) == (long)(len / PAGE) && zero(p, len));
		MUST(munmap(p, len) == 0);
	}
	return 0;
}
