//! Which kernel stacks stand for which mechanism.
//!
//! Functions of mm/ as named in Linux 5.15 to 7.3. Compilers inline small ones, so every mechanism names several on the
//! way. The rules are tried from the special to the general: compaction happens within a fault, a fault within a system
//! call, and zeroing within all of them.

use quell_event::{Mechanism, MechanismPart};
use syscalls::Sysno;

use super::layout::{NR_FAULT, NR_KTHREAD, WAIT_LOCK, WAIT_MMAP};
use super::system_call::system_call;
use crate::stack_causes::without_suffix;

/// Any of these functions on the stack stands for the mechanism. A `*` in a name stands for any text.
type MechanismRule = (&'static [&'static str], Mechanism);

/// The entries of interrupts: functions further inside do not belong to the interrupted code.
const INTERRUPT_ENTRIES: &[&str] = &[
    "asm_sysvec_*",
    "asm_common_interrupt",
    "asm_exc_nmi",
    "common_interrupt",
    "sysvec_*",
    "__irq_exit_rcu",
    "irq_exit_rcu",
    "do_softirq*",
];

/// The kernel's own threads, by their main functions.
const KERNEL_THREAD_RULES: &[MechanismRule] = &[
    (&["kswapd", "balance_pgdat"], Mechanism::Kswapd),
    (&["kcompactd"], Mechanism::Kcompactd),
    (&["khugepaged"], Mechanism::Khugepaged),
    (&["ksm_scan_thread"], Mechanism::Ksmd),
    (&["kdamond_fn", "kdamond*"], Mechanism::Kdamond),
    (&["wb_workfn", "wb_do_writeback"], Mechanism::Flusher),
];

/// Functions that make other CPUs run something, which only sometimes is a TLB flush.
const REMOTE_CALL_FUNCTIONS: &[&str] = &[
    "smp_call_function_many*",
    "csd_lock_wait*",
    "__csd_lock_wait*",
    "native_flush_tlb_multi",
    "kvm_flush_tlb_multi",
    "hyperv_flush_tlb_multi",
    "xen_flush_tlb_multi",
];
const TLB_FLUSH_FUNCTIONS: &[&str] = &[
    "flush_tlb_*",
    "native_flush_tlb_*",
    "kvm_flush_tlb_*",
    "arch_tlbbatch_flush",
    "do_flush_tlb_all",
];

/// Functions in which a thread waits for a lock that has readers and writers, spinning or asleep.
const LOCK_WAITS: &[&str] = &[
    "rwsem_down_*",
    "rwsem_optimistic_spin*",
    "rwsem_spin_on_owner*",
    "rwsem_*wait*",
    "__down_read*",
    "__down_write*",
    "osq_lock",
];
/// Functions on the way from the code that takes such a lock to the wait. The first function outside of them took the lock.
const LOCK_CALLS: &[&str] = &[
    "rwsem_*",
    "down_read*",
    "down_write*",
    "__down_*",
    "osq_lock",
    "mmap_read_lock*",
    "mmap_write_lock*",
    "__mmap_*lock*",
    "schedule*",
    "__schedule",
];
/// A thread that sleeps in one of these waits for the lock of a mapping (Linux 6.4 and later).
const MAPPING_LOCKS: &[&str] = &[
    "__vma_start_write",
    "vma_start_write*",
    "__vma_enter_locked",
    "__vma_enter_*",
    "__vma_start_exclude_readers",
    "vma_mark_detached",
];
/// Functions that take the lock of an address space.
const MMAP_TAKERS: &[&str] = &[
    "vm_mmap*",
    "ksys_mmap*",
    "__vm_munmap",
    "vm_munmap",
    "*munmap",
    "do_madvise*",
    "madvise_*",
    "vector_madvise*",
    "do_mprotect*",
    "mprotect*",
    "__do_sys_*",
    "__se_sys_*",
    "__x64_sys_*",
    "do_mremap",
    "mremap*",
    "dup_mm*",
    "copy_mm",
    "copy_process",
    "lock_mm_and_find_vma",
    "get_mmap_lock_carefully",
    "do_user_addr_fault",
    "exc_page_fault",
    "__mm_populate",
    "do_mlock",
    "do_mincore",
    "m_start",
    "clear_refs_write",
    "smaps_*",
    "show_smap*",
    "pagemap_*",
    "do_pagemap*",
    "proc_*",
    "collapse_*",
    "hpage_collapse*",
    "khugepaged*",
    "madvise_collapse",
    "exit_mm*",
    "exit_mmap",
    "mm_release",
    "task_numa_work",
    "process_vm*",
    "__access_remote_vm",
    "access_remote_vm",
    "userfaultfd*",
    "mfill_*",
    "__get_user_pages*",
    "get_user_pages*",
    "pin_user_pages*",
    "gup_*",
    "__gup_*",
    "do_pages_*",
    "do_mbind",
    "queue_pages*",
    "do_migrate_pages",
    "setup_arg_pages",
    "exec_mmap",
    "begin_new_exec",
    "fixup_user_fault",
    "find_extend_vma*",
    "stack_map_*",
    "query_*vma*",
    "futex_*",
];
/// Functions that take the lock of a file's mappings, or of an anonymous page's.
const RMAP_TAKERS: &[&str] = &[
    "unlink_*",
    "vma_prepare",
    "__vma_link*",
    "vma_link*",
    "i_mmap_*",
    "anon_vma_*",
    "__anon_vma_*",
    "rmap_walk*",
    "folio_lock_anon_vma*",
    "page_lock_anon_vma*",
    "split_huge_page*",
    "unmap_mapping_*",
    "dup_mmap_file",
    "vms_*",
    "free_pgtables",
    "hugetlb_*",
    "vma_adjust*",
    "__vma_adjust*",
    "commit_merge*",
    // These run with the lock of the address space taken already.
    "mmap_region",
    "__mmap_region",
    "__split_vma",
    "vma_complete",
    "vma_expand",
    "vma_shrink",
    "vma_merge*",
    "copy_vma",
];
/// Functions that take both kinds of lock, so that the lock's address has to decide.
const TAKERS_OF_BOTH: &[&str] = &["dup_mmap"];

const SPECIAL_RULES: &[MechanismRule] = &[
    (
        &[
            "do_try_to_free_pages",
            "try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "__alloc_pages_direct_reclaim",
            "shrink_node*",
            "shrink_lruvec",
            "shrink_slab*",
            "mem_cgroup_handle_over_high",
            "__mem_cgroup_handle_over_high",
            "reclaim_throttle",
            "throttle_direct_reclaim",
            "node_reclaim",
            "out_of_memory",
            "mem_cgroup_oom*",
        ],
        Mechanism::ReclaimDirect,
    ),
    (
        &[
            "compact_zone*",
            "try_to_compact_pages",
            "__alloc_pages_direct_compact",
            "compact_node*",
        ],
        Mechanism::CompactDirect,
    ),
    (
        &[
            "balance_dirty_pages*",
            "folio_wait_stable",
            "wait_for_stable_page",
            "__x64_sys_msync",
            "__do_sys_msync",
        ],
        Mechanism::Writeback,
    ),
    (
        &[
            "madvise_collapse",
            "collapse_huge_page",
            "hpage_collapse_*",
            "collapse_file",
        ],
        Mechanism::Collapse,
    ),
    (
        &[
            "handle_userfault",
            "userfaultfd_ioctl",
            "mfill_*",
            "mwriteprotect_range",
        ],
        Mechanism::Userfault,
    ),
    (
        &[
            "do_numa_page",
            "do_huge_pmd_numa_page",
            "migrate_misplaced_*",
            "migration_entry_wait*",
            "softleaf_entry_wait*",
            "pmd_migration_entry_wait",
            "task_numa_work",
            "change_prot_numa",
            "kernel_move_pages",
            "do_mbind",
            "do_migrate_pages",
            "migrate_pages*",
            "alloc_contig_*",
        ],
        Mechanism::Migrate,
    ),
];

/// Within one of these a program gets pages, so that zeroing is for a program.
const PAGE_GETTERS: &[&str] = &[
    "handle_mm_fault",
    "__handle_mm_fault",
    "exc_page_fault",
    "asm_exc_page_fault",
    "hugetlb_fault",
    "shmem_*",
    "__mm_populate",
];
const ZEROING_FUNCTIONS: &[&str] = &[
    "clear_page*",
    "clear_huge_page",
    "clear_gigantic_page",
    "clear_subpage",
    "clear_user_highpage*",
    "clear_highpage*",
    "clear_contig_*",
    "folio_zero_user",
    "folio_zero_*",
    "kernel_init_pages",
    "process_huge_page",
];
/// Pages of page tables are zeroed as well, and are no program's.
const TABLE_ALLOCATORS: &[&str] = &[
    "pte_alloc_one",
    "__pte_alloc*",
    "__pmd_alloc",
    "__pud_alloc",
    "__p4d_alloc",
    "pgd_alloc",
];

/// A page of a file is clean once it has been written out, and the next write to it faults again. No copy is made, so these are
/// faults of files and not of copy-on-write.
const DIRTYING_FAULTS: &[&str] = &[
    "wp_page_shared",
    "do_page_mkwrite",
    "fault_dirty_shared_page",
];

const FAULT_RULES: &[MechanismRule] = &[
    (&["do_swap_page", "swapin_*"], Mechanism::FaultSwap),
    (DIRTYING_FAULTS, Mechanism::FaultFile),
    (
        &[
            "do_wp_page",
            "wp_page_copy",
            "do_huge_pmd_wp_page",
            "do_cow_fault",
            "hugetlb_wp",
            "wp_huge_pmd",
        ],
        Mechanism::FaultCow,
    ),
    (
        &[
            "do_huge_pmd_anonymous_page",
            "__do_huge_pmd_anonymous_page",
            "vma_alloc_anon_folio_pmd",
            "hugetlb_fault",
            "hugetlb_no_page",
        ],
        Mechanism::FaultHuge,
    ),
    (
        &[
            "filemap_read_folio",
            "page_cache_ra_*",
            "page_cache_sync_ra",
            "page_cache_async_ra",
            "do_sync_mmap_readahead",
            "do_async_mmap_readahead",
            "ondemand_readahead",
        ],
        Mechanism::FaultMajor,
    ),
    (
        &[
            "do_fault",
            "do_read_fault",
            "do_shared_fault",
            "__do_fault",
            "filemap_fault",
            "filemap_map_pages",
            "do_fault_around",
            "finish_fault",
            "shmem_fault",
            "set_pte_range",
            "next_uptodate_folio",
        ],
        Mechanism::FaultFile,
    ),
    (
        &[
            "do_anonymous_page",
            "alloc_anon_folio",
            "do_pte_missing",
            "vma_alloc_folio*",
        ],
        Mechanism::FaultAnon,
    ),
    (
        &[
            "handle_mm_fault",
            "__handle_mm_fault",
            "handle_pte_fault",
            "do_user_addr_fault",
            "exc_page_fault",
            "asm_exc_page_fault",
            "lock_mm_and_find_vma",
            "faultin_page",
        ],
        Mechanism::FaultEntry,
    ),
];

/// A thread that sleeps in a fault of a file for one of these waits until its page has been read.
const PAGE_WAITS: &[&str] = &[
    "folio_wait_bit*",
    "__folio_lock*",
    "folio_put_wait_locked",
    "wait_on_page_bit*",
    "__lock_page*",
    "io_schedule*",
];

const CALL_RULES: &[MechanismRule] = &[
    (
        &[
            "exec_mmap",
            "begin_new_exec",
            "setup_arg_pages",
            "shift_arg_pages",
            "elf_map",
            "elf_load",
            "vm_brk_flags",
        ],
        Mechanism::Exec,
    ),
    (
        &[
            "dup_mm",
            "dup_mmap",
            "copy_mm",
            "copy_page_range",
            "anon_vma_fork",
        ],
        Mechanism::Fork,
    ),
    (
        &[
            "exit_mmap",
            "__mmput",
            "mmput",
            "mmput_async_fn",
            "exit_mm",
            "oom_reap*",
            "__oom_reap*",
        ],
        Mechanism::Exit,
    ),
    (
        &[
            "clear_refs_write",
            "smaps_*",
            "show_smap*",
            "show_map*",
            "show_numa_map*",
            "pagemap_*",
            "do_pagemap*",
            "do_mincore",
            "mincore_*",
            "__do_sys_mincore",
            "__x64_sys_mincore",
            "page_idle_*",
            "m_start",
            "m_next",
        ],
        Mechanism::Inspect,
    ),
    (
        &[
            "__mm_populate",
            "populate_vma_page_range",
            "do_mlock",
            "do_munlock",
            "mlock_*",
            "apply_mlockall_flags",
            "apply_vma_lock_flags",
            "madvise_populate",
        ],
        Mechanism::Populate,
    ),
    (
        &[
            "do_mremap",
            "__do_sys_mremap",
            "move_vma",
            "mremap_*",
            "move_page_tables",
        ],
        Mechanism::Remap,
    ),
    (
        &["__do_sys_brk", "__x64_sys_brk", "do_brk*"],
        Mechanism::Brk,
    ),
    (
        &[
            "do_mmap",
            "vm_mmap*",
            "ksys_mmap_pgoff",
            "mmap_region",
            "__mmap_region",
            "do_shmat",
        ],
        Mechanism::Map,
    ),
    (
        &[
            "__vm_munmap",
            "vm_munmap",
            "do_vmi_*",
            "do_munmap",
            "__do_munmap",
            "ksys_shmdt",
            "unmap_region",
        ],
        Mechanism::Unmap,
    ),
    (
        &[
            "do_madvise*",
            "madvise_*",
            "vector_madvise",
            "process_madvise",
        ],
        Mechanism::Advise,
    ),
    (
        &["mprotect_fixup", "do_mprotect_pkey", "change_protection*"],
        Mechanism::Protect,
    ),
];

/// The mechanism of a system call that does nothing but manage memory, by its number.
fn mechanism_of_call(nr: i32) -> Option<Mechanism> {
    Some(match system_call(nr)? {
        Sysno::mmap | Sysno::shmat => Mechanism::Map,
        Sysno::mprotect | Sysno::pkey_mprotect => Mechanism::Protect,
        Sysno::munmap | Sysno::shmdt => Mechanism::Unmap,
        Sysno::brk => Mechanism::Brk,
        Sysno::mremap => Mechanism::Remap,
        Sysno::msync => Mechanism::Writeback,
        Sysno::mincore => Mechanism::Inspect,
        Sysno::madvise | Sysno::process_madvise => Mechanism::Advise,
        Sysno::mlock | Sysno::munlock | Sysno::mlockall | Sysno::munlockall | Sysno::mlock2 => {
            Mechanism::Populate
        }
        _ => return None,
    })
}

/// The part of a mechanism that a function belongs to; the innermost function that is listed decides.
const PART_RULES: &[(&[&str], MechanismPart)] = &[
    (
        &[
            "native_queued_spin_lock_slowpath",
            "__pv_queued_spin_lock_slowpath",
            "queued_read_lock_slowpath",
            "queued_write_lock_slowpath",
            "pv_*lock*",
            "_raw_spin_lock*",
        ],
        MechanismPart::Spin,
    ),
    (
        &[
            "copy_mc_*",
            "copy_user_highpage*",
            "copy_page",
            "copy_highpage",
            "folio_copy",
            "copy_user_large_folio",
        ],
        MechanismPart::Copy,
    ),
    (
        &[
            "mem_cgroup_*",
            "__mem_cgroup_*",
            "try_charge*",
            "charge_memcg",
            "*memcg*",
            "__mod_memcg*",
            "mod_memcg*",
            "obj_cgroup_*",
            "uncharge_*",
            "page_counter_*",
            "get_mem_cgroup_from_mm",
            "__count_memcg_events",
            "count_memcg_events",
            "refill_stock",
            "consume_stock",
            "drain_stock",
        ],
        MechanismPart::Memcg,
    ),
    (
        &[
            "__alloc_pages*",
            "__alloc_frozen_pages*",
            "alloc_pages*",
            "alloc_frozen_pages*",
            "__folio_alloc*",
            "folio_alloc*",
            "vma_alloc_folio*",
            "get_page_from_freelist",
            "rmqueue*",
            "__rmqueue*",
            "prep_new_page",
            "post_alloc_hook",
            "kmem_cache_alloc*",
            "___slab_alloc",
            "__slab_alloc*",
        ],
        MechanismPart::Alloc,
    ),
    (
        &[
            "free_unref_*",
            "free_frozen_*",
            "__free_*",
            "free_pages*",
            "free_pcppages_bulk",
            "free_swap_cache",
            "free_folio*",
            "release_pages",
            "folios_put*",
            "__folio_put",
            "tlb_batch_pages_flush",
            "__tlb_batch_free*",
            "kmem_cache_free*",
            "__page_cache_release",
        ],
        MechanismPart::Free,
    ),
    (
        &[
            "folio_add_lru*",
            "lru_add*",
            "folio_batch_move_lru",
            "folio_lruvec_*",
            "lru_gen_*",
            "folio_mark_accessed",
            "__lru_*",
            "lru_cache_add*",
        ],
        MechanismPart::Lru,
    ),
    (
        &[
            "flush_tlb_*",
            "native_flush_tlb_*",
            "__flush_tlb_*",
            "tlb_flush*",
            "kvm_flush_tlb_*",
        ],
        MechanismPart::Flush,
    ),
    (
        &[
            "folio_add_*",
            "folio_remove_rmap*",
            "page_add_*",
            "page_remove_rmap*",
            "__folio_*rmap*",
        ],
        MechanismPart::Rmap,
    ),
    (
        &[
            "pte_alloc_one",
            "__pte_alloc*",
            "__pmd_alloc",
            "__pud_alloc",
            "pmd_install",
            "zap_*",
            "unmap_page_range",
            "unmap_vmas",
            "change_*",
            "copy_p*_range",
            "copy_page_range",
            "copy_present_*",
            "free_pgtables",
            "free_pgd_range",
            "free_p*_range",
            "move_page_tables",
            "move_ptes",
            "__pte_offset*",
            "pte_offset_map*",
            "walk_*",
            "__walk_page_range",
        ],
        MechanismPart::Tables,
    ),
    (
        &[
            "mas_*",
            "mt_*",
            "mtree_*",
            "vma_*",
            "__vma_*",
            "vms_*",
            "find_vma*",
            "lock_vma_under_rcu",
            "perf_event_mmap*",
            "security_*",
            "vm_area_*",
            "remove_vma",
            "can_vma_merge*",
        ],
        MechanismPart::Mappings,
    ),
];

/// The class of a kernel stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackClass {
    pub(crate) mechanism: Mechanism,
    pub(crate) part: MechanismPart,
}

/// Whether a name matches a pattern, in which `*` stands for any text, or none.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    // A stack takes thousands of these comparisons, and nearly all differ in the first letter: without this test two thirds of
    // an agent's own time went here.
    let first = pattern.as_bytes().first();
    if first != Some(&b'*') && first != name.as_bytes().first() {
        return false;
    }
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|begin| name.strip_prefix(begin)) else {
        return false;
    };
    let mut open = false;
    for part in parts {
        open = true;
        match rest.find(part) {
            // The last part has to be at the end of the name.
            _ if rest.ends_with(part) && pattern.ends_with(part) && !part.is_empty() => rest = "",
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || (open && pattern.ends_with('*'))
}

fn matches_any(patterns: &[&str], name: &str) -> bool {
    let name = without_suffix(name);
    patterns.iter().any(|p| matches_pattern(p, name))
}

fn has_any(stack: &[String], patterns: &[&str]) -> bool {
    stack.iter().any(|name| matches_any(patterns, name))
}

fn first_mechanism(stack: &[String], rules: &[MechanismRule]) -> Option<Mechanism> {
    let rule = rules.iter().find(|(patterns, _)| has_any(stack, patterns));
    rule.map(|(_, mechanism)| *mechanism)
}

/// The lock that the thread spins or sleeps for.
fn awaited_lock(stack: &[String], sleeps: bool, flags: u32) -> Option<Mechanism> {
    if sleeps && has_any(stack, MAPPING_LOCKS) {
        return Some(Mechanism::LockMmap);
    }
    let inner = stack
        .iter()
        .position(|name| matches_any(LOCK_WAITS, name))?;
    if flags & WAIT_MMAP != 0 {
        return Some(Mechanism::LockMmap);
    }
    let taker = stack[inner..]
        .iter()
        .find(|name| !matches_any(LOCK_CALLS, name))?;
    let is_another = flags & WAIT_LOCK != 0;
    if matches_any(RMAP_TAKERS, taker) || is_another && matches_any(TAKERS_OF_BOTH, taker) {
        return Some(Mechanism::LockRmap);
    }
    matches_any(MMAP_TAKERS, taker).then_some(Mechanism::LockMmap)
}

fn find_mechanism(stack: &[String], nr: i32, sleeps: bool, flags: u32) -> Option<Mechanism> {
    if let Some(thread) = first_mechanism(stack, KERNEL_THREAD_RULES) {
        return Some(thread);
    }
    if nr == NR_KTHREAD {
        return None;
    }
    if has_any(stack, REMOTE_CALL_FUNCTIONS) && has_any(stack, TLB_FLUSH_FUNCTIONS) {
        return Some(Mechanism::ShootdownWait);
    }
    if let Some(lock) = awaited_lock(stack, sleeps, flags) {
        return Some(lock);
    }
    if let Some(special) = first_mechanism(stack, SPECIAL_RULES) {
        return Some(special);
    }
    let gets_pages = has_any(stack, PAGE_GETTERS);
    if gets_pages && has_any(stack, ZEROING_FUNCTIONS) && !has_any(stack, TABLE_ALLOCATORS) {
        return Some(Mechanism::Zeroing);
    }
    if let Some(fault) = first_mechanism(stack, FAULT_RULES)
        .filter(|_| gets_pages || has_any(stack, &["faultin_page"]))
    {
        let reads = sleeps && has_any(stack, PAGE_WAITS);
        let written = ["folio_wait_writeback", "wait_on_page_writeback*"];
        return Some(match fault {
            Mechanism::FaultFile if sleeps && has_any(stack, &written) => Mechanism::Writeback,
            // The page is present, and locked by the thread that writes it out.
            Mechanism::FaultFile if reads && has_any(stack, DIRTYING_FAULTS) => {
                Mechanism::Writeback
            }
            Mechanism::FaultFile if reads => Mechanism::FaultMajor,
            fault => fault,
        });
    }
    first_mechanism(stack, CALL_RULES).or_else(|| mechanism_of_call(nr))
}

/// The class of a kernel stack, innermost function first; `None` for one that shows no memory management. `nr` is the
/// system call that the thread was in, and `flags` describe the lock that a sleeping thread waits for.
pub(super) fn classify_stack(
    stack: &[String],
    nr: i32,
    sleeps: bool,
    flags: u32,
) -> Option<StackClass> {
    // An interrupt of the program's own code is no work of the kernel for this program.
    if stack.is_empty() || (!sleeps && has_any(stack, INTERRUPT_ENTRIES)) {
        return None;
    }
    let mechanism = find_mechanism(stack, nr, sleeps, flags)?;
    let parts = |name: &String| {
        PART_RULES
            .iter()
            .find(|(patterns, _)| matches_any(patterns, name))
    };
    let part = stack.iter().find_map(parts).map(|(_, part)| *part);
    Some(StackClass {
        mechanism,
        part: match mechanism {
            // These have no parts.
            Mechanism::Zeroing
            | Mechanism::ShootdownWait
            | Mechanism::LockMmap
            | Mechanism::LockRmap => MechanismPart::Other,
            _ => part.unwrap_or(MechanismPart::Other),
        },
    })
}

/// The class of a sleep without a stack, for which the map of stacks had no room, by its system call.
pub(super) fn classify_by_call(nr: i32, flags: u32) -> Option<StackClass> {
    let mechanism = match nr {
        _ if flags & WAIT_MMAP != 0 => Mechanism::LockMmap,
        NR_FAULT => Mechanism::FaultEntry,
        nr => mechanism_of_call(nr)?,
    };
    Some(StackClass {
        mechanism,
        part: MechanismPart::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(s: &str) -> Vec<String> {
        s.split_whitespace().map(str::to_owned).collect()
    }

    /// Check that stacks as seen on Linux 6.18 give the mechanism that made them.
    #[test]
    fn stacks_tell_mechanisms() {
        let cases = [
            (
                "clear_page_erms clear_huge_page __do_huge_pmd_anonymous_page do_huge_pmd_anonymous_page __handle_mm_fault handle_mm_fault do_user_addr_fault exc_page_fault asm_exc_page_fault",
                Some((Mechanism::Zeroing, MechanismPart::Other)),
            ),
            (
                "rmqueue_bulk get_page_from_freelist __alloc_frozen_pages_noprof alloc_anon_folio do_anonymous_page __handle_mm_fault handle_mm_fault exc_page_fault asm_exc_page_fault",
                Some((Mechanism::FaultAnon, MechanismPart::Alloc)),
            ),
            (
                "clear_page_erms get_page_from_freelist __alloc_pages pte_alloc_one __pte_alloc do_anonymous_page handle_mm_fault exc_page_fault",
                Some((Mechanism::FaultAnon, MechanismPart::Alloc)),
            ),
            (
                "osq_lock rwsem_optimistic_spin rwsem_down_write_slowpath down_write_killable vm_mmap_pgoff do_syscall_64",
                Some((Mechanism::LockMmap, MechanismPart::Other)),
            ),
            (
                "osq_lock __mutex_lock pipe_write vfs_write do_syscall_64",
                None,
            ),
            (
                "rwsem_spin_on_owner rwsem_down_write_slowpath down_write ext4_buffered_write_iter vfs_write do_syscall_64",
                None,
            ),
            (
                "smp_call_function_many_cond on_each_cpu_cond_mask flush_tlb_mm_range tlb_finish_mmu zap_page_range_single madvise_vma_behavior do_madvise",
                Some((Mechanism::ShootdownWait, MechanismPart::Other)),
            ),
            (
                "smp_call_function_many_cond on_each_cpu_cond_mask membarrier_global_expedited do_syscall_64",
                None,
            ),
            (
                "shrink_folio_list shrink_lruvec do_try_to_free_pages try_to_free_pages alloc_anon_folio do_anonymous_page handle_mm_fault exc_page_fault",
                Some((Mechanism::ReclaimDirect, MechanismPart::Other)),
            ),
            (
                "copy_pte_range copy_page_range dup_mmap dup_mm copy_process kernel_clone do_syscall_64",
                Some((Mechanism::Fork, MechanismPart::Tables)),
            ),
            (
                "free_unref_folios folios_put_refs tlb_batch_pages_flush tlb_finish_mmu vms_clear_ptes do_vmi_align_munmap __vm_munmap",
                Some((Mechanism::Unmap, MechanismPart::Free)),
            ),
            (
                "__do_softirq __irq_exit_rcu sysvec_apic_timer_interrupt asm_sysvec_apic_timer_interrupt do_anonymous_page handle_mm_fault exc_page_fault",
                None,
            ),
            ("tcp_sendmsg sock_write_iter vfs_write do_syscall_64", None),
            (
                "osq_lock rwsem_optimistic_spin rwsem_down_write_slowpath down_write __mmap_region mmap_region do_mmap vm_mmap_pgoff do_syscall_64",
                Some((Mechanism::LockRmap, MechanismPart::Other)),
            ),
            (
                "ext4_dirty_inode file_update_time ext4_page_mkwrite do_page_mkwrite do_wp_page __handle_mm_fault handle_mm_fault do_user_addr_fault exc_page_fault asm_exc_page_fault",
                Some((Mechanism::FaultFile, MechanismPart::Other)),
            ),
            (
                "shrink_lruvec shrink_node balance_pgdat kswapd kthread ret_from_fork",
                Some((Mechanism::Kswapd, MechanismPart::Other)),
            ),
        ];
        for (text, expected) in cases {
            let found = classify_stack(&stack(text), 1, false, 0).map(|s| (s.mechanism, s.part));
            assert_eq!(found, expected, "{text}");
        }
    }

    /// Check that sleeps are told by what they wait for, and that the lock's address outdoes the names of functions.
    #[test]
    fn sleeps_tell_mechanisms() {
        let told =
            |text: &str, flags| classify_stack(&stack(text), 1, true, flags).map(|s| s.mechanism);
        let lock = "__schedule schedule rwsem_down_read_slowpath down_read";
        assert_eq!(
            told(&format!("{lock} m_start seq_read"), 0),
            Some(Mechanism::LockMmap)
        );
        assert_eq!(
            told(&format!("{lock} new_function"), WAIT_MMAP),
            Some(Mechanism::LockMmap)
        );
        assert_eq!(told(&format!("{lock} new_function"), 0), None);
        let write = "__schedule schedule rwsem_down_write_slowpath down_write";
        assert_eq!(
            told(
                &format!("{write} __mmap_region do_mmap vm_mmap_pgoff"),
                WAIT_LOCK
            ),
            Some(Mechanism::LockRmap)
        );
        for (flags, mechanism) in [
            (WAIT_LOCK, Mechanism::LockRmap),
            (WAIT_LOCK | WAIT_MMAP, Mechanism::LockMmap),
            (0, Mechanism::LockMmap),
        ] {
            let stack = format!("{write} dup_mmap dup_mm copy_process");
            assert_eq!(told(&stack, flags), Some(mechanism));
        }
        for wait in [
            "folio_wait_bit_common folio_wait_writeback",
            "io_schedule __folio_lock",
        ] {
            let stack =
                format!("__schedule schedule {wait} ext4_page_mkwrite do_page_mkwrite do_wp_page");
            assert_eq!(
                told(&format!("{stack} handle_mm_fault exc_page_fault"), 0),
                Some(Mechanism::Writeback)
            );
        }
        assert_eq!(
            told(
                "__schedule schedule io_schedule folio_wait_bit_common filemap_fault __do_fault do_fault handle_mm_fault",
                0
            ),
            Some(Mechanism::FaultMajor)
        );
        assert_eq!(
            told(
                "__schedule schedule io_schedule_timeout balance_dirty_pages ext4_buffered_write_iter vfs_write",
                0
            ),
            Some(Mechanism::Writeback)
        );
        assert_eq!(
            told(
                "__schedule schedule io_schedule folio_wait_bit_common filemap_read vfs_read",
                0
            ),
            None
        );
        assert_eq!(
            told(
                "__schedule schedule handle_userfault do_anonymous_page handle_mm_fault",
                0
            ),
            Some(Mechanism::Userfault)
        );
    }

    /// Check that a star stands for any text at each place.
    #[test]
    fn patterns_match() {
        for (pattern, name) in [
            ("munmap", "munmap"),
            ("*munmap", "__vm_munmap"),
            ("*memcg*", "try_charge_memcg"),
            ("zap_*", "zap_"),
            ("copy_p*_range", "copy_pte_range"),
        ] {
            assert!(matches_pattern(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("munmap", "munmap2"),
            ("*munmap", "munmapper"),
            ("zap_*", "azap_"),
            ("copy_p*_range", "copy_pte_ranges"),
        ] {
            assert!(!matches_pattern(pattern, name), "{pattern} {name}");
        }
    }

    /// Check that the way into a call that does nothing but manage memory is that call's, and of others nobody's.
    #[test]
    fn calls_own_their_entries() {
        let entry = stack("entry_SYSCALL_64_after_hwframe");
        assert_eq!(
            classify_stack(&entry, 11, false, 0).map(|s| s.mechanism),
            Some(Mechanism::Unmap)
        );
        assert_eq!(classify_stack(&entry, 0, false, 0), None);
        assert_eq!(classify_stack(&[], 11, false, 0), None);
    }
}
