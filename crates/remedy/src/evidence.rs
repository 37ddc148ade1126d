//! The observation of one run, on which a plan rests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use quell_event::Cause;
use quell_event::account::Account;

use crate::Wrappers;
use crate::function_names::is_thread_code;

/// Below this many shootdowns in a run there is nothing worth changing: start and end of any threaded
/// program make a few dozen.
pub const FEW_SHOOTDOWNS: u64 = 50;

/// The observation of one run: the input of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// All shootdowns of the program.
    pub shootdowns: u64,
    /// Shootdowns by programs that were not watched, which hit watched ones. No source has them, and no remedy stops them, but
    /// the share that a plan promises is of these too.
    pub by_strangers: u64,
    /// It was watched from its start on, so no page of it was copied from a parent before.
    pub from_start: bool,
    /// Its page faults, if they were counted.
    pub page_faults: Option<u64>,
    /// Where they came from. Their sum may be less than the total, where stacks were sampled or lost;
    /// shares are then taken of the sum.
    pub sources: Vec<ShootdownSource>,
    /// The most memory that was resident, bytes, if it was measured.
    pub max_rss: Option<u64>,
    /// CPUs that the program may run on, if that is known.
    pub cpus: Option<u32>,
    /// Pages of 4 KiB in the ranges that were flushed, of all shootdowns whose range is known.
    pub pages: u64,
    /// Shootdowns whose range is not known: of more than 33 pages (`tlb_single_page_flush_ceiling`), or
    /// of everything.
    pub full: u64,
    /// The functions of the C library about memory that each file may call, where its symbols show that.
    pub wrappers: BTreeMap<PathBuf, Wrappers>,
    /// The program runs with the rights of its file (set-user-id and the like), so that the loader
    /// ignores `LD_PRELOAD`.
    pub secure: bool,
    /// Why no library may be loaded before the program for another reason, if so: a sanitizer, 32 bits.
    pub unfit: Option<String>,
    /// How much of its CPU time huge pages took, to be found, zeroed and mapped, in parts of a thousand.
    pub huge_time_permille: u32,
    /// The words of its command, where it is known, because they hold settings too.
    pub command: Vec<String>,
    /// Where its time went, if that was watched.
    pub spent: Option<ObservedTime>,
}

impl Evidence {
    /// The mean size of a block that is given back by one shootdown, in bytes; none where nothing bounds it.
    ///
    /// Memory that is given back and used again is faulted in again, so the faults bound it from above. Where no thread runs
    /// beside the culprit there is no shootdown, though, and the faults of such calls would be counted to the others; with fewer
    /// than [`FEW_SHOOTDOWNS`] they say nothing: 17 of a Redis and its 57,000 faults made blocks of 8 MB, where values have 0.4.
    /// The largest resident memory bounds it too: a program is taken to hold 32 such blocks at once. The ranges that the kernel
    /// reports bound it from below.
    #[must_use]
    pub fn mean_block(&self) -> Option<u64> {
        const PAGE_BYTES: u64 = 4096;
        let given = self.shootdowns.max(1);
        let ranges = (self.pages + 34 * self.full) * PAGE_BYTES / given;
        let faults = match self.page_faults {
            Some(faults) if self.shootdowns >= FEW_SHOOTDOWNS => {
                faults.saturating_mul(PAGE_BYTES) / given
            }
            _ => 0,
        };
        let most = self.max_rss.map_or(u64::MAX, |rss| rss / 32);
        Some(ranges.max(faults.min(most))).filter(|bytes| *bytes > 0)
    }
}

/// Where the time of a run went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedTime {
    /// The account.
    pub account: Account,
    /// Time that the watched threads lost as victims, ns: no sample shows it.
    pub hits_ns: u64,
    /// How long was watched, ns.
    pub duration_ns: u64,
}

/// Shootdowns of one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShootdownSource {
    /// Why.
    pub cause: Cause,
    /// The file of the code that called for it: that of the first user frame outside the C library's
    /// wrapper of the system call. For glibc's malloc that is the C library itself.
    pub caller_module: Option<PathBuf>,
    /// The function in that file, where it has a name.
    pub caller_symbol: Option<String>,
    /// The mapping at the address range: a file, `[heap]`, `[stack]`, an arena.
    pub region: Option<String>,
    /// How many.
    pub shootdowns: u64,
}

/// Whether it is of the stack of a thread that ends.
pub(crate) fn is_thread_end(source: &ShootdownSource) -> bool {
    let symbol = source.caller_symbol.as_deref().unwrap_or_default();
    is_thread_code(symbol)
        || source
            .region
            .as_deref()
            .is_some_and(|r| r.starts_with("[stack") || r.contains("thread stack"))
}
