/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counting. A victim only leaves its times, so that it is not stopped for longer than it must be. The
 * culprit's CPU counts them some rounds later, mostly while an IPI of its own is on its way, when it
 * would only wait; where rounds end without a part of that CPU, when another needs the place. What a
 * quiet CPU left, the loader has counted (settle_rest).
 *
 * Some rounds later, so that the two CPUs do not pass the line of a request to and fro each time. But one
 * by one: interrupts are off in a CPU's own part, and two CPUs that shoot at each other fall out of
 * step when one makes the other wait. 15 rounds at once take 1.3 us, and cost ten (docs/overhead.md).
 *
 * Up to Linux 7.2 the culprit keeps its CPU until its victims are done, so that all rounds but the last are over. Since
 * 7.3 it may be preempted while it waits, and the next thread's round begins before that one's is over. So a round is
 * counted once its own victims are done, in whatever order. Where no place is free for another, the oldest is counted as
 * it is: a victim that was not seen is counted as such, and its times go to nobody.
 */
#ifndef QUELL_SETTLE_H
#define QUELL_SETTLE_H

/* A CPU that shoots on, but seldom, leaves no round for much longer than that. */
#define LATE_NS 10000000

static long settle_request(u32 i, struct settling *s)
{
	struct request *q = request_of(s->cpu, s->target, s->place);
	struct own *o = own_of(s->cpu);
	u32 target = s->target, stall, victim;
	struct round *r;
	u64 t1, at;

	if (!q || !o)
		return 1;
	r = round_at(o, s->place);
	s->target = q->next;
	t1 = q->t1;
	if (!t1) {
		s->unseen++;
		/* the next flush of that name is not to find it */
		q->tag = 0;
		return 0;
	}
	stall = q->stall_ns;
	victim = q->victim;
	at = q->at;
	/* the culprit waits for those out of scope too */
	if (t1 + stall > s->end)
		s->end = t1 + stall;
	if (r->mode == MODE_LATER && !victim_in_scope(target, victim))
		return 0;
	s->counted++;
	count_victim(r, at, t1, stall, victim);
	if (config.recording)
		write_victim(r->number, s->cpu, target, request_cell(s->cpu, target, s->place),
			     t1 > at ? t1 - at : 0, t1, stall);
	return 0;
}

VISITS(settle_request)

/*
 * Counts a round, unless it is not to be or another CPU does. Not static: verified once, and not once for every way that
 * leads here.
 */
__noinline int settle(u32 cpu, u32 place)
{
	struct own *o = own_of(cpu);
	struct health *h = health();
	struct settling s;
	struct round *r;

	if (!o || !h)
		return 0;
	r = round_at(o, place);
	if (r->state != ROUND_NAMED || __sync_val_compare_and_swap(&r->state, ROUND_NAMED, ROUND_TAKEN) != ROUND_NAMED)
		return 0;
	if (r->mode == MODE_SELF) {
		h->self_shootdowns++;
		h->self_victims += r->targets;
	} else {
		s = settling_of(cpu, place, r);
		if (r->targets == 1)
			settle_request(0, &s);
		else
			each_target(r->targets, settle_request, &s);
		finish_round(&s, r);
	}
	/* last: the place is another's from here on; x86 keeps the order of stores */
	barrier();
	r->state = ROUND_FREE;
	return 1;
}

/*
 * What is due of the rounds before the last one: where there are records, all that are over, for they are waited for;
 * else the oldest, if it is old or half of the places are taken.
 */
static __always_inline void settle_some(struct own *o, u32 cpu, u64 now)
{
	u32 waiting = 0, oldest = 0, age = 0, i;

	for (i = 0; i < MAX_PLACES; i++) {
		struct round *r = &o->rounds[i];

		if (i == o->place || r->state != ROUND_NAMED)
			continue;
		if (config.recording) {
			if (all_done(cpu, i))
				settle(cpu, i);
			continue;
		}
		waiting++;
		if (o->current - r->number < age)
			continue;
		age = o->current - r->number;
		oldest = i;
	}
	if (!waiting)
		return;
	if ((waiting >= config.places / 2 || now - round_at(o, oldest)->t0 > LATE_NS) && all_done(cpu, oldest))
		settle(cpu, oldest);
}

/* Has the round in that place been counted, or need it not be? */
static __always_inline bool is_free(struct own *o, u32 place)
{
	return *(volatile u32 *)&round_at(o, place)->state == ROUND_FREE;
}

/*
 * A place for another round, the first that is free from the first on; config.places if there is none. Then some are
 * made free: those that are over, or if none is the oldest.
 */
static __always_inline u32 free_place(struct own *o, u32 first)
{
	u32 i;

	for (i = 0; i < MAX_PLACES; i++) {
		u32 place = (first + i) & (config.places - 1);

		if (i >= config.places)
			break;
		if (is_free(o, place))
			return place;
	}
	return config.places;
}

__noinline int make_room(u32 cpu)
{
	struct own *o = own_of(cpu);
	u32 oldest = 0, age = 0, made = 0, i;

	if (!o)
		return 0;
	for (i = 0; i < MAX_PLACES; i++) {
		if (o->rounds[i].state != ROUND_NAMED)
			continue;
		if (all_done(cpu, i)) {
			made += settle(cpu, i);
			continue;
		}
		if (o->current - o->rounds[i].number < age)
			continue;
		age = o->current - o->rounds[i].number;
		oldest = i;
	}
	return made || settle(cpu, oldest);
}

#endif
