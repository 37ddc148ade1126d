/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The types that the programs of function calls share with their loader. The loader's twin of this file is in
 * ipi/layout.rs.
 */
#ifndef QUELL_IPI_H
#define QUELL_IPI_H

#include "shootdown.h"

/* The most distinct (function, culprit, victim CPU) for each CPU, and (function, victim); more are counted as lost. */
#define MAX_CALLS 4096
#define MAX_CALL_VICTIMS 16384
/* The most calls under way. A call beyond is counted without its times. */
#define MAX_IN_FLIGHT 16384

struct ipi_config {
	u32 scope;
	u32 self_tgid;
};

enum {
	CALL_IRQ_WORK = 1, /* of irq_work: its handler is not traced */
};

struct call_key {
	u64 func;
	u32 tgid; /* that ran on the culprit's CPU */
	u16 cpu;  /* the victim's */
	u8 flags; /* CALL_* */
	u8 zero;
};

/* The times are written by the victim's CPU only, the count by every culprit's. */
struct call_tally {
	u64 calls;
	u64 timed;
	u64 delay_ns;
	u64 delay_max_ns;
	u64 stall_ns;
	u64 stall_max_ns;
};

struct call_name {
	union {
		char comm[COMM_LEN];
		u64 words[2];
	};
};

struct call_victim_key {
	u64 func;
	u32 tgid;
	u32 zero;
};

struct call_victim {
	u64 hits;
	u64 stall_ns;
};

/* Counters of the programs themselves, one a CPU. */
struct call_health {
	u64 lost; /* calls that found a table full */
	u64 own;  /* the loader's, counted nowhere else */
};

_Static_assert(sizeof(struct ipi_config) == 8, "ipi/layout.rs: IpiConfig");
_Static_assert(sizeof(struct call_key) == 16, "ipi/layout.rs: CallKey");
_Static_assert(sizeof(struct call_tally) == 48, "ipi/layout.rs: CallCounts");
_Static_assert(sizeof(struct call_victim_key) == 16, "ipi/layout.rs: CallVictimKey");
_Static_assert(sizeof(struct call_victim) == 16, "ipi/layout.rs: CallVictimCounts");
_Static_assert(sizeof(struct call_health) == 16, "ipi/layout.rs: CallHealth");

#endif
