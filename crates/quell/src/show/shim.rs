//! The counters of libquell.so as text.

use std::fmt::Write as _;
use std::time::Duration;

use super::style::heading;
use super::table::plain;
use super::units::{bytes, count, plural};
use crate::preload::Library;

/// The most processes in the text.
const MAX_PROCESSES_SHOWN: usize = 5;
/// Counters that are older are shown with their age.
const MAX_FRESH_AGE: Duration = Duration::from_millis(10);

/// A part of a summary for each process that has the library, and the reason where its counters could not be read; empty
/// where no process has it.
pub(crate) fn text(library: &Library) -> String {
    let mut out = String::new();
    for process in library.processes.iter().take(MAX_PROCESSES_SHOWN) {
        let (seen, age) = (&process.seen, process.age());
        let mut head = format!("libquell.so in {} {}", seen.pid, plain(&seen.comm));
        if age > MAX_FRESH_AGE {
            let _ = write!(head, ", as it was {} ms ago", count(age.as_millis() as u64));
        }
        heading(&mut out, &head);
        let n = |name| count(seen.get(name));
        let size = |name| bytes(seen.get(name));
        // Writing to a String does not fail.
        if seen.get("pinned") > 0 {
            let _ = writeln!(
                out,
                "  it keeps nothing: the kernel or a device may have hold of pages of this process"
            );
        }
        if seen.get("off") > 0 {
            let _ = writeln!(out, "  it is off: all calls go to the kernel");
        }
        let _ = writeln!(
            out,
            "  {} of {} mappings served from kept memory, {} of {} unmappings kept",
            n("mmap_served"),
            n("mmap"),
            n("munmap_kept"),
            n("munmap"),
        );
        let _ = writeln!(
            out,
            "  {} of {} MADV_DONTNEED zeroed, {} of {} MADV_FREE dropped",
            n("dontneed_zeroed"),
            n("dontneed"),
            n("free_dropped"),
            n("free"),
        );
        let _ = writeln!(
            out,
            "  kept now: {}; {} may be unused beside that",
            size("dirty_bytes"),
            size("keep_bytes"),
        );
        let _ = writeln!(
            out,
            "  given back in {} batches of {} regions; memory was short {}",
            n("trims"),
            n("trimmed"),
            plural(seen.get("pressure"), "time"),
        );
        let _ = writeln!(
            out,
            "  left to the kernel: {} not known to be plain, {} not expected to be used again, {} over the budget, {} because \
             it was busy",
            n("passed_unknown"),
            n("passed_unused"),
            n("passed_budget"),
            n("passed_busy"),
        );
        if seen.get("heap_trims") > 0 {
            let _ = writeln!(
                out,
                "  {} of {} calls of malloc_trim by the program gave nothing back",
                n("heap_trims_dropped"),
                n("heap_trims"),
            );
        }
    }
    let more = library.processes.len().saturating_sub(MAX_PROCESSES_SHOWN);
    if more > 0 {
        let _ = writeln!(
            out,
            "  and libquell.so in {} more",
            plural(more as u64, "process")
        );
    }
    if let Some(unread) = &library.unread {
        let _ = writeln!(out, "note: {unread}");
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::preload::counters::ShimCounters;

    /// Check the words, also for counters that could not be read, and that a process without the library has none.
    #[test]
    fn counters_in_words() {
        assert_eq!(text(&Library::default()), "");
        let seen = ShimCounters {
            pid: 7,
            comm: "a\u{1b}b".to_owned(),
            counters: quell_shim::Counters::NAMES
                .iter()
                .copied()
                .zip(1000..)
                .collect(),
        };
        let mut library = Library::default();
        library.remember(seen, Instant::now() + MAX_FRESH_AGE);
        library.unread = Some("try as root".to_owned());
        insta::assert_snapshot!(anstream::adapter::strip_str(&text(&library)), @r"

        libquell.so in 7 a?b
          it keeps nothing: the kernel or a device may have hold of pages of this process
          it is off: all calls go to the kernel
          1,001 of 1,000 mappings served from kept memory, 1,003 of 1,002 unmappings kept
          1,005 of 1,004 MADV_DONTNEED zeroed, 1,007 of 1,006 MADV_FREE dropped
          kept now: 1.01 kB; 1.01 kB may be unused beside that
          given back in 1,008 batches of 1,009 regions; memory was short 1,017 times
          left to the kernel: 1,015 not known to be plain, 1,019 not expected to be used again, 1,016 over the budget, 1,014 because it was busy
          1,026 of 1,025 calls of malloc_trim by the program gave nothing back
        note: try as root
        ");
    }
}
