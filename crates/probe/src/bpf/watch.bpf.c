// SPDX-License-Identifier: GPL-2.0-only
/*
 * The account of the whole machine for an agent that watches for months: by cgroup, with next to nothing kept of each thread.
 *
 *   CPU time      a sample at each tick of a clock event on each CPU, of which only those in the kernel are sent
 *   blocked time  each sleep that memory management may have made, counted here by cgroup, call and kernel stack
 *
 * Most switches cost a look at the state in which a thread leaves its CPU, and one at a cell of an array for the thread that
 * comes. Only a program's thread that sleeps uninterruptibly (account.bpf.c says why these), or within a page fault, has its
 * stack walked, and that is bounded too: a CPU with more such sleeps than it may walk counts the rest by call alone, and the
 * reader shares these out as the others of that call are. A stack's name is a hash of its addresses, which means the same for
 * as long as the kernel runs: the reader learns it once and takes it out of its map, so that the map never fills up with known
 * stacks.
 *
 * All maps are allocated in advance, for sched_switch runs under the lock of a run queue. The only loop is over the
 * frames of a stack.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "define_map.h"
#include "health.h"
#include "watch.h"
#include "thread.h"
#include "current_call.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct watch_config watch_config SEC(".rodata.watch_config") = {};

DEFINE_RING_BUFFER(watch_samples);

/* [lower bits of the thread's number]: the thread that sleeps */
DEFINE_ARRAY(sleepers, struct sleeper, MAX_SLEEPERS, 0);

DEFINE_HASH(sleeps, struct sleep_key, struct sleep_tally, MAX_SLEEPS, 0);

/* By the stack's name (hash_of()). The reader takes them out as it learns them. */
DEFINE_HASH(sleep_stacks, u64, struct sleep_stack, MAX_SLEEP_STACKS, 0);

/* These values are too large for the stack. Each map is of one program: the timer may interrupt the others, but not itself. */
DEFINE_PER_CPU_ARRAY(sample_scratch, struct watch_sample, 1);
DEFINE_PER_CPU_ARRAY(stack_scratch, struct sleep_stack, 1);

DEFINE_PER_CPU_ARRAY(watch_healths, struct watch_health, 1);

DEFINE_PER_CPU_ARRAY(walks_left, struct walks, 1);

/* The hash that names a stack; it is never 0. */
static __always_inline u64 hash_of(struct sleep_stack *stack)
{
	u64 hash = stack->depth;
	u32 i;

	for (i = 0; i < WATCH_KERNEL_DEPTH; i++) {
		if (i >= stack->depth)
			break;
		hash = (hash ^ stack->frames[i]) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 29;
	}
	return hash | 1;
}

/* The name of the kernel stack that leads here, which the loader can read once; 0 where it can't be walked. */
static __noinline u64 sleep_stack_here(struct bpf_raw_tracepoint_args *ctx)
{
	u32 zero = 0;
	struct sleep_stack *stack = bpf_map_lookup_elem(&stack_scratch, &zero);
	long bytes;
	u64 hash;

	if (!stack)
		return 0;
	bytes = bpf_get_stack(ctx, stack->frames, sizeof(stack->frames), 0);
	if (bytes <= 0)
		return 0;
	stack->depth = bytes / sizeof(u64);
	hash = hash_of(stack);
	if (!bpf_map_lookup_elem(&sleep_stacks, &hash))
		bpf_map_update_elem(&sleep_stacks, &hash, stack, BPF_NOEXIST);
	return hash;
}

/*
 * Whether this CPU may walk one more stack. Once none is left, as many are given out as the time since the last giving is worth,
 * up to WALKS_AT_ONCE. Interrupts are off, so nothing comes between reading and writing.
 */
static __always_inline bool may_walk(u64 now)
{
	u32 zero = 0;
	struct walks *walks = bpf_map_lookup_elem(&walks_left, &zero);
	u64 more;

	if (!walks)
		return false;
	if (!walks->left) {
		more = (now - walks->since) / WALK_EVERY_NS;
		if (!more)
			return false;
		walks->since = now;
		walks->left = more < WALKS_AT_ONCE ? more : WALKS_AT_ONCE;
	}
	walks->left--;
	return true;
}

/*
 * Notes that this thread sleeps, in its cell. Should two threads of one cell fall asleep on two CPUs at the same moment, one of
 * the two sleeps is not counted, and the other may have its call.
 */
static __always_inline void fall_asleep(struct bpf_raw_tracepoint_args *ctx, struct task_struct *t, u32 state)
{
	u32 tid = t->pid, place = tid & (MAX_SLEEPERS - 1);
	struct sleeper *s;
	u64 now;
	s32 nr;

	/* waits of the kernel's own threads are no program's time */
	if (!state || state & (TASK_DEAD | TASK_NOLOAD) || t->flags & (PF_KTHREAD | PF_IO_WORKER))
		return;
	nr = call_of(t);
	if (!(state & TASK_UNINTERRUPTIBLE) && !(nr == NR_FAULT && is_of_a_program(t)))
		return;
	s = bpf_map_lookup_elem(&sleepers, &place);
	if (!s)
		return;
	if (s->tid && s->tid != tid) {
		ADD_TO_HEALTH(watch_healths, lost_sleeps, 1);
		return;
	}
	s->nr = nr;
	s->cgroup = bpf_get_current_cgroup_id();
	now = bpf_ktime_get_ns();
	s->stack = may_walk(now) ? sleep_stack_here(ctx) : 0;
	s->since = now;
	s->tid = tid;
}

/* Counts a sleep that is over. */
static __always_inline void wake_up(struct sleeper *s)
{
	struct sleep_key key = { .cgroup = s->cgroup, .stack = s->stack, .nr = s->nr };
	u64 now = bpf_ktime_get_ns();
	struct sleep_tally *tally = bpf_map_lookup_elem(&sleeps, &key);

	s->tid = 0;
	if (!tally) {
		struct sleep_tally none = {};

		bpf_map_update_elem(&sleeps, &key, &none, BPF_NOEXIST);
		tally = bpf_map_lookup_elem(&sleeps, &key);
	}
	if (!tally) {
		ADD_TO_HEALTH(watch_healths, lost_sleeps, 1);
		return;
	}
	__sync_fetch_and_add(&tally->sleeps, 1);
	__sync_fetch_and_add(&tally->ns, now > s->since ? now - s->since : 0);
}

SEC("raw_tp/sched_switch")
int watch_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = bpf_get_current_task_btf();
	struct task_struct *next = (struct task_struct *)ctx->args[2];
	u32 state, tid, place;
	struct sleeper *s;

	/* pid 0 is the idle task of every CPU; one that is preempted does not sleep */
	if (prev->pid && !ctx->args[0] && prev->tgid != watch_config.self_tgid) {
		if (watch_config.has_prev_state)
			state = (u32)ctx->args[3];
		else
			state = BPF_CORE_READ(prev, __state);
		fall_asleep(ctx, prev, state);
	}
	tid = BPF_CORE_READ(next, pid);
	if (!tid)
		return 0;
	place = tid & (MAX_SLEEPERS - 1);
	s = bpf_map_lookup_elem(&sleepers, &place);
	if (s && s->tid == tid)
		wake_up(s);
	return 0;
}

SEC("perf_event")
int watch_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	u32 zero = 0, kernel, user = 0;
	struct watch_sample *s;
	long bytes;

	if (!t->pid || t->tgid == watch_config.self_tgid)
		return 0;
	s = bpf_map_lookup_elem(&sample_scratch, &zero);
	if (!s)
		return 0;
	/* the stack of the interrupted code, which is empty where that is the program's own: that is no memory management */
	bytes = bpf_get_stack(ctx, s->frames, WATCH_KERNEL_DEPTH * sizeof(u64), 0);
	if (bytes <= 0)
		return 0;
	kernel = bytes / sizeof(u64);
	if (kernel > WATCH_KERNEL_DEPTH)
		kernel = WATCH_KERNEL_DEPTH;
	s->cgroup = bpf_get_current_cgroup_id();
	s->tgid = t->tgid;
	s->nr = call_of(t);
	name_process(s->comm, t);
	if (watch_config.has_code && is_of_a_program(t)) {
		bytes = bpf_get_stack(ctx, &s->frames[kernel], WATCH_USER_DEPTH * sizeof(u64), BPF_F_USER_STACK);
		user = bytes > 0 ? bytes / sizeof(u64) : 0;
		if (user > WATCH_USER_DEPTH)
			user = WATCH_USER_DEPTH;
	}
	s->kernel_frames = kernel;
	s->user_frames = user;
	bytes = __builtin_offsetof(struct watch_sample, frames) + (kernel + user) * sizeof(u64);
	if (bytes > sizeof(*s))
		return 0;
	/* the reader is not woken: it comes by the clock */
	if (bpf_ringbuf_output(&watch_samples, s, bytes, BPF_RB_NO_WAKEUP))
		ADD_TO_HEALTH(watch_healths, lost_samples, 1);
	return 0;
}
