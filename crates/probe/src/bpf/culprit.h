/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The culprit's side of a round as the raw tracepoints tell it: where it begins and ends.
 */
#ifndef QUELL_CULPRIT_H
#define QUELL_CULPRIT_H

/*
 * Kernel flushes of everything have no flush_tlb_info, and so no initiating_cpu. A csd belongs to one
 * (culprit CPU, victim CPU) for as long as both are online (cfd_data in kernel/smp.c), so what was
 * learned once stays true.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} csd_culprit SEC(".maps");

/* The round that was begun last. */
static __always_inline struct round *last_round(struct own *o)
{
	return o->skipped ? &o->untimed : round_of(o, o->current);
}

/*
 * Before another begins: should nobody have come to name the culprit, it has none. In the scope of a process
 * such a round is not counted, though its victims may be; lost_details tells of it.
 */
static __always_inline void end_last(struct own *o)
{
	if (likely(!o->due))
		return;
	unnamed(o, last_round(o));
	if (o->skipped)
		count_untimed(&o->untimed, o->untimed.targets);
}

/* The first target of a round that is not timed. */
static __always_inline void begin_untimed(struct bpf_raw_tracepoint_args *ctx, struct own *o, u64 func,
					  struct flush_tlb_info *info)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct round *r = &o->untimed;

	end_last(o);
	o->skipped = 1;
	o->open = 1;
	o->func = func;
	o->generation = info->new_tlb_gen;
	o->thread = (u64)t;
	r->mm = (u64)info->mm;
	r->start = info->start;
	r->end = info->end;
	r->targets = 0;
	r->unsettled = 0;
	r->flags = 0;
	if (likely(r->mm == (u64)t->mm)) {
		o->due = 1;
		return;
	}
	name_culprit(ctx, o, r);
	count_untimed(r, 0);
	/* a process in scope that takes the memory of one that is not */
	o->strange = config.scope == SCOPE_TREE && !owner_in_scope(r->mm);
	if (has_sample(o, r))
		write_sample(ctx, r);
}

/* The first target of a round. */
static __always_inline void begin(struct bpf_raw_tracepoint_args *ctx, struct own *o, u32 cpu,
				  u32 target, u64 func, struct __call_single_data *csd, u64 now, u32 shift)
{
	struct task_struct *t = bpf_get_current_task_btf();
	bool kernel = !is_flush(func);
	u64 mm = 0, start = 0, end = ~0ULL, generation = 0;
	struct flush_tlb_info *info;
	struct round *r;

	end_last(o);
	o->skipped = 0;
	/* seldom: only where rounds end without a part of this CPU */
	if (o->many_before || o->current - o->oldest + 1 >= config.depth) {
		settle_before(cpu, o->current + 1);
		o->many = 0;
		now = bpf_ktime_get_ns();
	}
	o->many_before = o->many;
	o->many = 0;
	r = round_of(o, o->current + 1);
	r->t0 = now;
	/* the loader takes the next round's start for the end of this one */
	barrier();
	o->current++;
	if (!kernel || func == config.fn_flush_kernel) {
		info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);
		mm = kernel ? 0 : (u64)info->mm;
		start = info->start;
		end = info->end;
		generation = info->new_tlb_gen;
	}
	o->open = 1;
	o->func = func;
	o->generation = generation;
	o->thread = (u64)t;
	r->mm = mm;
	r->start = start;
	r->end = end;
	r->targets = 0;
	r->first = target;
	r->flags = kernel ? SEND_KERNEL : 0;
	r->shift = shift;

	/*
	 * Naming, and unwinding still more, takes as long as the IPI's flight. Where this CPU flushes
	 * too, it gets csd_function_entry(csd = NULL) once the IPI is sent: leave it to that. It does
	 * where the address space is loaded here, which is sure if it is current's.
	 */
	if (mm && mm == (u64)t->mm) {
		o->due = 1;
		return;
	}
	name_culprit(ctx, o, r);
	if (has_record(r)) {
		/* the records of one CPU come in the order of its rounds */
		settle_before(cpu, o->current);
		write_send(ctx, o, r, cpu);
	} else {
		if (has_sample(o, r))
			write_sample(ctx, r);
		start_again(r);
	}
}

/*
 * Is this target of another round than the one that was not closed? Within a round the targets come
 * in ascending order, and each flush of an address space has a generation of its own. A flush of the
 * kernel's own mappings is for all CPUs, and so always closed (on_each_cpu()). A batch has nothing to
 * tell: mostly its interrupts go out after the last target is queued, so if all are done, it is over.
 */
static __always_inline bool another_round(struct own *o, struct round *r, u32 cpu, u32 target,
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
	return all_done(cpu, o->current);
}

/* The loader was here: whatever comes now is a round of its own. */
static __always_inline bool is_settled(struct own *o, struct round *r)
{
	return !o->skipped && !o->due && !r->unsettled && r->mode != MODE_OUT;
}

/*
 * What name_culprit() would answer, where that is what it answered last. bpf_task_pt_regs() is a call, which takes longer
 * than all that is done with the registers; they lie as far from where the stack begins for every thread (task_pt_regs()
 * in arch/x86/include/asm/processor.h, 6.5 to 6.18).
 */
static __always_inline bool is_named_again(struct own *o, struct round *r, struct task_struct *t)
{
	u64 stack;

	/* in another it is for the scope to say each time */
	if (config.scope != SCOPE_ALL)
		return false;
	stack = number_of(&o->number, (u64)t->stack);
	if (!is_same_call(o, t, bpf_core_cast((void *)(stack + o->regs_at), struct pt_regs)))
		return false;
	r->mode = MODE_IN;
	r->unsettled = 1;
	r->flags |= SEND_OWN;
	r->culprit = o->culprit;
	return true;
}

/* The own part of a round that is not timed. It is due where the memory is current's. */
static __always_inline void end_untimed(struct bpf_raw_tracepoint_args *ctx, struct own *o, struct task_struct *t)
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

/* This CPU's own part of a round: its targets are all queued and the IPI is sent. */
static __always_inline void end_round(struct bpf_raw_tracepoint_args *ctx, struct own *o, u64 func,
				      u32 cpu)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct round *r;

	/* an open round of another thread was one without such a part, and is over */
	if (unlikely(!o->open || o->thread != (u64)t)) {
		o->open = 0;
		/* while csd_queue_cpu is not attached, every flush looks empty */
		if (is_flush(func) && *(volatile u32 *)&o->counting)
			empty_send(o);
		return;
	}
	o->open = 0;
	if (likely(o->skipped)) {
		end_untimed(ctx, o, t);
		return;
	}
	r = round_of(o, o->current);
	settle_some(o, cpu, r);
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
