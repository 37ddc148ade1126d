/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The culprit's side of a round: where it begins and ends, who asked for it, and whether it counts.
 */
#ifndef QUELL_CULPRIT_H
#define QUELL_CULPRIT_H

static __always_inline u8 mode_of(struct own *o, struct task_struct *t, u64 mm)
{
	u32 tgid = t->tgid;
	struct mm_struct *m;

	if (tgid == config.self_tgid)
		return MODE_SELF;
	if (config.scope == SCOPE_ALL)
		return MODE_IN;
	if (config.scope == SCOPE_CPUS)
		return MODE_LATER;
	if (culprit_in_scope(o, tgid))
		return MODE_IN;
	/* batched by reclaim or migration, or a kernel flush: whom it hits decides */
	if (!mm)
		return MODE_LATER;
	if (mm == (u64)t->mm)
		return MODE_OUT;
	/* somebody else's address space: ksmd, khugepaged, ptrace, process_madvise */
	m = bpf_core_cast((void *)mm, struct mm_struct);
	/* without CONFIG_MEMCG nobody knows the owner */
	if (bpf_core_field_exists(m->owner)) {
		struct task_struct *owner = m->owner;

		if (owner && tgid_in_scope(owner->tgid))
			return MODE_IN;
	}
	return MODE_OUT;
}

/*
 * Is it the call that this CPU named last, as all shootdowns of a loop are? Asked of a thread that
 * flushes its own address space.
 */
static __always_inline bool is_same_call(struct own *o, struct task_struct *t)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);

	return o->same && o->key.tgid == (u32)t->tgid && o->call == regs->orig_ax &&
	       o->advice == advice_of(regs) && !(t->flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING)) &&
	       !(t->thread_info.status & TS_COMPAT);
}

/* Who asked for the round, and does it count? */
static __noinline void name_culprit(struct bpf_raw_tracepoint_args *ctx, struct own *o, struct round *r)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct culprit_key key = {};
	bool need_stack = false;

	r->mode = mode_of(o, t, r->mm);
	if (r->mode == MODE_OUT)
		return;
	r->unsettled = 1;
	if (r->mode == MODE_SELF)
		return;
	if (r->mm && r->mm == (u64)t->mm && is_same_call(o, t)) {
		r->flags |= SEND_OWN;
		r->culprit = o->culprit;
		return;
	}
	o->same = 0;
	if (r->flags & SEND_KERNEL) {
		key.tgid = t->tgid;
		key.nr = NR_KERNEL;
		key.kstack = KSTACK_UNNEEDED;
	} else {
		need_stack = identify(&key, t, r->mm);
		if (key.flags & CULPRIT_OWN)
			r->flags |= SEND_OWN;
		if (!need_stack && key.flags == CULPRIT_OWN) {
			struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);

			o->call = regs->orig_ax;
			o->advice = advice_of(regs);
			o->same = 1;
		}
	}
	if (need_stack)
		key.kstack = kernel_stack(ctx, ((u64 *)&key)[1]);
	if (!o->culprit || ((u64 *)&key)[0] != ((u64 *)&o->key)[0] ||
	    ((u64 *)&key)[1] != ((u64 *)&o->key)[1]) {
		o->culprit = culprit_of(&key);
		o->key = key;
	}
	if (!o->culprit) {
		struct health *h = health();

		o->same = 0;
		if (h)
			h->crowded++;
	}
	r->culprit = o->culprit;
}

/* A round that nobody named: where all count, it does so without a name. */
static __always_inline void unnamed(struct own *o, struct round *r)
{
	struct health *h = health();

	o->due = 0;
	if (h)
		h->lost_details++;
	if (config.scope != SCOPE_ALL)
		return;
	r->mode = MODE_IN;
	r->culprit = 0;
	r->unsettled = 1;
}

/* The first target of a round. */
static __always_inline void begin(struct bpf_raw_tracepoint_args *ctx, struct own *o, u32 cpu,
				  u32 target, u64 func, struct __call_single_data *csd, u64 now)
{
	struct task_struct *t = bpf_get_current_task_btf();
	bool kernel = !is_flush(func);
	u64 mm = 0, start = 0, end = ~0ULL, generation = 0;
	struct round *r = round_of(o, o->current);
	struct flush_tlb_info *info;

	if (o->due)
		unnamed(o, r);
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
	return !o->due && !r->unsettled && r->mode != MODE_OUT;
}

/* A flush that would have interrupted others, had any CPU run with that memory. */
static __always_inline void empty_send(struct own *o)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct health *h;

	/* while csd_queue_cpu is not attached, every flush looks empty */
	if (!*(volatile u32 *)&counting)
		return;
	if (tgid == config.self_tgid || config.scope == SCOPE_CPUS ||
	    (config.scope == SCOPE_TREE && !culprit_in_scope(o, tgid)))
		return;
	h = health();
	if (h)
		h->empty_sends++;
}

/* This CPU's own part of a round: its targets are all queued and the IPI is sent. */
static __always_inline void end_round(struct bpf_raw_tracepoint_args *ctx, struct own *o, u64 func,
				      u32 cpu)
{
	struct round *r = round_of(o, o->current);

	/* an open round of another thread was one without such a part, and is over */
	if (!o->open || o->thread != (u64)bpf_get_current_task_btf()) {
		o->open = 0;
		if (is_flush(func))
			empty_send(o);
		return;
	}
	o->open = 0;
	settle_some(o, cpu, r);
	if (!o->due)
		return;
	o->due = 0;
	name_culprit(ctx, o, r);
	if (has_record(r))
		write_send(ctx, o, r, cpu);
}

#endif
