//! Which allocator each observed shootdown came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quell_event::Cause;

use crate::copies::{after_a_split, in_metadata, is_metadata, is_of_zeros, share_out};
use crate::owner::{Owner, is_of_heap, likely, owner};
use crate::spent::{Spent, is_asked};
use crate::{FEW, Found, Wrappers};

/// What was observed of one run: the input of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// All shootdowns of the program.
    pub shootdowns: u64,
    /// Those beside the sources that other programs caused: shares of all are of these too.
    pub by_strangers: u64,
    /// It was watched from its start on, so that it has no pages of who forked it before.
    pub from_start: bool,
    /// Its page faults, if they were counted.
    pub page_faults: Option<u64>,
    /// Where they came from. Their sum may be less than the total, where stacks were sampled or lost;
    /// shares are then taken of the sum.
    pub sources: Vec<Source>,
    /// The most memory that was resident, bytes, if it was measured.
    pub max_rss: Option<u64>,
    /// CPUs that the program may run on, if that is known.
    pub cpus: Option<u32>,
    /// Pages of 4 KiB in the ranges that were flushed, of all shootdowns whose range is known.
    pub pages: u64,
    /// Shootdowns whose range is not known: of more than 33 pages (`tlb_single_page_flush_ceiling`), or
    /// of everything.
    pub full: u64,
    /// Which of the C library's functions about memory each file may call, where that can be told.
    pub wrappers: BTreeMap<PathBuf, Wrappers>,
    /// The program runs with the rights of its file (set-user-id and the like), so that the loader
    /// ignores `LD_PRELOAD`.
    pub secure: bool,
    /// Why no library may be loaded before the program for another reason, if so: a sanitizer, 32 bits.
    pub unfit: Option<String>,
    /// How much of its CPU time huge pages took, to be found, zeroed and mapped, in parts of a thousand.
    pub huge_time_permille: u32,
    /// The words of its command, where it is known: what they set nobody need guess.
    pub command: Vec<String>,
    /// Where its time went, if that was watched.
    pub spent: Option<Spent>,
}

impl Evidence {
    /// About how much memory is given back by one shootdown, bytes; none where nothing says.
    ///
    /// Memory that is given back and used again is faulted in again, so that the faults bound it from
    /// above; but where nobody runs beside the culprit there is no shootdown, and so much more is faulted in for
    /// each, and of fewer than [`FEW`] they say nothing: 17 of a Redis and its 57,000 faults made blocks of 8 MB, where
    /// values have 0.4. All that was ever resident bounds it too: a program is taken to hold 32 such blocks at once.
    /// The ranges that the kernel tells bound it from below.
    #[must_use]
    pub fn mean_block(&self) -> Option<u64> {
        const PAGE: u64 = 4096;
        let given = self.shootdowns.max(1);
        let ranges = (self.pages + 34 * self.full) * PAGE / given;
        let faults = match self.page_faults {
            Some(faults) if self.shootdowns >= FEW => faults.saturating_mul(PAGE) / given,
            _ => 0,
        };
        let most = self.max_rss.map_or(u64::MAX, |rss| rss / 32);
        Some(ranges.max(faults.min(most))).filter(|bytes| *bytes > 0)
    }
}

/// Shootdowns of one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Why.
    pub cause: Cause,
    /// The file of the code that called for it: that of the first user frame outside the C library's
    /// wrapper of the system call. For glibc's malloc that is the C library itself.
    pub caller_module: Option<PathBuf>,
    /// The function in that file, where it has a name.
    pub caller_symbol: Option<String>,
    /// What lies at the address range: a file, `[heap]`, `[stack]`, an arena.
    pub region: Option<String>,
    /// How many.
    pub shootdowns: u64,
}

/// The shootdowns of a run, split over the allocators found (by index) and the rest.
#[derive(Debug, Default)]
pub(crate) struct Split {
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
    /// By calls whose caller no stack names, by who may have made them: no remedy rests on that.
    pub(crate) guessed: BTreeMap<String, u64>,
    /// By causes that no allocator has: fork, exit, reclaim…
    pub(crate) others: BTreeMap<Cause, u64>,
    /// The sum of the sources, or the total where there are none.
    pub(crate) total: u64,
}

/// What one allocator asked for.
#[derive(Debug, Default, Clone)]
pub(crate) struct Share {
    /// In all.
    pub(crate) shootdowns: u64,
    /// By cause.
    pub(crate) causes: BTreeMap<Cause, u64>,
    /// How many are counted to it because nobody else could have asked, where nothing but a total is known.
    pub(crate) guessed: u64,
    /// Of those by cause, how many are on memory that the preload library passes on: mappings of files.
    pub(crate) of_files: BTreeMap<Cause, u64>,
    /// How many are copies of its own metadata.
    pub(crate) metadata: u64,
    /// How many are copies of what it had given back, and that go with that.
    pub(crate) refaulted: u64,
}

/// The causes by which allocators give memory back, or change what is mapped.
fn by_allocators(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::Munmap
            | Cause::MadviseDontneed
            | Cause::MadviseFree
            | Cause::MadviseOther
            | Cause::Mremap
            | Cause::Mmap
            | Cause::Brk
            | Cause::Mprotect
    )
}

/// The C library's wrappers: a stack that ends in one says nothing about who called it.
pub(crate) fn is_wrapper(symbol: &str) -> bool {
    let name = symbol
        .trim_start_matches('_')
        .split('@')
        .next()
        .unwrap_or_default();
    matches!(
        name,
        "munmap"
            | "madvise"
            | "mmap"
            | "mmap64"
            | "mremap"
            | "brk"
            | "sbrk"
            | "mprotect"
            | "syscall"
    )
}

/// Whether a function of this name works on the stacks of threads.
pub(crate) fn is_thread_code(symbol: &str) -> bool {
    let named = [
        "start_thread",
        "nptl_",
        "pthread_",
        "advise_stack",
        "free_stacks",
    ];
    named.iter().any(|n| symbol.contains(n))
}

pub(crate) fn is_thread_end(source: &Source) -> bool {
    let symbol = source.caller_symbol.as_deref().unwrap_or_default();
    is_thread_code(symbol)
        || source
            .region
            .as_deref()
            .is_some_and(|r| r.starts_with("[stack") || r.contains("thread stack"))
}

pub(crate) fn is_libc_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("ld-musl")
}

pub(crate) fn split(found: &[Found], evidence: &Evidence) -> Split {
    let mut out = Split {
        allocators: vec![Share::default(); found.len()],
        ..Split::default()
    };
    let sum: u64 = evidence.sources.iter().map(|s| s.shootdowns).sum();
    out.total = if sum > 0 { sum } else { evidence.shootdowns };
    // what the others are decides of these
    let mut zeros: Vec<&Source> = Vec::new();
    for source in &evidence.sources {
        if let Some(index) = after_a_split(found, evidence, source) {
            out.allocators[index].add(source.cause, source.shootdowns, false);
        } else if is_of_zeros(evidence, source) && !is_metadata(found, source) {
            zeros.push(source);
        } else if !by_allocators(source.cause) && !in_metadata(found, source) {
            *out.others.entry(source.cause).or_default() += source.shootdowns;
        } else if is_thread_end(source) {
            out.threads.add(source.cause, source.shootdowns, false);
        } else {
            if let Some(call) = asked(source) {
                *out.asked.entry(call).or_default() += source.shootdowns;
            }
            out.own(found, source, owner(found, source, &evidence.wrappers));
        }
    }
    for source in zeros {
        let left = share_out(found, evidence, source, &mut out);
        if left > 0 {
            *out.others.entry(source.cause).or_default() += left;
        }
    }
    if evidence.sources.is_empty() && evidence.shootdowns > 0 {
        // Nothing is known but the total.
        match likely(found, None) {
            Some(index) => out.allocators[index].add(Cause::Other, evidence.shootdowns, true),
            None => out.unknown = evidence.shootdowns,
        }
    }
    out
}

impl Split {
    /// Counts a source to its owner. What only may be somebody's is nobody's: a remedy needs a stack that says so, or the heap.
    fn own(&mut self, found: &[Found], source: &Source, owner: Owner) {
        let share = match owner {
            Owner::Allocator(index, false) => &mut self.allocators[index],
            // no stack says so, and the region does
            Owner::Allocator(index, true) if is_of_heap(source) => &mut self.allocators[index],
            Owner::Program(file, false) => self.own.entry(file).or_default(),
            Owner::Allocator(index, true) => {
                let who = found[index].kind.name().to_owned();
                *self.guessed.entry(who).or_default() += source.shootdowns;
                return;
            }
            Owner::Program(file, true) => {
                let name = file.file_name().unwrap_or(file.as_os_str());
                let who = name.to_string_lossy().into_owned();
                *self.guessed.entry(who).or_default() += source.shootdowns;
                return;
            }
            Owner::Unknown => {
                self.unknown += source.shootdowns;
                return;
            }
        };
        share.add(source.cause, source.shootdowns, false);
        if source.cause == Cause::Cow {
            share.metadata += source.shootdowns;
        }
        if source.region.as_deref().is_some_and(is_of_file) {
            *share.of_files.entry(source.cause).or_default() += source.shootdowns;
        }
    }
}

/// Whether a region is a mapping of a file, or of memory with a name that is shared: not what an allocator hands out.
fn is_of_file(region: &str) -> bool {
    region.starts_with("file ")
}

/// The function by which the program had memory given back, with its file, if it was one.
fn asked(source: &Source) -> Option<String> {
    let symbol = source.caller_symbol.as_deref().filter(|s| is_asked(s))?;
    let file = source.caller_module.as_deref()?.file_name()?;
    Some(format!("{symbol} ({})", file.to_string_lossy()))
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

    pub(crate) fn add(&mut self, cause: Cause, shootdowns: u64, guessed: bool) {
        self.shootdowns += shootdowns;
        *self.causes.entry(cause).or_default() += shootdowns;
        if guessed {
            self.guessed += shootdowns;
        }
    }
}
