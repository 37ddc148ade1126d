/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The keys of culprits and victims, and their indices in the tables.
 */
#ifndef QUELL_KEYS_H
#define QUELL_KEYS_H

/* [process]: the index of the culprit that it was while it started another program (task_rename.h). */
DEFINE_LRU_HASH(exec_culprits, u32, u32, 1024);

/* execve and execveat, of both tables. */
static __always_inline bool is_exec(struct culprit_key *key)
{
	if (key->flags & CULPRIT_COMPAT)
		return key->nr == 11 || key->nr == 358;
	return key->nr == 59 || key->nr == 322;
}

/*
 * The index of a key, made on first sight; 0 if there is no room. Another CPU may make the same key
 * at the same time: BPF_NOEXIST lets one win, and the other's number stays unused.
 */
static __always_inline u32 index_of(void *map, void *key, u32 *next)
{
	u32 *known = bpf_map_lookup_elem(map, key), i;

	if (known)
		return *known;
	if (*(volatile u32 *)next >= config.keys)
		return 0;
	i = __sync_fetch_and_add(next, 1);
	/* another CPU may have taken the last number since */
	if (i >= config.keys)
		return 0;
	if (!bpf_map_update_elem(map, key, &i, BPF_NOEXIST))
		return i;
	known = bpf_map_lookup_elem(map, key);
	return known ? *known : 0;
}

/*
 * The id of the cgroup that runs here, in the hierarchy of cgroup v2. That is a number of a file in its lower half, and
 * how often it was given before in the upper (include/linux/kernfs.h: kernfs_id_gen()): 31 bits of that are enough.
 */
static __always_inline u64 cgroup_here(void)
{
	return bpf_get_current_cgroup_id() & ~(1ULL << 63);
}

/*
 * Whether there is room for one more key that has a cgroup. The last quarter is for keys without a cgroup, so that every
 * shootdown has its cause at least.
 */
static __always_inline bool has_room(void *map, void *key, u32 *next)
{
	return *(volatile u32 *)next < config.keys / 4 * 3 || bpf_map_lookup_elem(map, key);
}

/*
 * The comm is written again whenever a CPU turns to another key, so it follows exec closely enough.
 * Keys that found no room share index 0, and no key or comm is kept for that.
 */
static __always_inline u32 culprit_of(struct culprit_key *key)
{
	u32 i = index_of(&culprit_index, key, &state.next_culprit);
	struct culprit_info *info = i ? bpf_map_lookup_elem(&culprit_infos, &i) : NULL;

	if (info) {
		info->key = *key;
		name_process(info->comm, bpf_get_current_task_btf());
		info->cgroup = config.by_cgroup ? (u64)key->high << 32 | key->tgid
						: bpf_get_current_cgroup_id();
		if (unlikely(is_exec(key)) && !config.by_cgroup)
			bpf_map_update_elem(&exec_culprits, &key->tgid, &i, BPF_ANY);
	}
	return i;
}

static __always_inline u32 victim_of(struct victim_key *key)
{
	u32 i = index_of(&victim_index, key, &state.next_victim);
	struct victim_info *info = i ? bpf_map_lookup_elem(&victim_infos, &i) : NULL;

	if (info) {
		info->key = *key;
		name_process(info->comm, bpf_get_current_task_btf());
	}
	return i;
}

static __always_inline bool advice_decides(u8 advice)
{
	switch (advice) {
	case 4:	  /* MADV_DONTNEED */
	case 8:	  /* MADV_FREE */
	case 9:	  /* MADV_REMOVE */
	case 20:  /* MADV_COLD */
	case 21:  /* MADV_PAGEOUT */
	case 24:  /* MADV_DONTNEED_LOCKED */
	case 25:  /* MADV_COLLAPSE */
	case 102: /* MADV_GUARD_INSTALL */
	case 103: /* MADV_GUARD_REMOVE */
		return true;
	}
	return false;
}

/*
 * Whether the system call alone decides the cause of a flush of the caller's own address space. Only
 * calls do that can't run into a page fault on user memory, and so into copy-on-write, meanwhile.
 */
static __always_inline bool call_decides(s16 nr, bool compat, u8 advice)
{
	if (compat) {
		switch (nr) {
		case 91:  /* munmap */
		case 125: /* mprotect */
		case 163: /* mremap */
		case 45:  /* brk */
		case 90:  /* mmap */
		case 192: /* mmap2 */
			return true;
		case 219: /* madvise */
			return advice_decides(advice);
		}
		return false;
	}
	switch (nr) {
	case 11:  /* munmap */
	case 10:  /* mprotect */
	case 329: /* pkey_mprotect */
	case 25:  /* mremap */
	case 12:  /* brk */
	case 9:	  /* mmap */
	case 67:  /* shmdt */
		return true;
	case 28:  /* madvise */
	case 440: /* process_madvise */
		return advice_decides(advice);
	}
	return false;
}

/* The advice of a call that has one; of another call some other argument. */
static __always_inline u64 advice_of(struct pt_regs *regs)
{
	return unlikely(regs->orig_ax == 440) ? regs->r10 : regs->dx;
}

/* Fills the key but for the kernel stack; true if that is needed to tell the cause. */
static __always_inline bool fill_culprit_key(struct culprit_key *key, struct task_struct *t, u64 mm)
{
	struct pt_regs *regs;
	bool own = mm && mm == (u64)t->mm;
	bool compat;
	u32 flags = t->flags;

	key->tgid = t->tgid;
	key->kstack = KSTACK_UNNEEDED;
	key->advice = 0;
	key->high = 0;
	key->flags = own ? CULPRIT_OWN : mm ? 0 : CULPRIT_BATCH;
	if (flags & (PF_KTHREAD | PF_IO_WORKER)) {
		key->nr = NR_KTHREAD;
		return true;
	}
	if (flags & PF_EXITING) {
		/* do_exit(): the address space goes, whatever call or fault led here */
		key->flags |= CULPRIT_EXITING;
		key->nr = NR_FAULT;
		return !mm;
	}
	regs = (struct pt_regs *)bpf_task_pt_regs(t);
	key->nr = regs->orig_ax;
	if (key->nr < 0) {
		key->nr = NR_FAULT;
		return true;
	}
	compat = t->thread_info.status & TS_COMPAT;
	if (compat)
		key->flags |= CULPRIT_COMPAT;
	/* madvise of each table; process_madvise has one number in both, and works on others' memory too */
	if (key->nr == (compat ? 219 : 28) || key->nr == 440)
		key->advice = advice_of(regs);
	return !(own || key->nr == 440) || !mm || !call_decides(key->nr, compat, key->advice);
}

#endif
