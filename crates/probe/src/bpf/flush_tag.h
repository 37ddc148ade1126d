/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The name of a flush, by which a victim's times find its round.
 */
#ifndef QUELL_FLUSH_TAG_H
#define QUELL_FLUSH_TAG_H

/* The tag of all flushes of the kernel's own mappings, and of batches, which can't be told apart. */
#define TAG_NO_MEMORY 1

/*
 * The number of an address space, which is no other's until the kernel boots anew (mm_context_t.ctx_id in
 * arch/x86/include/asm/mmu.h): its place in memory is given to the next one. It lies beside the generation that culprit and
 * victim look at in any case. 0 without one.
 */
static __always_inline u64 address_space_of(struct mm_struct *mm)
{
	return mm ? BPF_CORE_READ(mm, context.ctx_id) : 0;
}

/*
 * Names a flush by its address space and generation, which is one more with each flush of that space. Two flushes have
 * the same name once in 2^31. One bit is always set, so that the name is neither TAG_NO_MEMORY nor 0, which is no flush's.
 * (The factors are the golden ratio's and the one of Murmur3's finalizer.)
 */
static __always_inline u32 tag_of(u64 space, u64 generation)
{
	if (!space)
		return TAG_NO_MEMORY;
	return (u32)((generation * 0x9e3779b97f4a7c15ULL + space * 0xff51afd7ed558ccdULL) >> 32) | 2;
}

#endif
