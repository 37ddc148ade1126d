// A limit of what may be mapped, set by setrlimit(2) or prlimit(2) while the program runs: what is kept is gone by the
// time that the call returns, and nothing more is kept as long as there is a limit.
#include "check.h"
#include <sys/resource.h>

enum { LEN = 64 * PAGE };

static int by_setrlimit(int which, const struct rlimit *to) { return setrlimit(which, to); }
static int by_prlimit(int which, const struct rlimit *to) { return prlimit(0, which, to, 0); }
static int by_its_number(int which, const struct rlimit *to) { return prlimit(getpid(), which, to, 0); }
static int by_syscall(int which, const struct rlimit *to) { return syscall(SYS_setrlimit, (long)which, to); }
static int by_syscall_too(int which, const struct rlimit *to) {
	return syscall(SYS_prlimit64, 0L, (long)which, to, 0L);
}

int main(void) {
	int (*const ways[])(int, const struct rlimit *) = {by_setrlimit, by_prlimit, by_its_number, by_syscall, by_syscall_too};
	int resources[] = {RLIMIT_AS, RLIMIT_DATA};
	for (int i = 0; i < 10; i++) {
		struct rlimit limit, before;
		MUST(getrlimit(resources[i % 2], &before) == 0);
		if (before.rlim_cur != RLIM_INFINITY)
			continue;
		// Some of it may serve, some not yet.
		char *p = served(LEN), *more = kept(3 * LEN);
		MUST(munmap(p, LEN) == 0 && prlimit(0, resources[i % 2], 0, &limit) == 0);
		MUST(resident(more, 3 * LEN) == 3 * 64 && counter(DIRTY) > 0);
		limit.rlim_cur = 64UL << 30;
		MUST(ways[i / 2](resources[i % 2], &limit) == 0);
		MUST(resident(more, 3 * LEN) == -1 && counter(DIRTY) == 0);
		for (int n = 0; n < 100; n++) {
			p = filled(LEN);
			MUST(munmap(p, LEN) == 0 && resident(p, LEN) == -1);
		}
		// Nothing else of a process says whether what is mapped is counted.
		MUST(ways[i / 2](resources[i % 2], &before) == 0);
	}
	served(LEN);
	return 0;
}
