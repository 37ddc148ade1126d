// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pairs culprit and victim of every TLB shootdown, from three raw tracepoints (Linux 6.4 and later).
 *
 * A shootdown is one round of smp_call_function_many_cond() (kernel/smp.c) with a flush function:
 *
 *   culprit: csd_queue_cpu for each target, the IPI, csd_function_entry(csd = NULL), its own flush,
 *            waits
 *   victim:  csd_function_entry, flush, csd_function_exit, releases the csd
 *
 * The culprit has preemption off from the first of these to the end of the wait, and may not shoot
 * from an interrupt (smp.c warns). So a CPU has one round in flight. A victim leaves its times in a
 * slot of the culprit's CPU and its own, which it finds by flush_tlb_info.initiating_cpu: no hash,
 * and no line that all CPUs write.
 *
 * csd_function_exit comes before csd_unlock(), for which the culprit waits: when its next round
 * starts, all times of the last one are in their slots. The culprit's CPU counts them when some
 * rounds have come together, once its IPI is sent and there is nothing to do but wait; see settle().
 *
 * The culprit's own flush comes after all targets are queued, and so closes the round; if it comes
 * and nobody was queued, the flush was an empty send. So tlb_flush, which fires three times a
 * shootdown, is not needed. A CPU that has nothing to flush itself (kswapd, ksmd) closes nothing;
 * another_round() tells its rounds apart.
 *
 * Nothing here takes a lock but the ring buffer's (interrupts off, no nesting: a raw tracepoint does
 * not recurse on one CPU) and the map's bucket locks for a key that was not seen before. Loops have
 * constant bounds, or go once over the targets of a round by bpf_loop(), so every program ends.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "shootdown.h"
#include "maps.h"
#include "hist.h"
#include "who.h"
#include "stack.h"

char LICENSE[] SEC("license") = "GPL";

enum mode {
	MODE_OUT,   /* not in scope */
	MODE_IN,    /* counted from the start */
	MODE_LATER, /* counted if a victim turns out to be in scope */
	MODE_SELF,  /* the loader's own: counted apart */
};

/* ---- records ----------------------------------------------------------------------------- */

/* Only culprits write records, and one CPU has one culprit at a time: no atomic is needed. */
static __always_inline void lost_record(void)
{
	struct health *h = health();

	if (h)
		h->lost_records++;
}

/* Writes the culprit's record: after the IPI is on its way where that is possible. */
static __always_inline void write_send(struct bpf_raw_tracepoint_args *ctx, struct own *o,
				       struct round *r, u32 cpu)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct send_record *s;
	s32 kstack = KSTACK_UNNEEDED, ustack = KSTACK_UNNEEDED;
	bool user = !(t->flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING));
	u8 flags = r->flags;
	u64 caller = 0;

	if (config.stack_every && ++o->sampled >= config.stack_every) {
		o->sampled = 0;
		flags |= SEND_STACKS;
		kstack = o->key.kstack >= 0 ? o->key.kstack : kernel_stack(ctx, ((u64 *)&o->key)[1]);
		if (user) {
			struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);

			ustack = user_stack(ctx);
			if (bpf_probe_read_user(&caller, sizeof(caller), (void *)regs->sp))
				caller = 0;
		}
	}
	s = bpf_ringbuf_reserve(&records, sizeof(*s), 0);
	if (!s) {
		lost_record();
		return;
	}
	s->kind = RECORD_SEND;
	s->flags = flags;
	s->cpu = cpu;
	s->seq = o->current;
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
	s->targets = o->open || r->mode != MODE_IN ? 0 : r->targets;
	s->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(s->comm, sizeof(s->comm));
	/* waking the reader costs an interrupt: it reads on a timer */
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
}

/* ---- settling ------------------------------------------------------------------------------- */

/*
 * A round is settled by its culprit's CPU, while the IPI of a later round is on its way: there is
 * time then. A victim only leaves its times, so that it is not stopped for longer than it must be.
 * Several are settled at once, as most of the cost is to fetch code and lines: those of the hits come
 * from another CPU.
 */

/* Rounds are not left for longer than that. */
#define BATCH_NS 10000000

/* Clocks of two CPUs may be some ns apart. An IPI takes longer, and so does a new round. */
#define SKEW_NS 100

struct settling {
	u32 cpu;
	u32 which; /* round */
	u32 target;
	u32 counted;
	u64 until; /* the next round's start: what comes later is of that */
	u64 end;
};

static __always_inline u32 clamp(u64 ns)
{
	return ns > 0xffffffff ? 0xffffffff : ns;
}

static __always_inline struct round *round_of(struct own *o, u32 which)
{
	return &o->rounds[which & (MAX_DEPTH - 1)];
}

/* When the round after it began: what comes later is of that. */
static __always_inline u64 end_of(struct own *o, u32 which)
{
	return which == o->current ? ~0ULL : round_of(o, which + 1)->t0;
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

static __always_inline void write_victim(struct settling *s, struct round *r, struct hit *hit,
					 u32 target, u32 turn, u64 delay)
{
	u32 cell = hit_cell(s->cpu, target, turn);
	struct hit_thread *thread = bpf_map_lookup_elem(&hit_threads, &cell);
	struct victim_record *v;

	if (!thread)
		return;
	v = bpf_ringbuf_reserve(&records, sizeof(*v), 0);
	if (!v) {
		lost_record();
		return;
	}
	v->kind = RECORD_VICTIM;
	v->bystander = thread->bystander;
	v->cpu = target;
	v->culprit_cpu = s->cpu;
	v->zero = 0;
	v->seq = s->which;
	v->tgid = thread->tgid;
	v->tid = thread->tid;
	v->delay_ns = clamp(delay);
	v->stall_ns = hit->stall_ns;
	v->zero2 = 0;
	v->end_ns = hit->t1 + hit->stall_ns;
	__builtin_memcpy(v->comm, thread->comm, sizeof(v->comm));
	/* waking the reader costs an interrupt: it reads on a timer */
	bpf_ringbuf_submit(v, BPF_RB_NO_WAKEUP);
}

static __always_inline bool is_between(struct hit *hit, u64 from, u64 until)
{
	return hit->t1 + SKEW_NS >= from && hit->t1 < until;
}

static __always_inline bool victim_in_scope(u32 cpu, u32 victim)
{
	struct victim_info *info;
	u8 *in;

	if (config.scope != SCOPE_CPUS) {
		info = bpf_map_lookup_elem(&victim_infos, &victim);
		return info && tgid_in_scope(info->key.tgid);
	}
	in = bpf_map_lookup_elem(&scope_cpus, &cpu);
	return in && *in;
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
	tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	if (tally) {
		tally->delay_ns += delay;
		tally->stall_ns += stall;
		hist_add(&hists->of[HIST_DELAY], delay);
		hist_add(&hists->of[HIST_STALL], stall);
	}
	victim = hit->victim;
	vt = bpf_map_lookup_elem(&victim_tallies, &victim);
	if (vt) {
		vt->hits++;
		vt->stall_ns += stall;
	}
	if (config.recording)
		write_victim(s, r, hit, target, turn, delay);
	return 0;
}

/* Not static: verified once, and not once for every way that leads here. */
__noinline int settle(u32 cpu, u32 which)
{
	struct settling s = {};
	struct culprit_tally *tally;
	struct health *h = health();
	struct hists *hists;
	struct round *r;
	struct own *o;
	u64 wait;

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
	s.cpu = cpu;
	s.which = which;
	s.target = r->first;
	s.until = end_of(o, which);
	bpf_loop(r->targets, settle_target, &s, 0);
	if (r->mode == MODE_IN)
		s.counted = r->targets;
	if (!s.counted)
		return 0;
	tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	hists = hists_of_cpu();
	if (!tally || !hists)
		return 0;
	tally->shootdowns++;
	tally->victims += s.counted;
	if (r->end == ~0ULL)
		tally->full++;
	else
		tally->pages += (r->end - r->start) >> 12;
	/* the last victim ends the wait; if none was seen, its length is not known */
	if (s.end) {
		wait = s.end > r->t0 ? s.end - r->t0 : 0;
		tally->wait_ns += wait;
		hist_add(&hists->of[HIST_WAIT], wait);
	}
	return 0;
}

/*
 * Settles a round of one target as settle() would, in one go. Left to that: a round of more, and one
 * whose hit does not lie where it is first looked for.
 */
__noinline int settle_quickly(u32 cpu, u32 which)
{
	struct own *o = own_of(cpu);
	struct hists *hists = hists_of_cpu();
	u64 t0, t1, t2, delay, stall, wait;
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
	tally = bpf_map_lookup_elem(&culprit_tallies, &r->culprit);
	vt = bpf_map_lookup_elem(&victim_tallies, &victim);
	if (!tally || !vt || !__sync_lock_test_and_set(&r->unsettled, 0))
		return 0;
	t->turn++;
	t0 = r->t0;
	t1 = hit->t1;
	stall = hit->stall_ns;
	t2 = t1 + stall;
	delay = t1 > t0 ? t1 - t0 : 0;
	wait = t2 > t0 ? t2 - t0 : 0;
	tally->shootdowns++;
	tally->victims++;
	if (r->end == ~0ULL)
		tally->full++;
	else
		tally->pages += (r->end - r->start) >> 12;
	tally->wait_ns += wait;
	tally->delay_ns += delay;
	tally->stall_ns += stall;
	vt->hits++;
	vt->stall_ns += stall;
	hist_add(&hists->of[HIST_WAIT], wait);
	hist_add(&hists->of[HIST_DELAY], delay);
	hist_add(&hists->of[HIST_STALL], stall);
	return 1;
}

/* All rounds of this CPU before that one. */
__noinline int settle_before(u32 cpu, u32 which)
{
	struct own *o = own_of(cpu);
	u32 i;

	if (!o)
		return 0;
	for (i = 0; i < MAX_DEPTH && o->first != which; i++) {
		if (!settle_quickly(cpu, o->first))
			settle(cpu, o->first);
		o->first++;
	}
	o->first = which;
	o->many_before = 0;
	return 0;
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

/* Are all targets of a round done that were queued so far? */
__noinline int all_done(u32 cpu, u32 which)
{
	struct own *o = own_of(cpu);
	struct settling s = {};
	struct round *r;

	if (!o)
		return 0;
	r = round_of(o, which);
	s.cpu = cpu;
	s.which = which;
	s.target = r->first;
	s.until = end_of(o, which);
	bpf_loop(r->targets, see_target, &s, 0);
	return s.counted == r->targets;
}

/*
 * For the loader to run, which the kernel does with preemption off (bpf_prog_test_run_raw_tp() in
 * net/bpf/test_run.c): settles what a CPU left that has been quiet for so many ns. With 0 nothing is
 * attached any more, and all is settled.
 *
 * A CPU that wakes meanwhile finds the round settled, or settles it itself: that is decided by one
 * exchange. It writes there again many rounds later. Should it be still queueing targets, after all
 * that time, is_settled() makes another round of the rest.
 */
SEC("raw_tp/settle_rest")
int settle_rest(struct bpf_raw_tracepoint_args *ctx)
{
	u32 cpu = ctx->args[0], which, i;
	u64 quiet = ctx->args[1];
	struct own *o = own_of(cpu);

	if (!o)
		return 0;
	if (quiet && round_of(o, o->current)->t0 + quiet > bpf_ktime_get_ns())
		return 0;
	which = o->current - (MAX_DEPTH - 1);
	for (i = 0; i < MAX_DEPTH; i++, which++) {
		if (!round_of(o, which)->unsettled)
			continue;
		if (!quiet || all_done(cpu, which))
			settle(cpu, which);
	}
	return 0;
}

/* ---- the culprit ---------------------------------------------------------------------------- */

static __always_inline u8 mode_of(struct own *o, struct task_struct *t, u64 mm)
{
	u32 tgid = t->tgid;
	struct mm_struct *m;

	if (tgid == config.self_tgid)
		return MODE_SELF;
	if (config.scope == SCOPE_ALL)
		return MODE_IN;
	if (config.scope == SCOPE_CPUS)
		return MODE_LATER;
	if (culprit_in_scope(o, tgid))
		return MODE_IN;
	/* batched by reclaim or migration, or a kernel flush: whom it hits decides */
	if (!mm)
		return MODE_LATER;
	if (mm == (u64)t->mm)
		return MODE_OUT;
	/* somebody else's address space: ksmd, khugepaged, ptrace, process_madvise */
	m = bpf_core_cast((void *)mm, struct mm_struct);
	/* without CONFIG_MEMCG nobody knows the owner */
	if (bpf_core_field_exists(m->owner)) {
		struct task_struct *owner = m->owner;

		if (owner && tgid_in_scope(owner->tgid))
			return MODE_IN;
	}
	return MODE_OUT;
}

/*
 * Is it the call that this CPU named last, as all shootdowns of a loop are? Asked of a thread that
 * flushes its own address space.
 */
static __always_inline bool is_same_call(struct own *o, struct task_struct *t)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);

	return o->same && o->key.tgid == (u32)t->tgid && o->call == regs->orig_ax &&
	       o->advice == advice_of(regs) && !(t->flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING)) &&
	       !(t->thread_info.status & TS_COMPAT);
}

/* Who asked for the round, and does it count? */
static __noinline void name(struct bpf_raw_tracepoint_args *ctx, struct own *o, struct round *r)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct culprit_key key = {};
	bool need_stack = false;

	r->mode = mode_of(o, t, r->mm);
	if (r->mode == MODE_OUT)
		return;
	r->unsettled = 1;
	if (r->mode == MODE_SELF)
		return;
	if (r->mm && r->mm == (u64)t->mm && is_same_call(o, t)) {
		r->flags |= SEND_OWN;
		r->culprit = o->culprit;
		return;
	}
	o->same = 0;
	if (r->flags & SEND_KERNEL) {
		key.tgid = t->tgid;
		key.nr = NR_KERNEL;
		key.kstack = KSTACK_UNNEEDED;
	} else {
		need_stack = identify(&key, t, r->mm);
		if (key.flags & CULPRIT_OWN)
			r->flags |= SEND_OWN;
		if (!need_stack && key.flags == CULPRIT_OWN) {
			struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);

			o->call = regs->orig_ax;
			o->advice = advice_of(regs);
			o->same = 1;
		}
	}
	if (need_stack)
		key.kstack = kernel_stack(ctx, ((u64 *)&key)[1]);
	if (!o->culprit || ((u64 *)&key)[0] != ((u64 *)&o->key)[0] ||
	    ((u64 *)&key)[1] != ((u64 *)&o->key)[1]) {
		o->culprit = culprit_of(&key);
		o->key = key;
	}
	if (!o->culprit) {
		struct health *h = health();

		o->same = 0;
		if (h)
			h->crowded++;
	}
	r->culprit = o->culprit;
}

/* A round that nobody named: where all count, it does so without a name. */
static __always_inline void unnamed(struct own *o, struct round *r)
{
	struct health *h = health();

	o->due = 0;
	if (h)
		h->lost_details++;
	if (config.scope != SCOPE_ALL)
		return;
	r->mode = MODE_IN;
	r->culprit = 0;
	r->unsettled = 1;
}

/* The first target of a round. */
static __always_inline void begin(struct bpf_raw_tracepoint_args *ctx, struct own *o, u32 cpu,
				  u32 target, u64 func, struct __call_single_data *csd, u64 now)
{
	struct task_struct *t = bpf_get_current_task_btf();
	bool kernel = !is_flush(func);
	u64 mm = 0, start = 0, end = ~0ULL, generation = 0;
	struct round *r = round_of(o, o->current);
	struct flush_tlb_info *info;
	u8 flags = kernel ? SEND_KERNEL : 0;

	if (o->due)
		unnamed(o, r);
	/* seldom: only where rounds end without a part of this CPU */
	if (o->many_before || o->current - o->first + 1 >= config.depth) {
		settle_before(cpu, o->current + 1);
		o->many = 0;
		now = bpf_ktime_get_ns();
	}
	o->many_before = o->many;
	o->many = 0;
	r = round_of(o, o->current + 1);
	r->t0 = now;
	/* the loader takes the next round's start for the end of this one */
	barrier();
	o->current++;
	if (!kernel || func == config.fn_flush_kernel) {
		info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);
		mm = kernel ? 0 : (u64)info->mm;
		start = info->start;
		end = info->end;
		generation = info->new_tlb_gen;
		if (info->freed_tables)
			flags |= SEND_FREED_TABLES;
		if (!kernel && !mm)
			flags |= SEND_BATCH;
	}
	if (end == ~0ULL)
		flags |= SEND_FULL;
	o->open = 1;
	o->func = func;
	o->generation = generation;
	o->thread = (u64)t;
	r->mm = mm;
	r->start = start;
	r->end = end;
	r->targets = 0;
	r->first = target;
	r->flags = flags;

	/*
	 * Naming, and unwinding still more, takes as long as the IPI's flight. Where this CPU flushes
	 * too, it gets csd_function_entry(csd = NULL) once the IPI is sent: leave it to that. It does
	 * where the address space is loaded here, which is sure if it is current's.
	 */
	if (mm && mm == (u64)t->mm) {
		o->due = 1;
		return;
	}
	name(ctx, o, r);
	if (config.recording && (r->mode == MODE_IN || r->mode == MODE_LATER)) {
		/* the records of one CPU come in the order of its rounds */
		settle_before(cpu, o->current);
		write_send(ctx, o, r, cpu);
	}
	/* the request itself is only queued now: what this took is not part of the delay */
	r->t0 = bpf_ktime_get_ns();
}

/*
 * Is this target of another round than the one that was not closed? Within a round the targets come
 * in ascending order, and each flush of an address space has a generation of its own. A flush of the
 * kernel's own mappings is for all CPUs, and so always closed (on_each_cpu()). A batch has nothing to
 * tell: mostly its interrupts go out after the last target is queued, so if all are done, it is over.
 */
static __always_inline bool another_round(struct own *o, struct round *r, u32 cpu, u32 target,
					  u64 func, struct __call_single_data *csd)
{
	struct flush_tlb_info *info;

	if (func != o->func || target <= o->last || o->thread != (u64)bpf_get_current_task_btf())
		return true;
	if (!is_flush(func))
		return false;
	info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);
	if ((u64)info->mm != r->mm || info->new_tlb_gen != o->generation)
		return true;
	if (r->mm)
		return false;
	return all_done(cpu, o->current);
}

/* The loader was here: whatever comes now is a round of its own. */
static __always_inline bool is_settled(struct own *o, struct round *r)
{
	return !o->due && !r->unsettled && r->mode != MODE_OUT;
}

SEC("raw_tp/csd_queue_cpu")
int csd_queue_cpu(struct bpf_raw_tracepoint_args *ctx)
{
	u32 target = ctx->args[0];
	u64 func = ctx->args[2];
	struct __call_single_data *csd;
	struct target *t;
	struct round *r;
	struct own *o;
	u32 cpu;
	u64 now;

	if (!is_flush(func) && !is_kernel_flush(func))
		return 0;
	csd = bpf_core_cast((void *)ctx->args[3], struct __call_single_data);
	cpu = bpf_get_smp_processor_id();
	o = own_of(cpu);
	if (!o || target >= config.ncpu)
		return 0;
	now = bpf_ktime_get_ns();
	r = round_of(o, o->current);
	if (!o->open || is_settled(o, r) || another_round(o, r, cpu, target, func, csd)) {
		begin(ctx, o, cpu, target, func, csd, now);
		r = round_of(o, o->current);
	} else {
		t = target_of(cpu, o->last);
		if (t)
			t->next[o->current & 1] = target;
		t = target_of(cpu, target);
		if (t)
			t->after[o->current & 1] = now - r->t0;
		o->many = 1;
	}
	o->last = target;
	r->targets++;
	if (!is_flush(func)) {
		u64 key = (u64)csd;
		u32 *known = bpf_map_lookup_elem(&csd_culprit, &key);

		if (!known || *known != cpu)
			bpf_map_update_elem(&csd_culprit, &key, &cpu, BPF_ANY);
	}
	return 0;
}

/* A flush that would have interrupted others, had any CPU run with that memory. */
static __always_inline void empty_send(struct own *o)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct health *h;

	/* while csd_queue_cpu is not attached, every flush looks empty */
	if (!*(volatile u32 *)&counting)
		return;
	if (tgid == config.self_tgid || config.scope == SCOPE_CPUS ||
	    (config.scope == SCOPE_TREE && !culprit_in_scope(o, tgid)))
		return;
	h = health();
	if (h)
		h->empty_sends++;
}

/* This CPU's own part of a round: its targets are all queued and the IPI is sent. */
static __always_inline void end_round(struct bpf_raw_tracepoint_args *ctx, struct own *o, u64 func,
				      u32 cpu)
{
	struct round *r = round_of(o, o->current);

	/* an open round of another thread was one without such a part, and is over */
	if (!o->open || o->thread != (u64)bpf_get_current_task_btf()) {
		o->open = 0;
		if (is_flush(func))
			empty_send(o);
		return;
	}
	o->open = 0;
	if (o->many_before || o->current - o->first >= config.depth - 1 ||
	    r->t0 - round_of(o, o->first)->t0 > BATCH_NS)
		settle_before(cpu, o->current);
	if (!o->due)
		return;
	o->due = 0;
	name(ctx, o, r);
	if (config.recording && (r->mode == MODE_IN || r->mode == MODE_LATER))
		write_send(ctx, o, r, cpu);
}

/* ---- the victim ------------------------------------------------------------------------------ */

SEC("raw_tp/csd_function_entry")
int csd_function_entry(struct bpf_raw_tracepoint_args *ctx)
{
	u64 func = ctx->args[0], key = ctx->args[1];
	u32 cpu, from, cell, *turn;
	struct own *o;

	if (!is_flush(func) && !is_kernel_flush(func))
		return 0;
	cpu = bpf_get_smp_processor_id();
	o = own_of(cpu);
	if (!o)
		return 0;
	if (!key) {
		end_round(ctx, o, func, cpu);
		return 0;
	}
	if (is_flush(func)) {
		struct __call_single_data *csd =
			bpf_core_cast((void *)key, struct __call_single_data);
		struct flush_tlb_info *info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);

		o->mm = (u64)info->mm;
		from = info->initiating_cpu;
		/* keep the two loads apart: the verifier treats kernel and map memory differently */
		barrier_var(from);
	} else {
		u32 *culprit = bpf_map_lookup_elem(&csd_culprit, &key);

		if (!culprit)
			return 0;
		from = *culprit;
		o->mm = 0;
	}
	cell = cpu * config.row + from;
	turn = bpf_map_lookup_elem(&turns, &cell);
	if (!turn || from >= config.ncpu)
		return 0;
	o->slot = (*turn)++;
	o->from = from;
	o->t1 = bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/csd_function_exit")
int csd_function_exit(struct bpf_raw_tracepoint_args *ctx)
{
	u64 func = ctx->args[0], now, mm;
	struct victim_key vkey;
	struct task_struct *t;
	struct hit *hit;
	struct own *me;
	u32 cpu;

	if (!ctx->args[1] || (!is_flush(func) && !is_kernel_flush(func)))
		return 0;
	cpu = bpf_get_smp_processor_id();
	me = own_of(cpu);
	if (!me || !me->t1)
		return 0;
	hit = hit_of(me->from, cpu, me->slot);
	if (!hit)
		return 0;
	now = bpf_ktime_get_ns();
	t = bpf_get_current_task_btf();
	/* whose memory a batch is for is not known */
	mm = me->mm;
	vkey.tgid = t->tgid;
	vkey.bystander = mm && (u64)t->mm != mm;
	if (!me->victim || *(u64 *)&me->vkey != *(u64 *)&vkey) {
		me->victim = victim_of(&vkey);
		me->vkey = vkey;
	}
	hit->stall_ns = clamp(now - me->t1);
	hit->victim = me->victim;
	if (config.recording) {
		u32 cell = hit_cell(me->from, cpu, me->slot);
		struct hit_thread *thread = bpf_map_lookup_elem(&hit_threads, &cell);

		if (thread) {
			thread->tgid = vkey.tgid;
			thread->tid = t->pid;
			thread->bystander = vkey.bystander;
			bpf_get_current_comm(thread->comm, sizeof(thread->comm));
		}
	}
	/* last: with it the hit is there; x86 keeps the order of stores */
	barrier();
	hit->t1 = me->t1;
	me->t1 = 0;
	return 0;
}

/* ---- scope ---------------------------------------------------------------------------------- */

/* A child of a process in scope is in scope. Threads share the tgid and need nothing. */
SEC("raw_tp/sched_process_fork")
int sched_process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = bpf_core_cast((void *)ctx->args[0], struct task_struct);
	struct task_struct *child = bpf_core_cast((void *)ctx->args[1], struct task_struct);
	u32 from = parent->tgid, to = child->tgid;
	u8 one = 1;

	if (from == to || !tgid_in_scope(from))
		return 0;
	bpf_map_update_elem(&scope_tgids, &to, &one, BPF_ANY);
	__sync_fetch_and_add(&state.scope_gen, 1);
	return 0;
}

/* A number may be given to a stranger once its process is gone. */
SEC("raw_tp/sched_process_free")
int sched_process_free(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *t = bpf_core_cast((void *)ctx->args[0], struct task_struct);
	u32 tgid = t->tgid;

	if ((u32)t->pid != tgid || bpf_map_delete_elem(&scope_tgids, &tgid))
		return 0;
	__sync_fetch_and_add(&state.scope_gen, 1);
	return 0;
}
