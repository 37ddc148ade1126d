// Memory that is anything special is unmapped when it is, and what is mapped is nothing special.
#include "check.h"

static void gone(char *p, size_t len, const char *what) {
	MUST(munmap(p, len) == 0);
	if (resident(p, len) != -1) {
		fprintf(stderr, "%s: it is kept\n", what);
		exit(1);
	}
}

// The line of /proc/self/smaps for VmFlags of this address.
static int has_flag(char *p, const char *flag) {
	char line[512], name[8];
	int here = 0, has = 0;
	FILE *f = fopen("/proc/self/smaps", "r");
	snprintf(name, sizeof name, " %s ", flag);
	while (fgets(line, sizeof line, f)) {
		unsigned long a, b;
		if (sscanf(line, "%lx-%lx ", &a, &b) == 2)
			here = a <= (unsigned long)p && (unsigned long)p < b;
		if (here && strncmp(line, "VmFlags:", 8) == 0)
			has = strstr(line, name) != 0;
	}
	fclose(f);
	return has;
}

// Whether the line of /proc/self/maps for this address ends with a name.
static int has_name(char *p) {
	char line[512];
	int has = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, f)) {
		unsigned long a, b;
		if (sscanf(line, "%lx-%lx ", &a, &b) == 2 && a <= (unsigned long)p && (unsigned long)p < b)
			has = strstr(line, "[anon:") != 0;
	}
	fclose(f);
	return has;
}

int main(void) {
	size_t len = 16 * PAGE;
	int fd = memfd_create("file", 0);
	MUST(fd >= 0 && ftruncate(fd, len) == 0);
	gone(mmap(0, len, RW, MAP_PRIVATE, fd, 0), len, "a file, private");
	gone(mmap(0, len, RW, MAP_SHARED, fd, 0), len, "a file, shared");
	gone(mmap(0, len, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0), len, "shared");
	gone(mmap(0, len, RW, ANON | MAP_STACK, -1, 0), len, "a stack");
	// Wherever it is, what is kept below it would be in its way: from then on nothing is.
	pid_t child = fork();
	if (child == 0) {
		gone(mmap(0, len, RW, ANON | MAP_GROWSDOWN, -1, 0), len, "a stack that grows");
		gone(filled(len), len, "beside a stack that grows");
		exit(0);
	}
	wait_for(child);
	gone(mmap(0, len, RW, ANON | MAP_LOCKED, -1, 0), len, "locked when mapped");
	gone(mmap(0, len, RW | PROT_EXEC, ANON, -1, 0), len, "code");
	gone(mmap(0, len, PROT_NONE, ANON, -1, 0), len, "nothing");
	char *huge = mmap(0, 2 << 20, RW, ANON | MAP_HUGETLB, -1, 0);
	if (huge != MAP_FAILED)
		gone(huge, 2 << 20, "huge pages of hugetlbfs");

	char *p = filled(len);
	MUST(mprotect(p, len, RW | PROT_EXEC) == 0 && mprotect(p, len, RW) == 0);
	gone(p, len, "was code");
	p = filled(len);
	MUST(mlock(p + 2 * PAGE, PAGE) == 0);
	gone(p, len, "partly locked");
	p = filled(len);
	MUST(mlock2(p, len, MLOCK_ONFAULT) == 0);
	gone(p, len, "locked on fault");
	// After an advice that changes no content MADV_FREE is dropped as before. But it stays with the memory, which is not
	// plain then, so that MADV_DONTNEED is the kernel's. MADV_REMOVE is refused, and MADV_DONTNEED zeroes.
	int harmless[] = {MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_REMOVE};
	for (unsigned i = 0; i < sizeof harmless / sizeof *harmless; i++) {
		p = filled(len);
		MUST(madvise(p, len, harmless[i]) == 0 || errno == EINVAL);
		MUST(madvise(p, len, MADV_FREE) == 0 && p[0] == 7 && p[len - 1] == 7);
		long stay = harmless[i] == MADV_REMOVE ? 16 : 0;
		MUST(madvise(p, len, MADV_DONTNEED) == 0 && resident(p, len) == stay && zero(p, len));
		memset(p, 7, len);
		if (harmless[i] != MADV_REMOVE)
			gone(p, len, "advised, and used");
	}
	int advice[] = {MADV_DONTFORK, MADV_WIPEONFORK, MADV_SEQUENTIAL, MADV_RANDOM, MADV_DONTDUMP, MADV_NOHUGEPAGE};
	for (unsigned i = 0; i < sizeof advice / sizeof *advice; i++) {
		p = filled(len);
		MUST(madvise(p + PAGE, PAGE, advice[i]) == 0 || errno == EINVAL);
		gone(p, len, "advised");
	}
	p = filled(len);
	MUST(posix_madvise(p, len, POSIX_MADV_RANDOM) == 0);
	gone(p, len, "advised by POSIX");
	p = filled(len);
	MUST(syscall(SYS_madvise, p, len, MADV_DONTFORK) == 0);
	gone(p, len, "advised by syscall");
	p = filled(len);
	if (syscall(SYS_mbind, p, len, 0, 0L, 0L, 0) == 0)
		gone(p, len, "bound to a node");
	else
		munmap(p, len);
	p = filled(len);
	// A name changes nothing, and is taken away, where the kernel knows names at all.
	if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, p, len, "name"))
		MUST(errno == EINVAL);
	else
		MUST(has_name(p));
	MUST(munmap(p, len) == 0 && resident(p, len) == 16 && !has_name(p));
	int key = pkey_alloc(0, 0);
	if (key >= 0) {
		p = filled(len);
		MUST(pkey_mprotect(p, len, RW, key) == 0);
		gone(p, len, "under a key");
	}
	// Sealed memory can't be unmapped, and says so (Linux 6.10).
	p = filled(len);
	if (syscall(462, p, len, 0L) == 0)
		MUST(munmap(p, len) == -1 && errno == EPERM && p[0] == 7);
	else
		munmap(p, len);

	// After all of these, new memory is plain.
	for (int i = 0; i < 64; i++) {
		char *new = map(len);
		MUST(!has_flag(new, "lo") && !has_flag(new, "dc") && !has_flag(new, "wf") && !has_flag(new, "rr"));
		MUST(has_flag(new, "rd") && has_flag(new, "wr") && !has_flag(new, "ex") && zero(new, len));
	}
	// Once the program handles faults itself, everything is the kernel's.
	char *before = filled(len);
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd >= 0)
		gone(before, len, "of a program with userfaultfd");
	char *locked = filled(len);
	MUST(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
	MUST(madvise(locked, len, MADV_DONTNEED) == -1 && errno == EINVAL);
	gone(locked, len, "of a program that is locked");
	return 0;
}
