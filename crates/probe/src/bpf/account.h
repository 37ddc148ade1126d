/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The types that the programs of the account share with their loader. The loader's twin of this file is in account/layout.rs.
 */
#ifndef QUELL_ACCOUNT_H
#define QUELL_ACCOUNT_H

#include "shootdown.h"

/* The most frames of a sample, of the kernel's stack and of the user's each. */
#define SAMPLE_DEPTH 56
/* The most threads whose clocks are kept. A thread that finds no room has only its samples counted. */
#define MAX_THREAD_CLOCKS 10240
/* The most stacks of waits. There are few, because a wait begins in the scheduler. */
#define MAX_WAIT_STACKS 8192

/* Calls of x86-64 that give advice. */
#define NR_MADVISE 28
#define NR_PROCESS_MADVISE 440

/* The states of a thread, as its clock counts them. */
enum {
	THREAD_RUNS,
	THREAD_READY,  /* wants to run and has no CPU */
	THREAD_SLEEPS, /* waits for something */
	THREAD_STATES,
};

enum {
	ACCOUNT_SAMPLE = 1,
	ACCOUNT_WAIT = 2,
	ACCOUNT_THREAD = 3,
	ACCOUNT_FORK = 4,
};

/* The flags of a wait. */
enum {
	WAIT_LOCK = 1,	   /* it waits for a sleeping lock */
	WAIT_MMAP = 2,	   /* which is that of its own address space */
	WAIT_TO_WRITE = 4, /* to have it alone */
	WAIT_READERS = 8,  /* others read: the holder is the last that came */
	WAIT_QUEUED = 16,  /* others read, and who is named waits before it to have the lock alone */
};

struct account_config {
	u64 began_ns; /* CLOCK_MONOTONIC; threads that were there ran, or slept, since then */
	u32 scope;
	u32 self_tgid;
	u32 has_prev_state; /* sched_switch passes the state on (Linux 5.18) */
	u32 unwinds; /* of user stacks pieces are taken (pieces.h) */
};

/* The thread that holds a lock which another one waits for, and its call when the wait began. */
struct holder {
	u32 tgid;
	u32 tid;
	s32 nr; /* of the system call, or NR_* */
	u32 zero;
	u64 args[3];
	char comm[COMM_LEN];
	/* The last two parts of the path of the file that the call reads or writes. */
	char folder[32];
	char file[32];
};

struct account_sample {
	u32 kind;
	u32 tgid;
	u32 tid;
	s32 nr;
	u64 t_ns;
	u32 cpu;
	u16 kernel_frames;
	u16 user_frames;
	s32 ustack; /* a number with STACK_IN_PIECES; 0: the frames are here */
	u32 advice; /* of madvise() and process_madvise(), and one */
	u64 caller;
	char comm[COMM_LEN]; /* of the process */
	char thread[COMM_LEN]; /* the thread's own name */
	/* The kernel's frames, then the user's: only as many as there are are sent. */
	u64 frames[2 * SAMPLE_DEPTH];
};

struct account_wait {
	u32 kind;
	u32 tgid;
	u32 tid;
	s32 nr;
	u64 end_ns;
	u64 ns;
	s32 kstack;
	s32 ustack; /* of wait_stacks, or with STACK_IN_PIECES */
	u32 flags; /* WAIT_* */
	u32 advice; /* as in account_sample */
	u64 caller;
	char comm[COMM_LEN]; /* of the process */
	char thread[COMM_LEN]; /* the thread's own name */
	struct holder holder;
};

/* A thread has ended. */
struct account_thread {
	u32 kind;
	u32 tgid;
	u32 tid;
	u32 zero;
	u64 sums[THREAD_STATES];
	u64 run_ns;
};

/* A process has a child, and so a copy of its page tables. */
struct account_fork {
	u32 kind;
	u32 tgid;
};

/* A thread's time by state, ns, and its wait under way. */
struct clock {
	u64 since;
	u64 sums[THREAD_STATES];
	/* Its CPU time as the kernel counts it, without interrupts and a hypervisor's time: when first seen, and last. */
	u64 exec_first;
	u64 exec_last;
	u32 state;
	u32 tgid;
	/* of the wait under way */
	u32 is_candidate; /* memory management may have made it sleep */
	u32 flags;	  /* WAIT_*: also while it still spins for the lock */
	s32 kstack;
	s32 ustack;
	s32 nr;
	u32 advice;
	u64 caller; /* the word on top of its user stack */
	u64 lock;   /* the sleeping lock that it is about to wait for, or 0 */
	struct holder holder;
};

struct account_health {
	u64 lost_samples;
	u64 lost_waits;
	u64 lost_wait_ns;
	u64 lost_threads;
	u64 lost_stacks;
};

_Static_assert(sizeof(struct account_config) == 24, "as in account/layout.rs");
_Static_assert(sizeof(struct holder) == 120, "as in account/layout.rs");
_Static_assert(sizeof(struct account_sample) == 80 + 16 * SAMPLE_DEPTH, "as in account/layout.rs");
_Static_assert(sizeof(struct account_wait) == 208, "as in account/layout.rs");
_Static_assert(sizeof(struct account_thread) == 48, "as in account/layout.rs");
_Static_assert(sizeof(struct account_fork) == 8, "as in account/layout.rs");
_Static_assert(sizeof(struct clock) == 216, "as in account/layout.rs");
_Static_assert(sizeof(struct account_health) == 40, "as in account/layout.rs");

#endif
