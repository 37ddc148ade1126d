// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pairs culprit and victim of every TLB shootdown, from three raw tracepoints (Linux 6.5 and later).
 *
 * A shootdown is one round of smp_call_function_many_cond() (kernel/smp.c) with a flush function:
 *
 *   culprit: csd_queue_cpu for each target, the IPI, csd_function_entry(csd = NULL), its own flush,
 *            waits
 *   victim:  csd_function_entry, flush, csd_function_exit, releases the csd
 *
 * The culprit has preemption off from the first of these to the end of the wait, and may not shoot
 * from an interrupt (smp.c warns). So a CPU has one round in flight. A victim leaves its times in a
 * slot of the culprit's CPU and its own, which it finds by flush_tlb_info.initiating_cpu: no hash,
 * and no line that all CPUs write.
 *
 * csd_function_exit comes before csd_unlock(), for which the culprit waits: when its next round
 * starts, all times of the last one are in their slots. The culprit's CPU counts them when some
 * rounds have come together, once its IPI is sent and there is nothing to do but wait (settle.h).
 *
 * The culprit's own flush comes after all targets are queued, and so closes the round; if it comes
 * and nobody was queued, the flush was an empty send. So tlb_flush, which fires three times a
 * shootdown, is not needed. A CPU that has nothing to flush itself (kswapd, ksmd) closes nothing;
 * another_round() tells its rounds apart.
 *
 * Nothing here takes a lock but the ring buffer's (interrupts off, no nesting: a raw tracepoint does
 * not recurse on one CPU) and the map's bucket locks for a key that was not seen before. Loops have
 * constant bounds, or go once over the targets of a round by bpf_loop(), so every program ends.
 */
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
#include "untimed.h"
#include "culprit.h"
#include "scope.h"

char LICENSE[] SEC("license") = "GPL";

/* Once, when nothing is attached yet. */
static __always_inline void know_loader(struct own *o)
{
	struct task_struct *t = bpf_get_current_task_btf();

	o->self_mm = (u64)t->mm;
	o->regs_at = number_of(&o->number, (u64)bpf_task_pt_regs(t)) - number_of(&o->number, (u64)t->stack);
}

/*
 * For the loader to run: tells a CPU what it is to know of the loader, and whether it counts. The kernel runs it
 * with preemption off (bpf_prog_test_run_raw_tp() in net/bpf/test_run.c). Settles what a CPU left that has been quiet
 * for so many ns. With 0 nothing is attached, and all is settled.
 *
 * A CPU that wakes meanwhile finds the round settled, or settles it itself: that is decided by one
 * exchange. It writes there again config.depth rounds later. Should it be still queueing targets, after
 * all that time, is_settled() makes another round of the rest.
 */
SEC("raw_tp/settle_rest")
int settle_rest(struct bpf_raw_tracepoint_args *ctx)
{
	u32 cpu = ctx->args[0], which, i;
	u64 quiet = ctx->args[1];
	struct own *o = own_of(cpu);

	if (!o)
		return 0;
	if (!o->self_mm)
		know_loader(o);
	/* nobody's line is taken away for nothing */
	if (o->counting != (u32)ctx->args[2])
		*(volatile u32 *)&o->counting = ctx->args[2];
	if (quiet && round_of(o, o->current)->t0 + quiet > bpf_ktime_get_ns())
		return 0;
	which = o->current - (MAX_DEPTH - 1);
	for (i = 0; i < MAX_DEPTH; i++, which++) {
		if (!round_of(o, which)->unsettled)
			continue;
		if (!quiet || all_done(cpu, which))
			settle(cpu, which);
	}
	return 0;
}

/* ---- the culprit ---------------------------------------------------------------------------- */

SEC("raw_tp/csd_queue_cpu")
int csd_queue_cpu(struct bpf_raw_tracepoint_args *ctx)
{
	u32 target = ctx->args[0];
	u64 func = ctx->args[2];
	struct __call_single_data *csd;
	struct target *t;
	struct round *r;
	struct own *o;
	u32 cpu;

	if (unlikely(!is_any_flush(func)))
		return 0;
	csd = bpf_core_cast((void *)ctx->args[3], struct __call_single_data);
	cpu = bpf_get_smp_processor_id();
	o = own_of(cpu);
	if (unlikely(!o || target >= config.ncpu))
		return 0;
	r = last_round(o);
	if (likely(!o->open) || is_settled(o, r) || another_round(o, r, cpu, target, func, csd)) {
		struct flush_tlb_info *info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);
		bool skippable = is_flush(func) && may_skip(o, (u64)info->mm);
		u32 shift = skippable ? shift_of_round(o, cpu) : 0;

		o->begun += skippable;
		if (likely(is_untimed(number_of(&o->number, (u64)info->mm), info->new_tlb_gen, shift))) {
			begin_untimed(ctx, o, func, info);
		} else {
			u64 now = bpf_ktime_get_ns();

			if (skippable)
				keep_pace(o, now);
			begin(ctx, o, cpu, target, func, csd, now, shift);
		}
		r = last_round(o);
	} else if (!o->skipped) {
		t = target_of(cpu, o->last);
		if (t)
			t->next[o->current & 1] = target;
		t = target_of(cpu, target);
		if (t)
			t->after[o->current & 1] = bpf_ktime_get_ns() - r->t0;
		o->many = 1;
	}
	o->last = target;
	r->targets++;
	if (unlikely(o->skipped && !o->due))
		count_one_more(o, r);
	if (unlikely(!is_flush(func))) {
		u64 key = (u64)csd;
		u32 *known = bpf_map_lookup_elem(&csd_culprit, &key);

		if (!known || *known != cpu)
			bpf_map_update_elem(&csd_culprit, &key, &cpu, BPF_ANY);
	}
	return 0;
}

/* ---- the victim ------------------------------------------------------------------------------ */

SEC("raw_tp/csd_function_entry")
int csd_function_entry(struct bpf_raw_tracepoint_args *ctx)
{
	u64 func = ctx->args[0], key = ctx->args[1];
	struct own *o;
	u32 cpu, from;

	if (unlikely(!is_any_flush(func)))
		return 0;
	cpu = bpf_get_smp_processor_id();
	o = own_of(cpu);
	if (unlikely(!o))
		return 0;
	if (!key) {
		end_round(ctx, o, func, cpu);
		return 0;
	}
	if (likely(is_flush(func))) {
		struct __call_single_data *csd =
			bpf_core_cast((void *)key, struct __call_single_data);
		struct flush_tlb_info *info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);

		o->mm = (u64)info->mm;
		from = info->initiating_cpu;
		/* keep the two loads apart: the verifier treats kernel and map memory differently */
		barrier_var(from);
		if (may_skip(o, o->mm) && untimed_victim(o, cpu, from, info->new_tlb_gen))
			return 0;
	} else {
		u32 *culprit = bpf_map_lookup_elem(&csd_culprit, &key);

		if (!culprit)
			return 0;
		from = *culprit;
		o->mm = 0;
	}
	handler_begins(o, cpu, from);
	return 0;
}

SEC("raw_tp/csd_function_exit")
int csd_function_exit(struct bpf_raw_tracepoint_args *ctx)
{
	u64 func = ctx->args[0];
	struct own *me;
	u32 cpu;

	if (!ctx->args[1] || !is_any_flush(func))
		return 0;
	cpu = bpf_get_smp_processor_id();
	me = own_of(cpu);
	if (me)
		handler_ends(me, cpu);
	return 0;
}
