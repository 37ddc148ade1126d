/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Goes once over n targets of a round, by
 *
 *   static long visit(u32 i, struct … *walk)     1 ends the walk
 *
 * and VISITS(visit) after it. With bpf_loop(), which Linux has since 5.17; where OLD_KERNELS is defined with
 * bpf_for_each_map_elem(), since 5.13, over a map that has an element a CPU, and so at least as many as a
 * round has targets. Both end: the kernel counts.
 */
#ifndef QUELL_EACH_TARGET_H
#define QUELL_EACH_TARGET_H

#ifdef OLD_KERNELS
struct bounded {
	u32 n;
	void *walk;
};

#define VISITS(visit)                                                                    \
	static long visit##_by_map(void *map, u32 *i, void *own, struct bounded *b)        \
	{                                                                                  \
		return *i >= b->n || visit(*i, b->walk);                                   \
	}
#define each_target(n, visit, walk)                                                      \
	({                                                                                 \
		struct bounded b = { n, walk };                                            \
		bpf_for_each_map_elem(&cpu_states, visit##_by_map, &b, 0);                       \
	})
#else
#define VISITS(visit)
#define each_target(n, visit, walk) bpf_loop(n, visit, walk, 0)
#endif

#endif
