//! The names of the regions that shootdowns flush.
//!
//! A file, the heap and the main stack are known by their mapping. Anonymous memory has no name, and
//! after munmap not even a mapping: it is named by the code that gave it back, which is the
//! allocator's where an allocator did.

use quell_event::Cause;
use quell_event::trace::StackFrame;

use super::code::{Code, file_name_of};
use super::place::{FlushedRange, Place};
use super::quick_map::{NumberedSet, QuickMap};

/// Prefixes of the functions of allocators, each with the allocator's name.
const ALLOCATOR_PREFIXES: &[(&str, &str)] = &[
    ("_rjem_", "jemalloc"),
    ("rallocx", "jemalloc"),
    ("je_", "jemalloc"),
    ("jemalloc", "jemalloc"),
    ("pages_purge", "jemalloc"),
    ("pages_unmap", "jemalloc"),
    ("extent_", "jemalloc"),
    ("ehooks_", "jemalloc"),
    ("_mi_", "mimalloc"),
    ("mi_", "mimalloc"),
    ("unix_madvise", "mimalloc"),
    ("tcmalloc", "tcmalloc"),
    ("TCMalloc", "tcmalloc"),
    ("runtime.sysUnused", "the Go runtime"),
    ("runtime.sysFree", "the Go runtime"),
];

/// The functions of glibc that give memory of its malloc back.
const GLIBC_FUNCTIONS: &[&str] = &[
    "systrim",
    "munmap_chunk",
    "heap_trim",
    "_int_free",
    "free",
    "cfree",
    "realloc",
    "malloc_trim",
    "mremap_chunk",
    "sysmalloc",
    "shrink_heap",
    "_int_free_maybe_consolidate",
    "int_free",
    "libc_free",
    "libc_realloc",
    "libc_malloc",
    "malloc",
    "default_morecore",
    "glibc_morecore",
    "new_heap",
    "int_realloc",
    "arena_get2",
    "calloc",
    "libc_calloc",
];

/// The key that decides the name of a region. There are far fewer keys than places.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum RegionKey {
    Kernel,
    /// A whole address space that comes or goes.
    Life,
    /// Another process's memory, or pages of any in a batch.
    Others(bool),
    /// A mapping, by the number of its name.
    Mapping(u32),
    /// A user stack, and whether everything is flushed.
    Stack(i32, bool),
}

/// Regions by number. Each name is spelled out only once.
pub(crate) struct NumberedRegions<'a> {
    code: &'a Code,
    known: QuickMap<RegionKey, u32>,
    names: NumberedSet<String>,
}

impl<'a> NumberedRegions<'a> {
    pub(crate) fn new(code: &'a Code) -> Self {
        Self {
            code,
            known: QuickMap::default(),
            names: NumberedSet::default(),
        }
    }

    /// The number of the region at a place.
    pub(crate) fn number_of(&mut self, place: &Place) -> u32 {
        let full = place.is_full();
        let by = match (place.cause, place.at) {
            (Cause::Kernel, _) => RegionKey::Kernel,
            (Cause::Exit | Cause::Exec | Cause::Fork, _) => RegionKey::Life,
            (_, FlushedRange::Mapped(name)) => RegionKey::Mapping(name),
            _ if !place.is_own() => RegionKey::Others(full && in_batches(place.cause)),
            _ => RegionKey::Stack(place.user_stack, full),
        };
        if let Some(&number) = self.known.get(&by) {
            return number;
        }
        let name = match by {
            RegionKey::Kernel => "the kernel's own mappings".to_owned(),
            RegionKey::Life => "whole address space".to_owned(),
            RegionKey::Others(true) => "memory of any process, in a batch".to_owned(),
            RegionKey::Others(false) => "memory of another process".to_owned(),
            RegionKey::Mapping(name) => self.code.mappings().name(name).to_owned(),
            RegionKey::Stack(stack, full) => name_by_code(self.code.calling_frame(stack), full),
        };
        let number = self.names.insert_full(name).0 as u32;
        self.known.insert(by, number);
        number
    }

    /// The name of the region with this number; empty where there is none.
    pub(crate) fn name_of(&self, number: u32) -> &str {
        let name = self.names.get_index(number as usize);
        name.map_or("", String::as_str)
    }

    /// The names of all regions, by number.
    pub(crate) fn into_names(self) -> Vec<String> {
        self.names.into_iter().collect()
    }
}

/// The name of memory without a mapping, by the frame that asked. A full flush that an allocator asked for is of the allocator's
/// memory all the same: there was only much of it.
fn name_by_code(caller: Option<&StackFrame>, full: bool) -> String {
    let Some(caller) = caller else {
        let what = if full {
            "whole address space"
        } else {
            "anonymous memory"
        };
        return what.to_owned();
    };
    match (allocator_of(caller), caller.module.as_deref()) {
        (Some(name), Some(module)) => {
            format!("anonymous memory of {name} ({})", file_name_of(module))
        }
        (Some(name), None) => format!("anonymous memory of {name}"),
        (None, Some(module)) if full => {
            format!("whole address space, by {}", file_name_of(module))
        }
        (None, Some(module)) => format!("anonymous memory, by {}", file_name_of(module)),
        (None, None) => "anonymous memory".to_owned(),
    }
}

/// Whether a cause flushes in batches: reclaim and migration flush once for many pages of any process
/// (arch_tlbbatch_flush() in arch/x86/mm/tlb.c names no address space and flushes everything).
fn in_batches(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::Reclaim
            | Cause::MadvisePageout
            | Cause::Compaction
            | Cause::MigrateNuma
            | Cause::MigrateMove
            | Cause::MigrateDemote
            | Cause::MigrateOther
            | Cause::LufDeferred
            | Cause::LufForced
    )
}

/// The allocator that this code belongs to: by the name of its file, or else by the function, where it is linked into a program.
/// Any allocator may call a function `free`, so glibc's functions count in libc's file alone.
fn allocator_of(frame: &StackFrame) -> Option<&'static str> {
    let module = frame
        .module
        .as_deref()
        .map(file_name_of)
        .unwrap_or_default();
    let library = [
        ("libjemalloc", "jemalloc"),
        ("libmimalloc", "mimalloc"),
        ("libtcmalloc", "gperftools tcmalloc"),
    ];
    if let Some((_, name)) = library
        .iter()
        .find(|(prefix, _)| module.starts_with(prefix))
    {
        return Some(name);
    }
    let symbol = frame.symbol.as_deref()?;
    if let Some((_, name)) = ALLOCATOR_PREFIXES
        .iter()
        .find(|(prefix, _)| symbol.starts_with(prefix))
    {
        return Some(name);
    }
    let bare = symbol
        .split('@')
        .next()
        .unwrap_or(symbol)
        .trim_start_matches('_');
    let libc = module.starts_with("libc.") || module.starts_with("libc-");
    (libc
        && GLIBC_FUNCTIONS
            .iter()
            .any(|f| f.trim_start_matches('_') == bare))
    .then_some("glibc malloc")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::trace::{EventRow, MappedModule, TracedProcess, TracedStack};

    fn numbered_stack(id: u32, frames: Vec<StackFrame>) -> TracedStack {
        TracedStack {
            id,
            pid: Some(7),
            frames,
            ..TracedStack::default()
        }
    }

    fn named_frame(symbol: &str, module: &str) -> StackFrame {
        StackFrame {
            addr: 1,
            symbol: Some(symbol.to_owned()),
            module: Some(module.to_owned()),
            offset: Some(0),
            ..StackFrame::default()
        }
    }

    /// Check that mappings are named, and that anonymous memory is named by the code that gave it back.
    #[test]
    fn regions_are_named() {
        let process = TracedProcess {
            pid: 7,
            modules: vec![
                MappedModule {
                    path: "/data/db".into(),
                    start: 0x1000,
                    end: 0x5000,
                    ..MappedModule::default()
                },
                MappedModule {
                    path: "[heap]".into(),
                    start: 0x9000,
                    end: 0xa000,
                    ..MappedModule::default()
                },
            ],
            ..TracedProcess::default()
        };
        let stacks = vec![
            numbered_stack(
                0,
                vec![
                    named_frame("__madvise", "/lib/libc.so.6"),
                    named_frame("_rjem_je_pages_purge_forced", "/x/polars.abi3.so"),
                ],
            ),
            numbered_stack(
                1,
                vec![
                    named_frame("__munmap", "/lib/libc.so.6"),
                    named_frame("munmap_chunk", "/lib/libc.so.6"),
                ],
            ),
            numbered_stack(
                2,
                vec![
                    named_frame("munmap", "/lib/libc.so.6"),
                    named_frame("work", "/bin/app"),
                ],
            ),
            numbered_stack(
                3,
                vec![
                    named_frame("__kernel_vsyscall", "[vdso]"),
                    named_frame("work", "/bin/app"),
                ],
            ),
            numbered_stack(4, vec![named_frame("__kernel_vsyscall", "[vdso]")]),
        ];
        let code = Code::new([process], stacks);
        let found = |pid, start, full, user_stack, cause, own_mm| {
            let mut named = NumberedRegions::new(&code);
            let end = if full { u64::MAX } else { start + 4096 };
            let row = EventRow {
                pid,
                start,
                end,
                user_stack,
                cause,
                own_mm,
                ..EventRow::default()
            };
            let place = Place::of_row(&row, code.mappings());
            let number = named.number_of(&place);
            assert_eq!(named.number_of(&place), number);
            named.name_of(number).to_owned()
        };
        let name =
            |pid, start, full, user_stack| found(pid, start, full, user_stack, Cause::Munmap, true);
        assert_eq!(name(7, 0x2000, false, -1), "file /data/db");
        assert_eq!(name(7, 0x9000, false, -1), "[heap] (brk)");
        assert_eq!(
            name(7, 0x70000, false, 0),
            "anonymous memory of jemalloc (polars.abi3.so)"
        );
        assert_eq!(
            name(7, 0x70000, false, 1),
            "anonymous memory of glibc malloc (libc.so.6)"
        );
        assert_eq!(name(7, 0, true, 2), "whole address space, by app");
        assert_eq!(name(7, 0x70000, false, 3), "anonymous memory, by app");
        assert_eq!(name(7, 0x70000, false, 4), "anonymous memory");
        assert_eq!(name(7, 0, true, -1), "whole address space");
        assert_eq!(name(8, 0x2000, false, -1), "anonymous memory");
        assert_eq!(
            found(7, 0, true, 0, Cause::Reclaim, false),
            "memory of any process, in a batch"
        );
        let others = [
            (0x2000, false, Cause::MadviseDontneed),
            (0, true, Cause::Ksm),
        ];
        for (start, full, cause) in others {
            let region = found(7, start, full, 0, cause, false);
            assert_eq!(region, "memory of another process");
        }
    }
}
