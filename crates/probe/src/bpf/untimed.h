/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shootdowns that are counted and not timed: the clock is not read for them, and their victims leave no
 * times. Where a CPU shoots so often that the probe is felt, most of its shootdowns are. A sum over one in 16, each
 * standing for 16, says as much as one over all when there are 10,000 a second. Counts are of all, always.
 *
 * Culprit and victims must decide alike without a word between them, for a word would be one more line
 * that two CPUs write in each round. Both know the generation of the flush (flush_tlb_info.new_tlb_gen, one
 * more with each flush of an address space), and how many of the culprit's CPU are timed: that changes
 * seldom, and is told to each victim's CPU before a request to it is queued, of which one is in flight at a time.
 *
 * The path of most rounds is straight, without jumps and calls (hence likely()): behind an interrupt,
 * and still more behind a hypervisor, the CPU foresees few of them, and a return can cost 10 ns where the kernel guards
 * itself against Spectre's kin. In all that took a fifth of the probe's time away (docs/agent.md).
 */
#ifndef QUELL_UNTIMED_H
#define QUELL_UNTIMED_H

#define MAX_SHIFT 7 /* one in 128 is timed at least */
/* A rate is looked at after so many rounds, or after so long. */
#define PACE_ROUNDS 256
#define PACE_NS 20000000
/* But of so many that are timed, where they are far apart: of fewer a rate would go to and fro. */
#define PACE_TIMED 16

/*
 * Whether the count of the round is enough. A batch has no memory to decide by, and the loader's own rounds are counted
 * apart. In the scope of a process the victim must know whose the memory is.
 */
static __always_inline bool may_skip(struct cpu_state *o, u64 mm)
{
	struct mm_struct *m = (struct mm_struct *)mm;

	if (!config.timed_apart_ns || (config.scope == SCOPE_TREE && !bpf_core_field_exists(m->owner)))
		return false;
	return mm && mm != o->self_mm;
}

/* The verifier lets no program calculate with a pointer, but a word that was in a map is a number. */
static __always_inline u64 number_of(u64 *place, u64 pointer)
{
	*(volatile u64 *)place = pointer;
	return *(volatile u64 *)place;
}

/*
 * Decides by a hash of both, as if by chance: of a program that shoots in a pattern it is not always the same
 * one, and of programs that end after a few not always the same few. (The steps of a multiplicative hash with
 * a fold between; the constants are the golden ratio's and the one of Murmur3's finalizer.)
 */
static __always_inline bool is_untimed(u64 mm, u64 generation, u32 shift)
{
	u64 x = (generation + (mm >> 6)) * 0x9e3779b97f4a7c15ULL;

	if (unlikely(!shift))
		return false;
	x = (x ^ (x >> 32)) * 0xff51afd7ed558ccdULL;
	/* the upper `shift` bits are all 0 once in 1 << shift; MAX_SHIFT fits the mask */
	return x >> (64 - (shift & 7));
}

/* ---- the culprit's side ---------------------------------------------------------------------- */

/* Decides how many of this CPU's rounds are timed from this one on. */
static __always_inline u32 shift_of_round(struct cpu_state *o)
{
	if (unlikely(o->next_shift && (*(volatile u32 *)&o->counting != COUNTING_ALL ||
				       bpf_jiffies64() - o->timed_tick > config.slow_ticks)))
		o->next_shift = 0;
	o->shift = o->next_shift;
	return o->shift;
}

/* Looks, at a round that is timed, how often this CPU shoots, and decides how many of the next rounds are timed. */
static __always_inline void keep_rate(struct cpu_state *o, u64 now)
{
	u32 rounds = o->begun - o->paced_at, shift = 0;
	u64 each, window = (u64)config.timed_apart_ns * PACE_TIMED;

	o->timed_tick = bpf_jiffies64();
	if (window < PACE_NS)
		window = PACE_NS;
	if (rounds < PACE_ROUNDS && now - o->paced_ns < window)
		return;
	/* not by 0: this round is counted in `begun` */
	each = (now - o->paced_ns) / rounds;
	o->paced_at = o->begun;
	o->paced_ns = now;
	while (shift < MAX_SHIFT && each < config.timed_apart_ns >> shift)
		shift++;
	/* a rate between two steps is not to go to and fro */
	if (shift + 1 == o->shift && each * 2 < (u64)(config.timed_apart_ns >> shift) * 3)
		return;
	o->next_shift = shift;
}

/*
 * The flushes that a process in scope asks for and whose memory no process in scope owns: another's, or its own when it ends
 * and the memory has no owner any more. Their victims can't know otherwise that they are in scope.
 */
struct flush_name {
	u64 space; /* address_space_of() */
	u64 generation;
};

DEFINE_LRU_HASH(strange_flushes, struct flush_name, u8, 1024);

/* Enters such a flush before the first request of its round is queued. */
static __always_inline void tell_if_strange(struct round *r, u64 generation)
{
	struct flush_name key = { address_space_of((struct mm_struct *)r->mm), generation };
	u8 one = 1;

	if (config.scope == SCOPE_TREE && r->mode == MODE_IN && !owner_in_scope(r->mm))
		bpf_map_update_elem(&strange_flushes, &key, &one, BPF_ANY);
}

static __always_inline bool is_strange(u64 space, u64 generation)
{
	struct flush_name key = { space, generation };

	return bpf_map_lookup_elem(&strange_flushes, &key);
}

/* Counts an untimed round whose culprit is named: its victims need not be waited for. */
static __always_inline void count_untimed(struct round *r, u32 victims)
{
	struct culprit_tally *tally;

	if (unlikely(r->state != ROUND_NAMED))
		return;
	if (likely(r->mode == MODE_IN)) {
		tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
		if (unlikely(!tally))
			return;
		count_flush(tally, r, victims);
		tally->untimed++;
		return;
	}
	count_self(victims);
}

/* Counts one more victim of a round that is counted already. */
static __always_inline void count_one_more(struct cpu_state *o, struct round *r)
{
	struct culprit_tally *tally;

	if (r->state != ROUND_NAMED)
		return;
	if (r->mode == MODE_SELF) {
		ADD_TO_HEALTH(healths, self_victims, 1);
		return;
	}
	tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	if (tally)
		tally->victims++;
}

/* ---- the victim's side ----------------------------------------------------------------------- */

/* Whether a flush is in scope: a process in scope asked for it, mostly for its own memory, or owns the memory. */
static __always_inline bool memory_in_scope(struct cpu_state *me, struct task_struct *t, u64 mm, u64 space, u64 generation)
{
	u32 gen;

	if (config.scope != SCOPE_TREE)
		return true;
	if ((u64)t->mm != mm)
		return owner_in_scope(mm) || is_strange(space, generation);
	gen = *(volatile u32 *)&state.scope_gen;
	if (me->hit_tgid != (u32)t->tgid || me->hit_gen != gen) {
		if (!tgid_in_scope(t->tgid))
			return is_strange(space, generation);
		me->hit_tgid = t->tgid;
		me->hit_gen = gen;
	}
	return true;
}

/* Counts the thread that an untimed flush interrupts, which only this CPU knows. */
static __always_inline void count_untimed_victim(struct cpu_state *me, u64 mm, u64 space, u64 generation)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct victim_tally *vt;

	if (!memory_in_scope(me, t, mm, space, generation))
		return;
	name_victim(me, t, mm);
	vt = bpf_map_lookup_elem(&victim_tallies, &me->victim);
	if (likely(vt))
		vt->untimed++;
}

#endif
