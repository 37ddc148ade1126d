//! The mechanisms, one file each: the operation that the culprit repeats, and the facts that are known of it.

mod alloc;
mod brk;
mod collapse;
mod compact;
mod daemon_wait;
mod dontneed;
mod fork;
mod khugepaged;
mod ksm;
mod mapping_culprit;
mod mprotect;
mod mremap;
mod msync;
mod munmap;
mod numa;
mod pagemap;
mod pageout;
pub mod published;
mod soft_dirty;
mod split;
mod table_placement;
mod team;
mod thread;
mod truncate;
mod uffd;
mod untouched;

use std::io;
use std::time::Duration;

use quell_event::named_enum;

use crate::arm::{Arm, MIN_VALID_ROUNDS, VictimActivity};
use crate::params::{Param, Params};
use crate::resources::ResourceDemand;
use crate::victim::TouchedMemory;

/// One way to stall others.
#[derive(Debug)]
pub struct StallMechanism {
    /// The name on the command line.
    pub name: &'static str,
    /// The operation that the culprit repeats, in one sentence.
    pub about: &'static str,
    /// The parameters that a user may set.
    pub params: &'static [Param],
    /// Shootdowns that reach a victim for one operation, where that is a whole number by the kernel's code.
    pub expects: fn(&Params) -> Option<f64>,
    /// Whether its flushes leave the page tables where they are. Then a CPU that idles is not asked: it looks when it goes on
    /// whether it must flush (arch/x86/mm/tlb.c: should_flush_tlb()). A mechanism that frees page tables asks it too, once: it
    /// leaves the address space then.
    pub keeps_tables: bool,
    /// Whether the victim faults where it comes to pages that the mechanism has protected, moved or taken away. Other
    /// faults of the victim are not the culprit's.
    pub makes_faults: bool,
    /// Makes the culprit ready, in the process that it works in.
    pub prepare: fn(&Params) -> io::Result<Box<dyn Culprit>>,
    /// The memory and the disk that it takes with these parameters, by all of them together.
    pub takes: fn(&Params) -> ResourceDemand,
    /// The kernel threads that cause shootdowns on its behalf, by the beginnings of their names.
    pub daemons: &'static [&'static str],
    /// System settings that the lab turns on for it, and takes back.
    pub needs: &'static [SystemNeed],
    /// When the culprit works.
    pub timing: OperationTiming,
    /// The document that describes the same experiment.
    pub seed: Option<&'static published::PublishedExperiment>,
    /// A system setting that is turned on for blocks with the culprit beside the victim and off for all others, where the kernel
    /// would do the same to the victim's process without the culprit too. Whoever sets up the needs takes the setting back.
    pub switch: Option<fn(bool) -> io::Result<()>>,
    /// A requirement that this machine lacks once the needs are set up: the reason, in words.
    pub lacks: fn() -> Option<String>,
}

/// When the culprit works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationTiming {
    /// Again and again, for the whole block.
    Repeated,
    /// The same, in blocks so long that a kernel thread or a timer comes round in each.
    Slow {
        /// The length of a block, ms.
        block_ms: u64,
    },
    /// Once in a block, so that there is a before and an after.
    Once {
        /// The time from the begin of the block to the operation, ms.
        after_ms: u64,
        /// The length of a block, ms.
        block_ms: u64,
    },
}

impl OperationTiming {
    /// The length that a block must have, whatever the options say.
    #[must_use]
    pub fn block_time(self) -> Option<Duration> {
        match self {
            Self::Repeated => None,
            Self::Slow { block_ms } | Self::Once { block_ms, .. } => {
                Some(Duration::from_millis(block_ms))
            }
        }
    }

    /// The time that the fewest rounds before a verdict take; none where that is below any budget.
    #[must_use]
    pub fn least_budget(self) -> Option<Duration> {
        // The rounds before any verdict, and one more for one that does not count.
        let blocks = u32::try_from((MIN_VALID_ROUNDS + 1) * Arm::ALL.len()).unwrap_or(u32::MAX);
        self.block_time().map(|block| block.saturating_mul(blocks))
    }
}

named_enum! {
    /// A system setting that a mechanism needs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SystemNeed {
        /// Somewhere to swap to: where there is nothing, a compressed device in memory (zram).
        Swap = "swap",
        /// KSM that runs, and quickly.
        Ksm = "ksm",
        /// khugepaged that looks often.
        Khugepaged = "khugepaged",
        /// NUMA balancing that can be turned on, and is set back.
        NumaBalancing = "numa-balancing",
    }
}

impl StallMechanism {
    /// The predicted number for a victim that spins or sleeps.
    #[must_use]
    pub fn expected_hits(&self, params: &Params, mode: VictimActivity) -> Option<f64> {
        let spins = (self.expects)(params);
        match mode {
            VictimActivity::Spin => spins,
            VictimActivity::Sleep if self.keeps_tables => Some(0.0),
            VictimActivity::Sleep => spins.filter(|n| *n == 0.0),
        }
    }
}

/// A thing that repeats an operation.
pub trait Culprit: Send {
    /// Prepares a block in which the culprit is about to work.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn begin_block(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Prepares the next operation; this time is no part of it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn prepare_operation(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Does the operation.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn run_operation(&mut self) -> io::Result<()>;

    /// Cleans up after an operation; this time is no part of it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn clean_up(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Has the culprit's other threads, if it has any, run on these CPUs, of which the first is its own and none the victim's.
    /// Returns a remark on where they run, if a reader needs one.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn spread_threads(&mut self, cpus: &[u32]) -> io::Result<Option<String>> {
        let _ = cpus;
        Ok(None)
    }

    /// Memory that the victim reads once before the block begins, mapped until the first operation.
    fn warm_memory(&self) -> Option<TouchedMemory> {
        None
    }

    /// The memory that the victim touches while it spins, mapped as long as the culprit lives.
    fn touched_memory(&self) -> Option<TouchedMemory> {
        None
    }
}

/// The values that a mechanism starts from.
const DEFAULT_MECHANISM: StallMechanism = StallMechanism {
    name: "",
    about: "",
    params: &[],
    expects: |_| Some(0.0),
    keeps_tables: false,
    makes_faults: false,
    prepare: |_| Err(io::Error::other("no culprit")),
    takes: ResourceDemand::of_params,
    daemons: &[],
    needs: &[],
    timing: OperationTiming::Repeated,
    seed: None,
    switch: None,
    lacks: || None,
};

/// Pages that are surely unmapped within one gather, and so with one flush: a gather is full with somewhat less than
/// 10,000 (mm/mmu_gather.c: MAX_GATHER_BATCH_COUNT).
const MAX_GATHERED_PAGES: u64 = 8192;

/// The parameter for the pages of an operation.
const fn pages_param(default: u64, most: u64) -> Param {
    Param::new("pages", "pages of an operation", default, (1, most))
}

/// All mechanisms, in the order in which they are listed and run.
pub static ALL_MECHANISMS: &[StallMechanism] = &[
    untouched::UNTOUCHED_MECHANISM,
    dontneed::DONTNEED_MECHANISM,
    dontneed::MADV_FREE_MECHANISM,
    munmap::MUNMAP_MECHANISM,
    brk::BRK_MECHANISM,
    alloc::ALLOC_FREE_MECHANISM,
    mprotect::MPROTECT_MECHANISM,
    mremap::MREMAP_MECHANISM,
    thread::THREAD_EXIT_MECHANISM,
    truncate::TRUNCATE_MECHANISM,
    fork::FORK_MECHANISM,
    soft_dirty::SOFT_DIRTY_MECHANISM,
    uffd::UFFD_WP_MECHANISM,
    msync::MSYNC_MECHANISM,
    pageout::SWAP_MECHANISM,
    pageout::RECLAIM_FILE_MECHANISM,
    collapse::COLLAPSE_MECHANISM,
    khugepaged::KHUGEPAGED_MECHANISM,
    split::SPLIT_MECHANISM,
    compact::COMPACT_MECHANISM,
    ksm::KSM_MECHANISM,
    numa::MOVE_PAGES_MECHANISM,
    numa::DEMOTE_MECHANISM,
    numa::NUMA_BALANCING_MECHANISM,
    team::CONCURRENT_MECHANISM,
    team::CONVOY_MECHANISM,
    published::SEED_FREE_MECHANISM,
    published::SEED_MUNMAP_MECHANISM,
    published::SEED_WRITEBACK_MECHANISM,
];

/// The mechanism of that name.
#[must_use]
pub fn mechanism_by_name(name: &str) -> Option<&'static StallMechanism> {
    ALL_MECHANISMS.iter().find(|m| m.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that every mechanism can be found by a name of its own, says what it does in one sentence, and that its
    /// defaults lie within its ranges.
    #[test]
    fn all_are_whole() {
        for m in ALL_MECHANISMS {
            assert!(
                std::ptr::eq(mechanism_by_name(m.name).unwrap(), m),
                "{} twice",
                m.name
            );
            assert!(m.about.len() > 10 && !m.about.contains('\n'), "{}", m.name);
            for p in m.params {
                assert!(
                    (p.range.0..=p.range.1).contains(&p.default),
                    "{} {}",
                    m.name,
                    p.name
                );
            }
        }
    }

    /// Check that a sleeping victim is said to get none only where no page table is freed, and a spinning one what it was.
    #[test]
    fn asleep_is_known_or_not() {
        let per_op = |name: &str, mode| {
            let m = mechanism_by_name(name).unwrap();
            let params = Params::new(m.params, &[]).unwrap();
            m.expected_hits(&params, mode)
        };
        for (name, spinning, asleep) in [
            ("untouched", Some(0.0), Some(0.0)),
            ("dontneed", Some(1.0), Some(0.0)),
            ("mprotect", Some(2.0), Some(0.0)),
            ("munmap", Some(1.0), None),
            ("fork", None, None),
        ] {
            assert_eq!(per_op(name, VictimActivity::Spin), spinning, "{name}");
            assert_eq!(per_op(name, VictimActivity::Sleep), asleep, "{name}");
        }
    }

    /// Check that each culprit can repeat its operation, and that its victim's memory is still there afterwards.
    #[test]
    fn each_operates() {
        for m in ALL_MECHANISMS.iter().filter(|m| (m.lacks)().is_none()) {
            // what takes gigabytes by default does the same with less
            let known = |name: &str| m.params.iter().any(|p| p.name == name);
            let small = [("bytes".to_owned(), 4 << 20)];
            let said = if known("bytes") { &small[..] } else { &[] };
            let params = Params::new(m.params, said).unwrap();
            let mut culprit =
                (m.prepare)(&params).unwrap_or_else(|err| panic!("{}: {err}", m.name));
            // compaction moves the victim's own pages, as everybody's
            let touches = culprit.touched_memory().is_some() || m.name == "compact";
            assert!(touches || !m.makes_faults, "{}: faults on what?", m.name);
            for _ in 0..3 {
                let all = culprit
                    .prepare_operation()
                    .and_then(|()| culprit.run_operation())
                    .and_then(|()| culprit.clean_up());
                all.unwrap_or_else(|err| panic!("{}: {err}", m.name));
            }
            let mut victim =
                crate::victim::Victim::calibrated(1 << 22, culprit.touched_memory()).unwrap();
            victim.spin(1 << 20, culprit.touched_memory(), &false.into());
        }
    }
}
