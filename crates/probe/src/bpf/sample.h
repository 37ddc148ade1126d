/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples: one in so many shootdowns, with its range and the code that asked for it. They are for watching a machine
 * for long, where records of all would cost too much, and where a table of stacks would fill up.
 */
#ifndef QUELL_SAMPLE_H
#define QUELL_SAMPLE_H

/* One in so many of each CPU, from 1 to 2^30. The loader sets it anew as the rate changes. */
u32 sample_every SEC(".data.sample_every") = 1;

/*
 * Of a round whose culprit is named and in scope; where victims decide that, it is too early. The gap
 * between two is drawn anew each time: a fixed one would beat with the loops of programs, and take the
 * same of their three munmaps every time. It is from 0 to 2 * every - 2 rounds, and so on average one in
 * `every` is taken.
 */
static __always_inline bool has_sample(struct cpu_state *o, struct round *r)
{
	u32 every;

	if (!config.sampling || r->mode != MODE_IN)
		return false;
	every = *(volatile u32 *)&sample_every;
	/* a gap of a time when it was longer is over */
	if (o->sampled && o->sampled < 2 * every) {
		o->sampled--;
		return false;
	}
	o->sampled = every > 1 ? bpf_get_prandom_u32() % (2 * every - 1) : 0;
	return true;
}

/* A sample that finds no room is left out, because counts do not come from samples. */
static __always_inline void write_sample(void *ctx, struct round *r)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct sample_record *s = bpf_ringbuf_reserve(&records, sizeof(*s), 0);
	long bytes = 0;

	if (!s)
		return;
	s->kind = RECORD_SAMPLE;
	s->flags = r->flags;
	s->tgid = t->tgid;
	s->culprit = r->culprit;
	s->every = *(volatile u32 *)&sample_every;
	s->start = r->start;
	s->end = r->end;
	s->caller = 0;
	if (is_of_a_program(t)) {
		bytes = bpf_get_stack(ctx, s->stack, sizeof(s->stack), BPF_F_USER_STACK);
		s->caller = top_of_stack(t);
	}
	s->frames = bytes > 0 ? bytes / sizeof(s->stack[0]) : 0;
	submit_record(s);
}

#endif
