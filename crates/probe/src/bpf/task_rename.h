/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The name of a process that shoots while it starts another program: the kernel takes the old memory away first, and gives
 * the process its new name then (begin_new_exec() in fs/exec.c).
 */
#ifndef QUELL_TASK_RENAME_H
#define QUELL_TASK_RENAME_H

/* Only the first thread's name is the process's. */
SEC("raw_tp/task_rename")
int task_rename(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *t = (struct task_struct *)ctx->args[0];
	u32 tgid = BPF_CORE_READ(t, tgid), *i;
	struct culprit_info *info;

	if ((u32)BPF_CORE_READ(t, pid) != tgid)
		return 0;
	i = bpf_map_lookup_elem(&exec_culprits, &tgid);
	if (!i)
		return 0;
	info = bpf_map_lookup_elem(&culprit_infos, i);
	if (info)
		bpf_probe_read_kernel_str(info->comm, sizeof(info->comm), (void *)ctx->args[1]);
	return 0;
}

#endif
