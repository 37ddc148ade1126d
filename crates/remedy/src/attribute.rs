//! Which allocator each observed shootdown came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quell_event::Cause;

use crate::copies::{after_a_split, in_metadata, is_metadata, is_of_zeros, share_out};
use crate::{FEW, Found, Kind, Linking, Wrappers};

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
    /// How many are counted to it because nobody else could have asked, not because a stack says so.
    pub(crate) guessed: u64,
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
fn is_wrapper(symbol: &str) -> bool {
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

pub(crate) fn is_thread_end(source: &Source) -> bool {
    let symbol = source.caller_symbol.as_deref().unwrap_or_default();
    let named = [
        "start_thread",
        "nptl_",
        "pthread_",
        "advise_stack",
        "free_stacks",
    ];
    named.iter().any(|n| symbol.contains(n))
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
            match owner(found, source, &evidence.wrappers) {
                Owner::Allocator(index, guessed) => {
                    let share = &mut out.allocators[index];
                    share.add(source.cause, source.shootdowns, guessed);
                    if source.cause == Cause::Cow {
                        share.metadata += source.shootdowns;
                    }
                }
                Owner::Program(file, guessed) => {
                    let share = out.own.entry(file).or_default();
                    share.add(source.cause, source.shootdowns, guessed);
                }
                Owner::Unknown => out.unknown += source.shootdowns,
            }
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

pub(crate) enum Owner {
    Allocator(usize, bool),
    Program(PathBuf, bool),
    Unknown,
}

pub(crate) fn owner(
    found: &[Found],
    source: &Source,
    wrappers: &BTreeMap<PathBuf, Wrappers>,
) -> Owner {
    if let Some(module) = &source.caller_module {
        let symbol = source.caller_symbol.as_deref();
        // The same file may be known by different paths: /lib is a link to /usr/lib.
        let same = |f: &Found| f.module == *module || f.module.file_name() == module.file_name();
        // The C library's malloc has no frame pointers: what is next on the stack has called that. Runtimes such as
        // Go's make system calls of their own, by no name.
        let named = |w: &Wrappers| w.may_ask(source.cause);
        let silent = !wrappers.get(module).is_none_or(named)
            && !found.iter().any(|f| f.kind.allocates() && same(f));
        let unknown = silent || is_libc_file(module) && symbol.is_none_or(is_wrapper);
        if !unknown {
            // A static program's own calls are in the file of its malloc.
            let foreign = |f: &Found| {
                f.kind.is_libc()
                    && f.linking == Linking::Static
                    && symbol.is_some_and(|s| !is_libc_malloc(s))
            };
            let here = |wanted: &dyn Fn(&Found) -> bool| {
                found
                    .iter()
                    .position(|f| f.kind.allocates() && same(f) && !foreign(f) && wanted(f))
            };
            // Python brings mimalloc along, whether it uses it or not: the name tells.
            let own = here(&|f| symbol.is_some_and(|s| names(f, s))).or_else(|| here(&|_| true));
            return match own {
                Some(index) => Owner::Allocator(index, false),
                None => Owner::Program(module.clone(), false),
            };
        }
    }
    match likely(found, Some(source)) {
        // A stack through musl has no second frame at all. Its malloc asks for the same as a program that
        // names the function; there the program is more likely to, since few do.
        Some(index) if found[index].kind == Kind::Musl => {
            let asks = |(file, by): &(&PathBuf, &Wrappers)| {
                !is_libc_file(file) && by.may_ask(source.cause)
            };
            match wrappers.iter().find(asks) {
                Some((file, _)) => Owner::Program(file.clone(), true),
                None => Owner::Allocator(index, true),
            }
        }
        Some(index) => Owner::Allocator(index, true),
        None => Owner::Unknown,
    }
}

/// Which of these allocators called for the shootdowns of a source, by its index: only where a stack says who did.
/// `Err` where none does.
///
/// # Errors
///
/// Nobody knows who called.
pub fn called(found: &[Found], source: &Source) -> Result<Option<usize>, Unattributed> {
    match owner(found, source, &BTreeMap::new()) {
        _ if is_thread_end(source) => Ok(None),
        Owner::Allocator(index, false) => Ok(Some(index)),
        Owner::Program(_, false) => Ok(None),
        Owner::Allocator(_, true) | Owner::Program(_, true) | Owner::Unknown => Err(Unattributed),
    }
}

/// No stack says who called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unattributed;

/// Who most likely asked when no stack says so: the allocator that took malloc's place, which gets its memory by sbrk(3)
/// too (gperftools, jemalloc's dss); without one, for `[heap]` and brk the C library, otherwise another allocator that was
/// built in on purpose, and the C library if there is none.
fn likely(found: &[Found], source: Option<&Source>) -> Option<usize> {
    let libc = found.iter().position(|f| f.kind.is_libc());
    let is_heap = |region: &str| region.starts_with("[heap]");
    let built_in = found.iter().position(|f| f.replaces_malloc);
    if source.is_some_and(|s| s.cause == Cause::Brk || s.region.as_deref().is_some_and(is_heap)) {
        return built_in.or(libc);
    }
    let aside = [Kind::Node, Kind::CPython];
    let other = found
        .iter()
        .position(|f| f.kind.allocates() && !f.kind.is_libc() && !aside.contains(&f.kind));
    built_in.or(other).or(libc)
}

/// The functions of glibc's and musl's malloc that give memory back, or map it.
fn is_libc_malloc(symbol: &str) -> bool {
    const NAMES: [&str; 26] = [
        "arena_get2",
        "calloc",
        "cfree",
        "free",
        "glibc_morecore",
        "default_morecore",
        "grow_heap",
        "heap_trim",
        "int_free",
        "int_free_maybe_consolidate",
        "int_malloc",
        "int_realloc",
        "libc_calloc",
        "libc_free",
        "libc_malloc",
        "libc_realloc",
        "malloc",
        "malloc_trim",
        "mremap_chunk",
        "munmap_chunk",
        "new_heap",
        "nontrivial_free",
        "realloc",
        "shrink_heap",
        "sysmalloc",
        "systrim",
    ];
    // GCC's clones: munmap_chunk.part.0, sysmalloc_mmap.isra.0
    let name = symbol.trim_start_matches('_');
    let name = name.split(['.', '@']).next().unwrap_or(name);
    NAMES.contains(&name) || name.starts_with("sysmalloc") || name.starts_with("libc_free_impl")
}

/// Whether a function of this name is that allocator's.
fn names(found: &Found, symbol: &str) -> bool {
    let symbol = symbol.trim_start_matches('_');
    match found.kind {
        Kind::Mimalloc => symbol.starts_with("mi_") || symbol.contains("unix_m"),
        Kind::CPython => symbol.starts_with("Py") || symbol.contains("arena"),
        _ => false,
    }
}
