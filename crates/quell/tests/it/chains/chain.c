// Two ways to one function, with frames of one size: only what lies on the stack tells them apart.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define APART __attribute__((noinline, noipa))
#define LEN (1 << 16)

static volatile int done, sink;

APART void touch(int n)
{
	char *p = mmap(0, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	memset(p, n, LEN);
	munmap(p, LEN);
	sink++;
}

APART void level_6(int n)
{
	volatile char room[80];

	room[n & 63] = n;
	touch(n + room[3]);
	sink++;
}

APART void level_5(int n) { level_6(n + 1); sink++; }
APART void level_4(int n) { level_5(n + 1); sink++; }

APART void level_3(int n)
{
	volatile char room[200];

	room[n & 63] = n;
	level_4(n + room[3]);
	sink++;
}

APART void odd(int n) { level_3(n + 1); sink++; }
APART void even(int n) { level_3(n + 2); sink++; }

static void *spin(void *nothing)
{
	while (!done)
		;
	return nothing;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t thread;

	pthread_create(&thread, 0, spin, 0);
	for (int i = 0; i < n; i++) {
		if (i & 1)
			odd(i);
		else
			even(i);
	}
	done = 1;
	pthread_join(thread, 0);
	return 0;
}
