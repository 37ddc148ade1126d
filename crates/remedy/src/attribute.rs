//! Which allocator each observed shootdown came from.

use quell_event::Cause;

use crate::FoundSoftware;
use crate::copies::{after_a_split, in_metadata, is_metadata, is_of_zeros, share_out};
use crate::evidence::{Evidence, ShootdownSource, is_thread_end};
use crate::function_names::is_asked;
use crate::owner::{Owner, is_of_heap, likely_owner, owner_of};
use crate::share::{Share, ShootdownSplit};

/// The causes by which allocators give memory back, or change mappings.
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

/// Counts each source of the run to one origin; the first rule that fits decides. Causes that no allocator has come before ending
/// threads, and only what is left goes by its stack. Calls in `asked` are in their owner's share too.
///
/// Where there are no sources, the total is counted to the likely owner as a guess, without causes.
pub(crate) fn split_shootdowns(found: &[FoundSoftware], evidence: &Evidence) -> ShootdownSplit {
    let mut out = ShootdownSplit {
        allocators: vec![Share::default(); found.len()],
        ..ShootdownSplit::default()
    };
    let sum: u64 = evidence.sources.iter().map(|s| s.shootdowns).sum();
    out.total = if sum > 0 { sum } else { evidence.shootdowns };
    // These copies are counted last, because the calls of the others decide whose they are.
    let mut zeros: Vec<&ShootdownSource> = Vec::new();
    for source in &evidence.sources {
        if let Some(index) = after_a_split(found, evidence, source) {
            out.allocators[index].count_cause(source.cause, source.shootdowns);
        } else if is_of_zeros(evidence, source) && !is_metadata(found, source) {
            zeros.push(source);
        } else if !by_allocators(source.cause) && !in_metadata(found, source) {
            *out.others.entry(source.cause).or_default() += source.shootdowns;
        } else if is_thread_end(source) {
            out.threads.count_cause(source.cause, source.shootdowns);
        } else {
            if let Some(call) = asking_function(source) {
                *out.asked.entry(call).or_default() += source.shootdowns;
            }
            out.count_to_owner(found, source, owner_of(found, source, &evidence.wrappers));
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
        match likely_owner(found, None) {
            Some(index) => {
                out.allocators[index].count_cause(Cause::Other, evidence.shootdowns);
                out.allocators[index].guessed = evidence.shootdowns;
            }
            None => out.unknown = evidence.shootdowns,
        }
    }
    out
}

impl ShootdownSplit {
    /// Counts a source to its owner. A source whose owner is only likely is counted to nobody: a remedy needs a stack or the heap
    /// as evidence.
    fn count_to_owner(&mut self, found: &[FoundSoftware], source: &ShootdownSource, owner: Owner) {
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
        share.count_cause(source.cause, source.shootdowns);
        // Of copies only those of jemalloc's metadata come here: the others are counted elsewhere.
        if source.cause == Cause::Cow {
            share.metadata += source.shootdowns;
        }
        if source.region.as_deref().is_some_and(is_of_file) {
            *share.of_files.entry(source.cause).or_default() += source.shootdowns;
        }
    }
}

/// Whether a region is a mapping of a file, or of shared memory with a name. Allocators hand out neither.
fn is_of_file(region: &str) -> bool {
    region.starts_with("file ")
}

/// The function by which the program had memory given back, with its file, if it was one.
fn asking_function(source: &ShootdownSource) -> Option<String> {
    let symbol = source.caller_symbol.as_deref().filter(|s| is_asked(s))?;
    let file = source.caller_module.as_deref()?.file_name()?;
    Some(format!("{symbol} ({})", file.to_string_lossy()))
}
