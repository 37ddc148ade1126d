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
 * from an interrupt (smp.c warns). So a CPU has one round in flight, and one `struct flight` a CPU
 * pairs both sides without a hash. The victim finds it by flush_tlb_info.initiating_cpu.
 *
 * The culprit's own flush comes after all targets are queued, and so closes the round; if it comes
 * and nobody was queued, the flush was an empty send. So tlb_flush, which fires three times a
 * shootdown, is not needed. A CPU that has nothing to flush itself (kswapd, ksmd) closes nothing;
 * another_round() tells its rounds apart.
 *
 * csd_function_exit comes before csd_unlock(), so the culprit waits for the victim's handler: when
 * the next round starts, nobody writes the flight of the last one any more.
 *
 * Nothing here takes a lock but the ring buffer's (interrupts off, no nesting: a raw tracepoint does
 * not recurse on one CPU) and the map's bucket locks for a key that was not seen before. There
 * are no loops but the unrolled search for a bucket, so every program ends.
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
	MODE_LATER, /* counted once a victim turns out to be in scope */
};

/* ---- records ----------------------------------------------------------------------------- */

/* Writes the culprit's record: after the IPI is on its way where that is possible. */
static __always_inline void write_send(struct bpf_raw_tracepoint_args *ctx, struct flight *f, struct own *o, u32 cpu)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct send_record *r;
	s32 kstack = KSTACK_UNNEEDED, ustack = KSTACK_UNNEEDED;
	bool user = !(t->flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING));
	u8 flags = o->send_flags;
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
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		struct health *h = health();

		if (h)
			__sync_fetch_and_add(&h->lost_records, 1);
		return;
	}
	r->kind = RECORD_SEND;
	r->flags = flags;
	r->cpu = cpu;
	r->seq = f->seq;
	r->t_ns = f->t0;
	r->tgid = t->tgid;
	r->tid = t->pid;
	r->start = f->start;
	r->end = f->end;
	r->caller = caller;
	r->kstack = kstack;
	r->ustack = ustack;
	r->culprit = f->culprit;
	/* in MODE_LATER some of them may be out of scope and write no record */
	r->targets = o->open || f->mode != MODE_IN ? 0 : f->targets;
	r->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	/* waking the reader costs an interrupt: it reads on a timer */
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* ---- the culprit ---------------------------------------------------------------------------- */

static __always_inline void count_shootdown(u32 culprit, u64 start, u64 end, u64 victims)
{
	struct culprit_tally *tally = bpf_map_lookup_elem(&culprit_tallies, &culprit);

	if (!tally)
		return;
	tally->shootdowns++;
	tally->victims += victims;
	if (end == ~0ULL)
		tally->full++;
	else
		tally->pages += (end - start) >> 12;
}

/* The first target of a round: who asks, for what, and does it count? */
static __always_inline void begin(struct bpf_raw_tracepoint_args *ctx, struct flight *f, struct own *o, u32 cpu, u32 target,
				  u64 func, struct __call_single_data *csd, u64 now)
{
	struct task_struct *t = bpf_get_current_task_btf();
	u32 tgid = t->tgid;
	struct culprit_key key = {};
	bool kernel = !is_flush(func), need_stack;
	struct flush_tlb_info *info = NULL;
	u64 mm = 0, start = 0, end = ~0ULL;
	u8 flags = 0, mode = MODE_IN;
	struct health *h;

	if (o->due) {
		h = health();
		if (h)
			h->lost_details++;
	}
	o->due = 0;
	o->open = 1;
	o->func = func;
	f->t0 = now;
	f->seq++;
	f->targets = 0;
	o->generation = 0;
	f->first = target;
	f->tgid = tgid;

	if (!kernel || func == config.fn_flush_kernel) {
		info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);
		mm = kernel ? 0 : (u64)info->mm;
		start = info->start;
		end = info->end;
		o->generation = info->new_tlb_gen;
		if (info->freed_tables)
			flags |= SEND_FREED_TABLES;
	}
	f->mm = mm;
	f->start = start;
	f->end = end;

	if (tgid == config.self_tgid) {
		f->mode = MODE_OUT;
		h = health();
		if (h)
			h->self_shootdowns++;
		return;
	}
	if (config.scope == SCOPE_CPUS) {
		mode = MODE_LATER;
	} else if (config.scope == SCOPE_TREE && !culprit_in_scope(o, tgid)) {
		mode = MODE_OUT;
		if (!mm) {
			/* batched by reclaim or migration, or a kernel flush: whom it hits decides */
			mode = MODE_LATER;
		} else if (mm != (u64)t->mm) {
			/* somebody else's address space: ksmd, khugepaged, ptrace, process_madvise */
			struct mm_struct *m = bpf_core_cast((void *)mm, struct mm_struct);

			/* without CONFIG_MEMCG nobody knows the owner */
			if (bpf_core_field_exists(m->owner)) {
				struct task_struct *owner = m->owner;

				if (owner && tgid_in_scope(owner->tgid))
					mode = MODE_IN;
			}
		}
	}
	f->mode = mode;
	if (mode == MODE_OUT)
		return;

	if (kernel) {
		key.tgid = tgid;
		key.nr = NR_KERNEL;
		key.kstack = KSTACK_UNNEEDED;
		need_stack = false;
		flags |= SEND_KERNEL;
	} else {
		need_stack = identify(&key, t, mm);
		if (key.flags & CULPRIT_OWN)
			flags |= SEND_OWN;
		if (!mm)
			flags |= SEND_BATCH;
	}
	if (end == ~0ULL)
		flags |= SEND_FULL;
	if (need_stack)
		key.kstack = kernel_stack(ctx, ((u64 *)&key)[1]);
	if (!o->culprit || ((u64 *)&key)[0] != ((u64 *)&o->key)[0] ||
	    ((u64 *)&key)[1] != ((u64 *)&o->key)[1]) {
		o->culprit = culprit_of(&key);
		o->key = key;
	}
	if (!o->culprit) {
		h = health();
		if (h)
			h->crowded++;
	}
	f->culprit = o->culprit;
	o->send_flags = flags;
	if (mode == MODE_IN)
		count_shootdown(o->culprit, start, end, 1);

	if (config.recording) {
		/*
		 * Unwinding takes as long as the IPI's flight. Where this CPU flushes too, it gets
		 * csd_function_entry(csd = NULL) once the IPI is sent: leave the record to that. It
		 * does where the address space is loaded here, which is sure if it is current's.
		 */
		if (mm && mm == (u64)t->mm)
			o->due = 1;
		else
			write_send(ctx, f, o, cpu);
	}
}

/*
 * Is this target of another round than the one that was not closed? Within a round the targets come
 * in ascending order, and each flush of an address space has a generation of its own. A batch has
 * none: its next round comes when all of the last one are done. One of a batch's targets that ran
 * its handler before the next was queued, some ns later, would make two rounds of one: its queue had
 * to be busy already. Victims are counted right even then.
 */
static __always_inline bool another_round(struct flight *f, struct own *o, u32 target, u64 func,
					  struct __call_single_data *csd)
{
	struct flush_tlb_info *info;
	u64 round;

	if (func != o->func || target <= o->last)
		return true;
	if (is_flush(func)) {
		info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);
		if ((u64)info->mm != f->mm || info->new_tlb_gen != o->generation)
			return true;
		if (f->mm)
			return false;
	}
	round = *(volatile u64 *)&f->round;
	return round >> 32 == f->seq && (u32)round == f->targets;
}

SEC("raw_tp/csd_queue_cpu")
int csd_queue_cpu(struct bpf_raw_tracepoint_args *ctx)
{
	u32 target = ctx->args[0];
	u64 func = ctx->args[2];
	struct __call_single_data *csd;
	struct flight *f;
	struct own *o;
	u32 cpu, cell, *at;
	u64 now;

	if (!is_flush(func) && !is_kernel_flush(func))
		return 0;
	csd = bpf_core_cast((void *)ctx->args[3], struct __call_single_data);
	cpu = bpf_get_smp_processor_id();
	f = flight_of(cpu);
	o = own_of(cpu);
	if (!f || !o || target >= config.ncpu)
		return 0;
	now = bpf_ktime_get_ns();
	if (!o->open || another_round(f, o, target, func, csd)) {
		begin(ctx, f, o, cpu, target, func, csd, now);
	} else if (f->mode == MODE_IN) {
		struct culprit_tally *tally = bpf_map_lookup_elem(&culprit_tallies, &o->culprit);

		if (tally)
			tally->victims++;
	}
	o->last = target;
	if (f->mode == MODE_OUT)
		return 0;
	/* before the target can see the request: what follows in the kernel is a locked llist_add */
	f->targets++;
	if (target != f->first) {
		cell = cpu * config.ncpu + target;
		at = bpf_map_lookup_elem(&queued, &cell);
		if (at)
			*at = now - f->t0;
	}
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

	if (tgid == config.self_tgid || config.scope == SCOPE_CPUS ||
	    (config.scope == SCOPE_TREE && !culprit_in_scope(o, tgid)))
		return;
	h = health();
	if (h)
		h->empty_sends++;
}

/* ---- the victim ------------------------------------------------------------------------------ */

SEC("raw_tp/csd_function_entry")
int csd_function_entry(struct bpf_raw_tracepoint_args *ctx)
{
	u64 func = ctx->args[0], key = ctx->args[1];
	struct flight *f;
	struct own *o;
	u32 cpu, from;

	if (!is_flush(func) && !is_kernel_flush(func))
		return 0;
	cpu = bpf_get_smp_processor_id();
	o = own_of(cpu);
	if (!o)
		return 0;
	if (!key) {
		/* this CPU's own part of a round: its targets are all queued and the IPI is sent */
		if (!o->open && is_flush(func))
			empty_send(o);
		o->open = 0;
		if (config.recording && o->due) {
			o->due = 0;
			f = flight_of(cpu);
			if (f)
				write_send(ctx, f, o, cpu);
		}
		return 0;
	}
	if (is_flush(func)) {
		struct __call_single_data *csd =
			bpf_core_cast((void *)key, struct __call_single_data);
		struct flush_tlb_info *info = bpf_core_cast((void *)csd->info, struct flush_tlb_info);

		from = info->initiating_cpu;
		/* keep the two loads apart: the verifier treats kernel and map memory differently */
		barrier_var(from);
	} else {
		u32 *culprit = bpf_map_lookup_elem(&csd_culprit, &key);

		if (!culprit)
			return 0;
		from = *culprit;
	}
	o->from = from;
	o->t1 = bpf_ktime_get_ns();
	return 0;
}

static __always_inline u32 clamp(u64 ns)
{
	return ns > 0xffffffff ? 0xffffffff : ns;
}

/*
 * Does this victim count? In MODE_LATER the first that does makes the shootdown count; it is
 * tallied on this CPU, which is as good as any.
 */
static __always_inline bool victim_counts(struct flight *from, u32 seq, u32 cpu, u32 tgid)
{
	u32 before;

	if (from->mode != MODE_LATER)
		return true;
	if (config.scope == SCOPE_CPUS) {
		u8 *in = bpf_map_lookup_elem(&scope_cpus, &cpu);

		if (!in || !*in)
			return false;
	} else if (!tgid_in_scope(tgid)) {
		return false;
	}
	before = from->counted_seq;
	if (before != seq && __sync_val_compare_and_swap(&from->counted_seq, before, seq) == before)
		count_shootdown(from->culprit, from->start, from->end, 0);
	return true;
}

/*
 * Marks this victim as done and says how many are. The first of a round takes over from the round
 * before, of which nobody is left: its culprit waited.
 */
static __always_inline u32 done(struct flight *from, u32 seq)
{
	u64 before = from->round;

	if (before >> 32 != seq)
		__sync_val_compare_and_swap(&from->round, before, (u64)seq << 32);
	return (u32)__sync_fetch_and_add(&from->round, 1) + 1;
}

SEC("raw_tp/csd_function_exit")
int csd_function_exit(struct bpf_raw_tracepoint_args *ctx)
{
	u64 func = ctx->args[0], now, delay, stall, wait, mm, t0, t1;
	struct flight *from;
	struct own *me;
	struct culprit_tally *tally;
	struct victim_tally *vt;
	struct hists *hists;
	struct victim_key vkey;
	struct task_struct *t;
	struct health *h;
	u32 cpu, cell, culprit, seq, *at;
	u8 mode;
	bool counts;

	if (!ctx->args[1] || (!is_flush(func) && !is_kernel_flush(func)))
		return 0;
	cpu = bpf_get_smp_processor_id();
	me = own_of(cpu);
	if (!me || !me->t1)
		return 0;
	t1 = me->t1;
	me->t1 = 0;
	now = bpf_ktime_get_ns();
	from = flight_of(me->from);
	if (!from)
		return 0;
	mode = from->mode;
	if (mode == MODE_OUT) {
		if (from->tgid == config.self_tgid) {
			h = health();
			if (h)
				h->self_victims++;
		}
		return 0;
	}
	t = bpf_get_current_task_btf();
	culprit = from->culprit;
	seq = from->seq;
	mm = from->mm;
	t0 = from->t0;
	delay = t1 - t0;
	if (from->first != cpu) {
		cell = me->from * config.ncpu + cpu;
		at = bpf_map_lookup_elem(&queued, &cell);
		if (at)
			delay -= *at;
	}
	/* clocks of two CPUs may be some ns apart */
	if ((s64)delay < 0)
		delay = 0;
	stall = now - t1;

	vkey.tgid = t->tgid;
	/* whose memory a batch is for is not known */
	vkey.bystander = mm && (u64)t->mm != mm;
	counts = victim_counts(from, seq, cpu, vkey.tgid);

	tally = bpf_map_lookup_elem(&culprit_tallies, &culprit);
	hists = hists_of_cpu();
	if (!hists)
		return 0;
	if (tally && counts) {
		if (mode == MODE_LATER)
			tally->victims++;
		tally->delay_ns += delay;
		tally->stall_ns += stall;
		hist_add(&hists->of[HIST_DELAY], delay, 1);
		hist_add(&hists->of[HIST_STALL], stall, 1);
		if (!me->victim || *(u64 *)&me->vkey != *(u64 *)&vkey) {
			me->victim = victim_of(&vkey);
			me->vkey = vkey;
		}
		vt = bpf_map_lookup_elem(&victim_tallies, &me->victim);
		if (vt) {
			vt->hits++;
			vt->stall_ns += stall;
		}
	}

	if (config.recording && counts) {
		struct victim_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

		if (r) {
			r->kind = RECORD_VICTIM;
			r->bystander = vkey.bystander;
			r->cpu = cpu;
			r->culprit_cpu = me->from;
			r->zero = 0;
			r->seq = seq;
			r->tgid = vkey.tgid;
			r->tid = t->pid;
			r->delay_ns = clamp(delay);
			r->stall_ns = clamp(stall);
			r->zero2 = 0;
			r->end_ns = now;
			bpf_get_current_comm(r->comm, sizeof(r->comm));
			/* waking the reader costs an interrupt: it reads on a timer */
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
		} else {
			h = health();
			if (h)
				__sync_fetch_and_add(&h->lost_records, 1);
		}
	}

	/*
	 * The last victim ends the wait. A target that was queued after all others were done (its
	 * queue was not empty, so those before it had no need of an IPI) ends it once more, later:
	 * the difference is added, and the histogram moves the round to its new place.
	 */
	if (done(from, seq) == *(volatile u32 *)&from->targets &&
	    (mode == MODE_IN || from->counted_seq == seq)) {
		u64 before = from->waited_seq == seq ? from->waited : 0;

		wait = now - t0;
		if (tally) {
			tally->wait_ns += wait - before;
			if (before)
				hist_add(&hists->of[HIST_WAIT], before, -1);
			hist_add(&hists->of[HIST_WAIT], wait, 1);
		}
		from->waited = wait;
		from->waited_seq = seq;
	}
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
