//! The cost of a page fault by its kind, and of giving a page beforehand by the call that asks for it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use rustix::fs::{Advice, fadvise};

use super::batch::TimeBatch;
use super::huge_pages::no_huge_pages;
use super::{Curve, CurveBench, CurvePart, SampleKind, prefault};
use crate::mechanism::SystemNeed;
use crate::memory::{HUGE_PAGE_BYTES, LabMapping, PAGE_BYTES};
use crate::os_result::os_result;
use crate::unnamed_file::create_written;

pub(super) const FAULTS_CURVE: Curve = Curve {
    name: "faults",
    about: "the first access to a page, by what has to be done for it, and giving pages beforehand, each page",
    x: "pages",
    // Without swap one series is missing.
    wants: &[SystemNeed::Swap],
    parts: |_| {
        let mut parts = vec![
            fault_part("no fault", 1, AccessKind::None),
            fault_part("anonymous write", 1, AccessKind::Write),
            fault_part("zero page read", 1, AccessKind::ZeroRead),
            fault_part("write after zero page", 1, AccessKind::AfterZero),
            fault_part("huge page first touch", 512, AccessKind::Huge),
            fault_part("shared file clean write", 1, AccessKind::MakeWritable),
            fault_part("major from file", 1, AccessKind::MajorFile),
            fault_part("major from swap", 1, AccessKind::MajorSwap),
        ];
        parts.extend(prefault::prefault_parts());
        parts
    },
    notes: &[
        "no fault is the control of the faults: a write to a page that is there, and the reading of the counter",
        "mmap alone is the control of what is given beforehand: the call, divided by its pages; these are means \
         over the pages of a call and have no percentiles of pages",
        "a major fault takes as long as the file's disk or the swap device: here each page is asked for alone \
         (MADV_RANDOM), and a host may have the disk in its memory",
    ],
    place_note: None,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessKind {
    None,
    Write,
    ZeroRead,
    AfterZero,
    Huge,
    MakeWritable,
    MajorFile,
    MajorSwap,
}

fn fault_part(series: &'static str, pages: u64, kind: AccessKind) -> CurvePart {
    CurvePart {
        series,
        per: "fault",
        sample: SampleKind::Operation,
        xs: vec![pages],
        prepare: Box::new(move |_| Ok(Box::new(FaultBench::new(kind)?))),
    }
}

/// Pages that are touched, one after the other, before all of them are reset.
const FAULT_PAGES: usize = 256;

/// The same number where each page comes from a disk.
const MAJOR_FAULT_PAGES: usize = 64;

/// The same number of huge pages.
const HUGE_FAULT_PAGES: usize = 8;

struct FaultBench {
    kind: AccessKind,
    mapping: LabMapping,
    /// The file that is mapped, if the memory is one's.
    file: Option<File>,
}

impl FaultBench {
    fn new(kind: AccessKind) -> io::Result<Self> {
        let mut file = None;
        let mapping = match kind {
            AccessKind::MakeWritable | AccessKind::MajorFile => {
                let pages = if kind == AccessKind::MajorFile {
                    MAJOR_FAULT_PAGES
                } else {
                    FAULT_PAGES
                };
                let written = file.insert(create_written(pages * PAGE_BYTES)?);
                let mapping = LabMapping::map_file(written, pages * PAGE_BYTES)?;
                if kind == AccessKind::MajorFile {
                    // There is no read-ahead, so that every page is a fault (mm/filemap.c: do_sync_mmap_readahead()).
                    mapping.advise(mapping.bytes(), libc::MADV_RANDOM)?;
                } else {
                    mapping.touch_pages();
                }
                mapping
            }
            AccessKind::Huge => {
                if let Some(why) = no_huge_pages() {
                    return Err(io::Error::other(why));
                }
                LabMapping::with_huge_pages(HUGE_FAULT_PAGES * HUGE_PAGE_BYTES, true)?
            }
            AccessKind::MajorSwap => {
                if !SystemNeed::Swap.is_there() {
                    return Err(io::Error::other("no swap to page out to (/proc/swaps)"));
                }
                let mapping = LabMapping::with_huge_pages(MAJOR_FAULT_PAGES * PAGE_BYTES, false)?;
                mapping.advise(mapping.bytes(), libc::MADV_RANDOM)?;
                mapping.fill_pages();
                mapping
            }
            AccessKind::None | AccessKind::Write | AccessKind::ZeroRead | AccessKind::AfterZero => {
                let mapping = LabMapping::with_huge_pages(FAULT_PAGES * PAGE_BYTES, false)?;
                mapping.fill_pages();
                mapping
            }
        };
        Ok(Self {
            kind,
            mapping,
            file,
        })
    }

    /// Resets the pages, so that the next access to each is the fault that is measured.
    fn reset_pages(&self) -> io::Result<()> {
        let advise = |advice| self.mapping.advise(self.mapping.bytes(), advice);
        match (self.kind, &self.file) {
            (AccessKind::MajorSwap, _) => advise(libc::MADV_PAGEOUT),
            (AccessKind::Write | AccessKind::ZeroRead | AccessKind::Huge, _) => {
                advise(libc::MADV_DONTNEED)
            }
            (AccessKind::AfterZero, _) => {
                advise(libc::MADV_DONTNEED)?;
                for offset in (0..self.mapping.bytes()).step_by(PAGE_BYTES) {
                    // SAFETY: within the mapping.
                    unsafe { self.mapping.start().add(offset).read_volatile() };
                }
                Ok(())
            }
            (AccessKind::MajorFile, Some(file)) => {
                advise(libc::MADV_DONTNEED)?;
                // It takes clean pages that nobody maps out of the page cache.
                Ok(fadvise(file, 0, None, Advice::DontNeed)?)
            }
            // A page that was written out is made clean and read only, so that the next write is noticed (mm/page-writeback.c:
            // folio_clear_dirty_for_io()); this call writes no metadata.
            (AccessKind::MakeWritable, Some(file)) => {
                let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                    | libc::SYNC_FILE_RANGE_WRITE
                    | libc::SYNC_FILE_RANGE_WAIT_AFTER;
                // SAFETY: no memory is passed.
                os_result(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) })
            }
            (AccessKind::None | AccessKind::MajorFile | AccessKind::MakeWritable, _) => Ok(()),
        }
    }
}

impl CurveBench for FaultBench {
    fn measure_batch(&mut self, _: u64, batch: &mut TimeBatch) -> io::Result<()> {
        let reads = matches!(self.kind, AccessKind::ZeroRead | AccessKind::MajorFile);
        let majors = matches!(self.kind, AccessKind::MajorFile | AccessKind::MajorSwap);
        let step = if self.kind == AccessKind::Huge {
            HUGE_PAGE_BYTES
        } else {
            PAGE_BYTES
        };
        while batch.goes_on() {
            self.reset_pages()?;
            for offset in (0..self.mapping.bytes()).step_by(step) {
                let before = if majors { major_faults() } else { 0 };
                // SAFETY: within the mapping, which lives as long as this.
                let at = unsafe { self.mapping.start().add(offset) };
                batch.time_operation(|| {
                    // SAFETY: a byte of it.
                    unsafe {
                        if reads {
                            at.read_volatile();
                        } else {
                            at.write_volatile(1);
                        }
                    }
                    Ok(())
                })?;
                // The page may have been read ahead, or may not have gone.
                if majors && major_faults() == before {
                    batch.forget_last();
                }
            }
        }
        Ok(())
    }
}

/// How often the calling thread had to wait for a disk (getrusage(2)).
fn major_faults() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one rusage there; all zero is a value of it, should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_majflt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsc;

    /// Check that a first write and a write to a clean page of a file take longer than a write to a page that is there,
    /// a huge page longer than a small one, and that what has no major faults says so by having no times.
    #[test]
    fn faults_take_their_time() {
        if tsc::tsc_quality().is_err() {
            return;
        }
        let mut batch = TimeBatch::new();
        let mut median = |kind| {
            let mut faults = FaultBench::new(kind).unwrap();
            batch.begin_batch(10_000_000);
            faults.measure_batch(1, &mut batch).unwrap();
            quell_stats::median(&batch.times())
        };
        let none = median(AccessKind::None);
        let write = median(AccessKind::Write);
        assert!(write > none && median(AccessKind::MakeWritable) > none);
        assert!(median(AccessKind::AfterZero) > none && median(AccessKind::ZeroRead) > none);
        if no_huge_pages().is_none() {
            assert!(median(AccessKind::Huge) > write);
        }
    }
}
