//! Which kernel functions stand for which cause.
//!
//! Functions of mm/ as named in Linux 6.1 to 6.18, and of the series in kernel/luf. Compilers inline small ones, so every cause
//! names several on the way, and suffixes such as `.isra.0` don't count. The rules are tried from the
//! special to the general: compaction migrates pages, and direct compaction runs within a fault.

use quell_event::Cause;

/// A rule: if any of these functions is on the stack, this is the cause. A name that ends in `*`
/// stands for all that begin so.
type CauseRule = (&'static [&'static str], Cause);

const CAUSE_RULES: &[CauseRule] = &[
    // kernel/luf: the first rule is of pages that are held back, the second of a caller that needs the flush now.
    (
        &["luf_drain*", "luf_hold", "luf_work_fn", "luf_max_handler"],
        Cause::LufDeferred,
    ),
    (&["__luf_flush"], Cause::LufForced),
    (
        &[
            "ksm_scan_thread",
            "try_to_merge_*",
            "break_ksm*",
            "unmerge_ksm_pages",
            "ksm_madvise",
            "ksm_*",
            "cmp_and_merge_page",
            "replace_page",
        ],
        Cause::Ksm,
    ),
    (
        &[
            "migrate_misplaced_*",
            "do_numa_page",
            "do_huge_pmd_numa_page",
            "task_numa_work",
            "change_prot_numa",
        ],
        Cause::MigrateNuma,
    ),
    (
        &["demote_folio_list", "demote_page_list"],
        Cause::MigrateDemote,
    ),
    (
        &[
            "compact_zone*",
            "compact_node",
            "kcompactd*",
            "proactive_compact_node",
        ],
        Cause::Compaction,
    ),
    (&["madvise_collapse"], Cause::MadviseCollapse),
    (
        &[
            "khugepaged*",
            "collapse_huge_page",
            "collapse_file",
            "hpage_collapse_*",
            "collapse_pte_mapped_thp",
            "retract_page_tables",
        ],
        Cause::ThpCollapse,
    ),
    (
        &[
            "do_move_pages_to_node",
            "do_pages_move",
            "kernel_move_pages",
            "do_mbind",
            "kernel_mbind",
            "do_migrate_pages",
            "migrate_to_node",
            "queue_pages_range",
        ],
        Cause::MigrateMove,
    ),
    (
        &[
            "clear_refs_write",
            "page_idle_*",
            "damon_*",
            "kdamond*",
            "pagemap_scan*",
        ],
        Cause::Tracking,
    ),
    (
        &["madvise_pageout*", "madvise_cold_or_pageout_pte_range"],
        Cause::MadvisePageout,
    ),
    // A page that a debugger writes to may have to be copied first, so this comes before copy-on-write.
    (
        &[
            "ptrace_*",
            "__access_remote_vm",
            "mem_rw*",
            "uprobe_*",
            "install_breakpoint",
            "set_swbp",
            "process_vm_rw*",
        ],
        Cause::Debugger,
    ),
    (&["hugetlb_vmdelete_list"], Cause::Truncate),
    // the owner of a reserve takes the page from its child, within a fault: unmap_ref_private(), which
    // compilers inline; its only other caller is the one above
    (&["unmap_hugepage_range"], Cause::Hugetlb),
    (
        &[
            "do_wp_page",
            "wp_page_copy",
            "do_huge_pmd_wp_page",
            "do_cow_fault",
            "wp_pfn_shared",
            "hugetlb_wp",
        ],
        Cause::Cow,
    ),
    (
        &[
            "split_huge_page*",
            "__split_huge_p*",
            "__folio_split",
            "split_folio*",
            "deferred_split_scan",
            "split_huge_pmd*",
            "truncate_inode_partial_folio",
        ],
        Cause::ThpSplit,
    ),
    (
        &[
            "shrink_folio_list",
            "shrink_page_list",
            "shrink_inactive_list",
            "shrink_lruvec",
            "shrink_active_list",
            "evict_folios",
            "reclaim_pages",
            "reclaim_folio_list",
            "reclaim_clean_pages_from_list",
        ],
        Cause::Reclaim,
    ),
    (
        &[
            "migrate_pages*",
            "alloc_contig_*",
            "__alloc_contig_*",
            "offline_pages",
            "soft_offline_page",
            "do_migrate_range",
        ],
        Cause::MigrateOther,
    ),
    (
        &[
            "folio_mkclean",
            "page_mkclean",
            "page_vma_mkclean_one",
            "page_mkclean_one",
            "folio_clear_dirty_for_io",
            "clear_page_dirty_for_io",
            "pfn_mkclean_range",
            "dax_writeback_*",
        ],
        Cause::Writeback,
    ),
    (
        &[
            "userfaultfd_*",
            "mwriteprotect_range",
            "uffd_wp_range",
            "mfill_atomic*",
        ],
        Cause::Userfaultfd,
    ),
    (
        &[
            "unmap_mapping_*",
            "truncate_*",
            "invalidate_inode_pages2_range",
            "zap_vma_range*",
            "hugetlb_vmdelete_list",
        ],
        Cause::Truncate,
    ),
    (
        &["dup_mmap", "dup_mm", "copy_mm", "copy_page_range"],
        Cause::Fork,
    ),
    (
        &[
            "exec_mmap",
            "begin_new_exec",
            "bprm_execve",
            "shift_arg_pages",
            "setup_arg_pages",
        ],
        Cause::Exec,
    ),
    (
        &[
            "exit_mmap",
            "do_exit",
            "mmput*",
            "exit_mm*",
            "oom_reap*",
            "__oom_reap*",
        ],
        Cause::Exit,
    ),
    (
        &[
            "hugetlb_*",
            "__unmap_hugepage_range",
            "move_hugetlb_page_tables",
        ],
        Cause::Hugetlb,
    ),
    (
        &[
            "madvise_dontneed*",
            "madvise_free_*",
            "do_madvise*",
            "madvise_*",
            "vector_madvise",
        ],
        Cause::MadviseOther,
    ),
    (&["mprotect_fixup", "do_mprotect_pkey"], Cause::Mprotect),
    (
        &["move_vma", "mremap_*", "do_mremap", "move_page_tables"],
        Cause::Mremap,
    ),
    (&["do_brk*", "__do_sys_brk", "__x64_sys_brk"], Cause::Brk),
    (&["ksys_shmdt"], Cause::Shm),
    (&["mmap_region", "__mmap_region", "do_mmap"], Cause::Mmap),
    (
        &[
            "vms_clear_ptes",
            "unmap_region",
            "__vm_munmap",
            "do_vmi_*",
            "do_munmap",
        ],
        Cause::Munmap,
    ),
    (
        &[
            "ptep_clear_flush",
            "handle_mm_fault",
            "__handle_mm_fault",
            "handle_pte_fault",
        ],
        Cause::Cow,
    ),
];

/// A function's own name, without the suffix that a compiler added.
pub(crate) fn without_suffix(name: &str) -> &str {
    name.split(['.', '+']).next().unwrap_or(name)
}

fn matches_prefix(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// The cause of a kernel stack, innermost function first. `call` is the cause by the system call alone: it
/// stands where the stack agrees, or has no function that stands for a cause.
pub(crate) fn stack_cause(stack: &[String], call: Option<Cause>) -> Option<Cause> {
    let found = CAUSE_RULES.iter().find_map(|(patterns, cause)| {
        let hit = stack.iter().any(|frame| {
            patterns
                .iter()
                .any(|p| matches_prefix(p, without_suffix(frame)))
        });
        hit.then_some(*cause)
    });
    match (found, call) {
        // Only the registers have the advice.
        (Some(Cause::MadviseOther), Some(call)) if call.name().starts_with("madvise.") => {
            Some(call)
        }
        (Some(found), _) => Some(found),
        (None, call) => call,
    }
}

/// Functions that flush for all causes alike, and so tell nothing about the cause.
const PLUMBING_FUNCTIONS: &[&str] = &[
    "smp_call_function_*",
    "on_each_cpu_*",
    "flush_tlb_*",
    "native_flush_tlb_*",
    "kvm_flush_tlb_*",
    "tlb_*",
    "arch_tlbbatch_flush",
    "try_to_unmap_flush*",
    "__flush_tlb_*",
    "bpf_*",
    "__bpf_*",
    "csd_*",
    "__traceiter_*",
    "trace_*",
    "ptep_*",
    "pmdp_*",
    "__tlb_*",
];

/// The innermost function that tells more than that something is flushed.
pub(crate) fn first_telling_function(stack: &[String]) -> &str {
    stack
        .iter()
        .map(|f| without_suffix(f))
        .find(|f| !PLUMBING_FUNCTIONS.iter().any(|p| matches_prefix(p, f)))
        .unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(s: &str) -> Vec<String> {
        s.split_whitespace().map(str::to_owned).collect()
    }

    /// Check that stacks as seen on Linux 6.18 and 6.1 give the cause that made them.
    #[test]
    fn stacks_tell_causes() {
        let cases = [
            (
                "flush_tlb_mm_range ptep_clear_flush wp_page_copy do_wp_page __handle_mm_fault handle_mm_fault exc_page_fault",
                Cause::Cow,
            ),
            (
                "arch_tlbbatch_flush try_to_unmap_flush migrate_pages_batch migrate_pages compact_zone compact_node kcompactd",
                Cause::Compaction,
            ),
            (
                "arch_tlbbatch_flush try_to_unmap_flush shrink_folio_list shrink_lruvec do_try_to_free_pages handle_mm_fault",
                Cause::Reclaim,
            ),
            (
                "arch_tlbbatch_flush shrink_folio_list reclaim_folio_list reclaim_pages madvise_cold_or_pageout_pte_range",
                Cause::MadvisePageout,
            ),
            (
                "flush_tlb_mm_range page_vma_mkclean_one.constprop.0 rmap_walk_file folio_mkclean ext4_writepages wb_workfn kthread",
                Cause::Writeback,
            ),
            (
                "flush_tlb_mm_range dup_mmap copy_process kernel_clone __do_sys_clone",
                Cause::Fork,
            ),
            (
                "flush_tlb_mm_range write_protect_page try_to_merge_one_page ksm_scan_thread kthread",
                Cause::Ksm,
            ),
            (
                "flush_tlb_mm_range collapse_huge_page hpage_collapse_scan_pmd khugepaged kthread",
                Cause::ThpCollapse,
            ),
            (
                "flush_tlb_mm_range tlb_finish_mmu exit_mmap mmput exec_mmap begin_new_exec load_elf_binary",
                Cause::Exec,
            ),
            (
                "flush_tlb_mm_range ptep_clear_flush wp_page_copy handle_mm_fault __access_remote_vm mem_rw vfs_write",
                Cause::Debugger,
            ),
            (
                "flush_tlb_mm_range tlb_finish_mmu unmap_hugepage_range hugetlb_wp hugetlb_fault handle_mm_fault",
                Cause::Hugetlb,
            ),
            (
                "arch_tlbbatch_flush __luf_flush luf_drain luf_hold shrink_folio_list shrink_lruvec kswapd",
                Cause::LufDeferred,
            ),
            (
                "arch_tlbbatch_flush __luf_flush luf_drain luf_work_fn process_one_work worker_thread kthread",
                Cause::LufDeferred,
            ),
            (
                "arch_tlbbatch_flush __luf_flush flush_tlb_batched_pending zap_pte_range unmap_vmas __vm_munmap",
                Cause::LufForced,
            ),
            (
                "arch_tlbbatch_flush __luf_flush __filemap_get_folio iomap_get_folio iomap_file_buffered_write vfs_write",
                Cause::LufForced,
            ),
        ];
        for (text, cause) in cases {
            assert_eq!(stack_cause(&stack(text), None), Some(cause), "{text}");
        }
    }

    /// Check that the advice in the registers is kept, and that a special stack overrules the call.
    #[test]
    fn calls_and_stacks_agree() {
        let s = stack("flush_tlb_mm_range tlb_finish_mmu madvise_dontneed_single_vma do_madvise");
        assert_eq!(
            stack_cause(&s, Some(Cause::MadviseDontneed)),
            Some(Cause::MadviseDontneed)
        );
        assert_eq!(stack_cause(&s, None), Some(Cause::MadviseOther));
        let s = stack(
            "ptep_clear_flush wp_page_copy do_wp_page handle_mm_fault __put_user_4 mm_release",
        );
        assert_eq!(stack_cause(&s, Some(Cause::Fork)), Some(Cause::Cow));
    }

    /// Check that an unknown stack names the innermost function that isn't plumbing.
    #[test]
    fn unknown_names_its_function() {
        let s = stack(
            "smp_call_function_many_cond on_each_cpu_cond_mask flush_tlb_mm_range new_feature.isra.0 kthread",
        );
        assert_eq!(stack_cause(&s, None), None);
        assert_eq!(first_telling_function(&s), "new_feature");
        assert_eq!(first_telling_function(&[]), "unknown");
    }
}
