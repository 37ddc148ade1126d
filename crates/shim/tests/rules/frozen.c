// A program may make all memory read-only that lies in no library, as what takes snapshots of it does: libquell.so writes nothing
// there that it needs.
#define _GNU_SOURCE
#include <link.h>

#include "check.h"

static uintptr_t asked;

static int holds(struct dl_phdr_info *library, size_t size, void *unused) {
	(void)size;
	(void)unused;
	for (int i = 0; i < library->dlpi_phnum; i++) {
		uintptr_t start = library->dlpi_addr + library->dlpi_phdr[i].p_vaddr;
		if (library->dlpi_phdr[i].p_type == PT_LOAD && asked >= start && asked < start + library->dlpi_phdr[i].p_memsz)
			return 1;
	}
	return 0;
}

// The thread's own, of which no library knows, is used by every call.
static int holds_thread(uintptr_t start, uintptr_t end) {
	uintptr_t own = (uintptr_t)pthread_self();
	return own >= start && own < end;
}

// Gives back and unmaps, which the library may help with.
static void work(void) {
	for (int i = 0; i < 20; i++) {
		char *p = filled(32 * PAGE);
		MUST(madvise(p, 16 * PAGE, MADV_DONTNEED) == 0 && zero(p, 16 * PAGE));
		MUST(munmap(p, 32 * PAGE) == 0);
	}
}

static void child_works(void) {
	int status;
	pid_t child = fork();
	if (child == 0) {
		work();
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
	struct {
		uintptr_t start, end;
	} all[64];
	int count = 0;
	char line[512];

	// The library is at work by then, and looks after forks.
	work();
	FILE *maps = fopen("/proc/self/maps", "r");
	MUST(maps != NULL);
	while (fgets(line, sizeof line, maps) && count < 64) {
		char rights[8], name[300] = "";
		MUST(sscanf(line, "%lx-%lx %4s %*s %*s %*s %299s", &all[count].start, &all[count].end, rights, name) >= 3);
		asked = all[count].start;
		count += rights[1] == 'w' && !*name && !dl_iterate_phdr(holds, NULL) &&
			!holds_thread(all[count].start, all[count].end);
	}
	MUST(fclose(maps) == 0);
	// What the library keeps is among it, and is not mapped any more for the program.
	for (int i = 0; i < count; i++)
		MUST(mprotect((void *)all[i].start, all[i].end - all[i].start, PROT_READ) == 0 || errno == ENOMEM);
	work();
	child_works();
	_exit(0); // the C library's own memory may be among it
}
