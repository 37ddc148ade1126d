// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pairs culprits and victims from function entries and exits, for kernels before 6.5, which have no csd_*
 * tracepoints (seen on Linux 5.15, 6.1 and 6.12; bpf_task_pt_regs() needs 5.15).
 *
 *   culprit: smp_call_function_many_cond(mask, func, info, …) in kernel/smp.c: sends, runs its own
 *            part, waits, returns
 *   victim:  flush_tlb_func(info), or one of the kernel's own flushes, in the interrupt
 *
 * Whom it hits the function decides by itself, CPU by CPU. So victims put their times on a list of the
 * culprit's CPU. They do it before csd_unlock(), for which the function waits: when it returns the
 * list is whole, and the round is counted at once. One CPU is in this function once, with preemption
 * off, and not from an interrupt where it has to wait (smp.c warns). That holds up to Linux 7.2; where a culprit can be
 * preempted while it waits the loader does not choose these programs (backend.rs). The times that a victim leaves
 * name their flush (tag_of() in flush_tag.h), and are left out where that is another than the one that returns.
 *
 * The clock starts when the function is entered, and not when each target is queued: the delay of a
 * later target includes the time that queueing the earlier ones took.
 *
 * That it terminates and takes no lock: as in shootdown.bpf.c.
 */
#define OLD_KERNELS /* before 5.17 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "define_map.h"
#include "health.h"
#include "shootdown.h"
#include "maps.h"
#include "histogram.h"
#include "thread.h"
#include "keys.h"
#include "stack_memo.h"
#include "pieces.h"
#include "record.h"
#include "sample.h"
#include "count.h"
#include "each_target.h"
#include "flush_tag.h"
#include "name_culprit.h"
#include "victim.h"
#include "follow_scope.h"
#include "task_rename.h"

char LICENSE[] SEC("license") = "GPL";

/* The times that a victim leaves. The first of a row has only a count, in `cpu`: how many victims came. */
struct arrival {
	u64 t1; /* the handler began */
	u32 stall_ns;
	u32 victim; /* index of the tally */
	u32 tag;
	u32 cpu;
};

/* [culprit's CPU * row]: how many victims came; after it, their times. A CPU is not its own victim. */
DEFINE_ARRAY(arrivals, struct arrival, 1 /* ncpu * row */, BPF_F_MMAPABLE);

/*
 * The CPU that has all of the kernel's own mappings flushed: do_flush_tlb_all() has no argument that
 * names it. When two do so at once, the first one's last victims go to the second.
 */
u32 flushes_all SEC(".data.flushes_all") = ~0U;

static __always_inline u32 arrival_cell(u32 cpu, u32 n)
{
	return cpu * config.row + n;
}

static __always_inline struct arrival *arrival_of(u32 cpu, u32 n)
{
	u32 cell = arrival_cell(cpu, n);

	return bpf_map_lookup_elem(&arrivals, &cell);
}

/*
 * The arguments lie at ctx, one after the other (arch_prepare_bpf_trampoline() in arch/x86/net/bpf_jit_comp.c).
 * No verifier accepts loading a function-pointer argument, so read it as memory: bpf_get_func_arg() needs 5.17.
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
	u64 func = func_of(ctx), mm = 0, space = 0, start = 0, end = ~0ULL;
	struct flush_tlb_info *info;
	struct arrival *came;
	u64 generation = 0;
	struct round *r;
	struct cpu_state *o;
	u32 cpu;

	if (!is_any_flush(func))
		return 0;
	cpu = bpf_get_smp_processor_id();
	o = cpu_state_of(cpu);
	came = arrival_of(cpu, 0);
	if (!o || !came)
		return 0;
	came->cpu = 0;
	if (is_flush(func) || func == config.fn_flush_kernel) {
		info = (struct flush_tlb_info *)ctx[2];
		if (is_flush(func)) {
			mm = (u64)BPF_CORE_READ(info, mm);
			space = address_space_of((struct mm_struct *)mm);
			generation = BPF_CORE_READ(info, new_tlb_gen);
		}
		start = BPF_CORE_READ(info, start);
		end = BPF_CORE_READ(info, end);
	} else {
		flushes_all = cpu;
	}
	o->open = 1;
	o->tag = tag_of(space, generation);
	o->current++;
	r = round_at(o, 0);
	r->mm = mm;
	r->start = start;
	r->end = end;
	r->number = o->current;
	r->targets = 0;
	r->state = ROUND_OPEN;
	r->flags = is_flush(func) ? 0 : SEND_KERNEL;
	r->t0 = bpf_ktime_get_ns();
	return 0;
}

/* Counts a victim, unless its times are of another flush. Entry 0 of the row is the count of victims. */
static long settle_arrival(u32 i, struct settling *s)
{
	struct arrival *a = arrival_of(s->cpu, i + 1);
	struct cpu_state *o = cpu_state_of(s->cpu);
	u64 delay, end;
	struct round *r;

	if (!a || !o)
		return 1;
	r = round_at(o, 0);
	if (a->tag != o->tag)
		return 0;
	delay = delay_of(r->t0, a->t1);
	end = a->t1 + a->stall_ns;
	if (end > s->end)
		s->end = end;
	if (r->mode == MODE_LATER && !victim_in_scope(a->cpu, a->victim))
		return 0;
	s->counted++;
	count_victim(r, delay, a->stall_ns, a->victim);
	if (config.recording)
		write_victim(r->number, s->cpu, a->cpu, arrival_cell(s->cpu, i + 1), delay, a->t1, a->stall_ns);
	return 0;
}

VISITS(settle_arrival)

SEC("fexit/smp_call_function_many_cond")
int many_ends(u64 *ctx)
{
	u64 func = func_of(ctx);
	struct settling s = {};
	struct arrival *came;
	struct round *r;
	struct cpu_state *o;
	u32 cpu;

	if (!is_any_flush(func))
		return 0;
	cpu = bpf_get_smp_processor_id();
	o = cpu_state_of(cpu);
	came = arrival_of(cpu, 0);
	if (!o || !came || !o->open)
		return 0;
	o->open = 0;
	if (!came->cpu) {
		if (is_flush(func))
			count_empty_send(o);
		return 0;
	}
	r = round_at(o, 0);
	r->targets = came->cpu;
	name_culprit(ctx, o, r);
	if (r->state != ROUND_NAMED)
		return 0;
	r->state = ROUND_FREE;
	if (r->mode == MODE_SELF) {
		count_self(r->flags & SEND_KERNEL ? 0 : r->targets);
		return 0;
	}
	if (has_record(r))
		write_send(ctx, o, r, cpu);
	if (has_sample(o, r))
		write_sample(ctx, r);
	s.cpu = cpu;
	each_target(r->targets, settle_arrival, &s);
	finish_round(&s, r);
	return 0;
}

/* ---- the victim ------------------------------------------------------------------------------ */

/* Notes that a handler begins. A CPU runs it for itself too, which is no shootdown. */
static __always_inline int handler_begins(u32 from, u64 mm, u64 generation)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *me = cpu_state_of(cpu);

	if (!me || from == cpu)
		return 0;
	count_interrupt(cpu, from);
	me->mm = mm;
	me->hit_tag = tag_of(address_space_of((struct mm_struct *)mm), generation);
	me->from = from;
	me->t1 = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int handler_ends(void)
{
	struct task_struct *t = bpf_get_current_task_btf();
	u32 cpu = bpf_get_smp_processor_id(), n;
	struct cpu_state *me = cpu_state_of(cpu);
	struct victim_key process;
	struct arrival *a;
	u64 now, t1;

	if (!me || !me->t1)
		return 0;
	now = bpf_ktime_get_ns();
	t1 = me->t1;
	me->t1 = 0;
	process = name_victim(me, t, me->mm);
	a = arrival_of(me->from, 0);
	if (!a)
		return 0;
	n = __sync_fetch_and_add(&a->cpu, 1) + 1;
	/* a row has room for every other CPU: more come only where two CPUs have everything flushed at once */
	if (n >= config.row)
		return 0;
	a = arrival_of(me->from, n);
	if (!a)
		return 0;
	a->t1 = t1;
	a->stall_ns = clamp_ns(now - t1);
	a->victim = me->victim;
	a->tag = me->hit_tag;
	a->cpu = cpu;
	if (config.recording)
		leave_thread(arrival_cell(me->from, n), t, &process);
	return 0;
}

SEC("fentry/flush_tlb_func")
int flush_begins(u64 *ctx)
{
	struct flush_tlb_info *info = (struct flush_tlb_info *)ctx[0];

	return handler_begins(BPF_CORE_READ(info, initiating_cpu), (u64)BPF_CORE_READ(info, mm), BPF_CORE_READ(info, new_tlb_gen));
}

SEC("fexit/flush_tlb_func")
int flush_ends(void *ctx)
{
	return handler_ends();
}

SEC("fentry/do_kernel_range_flush")
int kernel_range_begins(u64 *ctx)
{
	struct flush_tlb_info *info = (struct flush_tlb_info *)ctx[0];

	return handler_begins(BPF_CORE_READ(info, initiating_cpu), 0, 0);
}

SEC("fexit/do_kernel_range_flush")
int kernel_range_ends(void *ctx)
{
	return handler_ends();
}

SEC("fentry/do_flush_tlb_all")
int all_begins(void *ctx)
{
	u32 from = *(volatile u32 *)&flushes_all;

	return from < config.ncpu ? handler_begins(from, 0, 0) : 0;
}

SEC("fexit/do_flush_tlb_all")
int all_ends(void *ctx)
{
	return handler_ends();
}
