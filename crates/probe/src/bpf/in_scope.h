/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The processes and the CPUs in scope. All programs share one pair of maps: the loader gives the probe's maps to the
 * programs of function calls and of the account too.
 */
#ifndef QUELL_IN_SCOPE_H
#define QUELL_IN_SCOPE_H

/* Processes in scope (SCOPE_TREE). Allocated in advance: before Linux 6.1 a program of a clock event may use no other. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SCOPE);
	__type(key, u32);
	__type(value, u8);
} scope_tgids SEC(".maps");

/* CPUs in scope (SCOPE_CPUS). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* ncpu */
	__type(key, u32);
	__type(value, u8);
} scope_cpus SEC(".maps");

static __always_inline bool tgid_in_scope(u32 tgid)
{
	return bpf_map_lookup_elem(&scope_tgids, &tgid) != NULL;
}

static __always_inline bool cpu_in_scope(u32 cpu)
{
	u8 *in = bpf_map_lookup_elem(&scope_cpus, &cpu);

	return in && *in;
}

#endif
