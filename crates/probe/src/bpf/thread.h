/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all programs ask about the thread that they run in.
 */
#ifndef QUELL_THREAD_H
#define QUELL_THREAD_H

/* Whether the thread has a user stack and registers: it is neither the kernel's own nor ending, when they may be gone. */
static __always_inline bool is_of_a_program(struct task_struct *t)
{
	return !(t->flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING));
}

/*
 * The word on top of the user stack. It is the return address if the function has put nothing above it, as most wrappers of
 * system calls have not; then it says who called the wrapper. 0 if it can't be read.
 */
static __always_inline u64 top_of_stack(struct task_struct *t)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);
	u64 word = 0;

	return bpf_probe_read_user(&word, sizeof(word), (void *)regs->sp) ? 0 : word;
}

/* The name of the process: that of its first thread. A thread may have one of its own, which its records have too. */
static __always_inline void name_process(char comm[COMM_LEN], struct task_struct *t)
{
	bpf_probe_read_kernel(comm, COMM_LEN, &t->group_leader->comm);
}

#endif
