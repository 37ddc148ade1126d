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
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* ncpu */
	__type(key, u32);
	__type(value, struct cpu_state);
} cpu_states SEC(".maps");

/*
 * [victim's CPU * row + culprit's CPU], of the victim's CPU: how often it was interrupted from there. The loader reads
 * it while it is written.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* ncpu * row */
	__type(key, u32);
	__type(value, u32);
} interrupts SEC(".maps");

/*
 * The thread that a request interrupted, where there are records, by the cell of the request or, with fentry, of the arrival.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, u32);
	__type(value, struct hit_thread);
} hit_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* config.keys */
	__type(key, struct culprit_key);
	__type(value, u32);
} culprit_index SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* config.keys */
	__type(key, u32);
	__type(value, struct culprit_info);
} culprit_infos SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* config.keys */
	__type(key, u32);
	__type(value, struct culprit_tally);
} culprit_tallies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* config.keys */
	__type(key, struct victim_key);
	__type(value, u32);
} victim_index SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* config.keys */
	__type(key, u32);
	__type(value, struct victim_info);
} victim_infos SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* config.keys */
	__type(key, u32);
	__type(value, struct victim_tally);
} victim_tallies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hists);
} hists SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct probe_health);
} healths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, MAX_STACKS);
	__uint(key_size, sizeof(u32));
	__uint(value_size, STACK_DEPTH * sizeof(u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set by the loader */
} records SEC(".maps");

static __always_inline struct probe_health *health_of_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&healths, &zero);
}

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
