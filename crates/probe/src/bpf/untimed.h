/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shootdowns that are counted and not timed: the clock is not read for them, and their victims leave no
 * hit. Where a CPU shoots so often that the probe is felt, most are. A sum over one in 16, each standing for
 * 16, says as much as one over all when there are 10,000 a second. Counts are of all, always.
 *
 * Culprit and victims must decide alike without a word between them, for a word would be one more line
 * that two CPUs write. Both know the generation of the flush (flush_tlb_info.new_tlb_gen, one more with
 * each flush of an address space), and how many are timed at present. When that changes while a round is
 * under way, it may be decided differently. It is counted all the same, by its culprit; its victim is
 * named twice, or counts as not seen.
 */
#ifndef QUELL_UNTIMED_H
#define QUELL_UNTIMED_H

/* A CPU that begins rounds in less time than this leaves some untimed: up to 15,000 a second are timed. */
#define TIMED_APART_NS 64000
#define MOST_SHIFT 5 /* one in 32 is timed at least */
/* A rate is looked at after so many rounds, or after so long. */
#define PACE_ROUNDS 256
#define PACE_NS 20000000

/* One in 1 << shift is timed. Read by all CPUs at each round, written when the rate changes. */
u32 timed_shift SEC(".data.timed_shift") = 0;

/* The CPU whose rate that is, and until when: others may raise it, and lower it when that is over. */
struct pace {
	u64 until;
	u32 cpu;
	u32 zero;
} pace SEC(".data.pace") = {};

/* The memory of the loader, whose rounds are counted apart. Set before anything is attached. */
u64 self_mm SEC(".data.self_mm") = 0;

static __always_inline u32 shift_now(void)
{
	u32 shift = *(volatile u32 *)&timed_shift;

	return shift > MOST_SHIFT ? MOST_SHIFT : shift;
}

/*
 * Multiplied by the golden ratio, so that those that are timed are spread as evenly as can be, and of a
 * program that shoots twice a turn it is not always the same one (Knuth, TAOCP 3, 6.4). A batch has no
 * generation, and is timed. In the scope of a process the victim must know whose the memory is.
 */
static __always_inline bool is_untimed(u64 mm, u64 generation)
{
	struct mm_struct *m = (struct mm_struct *)mm;
	u32 shift;

	if (!config.may_skip || (config.scope == SCOPE_TREE && !bpf_core_field_exists(m->owner)))
		return false;
	shift = shift_now();
	if (!shift || !mm || mm == self_mm)
		return false;
	return (generation * 0x9e3779b97f4a7c15ULL) >> (64 - shift);
}

/* At a round that is timed: how often does this CPU shoot? */
static __always_inline void keep_pace(struct own *o, u32 cpu, u64 now)
{
	u32 rounds = o->begun - o->paced_at, shift = 0;
	u64 each;

	if (!config.may_skip || (rounds < PACE_ROUNDS && now - o->paced_ns < PACE_NS))
		return;
	each = rounds ? (now - o->paced_ns) / rounds : PACE_NS;
	o->paced_at = o->begun;
	o->paced_ns = now;
	while (shift < MOST_SHIFT && each < TIMED_APART_NS >> shift)
		shift++;
	/* a rate between two steps is not to go to and fro */
	if (shift && shift + 1 == timed_shift)
		shift++;
	if (shift < timed_shift && pace.cpu != cpu && pace.until > now)
		return;
	if (shift) {
		pace.cpu = cpu;
		pace.until = now + 4 * PACE_NS;
	}
	if (shift != timed_shift)
		timed_shift = shift;
}

/* The culprit's side: there is nothing to wait for. Once: the loader may have done it. */
static __always_inline void count_untimed(struct own *o)
{
	struct culprit_tally *tally;
	struct round *r = &o->untimed;
	struct health *h = health();

	if (!h || !r->unsettled || !__sync_lock_test_and_set(&r->unsettled, 0))
		return;
	if (r->mode != MODE_IN) {
		h->self_shootdowns++;
		h->self_victims += r->targets;
		return;
	}
	tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	if (!tally)
		return;
	h->untimed++;
	count_flush(tally, r, r->targets);
	/* a process in scope that takes the memory of one that is not: the victims did not know */
	if (config.scope == SCOPE_TREE && !(r->flags & SEND_OWN) && !owner_in_scope(r->mm))
		h->unseen += r->targets;
}

/* In scope is what a process in scope asks for, mostly of its own memory, or whose memory is in scope. */
static __always_inline bool memory_in_scope(struct own *me, struct task_struct *t, u64 mm)
{
	u32 gen;

	if (config.scope != SCOPE_TREE)
		return true;
	if ((u64)t->mm != mm)
		return owner_in_scope(mm);
	gen = *(volatile u32 *)&state.scope_gen;
	if (me->hit_tgid != (u32)t->tgid || me->hit_gen != gen) {
		if (!tgid_in_scope(t->tgid))
			return false;
		me->hit_tgid = t->tgid;
		me->hit_gen = gen;
	}
	return true;
}

/* The victim's side: who was interrupted. */
static __always_inline void untimed_victim(struct own *me, u32 cpu, u32 from, u64 mm)
{
	struct task_struct *t = bpf_get_current_task_btf();
	u32 cell = cpu * config.row + from;
	struct victim_tally *vt;
	struct turn *turn;
	struct health *h;

	turn = bpf_map_lookup_elem(&turns, &cell);
	if (!turn || from >= config.ncpu)
		return;
	turn->untimed++;
	if (!memory_in_scope(me, t, mm))
		return;
	name_victim(me, t, mm);
	vt = bpf_map_lookup_elem(&victim_tallies, &me->victim);
	if (vt)
		vt->hits++;
	if (me->victim)
		return;
	h = health();
	if (h)
		h->crowded++;
}

#endif
