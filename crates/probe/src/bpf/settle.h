/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts rounds. A victim only leaves its times, so that it is not stopped for longer than it must be. The
 * culprit's CPU counts them some rounds later, mostly while an IPI of its own is on its way, when it
 * would only wait; where rounds end without a part of that CPU, when another needs the place. The
 * rounds that a quiet CPU left are counted by the loader (settle_rest).
 *
 * Some rounds later, so that the two CPUs do not pass the line of a request to and fro each time. But one
 * by one: interrupts are off in a CPU's own part, and two CPUs that shoot at each other fall out of
 * step when one makes the other wait (docs/overhead.md).
 *
 * Up to Linux 7.2 the culprit keeps its CPU until its victims are done, so that all rounds but the last are over. Since
 * 7.3 it may be preempted while it waits, and the next thread's round begins before that one's is over. So a round is
 * counted once its own victims are done, in whatever order. Where no place is free for another, the oldest is counted as
 * it is: a victim that was not seen is counted as such, and its times go to nobody.
 */
#ifndef QUELL_SETTLE_H
#define QUELL_SETTLE_H

/* A CPU whose rounds are so far apart leaves none of them to later ones. */
#define SELDOM_NS 1000000

/*
 * Makes sure that no flush finds the request any more if its victim was not seen. The write also fetches the cache line to the
 * culprit's CPU, which need not wait for it when its next request comes there.
 */
static __always_inline void retire_request(struct flush_request *q)
{
	q->tag = 0;
}

static long settle_request(u32 i, struct settling *s)
{
	struct flush_request *q = flush_request_of(s->cpu, s->target, s->place);
	struct cpu_state *o = cpu_state_of(s->cpu);
	u32 target = s->target, stall, victim;
	struct round *r;
	u64 t1, delay;

	if (!q || !o)
		return 1;
	r = round_at(o, s->place);
	s->target = q->next;
	t1 = q->t1;
	retire_request(q);
	if (!t1) {
		s->unseen++;
		return 0;
	}
	stall = q->stall_ns;
	victim = q->victim;
	delay = delay_of(q->at, t1);
	/* the culprit waits for those out of scope too */
	if (t1 + stall > s->end)
		s->end = t1 + stall;
	if (r->mode == MODE_LATER && !victim_in_scope(target, victim))
		return 0;
	s->counted++;
	count_victim(r, delay, stall, victim);
	if (config.recording)
		write_victim(r->number, s->cpu, target, request_cell(s->cpu, target, s->place), delay, t1, stall);
	return 0;
}

VISITS(settle_request)

/* Counts a round of one victim, as most are, in one go. Not one whose victim was not seen, or found no room. */
static __always_inline bool settle_quickly(u32 cpu, u32 place, struct round *r)
{
	struct hists *hists = hists_of_cpu();
	struct culprit_tally *tally;
	struct victim_tally *vt;
	struct flush_request *q;
	u64 t1, delay, stall;
	u32 victim;

	if (config.recording || r->targets != 1 || r->mode != MODE_IN)
		return false;
	q = flush_request_of(cpu, r->first, place);
	if (!q || !hists)
		return false;
	t1 = q->t1;
	if (!t1)
		return false;
	delay = delay_of(q->at, t1);
	stall = q->stall_ns;
	victim = q->victim;
	retire_request(q);
	tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	vt = bpf_map_lookup_elem(&victim_tallies, &victim);
	if (!victim || !tally || !vt)
		return false;
	count_hit(tally, vt, hists, delay, stall, r->shift);
	count_round(tally, hists, r, 1, t1 + stall);
	return true;
}

/* Takes a round to count it: true for one CPU alone, of those that try. */
static __always_inline bool take_round(struct round *r)
{
	return r->state == ROUND_NAMED &&
	       __sync_val_compare_and_swap(&r->state, ROUND_NAMED, ROUND_TAKEN) == ROUND_NAMED;
}

/* Counts a round that is taken. It is not static, so that it is verified once, and not for every way that leads here. */
__noinline int settle_taken(u32 cpu, u32 place)
{
	struct cpu_state *o = cpu_state_of(cpu);
	struct settling s;
	struct round *r;

	if (!o)
		return 0;
	r = round_at(o, place);
	if (r->mode == MODE_SELF) {
		count_self(r->flags & SEND_KERNEL ? 0 : r->targets);
	} else if (!settle_quickly(cpu, place, r)) {
		s = start_settling(cpu, place, r);
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

/* Counts a round of this CPU's, unless it is not to be counted or the loader does so. */
__noinline int settle_round(u32 cpu, u32 place)
{
	struct cpu_state *o = cpu_state_of(cpu);

	return o && take_round(round_at(o, place)) && settle_taken(cpu, place);
}

/*
 * Counts a round for the loader while its CPU may be busy. Between the look at a round and the taking of it another may have
 * begun there, which is left alone. The CPU may have seen it taken meanwhile, and makes another round of the rest then.
 */
__noinline int settle_for_loader(u32 cpu, u32 place)
{
	struct cpu_state *o = cpu_state_of(cpu);
	struct round *r;
	u32 number;

	if (!o)
		return 0;
	r = round_at(o, place);
	number = *(volatile u32 *)&r->number;
	if (!all_done(cpu, place) || !take_round(r))
		return 0;
	if (*(volatile u32 *)&r->number == number)
		return settle_taken(cpu, place);
	r->state = ROUND_NAMED;
	return 0;
}

/* Counts all rounds that are over, except the last one. No round begins in a place from config.places on: they stay free. */
__noinline int settle_all(u32 cpu)
{
	struct cpu_state *o = cpu_state_of(cpu);
	u32 i;

	if (!o)
		return 0;
	for (i = 0; i < MAX_PLACES; i++) {
		if (i != o->place && o->rounds[i].state == ROUND_NAMED && all_done(cpu, i))
			settle_round(cpu, i);
	}
	return 0;
}

/*
 * Counts the rounds before the last one that are due. With records, which somebody waits for, and on a CPU that shoots seldom
 * these are all that are over; else it is the one that lies half of the places away, which is half as many rounds old where
 * one address space is flushed again and again.
 */
static __always_inline void settle_due_rounds(struct cpu_state *o, u32 cpu, u64 now)
{
	u32 place = (o->place + config.places / 2) & (config.places - 1);
	u64 since = now - o->settled_ns;

	o->settled_ns = now;
	if (config.recording || since > SELDOM_NS)
		settle_all(cpu);
	else if (round_at(o, place)->state == ROUND_NAMED && all_done(cpu, place))
		settle_round(cpu, place);
}

/* Whether the place is free: its round has been counted, or need not be. */
static __always_inline bool is_free_place(struct cpu_state *o, u32 place)
{
	return *(volatile u32 *)&round_at(o, place)->state == ROUND_FREE;
}

/* The first free place for another round, from `first` on and round again; config.places if there is none. */
static __always_inline u32 free_place(struct cpu_state *o, u32 first)
{
	u32 i;

	for (i = 0; i < MAX_PLACES; i++) {
		u32 place = (first + i) & (config.places - 1);

		if (i >= config.places)
			break;
		if (is_free_place(o, place))
			return place;
	}
	return config.places;
}

/* Counts the rounds that are over, so that their places are free; or, if none is, the oldest as it is. */
__noinline int free_some_place(u32 cpu)
{
	struct cpu_state *o = cpu_state_of(cpu);
	u32 oldest = 0, age = 0, made = 0, i;

	if (!o)
		return 0;
	for (i = 0; i < MAX_PLACES; i++) {
		if (o->rounds[i].state != ROUND_NAMED)
			continue;
		if (all_done(cpu, i)) {
			made += settle_round(cpu, i);
			continue;
		}
		if (o->current - o->rounds[i].number < age)
			continue;
		age = o->current - o->rounds[i].number;
		oldest = i;
	}
	return made || settle_round(cpu, oldest);
}

#endif
