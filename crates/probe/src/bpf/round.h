/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rounds, their requests, and the times that victims leave in these: where they lie, and how a victim's CPU finds the
 * request that it serves.
 *
 * A round lies in one of a few places of its CPU until it is counted, and each of its requests in the cell of (culprit's
 * CPU, victim's CPU, place). Which place, the victim tries first where the flush's address space and generation point;
 * they also name the flush (tag_of()), so that times go to the request that they are of or to none.
 */
#ifndef QUELL_ROUND_H
#define QUELL_ROUND_H

#include "each_target.h"
#include "flush_tag.h"

/* [culprit's CPU * row + victim's CPU], written by the culprit's CPU, and seldom */
DEFINE_ARRAY(cpu_pairs, struct cpu_pair, 1 /* ncpu * row */, BPF_F_MMAPABLE);

/*
 * With the same index: of how many requests the victim's CPU was told. It is read where rounds are counted, and not by the
 * victim's CPU.
 */
DEFINE_ARRAY(told_counts, u32, 1 /* ncpu * row */, BPF_F_MMAPABLE);

/* [(culprit's CPU * ncpu + victim's CPU) * places + place] */
DEFINE_ARRAY(flush_requests, struct flush_request, 1 /* ncpu * ncpu * places */, BPF_F_MMAPABLE);

static __always_inline struct cpu_pair *cpu_pair_of(u32 cpu, u32 target)
{
	u32 cell = cpu * config.row + target;

	return bpf_map_lookup_elem(&cpu_pairs, &cell);
}

static __always_inline u32 *told_count_of(u32 cpu, u32 target)
{
	u32 cell = cpu * config.row + target;

	return bpf_map_lookup_elem(&told_counts, &cell);
}

static __always_inline u32 request_cell(u32 cpu, u32 target, u32 place)
{
	return (cpu * config.ncpu + target) * config.places + (place & (config.places - 1));
}

static __always_inline struct flush_request *flush_request_of(u32 cpu, u32 target, u32 place)
{
	u32 cell = request_cell(cpu, target, place);

	return bpf_map_lookup_elem(&flush_requests, &cell);
}

/* Successive flushes of one address space lie in successive places. */
static __always_inline u32 first_place(u64 space, u64 generation)
{
	return generation + space;
}

/*
 * The place of the request that is under way from that CPU to this one, or config.places if the culprit's CPU told of
 * none. Of those without memory the latest is the one: where an older one was not seen, it still waits there.
 */
static __always_inline u32 find_request(u32 from, u32 cpu, u32 first, u32 tag)
{
	u32 found = config.places, place, i;
	u16 latest = 0;

	for (i = 0; i < MAX_PLACES; i++) {
		struct flush_request *q;

		if (i >= config.places)
			break;
		place = (first + i) & (config.places - 1);
		q = flush_request_of(from, cpu, place);
		if (!q)
			break;
		if (q->tag != tag || q->t1)
			continue;
		if (tag != TAG_NO_MEMORY)
			return place;
		if (found == config.places || (s16)(q->told - latest) > 0) {
			found = place;
			latest = q->told;
		}
	}
	return found;
}

/* Starts to settle a round at its first target. */
static __always_inline struct settling start_settling(u32 cpu, u32 place, struct round *r)
{
	return (struct settling){ .cpu = cpu, .place = place, .target = r->first };
}

/*
 * Whether the victim has left its times, or can leave them no more. The csd is free again once the victim is done, so when the
 * next request was told of, the one before is over.
 */
static __always_inline bool is_over(struct flush_request *q, u32 cpu, u32 target)
{
	u32 *last;

	if (q->t1)
		return true;
	last = told_count_of(cpu, target);
	return last && (u16)*last != q->told;
}

static long visit_request(u32 i, struct settling *s)
{
	struct flush_request *q = flush_request_of(s->cpu, s->target, s->place);

	if (!q || !is_over(q, s->cpu, s->target))
		return 1;
	s->target = q->next;
	s->counted++;
	return 0;
}

VISITS(visit_request)

/* Whether all victims of a round that were queued so far are done. */
__noinline int all_done(u32 cpu, u32 place)
{
	struct cpu_state *o = cpu_state_of(cpu);
	struct settling s;
	struct round *r;

	if (!o)
		return 0;
	r = round_at(o, place);
	/* it is just beginning */
	if (!r->targets)
		return 0;
	s = start_settling(cpu, place, r);
	if (r->targets == 1)
		return !visit_request(0, &s);
	each_target(r->targets, visit_request, &s);
	return s.counted == r->targets;
}

#endif
