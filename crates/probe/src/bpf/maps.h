/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The configuration and the maps of the probe's programs.
 */
#ifndef QUELL_MAPS_H
#define QUELL_MAPS_H

#include "in_scope.h"

/* The loader sets it, then it is read-only: the verifier drops the branches that it rules out. */
const volatile struct probe_config config SEC(".rodata.config") = {};

/* In .data, where the loader reads it. */
struct probe_state state SEC(".data.state") = {
	.next_culprit = 1, /* 0 is for those that found no room */
	.next_victim = 1,
	.scope_gen = 1, /* a cached answer about scope is good for one generation */
};

/*
 * The values of an array come after a header of the kernel's, and so lie across the borders of
 * lines, unless user space may map them: those begin at a page (bpf_map_area_mmapable_alloc() in
 * kernel/bpf/arraymap.c). Where a line is to be of one CPU, the flag is for that.
 */
DEFINE_ARRAY(cpu_states, struct cpu_state, 1 /* ncpu */, BPF_F_MMAPABLE);

/*
 * [victim's CPU * row + culprit's CPU], of the victim's CPU: how often it was interrupted from there. The loader reads
 * it while it is written.
 */
DEFINE_ARRAY(interrupts, u32, 1 /* ncpu * row */, BPF_F_MMAPABLE);

/*
 * The thread that a request interrupted, where there are records, by the cell of the request or, with fentry, of the arrival.
 */
DEFINE_ARRAY(hit_threads, struct hit_thread, 1 /* requests or arrivals */, BPF_F_MMAPABLE);

/* Each culprit that was seen: its number by its key, and by the number its name, and its counts on each CPU (keys.h). */
DEFINE_HASH(culprit_index, struct culprit_key, u32, 1 /* config.keys */, 0);
DEFINE_ARRAY(culprit_infos, struct culprit_info, 1 /* config.keys */, 0);
DEFINE_PER_CPU_ARRAY(culprit_tallies, struct culprit_tally, 1 /* config.keys */);

/* The same of each victim. */
DEFINE_HASH(victim_index, struct victim_key, u32, 1 /* config.keys */, 0);
DEFINE_ARRAY(victim_infos, struct victim_info, 1 /* config.keys */, 0);
DEFINE_PER_CPU_ARRAY(victim_tallies, struct victim_tally, 1 /* config.keys */);

DEFINE_PER_CPU_ARRAY(hists, struct hists, 1);
DEFINE_PER_CPU_ARRAY(healths, struct probe_health, 1);

/* Stacks of the kernel and of programs, by the numbers that culprits and records have of them (stack_memo.h). */
DEFINE_STACK_TABLE(stacks, MAX_STACKS, STACK_DEPTH);

/* For the records of record.h and sample.h. */
DEFINE_RING_BUFFER(records);

static __always_inline struct cpu_state *cpu_state_of(u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_states, &cpu);
}

static __always_inline struct round *round_at(struct cpu_state *o, u32 place)
{
	return &o->rounds[place & (MAX_PLACES - 1)];
}

static __always_inline bool is_flush(u64 func)
{
	return func == config.fn_flush_tlb_func;
}

/* A function that this kernel lacks has the address 0 in the configuration. */
static __always_inline bool is_kernel_flush(u64 func)
{
	return func && (func == config.fn_flush_all || func == config.fn_flush_kernel);
}

static __always_inline bool is_any_flush(u64 func)
{
	return likely(is_flush(func)) || is_kernel_flush(func);
}

/*
 * As tgid_in_scope(), for the culprit's CPU, which mostly asks about the same process again. Only a yes is
 * remembered: the loader names processes without a new generation.
 */
static __always_inline bool culprit_in_scope(struct cpu_state *o, u32 tgid)
{
	u32 gen = *(volatile u32 *)&state.scope_gen;

	if (!o->scope_in || o->scope_tgid != tgid || o->scope_gen != gen) {
		o->scope_in = tgid_in_scope(tgid);
		o->scope_tgid = tgid;
		o->scope_gen = gen;
	}
	return o->scope_in;
}

#endif
