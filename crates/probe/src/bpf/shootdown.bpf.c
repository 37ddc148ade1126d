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
 * The csd of a request belongs to the CPU that queues and to the victim's, and is locked from before csd_queue_cpu until
 * csd_function_exit is over. So between two CPUs there is one request at a time, whatever runs on the culprit's CPU
 * meanwhile. The culprit's CPU says which flush the request is of (tag_of() in flush_tag.h) in a cell of the two, and the
 * victim leaves its times in that very cell, or, if none says so, nowhere: no hash, no line that all CPUs write, and no
 * times that could be another round's. The victim finds the culprit's CPU by flush_tlb_info.initiating_cpu, and by the
 * csd where that is another one.
 *
 * Up to Linux 7.2 the culprit has preemption off from the first of these to the end of the wait, and a CPU has one round
 * in flight. Since 7.3 it is off only while the targets are queued, and for the own part: the culprit may be preempted, and
 * may move, before and after, and rounds of one CPU overlap ("smp: Enable preemption early in
 * smp_call_function_many_cond()", which others than 7.3 may have too). Nothing here rests on which of them holds. No
 * culprit shoots from an interrupt (smp.c warns).
 *
 * The culprit's CPU counts its rounds when some have come together, once an IPI is sent and there is nothing to do but
 * wait (settle.h).
 *
 * The culprit's own flush comes after all targets are queued, and so closes the round; if it comes
 * and nobody was queued, the flush was an empty send. So tlb_flush, which fires three times a
 * shootdown, is not needed. A CPU that has nothing to flush itself (kswapd, ksmd) closes nothing;
 * is_another_round() tells its rounds apart.
 *
 * Nothing here takes a lock but the ring buffer's (interrupts off, no nesting: a raw tracepoint does
 * not recurse on one CPU) and the map's bucket locks for a key that was not seen before. Loops have
 * constant bounds, or go once over the targets of a round by bpf_loop(), so every program ends.
 */
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
#include "round.h"
#include "settle.h"
#include "name_culprit.h"
#include "victim.h"
#include "untimed.h"
#include "culprit.h"
#include "follow_scope.h"
#include "task_rename.h"

char LICENSE[] SEC("license") = "GPL";

/* Notes the loader's memory, once, while no program is attached yet. */
static __always_inline void know_loader(struct cpu_state *o)
{
	struct task_struct *t = bpf_get_current_task_btf();

	o->self_mm = (u64)t->mm;
	o->regs_at = number_of(&o->number, (u64)bpf_task_pt_regs(t)) - number_of(&o->number, (u64)t->stack);
}

/*
 * The loader runs this program to tell a CPU about the loader's memory and the programs that are attached (COUNTING_*). The
 * kernel runs it with preemption off (bpf_prog_test_run_raw_tp() in net/bpf/test_run.c). It counts the rounds of a CPU that has
 * timed none for so many ns. With 0 no program is attached, and all rounds are counted.
 *
 * A CPU that wakes meanwhile finds the round counted, or counts it itself: that is decided by one exchange. Should it be
 * still queueing targets, after all that time, is_settled() makes another round of the rest.
 */
SEC("raw_tp/settle_rest")
int settle_rest(struct bpf_raw_tracepoint_args *ctx)
{
	u32 cpu = ctx->args[0], i;
	u64 quiet = ctx->args[1];
	struct cpu_state *o = cpu_state_of(cpu);

	if (!o)
		return 0;
	if (!o->self_mm)
		know_loader(o);
	/* written only if it changes, so that no cache line is taken from a CPU for nothing */
	if (o->counting != (u32)ctx->args[2])
		*(volatile u32 *)&o->counting = ctx->args[2];
	if (!quiet)
		end_last_round(o);
	else if (round_at(o, o->place)->t0 + quiet > bpf_ktime_get_ns())
		return 0;
	for (i = 0; i < MAX_PLACES; i++) {
		if (quiet)
			settle_for_loader(cpu, i);
		else
			settle_round(cpu, i);
	}
	return 0;
}

/* ---- the culprit ---------------------------------------------------------------------------- */

/* Counts a request that there is no place for. The next request begins another round. */
static __always_inline void lose_round(struct cpu_state *o)
{
	o->open = 0;
	ADD_TO_HEALTH(healths, lost_details, 1);
}

SEC("raw_tp/csd_queue_cpu")
int csd_queue_cpu(struct bpf_raw_tracepoint_args *ctx)
{
	u32 target = ctx->args[0];
	u64 func = ctx->args[2];
	struct __call_single_data *csd;
	struct round *r;
	struct cpu_state *o;
	u32 cpu;

	if (unlikely(!is_any_flush(func)))
		return 0;
	csd = bpf_core_cast((void *)ctx->args[3], struct __call_single_data);
	cpu = bpf_get_smp_processor_id();
	o = cpu_state_of(cpu);
	if (unlikely(!o || target >= config.ncpu))
		return 0;
	r = last_round(o);
	if (likely(!o->open) || is_settled(o, r) || is_another_round(o, r, cpu, target, func, csd)) {
		struct flush_tlb_info *info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);
		bool skippable = is_flush(func) && may_skip(o, (u64)info->mm);
		u32 shift = skippable ? shift_of_round(o) : 0;

		o->begun += skippable;
		if (likely(is_untimed(number_of(&o->number, (u64)info->mm), info->new_tlb_gen, shift))) {
			begin_untimed(ctx, o, func, info);
		} else {
			u64 now = bpf_ktime_get_ns();

			if (skippable)
				keep_rate(o, now);
			if (unlikely(!begin_timed(ctx, o, cpu, target, func, csd, now, shift))) {
				lose_round(o);
				return 0;
			}
		}
		r = last_round(o);
	}
	introduce_csd(o, cpu, target, ctx->args[3]);
	if (unlikely(!o->skipped))
		tell_request(o, r, cpu, target);
	o->last = target;
	r->targets++;
	if (unlikely(o->skipped && !o->due))
		count_one_more(o, r);
	return 0;
}

/* ---- the victim ------------------------------------------------------------------------------ */

/* Finds the request that this CPU serves, by which the times are left. */
static __always_inline void handler_begins(struct cpu_state *me, u32 cpu, u32 from, u32 first, u32 tag)
{
	u32 place = find_request(from, cpu, first, tag);

	if (unlikely(place >= config.places))
		return;
	me->from = from;
	me->hit_place = place;
	me->t1 = bpf_ktime_get_ns();
}

static __always_inline void handler_ends(struct cpu_state *me, u32 cpu)
{
	struct flush_request *q = flush_request_of(me->from, cpu, me->hit_place);
	struct task_struct *t = bpf_get_current_task_btf();
	u64 now = bpf_ktime_get_ns(), t1 = me->t1;
	struct victim_key process;

	me->t1 = 0;
	if (!q)
		return;
	process = name_victim(me, t, me->mm);
	q->stall_ns = clamp_ns(now - t1);
	q->victim = me->victim;
	if (config.recording)
		leave_thread(request_cell(me->from, cpu, me->hit_place), t, &process);
	/* last: with it the times are there; x86 keeps the order of stores */
	barrier();
	q->t1 = t1;
}

/* A handler of a flush of a process's memory, or of a batch, begins. */
static __always_inline void flush_begins(struct cpu_state *me, u32 cpu, u64 key)
{
	struct __call_single_data *csd = bpf_core_cast((void *)key, struct __call_single_data);
	struct flush_tlb_info *info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);
	u64 mm = number_of(&me->mm, (u64)info->mm), generation = info->new_tlb_gen;
	u64 space = address_space_of(info->mm);
	u32 from = info->initiating_cpu;
	struct cpu_pair *pair;

	/* keep the two loads apart: the verifier treats kernel and map memory differently */
	barrier_var(from);
	pair = cpu_pair_of(from, cpu);
	if (unlikely(!pair || pair->csd != key)) {
		u32 *culprit = bpf_map_lookup_elem(&csd_culprit, &key);

		if (!culprit)
			return;
		from = *culprit;
		pair = cpu_pair_of(from, cpu);
		if (!pair)
			return;
	}
	count_interrupt(cpu, from);
	if (may_skip(me, mm) && likely(is_untimed(mm, generation, *(volatile u32 *)&pair->shift)) &&
	    *(volatile u32 *)&me->counting != COUNTING_TOLD) {
		count_untimed_victim(me, mm, space, generation);
		return;
	}
	handler_begins(me, cpu, from, first_place(space, generation), tag_of(space, generation));
}

SEC("raw_tp/csd_function_entry")
int csd_function_entry(struct bpf_raw_tracepoint_args *ctx)
{
	u64 func = ctx->args[0], key = ctx->args[1];
	u32 cpu, *culprit;
	struct cpu_state *o;

	if (unlikely(!is_any_flush(func)))
		return 0;
	cpu = bpf_get_smp_processor_id();
	o = cpu_state_of(cpu);
	if (unlikely(!o))
		return 0;
	if (!key) {
		end_round(ctx, o, func, cpu);
		return 0;
	}
	/* the end of a timed handler may not have been seen, and the end of this one must not be taken for it */
	o->t1 = 0;
	if (likely(is_flush(func))) {
		flush_begins(o, cpu, key);
		return 0;
	}
	culprit = bpf_map_lookup_elem(&csd_culprit, &key);
	if (!culprit)
		return 0;
	o->mm = 0;
	count_interrupt(cpu, *culprit);
	handler_begins(o, cpu, *culprit, 0, TAG_NO_MEMORY);
	return 0;
}

SEC("raw_tp/csd_function_exit")
int csd_function_exit(struct bpf_raw_tracepoint_args *ctx)
{
	u64 func = ctx->args[0];
	struct cpu_state *me;

	if (!ctx->args[1] || !is_any_flush(func))
		return 0;
	me = cpu_state_of(bpf_get_smp_processor_id());
	if (me && me->t1)
		handler_ends(me, bpf_get_smp_processor_id());
	return 0;
}
