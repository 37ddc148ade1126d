/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Follows processes in scope through fork and exit.
 */
#ifndef QUELL_FOLLOW_SCOPE_H
#define QUELL_FOLLOW_SCOPE_H

/* A child of a process in scope is in scope. Threads share the tgid and need nothing. */
SEC("raw_tp/sched_process_fork")
int sched_process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0];
	struct task_struct *child = (struct task_struct *)ctx->args[1];
	u32 from = BPF_CORE_READ(parent, tgid), to = BPF_CORE_READ(child, tgid);
	u8 one = 1;

	if (from == to || !tgid_in_scope(from))
		return 0;
	bpf_map_update_elem(&scope_tgids, &to, &one, BPF_ANY);
	__sync_fetch_and_add(&state.scope_gen, 1);
	return 0;
}

/*
 * Takes an ended process out of scope, because its number may be given to a stranger. This comes for every thread, and only the
 * first one's number is the process's; deleting fails where the process was not in scope.
 */
SEC("raw_tp/sched_process_free")
int sched_process_free(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *t = (struct task_struct *)ctx->args[0];
	u32 tgid = BPF_CORE_READ(t, tgid);

	if ((u32)BPF_CORE_READ(t, pid) != tgid || bpf_map_delete_elem(&scope_tgids, &tgid))
		return 0;
	__sync_fetch_and_add(&state.scope_gen, 1);
	return 0;
}

#endif
