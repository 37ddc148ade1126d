/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The victim's side of a round: the thread that it interrupts. Interrupts are off meanwhile, so a CPU is in one handler at a
 * time.
 */
#ifndef QUELL_VICTIM_H
#define QUELL_VICTIM_H

/*
 * Whether, with by_cgroup, the process runs here that was named last, in the same groups. To ask for their id is a call and
 * four loads, one after the other. An address may be given to other groups, but not while a process is in these; one
 * that went to others and from there to such is counted where it was, until another one runs here.
 */
static __always_inline bool is_named_still(struct cpu_state *me, struct task_struct *t, u64 groups, u32 bystander)
{
	return me->victim && me->named_tgid == (u32)t->tgid && me->cgroups == groups &&
	       (me->vkey.bystander & 1) == bystander;
}

/* Names the thread that runs on this CPU and is interrupted for that memory, which is 0 for a batch. */
static __always_inline struct victim_key name_victim(struct cpu_state *me, struct task_struct *t, u64 mm)
{
	struct victim_key process = { .tgid = t->tgid, .bystander = mm && (u64)t->mm != mm };
	struct victim_key key = process;

	if (config.by_cgroup) {
		u64 groups = (u64)t->cgroups, cgroup;

		if (likely(is_named_still(me, t, groups, process.bystander)))
			return process;
		/* a move comes after the address was read, and so is seen the next time */
		barrier();
		cgroup = cgroup_here();
		me->cgroups = groups;
		me->named_tgid = t->tgid;
		key.tgid = cgroup;
		key.bystander |= (u32)(cgroup >> 32) << 1;
		if (!has_room(&victim_index, &key, &state.next_victim)) {
			key.tgid = 0;
			key.bystander &= 1;
		}
	}
	/* a key is one word */
	if (!me->victim || *(u64 *)&me->vkey != *(u64 *)&key) {
		me->victim = victim_of(&key);
		me->vkey = key;
	}
	return process;
}

/* Leaves the fields of the thread that a record needs. */
static __always_inline void leave_thread(u32 cell, struct task_struct *t, struct victim_key *process)
{
	struct hit_thread *thread = bpf_map_lookup_elem(&hit_threads, &cell);

	if (!thread)
		return;
	thread->tgid = process->tgid;
	thread->tid = t->pid;
	thread->bystander = process->bystander;
	bpf_get_current_comm(thread->comm, sizeof(thread->comm));
}

/* One more time that this CPU was interrupted by that one. Only this CPU writes the cell, with interrupts off. */
static __always_inline void count_interrupt(u32 cpu, u32 from)
{
	u32 cell = cpu * config.row + from, *n = bpf_map_lookup_elem(&interrupts, &cell);

	if (likely(n))
		*n += 1;
}

#endif
