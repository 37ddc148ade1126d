// A control group of the program's own, with a limit of memory.
#include <sys/stat.h>

static char folder[128], limit[256], members[256];

// False where it can't be written.
static int put(const char *name, long value) {
	FILE *file = fopen(name, "w");
	if (file == 0)
		return 0;
	int done = fprintf(file, "%ld", value) > 0;
	return (fclose(file) == 0) & done;
}

// A group of its own below where a hierarchy for memory is mounted.
static int make_group_below(const char *mount, const char *limit_name, const char *name, long most) {
	snprintf(folder, sizeof folder, "%s/quell-%s-%d", mount, name, getpid());
	snprintf(limit, sizeof limit, "%s/%s", folder, limit_name);
	snprintf(members, sizeof members, "%s/cgroup.procs", folder);
	if (mkdir(folder, 0755) != 0)
		return 0;
	if (access(limit, W_OK) == 0 && put(limit, most))
		return 1;
	rmdir(folder);
	return 0;
}

// False where none can be made.
static inline int make_group(const char *name, long most) {
	return make_group_below("/sys/fs/cgroup/memory", "memory.limit_in_bytes", name, most) ||
	       make_group_below("/sys/fs/cgroup", "memory.max", name, most);
}

// Whatever it has come to, the group goes.
static inline void remove_group(void) {
	for (int n = 0; rmdir(folder) != 0 && n < 100; n++)
		usleep(10000);
	MUST(access(folder, F_OK) != 0);
}
