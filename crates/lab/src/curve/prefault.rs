//! Pages that are given before they are needed: the cost of mapping them and making them present, for each page.

use std::io;

use rustix::mm::MapFlags;

use super::batch::TimeBatch;
use super::{CurveBench, CurvePart, SampleKind};
use crate::memory::{LabMapping, PAGE_BYTES, set_huge_pages_off};

/// Pages of a call.
const PAGES_PER_CALL: [u64; 5] = [1, 8, 64, 512, 1024];

#[derive(Clone, Copy, Debug)]
enum PrefaultMethod {
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
pub(super) fn prefault_parts() -> Vec<CurvePart> {
    [
        ("mmap alone", PrefaultMethod::Alone),
        ("touch in order", PrefaultMethod::Touch),
        ("MAP_POPULATE", PrefaultMethod::Populate),
        ("mlock", PrefaultMethod::Lock),
        ("MADV_POPULATE_WRITE", PrefaultMethod::PopulateWrite),
    ]
    .into_iter()
    .map(|(series, how)| CurvePart {
        series,
        per: "page",
        sample: SampleKind::Mean,
        xs: PAGES_PER_CALL.to_vec(),
        prepare: Box::new(move |_| {
            // MAP_POPULATE comes before any madvise could refuse huge pages, so this process gets none.
            set_huge_pages_off(true)?;
            Ok(Box::new(PrefaultBench(how)))
        }),
    })
    .collect()
}

struct PrefaultBench(PrefaultMethod);

impl PrefaultBench {
    #[inline(always)]
    fn map_present(&self, bytes: usize) -> io::Result<LabMapping> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let populate = match self.0 {
            PrefaultMethod::Populate => MapFlags::POPULATE,
            _ => MapFlags::empty(),
        };
        let mapping = LabMapping::map_with_flags(bytes, flags | populate)?;
        match self.0 {
            PrefaultMethod::Alone | PrefaultMethod::Populate => {}
            PrefaultMethod::Touch => mapping.touch_pages(),
            PrefaultMethod::PopulateWrite => mapping.advise(bytes, libc::MADV_POPULATE_WRITE)?,
            PrefaultMethod::Lock => {
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

impl CurveBench for PrefaultBench {
    fn measure_batch(&mut self, pages: u64, batch: &mut TimeBatch) -> io::Result<()> {
        let bytes = usize::try_from(pages).map_err(io::Error::other)? * PAGE_BYTES;
        while batch.goes_on() {
            // The mapping is dropped at once, which is not timed.
            batch.time_mean(pages, || self.map_present(bytes))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of a mapping that are there (mincore(2) says it of the page cache, /proc/self/pagemap of these).
    fn present(mapping: &LabMapping) -> usize {
        use std::os::unix::fs::FileExt as _;
        let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
        let mut words = vec![0_u8; mapping.bytes() / PAGE_BYTES * 8];
        let at = mapping.start() as u64 / PAGE_BYTES as u64 * 8;
        pagemap.read_exact_at(&mut words, at).unwrap();
        // bit 63 (Documentation/admin-guide/mm/pagemap.rst), which everybody may read
        words.chunks_exact(8).filter(|w| w[7] & 0x80 != 0).count()
    }

    /// Check that each kind gives all its pages and the control gives none.
    #[test]
    fn pages_are_there() {
        for (how, pages) in [
            (PrefaultMethod::Alone, 0),
            (PrefaultMethod::Touch, 8),
            (PrefaultMethod::Populate, 8),
            (PrefaultMethod::Lock, 8),
            (PrefaultMethod::PopulateWrite, 8),
        ] {
            let mapping = match PrefaultBench(how).map_present(8 * PAGE_BYTES) {
                Ok(mapping) => mapping,
                Err(_) if matches!(how, PrefaultMethod::Lock | PrefaultMethod::PopulateWrite) => {
                    continue;
                }
                Err(err) => panic!("{how:?}: {err}"),
            };
            assert_eq!(present(&mapping), pages, "{how:?}");
        }
    }
}
