//! CPython: small objects from malloc, and not from arenas that come and go.

use quell_event::Cause;

use super::{Case, Memory, Offer, Remedy, Verdict, one};
use crate::Kind;

/// Turns pymalloc off.
pub(super) struct Malloc;

impl Remedy for Malloc {
    fn id(&self) -> &'static str {
        "cpython.malloc"
    }

    fn stops(&self) -> &'static str {
        "munmap of pymalloc's arenas (1 MiB from 3.10 on, 256 KiB before), each when its last object is freed"
    }

    fn worse(&self) -> &'static str {
        "programs of many small objects, for which pymalloc is there: they get slower; the preload library keeps the arenas and is preferred"
    }

    fn source(&self) -> &'static str {
        "docs.python.org, Memory Management and PYTHONMALLOC (3.6); CPython Objects/obmalloc.c, _PyMem_ArenaFree. Not measured here"
    }

    fn consider(&self, case: &Case<'_>) -> Option<Verdict> {
        let found = case.allocator(Kind::CPython)?;
        let part = case.part(&[Cause::Munmap]);
        if part == 0.0 {
            return None;
        }
        if !found.at_least(3, 6, 0) {
            return Some(Verdict::refuse(
                "PYTHONMALLOC is a setting from Python 3.6 on, and this is older or of unknown age",
            ));
        }
        if let Some(set) = (case.env)("PYTHONMALLOC") {
            return Some(Verdict::Refuse(format!(
                "PYTHONMALLOC={set} is set already"
            )));
        }
        Some(Verdict::Offer(vec![Offer {
            sets: one("PYTHONMALLOC", "malloc"),
            stops: part * 0.9,
            memory: Memory::Unknown,
            cost: "small objects come from malloc, which is slower; neither that nor what it stops was measured here"
                .to_owned(),
            untried: true,
            ..Offer::default()
        }]))
    }
}
