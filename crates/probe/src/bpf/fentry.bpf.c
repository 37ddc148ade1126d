// SPDX-License-Identifier: GPL-2.0-only
/*
 * The same pairs from function entries and exits, for kernels before 6.5, which have no csd_*
 * tracepoints (seen on Linux 5.15, 6.1 and 6.12; bpf_task_pt_regs() needs 5.15).
 *
 *   culprit: smp_call_function_many_cond(mask, func, info, …) in kernel/smp.c: sends, runs its own
 *            part, waits, returns
 *   victim:  flush_tlb_func(info), or one of the kernel's own flushes, in the interrupt
 *
 * Whom it hits the function decides by itself, CPU by CPU. So victims put themselves on a list of the
 * culprit's CPU. They do it before csd_unlock(), for which the function waits: when it returns the
 * list is whole, and the round is settled at once. One CPU is in this function once, with preemption
 * off, and not from an interrupt where it has to wait (smp.c warns).
 *
 * The clock starts when the function is entered, and not when each target is queued: the delay of a
 * later target has in it what queueing the earlier ones took.
 *
 * That it terminates and takes no lock: as in shootdown.bpf.c.
 */
#define OLD_KERNELS /* before 5.17 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "shootdown.h"
#include "maps.h"
#include "hist.h"
#include "who.h"
#include "stack.h"
#include "round.h"
#include "record.h"
#include "sample.h"
#include "settle.h"
#include "name.h"
#include "victim.h"
#include "scope.h"

char LICENSE[] SEC("license") = "GPL";

/* [culprit's CPU * row]: how many victims came; after it, their CPUs. A CPU is not its own victim. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* ncpu * row */
	__type(key, u32);
	__type(value, u32);
} arrivals SEC(".maps");

/*
 * The CPU that has the kernel's own mappings flushed, all of them: do_flush_tlb_all() is not told by
 * whom. When two do so at once, the first one's last victims go to the second.
 */
u32 flushes_all SEC(".data.flushes_all") = ~0U;

struct arrival {
	u32 cpu; /* culprit's */
	u32 which;
	u32 last;
};

static __always_inline u32 *arrival_of(u32 cpu, u32 n)
{
	u32 cell = cpu * config.row + n;

	return bpf_map_lookup_elem(&arrivals, &cell);
}

/*
 * The arguments lie at ctx, one after the other (arch_prepare_bpf_trampoline() in arch/x86/net/bpf_jit_comp.c).
 * The type of a function pointer the verifier of no kernel lets through, so that this one is read as memory:
 * bpf_get_func_arg() needs 5.17.
 */
static __always_inline u64 func_of(u64 *ctx)
{
	u64 func = 0;

	bpf_probe_read_kernel(&func, sizeof(func), &ctx[1]);
	return func;
}

/* ---- the culprit ---------------------------------------------------------------------------- */

SEC("fentry/smp_call_function_many_cond")
int many_begins(u64 *ctx)
{
	u64 func = func_of(ctx), mm = 0, start = 0, end = ~0ULL;
	struct flush_tlb_info *info;
	u32 cpu, *came;
	struct round *r;
	struct own *o;

	if (!is_any_flush(func))
		return 0;
	cpu = bpf_get_smp_processor_id();
	o = own_of(cpu);
	came = arrival_of(cpu, 0);
	if (!o || !came)
		return 0;
	*came = 0;
	if (is_flush(func) || func == config.fn_flush_kernel) {
		info = (struct flush_tlb_info *)ctx[2];
		if (is_flush(func))
			mm = (u64)BPF_CORE_READ(info, mm);
		start = BPF_CORE_READ(info, start);
		end = BPF_CORE_READ(info, end);
	} else {
		flushes_all = cpu;
	}
	o->open = 1;
	o->func = func;
	o->thread = (u64)bpf_get_current_task_btf();
	o->oldest = ++o->current;
	r = round_of(o, o->current);
	r->mm = mm;
	r->start = start;
	r->end = end;
	r->targets = 0;
	r->unsettled = 0;
	r->flags = is_flush(func) ? 0 : SEND_KERNEL;
	start_again(r);
	return 0;
}

static long link_target(u32 i, struct arrival *a)
{
	u32 *came = arrival_of(a->cpu, i + 1), target;
	struct own *o = own_of(a->cpu);
	struct target *t;
	struct round *r;

	if (!o || !came)
		return 1;
	target = *came;
	r = round_of(o, a->which);
	if (i) {
		t = target_of(a->cpu, a->last);
		if (t)
			t->next[a->which & 1] = target;
	} else {
		r->first = target;
	}
	t = target_of(a->cpu, target);
	if (t)
		t->after[a->which & 1] = 0;
	a->last = target;
	r->targets++;
	return 0;
}

VISITS(link_target)

SEC("fexit/smp_call_function_many_cond")
int many_ends(u64 *ctx)
{
	u64 func = func_of(ctx);
	struct arrival a = {};
	u32 cpu, *came;
	struct round *r;
	struct own *o;

	if (!is_any_flush(func))
		return 0;
	cpu = bpf_get_smp_processor_id();
	o = own_of(cpu);
	came = arrival_of(cpu, 0);
	if (!o || !came || !o->open)
		return 0;
	o->open = 0;
	if (!*came) {
		if (is_flush(func))
			empty_send(o);
		return 0;
	}
	a.cpu = cpu;
	a.which = o->current;
	each_target(*came, link_target, &a);
	r = round_of(o, o->current);
	name_culprit(ctx, o, r);
	if (has_record(r))
		write_send(ctx, o, r, cpu);
	if (has_sample(o, r))
		write_sample(ctx, r);
	settle(cpu, o->current);
	return 0;
}

/* ---- the victim ------------------------------------------------------------------------------ */

/* A CPU runs it for itself too: that is no shootdown. */
static __always_inline int begins(u32 from, u64 mm)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct own *o = own_of(cpu);

	if (!o || from == cpu)
		return 0;
	o->mm = mm;
	handler_begins(o, cpu, from);
	return 0;
}

static __always_inline int ends(void)
{
	u32 cpu = bpf_get_smp_processor_id(), *came, n;
	struct own *o = own_of(cpu);

	if (!o || !handler_ends(o, cpu))
		return 0;
	came = arrival_of(o->from, 0);
	if (!came)
		return 0;
	n = __sync_fetch_and_add(came, 1) + 1;
	if (n >= config.row)
		return 0;
	came = arrival_of(o->from, n);
	if (came)
		*came = cpu;
	return 0;
}

SEC("fentry/flush_tlb_func")
int flush_begins(u64 *ctx)
{
	struct flush_tlb_info *info = (struct flush_tlb_info *)ctx[0];

	return begins(BPF_CORE_READ(info, initiating_cpu), (u64)BPF_CORE_READ(info, mm));
}

SEC("fexit/flush_tlb_func")
int flush_ends(void *ctx)
{
	return ends();
}

SEC("fentry/do_kernel_range_flush")
int kernel_range_begins(u64 *ctx)
{
	struct flush_tlb_info *info = (struct flush_tlb_info *)ctx[0];

	return begins(BPF_CORE_READ(info, initiating_cpu), 0);
}

SEC("fexit/do_kernel_range_flush")
int kernel_range_ends(void *ctx)
{
	return ends();
}

SEC("fentry/do_flush_tlb_all")
int all_begins(void *ctx)
{
	u32 from = *(volatile u32 *)&flushes_all;

	return from < config.ncpu ? begins(from, 0) : 0;
}

SEC("fexit/do_flush_tlb_all")
int all_ends(void *ctx)
{
	return ends();
}
