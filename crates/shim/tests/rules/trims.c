// malloc_trim(3) by the program: "passes" where nothing was asked for, "drops" where it is to be dropped, "above" where the
// process has more in memory than its bound, "filtered" under a filter, "own" and "other" with one of the program's or of a
// library's.
#include "check.h"
#include "filter.h"
#include <malloc.h>

enum { BLOCK = 32 << 10, BLOCKS = 1000, TRIMS = 25, DROPPED = 26 };

#ifdef OWN
int malloc_trim(size_t pad) { return (int)pad + 40; }
#endif

// Free memory in the middle of the heap: what malloc gives back by itself is at its end.
static void leave_holes(void) {
	static char *blocks[BLOCKS];
	for (int n = 0; n < BLOCKS; n++)
		MUST((blocks[n] = malloc(BLOCK)) && memset(blocks[n], 7, BLOCK));
	for (int n = 0; n < BLOCKS - 1; n++)
		free(blocks[n]);
}

int main(int argc, char **argv) {
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "own") || !strcmp(mode, "other")) {
		MUST(malloc_trim(2) == 42 && malloc_trim(3) == 43);
		return 0;
	}
	if (!strcmp(mode, "filtered")) {
		struct sock_filter code[] = { NUMBER, KILL(440), ALLOW_ALL_ELSE };
		struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
		MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
		MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
	}
	leave_holes();
	long before = rss();
	int gave = malloc_trim(0);
	long less = before - rss(), most = (BLOCKS - 1L) * BLOCK / 1024;
	MUST(counter(TRIMS) == 1);
	if (!strcmp(mode, "drops")) {
		MUST(gave == 0 && less < most / 8 && counter(DROPPED) == 1);
		pid_t child = fork();
		MUST(child >= 0);
		if (child == 0) // what the parent counted is the parent's
			_exit(malloc_trim(0) == 0 && counter(DROPPED) == counter(TRIMS) ? 0 : 1);
		wait_for(child);
		return 0;
	}
	MUST(gave == 1 && less > most / 2 && counter(DROPPED) == 0);
	return 0;
}
