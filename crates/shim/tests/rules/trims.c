// malloc_trim(3) by the program: "passes" where nothing was asked for, "drops" where it is to be dropped, "above" where the
// process has more in memory than its bound, "short" in a group that is near its limit, "filtered" under a filter, "own" and "other" with one of the program's or of a
// library's.
#include "check.h"
#include "filter.h"
#include "group.h"
#include <malloc.h>

enum { BLOCK = 32 << 10, BLOCKS = 1000, TRIMS = 25, DROPPED = 26, SKIPPED = 77 };
enum { HOLES = (BLOCKS - 1) * (BLOCK >> 10), LIMIT = 96 << 20 };

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

// How much one has given back, in KB.
static long trimmed(int answer) {
	long before = rss();
	MUST(malloc_trim(0) == answer);
	return before - rss();
}

// Where memory is short in the machine nothing is dropped, and so nothing can be shown.
static void drop_or_skip(void) {
	for (int n = 0; n < 100; n++) {
		leave_holes();
		long before = rss(), dropped = counter(DROPPED);
		int gave = malloc_trim(0);
		if (counter(DROPPED) > dropped) {
			MUST(gave == 0 && before - rss() < HOLES / 8);
			return;
		}
		usleep(200000);
	}
	_exit(SKIPPED);
}

// In a group that has little left once the heap is full, which it has not before.
static int trim_where_memory_is_short(void) {
	if (!make_group("trims", LIMIT)) {
		printf("SKIPPED trims.c: no control group can be made here\n");
		return 0;
	}
	pid_t child = fork();
	if (child == 0) {
		// The library here may know its group of before; in a program that is started it asks.
		char *again[] = { "trims", "full", 0 };
		if (put(members, getpid()))
			execv("/proc/self/exe", again);
		_exit(1);
	}
	int status = -1;
	int ended = child > 0 && waitpid(child, &status, 0) == child;
	remove_group();
	MUST(ended && WIFEXITED(status));
	return WEXITSTATUS(status);
}

// Drops while there is room, and gives back once the rest of the group's memory is taken.
static void fill_the_group(void) {
	drop_or_skip();
	memset(map(LIMIT - LIMIT / 32 - rss() * 1024), 7, LIMIT - LIMIT / 32 - rss() * 1024);
	usleep(200000);
	MUST(trimmed(1) > HOLES / 2);
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
	if (!strcmp(mode, "short"))
		return trim_where_memory_is_short();
	if (!strcmp(mode, "full")) {
		fill_the_group();
		return 0;
	}
	if (!strcmp(mode, "drops")) {
		drop_or_skip();
		pid_t child = fork();
		MUST(child >= 0);
		if (child == 0) {
			long before = counter(DROPPED);
			_exit(malloc_trim(0) == 0 && counter(DROPPED) == before + 1 ? 0 : 1);
		}
		wait_for(child);
		return 0;
	}
	leave_holes();
	MUST(trimmed(1) > HOLES / 2 && counter(TRIMS) == 1 && counter(DROPPED) == 0);
	return 0;
}
