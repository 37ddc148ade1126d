// A process that is moved to a small control group, and the children that it forks there, keep no more than a part of that.
#include "check.h"
#include "group.h"

enum { BLOCK = 1 << 20, BLOCKS = 16, LIMIT = 64 << 20, SKIPPED = 77 };
static void use(void) {
	char *blocks[BLOCKS];
	for (int n = 0; n < BLOCKS; n++)
		blocks[n] = filled(BLOCK);
	for (int n = 0; n < BLOCKS; n++)
		MUST(munmap(blocks[n], BLOCK) == 0);
}

static int keeps_little(void) { return counter(DIRTY) <= LIMIT / 16; }

// The library looks every 100 ms at most, and at some of the calls.
static void wait_until_little_is_kept(void) {
	for (int n = 0; !keeps_little() && n < 200; n++) {
		for (int k = 0; k < 8; k++)
			use();
		usleep(100000);
	}
	MUST(keeps_little());
}

static void be_moved(void) {
	// Where memory is short, or the group can't be joined, nothing can be shown.
	for (int n = 0; keeps_little() && n < 600; n++) {
		use();
		usleep(10000);
	}
	if (keeps_little() || !put(members, getpid()))
		_exit(SKIPPED);
	wait_until_little_is_kept();
	pid_t child = fork();
	MUST(child >= 0);
	if (child == 0) {
		for (int n = 0; n < 8; n++)
			use();
		wait_until_little_is_kept();
		_exit(0);
	}
	wait_for(child);
	_exit(0);
}

int main(void) {
	if (!make_group("moved", LIMIT)) {
		printf("SKIPPED moved.c: no control group can be made here\n");
		return 0;
	}
	pid_t child = fork();
	if (child == 0)
		be_moved();
	int status = -1;
	int ended = child > 0 && waitpid(child, &status, 0) == child;
	remove_group();
	MUST(ended && WIFEXITED(status));
	if (WEXITSTATUS(status) != SKIPPED)
		return WEXITSTATUS(status);
	printf("SKIPPED moved.c: nothing is kept here, or the control group can't be joined\n");
	return 0;
}
