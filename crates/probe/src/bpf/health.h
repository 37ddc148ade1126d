/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The counters that programs keep about themselves, so that nobody takes what they tell for all that there was: what found no
 * room, what was not seen, and what the loader did itself.
 *
 * Each object has them in a per-CPU array of one entry, so that two CPUs never write the same line. They are added to by a load
 * and a store: on one CPU only an interrupt's program comes between the two, and if that adds to the very same counter, one of
 * the two additions is lost.
 */
#ifndef QUELL_HEALTH_H
#define QUELL_HEALTH_H

/* `counter` is a member of the value of `health_map`. */
#define ADD_TO_HEALTH(health_map, counter, amount)                                                     \
	do {                                                                                           \
		u32 only_entry = 0;                                                                    \
		typeof((health_map).value) health = bpf_map_lookup_elem(&(health_map), &only_entry);   \
                                                                                                       \
		/* the kernel always finds it, but the verifier does not know */                       \
		if (health)                                                                            \
			health->counter += (amount);                                                   \
	} while (0)

#endif
