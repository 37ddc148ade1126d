// personality(2) with READ_IMPLIES_EXEC: what this thread maps from then on is executable, also where something is kept for it.
#include "check.h"
#include <pthread.h>
#include <sys/personality.h>

enum { LEN = 64 * PAGE };

// By the C library, or by a system call that it does not see.
static void set(int by_number, unsigned long persona) {
	MUST((by_number ? raw(SYS_personality, (long)persona, 0, 0, 0, 0, 0) : personality(persona)) != -1);
}

static int is_executable(const char *p) {
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char rights[5], line[512];
	int is = -1;
	MUST(maps);
	while (fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && start <= (unsigned long)p && (unsigned long)p < end)
			is = rights[2] == 'x';
	MUST(fclose(maps) == 0 && is >= 0);
	return is;
}

// The personality is a thread's: this one's stays as it is.
static void *maps_as_before(void *unused) {
	(void)unused;
	char *p = map(LEN);
	MUST(!is_executable(p) && zero(p, LEN) && munmap(p, LEN) == 0);
	return 0;
}

int main(void) {
	for (int by_number = 0; by_number < 2; by_number++) {
		int before = personality(0xffffffff);
		pthread_t thread;
		kept(LEN);
		set(by_number, (unsigned long)before | READ_IMPLIES_EXEC);
		for (int n = 0; n < 4; n++) {
			char *p = map(LEN);
			MUST(is_executable(p) && zero(p, LEN));
			memset(p, 0xc3, LEN); // ret
			((void (*)(void))p)();
			MUST(munmap(p, LEN) == 0);
		}
		set(by_number, (unsigned long)before);
		MUST(pthread_create(&thread, 0, maps_as_before, 0) == 0 && pthread_join(thread, 0) == 0);
		MUST(!is_executable(served(LEN)));
	}
	return 0;
}
