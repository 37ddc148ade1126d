/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Records for the ring: one of the culprit, one of each victim, and one of the end where the first can't tell how many
 * there are. They come as they are written: rounds of one CPU may overlap (settle.h).
 */
#ifndef QUELL_RECORD_H
#define QUELL_RECORD_H

static __always_inline u32 clamp_ns(u64 ns)
{
	return ns > 0xffffffff ? 0xffffffff : ns;
}

/*
 * Reserves room for a record; NULL if there is none, and the record is counted as lost. Only culprits write records, with
 * preemption off, and not in interrupts: no atomic is needed.
 */
static __always_inline void *reserve_record(u64 size)
{
	void *record = bpf_ringbuf_reserve(&records, size, 0);

	if (!record)
		ADD_TO_HEALTH(healths, lost_records, 1);
	return record;
}

/* The reader is not woken, which would cost an interrupt: it reads on a timer. */
static __always_inline void submit_record(void *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static __always_inline bool has_record(struct round *r)
{
	return config.recording && (r->mode == MODE_IN || r->mode == MODE_LATER);
}

/* Writes the culprit's record: after the IPI is on its way where that is possible. */
static __always_inline void write_send(void *ctx, struct cpu_state *o,
				       struct round *r, u32 cpu)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct send_record *s;
	s32 kstack = KSTACK_UNNEEDED, ustack = KSTACK_UNNEEDED;
	u64 caller = 0;

	if (config.stack_every && ++o->sampled >= config.stack_every) {
		o->sampled = 0;
		/* the second word of a key is the call with its advice and flags, by which kernel_stack() remembers */
		kstack = o->key.kstack >= 0 ? o->key.kstack : kernel_stack(ctx, ((u64 *)&o->key)[1]);
		if (is_of_a_program(t)) {
			ustack = config.unwinds ? stack_in_pieces(ctx, t, 0, false) : 0;
			if (ustack <= 0) {
				ustack = user_stack(ctx);
				caller = top_of_stack(t);
			}
		}
	}
	r->sent = 0;
	/* its first request is queued after this, so the time that the stacks took is no part of the delay */
	if (o->open)
		r->t0 = bpf_ktime_get_ns();
	s = reserve_record(sizeof(*s));
	if (!s)
		return;
	s->kind = RECORD_SEND;
	s->flags = r->flags;
	s->cpu = cpu;
	s->seq = r->number;
	s->t_ns = r->t0;
	s->tgid = t->tgid;
	s->tid = t->pid;
	s->start = r->start;
	s->end = r->end;
	s->caller = caller;
	s->kstack = kstack;
	s->ustack = ustack;
	s->culprit = r->culprit;
	/* in MODE_LATER some of them may be out of scope and write no record */
	r->sent = o->open || r->mode != MODE_IN ? 0 : r->targets;
	s->targets = r->sent;
	s->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(s->comm, sizeof(s->comm));
	submit_record(s);
}

static __always_inline void write_victim(u32 number, u32 from, u32 cpu, u32 cell, u64 delay, u64 t1, u32 stall_ns)
{
	struct hit_thread *thread = bpf_map_lookup_elem(&hit_threads, &cell);
	struct victim_record *v;

	if (!thread)
		return;
	v = reserve_record(sizeof(*v));
	if (!v)
		return;
	v->kind = RECORD_VICTIM;
	v->bystander = thread->bystander;
	v->cpu = cpu;
	v->culprit_cpu = from;
	v->zero = 0;
	v->seq = number;
	v->tgid = thread->tgid;
	v->tid = thread->tid;
	v->delay_ns = clamp_ns(delay);
	v->stall_ns = stall_ns;
	v->zero2 = 0;
	v->end_ns = t1 + stall_ns;
	__builtin_memcpy(v->comm, thread->comm, sizeof(v->comm));
	submit_record(v);
}

static __always_inline void write_end(struct round *r, u32 cpu, u64 end, u32 victims, u32 unseen)
{
	struct end_record *e = reserve_record(sizeof(*e));

	if (!e)
		return;
	e->kind = RECORD_END;
	e->culprit_cpu = cpu;
	e->seq = r->number;
	e->end_ns = end;
	e->victims = victims;
	e->unseen = unseen;
	submit_record(e);
}

#endif
