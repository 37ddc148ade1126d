// Another process writes into memory that this one has unmapped (process_vm_writev(2)), wherever in its pages: no mapping
// shows what it wrote, whether it was refused or not.
#include "check.h"
#include <sched.h>
#include <sys/uio.h>

// So few in one process that what the library finds to be somebody else's stays below the 8 MB after which it keeps nothing.
enum { LEN = 16 * PAGE, ROUNDS = 60 };

struct shared {
	volatile int turn; // whose it is: 0 this process's, 1 the other's, 2 nobody's any more
	char *volatile at;
	volatile int how;
	volatile int written;
};

static void yield_until(struct shared *s, int turn) {
	while (s->turn != turn)
		sched_yield();
}

// Whole pages; all but where they begin; only where they begin; or one byte.
static void other(struct shared *s, pid_t to) {
	static char text[LEN];
	alarm(50);
	memset(text, 'W', sizeof text);
	for (;;) {
		while (s->turn == 0)
			sched_yield();
		if (s->turn == 2)
			_exit(0);
		for (int n = 0; n < 16; n++) {
			size_t from[] = {0, 64, 0, PAGE - 1}, len[] = {PAGE, PAGE - 64, 64, 1};
			struct iovec local = {text, len[s->how]};
			struct iovec remote = {s->at + n * PAGE + from[s->how], len[s->how]};
			s->written += process_vm_writev(to, &local, 1, &remote, 1, 0) > 0;
		}
		__sync_synchronize();
		s->turn = 0;
	}
}

int main(void) {
	alarm(50);
	struct shared *s = mmap(0, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t self = getpid();
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	pid_t child = fork();
	if (child == 0)
		other(s, self);
	MUST(child > 0);
	for (int n = 0; n < ROUNDS; n++) {
		char *p = kept(LEN), *new[3];
		s->at = p, s->how = n % 4;
		__sync_synchronize();
		s->turn = 1;
		yield_until(s, 0);
		for (int i = 0; i < 3; i++) {
			MUST(zero(new[i] = map(LEN), LEN));
			memset(new[i], 7, LEN);
		}
		// And where it is mapped that very address.
		MUST(munmap(new[0], LEN) == 0);
		s->at = new[0];
		__sync_synchronize();
		s->turn = 1;
		yield_until(s, 0);
		MUST(mmap(new[0], LEN, RW, ANON | MAP_FIXED, -1, 0) == new[0] && zero(new[0], LEN));
		memset(new[0], 7, LEN);
		for (int i = 0; i < 3; i++)
			MUST(munmap(new[i], LEN) == 0);
	}
	if (s->written == 0)
		fprintf(stderr, "it could not write anything\n");
	s->turn = 2;
	wait_for(child);
	return 0;
}
