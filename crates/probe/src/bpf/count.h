/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts a round and its victims once they are done, for tracepoints and functions alike.
 */
#ifndef QUELL_COUNT_H
#define QUELL_COUNT_H

/* A walk over the victims of a round. */
struct settling {
	u32 cpu; /* the culprit's */
	u32 place; /* of the round */
	u32 target; /* the next to visit */
	u32 counted; /* victims in scope so far */
	u32 unseen; /* victims that left no times */
	u32 zero;
	u64 end; /* of the last victim */
};

static __always_inline bool victim_in_scope(u32 cpu, u32 victim)
{
	struct victim_info *info;

	if (config.scope != SCOPE_CPUS) {
		info = bpf_map_lookup_elem(&victim_infos, &victim);
		return info && tgid_in_scope(info->key.tgid);
	}
	return cpu_in_scope(cpu);
}

/* Adds a victim's times, which stand for those of 1 << shift rounds. */
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
	/* TLB_FLUSH_ALL and PAGE_SHIFT of x86 (tlbflush.h and page_types.h in arch/x86/include/asm) */
	if (r->end == ~0ULL)
		tally->full++;
	else
		tally->pages += (r->end - r->start) >> 12;
}

/* The last victim ends the wait; if none was seen (0), the wait's length is not known. */
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

/*
 * Counts a shootdown of the loader's own, apart from those that it watches. Victims of a flush of the kernel's own mappings are
 * not passed, because `TLB:` does not count them either: loading a program on Linux 5.15 makes some.
 */
static __always_inline void count_self(u64 victims)
{
	ADD_TO_HEALTH(healths, self_shootdowns, 1);
	ADD_TO_HEALTH(healths, self_victims, victims);
}

/* How long after its request a victim began. The clocks of two CPUs may be some ns apart. */
static __always_inline u64 delay_of(u64 asked, u64 began)
{
	return began > asked ? began - asked : 0;
}

static __always_inline void count_victim(struct round *r, u64 delay, u32 stall_ns, u32 victim)
{
	struct hists *hists = hists_of_cpu();
	struct culprit_tally *tally;
	struct victim_tally *vt;

	if (!victim)
		ADD_TO_HEALTH(healths, crowded, 1);
	tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	vt = bpf_map_lookup_elem(&victim_tallies, &victim);
	if (tally && vt && hists)
		count_hit(tally, vt, hists, delay, stall_ns, r->shift);
}

/* Counts the round itself, when all its victims are counted. */
static __always_inline void finish_round(struct settling *s, struct round *r)
{
	struct culprit_tally *tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	struct hists *hists = hists_of_cpu();
	u32 records = s->counted;

	if (r->mode == MODE_IN) {
		ADD_TO_HEALTH(healths, unseen, s->unseen);
		s->counted += s->unseen;
	}
	/* where the culprit's record told another number of victims, or, with 0, left that to this one */
	if (config.recording && (r->sent != records || !records))
		write_end(r, s->cpu, s->end, records, r->mode == MODE_IN ? s->unseen : 0);
	if (s->counted && tally && hists)
		count_round(tally, hists, r, s->counted, s->end);
}

#endif
