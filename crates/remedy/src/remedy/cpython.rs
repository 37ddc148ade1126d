//! CPython: arenas of small objects, which come and go.

use quell_event::Cause;

use super::{Remedy, RemedyAnswer};
use crate::SoftwareKind;

/// Would take small objects from malloc, and not from arenas: measured, and refused.
pub(super) const PYTHON_MALLOC: Remedy = Remedy {
    id: "cpython.malloc",
    stops: "munmap of pymalloc's arenas (1 MiB from 3.10 on, 256 KiB before), each when its last object is freed",
    worse: "PYTHONMALLOC=malloc: it stops them, and a loop that makes and drops objects takes 1.8 to 2.4 times as long, so it is never set; the preload library keeps the arenas",
    source: "docs/remedies-measured.md: CPython, measured on 3.11.2, Linux 6.18; docs.python.org, Memory Management; CPython Objects/obmalloc.c, _PyMem_ArenaFree",
    consider: |case| {
        case.allocator_of_kind(SoftwareKind::CPython)?;
        let arenas = case.part_of_causes(&[Cause::Munmap]) > 0.0;
        arenas.then(|| {
            RemedyAnswer::refuse(
                "PYTHONMALLOC=malloc stops the munmap of arenas (60 to 1 in the median of three runs), but making \
                 and dropping objects took 1.8 to 2.4 times as long",
            )
        })
    },
    ..Remedy::BY_SETTING
};
