/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The system call that a thread is in, for the programs of the accounts.
 */
#ifndef QUELL_CURRENT_CALL_H
#define QUELL_CURRENT_CALL_H

#include "shootdown.h"

/* Beside NR_FAULT and NR_KTHREAD: a call of a 32-bit program. */
#define NR_COMPAT (-4)

static __always_inline s32 call_of(struct task_struct *t)
{
	struct pt_regs *regs;

	if (t->flags & (PF_KTHREAD | PF_IO_WORKER))
		return NR_KTHREAD;
	/* 32-bit programs number their calls otherwise: the kernel's stack has to tell */
	if (t->thread_info.status & TS_COMPAT)
		return NR_COMPAT;
	regs = (struct pt_regs *)bpf_task_pt_regs(t);
	/* a fault or an interrupt leaves -1 there, as no call is to be restarted (idtentry_body in arch/x86/entry/entry_64.S) */
	return (long)regs->orig_ax < 0 ? NR_FAULT : (s32)regs->orig_ax;
}

#endif
