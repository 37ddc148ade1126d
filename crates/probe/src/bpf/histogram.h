/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Histograms of waits, delays and stalls.
 */
#ifndef QUELL_HISTOGRAM_H
#define QUELL_HISTOGRAM_H

/* The place of the highest bit that is set, by halving: BPF of this version has no instruction for it. */
static __always_inline u32 log2_floor(u64 v)
{
	u32 r, s;

	r = (v > 0xffffffff) << 5; v >>= r;
	s = (v > 0xffff) << 4; v >>= s; r |= s;
	s = (v > 0xff) << 3; v >>= s; r |= s;
	s = (v > 0xf) << 2; v >>= s; r |= s;
	s = (v > 0x3) << 1; v >>= s; r |= s;
	return r | (v >> 1);
}

/*
 * The twin of histogram::bucket_of in quell-event. What is left of a value after the shift has one bit more than HIST_STEPS_LOG2, so
 * it lies from HIST_STEPS to 2 * HIST_STEPS - 1, and the buckets of an octave follow those of the one before without a gap.
 */
static __always_inline u32 bucket_of(u64 ns)
{
	u32 e, b;

	if (ns < HIST_STEPS)
		return ns;
	e = log2_floor(ns) - HIST_STEPS_LOG2;
	b = (e << HIST_STEPS_LOG2) + (u32)(ns >> e);
	return b < HIST_BUCKETS ? b : HIST_BUCKETS - 1;
}

/* This CPU's histograms. They are never NULL, but the verifier does not know. */
static __always_inline struct hists *hists_of_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&hists, &zero);
}

/* Adds a value that stands for n. */
static __always_inline void hist_add(struct hist *h, u64 ns, u64 n)
{
	u32 b = bucket_of(ns);

	/* clang proves the bound from bucket_of and drops the check, which the verifier needs */
	barrier_var(b);
	if (b >= HIST_BUCKETS)
		return;
	h->count[b] += n;
	if (ns > h->max)
		h->max = ns;
}

#endif
