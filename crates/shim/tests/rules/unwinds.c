// Who unwinds the stack of a thread that waits in syscall(2), as profilers and pthread_cancel(3) do, finds the program's own
// functions.
#include "check.h"
#include <execinfo.h>

static volatile int found;

__attribute__((noinline)) static void waits(void) {
	struct timespec ten = {.tv_sec = 10};
	MUST(syscall(SYS_nanosleep, &ten, 0) == -1 && errno == EINTR);
}

static void looks(int signal) {
	void *frames[64];
	char *function = (char *)waits;
	(void)signal;
	for (int n = backtrace(frames, 64); n--;)
		found |= function < (char *)frames[n] && (char *)frames[n] < function + 256;
}

int main(void) {
	struct itimerval soon = {.it_value.tv_usec = 50000};
	void *frame;
	MUST(backtrace(&frame, 1) == 1); // loads what it needs
	MUST(signal(SIGALRM, looks) != SIG_ERR && setitimer(ITIMER_REAL, &soon, 0) == 0);
	waits();
	MUST(found);
	return 0;
}
