// What the kernel has counted, and what is set before a run: the same for every workload.
#ifndef COUNTS_H
#define COUNTS_H

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

struct counts {
	char name[128][40];
	uint64_t value[128];
	int n;
};

static const char *const wanted[] = {
	"luf_", "nr_luf_held", "nr_tlb_", "pgsteal_kswapd", "pgsteal_direct", "pgdemote_", "pgmajfault", "pgfault",
	"pgscan_kswapd", "pgscan_direct", "pgmigrate_", "allocstall_normal", "allocstall_dma32", "workingset_refault_file", "oom_kill",
};

static inline void look(struct counts *c)
{
	char line[4096], name[64];
	unsigned long long value;
	FILE *file = fopen("/proc/vmstat", "r");

	if (!file)
		fail("/proc/vmstat");
	c->n = 0;
	while (fgets(line, sizeof(line), file) && c->n < 120) {
		if (sscanf(line, "%63s %llu", name, &value) != 2)
			continue;
		for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
			if (!strncmp(name, wanted[i], strlen(wanted[i]))) {
				snprintf(c->name[c->n], sizeof(c->name[0]), "%.39s", name);
				c->value[c->n++] = value;
				break;
			}
	}
	fclose(file);
	file = fopen("/proc/interrupts", "r");
	if (!file)
		fail("/proc/interrupts");
	while (fgets(line, sizeof(line), file)) {
		char *at = strstr(line, "TLB:"), *end;

		if (!at)
			continue;
		strcpy(c->name[c->n], "tlb_interrupts");
		c->value[c->n] = 0;
		for (at += 4;; at = end) {
			value = strtoull(at, &end, 10);
			if (end == at)
				break;
			c->value[c->n] += value;
		}
		c->n++;
	}
	fclose(file);
}

static inline int set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY), err;

	if (fd < 0)
		return -1;
	err = write(fd, value, strlen(value)) < 0 ? -1 : 0;
	close(fd);
	return err;
}

// Sets vm.luf_max, if the kernel has it, and drops the page cache.
static inline void begin_run(const char *luf_max)
{
	if (set("/proc/sys/vm/luf_max", luf_max) && strcmp(luf_max, "0"))
		fail("/proc/sys/vm/luf_max");
	if (set("/proc/sys/vm/drop_caches", "3"))
		fail("/proc/sys/vm/drop_caches");
}

static inline double since(const struct timespec *start)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	return (end.tv_sec - start->tv_sec) + (end.tv_nsec - start->tv_nsec) / 1e9;
}

// The rest of a line of JSON: what was counted between the two.
static inline void print_counts(const struct counts *before, const struct counts *after)
{
	for (int i = 0; i < after->n; i++)
		printf(",\"%s\":%lld", after->name[i], (long long)(after->value[i] - before->value[i]));
	printf("}\n");
}

#endif
