//! Why a shootdown happened: a closed set, so that scripts, dashboards and remedies can rely on it.

use crate::named_enum;

named_enum! {
    /// Why a shootdown was asked for.
    ///
    /// The names are part of the contract: they never change once landed, more may be added.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum Cause documented as "a cause" {
        /// A mapping is removed: `munmap(2)`, also `free(3)` of a large block.
        Munmap = "munmap",
        /// Pages are given back at once: `madvise(MADV_DONTNEED)`, also for locked pages.
        MadviseDontneed = "madvise.dontneed",
        /// Pages may be taken back later: `madvise(MADV_FREE)`.
        MadviseFree = "madvise.free",
        /// Pages are marked as not needed soon: `madvise(MADV_COLD)`.
        MadviseCold = "madvise.cold",
        /// Pages are reclaimed on request: `madvise(MADV_PAGEOUT)`.
        MadvisePageout = "madvise.pageout",
        /// Pages of a shared mapping and their backing store are freed: `madvise(MADV_REMOVE)`.
        MadviseRemove = "madvise.remove",
        /// Pages are collapsed into a huge page on request: `madvise(MADV_COLLAPSE)`.
        MadviseCollapse = "madvise.collapse",
        /// Guard pages are put in place: `madvise(MADV_GUARD_INSTALL)`, from Linux 6.13.
        MadviseGuard = "madvise.guard",
        /// Any other advice, or an advice that could not be read (io_uring).
        MadviseOther = "madvise.other",
        /// Protection changes: `mprotect(2)`, `pkey_mprotect(2)`.
        Mprotect = "mprotect",
        /// A mapping moves or shrinks: `mremap(2)`.
        Mremap = "mremap",
        /// A new mapping replaces an old one: `mmap(2)` with `MAP_FIXED`.
        Mmap = "mmap",
        /// The heap shrinks: `brk(2)`.
        Brk = "brk",
        /// System V shared memory is detached: `shmdt(2)`.
        Shm = "shm",
        /// The address space of a process that ends is torn down.
        Exit = "exit",
        /// The old address space is torn down by `execve(2)`.
        Exec = "exec",
        /// Pages are write-protected for copy-on-write: `fork(2)`, `clone(2)` without `CLONE_VM`.
        Fork = "fork",
        /// The first write to a shared page: after fork, or after a read of untouched memory.
        Cow = "cow",
        /// File pages go away under a mapping: truncate, hole punch, invalidation.
        Truncate = "truncate",
        /// Dirty pages of a shared file mapping are write-protected to be written: `msync(2)`, kworkers.
        Writeback = "writeback",
        /// Memory is reclaimed: kswapd, direct reclaim, cgroup limits, swap.
        Reclaim = "reclaim",
        /// Automatic NUMA balancing: hinting faults are set up, or a page follows its thread.
        MigrateNuma = "migrate.numa",
        /// Pages are moved on request: `move_pages(2)`, `mbind(2)`, `migrate_pages(2)`, cpusets.
        MigrateMove = "migrate.move",
        /// Reclaim moves pages to a slower memory tier.
        MigrateDemote = "migrate.demote",
        /// Pages are moved for contiguous allocations, memory offlining or any other reason.
        MigrateOther = "migrate.other",
        /// Pages are moved to make free blocks: kcompactd or direct compaction.
        Compaction = "compaction",
        /// Same-page merging: ksmd protects and merges pages, or they are unmerged.
        Ksm = "ksm",
        /// khugepaged or a fault collapses pages into a huge page.
        ThpCollapse = "thp.collapse",
        /// A huge page is split.
        ThpSplit = "thp.split",
        /// Access tracking: DAMON, idle page tracking, `/proc/PID/clear_refs`, soft-dirty.
        Tracking = "tracking",
        /// Userfaultfd write protection or moves.
        Userfaultfd = "userfaultfd",
        /// Huge pages of hugetlbfs change hands or their sharing ends.
        Hugetlb = "hugetlb",
        /// Another process's memory is changed: ptrace, `/proc/PID/mem`, uprobes.
        Debugger = "debugger",
        /// Pages of files that reclaim or demotion has held back are flushed together, where the kernel has LUF.
        LufDeferred = "luf.deferred",
        /// A flush that LUF has deferred is made early: a mapping or a file changes.
        LufForced = "luf.forced",
        /// The kernel's own mappings: vmalloc, set_memory, modules. Not counted in `TLB:`.
        Kernel = "kernel",
        /// None of the above; the report names the top kernel function.
        Other = "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that every name parses back to its member and that no two share a name.
    #[test]
    fn names_round_trip() {
        for (i, c) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(c.name().parse(), Ok(c));
            assert_eq!(c as usize, i);
            assert!(!c.describe().trim().is_empty());
        }
    }

    /// Check that a foreign name is refused by name.
    #[test]
    fn unknown_is_refused() {
        let err = "mumap".parse::<Cause>().unwrap_err();
        assert_eq!(err.to_string(), "'mumap' is not a cause");
    }

    /// Check that docs/causes.md has every cause, with the words of its documentation here.
    #[test]
    fn documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/causes.md");
        let text = std::fs::read_to_string(path).unwrap();
        for c in Cause::ALL {
            let words: Vec<_> = c.describe().split_whitespace().collect();
            let row = format!("| `{c}` | {} |", words.join(" "));
            assert!(text.contains(&row), "docs/causes.md lacks: {row}");
        }
    }
}
