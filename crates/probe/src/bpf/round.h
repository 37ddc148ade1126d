/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rounds, their targets, and the hits that victims leave: where they lie, and which belong together.
 */
#ifndef QUELL_ROUND_H
#define QUELL_ROUND_H

#include "each.h"

static __always_inline u32 clamp(u64 ns)
{
	return ns > 0xffffffff ? 0xffffffff : ns;
}

enum mode {
	MODE_OUT,   /* not in scope */
	MODE_IN,    /* counted from the start */
	MODE_LATER, /* counted if a victim turns out to be in scope */
	MODE_SELF,  /* the loader's own: counted apart */
};

/* Clocks of two CPUs may be some ns apart. An IPI takes longer, and so does a new round. */
#define SKEW_NS 100

/* A walk over the targets of a round. */
struct settling {
	u32 cpu;
	u32 which; /* round */
	u32 target;
	u32 counted;
	u64 until; /* the next round's start: what comes later is of that */
	u64 end;
};

static __always_inline struct round *round_of(struct own *o, u32 which)
{
	return &o->rounds[which & (MAX_DEPTH - 1)];
}

/*
 * A request is queued once csd_queue_cpu is over: what takes long there, as settling and unwinding do,
 * is no part of its delay.
 */
static __always_inline void start_again(struct round *r)
{
	r->t0 = bpf_ktime_get_ns();
}

/* When the round after it began: what comes later is of that. */
static __always_inline u64 end_of(struct own *o, u32 which)
{
	return which == o->current ? ~0ULL : round_of(o, which + 1)->t0;
}

/* At its first target. */
static __always_inline struct settling settling_of(struct own *o, u32 cpu, u32 which)
{
	return (struct settling){
		.cpu = cpu,
		.which = which,
		.target = round_of(o, which)->first,
		.until = end_of(o, which),
	};
}

static __always_inline struct target *target_of(u32 cpu, u32 target)
{
	u32 cell = cpu * config.row + target;

	return bpf_map_lookup_elem(&targets, &cell);
}

static __always_inline u32 hit_cell(u32 cpu, u32 target, u32 turn)
{
	return (cpu * config.ncpu + target) * config.depth + (turn & (config.depth - 1));
}

static __always_inline struct hit *hit_of(u32 cpu, u32 target, u32 turn)
{
	u32 cell = hit_cell(cpu, target, turn);

	return bpf_map_lookup_elem(&hits, &cell);
}

static __always_inline bool is_between(struct hit *hit, u64 from, u64 until)
{
	return hit->t1 + SKEW_NS >= from && hit->t1 < until;
}

/* The next target of a round, and its times; without any if it was not seen. */
static __always_inline bool next_hit(u32 i, struct settling *s, struct round *r, struct hit **hit,
				     u64 *at, u32 *turn)
{
	u32 cpu = s->cpu, target = s->target, j;
	struct target *t = target_of(cpu, target);
	struct hit *h;

	*hit = NULL;
	if (!t)
		return false;
	s->target = t->next[s->which & 1];
	*at = r->t0;
	if (i)
		*at += t->after[s->which & 1];
	*turn = t->turn;
	/* it is the first, but where the two sides did not begin together, or a hit was missed */
	for (j = 0; j < MAX_DEPTH; j++) {
		h = hit_of(cpu, target, *turn);
		if (!h)
			return false;
		if (is_between(h, *at, s->until)) {
			*hit = h;
			return true;
		}
		*turn += 1;
		if (j + 1 >= config.depth)
			break;
	}
	return true;
}

static long see_target(u32 i, struct settling *s)
{
	struct own *o = own_of(s->cpu);
	struct hit *hit;
	u32 turn;
	u64 at;

	if (!o || !next_hit(i, s, round_of(o, s->which), &hit, &at, &turn) || !hit)
		return 1;
	s->counted++;
	return 0;
}

VISITS(see_target)

/* Are all targets of a round done that were queued so far? */
__noinline int all_done(u32 cpu, u32 which)
{
	struct own *o = own_of(cpu);
	struct settling s;
	struct round *r;

	if (!o)
		return 0;
	r = round_of(o, which);
	s = settling_of(o, cpu, which);
	each_target(r->targets, see_target, &s);
	return s.counted == r->targets;
}

#endif
