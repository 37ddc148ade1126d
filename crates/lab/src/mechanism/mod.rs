//! One file a mechanism: what the culprit repeats, and what is known of it.

mod alloc;
mod brk;
mod collapse;
mod compact;
mod dontneed;
mod fork;
mod khugepaged;
mod ksm;
mod mprotect;
mod mremap;
mod msync;
mod munmap;
mod numa;
mod pagemap;
mod pageout;
mod place;
pub mod seed;
mod soft_dirty;
mod split;
mod team;
mod thread;
mod truncate;
mod uffd;
mod untouched;

use std::io;
use std::time::Duration;

use crate::block::Arm;
use crate::judge::FEWEST;
use crate::params::{Param, Params};
use crate::protocol::Mode;
use crate::room::Takes;
use crate::victim::Touch;

/// One way to stall others.
#[derive(Debug)]
pub struct Mechanism {
    /// As it is written on the command line.
    pub name: &'static str,
    /// What the culprit repeats, in one sentence.
    pub about: &'static str,
    /// What can be changed.
    pub params: &'static [Param],
    /// Shootdowns that reach a victim for one operation, where that is a whole number by the kernel's code.
    pub expects: fn(&Params) -> Option<f64>,
    /// Whether all that it flushes leaves the page tables where they are. Then a CPU that idles is not asked: it looks when
    /// it goes on whether it must flush (arch/x86/mm/tlb.c: should_flush_tlb()). Who frees page tables asks it too, once:
    /// it leaves the address space then.
    pub keeps_tables: bool,
    /// Whether the victim faults where it comes to pages that the mechanism has protected, moved or taken away. Other
    /// faults of the victim are not the culprit's.
    pub makes_faults: bool,
    /// Makes the culprit ready, in the process that it works in.
    pub prepare: fn(&Params) -> io::Result<Box<dyn Culprit>>,
    /// The memory and the disk that it takes with these parameters, by all of them together.
    pub takes: fn(&Params) -> Takes,
    /// The kernel threads that shoot on its behalf, by the beginnings of their names.
    pub daemons: &'static [&'static str],
    /// What of the system the lab sets up for it, and takes back.
    pub needs: &'static [Need],
    /// When the culprit works.
    pub timing: Timing,
    /// The document whose experiment it is.
    pub seed: Option<&'static seed::Seed>,
    /// What of the system is turned on for blocks with the culprit beside the victim and off for all others, where the
    /// kernel would do it to the victim's process without the culprit too. What it was before is for who sets up the
    /// needs to take back.
    pub switch: Option<fn(bool) -> io::Result<()>>,
    /// What it takes that this machine may lack, once that is set up: why not, in words.
    pub lacks: fn() -> Option<String>,
}

/// When the culprit works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Again and again, for the whole block.
    Repeated,
    /// The same, in blocks so long that a kernel thread or a timer comes round in each.
    Slow {
        /// So long is a block, ms.
        block_ms: u64,
    },
    /// Once in a block, so that there is a before and an after.
    Once {
        /// So long after the block begins, ms.
        after_ms: u64,
        /// So long is a block, ms.
        block_ms: u64,
    },
}

impl Timing {
    /// How long a block must be, whatever is asked for.
    #[must_use]
    pub fn block(self) -> Option<Duration> {
        match self {
            Self::Repeated => None,
            Self::Slow { block_ms } | Self::Once { block_ms, .. } => {
                Some(Duration::from_millis(block_ms))
            }
        }
    }

    /// What as many rounds take as something is said after; nothing where that is below any budget.
    #[must_use]
    pub fn least_budget(self) -> Option<Duration> {
        // those before which nothing is said, and one that does not count
        let blocks = u32::try_from((FEWEST + 1) * Arm::ALL.len()).unwrap_or(u32::MAX);
        self.block().map(|block| block.saturating_mul(blocks))
    }
}

/// What of the system a mechanism needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Somewhere to swap to: where there is nothing, a compressed device in memory (zram).
    Swap,
    /// KSM that runs, and quickly.
    Ksm,
    /// khugepaged that looks often.
    Khugepaged,
    /// NUMA balancing that can be turned on, and is set back.
    NumaBalancing,
}

impl Mechanism {
    /// The same for a victim that spins or sleeps.
    #[must_use]
    pub fn expected(&self, params: &Params, mode: Mode) -> Option<f64> {
        let spins = (self.expects)(params);
        match mode {
            Mode::Spin => spins,
            Mode::Sleep if self.keeps_tables => Some(0.0),
            Mode::Sleep => spins.filter(|n| *n == 0.0),
        }
    }
}

/// What repeats an operation.
pub trait Culprit: Send {
    /// What must be done before a block begins, with the culprit about to work in it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn begin_block(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// What must be done before an operation and is no part of it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn before(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The operation.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn operate(&mut self) -> io::Result<()>;

    /// What must be done after it and is no part of it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn after(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Has the culprit's other threads, if it has any, run on these CPUs, of which the first is its own and none the
    /// victim's. What has to be known of where they run, in words.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn spread(&mut self, cpus: &[u32]) -> io::Result<Option<String>> {
        let _ = cpus;
        Ok(None)
    }

    /// Memory that the victim reads once before the block begins, mapped until the first operation.
    fn warm(&self) -> Option<Touch> {
        None
    }

    /// The memory that the victim touches while it spins, mapped as long as the culprit lives.
    fn touch(&self) -> Option<Touch> {
        None
    }
}

/// Nothing is lacking.
fn nothing() -> Option<String> {
    None
}

/// What a mechanism starts from.
const DEFAULT: Mechanism = Mechanism {
    name: "",
    about: "",
    params: &[],
    expects: |_| Some(0.0),
    keeps_tables: false,
    makes_faults: false,
    prepare: |_| Err(io::Error::other("no culprit")),
    takes: Takes::plain,
    daemons: &[],
    needs: &[],
    timing: Timing::Repeated,
    seed: None,
    switch: None,
    lacks: nothing,
};

/// Pages that are surely unmapped within one gather, and so with one flush: a gather is full with somewhat less than
/// 10,000 (mm/mmu_gather.c: MAX_GATHER_BATCH_COUNT).
const GATHERED: u64 = 8192;

/// Pages that an operation is about.
const fn pages(default: u64, most: u64) -> Param {
    Param {
        name: "pages",
        about: "pages of an operation",
        default,
        range: (1, most),
    }
}

/// All of them, in the order in which they are listed and run.
pub static ALL: &[Mechanism] = &[
    untouched::UNTOUCHED,
    dontneed::DONTNEED,
    dontneed::FREE,
    munmap::MUNMAP,
    brk::BRK,
    alloc::ALLOC_FREE,
    mprotect::MPROTECT,
    mremap::MREMAP,
    thread::THREAD_EXIT,
    truncate::TRUNCATE,
    fork::FORK,
    soft_dirty::SOFT_DIRTY,
    uffd::UFFD_WP,
    msync::MSYNC,
    pageout::SWAP,
    pageout::RECLAIM_FILE,
    collapse::COLLAPSE,
    khugepaged::KHUGEPAGED,
    split::SPLIT,
    compact::COMPACT,
    ksm::KSM,
    numa::MOVE_PAGES,
    numa::DEMOTE,
    numa::BALANCING,
    team::CONCURRENT,
    team::CONVOY,
    seed::FREE,
    seed::MUNMAP,
    seed::WRITEBACK,
];

/// The mechanism of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Mechanism> {
    ALL.iter().find(|m| m.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that every mechanism can be found by a name of its own, says what it does in one sentence, and that its
    /// defaults lie within its ranges.
    #[test]
    fn all_are_whole() {
        for m in ALL {
            assert!(std::ptr::eq(find(m.name).unwrap(), m), "{} twice", m.name);
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
            let m = find(name).unwrap();
            let params = Params::new(m.params, &[]).unwrap();
            m.expected(&params, mode)
        };
        for (name, spinning, asleep) in [
            ("untouched", Some(0.0), Some(0.0)),
            ("dontneed", Some(1.0), Some(0.0)),
            ("mprotect", Some(2.0), Some(0.0)),
            ("munmap", Some(1.0), None),
            ("fork", None, None),
        ] {
            assert_eq!(per_op(name, Mode::Spin), spinning, "{name}");
            assert_eq!(per_op(name, Mode::Sleep), asleep, "{name}");
        }
    }

    /// Check that each culprit can repeat its operation, and that its victim's memory is still there afterwards.
    #[test]
    fn each_operates() {
        for m in ALL.iter().filter(|m| (m.lacks)().is_none()) {
            // what takes gigabytes by default does the same with less
            let known = |name: &str| m.params.iter().any(|p| p.name == name);
            let small = [("bytes".to_owned(), 4 << 20)];
            let said = if known("bytes") { &small[..] } else { &[] };
            let params = Params::new(m.params, said).unwrap();
            let mut culprit =
                (m.prepare)(&params).unwrap_or_else(|err| panic!("{}: {err}", m.name));
            // compaction moves the victim's own pages, as everybody's
            let touches = culprit.touch().is_some() || m.name == "compact";
            assert!(touches || !m.makes_faults, "{}: faults on what?", m.name);
            for _ in 0..3 {
                let all = culprit
                    .before()
                    .and_then(|()| culprit.operate())
                    .and_then(|()| culprit.after());
                all.unwrap_or_else(|err| panic!("{}: {err}", m.name));
            }
            let mut victim = crate::victim::Victim::calibrated(1 << 22, culprit.touch()).unwrap();
            victim.spin(1 << 20, culprit.touch(), &false.into());
        }
    }
}
