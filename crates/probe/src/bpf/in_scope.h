/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The processes and the CPUs in scope. All programs share one pair of maps: the loader gives the probe's maps to the
 * programs of function calls and of the account too.
 */
#ifndef QUELL_IN_SCOPE_H
#define QUELL_IN_SCOPE_H

/* Processes in scope (SCOPE_TREE). Allocated in advance: before Linux 6.1 a program of a clock event may use no other. */
DEFINE_HASH(scope_tgids, u32, u8, MAX_SCOPE, 0);

/* CPUs in scope (SCOPE_CPUS). */
DEFINE_ARRAY(scope_cpus, u8, 1 /* ncpu */, 0);

static __always_inline bool tgid_in_scope(u32 tgid)
{
	return bpf_map_lookup_elem(&scope_tgids, &tgid) != NULL;
}

/* To be asked only where CPUs are in scope; a number beyond the map is out. */
static __always_inline bool cpu_in_scope(u32 cpu)
{
	u8 *in = bpf_map_lookup_elem(&scope_cpus, &cpu);

	return in && *in;
}

#endif
