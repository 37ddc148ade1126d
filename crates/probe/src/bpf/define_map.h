/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Defines the maps, one call a map.
 *
 * A map is a variable that the program never reads: libbpf finds it in the section .maps, and takes what it asks the kernel for
 * from the debug information of its type (parse_btf_map_def() in libbpf.c). A number is the length of an array that a member
 * points to (__uint()), and a key or a value is the type that a member points to (__type()), whose size is the size in the map.
 * The members' names are libbpf's, so a parameter of a macro must not be called as a member is: it would replace both.
 *
 * Where the loader sets another number of entries before it loads the programs, a comment beside the number says which.
 */
#ifndef QUELL_DEFINE_MAP_H
#define QUELL_DEFINE_MAP_H

/* `map_kind` is the end of a BPF_MAP_TYPE_*, and `creation_flags` are BPF_F_* or 0. */
#define DEFINE_MAP(map_kind, map_name, key_type, value_type, entry_count, creation_flags) \
	struct {                                                                          \
		__uint(type, BPF_MAP_TYPE_##map_kind);                                    \
		__uint(max_entries, entry_count);                                         \
		__uint(map_flags, creation_flags);                                        \
		__type(key, key_type);                                                    \
		__type(value, value_type);                                                \
	} map_name SEC(".maps")

#define DEFINE_HASH(map_name, key_type, value_type, entry_count, creation_flags) \
	DEFINE_MAP(HASH, map_name, key_type, value_type, entry_count, creation_flags)

/* A hash that, when it is full, drops an entry which was not used for long, instead of refusing a new one. */
#define DEFINE_LRU_HASH(map_name, key_type, value_type, entry_count) \
	DEFINE_MAP(LRU_HASH, map_name, key_type, value_type, entry_count, 0)

/* The keys of arrays are indices, which the kernel wants as u32 (array_map_alloc_check() in kernel/bpf/arraymap.c). */
#define DEFINE_ARRAY(map_name, value_type, entry_count, creation_flags) \
	DEFINE_MAP(ARRAY, map_name, u32, value_type, entry_count, creation_flags)

/* Each CPU has entries of its own, and a lookup finds those of the CPU that it runs on. */
#define DEFINE_PER_CPU_ARRAY(map_name, value_type, entry_count) \
	DEFINE_MAP(PERCPU_ARRAY, map_name, u32, value_type, entry_count, 0)

/*
 * A table that bpf_get_stackid() fills: by the number that it gives, the addresses of a stack. libbpf takes only the sizes of
 * both types, because the kernel refuses types for such a map (bpf_object__create_map() in libbpf.c).
 */
#define DEFINE_STACK_TABLE(map_name, stack_count, max_frame_count) \
	DEFINE_MAP(STACK_TRACE, map_name, u32, u64[max_frame_count], stack_count, 0)

/*
 * A ring has neither keys nor values, and its entries are bytes: whole pages, and a power of two. It has the least here, and the
 * loader makes it larger where something is to be sent.
 */
#define DEFINE_RING_BUFFER(map_name)                   \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_RINGBUF);    \
		__uint(max_entries, 4096);             \
	} map_name SEC(".maps")

#endif
