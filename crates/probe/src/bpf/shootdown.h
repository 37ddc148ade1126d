/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The types that the probe shares with its loader: keys, tallies and records.
 *
 * The loader's twin of this file is layout.rs. The sizes are checked at the end of this file and in
 * a test there, against the same numbers.
 */
#ifndef QUELL_SHOOTDOWN_H
#define QUELL_SHOOTDOWN_H

#define COMM_LEN 16

#define MAX_SCOPE 65536 /* processes in scope at once; a child beyond is not followed */
/* The frames of a stack that are kept, from the innermost on. */
#define STACK_DEPTH 64
#define MAX_STACKS 16384 /* different stacks, of the kernel and of programs; one that finds no room is counted as lost */
#define MAX_PLACES 8 /* rounds that a CPU keeps until they are counted, with the one in flight */

enum scope_kind {
	SCOPE_ALL,  /* the machine */
	SCOPE_TREE, /* processes and their children (scope_tgids): as culprits, or by their memory */
	SCOPE_CPUS, /* CPUs as victims (scope_cpus) */
};

/* The configuration that the loader writes for the probe. */
struct probe_config {
	u64 fn_flush_tlb_func;
	u64 fn_flush_all;    /* do_flush_tlb_all */
	u64 fn_flush_kernel; /* do_kernel_range_flush */
	u32 ncpu;
	u32 scope;
	u32 self_tgid;
	u32 stack_every; /* 0 none, 1 all, N one in N */
	u32 recording;
	u32 places; /* rounds that a CPU keeps until they are counted; a power of two from 2 on */
	u32 row;   /* cells that a CPU has in a map of one for each other CPU: whole pairs of lines */
	u32 sampling;
	u32 timed_apart_ns; /* of a CPU that shoots more often some are only counted (untimed.h); 0: none */
	u32 by_cgroup; /* culprits and victims are told apart by cgroup, not by process */
	u32 keys; /* so many culprits, and victims, can be told apart; more go under index 0 */
	u32 slow_ticks; /* a CPU that has timed none for so long has become slow (untimed.h) */
	u32 unwinds; /* of user stacks pieces are taken (pieces.h) */
	u32 zero;
};

/* The state that the probe writes for the loader. */
struct probe_state {
	u32 next_culprit;
	u32 next_victim;
	u32 scope_gen;
	u32 zero;
};

/* The key that tells culprits apart. It has 16 bytes, so that a comparison is two loads. */
struct culprit_key {
	u32 tgid;   /* with by_cgroup the lower half of the cgroup's id, */
	s32 kstack; /* kernel stack where the system call doesn't tell the cause, else KSTACK_* */
	s16 nr;	    /* system call, or NR_* */
	u8 advice;  /* madvise's third, process_madvise's fourth argument */
	u8 flags;   /* CULPRIT_* */
	u32 high;   /* and the upper half; else 0 */
};

enum {
	KSTACK_UNNEEDED = -1, /* the system call tells the cause */
	KSTACK_LOST = -2,     /* the table of stacks had no room, or there is no such stack */
};
enum {
	NR_FAULT = -1,	/* a page fault */
	NR_KTHREAD = -2, /* a kernel thread or io_uring worker */
	NR_KERNEL = -3,	/* a flush of the kernel's own mappings */
};
enum {
	CULPRIT_COMPAT = 1,  /* `nr` is of the 32-bit table */
	CULPRIT_EXITING = 2, /* the culprit is in do_exit */
	CULPRIT_OWN = 4,     /* the address space is the culprit's own */
	CULPRIT_BATCH = 8,   /* no address space: batched by reclaim or migration */
};

struct culprit_info {
	struct culprit_key key;
	char comm[COMM_LEN];
	u64 cgroup;
};

struct victim_key {
	u32 tgid;      /* as in culprit_key */
	u32 bystander; /* with by_cgroup above it the upper half, which has 31 bits: see cgroup_here() */
};

struct victim_info {
	struct victim_key key;
	char comm[COMM_LEN];
};

/* The counts of a culprit on one CPU. The CPU that settles a round writes them: the culprit's, or the loader's. */
struct culprit_tally {
	u64 shootdowns;
	u64 full;
	u64 pages;
	u64 victims;
	u64 wait_ns;
	u64 delay_ns;
	u64 stall_ns;
	u64 untimed; /* of the shootdowns */
};

struct victim_tally {
	u64 hits;     /* of rounds that are timed; by who settles them */
	u64 stall_ns;
	u64 untimed;  /* of the others; by the victim, in the interrupt */
	u64 zero;
};

/*
 * Log-linear histograms: 32 steps an octave, so a value is known to 1/32, and percentiles read at
 * the middle of a step are within 1.6 %. 35 octaves above 32 ns reach past 500 s.
 */
#define HIST_STEPS_LOG2 5
#define HIST_STEPS (1 << HIST_STEPS_LOG2)
#define HIST_BUCKETS (HIST_STEPS * 36)

enum {
	HIST_WAIT,
	HIST_DELAY,
	HIST_STALL,
	HIST_KINDS,
};

struct hist {
	u64 count[HIST_BUCKETS];
	u64 max;
};

/* One lookup finds all histograms, because lookups cost time while others wait. */
struct hists {
	struct hist of[HIST_KINDS];
};

/* Counters of the probe itself, one a CPU. */
struct probe_health {
	u64 empty_sends;   /* flushes in scope that found nobody to interrupt */
	u64 lost_records;  /* records that found the ring full */
	u64 lost_stacks;   /* stacks that found the table full or could not be walked */
	u64 lost_details;  /* rounds whose culprit nobody named, and requests that no place was free for */
	u64 crowded;	   /* shootdowns and victims under index 0, as the table was full */
	u64 self_shootdowns; /* the loader's own, not counted elsewhere */
	u64 self_victims;    /* without those of the kernel's own mappings */
	u64 wrong_memos; /* stacks from memory that a walk did not confirm */
	u64 unseen; /* victims that were queued, and whose handler was not seen */
};

enum record_kind {
	RECORD_SEND = 1,
	RECORD_VICTIM = 2,
	RECORD_SAMPLE = 3,
	RECORD_END = 4,
};

enum {
	SEND_OWN = 1, /* the address space is the culprit's own */
	SEND_KERNEL = 2, /* there is none: the kernel's own mappings */
};

/* The record of a shootdown by its culprit. */
struct send_record {
	u8 kind;
	u8 flags;
	u16 cpu;
	u32 seq;
	u64 t_ns;
	u32 tgid;
	u32 tid;
	u64 start;
	u64 end;
	u64 caller; /* the word on top of the user stack: who called the system call's wrapper */
	s32 kstack;
	s32 ustack;
	u32 culprit; /* index of the tally, which tells the cause */
	u32 targets; /* how many victims' records there will be; 0: an end_record tells */
	u64 cgroup;
	char comm[COMM_LEN];
};

/* The record of one victim. */
struct victim_record {
	u8 kind;
	u8 bystander;
	u16 cpu;	 /* the victim's */
	u16 culprit_cpu; /* with seq the name of the shootdown */
	u16 zero;
	u32 seq;
	u32 tgid;
	u32 tid;
	u32 delay_ns; /* saturates at 4.29 s */
	u32 stall_ns;
	u32 zero2;
	u64 end_ns;
	char comm[COMM_LEN];
};

/* The record after the victims', where send_record could not tell how many there will be, or one was not seen. */
struct end_record {
	u16 kind;
	u16 culprit_cpu; /* with seq the name of the shootdown */
	u32 seq;
	u64 end_ns; /* of the last victim: the culprit has waited for those out of scope too */
	u32 victims; /* records */
	u32 unseen;
};

/* Frames of a sample: enough to get past the wrappers of system calls. */
#define SAMPLE_FRAMES 4

/* The record of a sample. */
struct sample_record {
	u8 kind;
	u8 flags; /* SEND_* */
	u16 frames;
	u32 tgid;
	u32 culprit; /* index of the tally, which tells the cause */
	u32 every;   /* it stands for so many */
	u64 start;
	u64 end;
	u64 caller; /* as in send_record */
	u64 stack[SAMPLE_FRAMES]; /* of user space, innermost first; beyond `frames` lies anything */
};

/* The states of a round. Only one CPU at a time takes it from ROUND_NAMED to ROUND_TAKEN. */
enum {
	ROUND_FREE,  /* counted, or out of scope: its place is for another */
	ROUND_OPEN,  /* begun, and its culprit not named */
	ROUND_NAMED, /* to be counted once its victims are done */
	ROUND_TAKEN, /* being counted */
};

/* Whether a round counts. */
enum round_mode {
	MODE_OUT,   /* not in scope */
	MODE_IN,    /* counted from the start */
	MODE_LATER, /* counted if a victim turns out to be in scope */
	MODE_SELF,  /* the loader's own: counted apart */
};

/* A round of a CPU. Only that CPU writes it, but for `state`, which the loader may take. */
struct round {
	u64 t0;
	u64 mm;
	u64 start;
	u64 end;
	u32 number;  /* of this CPU's timed rounds */
	u32 state;   /* ROUND_* */
	u32 targets; /* queued so far */
	u32 culprit; /* index of the tally */
	u32 sent;    /* as in send_record.targets */
	u16 first;   /* target; the others are linked from it */
	u8 mode;
	u8 flags; /* SEND_* */
	u8 shift; /* its times stand for those of 1 << shift rounds */
	u8 pad[7];
};

/*
 * One request of a culprit's CPU to one victim's: a csd (kernel/smp.c) belongs to these two and is locked from before
 * csd_queue_cpu to after csd_function_exit, so there is one at a time, whoever runs on the culprit's CPU meanwhile.
 * Two in a line.
 */
struct flush_request {
	/* by the culprit's CPU, before the victim can hear of it */
	u64 at;	 /* queued, ns */
	u32 tag; /* of which flush: tag_of() */
	u16 told; /* number of the request to this victim, of those that are timed */
	u16 next; /* target of the round */
	/* by the victim's, once it is done */
	u64 t1; /* the handler began; 0: it was not seen */
	u32 stall_ns; /* saturates at 4.29 s */
	u32 victim;   /* index of the tally */
};

/* The fields of a victim that only records need. */
struct hit_thread {
	u32 tgid;
	u32 tid;
	u32 bystander;
	u32 zero;
	char comm[COMM_LEN];
};

/* The facts that a culprit's CPU tells a victim's; they seldom change. */
struct cpu_pair {
	u64 csd;   /* that it makes requests by */
	u32 shift; /* one in 1 << shift of its rounds is timed */
	u32 zero;
};

/* The phases in which eBPF programs are attached one by one, and taken away. */
enum {
	COUNTING_NOT, /* csd_queue_cpu is not attached, so that every flush seems to find nobody */
	COUNTING_ALL,
	COUNTING_TIMED, /* from now on every round is timed, */
	COUNTING_TOLD,	/* and now a victim leaves times only for requests that it was told of */
};

/*
 * The state that a CPU keeps for itself. Rounds that are not timed, which are most of a CPU that shoots often, touch four cache
 * lines of it. The facts about the loader that they need are in these lines too.
 */
struct cpu_state {
	struct round rounds[MAX_PLACES]; /* as culprit */
	struct round untimed; /* the last that is not timed */
	/* as culprit, in all rounds */
	u64 thread;    /* the culprit of the round that is open, as the kernel's task_struct */
	u64 func;
	u64 generation; /* of the flush that is open; 0 for a batch */
	u64 number;    /* where number_of() makes one of a pointer */
	u64 timed_tick; /* when a round was timed, in jiffies */
	u32 last;      /* target */
	u32 begun;     /* rounds that may be left untimed */
	u32 shift;     /* of this round */
	u32 next_shift; /* from the next round on */
	u8 open;       /* targets may still be queued to the round */
	u8 due;	       /* the culprit is still to be named */
	u8 skipped;    /* the last round is `untimed` */
	u8 same;       /* the call named last tells its cause, and is the one below */
	u8 scope_in;
	u8 zero[3];
	/* the call that was named last */
	u64 call;      /* its registers */
	u64 advice;
	u64 call_groups; /* with by_cgroup: of who made it, as the kernel's css_set */
	u32 call_tgid; /* who made it */
	u32 culprit;
	struct culprit_key key;
	/* as culprit, in rounds that are timed */
	u32 current;   /* number of the last round; counts on */
	u32 place;     /* where that is */
	u32 tag;       /* and of which flush: tag_of() */
	u32 sampled;   /* with samples how many rounds come before the next; else how many had no stack */
	/* set by the loader */
	u64 self_mm;   /* its memory, whose rounds are counted apart */
	u32 regs_at;   /* where in a thread's stack its registers lie */
	u32 counting;  /* COUNTING_* */
	/* as victim */
	u64 t1;
	u64 mm;
	u32 from;
	union {
		u32 hit_place; /* of the request from there */
		u32 hit_tag;   /* fentry.bpf.c: of which flush */
	};
	struct victim_key vkey;
	u64 cgroups;   /* with by_cgroup: of the process that was named last, as the kernel's css_set */
	u32 named_tgid;
	u32 victim;
	/* as culprit, in rounds that are timed */
	u64 paced_ns;  /* when the rate was looked at */
	u64 settled_ns; /* when some rounds were counted */
	u32 paced_at;  /* which round it was when the rate was looked at */
	u32 zero2;
	/* in the scope of a process */
	u32 hit_tgid; /* the victim that was in scope last */
	u32 hit_gen;
	u32 scope_tgid; /* the last answer about a culprit */
	u32 scope_gen;
} __attribute__((aligned(128)));

_Static_assert(__builtin_offsetof(struct cpu_state, call) % 64 == 0, "a line");
_Static_assert(__builtin_offsetof(struct cpu_state, self_mm) % 64 == 0, "a line");
_Static_assert(__builtin_offsetof(struct cpu_state, paced_ns) % 64 == 0, "a line");
_Static_assert(sizeof(struct probe_config) == 80, "layout.rs: ProbeConfig");
_Static_assert(sizeof(struct probe_state) == 16, "layout.rs: ProbeState");
_Static_assert(sizeof(struct culprit_info) == 40, "layout.rs: CulpritInfo");
_Static_assert(sizeof(struct victim_info) == 24, "layout.rs: VictimInfo");
_Static_assert(sizeof(struct culprit_tally) == 64, "layout.rs: CulpritCounts");
_Static_assert(sizeof(struct victim_tally) == 32, "layout.rs: VictimCounts");
_Static_assert(sizeof(struct probe_health) == 72, "layout.rs: ProbeHealth");
_Static_assert(sizeof(struct send_record) == 88, "layout.rs: SendRecord");
_Static_assert(sizeof(struct victim_record) == 56, "layout.rs: VictimRecord");
_Static_assert(sizeof(struct end_record) == 24, "layout.rs: EndRecord");
_Static_assert(sizeof(struct sample_record) == 72, "layout.rs: SampleRecord");
_Static_assert(sizeof(struct cpu_pair) == 16 && sizeof(struct flush_request) == 32, "none across lines");
_Static_assert(sizeof(struct round) == 64, "a line");
_Static_assert(sizeof(struct cpu_state) % 128 == 0, "pairs of lines");

#endif
