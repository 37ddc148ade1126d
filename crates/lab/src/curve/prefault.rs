//! Pages that are given before they are needed: the cost of mapping them and making them present, for each page.

use std::io;

use rustix::mm::MapFlags;

use super::batch::Batch;
use super::{Bench, Part, Sample};
use crate::memory::{Mapping, PAGE};

/// Pages of a call.
const PAGES: [u64; 5] = [1, 8, 64, 512, 1024];

#[derive(Clone, Copy, Debug)]
enum How {
    /// The mapping alone.
    Alone,
    /// A write of one byte of each page, in order.
    Touch,
    /// mmap(2) with MAP_POPULATE.
    Populate,
    /// mlock(2).
    Lock,
    /// madvise(2) with MADV_POPULATE_WRITE, from Linux 5.14 on.
    PopulateWrite,
}

/// The parts, one a kind.
pub(super) fn parts() -> Vec<Part> {
    [
        ("mmap alone", How::Alone),
        ("touch in order", How::Touch),
        ("MAP_POPULATE", How::Populate),
        ("mlock", How::Lock),
        ("MADV_POPULATE_WRITE", How::PopulateWrite),
    ]
    .into_iter()
    .map(|(series, how)| Part {
        series,
        per: "page",
        sample: Sample::Mean,
        xs: PAGES.to_vec(),
        prepare: Box::new(move |_| {
            // MAP_POPULATE comes before any madvise could refuse huge pages: this process gets none (prctl(2)).
            // SAFETY: numbers only.
            if unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Box::new(Prefault(how)))
        }),
    })
    .collect()
}

struct Prefault(How);

impl Prefault {
    #[inline(always)]
    fn give(&self, bytes: usize) -> io::Result<Mapping> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let populate = match self.0 {
            How::Populate => MapFlags::POPULATE,
            _ => MapFlags::empty(),
        };
        let mapping = Mapping::map(bytes, flags | populate)?;
        match self.0 {
            How::Alone | How::Populate => {}
            How::Touch => mapping.touch(),
            How::PopulateWrite => mapping.advise(bytes, libc::MADV_POPULATE_WRITE)?,
            How::Lock => {
                // SAFETY: the whole of the mapping, which unlocks it when it goes.
                if unsafe { libc::mlock(mapping.start().cast(), mapping.bytes()) } != 0 {
                    let err = io::Error::last_os_error();
                    let why = format!("{err} (mlock(2), RLIMIT_MEMLOCK)");
                    return Err(io::Error::new(err.kind(), why));
                }
            }
        }
        Ok(mapping)
    }
}

impl Bench for Prefault {
    fn batch(&mut self, pages: u64, batch: &mut Batch) -> io::Result<()> {
        let bytes = usize::try_from(pages).map_err(io::Error::other)? * PAGE;
        while batch.goes_on() {
            // The mapping is dropped at once, which is not timed.
            batch.time_mean(pages, || self.give(bytes))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of a mapping that are there (mincore(2) says it of the page cache, /proc/self/pagemap of these).
    fn present(mapping: &Mapping) -> usize {
        use std::os::unix::fs::FileExt as _;
        let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
        let mut words = vec![0_u8; mapping.bytes() / PAGE * 8];
        let at = mapping.start() as u64 / PAGE as u64 * 8;
        pagemap.read_exact_at(&mut words, at).unwrap();
        // bit 63 (Documentation/admin-guide/mm/pagemap.rst), which everybody may read
        words.chunks_exact(8).filter(|w| w[7] & 0x80 != 0).count()
    }

    /// Check that each kind gives all its pages and the control gives none.
    #[test]
    fn pages_are_there() {
        for (how, pages) in [
            (How::Alone, 0),
            (How::Touch, 8),
            (How::Populate, 8),
            (How::Lock, 8),
            (How::PopulateWrite, 8),
        ] {
            let mapping = match Prefault(how).give(8 * PAGE) {
                Ok(mapping) => mapping,
                Err(_) if matches!(how, How::Lock | How::PopulateWrite) => continue,
                Err(err) => panic!("{how:?}: {err}"),
            };
            assert_eq!(present(&mapping), pages, "{how:?}");
        }
    }
}
