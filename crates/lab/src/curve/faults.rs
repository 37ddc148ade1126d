//! The cost of a page fault by its kind, and of giving a page beforehand by the call that asks for it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;

use super::area::{Area, no_huge_pages};
use super::batch::Batch;
use super::{Bench, Curve, Part, Sample, prefault};
use crate::file::written;
use crate::mechanism::Need;
use crate::memory::{HUGE, Mapping, PAGE};

pub(super) const CURVE: Curve = Curve {
    name: "faults",
    about: "the first access to a page, by what has to be done for it, and giving pages beforehand, each page",
    x: "pages",
    // Without swap one series is missing.
    wants: &[Need::Swap],
    parts: |_| {
        let mut parts = vec![
            part("no fault", 1, Kind::None),
            part("anonymous write", 1, Kind::Write),
            part("zero page read", 1, Kind::ZeroRead),
            part("write after zero page", 1, Kind::AfterZero),
            part("huge page first touch", 512, Kind::Huge),
            part("shared file clean write", 1, Kind::MakeWritable),
            part("major from file", 1, Kind::MajorFile),
            part("major from swap", 1, Kind::MajorSwap),
        ];
        parts.extend(prefault::parts());
        parts
    },
    notes: |_| {
        vec![
            "no fault is the control of the faults: a write to a page that is there, and the reading of the counter"
                .to_owned(),
            "mmap alone is the control of what is given beforehand: the call, divided by its pages; these are means \
             over the pages of a call and have no percentiles of pages"
                .to_owned(),
            "a major fault takes as long as the file's disk or the swap device: here each page is asked for alone \
             (MADV_RANDOM), and a host may have the disk in its memory"
                .to_owned(),
        ]
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    Write,
    ZeroRead,
    AfterZero,
    Huge,
    MakeWritable,
    MajorFile,
    MajorSwap,
}

fn part(series: &'static str, pages: u64, kind: Kind) -> Part {
    Part {
        series,
        per: "fault",
        sample: Sample::Operation,
        xs: vec![pages],
        prepare: Box::new(move |_| Ok(Box::new(Faults::new(kind)?))),
    }
}

/// Pages that are touched, one after the other, before all of them are reset.
const PAGES: usize = 256;

/// The same number where each page comes from a disk.
const MAJORS: usize = 64;

/// The same number of huge pages.
const HUGES: usize = 8;

enum Memory {
    Own(Area),
    File(Mapping, File),
}

struct Faults {
    kind: Kind,
    memory: Memory,
}

impl Faults {
    fn new(kind: Kind) -> io::Result<Self> {
        let memory = match kind {
            Kind::MakeWritable | Kind::MajorFile => {
                let pages = if kind == Kind::MajorFile {
                    MAJORS
                } else {
                    PAGES
                };
                let file = written(pages * PAGE)?;
                let mapping = Mapping::of_file(&file, pages * PAGE)?;
                if kind == Kind::MajorFile {
                    // There is no read-ahead, so that every page is a fault (mm/filemap.c: do_sync_mmap_readahead()).
                    mapping.advise(mapping.bytes(), libc::MADV_RANDOM)?;
                } else {
                    mapping.touch();
                }
                Memory::File(mapping, file)
            }
            Kind::Huge => {
                if let Some(why) = no_huge_pages() {
                    return Err(io::Error::other(why));
                }
                Memory::Own(Area::new(HUGES * HUGE, true)?)
            }
            Kind::MajorSwap => {
                let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
                if swaps.lines().count() < 2 {
                    return Err(io::Error::other("no swap to page out to (/proc/swaps)"));
                }
                let area = Area::new(MAJORS * PAGE, false)?;
                area.advise(0, area.bytes(), libc::MADV_RANDOM)?;
                area.fill();
                Memory::Own(area)
            }
            Kind::None | Kind::Write | Kind::ZeroRead | Kind::AfterZero => {
                let area = Area::new(PAGES * PAGE, false)?;
                area.fill();
                Memory::Own(area)
            }
        };
        Ok(Self { kind, memory })
    }

    /// Resets the pages, so that the next access to each is the fault that is measured.
    fn reset(&self) -> io::Result<()> {
        match (&self.memory, self.kind) {
            (Memory::Own(area), Kind::MajorSwap) => {
                area.advise(0, area.bytes(), libc::MADV_PAGEOUT)
            }
            (Memory::Own(area), Kind::Write | Kind::ZeroRead | Kind::Huge) => {
                area.advise(0, area.bytes(), libc::MADV_DONTNEED)
            }
            (Memory::Own(area), Kind::AfterZero) => {
                area.advise(0, area.bytes(), libc::MADV_DONTNEED)?;
                for offset in (0..area.bytes()).step_by(PAGE) {
                    // SAFETY: within the area.
                    unsafe { area.start().add(offset).read_volatile() };
                }
                Ok(())
            }
            (Memory::Own(_), _) => Ok(()),
            (Memory::File(mapping, file), Kind::MajorFile) => {
                mapping.advise(mapping.bytes(), libc::MADV_DONTNEED)?;
                // SAFETY: no memory is passed. It takes clean pages that nobody maps out of the page cache.
                match unsafe {
                    libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED)
                } {
                    0 => Ok(()),
                    err => Err(io::Error::from_raw_os_error(err)),
                }
            }
            // A page that was written out is made clean and read only, so that the next write is noticed (mm/page-writeback.c:
            // folio_clear_dirty_for_io()); this call writes no metadata.
            (Memory::File(_, file), _) => {
                let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                    | libc::SYNC_FILE_RANGE_WRITE
                    | libc::SYNC_FILE_RANGE_WAIT_AFTER;
                // SAFETY: no memory is passed.
                match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) } {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            }
        }
    }

    /// The address of the pages, their bytes, and the bytes from one touch to the next.
    fn pages(&self) -> (*mut u8, usize, usize) {
        let step = if self.kind == Kind::Huge { HUGE } else { PAGE };
        match &self.memory {
            Memory::Own(area) => (area.start(), area.bytes(), step),
            Memory::File(mapping, _) => (mapping.start(), mapping.bytes(), step),
        }
    }
}

impl Bench for Faults {
    fn batch(&mut self, _: u64, batch: &mut Batch) -> io::Result<()> {
        let reads = matches!(self.kind, Kind::ZeroRead | Kind::MajorFile);
        let majors = matches!(self.kind, Kind::MajorFile | Kind::MajorSwap);
        let (start, bytes, step) = self.pages();
        while batch.goes_on() {
            self.reset()?;
            for offset in (0..bytes).step_by(step) {
                let before = if majors { major_faults() } else { 0 };
                // SAFETY: within the memory, which is this value's own and stays mapped.
                let at = unsafe { start.add(offset) };
                batch.time(|| {
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
        if !tsc::is_usable() {
            return;
        }
        let mut batch = Batch::new();
        let mut median = |kind| {
            let mut faults = Faults::new(kind).unwrap();
            batch.begin(10_000_000);
            faults.batch(1, &mut batch).unwrap();
            quell_stats::median(&batch.times())
        };
        let none = median(Kind::None);
        let write = median(Kind::Write);
        assert!(write > none && median(Kind::MakeWritable) > none);
        assert!(median(Kind::AfterZero) > none && median(Kind::ZeroRead) > none);
        if no_huge_pages().is_none() {
            assert!(median(Kind::Huge) > write);
        }
    }
}
