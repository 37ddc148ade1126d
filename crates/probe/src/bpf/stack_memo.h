/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gives stacks their numbers, mostly without walking them.
 *
 * bpf_get_stackid() unwinds, hashes and compares: microseconds on some machines, and in the culprit's
 * own part of a flush interrupts are off, so that every other CPU's shootdown at this one waits too.
 * But a program shoots from few places. So each CPU keeps, for the stacks whose numbers it knows, the
 * return addresses and where they lay, and asks the kernel only about a stack that looks different.
 *
 * Kernel stacks. The unwinder finds each return address from the last one and the place where that
 * lay (arch/x86/kernel/unwind_orc.c). So if all of them lie where they lay when the stack was walked,
 * it would find the same ones. The gap of random width that do_syscall_64() leaves
 * (randomize_kstack_offset, Linux 5.13) is above all frames but its own, whose return address is at
 * the other end. Not certain are: functions whose frame is found by the frame pointer, other than
 * do_syscall_64; a word below a return address that equals it by chance, which is then compared in
 * its place; and functions whose return addresses ftrace's graph tracer or a kretprobe has replaced by
 * one and the same. That is why each memo is for one system call only, and every 256th answer from
 * memory is compared with a walk: one that was wrong is counted, and forgotten.
 *
 * User stacks. The kernel follows frame pointers (perf_callchain_user() in arch/x86/events/core.c).
 * So does this, and compares. It does not read where the kernel's walk would only end in a page fault:
 * at null, or where the last walk ended.
 *
 * Scratch memory is one a CPU: stacks are taken by culprits only, who have preemption off, and only
 * a victim's program, which takes none, interrupts them. All loops have constant bounds. Those that
 * count while they search do so in memory, where the verifier does not follow every count.
 */
#ifndef QUELL_STACK_MEMO_H
#define QUELL_STACK_MEMO_H

/* Words of a kernel stack above the tracepoint that are searched: 2 KiB. Reclaim goes deeper. */
#define MEMO_WORDS 256
/* The size of a thread's kernel stack (THREAD_SIZE in arch/x86/include/asm/page_64_types.h). */
#define MEMO_STACK 16384
/* Return addresses that are compared, and the first of them: those before it are of the tracepoint. */
#define MEMO_FRAMES 32
#define MEMO_FIRST 4
#define MEMO_SLOTS 16 /* a CPU */
#define MEMO_CHECK 256
/* No program has its stack in the first page, so a word below this is no frame pointer. */
#define FIRST_PAGE 4096

struct kernel_memo {
	u64 call; /* the system call */
	u64 entry; /* the outermost return address */
	u32 frames; /* that are compared; 0: none yet */
	u32 answers;
	s32 id;
	u32 low; /* up to where, bytes */
	u64 ips[MEMO_FRAMES];
	u16 at[MEMO_FRAMES]; /* words above the tracepoint */
};

struct user_memo {
	u64 end; /* the frame pointer that led nowhere */
	u32 frames; /* 0: none yet */
	s32 id;
	u64 ips[STACK_DEPTH];
};

struct scratch {
	u64 at;
	u64 top;
	u64 entry;
	u32 frames;
	u32 next;
	u64 words[MEMO_WORDS];
	u64 ips[STACK_DEPTH];
};

/*
 * A stack of the kernel has its slot by the system call, and one of a program by the stack pointer. Another stack in the same
 * slot replaces it.
 */
DEFINE_PER_CPU_ARRAY(kernel_memos, struct kernel_memo, MEMO_SLOTS);
DEFINE_PER_CPU_ARRAY(user_memos, struct user_memo, MEMO_SLOTS);

/* What is too large for the stack of a program. */
DEFINE_PER_CPU_ARRAY(scratches, struct scratch, 1);

/* Has the kernel walk the stack, STACK_DEPTH frames at most, and number it (bpf_get_stackid() in kernel/bpf/stackmap.c). */
static __always_inline s32 walk_stack(void *ctx, u64 flags)
{
	long id = bpf_get_stackid(ctx, &stacks, flags);

	if (id >= 0)
		return id;
	/* -EFAULT: there is no such stack (a kernel thread has none of user space) */
	if (id != -14)
		ADD_TO_HEALTH(healths, lost_stacks, 1);
	return KSTACK_LOST;
}

/*
 * Finds where the return addresses lie, in their order. The functions that are not static are
 * verified once, and not once for every way that leads to them.
 */
__noinline int find_frames(struct kernel_memo *memo, struct scratch *s)
{
	u32 i, n, next;

	if (!memo || !s)
		return 0;
	memo->frames = 0;
	s->next = MEMO_FIRST;
	for (i = 0; i < MEMO_WORDS; i++) {
		next = *(volatile u32 *)&s->next;
		/* two tests: of one for both, the verifier of Linux 6.12 learns no bound for next */
		if (next >= STACK_DEPTH)
			return 0;
		barrier_var(next);
		n = next - MEMO_FIRST;
		if (n >= MEMO_FRAMES)
			return 0;
		if (s->words[i] != s->ips[next])
			continue;
		memo->ips[n] = s->words[i];
		memo->at[n] = i;
		s->next = next + 1;
		/* the outermost return address is at the other end, and compared as `entry` */
		if (next + 2 == s->frames) {
			memo->low = (i + 1) * 8;
			memo->frames = n + 1;
			return 0;
		}
	}
	return 0;
}

/* Whether all return addresses of the memo lie where they lay. */
__noinline int kernel_looks_like(struct kernel_memo *memo, struct scratch *s)
{
	u32 i, at, n;

	if (!memo || !s)
		return 0;
	n = memo->frames;
	for (i = 0; i < MEMO_FRAMES; i++) {
		if (i >= n)
			return 1;
		at = memo->at[i];
		if (at >= MEMO_WORDS || s->words[at] != memo->ips[i])
			return 0;
	}
	return n == MEMO_FRAMES;
}

/* The number of this kernel stack. `call` tells system calls apart. */
static __noinline s32 kernel_stack(void *ctx, u64 call)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct kernel_memo *memo;
	u32 zero = 0, slot, low;
	struct scratch *s;
	u64 at, bytes;
	s32 id, known = -1;
	long got;

	slot = (call ^ call >> 16) % MEMO_SLOTS;
	memo = bpf_map_lookup_elem(&kernel_memos, &slot);
	s = bpf_map_lookup_elem(&scratches, &zero);
	if (!s || !memo)
		return walk_stack(ctx, 0);
	/*
	 * What ctx points to lies on the kernel stack (bpf_trace_run*() in kernel/trace/bpf_trace.c, or the trampoline's frame),
	 * below the return addresses that are compared; the registers lie at the end of the stack. The addresses go through
	 * memory, because the verifier lets no program calculate with pointers.
	 */
	*(volatile u64 *)&s->at = (u64)ctx;
	*(volatile u64 *)&s->top = (u64)bpf_task_pt_regs(t);
	at = *(volatile u64 *)&s->at;
	bytes = *(volatile u64 *)&s->top - at;
	/* the size is wrong, too, where this is another stack than the task's */
	if (bytes < 64 || bytes > MEMO_STACK ||
	    bpf_probe_read_kernel(&s->entry, sizeof(s->entry), (void *)(at + bytes - 8)))
		return walk_stack(ctx, 0);
	low = memo->low;
	if (memo->frames && memo->call == call && memo->entry == s->entry && low < bytes &&
	    low <= sizeof(s->words) && !bpf_probe_read_kernel(s->words, low, (void *)at) &&
	    kernel_looks_like(memo, s)) {
		known = memo->id;
		if (++memo->answers % MEMO_CHECK)
			return known;
	}
	id = walk_stack(ctx, 0);
	if (known >= 0 && id == known)
		return id;
	if (known >= 0 && id >= 0)
		ADD_TO_HEALTH(healths, wrong_memos, 1);
	memo->frames = 0;
	memo->id = id;
	memo->call = call;
	memo->entry = s->entry;
	if (bytes > sizeof(s->words))
		bytes = sizeof(s->words);
	got = bpf_get_stack(ctx, s->ips, sizeof(s->ips), 0);
	if (id < 0 || got <= 0 || bpf_probe_read_kernel(s->words, bytes, (void *)at))
		return id;
	s->frames = (u32)got / 8;
	/* a stack that is cut off has another end, and is walked every time */
	if (s->frames < STACK_DEPTH && s->ips[(s->frames - 1) % STACK_DEPTH] == s->entry)
		find_frames(memo, s);
	return id;
}

/* Whether the frames that were just found are those of the memo. */
__noinline int user_looks_like(struct user_memo *memo, struct scratch *s)
{
	u32 i, n;

	if (!memo || !s || memo->frames != s->frames)
		return 0;
	n = s->frames;
	for (i = 0; i < STACK_DEPTH; i++) {
		if (i >= n)
			return 1;
		if (memo->ips[i] != s->ips[i])
			return 0;
	}
	return 1;
}

/* The number of this thread's user stack, by frame pointers. */
static __noinline s32 user_stack(void *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);
	u64 frame[2], fp = regs->bp;
	u32 zero = 0, slot, n;
	struct user_memo *memo;
	struct scratch *s;

	/* the same place in the same thread has its stack at the same depth */
	slot = (regs->sp >> 4) % MEMO_SLOTS;
	memo = bpf_map_lookup_elem(&user_memos, &slot);
	s = bpf_map_lookup_elem(&scratches, &zero);
	/* 32-bit frames are of another size */
	if (!s || !memo || t->thread_info.status & TS_COMPAT)
		return walk_stack(ctx, BPF_F_USER_STACK);
	s->ips[0] = regs->ip;
	for (n = 1; n < STACK_DEPTH; n++) {
		if (fp < FIRST_PAGE || (memo->frames == n && memo->end == fp) ||
		    bpf_probe_read_user(frame, sizeof(frame), (void *)fp))
			break;
		s->ips[n] = frame[1];
		fp = frame[0];
	}
	s->frames = n;
	if (user_looks_like(memo, s))
		return memo->id;
	memo->id = walk_stack(ctx, BPF_F_USER_STACK);
	memo->frames = memo->id < 0 ? 0 : n;
	memo->end = fp;
	__builtin_memcpy(memo->ips, s->ips, sizeof(memo->ips));
	return memo->id;
}

#endif
