//! The callers that the time of a run belongs to, as far as its account shows them.

use std::path::Path;

use quell_event::Mechanism;
use quell_event::account::AccountRow;

use crate::function_names::{is_asked, is_libc_malloc, is_thread_code};
use crate::owner::owns_function;
use crate::remedy::{RemedyCase, ShootdownOrigin};
use crate::{FoundSoftware, SoftwareKind};

/// A function with its file, as the account has them: `free (libc.so.6)`, or the file alone.
fn function_and_file(text: &str) -> (&str, &str) {
    match text.strip_suffix(')').and_then(|t| t.rsplit_once(" (")) {
        Some((function, file)) => (function, file),
        None => ("", text),
    }
}

fn base_name(path: &Path) -> &str {
    path.file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default()
}

/// Whose call a row of the account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledBy {
    /// This origin's, as it works.
    Itself,
    /// This allocator's, at a request of the program to give memory back.
    Asked,
    /// Another origin's.
    Others,
}

/// Whose call a row is, as this origin sees it. The account names the function outside of the C library and of allocators, and
/// beside it the function of theirs that it called. Programs with settings and the kernel make no calls of their own, so that to
/// them every row is of others.
pub(crate) fn called_by(case: &RemedyCase<'_>, row: &AccountRow) -> CalledBy {
    match case.origin {
        ShootdownOrigin::Allocator(found) => by_allocator(case, found, row),
        ShootdownOrigin::Own(file)
            if row.allocator.is_empty() && row.file.as_str() == base_name(file) =>
        {
            CalledBy::Itself
        }
        ShootdownOrigin::Threads if row.allocator.is_empty() && is_thread_code(&row.function) => {
            CalledBy::Itself
        }
        _ => CalledBy::Others,
    }
}

/// [`called_by`] for an allocator: the file decides, and where more than the allocator is in that file the function too.
fn by_allocator(case: &RemedyCase<'_>, found: &FoundSoftware, row: &AccountRow) -> CalledBy {
    let (function, file) = match row.allocator.as_str() {
        "" => (row.function.as_str(), row.file.as_str()),
        called => function_and_file(called),
    };
    if file != base_name(&found.module) {
        return CalledBy::Others;
    }
    // Of the C library, and of a program that has it inside, much else is in the same file.
    if found.kind.is_libc() && !is_libc_malloc(function) {
        return CalledBy::Others;
    }
    let beside = |f: &FoundSoftware| {
        f.module == found.module && f.kind != found.kind && f.kind.has_allocator()
    };
    // CPython's functions have no prefix in common, so that of CPython the file is enough.
    let shared = case.found.iter().any(beside);
    if shared && !owns_function(found, function) && found.kind != SoftwareKind::CPython {
        return CalledBy::Others;
    }
    match is_asked(function) {
        true => CalledBy::Asked,
        false => CalledBy::Itself,
    }
}

/// The call that a thread was in while it held a lock, from the words of the account: `munmap of 2 pages`, `madvise(MADV_FREE) of
/// 1 page`. A `page fault`, whose kind is not told, counts as one on anonymous memory. None for what no remedy touches.
pub(crate) fn call_of(doing: &str) -> Option<Mechanism> {
    match doing.split([' ', '(']).next()? {
        "munmap" => Some(Mechanism::Unmap),
        "mmap" => Some(Mechanism::Map),
        "madvise" | "process_madvise" => Some(Mechanism::Advise),
        "mprotect" => Some(Mechanism::Protect),
        "mremap" => Some(Mechanism::Remap),
        "brk" => Some(Mechanism::Brk),
        "page" => Some(Mechanism::FaultAnon),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that function and file are separated where the account has both, or one.
    #[test]
    fn functions_and_files() {
        let c = "TCMallocImplementation::ReleaseToSystem(unsigned long) (libtcmalloc.so.4)";
        assert_eq!(
            function_and_file(c),
            (
                "TCMallocImplementation::ReleaseToSystem(unsigned long)",
                "libtcmalloc.so.4"
            )
        );
        assert_eq!(
            function_and_file("libtcmalloc.so.4"),
            ("", "libtcmalloc.so.4")
        );
    }

    /// Check that a lock's holder is in one of the calls that remedies touch, and that other calls give none.
    #[test]
    fn holders_are_calls() {
        assert_eq!(call_of("munmap of 2 pages"), Some(Mechanism::Unmap));
        assert_eq!(
            call_of("madvise(MADV_DONTNEED) of 1 page"),
            Some(Mechanism::Advise)
        );
        assert_eq!(call_of("page fault"), Some(Mechanism::FaultAnon));
        assert_eq!(call_of("read /proc/1/smaps"), None);
        assert_eq!(call_of(""), None);
    }
}
