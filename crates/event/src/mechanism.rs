//! Mechanisms, the work on which the kernel spends a program's time: a closed set, so that scripts, dashboards and remedies can rely on it.

use crate::named_enum;

named_enum! {
    /// The work on which memory management spent CPU time, or for which it made a thread sleep.
    ///
    /// The names are part of the contract: they never change once landed, more may be added.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum Mechanism documented as "a mechanism" {
        /// The first touch of an anonymous page, without the zeroing of it.
        FaultAnon = "fault.anon",
        /// The first touch of an anonymous huge page, or of one of hugetlbfs, without the zeroing of it.
        FaultHuge = "fault.huge",
        /// A page of a file or of shared memory that is in memory is mapped.
        FaultFile = "fault.file",
        /// A page of a file has to be read first.
        FaultMajor = "fault.major",
        /// The first write to a shared page, which is copied: after fork, or after a read of untouched memory.
        FaultCow = "fault.cow",
        /// A page comes back from swap.
        FaultSwap = "fault.swap",
        /// The way into a page fault and out of it, which is the same for all kinds; also faults of no other kind.
        FaultEntry = "fault.entry",
        /// Pages are filled with zeros before a program gets them, mostly within a fault.
        Zeroing = "zeroing",
        /// A mapping is made: `mmap(2)`, with what it replaces.
        Map = "map",
        /// A mapping is removed and its pages are freed: `munmap(2)`, also `free(3)` of a large block.
        Unmap = "unmap",
        /// `madvise(2)` of any kind, with the pages that it frees.
        Advise = "advise",
        /// Protection changes: `mprotect(2)`, `pkey_mprotect(2)`.
        Protect = "protect",
        /// A mapping moves or changes its length: `mremap(2)`.
        Remap = "remap",
        /// The heap grows or shrinks: `brk(2)`.
        Brk = "brk",
        /// Pages are locked into memory or made ready early: `mlock(2)`, MAP_POPULATE.
        Populate = "populate",
        /// The page tables of a process are copied for its child: `fork(2)`.
        Fork = "fork",
        /// The address space of a process that ends is torn down.
        Exit = "exit",
        /// The old address space is torn down by `execve(2)`, and the new one is made.
        Exec = "exec",
        /// The culprit of a shootdown looks for the CPUs that have to flush their TLBs, interrupts them and waits until they have.
        ShootdownWait = "shootdown.wait",
        /// A CPU is interrupted by a shootdown: hits times what one takes on this machine.
        ShootdownHit = "shootdown.hit",
        /// A thread waits for the lock of an address space or of one of its mappings, spinning or asleep.
        LockMmap = "lock.mmap",
        /// A thread waits for the lock of what maps a file or an anonymous page: fork, exit, reclaim and migration take it.
        LockRmap = "lock.rmap",
        /// A thread that needs memory frees some of others first: also for the limit of its cgroup.
        ReclaimDirect = "reclaim.direct",
        /// A thread that needs a large page moves others out of the way first.
        CompactDirect = "compact.direct",
        /// A writer waits until dirty pages are written, or for a page that is being written.
        Writeback = "writeback",
        /// Pages are moved: NUMA balancing, `move_pages(2)`, contiguous allocations, and who waits for it.
        Migrate = "migrate",
        /// Pages are collapsed into a huge page on request: `madvise(MADV_COLLAPSE)`.
        Collapse = "collapse",
        /// A fault that another thread handles by userfaultfd.
        Userfault = "userfault",
        /// Mappings and pages are looked at: `smaps`, `pagemap`, `clear_refs`, `mincore(2)`.
        Inspect = "inspect",
        /// The kernel's thread that frees memory in the background.
        Kswapd = "kswapd",
        /// The kernel's thread that makes room for large pages in the background.
        Kcompactd = "kcompactd",
        /// The kernel's thread that collapses pages into huge pages.
        Khugepaged = "khugepaged",
        /// The kernel's thread that merges equal pages.
        Ksmd = "ksmd",
        /// The kernel's threads that watch which memory is used (DAMON).
        Kdamond = "kdamond",
        /// The kernel's threads that write dirty pages.
        Flusher = "flusher",
    }
}

impl Mechanism {
    /// Says whether it is part of a page fault.
    #[must_use]
    pub fn is_fault(self) -> bool {
        self == Self::Zeroing || self.name().starts_with("fault.")
    }

    /// Says whether some setting, or a change in the program, can make less of it. No program can change the end of a process and of its
    /// memory, nor the work of the kernel's threads for the whole machine. `execve(2)` counts as its own: it tears down the copy that a
    /// fork made, which `posix_spawn(3)` does not make.
    #[must_use]
    pub fn can_be_touched(self) -> bool {
        !self.is_of_kernel_thread() && self != Self::Exit
    }

    /// Says whether one of the kernel's own threads does it, for the whole machine.
    #[must_use]
    pub fn is_of_kernel_thread(self) -> bool {
        matches!(
            self,
            Self::Kswapd
                | Self::Kcompactd
                | Self::Khugepaged
                | Self::Ksmd
                | Self::Kdamond
                | Self::Flusher
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that every name parses back to its member and that no two share a name.
    #[test]
    fn names_round_trip() {
        for (i, m) in Mechanism::ALL.into_iter().enumerate() {
            assert_eq!(m.name().parse(), Ok(m));
            assert_eq!(m as usize, i);
            let json = serde_json::to_string(&m).unwrap();
            assert_eq!(serde_json::from_str::<Mechanism>(&json).unwrap(), m);
        }
    }

    /// Check that a foreign name is refused by name.
    #[test]
    fn unknown_is_refused() {
        let err = "fault.anno".parse::<Mechanism>().unwrap_err();
        assert_eq!(err.to_string(), "'fault.anno' is not a mechanism");
    }

    /// Check that docs/mechanisms.md has every mechanism, with the words of its documentation here.
    #[test]
    fn documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mechanisms.md");
        let text = std::fs::read_to_string(path).unwrap();
        for m in Mechanism::ALL {
            let words: Vec<_> = m.describe().split_whitespace().collect();
            let row = format!("| `{m}` | {} |", words.join(" "));
            assert!(text.contains(&row), "docs/mechanisms.md lacks: {row}");
        }
    }
}
