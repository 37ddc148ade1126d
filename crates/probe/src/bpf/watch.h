/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The types that the programs which watch a machine for months share with their loader. The loader's twin of this file is
 * account/watch/layout.rs.
 */
#ifndef QUELL_WATCH_H
#define QUELL_WATCH_H

#include "shootdown.h"

/* The most frames that are kept of the kernel's stack and of the program's. */
#define WATCH_KERNEL_DEPTH 48
#define WATCH_USER_DEPTH 24
/* Threads that memory management may have put to sleep, by the lower bits of their number: a power of two. */
#define MAX_SLEEPERS 16384
/* The most kernel stacks of sleeps that the loader has not read yet. */
#define MAX_SLEEP_STACKS 1024
/* A CPU walks one kernel stack in so long on average, and so many at once; other sleeps are counted by their call. */
#define WALK_EVERY_NS 2000000
#define WALKS_AT_ONCE 64
/* The most sleeps that are told apart, by cgroup, call and kernel stack. */
#define MAX_SLEEPS 4096

struct watch_config {
	u32 self_tgid;
	u32 has_prev_state; /* sched_switch passes the state on (Linux 5.18) */
	u32 has_code;	    /* samples have the program's stack */
	u32 zero;
};

struct watch_sample {
	u64 cgroup;
	u32 tgid;
	s32 nr;
	u16 kernel_frames;
	u16 user_frames;
	u32 zero;
	char comm[COMM_LEN]; /* of the process */
	/* The kernel's frames, then the program's: only as many as there are are sent. */
	u64 frames[WATCH_KERNEL_DEPTH + WATCH_USER_DEPTH];
};

/* A thread that sleeps. */
struct sleeper {
	u32 tid; /* 0: nobody */
	s32 nr;
	u64 since;
	u64 cgroup;
	u64 stack; /* the hash that names its kernel stack */
};

struct sleep_key {
	u64 cgroup;
	u64 stack; /* 0: it was not walked */
	s32 nr;
	u32 zero;
};

struct sleep_tally {
	u64 sleeps;
	u64 ns;
};

struct sleep_stack {
	u64 depth;
	u64 frames[WATCH_KERNEL_DEPTH];
};

/* How many stacks a CPU may walk now, and as of when. */
struct walks {
	u64 since;
	u64 left;
};

struct watch_health {
	u64 lost_samples;
	u64 lost_sleeps; /* another thread had the place, or there was no room to tell it apart */
};

_Static_assert(sizeof(struct watch_config) == 16, "as in account/watch/layout.rs");
_Static_assert(sizeof(struct watch_sample) == 40 + 8 * (WATCH_KERNEL_DEPTH + WATCH_USER_DEPTH), "as in account/watch/layout.rs");
_Static_assert(sizeof(struct sleeper) == 32, "two to a line");
_Static_assert(sizeof(struct sleep_key) == 24, "as in account/watch/layout.rs");
_Static_assert(sizeof(struct sleep_tally) == 16, "as in account/watch/layout.rs");
_Static_assert(sizeof(struct sleep_stack) == 8 + 8 * WATCH_KERNEL_DEPTH, "as in account/watch/layout.rs");
_Static_assert(sizeof(struct watch_health) == 16, "as in account/watch/layout.rs");

#endif
