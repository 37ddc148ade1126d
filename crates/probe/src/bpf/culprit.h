/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The culprit's side of a round as the raw tracepoints tell it: where it begins and ends.
 */
#ifndef QUELL_CULPRIT_H
#define QUELL_CULPRIT_H

/*
 * The culprit's CPU by the csd, for where the flush does not have it: flushes of everything have no flush_tlb_info, and since
 * Linux 7.3 the culprit may move between writing initiating_cpu there and queueing. A csd belongs
 * to one (culprit's CPU, victim's CPU) for as long as both are online (cfd_data in kernel/smp.c).
 */
DEFINE_HASH(csd_culprit, u64, u32, 1 /* twice the pairs of CPUs */, BPF_F_NO_PREALLOC);

/* The round that was begun last. */
static __always_inline struct round *last_round(struct cpu_state *o)
{
	return o->skipped ? &o->untimed : round_at(o, o->place);
}

/*
 * Ends the last round before another begins. If its culprit was not named until now, it has none. Where not all
 * count, such a round does not, though its victims may; lost_details tells of it.
 */
static __always_inline void end_last_round(struct cpu_state *o)
{
	if (likely(!o->due))
		return;
	give_up_naming(o, last_round(o));
	if (o->skipped)
		count_untimed(&o->untimed, o->untimed.targets);
}

/* Begins a round that is not timed, at its first target. */
static __always_inline void begin_untimed(struct bpf_raw_tracepoint_args *ctx, struct cpu_state *o, u64 func,
					  struct flush_tlb_info *info)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct round *r = &o->untimed;

	end_last_round(o);
	o->skipped = 1;
	o->open = 1;
	o->func = func;
	o->generation = info->new_tlb_gen;
	o->thread = (u64)t;
	r->mm = (u64)info->mm;
	r->start = info->start;
	r->end = info->end;
	r->targets = 0;
	r->state = ROUND_OPEN;
	r->flags = 0;
	/* this CPU flushes too, and names the culprit then (begin_timed() says why) */
	if (likely(r->mm == (u64)t->mm)) {
		o->due = 1;
		return;
	}
	name_culprit(ctx, o, r);
	/* its victims are counted one by one as they are queued (count_one_more()) */
	count_untimed(r, 0);
	tell_if_strange(r, o->generation);
	if (has_sample(o, r))
		write_sample(ctx, r);
}

/*
 * Begins a round at its first target. False if there is no place for it, even after room was made: then the loader counts the
 * round in that place at this very moment.
 */
static __always_inline bool begin_timed(struct bpf_raw_tracepoint_args *ctx, struct cpu_state *o, u32 cpu,
				  u32 target, u64 func, struct __call_single_data *csd, u64 now, u32 shift)
{
	struct task_struct *t = bpf_get_current_task_btf();
	bool kernel = !is_flush(func);
	u64 mm = 0, space = 0, start = 0, end = ~0ULL, generation = 0;
	struct flush_tlb_info *info;
	struct round *r;
	u32 first, place;

	end_last_round(o);
	o->skipped = 0;
	if (!kernel || func == config.fn_flush_kernel) {
		info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);
		if (!kernel) {
			mm = number_of(&o->number, (u64)info->mm);
			space = address_space_of(info->mm);
		}
		start = info->start;
		end = info->end;
		generation = info->new_tlb_gen;
	}
	first = first_place(space, generation);
	place = free_place(o, first);
	if (unlikely(place >= config.places)) {
		/* seldom: only where rounds end without a part of this CPU, or overlap */
		free_some_place(cpu);
		place = free_place(o, first);
		now = bpf_ktime_get_ns();
	}
	if (place >= config.places)
		return false;
	o->place = place & (MAX_PLACES - 1);
	o->current++;
	o->tag = tag_of(space, generation);
	o->open = 1;
	o->func = func;
	o->generation = generation;
	o->thread = (u64)t;
	r = round_at(o, o->place);
	r->t0 = now;
	r->mm = mm;
	r->start = start;
	r->end = end;
	r->number = o->current;
	r->sent = 0;
	r->targets = 0;
	r->first = target;
	r->flags = kernel ? SEND_KERNEL : 0;
	r->shift = shift;
	r->state = ROUND_OPEN;

	/*
	 * Naming, and unwinding still more, takes as long as the IPI's flight. Where this CPU flushes
	 * too, it gets csd_function_entry(csd = NULL) once the IPI is sent: leave it to that. It does
	 * where the address space is loaded here, which is sure if it is current's: that is looked at when all targets
	 * are queued, and preemption is off until then.
	 */
	if (mm && mm == (u64)t->mm) {
		o->due = 1;
		return true;
	}
	name_culprit(ctx, o, r);
	if (has_record(r)) {
		write_send(ctx, o, r, cpu);
	} else {
		if (has_sample(o, r))
			write_sample(ctx, r);
		/* a request is queued once csd_queue_cpu is over, so the time that naming took is no part of its delay */
		r->t0 = bpf_ktime_get_ns();
	}
	return true;
}

/*
 * Tells the victim's CPU of a request before it is queued (llist_add() in smp_call_function_many_cond(), a locked instruction).
 */
static __always_inline void tell_request(struct cpu_state *o, struct round *r, u32 cpu, u32 target)
{
	struct flush_request *q = flush_request_of(cpu, target, o->place), *before;
	u32 *last = told_count_of(cpu, target);

	if (unlikely(!q || !last))
		return;
	q->at = r->t0;
	if (r->targets) {
		q->at = bpf_ktime_get_ns();
		before = flush_request_of(cpu, o->last, o->place);
		if (before)
			before->next = target;
	}
	q->tag = o->tag;
	q->t1 = 0;
	*last += 1;
	q->told = *last;
}

/* Tells the victim's CPU which csd is used and how many rounds are timed, before the request is queued. Mostly it knows. */
static __always_inline void introduce_csd(struct cpu_state *o, u32 cpu, u32 target, u64 csd)
{
	struct cpu_pair *pair = cpu_pair_of(cpu, target);

	if (unlikely(!pair))
		return;
	if (unlikely(pair->csd != csd)) {
		pair->csd = csd;
		bpf_map_update_elem(&csd_culprit, &csd, &cpu, BPF_ANY);
	}
	if (unlikely(pair->shift != o->shift))
		*(volatile u32 *)&pair->shift = o->shift;
}

/*
 * Whether this target belongs to another round than the one that was not closed. Within a round the targets come
 * in ascending order, and each flush of an address space has a generation of its own. A flush of the
 * kernel's own mappings is for all CPUs, and so always closed (on_each_cpu()). A batch has no
 * generation: mostly its interrupts go out after the last target is queued, so if all are done, it is over.
 */
static __always_inline bool is_another_round(struct cpu_state *o, struct round *r, u32 cpu, u32 target,
					  u64 func, struct __call_single_data *csd)
{
	struct flush_tlb_info *info;

	if (func != o->func || target <= o->last || o->thread != (u64)bpf_get_current_task_btf())
		return true;
	if (!is_flush(func))
		return false;
	info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);
	if ((u64)info->mm != r->mm || info->new_tlb_gen != o->generation)
		return true;
	if (r->mm)
		return false;
	return all_done(cpu, o->place);
}

/* Whether the loader has settled the round, so that a further target begins another one. */
static __always_inline bool is_settled(struct cpu_state *o, struct round *r)
{
	return !o->skipped && !o->due && r->state != ROUND_NAMED && r->mode != MODE_OUT;
}

/*
 * Names the culprit as name_culprit() would, if it is the same as the last time. bpf_task_pt_regs() is a call, which takes
 * longer than all the work with the registers; they lie as far from where the stack begins for every thread (task_pt_regs() in
 * arch/x86/include/asm/processor.h, 6.5 to 6.18).
 */
static __always_inline bool is_named_again(struct cpu_state *o, struct round *r, struct task_struct *t)
{
	u64 stack;

	/* other scopes must be checked on every call */
	if (config.scope != SCOPE_ALL)
		return false;
	stack = number_of(&o->number, (u64)t->stack);
	if (!is_same_call(o, t, bpf_core_cast((void *)(stack + o->regs_at), struct pt_regs)))
		return false;
	r->mode = MODE_IN;
	r->state = ROUND_NAMED;
	r->flags |= SEND_OWN;
	r->culprit = o->culprit;
	return true;
}

/* This CPU's own part of a round that is not timed. It is due where the memory is current's. */
static __always_inline void end_untimed(struct bpf_raw_tracepoint_args *ctx, struct cpu_state *o, struct task_struct *t)
{
	struct round *r = &o->untimed;

	if (unlikely(!o->due))
		return;
	o->due = 0;
	if (unlikely(!is_named_again(o, r, t)))
		name_culprit(ctx, o, r);
	count_untimed(r, r->targets);
	if (has_sample(o, r))
		write_sample(ctx, r);
}

/* Whether csd_queue_cpu is attached: without it, every flush seems to find nobody to interrupt. */
static __always_inline bool is_counting(struct cpu_state *o)
{
	u32 counting = *(volatile u32 *)&o->counting;

	return counting == COUNTING_ALL || counting == COUNTING_TIMED;
}

/* This CPU's own part of a round: its targets are all queued and the IPI is sent. */
static __always_inline void end_round(struct bpf_raw_tracepoint_args *ctx, struct cpu_state *o, u64 func,
				      u32 cpu)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct round *r;

	/* an open round of another thread or function was one without such a part, and is over */
	if (unlikely(!o->open || o->thread != (u64)t || o->func != func)) {
		o->open = 0;
		if (is_flush(func) && is_counting(o))
			count_empty_send(o);
		return;
	}
	o->open = 0;
	if (likely(o->skipped)) {
		end_untimed(ctx, o, t);
		return;
	}
	r = round_at(o, o->place);
	settle_due_rounds(o, cpu, r->t0);
	if (!o->due)
		return;
	o->due = 0;
	name_culprit(ctx, o, r);
	if (has_record(r))
		write_send(ctx, o, r, cpu);
	if (has_sample(o, r))
		write_sample(ctx, r);
}

#endif
