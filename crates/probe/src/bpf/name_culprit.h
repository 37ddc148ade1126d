/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names the culprit of a round and decides whether the round counts, for tracepoints and functions alike.
 */
#ifndef QUELL_NAME_CULPRIT_H
#define QUELL_NAME_CULPRIT_H

/* Whether this memory belongs to a process in scope. Without CONFIG_MEMCG the owner is not known. */
static __always_inline bool owner_in_scope(u64 mm)
{
	struct mm_struct *m = (struct mm_struct *)mm;
	struct task_struct *owner;

	if (!bpf_core_field_exists(m->owner))
		return false;
	owner = BPF_CORE_READ(m, owner);
	return owner && tgid_in_scope(BPF_CORE_READ(owner, tgid));
}

static __always_inline u8 mode_of(struct cpu_state *o, struct task_struct *t, u64 mm)
{
	u32 tgid = t->tgid;

	if (tgid == config.self_tgid)
		return MODE_SELF;
	if (config.scope == SCOPE_ALL)
		return MODE_IN;
	if (config.scope == SCOPE_CPUS)
		return MODE_LATER;
	if (culprit_in_scope(o, tgid))
		return MODE_IN;
	/* a batch of reclaim or migration, or a kernel flush: its victims decide */
	if (!mm)
		return MODE_LATER;
	if (mm == (u64)t->mm)
		return MODE_OUT;
	/* somebody else's address space: ksmd, khugepaged, ptrace, process_madvise */
	return owner_in_scope(mm) ? MODE_IN : MODE_OUT;
}

/*
 * Whether this is the call that this CPU named last, as in all shootdowns of a loop. The thread must be one that
 * flushes its own address space.
 */
static __always_inline bool is_same_call(struct cpu_state *o, struct task_struct *t, struct pt_regs *regs)
{
	/* a process that is moved to a container may go on with the call that it made before */
	if (config.by_cgroup && o->call_groups != (u64)t->cgroups)
		return false;
	return o->same && o->call_tgid == (u32)t->tgid && o->call == regs->orig_ax &&
	       o->advice == advice_of(regs) && is_of_a_program(t) &&
	       !(t->thread_info.status & TS_COMPAT);
}

/* Finds the index of the round's culprit. */
static __always_inline void find_culprit(void *ctx, struct cpu_state *o, struct round *r, struct task_struct *t)
{
	struct culprit_key key = {};
	bool need_stack = false;

	if (r->mm && r->mm == (u64)t->mm && is_same_call(o, t, (struct pt_regs *)bpf_task_pt_regs(t))) {
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
		need_stack = fill_culprit_key(&key, t, r->mm);
		if (key.flags & CULPRIT_OWN)
			r->flags |= SEND_OWN;
		if (!need_stack && key.flags == CULPRIT_OWN) {
			struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);

			o->call = regs->orig_ax;
			o->advice = advice_of(regs);
			o->call_tgid = t->tgid;
			o->same = 1;
		}
	}
	if (need_stack)
		key.kstack = kernel_stack(ctx, ((u64 *)&key)[1]);
	if (config.by_cgroup) {
		u64 cgroup;

		/* first its address: a move in between is seen the next time */
		o->call_groups = (u64)t->cgroups;
		barrier();
		cgroup = cgroup_here();

		key.tgid = cgroup;
		key.high = cgroup >> 32;
		if (!has_room(&culprit_index, &key, &state.next_culprit))
			key.tgid = key.high = 0;
	}
	/* a key is two words */
	if (!o->culprit || ((u64 *)&key)[0] != ((u64 *)&o->key)[0] ||
	    ((u64 *)&key)[1] != ((u64 *)&o->key)[1]) {
		o->culprit = culprit_of(&key);
		o->key = key;
	}
	if (!o->culprit) {
		o->same = 0;
		ADD_TO_HEALTH(healths, crowded, 1);
	}
	r->culprit = o->culprit;
}

/* Names the culprit of the round, if the round counts. */
static __noinline void name_culprit(void *ctx, struct cpu_state *o, struct round *r)
{
	struct task_struct *t = bpf_get_current_task_btf();

	r->mode = mode_of(o, t, r->mm);
	if (r->mode == MODE_OUT) {
		r->state = ROUND_FREE;
		return;
	}
	if (r->mode != MODE_SELF)
		find_culprit(ctx, o, r, t);
	/* last: from here on it may be counted */
	barrier();
	r->state = ROUND_NAMED;
}

/* Gives up naming a round: where all rounds count, it counts without a name. */
static __always_inline void give_up_naming(struct cpu_state *o, struct round *r)
{
	o->due = 0;
	ADD_TO_HEALTH(healths, lost_details, 1);
	if (config.scope != SCOPE_ALL) {
		r->mode = MODE_OUT;
		r->state = ROUND_FREE;
		return;
	}
	r->mode = MODE_IN;
	r->culprit = 0;
	r->state = ROUND_NAMED;
}

/* Counts a flush that found no other CPU with that memory to interrupt. */
static __always_inline void count_empty_send(struct cpu_state *o)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (tgid == config.self_tgid || config.scope == SCOPE_CPUS ||
	    (config.scope == SCOPE_TREE && !culprit_in_scope(o, tgid)))
		return;
	ADD_TO_HEALTH(healths, empty_sends, 1);
}

#endif
