/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The types that the programs of interruptions share with their loader. The loader's twin of this file is in
 * interruptions/layout.rs.
 */
#ifndef QUELL_INTERRUPTIONS_H
#define QUELL_INTERRUPTIONS_H

/* The most requests under way to one CPU: each other CPU has one of flushes, and one for each caller of others. */
#define MAX_ASKED 16384
/* The most different kernel stacks; interruptions beyond have none. */
#define MAX_WATCH_STACKS 1024
#define WATCH_STACK_DEPTH 64

struct interruptions_config {
	u64 fn_flush_tlb_func;
	u32 cpu; /* the one that is watched */
	u32 tid; /* the thread whose time on it is watched */
	u32 stacks; /* whether kernel stacks of both sides are kept, which takes microseconds */
	u32 tgid; /* that thread's process */
};

enum {
	KIND_SCHED,  /* from where the thread lost its CPU against its will until it got it back */
	KIND_FAULT,  /* a page fault: where it began */
	KIND_TLB,    /* the handler of a shootdown */
	KIND_CALL,   /* that of another function call */
	KIND_IRQ,    /* of a device, and other vectors */
	KIND_TIMER,  /* of the CPU's own timer */
	KIND_VECTOR, /* the interrupt of function calls, whatever runs in it */
	KIND_SOFTIRQ, /* work that an interrupt has left; interrupts of other kinds nest in it */
	KINDS,
};

struct interruption {
	u64 begin_ns;
	u64 end_ns; /* as begin_ns where the end is not traced */
	u32 kind;
	u32 tgid; /* who asked for the call, or whom the CPU was lost to; else 0 */
	u32 tid;
	u32 zero;
	s32 culprit_stack; /* of a shootdown, where stacks are kept; else negative */
	s32 victim_stack;
};

_Static_assert(sizeof(struct interruptions_config) == 24, "interruptions/layout.rs: InterruptionsConfig");
_Static_assert(sizeof(struct interruption) == 40, "interruptions/layout.rs: InterruptionRecord");

#endif
