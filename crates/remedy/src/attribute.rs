//! Which allocator each observed shootdown came from.

use quell_event::Cause;

use crate::Found;
use crate::copies::{after_a_split, in_metadata, is_metadata, is_of_zeros, share_out};
use crate::evidence::{Evidence, Source, is_thread_end};
use crate::function_names::is_asked;
use crate::owner::{Owner, is_of_heap, likely, owner};
use crate::share::{Share, Split};

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
