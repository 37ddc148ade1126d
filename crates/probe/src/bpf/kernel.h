/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few kernel types that the probe reads, with only the members it reads.
 *
 * CO-RE relocates every access against the BTF of the running kernel, so order and offsets here
 * mean nothing: a type may lack members, and libbpf matches the rest by name.
 */
#ifndef QUELL_KERNEL_H
#define QUELL_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

typedef __u8 u8;
typedef __s8 s8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

/* include/uapi/linux/bpf.h: map types, flags and limits are user ABI and never change. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};
enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_F_USER_STACK = 256,
	BPF_F_MMAPABLE = 1024,
};
enum {
	BPF_RB_NO_WAKEUP = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/*
 * The arguments of a raw tracepoint, as its TP_PROTO() in include/trace/events has them:
 *
 *   csd_queue_cpu           the target's CPU, the caller's address, the function, the csd     csd.h
 *   csd_function_entry      the function, the csd; csd_function_exit has the same
 *   sched_switch            whether the CPU was taken away, the thread that leaves, the one   sched.h
 *                           that comes, and, since 5.18, the state of the one that leaves
 *   sched_process_fork      the parent, the child
 *   sched_process_free      the thread
 *   task_rename             the thread, its new name                                          task.h
 *   contention_begin        the lock, LCB_F_*                                                 lock.h
 *   contention_end          the lock, how it ended
 */
struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

/* arch/x86/include/asm/mmu.h */
typedef struct {
	u64 ctx_id;
} mm_context_t;

typedef struct {
	long counter;
} atomic_long_t;

struct list_head {
	struct list_head *next;
};

/* include/linux/rwsem.h: the holder, with its kind in the lowest bits. */
struct rw_semaphore {
	atomic_long_t owner;
	struct list_head wait_list;
};

/* kernel/locking/rwsem.c: one that waits; the first in the list is the next to get the lock. */
enum rwsem_waiter_type {
	RWSEM_WAITING_FOR_WRITE,
};
struct rwsem_waiter {
	struct list_head list;
	struct task_struct *task;
	enum rwsem_waiter_type type;
};

struct mm_struct {
	struct task_struct *owner;
	mm_context_t context;
	struct rw_semaphore mmap_lock;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct thread_info {
	u32 status;
};

/* include/linux/cgroup-defs.h: a thread's groups in all hierarchies. Only its address is looked at. */
struct css_set;

struct sched_entity {
	u64 sum_exec_runtime;
};

struct task_struct {
	struct thread_info thread_info;
	void *stack;
	unsigned int flags;
	struct mm_struct *mm;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	char comm[16];
	struct css_set *cgroups;
	unsigned int __state;
	u64 start_time; /* CLOCK_MONOTONIC */
	struct sched_entity se;
	struct files_struct *files;
};

struct pt_regs {
	unsigned long bp;
	unsigned long r10;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long sp;
};

/* include/linux/smp_types.h; its flags are in a union there, which CO-RE looks through. */
struct __call_single_node {
	unsigned int u_flags;
};

/* kernel/smp.c: one request to one CPU; `info` is the argument that the sender passes to `func`. */
struct __call_single_data {
	struct __call_single_node node;
	void *info;
};

/* arch/x86/include/asm/tlbflush.h */
struct flush_tlb_info {
	struct mm_struct *mm;
	unsigned long start;
	unsigned long end;
	u64 new_tlb_gen;
	unsigned int initiating_cpu;
};

#pragma clang attribute pop

/* include/linux/sched.h: stable since 2.6, checked in 5.15 and 6.18. */
#define PF_IO_WORKER 0x00000010
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
/* include/linux/sched.h: states of a thread; checked in 5.15 and 6.18. */
#define TASK_UNINTERRUPTIBLE 0x00000002
#define TASK_DEAD 0x00000080
#define TASK_NOLOAD 0x00000400
/* include/trace/events/lock.h, from 5.19 on. */
#define LCB_F_SPIN 0x01
#define LCB_F_READ 0x02
#define LCB_F_WRITE 0x04
#define LCB_F_PERCPU 0x10
/* kernel/locking/rwsem.c */
#define RWSEM_READER_OWNED 1L
/* include/linux/smp_types.h: the kinds of requests; checked in 6.1, 6.12 and 6.18. */
#define CSD_TYPE_IRQ_WORK 0x20
#define CSD_TYPE_TTWU 0x30
#define CSD_FLAG_TYPE_MASK 0xf0
/* arch/x86/include/asm/thread_info.h: the thread is in a 32-bit system call. */
#define TS_COMPAT 0x0002

#endif
