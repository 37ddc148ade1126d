// SPDX-License-Identifier: GPL-2.0-only
/*
 * The account: where the time of threads in scope goes. Loaded beside shootdown.bpf.c, with maps of its own but for
 * the processes and CPUs in scope.
 *
 *   CPU time      a sample at each tick of a clock event on each CPU, with both stacks
 *   blocked time  each sleep, from leaving the CPU until running again, of which the kernel stack may say that memory
 *                 management made the thread sleep
 *   clocks        each thread's time by state: exact, from switch to switch
 *
 * The timer of the samples is an interrupt, so that code with interrupts off is sampled as they go on again: a
 * critical section at the instruction that ends it, which is in the same function or its caller; the handler of a
 * shootdown at the interrupted instruction, which is why its time is counted by hits and not by samples.
 *
 * A sleep is looked at more closely where a stack can say something. Memory management sleeps uninterruptibly
 * (TASK_UNINTERRUPTIBLE, of which TASK_KILLABLE is one) with one exception, the fault that userfaultfd hands to
 * another thread, and that is within a page fault. So a thread that sleeps interruptibly in a system call, as those
 * that wait for work do, costs no stack.
 *
 * The user stack of a sample is taken where the kernel was interrupted: the program's own code is no memory management.
 *
 * There is no loop here but the copying of a name and of pieces of a stack, which are bounded. Maps are allocated in advance:
 * sched_switch runs under the lock of a run queue, where nothing may be allocated that could wake the kernel's own threads.
 * Hash maps take their bucket's lock with interrupts off, and refuse rather than wait on the CPU that holds it
 * (kernel/bpf/hashtab.c). The ring refuses when it is full, or when its lock is taken in an NMI: counted as lost. It never
 * wakes its reader, which comes by the clock: a wake-up here would be one by the scheduler of itself.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "define_map.h"
#include "health.h"
#include "account.h"
#include "thread.h"
#include "current_call.h"
#include "in_scope.h"
#include "pieces.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct account_config account_config SEC(".rodata.account_config") = {};

/* The clock of each thread, by its number. */
DEFINE_HASH(clocks, u32, struct clock, MAX_THREAD_CLOCKS, 0);

DEFINE_STACK_TABLE(wait_stacks, MAX_WAIT_STACKS, STACK_DEPTH);
DEFINE_RING_BUFFER(account_records);

/*
 * These values are too large for the stack. sample_scratch is of one program, which does not interrupt itself. clock_scratch is
 * filled with interrupts off by sched_switch, and for the current thread by the others: if the timer interrupts one of these, it
 * fills in the clock of the same thread.
 */
DEFINE_PER_CPU_ARRAY(sample_scratch, struct account_sample, 1);
DEFINE_PER_CPU_ARRAY(clock_scratch, struct clock, 1);

DEFINE_PER_CPU_ARRAY(account_healths, struct account_health, 1);

static __always_inline bool is_counted(u32 tgid)
{
	if (tgid == account_config.self_tgid)
		return false;
	if (account_config.scope == SCOPE_TREE)
		return tgid_in_scope(tgid);
	if (account_config.scope == SCOPE_CPUS)
		return cpu_in_scope(bpf_get_smp_processor_id());
	return true;
}

/* One more than the advice that a call gives, because 0 is an advice too; 0 for any other call. */
static __always_inline u32 advice_of(struct task_struct *t, s32 nr)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);

	if (nr == NR_MADVISE)
		return (u32)regs->dx + 1;
	return nr == NR_PROCESS_MADVISE ? (u32)regs->r10 + 1 : 0;
}

/*
 * The clock of a thread, begun on first sight: one that was there before the programs has been in this state since
 * then, for a change of it would have been seen.
 */
static __noinline struct clock *clock_of(u32 tid, u32 tgid, u64 born, u64 exec, u32 state)
{
	struct clock *c = bpf_map_lookup_elem(&clocks, &tid);
	u32 zero = 0;

	if (c)
		return c;
	c = bpf_map_lookup_elem(&clock_scratch, &zero);
	if (!c)
		return NULL;
	__builtin_memset(c, 0, sizeof(*c));
	c->since = born > account_config.began_ns ? born : account_config.began_ns;
	c->state = state;
	c->tgid = tgid;
	c->exec_last = exec;
	c->exec_first = exec;
	if (state == THREAD_RUNS) {
		u64 now = bpf_ktime_get_ns(), elapsed = now > c->since ? now - c->since : 0;

		/* all of that time it had the CPU, or nearly so */
		c->exec_first -= elapsed < exec ? elapsed : exec;
	}
	bpf_map_update_elem(&clocks, &tid, c, BPF_NOEXIST);
	c = bpf_map_lookup_elem(&clocks, &tid);
	if (!c)
		ADD_TO_HEALTH(account_healths, lost_threads, 1);
	return c;
}

/*
 * Counts the time since the last change, and returns it. No two CPUs do so for one thread at once: another CPU runs a thread
 * only when on_cpu is 0 (finish_task() and try_to_wake_up() in kernel/sched/core.c), which comes after sched_switch.
 */
static __always_inline u64 change_state(struct clock *c, u32 state, u64 now)
{
	u64 ns = now > c->since ? now - c->since : 0;

	/* the state is always one of them, but the verifier does not know */
	c->sums[c->state < THREAD_STATES ? c->state : 0] += ns;
	c->state = state;
	c->since = now;
	return ns;
}

static __always_inline s32 wait_stack(void *ctx, u64 flags)
{
	s32 id = bpf_get_stackid(ctx, &wait_stacks, flags);

	if (id < 0)
		ADD_TO_HEALTH(account_healths, lost_stacks, 1);
	return id;
}

static __always_inline void leave_cpu(void *ctx, struct task_struct *t, u32 state, u64 now)
{
	u64 exec = t->se.sum_exec_runtime;
	struct clock *c = clock_of(t->pid, t->tgid, t->start_time, exec, THREAD_RUNS);
	s32 nr;

	if (!c)
		return;
	change_state(c, state ? THREAD_SLEEPS : THREAD_READY, now);
	c->exec_last = exec;
	c->is_candidate = false;
	if (state & TASK_DEAD) {
		struct account_thread end = {
			.kind = ACCOUNT_THREAD,
			.tgid = t->tgid,
			.tid = t->pid,
			.sums = { c->sums[0], c->sums[1], c->sums[2] },
			.run_ns = exec - c->exec_first,
		};
		u32 tid = t->pid;

		if (bpf_ringbuf_output(&account_records, &end, sizeof(end), BPF_RB_NO_WAKEUP))
			ADD_TO_HEALTH(account_healths, lost_threads, 1);
		bpf_map_delete_elem(&clocks, &tid);
		return;
	}
	if (!state)
		return;
	nr = call_of(t);
	if (!(state & TASK_UNINTERRUPTIBLE) && !(nr == NR_FAULT && is_of_a_program(t)))
		return;
	/* a kernel thread that waits for work sleeps uninterruptibly too, but counts as no load (TASK_IDLE) */
	if (state & TASK_NOLOAD)
		return;
	c->is_candidate = true;
	c->nr = nr;
	c->advice = advice_of(t, nr);
	c->kstack = wait_stack(ctx, 0);
	c->ustack = -1;
	c->caller = 0;
	if (is_of_a_program(t)) {
		c->ustack = account_config.unwinds ? stack_in_pieces(ctx, t, 0, true) : 0;
		if (c->ustack <= 0) {
			c->ustack = bpf_get_stackid(ctx, &wait_stacks, BPF_F_USER_STACK);
			c->caller = top_of_stack(t);
		}
	}
}

static __always_inline void come_to_cpu(struct task_struct *t, u32 tid, u32 tgid, u64 now)
{
	struct clock *c = bpf_map_lookup_elem(&clocks, &tid);
	struct account_wait *w;
	u64 ns;

	/* the first values of a new clock are read only here, because each reading takes as long as the rest */
	if (!c)
		c = clock_of(tid, tgid, BPF_CORE_READ(t, start_time), BPF_CORE_READ(t, se.sum_exec_runtime),
			     THREAD_SLEEPS);
	if (!c)
		return;
	ns = change_state(c, THREAD_RUNS, now);
	if (!c->is_candidate)
		return;
	c->is_candidate = false;
	w = bpf_ringbuf_reserve(&account_records, sizeof(*w), 0);
	if (!w) {
		ADD_TO_HEALTH(account_healths, lost_waits, 1);
		ADD_TO_HEALTH(account_healths, lost_wait_ns, ns);
		return;
	}
	w->kind = ACCOUNT_WAIT;
	w->tgid = tgid;
	w->tid = tid;
	w->nr = c->nr;
	w->end_ns = now;
	w->ns = ns;
	w->kstack = c->kstack;
	w->ustack = c->ustack;
	w->flags = c->lock ? c->flags : 0;
	w->advice = c->advice;
	w->caller = c->caller;
	BPF_CORE_READ_INTO(&w->comm, t, group_leader, comm);
	BPF_CORE_READ_INTO(&w->thread, t, comm);
	__builtin_memcpy(&w->holder, &c->holder, sizeof(w->holder));
	if (!c->lock)
		__builtin_memset(&w->holder, 0, sizeof(w->holder));
	bpf_ringbuf_submit(w, BPF_RB_NO_WAKEUP);
}

SEC("raw_tp/sched_switch")
int account_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = bpf_get_current_task_btf();
	struct task_struct *next = (struct task_struct *)ctx->args[2];
	bool preempted = ctx->args[0];
	u32 state, tid, tgid;
	u64 now = bpf_ktime_get_ns();

	/* pid 0 is the idle task of every CPU */
	if (prev->pid && is_counted(prev->tgid)) {
		if (preempted)
			state = 0;
		else if (account_config.has_prev_state)
			state = (u32)ctx->args[3];
		else
			state = BPF_CORE_READ(prev, __state);
		leave_cpu(ctx, prev, state, now);
	}
	tid = BPF_CORE_READ(next, pid);
	if (!tid)
		return 0;
	tgid = BPF_CORE_READ(next, tgid);
	if (is_counted(tgid))
		come_to_cpu(next, tid, tgid, now);
	return 0;
}

/* Writes the last two parts of the path of this thread's open file; nothing where they can't be read. */
static __always_inline void name_file(struct holder *h, struct task_struct *t, u64 fd)
{
	struct fdtable *table = BPF_CORE_READ(t, files, fdt);
	struct file **files, *f = NULL;
	struct dentry *d;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&f, sizeof(f), &files[fd]);
	d = BPF_CORE_READ(f, f_path.dentry);
	bpf_probe_read_kernel_str(h->file, sizeof(h->file), BPF_CORE_READ(d, d_name.name));
	bpf_probe_read_kernel_str(h->folder, sizeof(h->folder), BPF_CORE_READ(d, d_parent, d_name.name));
}

/* read, write, pread64, pwrite64, readv, writev */
static __always_inline bool is_of_a_file(s32 nr)
{
	return nr == 0 || nr == 1 || nr == 17 || nr == 18 || nr == 19 || nr == 20;
}

/*
 * The thread that waits at the head of the queue to have the lock alone. Where others read, one more reader has to wait
 * because of that thread.
 */
static __always_inline struct task_struct *first_writer(struct rw_semaphore *lock)
{
	struct rwsem_waiter *first;

	if (!bpf_core_type_exists(struct rwsem_waiter) || !bpf_core_field_exists(lock->wait_list))
		return NULL;
	/* the list is the first member, and of an empty one the next is the head itself */
	first = (struct rwsem_waiter *)BPF_CORE_READ(lock, wait_list.next);
	if ((void *)first == (void *)&lock->wait_list)
		return NULL;
	if (BPF_CORE_READ(first, type) != bpf_core_enum_value(enum rwsem_waiter_type, RWSEM_WAITING_FOR_WRITE))
		return NULL;
	return BPF_CORE_READ(first, task);
}

/*
 * Finds the thread that holds the lock, and its call. A writer stands in the lock while it has it; of readers, the last one
 * that came does, which may have gone while others stay (kernel/locking/rwsem.c: rwsem_set_reader_owned()).
 */
static __always_inline void find_holder(struct clock *c, struct rw_semaphore *lock, struct task_struct *current)
{
	/*
	 * Its lowest bits are flags (RWSEM_OWNER_FLAGS_MASK in rwsem.c), and a task_struct is aligned to more. The thread may
	 * end meanwhile: what is read of it is wrong or 0 then, but no read faults (bpf_probe_read_kernel()).
	 */
	long owner = BPF_CORE_READ(lock, owner.counter);
	struct task_struct *t = (struct task_struct *)(owner & ~7L);
	struct holder *h = &c->holder;
	struct pt_regs *regs;
	u64 regs_at;

	__builtin_memset(h, 0, sizeof(*h));
	if (owner & RWSEM_READER_OWNED || !t) {
		struct task_struct *writer = c->flags & WAIT_TO_WRITE ? NULL : first_writer(lock);

		if (writer) {
			c->flags |= WAIT_QUEUED;
			t = writer;
		} else if (t) {
			c->flags |= WAIT_READERS;
		}
	}
	if (!t)
		return;
	h->tgid = BPF_CORE_READ(t, tgid);
	h->tid = BPF_CORE_READ(t, pid);
	BPF_CORE_READ_INTO(&h->comm, t, group_leader, comm);
	if (BPF_CORE_READ(t, flags) & (PF_KTHREAD | PF_IO_WORKER)) {
		h->nr = NR_KTHREAD;
		return;
	}
	/*
	 * Registers lie as far from where the stack begins for every thread (task_pt_regs()). Both addresses go through
	 * memory, because the verifier of Linux 6.1 lets no program subtract pointers.
	 */
	*(volatile u64 *)&h->args[0] = bpf_task_pt_regs(current);
	*(volatile u64 *)&h->args[1] = (u64)current->stack;
	regs_at = *(volatile u64 *)&h->args[0] - *(volatile u64 *)&h->args[1];
	regs = (struct pt_regs *)((u64)BPF_CORE_READ(t, stack) + regs_at);
	h->nr = BPF_CORE_READ(regs, orig_ax);
	h->args[0] = BPF_CORE_READ(regs, di);
	h->args[1] = BPF_CORE_READ(regs, si);
	h->args[2] = BPF_CORE_READ(regs, dx);
	if (h->nr < 0)
		h->nr = NR_FAULT;
	else if (is_of_a_file(h->nr))
		name_file(h, t, h->args[0]);
}

/* Looks only at sleeping locks with readers and writers, of which an address space's is one: they name their holder. */
SEC("raw_tp/contention_begin")
int account_contention_begin(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct rw_semaphore *lock = (struct rw_semaphore *)ctx->args[0];
	u32 flags = (u32)ctx->args[1];
	struct clock *c;

	if ((flags & (LCB_F_SPIN | LCB_F_PERCPU)) || !(flags & (LCB_F_READ | LCB_F_WRITE)))
		return 0;
	if (!t->pid || !is_counted(t->tgid))
		return 0;
	c = clock_of(t->pid, t->tgid, t->start_time, t->se.sum_exec_runtime, THREAD_RUNS);
	if (!c)
		return 0;
	c->lock = (u64)lock;
	c->flags = WAIT_LOCK | (flags & LCB_F_WRITE ? WAIT_TO_WRITE : 0);
	if (t->mm && bpf_core_field_exists(t->mm->mmap_lock) && lock == &t->mm->mmap_lock)
		c->flags |= WAIT_MMAP;
	find_holder(c, lock, t);
	return 0;
}

SEC("raw_tp/contention_end")
int account_contention_end(struct bpf_raw_tracepoint_args *ctx)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct clock *c = bpf_map_lookup_elem(&clocks, &tid);

	if (c && c->lock == ctx->args[0])
		c->lock = 0;
	return 0;
}

SEC("raw_tp/sched_process_fork")
int account_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0];
	struct task_struct *child = (struct task_struct *)ctx->args[1];
	struct account_fork fork = { .kind = ACCOUNT_FORK };

	fork.tgid = BPF_CORE_READ(parent, tgid);
	/* a thread, or a child that borrows the address space (vfork), copies nothing */
	if (!is_counted(fork.tgid) || BPF_CORE_READ(parent, mm) == BPF_CORE_READ(child, mm))
		return 0;
	bpf_ringbuf_output(&account_records, &fork, sizeof(fork), BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("perf_event")
int account_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	u32 zero = 0, kernel, user = 0;
	struct account_sample *s;
	long bytes;

	if (!t->pid || !is_counted(t->tgid))
		return 0;
	s = bpf_map_lookup_elem(&sample_scratch, &zero);
	if (!s)
		return 0;
	/* a thread that never gives its CPU up is not seen by any switch */
	clock_of(t->pid, t->tgid, t->start_time, t->se.sum_exec_runtime, THREAD_RUNS);
	s->kind = ACCOUNT_SAMPLE;
	s->tgid = t->tgid;
	s->tid = t->pid;
	s->nr = call_of(t);
	s->t_ns = bpf_ktime_get_ns();
	s->cpu = bpf_get_smp_processor_id();
	name_process(s->comm, t);
	bpf_get_current_comm(s->thread, sizeof(s->thread));
	/* the stack of the interrupted code, which has no frames of the kernel where it is the program's own */
	bytes = bpf_get_stack(ctx, s->frames, SAMPLE_DEPTH * sizeof(u64), 0);
	kernel = bytes > 0 ? bytes / sizeof(u64) : 0;
	if (kernel > SAMPLE_DEPTH)
		kernel = SAMPLE_DEPTH;
	s->caller = 0;
	s->advice = advice_of(t, s->nr);
	s->ustack = 0;
	if (kernel && is_of_a_program(t)) {
		if (account_config.unwinds)
			s->ustack = stack_in_pieces(ctx, t, 1, true);
		if (s->ustack > 0)
			goto output;
		s->caller = top_of_stack(t);
		bytes = bpf_get_stack(ctx, &s->frames[kernel], SAMPLE_DEPTH * sizeof(u64), BPF_F_USER_STACK);
		user = bytes > 0 ? bytes / sizeof(u64) : 0;
		if (user > SAMPLE_DEPTH)
			user = SAMPLE_DEPTH;
	}
output:
	s->kernel_frames = kernel;
	s->user_frames = user;
	bytes = __builtin_offsetof(struct account_sample, frames) + (kernel + user) * sizeof(u64);
	if (bytes > sizeof(*s))
		return 0;
	if (bpf_ringbuf_output(&account_records, s, bytes, BPF_RB_NO_WAKEUP))
		ADD_TO_HEALTH(account_healths, lost_samples, 1);
	return 0;
}
