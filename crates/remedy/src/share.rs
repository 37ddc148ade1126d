//! Shootdowns counted to their origins.

use std::collections::BTreeMap;
use std::path::PathBuf;

use quell_event::Cause;

/// The shootdowns of a run, split over the allocators found (by index) and the rest.
#[derive(Debug, Default)]
pub(crate) struct ShootdownSplit {
    /// One for each allocator found.
    pub(crate) allocators: Vec<Share>,
    /// By the program's own calls, from files where no allocator was found.
    pub(crate) own: BTreeMap<PathBuf, Share>,
    /// By code that has no name, where no allocator was found.
    pub(crate) unknown: u64,
    /// Given back by ending threads (their stacks).
    pub(crate) threads: Share,
    /// Of all, by calls for memory to be given back that the program makes itself, such as `malloc_trim (libc.so.6)`.
    pub(crate) asked: BTreeMap<String, u64>,
    /// By calls whose caller no stack names, under the likely caller: no remedy rests on that.
    pub(crate) guessed: BTreeMap<String, u64>,
    /// By causes that no allocator has: fork, exit, reclaim…
    pub(crate) others: BTreeMap<Cause, u64>,
    /// The sum of the sources, or the total where there are none.
    pub(crate) total: u64,
}

/// The shootdowns of one allocator, or of another origin.
#[derive(Debug, Default, Clone)]
pub(crate) struct Share {
    /// In all.
    pub(crate) shootdowns: u64,
    /// By cause.
    pub(crate) causes: BTreeMap<Cause, u64>,
    /// Those counted to it because no other origin was possible, where nothing but a total is known.
    pub(crate) guessed: u64,
    /// Of those by cause, how many are on memory that the preload library passes on: mappings of files.
    pub(crate) of_files: BTreeMap<Cause, u64>,
    /// How many are copies of its own metadata.
    pub(crate) metadata: u64,
    /// The number of copies of memory that it had given back: they vanish when that stops.
    pub(crate) refaulted: u64,
}

impl Share {
    /// By calls that give memory back.
    pub(crate) fn gives_back(&self) -> u64 {
        let of = |(cause, count): (&Cause, &u64)| match cause {
            Cause::Munmap | Cause::MadviseDontneed | Cause::MadviseFree | Cause::Brk => *count,
            _ => 0,
        };
        self.causes.iter().map(of).sum()
    }

    pub(crate) fn count_cause(&mut self, cause: Cause, shootdowns: u64) {
        self.shootdowns += shootdowns;
        *self.causes.entry(cause).or_default() += shootdowns;
    }
}
