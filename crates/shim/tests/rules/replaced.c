// Descriptors of the library's that stay open are the program's to close and to replace: by the same file of another process, whose
// memory is another, and by what answers in another way. And where a program may open few, the library keeps none open.
#include "check.h"
#include <sys/epoll.h>
#include <sys/resource.h>

enum { LEN = 64 * PAGE, ZEROED = 5, FIRST = 48, FEW = 64 };

// Zeroes in place, which asks what memory is.
static void ask(char *p) {
	for (int i = 0; i < 20; i++) {
		memset(p, 7, LEN);
		MUST(madvise(p, LEN, MADV_DONTNEED) == 0 && zero(p, LEN));
	}
}

// Puts others in the place of the library's: `file` has a place for what they are named; without, this descriptor. How many.
static int replace(const char *file, pid_t other, int by) {
	int replaced = 0;
	for (int number = FIRST; number < FIRST + 8; number++) {
		char link[64], name[64] = "";
		snprintf(link, sizeof link, "/proc/self/fd/%d", number);
		if (readlink(link, name, sizeof name - 1) < 0 || !strrchr(name, '/'))
			continue;
		int new = by;
		if (file) {
			char path[64];
			snprintf(path, sizeof path, file, other, strrchr(name, '/') + 1);
			MUST((new = open(path, O_RDONLY)) >= 0);
		}
		MUST(dup2(new, number) == number);
		replaced++;
	}
	return replaced;
}

static int count_free(void) {
	int all[2 * FEW], count = 0;
	while (count < 2 * FEW && (all[count] = open("/dev/null", O_RDONLY)) >= 0)
		count++;
	for (int n = 0; n < count; n++)
		close(all[n]);
	return count;
}

int main(int argc, char **argv) {
	(void)argv;
	char *p = filled(LEN);
	if (argc > 1) {
		struct rlimit few = {FEW, FEW};
		MUST(setrlimit(RLIMIT_NOFILE, &few) == 0);
		int before = count_free();
		ask(p);
		MUST(counter(ZEROED) > 0); // or this test shows nothing
		MUST(count_free() == before);
		return 0;
	}
	ask(p);
	int hold[2];
	MUST(pipe(hold) == 0);
	pid_t other = fork();
	MUST(other >= 0);
	if (other == 0) {
		close(hold[1]);
		_exit(read(hold[0], &(char){0}, 1) != 0);
	}
	close(hold[0]);
	ask(p);
	// To the other process it is what it was; here it is shared memory, of which MADV_DONTNEED takes nothing away.
	MUST(raw(SYS_mmap, (long)p, LEN, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (long)p);
	MUST(replace("/proc/%d/%s", other, -1) > 0); // or this test shows nothing
	memset(p, 9, LEN);
	MUST(madvise(p, LEN, MADV_DONTNEED) == 0);
	for (size_t n = 0; n < LEN; n += 511)
		MUST(p[n] == 9);
	close(hold[1]);
	wait_for(other);
	// Others are opened, and it goes on.
	char *q = filled(LEN);
	ask(q);
	long before = counter(ZEROED);
	MUST(replace(0, 0, epoll_create1(0)) > 0);
	ask(q);
	MUST(counter(ZEROED) > before);
	return 0;
}
