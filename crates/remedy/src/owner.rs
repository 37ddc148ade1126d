//! The owner of a source's shootdowns, by the stack: an allocator, the code of a file, or unknown.

use std::collections::BTreeMap;
use std::path::PathBuf;

use quell_event::Cause;

use crate::evidence::is_thread_end;
use crate::function_names::{is_libc_file, is_libc_malloc, is_wrapper};
use crate::{FoundSoftware, Linking, ShootdownSource, SoftwareKind, Wrappers, by_name};

/// Whose a source is. The flag says that this is only likely, because no stack proves it.
pub(crate) enum Owner {
    /// The allocator at this place of those found.
    Allocator(usize, bool),
    /// The code of this file, by calls of its own.
    Program(PathBuf, bool),
    /// Nobody is even likely.
    Unknown,
}

/// The owner of a source. The caller on the stack decides, if it is believed: not where it is a wrapper of the C library or its
/// code without a name, nor a file that can't have made such a call (`wrappers`; a file that they lack may have made any).
/// Elsewhere it is the most likely owner.
pub(crate) fn owner_of(
    found: &[FoundSoftware],
    source: &ShootdownSource,
    wrappers: &BTreeMap<PathBuf, Wrappers>,
) -> Owner {
    if let Some(module) = &source.caller_module {
        let symbol = source.caller_symbol.as_deref();
        // The same file may be known by different paths: /lib is a link to /usr/lib.
        let same =
            |f: &FoundSoftware| f.module == *module || f.module.file_name() == module.file_name();
        // The C library's malloc has no frame pointers, so that a stack leaves it out and names its caller in its place. That
        // file is known by not naming the function that was called. Runtimes such as Go's name none either, but make system calls
        // by themselves: a file with an allocator is believed.
        let named = |w: &Wrappers| w.may_ask(source.cause);
        let silent = !wrappers.get(module).is_none_or(named)
            && !found.iter().any(|f| f.kind.has_allocator() && same(f));
        let unknown = silent || is_libc_file(module) && symbol.is_none_or(is_wrapper);
        if !unknown {
            // A static program's own calls are in the file of its malloc.
            let foreign = |f: &FoundSoftware| {
                f.kind.is_libc()
                    && f.linking == Linking::Static
                    && symbol.is_some_and(|s| !is_libc_malloc(s))
            };
            let here = |wanted: &dyn Fn(&FoundSoftware) -> bool| {
                found
                    .iter()
                    .position(|f| f.kind.has_allocator() && same(f) && !foreign(f) && wanted(f))
            };
            // Python brings mimalloc along, whether it uses it or not, so the function's name decides.
            if let Some(named) = here(&|f| symbol.is_some_and(|s| owns_function(f, s))) {
                return Owner::Allocator(named, false);
            }
            // Of several in one file without a name to tell them apart, one may not be in use at all.
            let is_one = |f: &FoundSoftware| {
                f.kind.has_allocator() && same(f) && f.kind != SoftwareKind::CPython
            };
            let several = found.iter().filter(|f| is_one(f)).count() > 1;
            return match here(&|_| true) {
                Some(index) => {
                    let is_runtime = found[index].kind == SoftwareKind::CPython;
                    Owner::Allocator(index, several && !is_runtime)
                }
                None => Owner::Program(module.clone(), false),
            };
        }
    }
    match likely_owner(found, Some(source)) {
        // A stack through musl has no second frame at all. Its malloc asks for the same as a program that
        // names the function; there the program is more likely to, since few do.
        Some(index) if found[index].kind == SoftwareKind::Musl => {
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

/// The index of the allocator that caused a source's shootdowns, where a stack proves it. None where it was the program's own
/// code, by the stack, or a thread that ends.
///
/// # Errors
///
/// No stack names the caller.
pub fn calling_allocator(
    found: &[FoundSoftware],
    source: &ShootdownSource,
) -> Result<Option<usize>, Unattributed> {
    match owner_of(found, source, &BTreeMap::new()) {
        _ if is_thread_end(source) => Ok(None),
        Owner::Allocator(index, false) => Ok(Some(index)),
        Owner::Program(_, false) => Ok(None),
        Owner::Allocator(_, true) | Owner::Program(_, true) | Owner::Unknown => Err(Unattributed),
    }
}

/// No stack names the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unattributed;

/// The most likely owner where no stack names one: the allocator that took malloc's place, which gets its memory by sbrk(3)
/// too (gperftools, jemalloc's dss); without one, for `[heap]` and brk the C library, otherwise another allocator or runtime with one,
/// and the C library if there is none. Node and CPython stand aside, because they get most of their memory by malloc.
pub(crate) fn likely_owner(
    found: &[FoundSoftware],
    source: Option<&ShootdownSource>,
) -> Option<usize> {
    let libc = found.iter().position(|f| f.kind.is_libc());
    let malloc_replacement = found.iter().position(|f| f.replaces_malloc);
    if source.is_some_and(is_of_heap) {
        return malloc_replacement.or(libc);
    }
    let aside = [SoftwareKind::Node, SoftwareKind::CPython];
    let other = found
        .iter()
        .position(|f| f.kind.has_allocator() && !f.kind.is_libc() && !aside.contains(&f.kind));
    malloc_replacement.or(other).or(libc)
}

/// Whether it is the heap that is given back, which says whose it is: malloc's, whichever that is.
pub(crate) fn is_of_heap(source: &ShootdownSource) -> bool {
    let is_heap = |region: &str| region.starts_with("[heap]");
    source.cause == Cause::Brk || source.region.as_deref().is_some_and(is_heap)
}

/// Whether a function of this name is that allocator's.
pub(crate) fn owns_function(found: &FoundSoftware, symbol: &str) -> bool {
    let bare = symbol.trim_start_matches('_');
    match found.kind {
        // Its calls of the kernel are in `unix_mmap_prim`, `unix_madvise` and the like (src/prim/unix/prim.c).
        SoftwareKind::Mimalloc => bare.starts_with("mi_") || bare.contains("unix_m"),
        SoftwareKind::CPython => bare.starts_with("Py") || bare.contains("arena"),
        kind => {
            // An empty prefix, of a jemalloc without one, would own every function.
            let is_prefixed = |p: &String| !p.is_empty() && symbol.starts_with(p.as_str());
            found.prefix.as_ref().is_some_and(is_prefixed)
                || by_name::of_symbol(symbol, &found.module).is_some_and(|f| f.kind == kind)
        }
    }
}
