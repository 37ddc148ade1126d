/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counting. A victim only leaves its times, so that it is not stopped for longer than it must be. The
 * culprit's CPU counts them some rounds later, mostly while an IPI of its own is on its way, when it
 * would only wait; where rounds end without a part of that CPU, before the next one begins. What a
 * quiet CPU left, the loader has counted (settle_rest).
 *
 * Some rounds later, so that the two CPUs do not pass the line of a hit to and fro each time. But one
 * by one: interrupts are off in a CPU's own part, and two CPUs that shoot at each other fall out of
 * step when one makes the other wait. 15 rounds at once take 1.3 us, and cost ten (docs/overhead.md).
 */
#ifndef QUELL_SETTLE_H
#define QUELL_SETTLE_H

/* A CPU that shoots on, but seldom, leaves no round for much longer than that. */
#define LATE_NS 10000000

static __always_inline bool victim_in_scope(u32 cpu, u32 victim)
{
	struct victim_info *info;

	if (config.scope != SCOPE_CPUS) {
		info = bpf_map_lookup_elem(&victim_infos, &victim);
		return info && tgid_in_scope(info->key.tgid);
	}
	return cpu_in_scope(cpu);
}

static __always_inline void count_hit(struct culprit_tally *tally, struct victim_tally *vt,
				      struct hists *hists, u64 delay, u64 stall, u32 shift)
{
	tally->delay_ns += delay << shift;
	tally->stall_ns += stall << shift;
	vt->hits++;
	vt->stall_ns += stall << shift;
	hist_add(&hists->of[HIST_DELAY], delay, 1ULL << shift);
	hist_add(&hists->of[HIST_STALL], stall, 1ULL << shift);
}

static __always_inline void count_flush(struct culprit_tally *tally, struct round *r, u64 victims)
{
	tally->shootdowns++;
	tally->victims += victims;
	if (r->end == ~0ULL)
		tally->full++;
	else
		tally->pages += (r->end - r->start) >> 12;
}

/* The last victim ends the wait; if none was seen (0), its length is not known. */
static __always_inline void count_round(struct culprit_tally *tally, struct hists *hists,
					struct round *r, u64 victims, u64 end)
{
	u64 wait;

	count_flush(tally, r, victims);
	if (!end)
		return;
	wait = end > r->t0 ? end - r->t0 : 0;
	tally->wait_ns += wait << r->shift;
	hist_add(&hists->of[HIST_WAIT], wait, 1ULL << r->shift);
}

static long settle_target(u32 i, struct settling *s)
{
	struct own *o = own_of(s->cpu);
	struct hists *hists = hists_of_cpu();
	struct health *h = health();
	struct culprit_tally *tally;
	struct victim_tally *vt;
	u32 target = s->target, victim, turn;
	u64 at, delay, stall;
	struct target *t;
	struct round *r;
	struct hit *hit;

	if (!o || !hists || !h)
		return 1;
	r = round_of(o, s->which);
	if (!next_hit(i, s, r, &hit, &at, &turn))
		return 1;
	if (!hit) {
		if (r->mode == MODE_IN)
			h->unseen++;
		return 0;
	}
	t = target_of(s->cpu, target);
	if (t)
		t->turn = turn + 1;
	stall = hit->stall_ns;
	/* the culprit waits for those out of scope too */
	if (hit->t1 + stall > s->end)
		s->end = hit->t1 + stall;
	if (r->mode == MODE_LATER && !victim_in_scope(target, hit->victim))
		return 0;
	s->counted++;
	delay = hit->t1 > at ? hit->t1 - at : 0;
	victim = hit->victim;
	if (!victim)
		h->crowded++;
	tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	vt = bpf_map_lookup_elem(&victim_tallies, &victim);
	if (tally && vt)
		count_hit(tally, vt, hists, delay, stall, r->shift);
	if (config.recording)
		write_victim(s, hit, target, turn, delay);
	return 0;
}

VISITS(settle_target)

/* Not static: verified once, and not once for every way that leads here. */
__noinline int settle(u32 cpu, u32 which)
{
	struct culprit_tally *tally;
	struct settling s;
	struct health *h = health();
	struct hists *hists;
	struct round *r;
	struct own *o;

	o = own_of(cpu);
	if (!o || !h)
		return 0;
	r = round_of(o, which);
	/* once: the loader may have done it */
	if (!r->unsettled || !__sync_lock_test_and_set(&r->unsettled, 0))
		return 0;
	if (r->mode == MODE_SELF) {
		h->self_shootdowns++;
		h->self_victims += r->targets;
		return 0;
	}
	s = settling_of(o, cpu, which);
	each_target(r->targets, settle_target, &s);
	if (r->mode == MODE_IN)
		s.counted = r->targets;
	if (!s.counted)
		return 0;
	if (config.recording && r->mode == MODE_LATER)
		write_end(&s);
	tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	hists = hists_of_cpu();
	if (!tally || !hists)
		return 0;
	count_round(tally, hists, r, s.counted, s.end);
	return 0;
}

/*
 * Settles a round of one target as settle() would, in one go. Left to that: a round of more, one whose
 * hit does not lie where it is first looked for, and one whose victim found no room.
 */
__noinline int settle_quickly(u32 cpu, u32 which)
{
	struct own *o = own_of(cpu);
	struct hists *hists = hists_of_cpu();
	u64 t0, t1, stall;
	struct culprit_tally *tally;
	struct victim_tally *vt;
	u32 first, victim;
	struct target *t;
	struct round *r;
	struct hit *hit;

	if (!o || !hists)
		return 0;
	r = round_of(o, which);
	first = r->first;
	if (r->targets != 1 || r->mode != MODE_IN || !r->unsettled || config.recording)
		return 0;
	t = target_of(cpu, first);
	if (!t)
		return 0;
	hit = hit_of(cpu, first, t->turn);
	if (!hit || !is_between(hit, r->t0, end_of(o, which)))
		return 0;
	victim = hit->victim;
	if (!victim)
		return 0;
	tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	vt = bpf_map_lookup_elem(&victim_tallies, &victim);
	if (!tally || !vt || !__sync_lock_test_and_set(&r->unsettled, 0))
		return 0;
	t->turn++;
	t0 = r->t0;
	t1 = hit->t1;
	stall = hit->stall_ns;
	count_hit(tally, vt, hists, t1 > t0 ? t1 - t0 : 0, stall, r->shift);
	count_round(tally, hists, r, 1, t1 + stall);
	return 1;
}

/* All rounds of this CPU before that one. */
__noinline int settle_before(u32 cpu, u32 which)
{
	struct own *o = own_of(cpu);
	u32 i;

	if (!o)
		return 0;
	for (i = 0; i < MAX_DEPTH && o->oldest != which; i++) {
		if (!settle_quickly(cpu, o->oldest))
			settle(cpu, o->oldest);
		o->oldest++;
	}
	o->oldest = which;
	o->many_before = 0;
	return 0;
}

/* What is due of the rounds before the last one, r. */
static __always_inline void settle_some(struct own *o, u32 cpu, struct round *r)
{
	u32 left = o->current - o->oldest;

	if (!left)
		return;
	/* the list of targets has room for two rounds */
	if (o->many_before)
		settle_before(cpu, o->current);
	else if (r->t0 - round_of(o, o->oldest)->t0 > LATE_NS)
		settle_before(cpu, o->oldest + (left > 1 ? 2 : 1));
	else if (left >= config.depth / 2)
		settle_before(cpu, o->oldest + 1);
}

#endif
