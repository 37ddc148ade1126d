// Before any constructor, and in signal handlers wherever they come.
#include "check.h"

static char *first;
static void early(void) {
	fill_gaps();
	// With room on both sides: what the libraries map next comes there.
	first = mmap(0, 64 * PAGE, RW, ANON, -1, 0);
	if (first != MAP_FAILED && munmap(first, 24 * PAGE) == 0 && munmap(first + 40 * PAGE, 24 * PAGE) == 0)
		memset(first += 24 * PAGE, 1, 16 * PAGE);
}
__attribute__((section(".preinit_array"), used)) static void (*const before)(void) = early;
__attribute__((constructor(101))) static void constructor(void) {
	char *p = mmap(0, 16 * PAGE, RW, ANON, -1, 0);
	MUST(p != MAP_FAILED);
	memset(p, 1, 16 * PAGE);
	MUST(munmap(p, 16 * PAGE) == 0);
}

static volatile long handled;
static volatile int leave;
static sigjmp_buf out;
static char *held;

// In a handler, where nothing but this is safe.
#define SURE(what)                                                              \
	do {                                                                    \
		if (!(what)) {                                                  \
			static const char text[] = "in the handler: " #what "\n"; \
			if (write(2, text, sizeof text - 1) > 0)                \
				abort();                                        \
		}                                                               \
	} while (0)

static void handler(int sig) {
	int saved = errno;
	char *p = mmap(0, 3 * PAGE, RW, ANON, -1, 0);
	SURE(p != MAP_FAILED);
	SURE(zero(p, 3 * PAGE));
	memset(p, sig, 3 * PAGE);
	SURE(madvise(p, PAGE, MADV_DONTNEED) == 0);
	SURE(zero(p, PAGE));
	SURE(mprotect(p, PAGE, PROT_READ) == 0);
	SURE(munmap(p, 3 * PAGE) == 0);
	// What was mapped before the signal is unmapped, and mapped as something else.
	if (held) {
		SURE(munmap(held, 4 * PAGE) == 0);
		SURE(mmap(held, 4 * PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0) == held);
		SURE(zero(held, 4 * PAGE));
		held = 0;
	}
	handled++;
	errno = saved;
	if (leave) {
		leave = 0;
		siglongjmp(out, 1);
	}
}

static void churn(int rounds) {
	for (int i = 0; i < rounds; i++) {
		char *p = map(4 * PAGE), *q = map(4 * PAGE);
		MUST(zero(p, 4 * PAGE) && zero(q, 4 * PAGE));
		memset(p, 1, 4 * PAGE), memset(q, 2, 4 * PAGE);
		held = q;
		MUST(madvise(p, 2 * PAGE, MADV_DONTNEED) == 0 && zero(p, 2 * PAGE) && p[2 * PAGE] == 1);
		MUST(munmap(p, 4 * PAGE) == 0);
		held = 0;
		if (mprotect(q, 4 * PAGE, RW) == 0)
			memset(q, 3, 4 * PAGE);
		MUST(munmap(q, 4 * PAGE) == 0);
	}
}

int main(void) {
	alarm(50);
	MUST(first != MAP_FAILED && first[0] == 1);
	// It is known: what it gives back is zeroed, and it is kept.
	MUST(madvise(first, PAGE, MADV_DONTNEED) == 0 && resident(first, PAGE) == 1 && first[0] == 0);
	MUST(munmap(first, 16 * PAGE) == 0 && resident(first, PAGE) == 1);
	struct sigaction action = {.sa_handler = handler};
	sigaction(SIGPROF, &action, 0);
	// As often as the kernel does it, on whatever instruction.
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
	struct itimerspec often = {{0, 500000}, {0, 500000}};
	MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &often, 0) == 0);
	churn(8000);
	MUST(handled > 100);

	// Handlers that never return leave the library behind, perhaps with its lock; the program goes on.
	for (volatile int i = 0; i < 200; i++)
		if (sigsetjmp(out, 1) == 0) {
			held = 0;
			leave = 1;
			for (;;)
				MUST(munmap(filled(4 * PAGE), 4 * PAGE) == 0);
		}
	churn(1000);
	return 0;
}
