//! Freeing a large chunk, by its size and by how it is freed, with a peer that spins in the address space. munmap
//! gathers pages and flushes a batch at once (mm/mmu_gather.c: MAX_GATHER_BATCH_COUNT), madvise flushes once a call.

use std::io;

use super::batch::TimeBatch;
use super::huge_pages::no_huge_pages;
use super::peers::{PeerActivity, PeerThreads};
use super::{Curve, CurveBench, CurvePart, CurvePlace, SampleKind};
use crate::memory::{HUGE_PAGE_BYTES, LabMapping, PAGE_BYTES};

pub(super) const FREE_CHUNK_CURVE: Curve = Curve {
    name: "free-chunk",
    about: "freeing a chunk that was written, by munmap or piece by piece, while a peer spins on another CPU",
    x: "MiB",
    wants: &[],
    parts: |place| {
        let part = |series, how| free_part(series, how, place);
        let munmap = |huge| FreeMethod::Munmap { huge };
        let dontneed = |piece| FreeMethod::DontNeed { piece };
        vec![
            part("munmap, untouched", FreeMethod::Untouched),
            part("munmap, 4 KB pages", munmap(false)),
            part("munmap, huge pages", munmap(true)),
            part("DONTNEED, 2 MB each", dontneed(HUGE_PAGE_BYTES)),
            part("DONTNEED, 4 KB each", dontneed(PAGE_BYTES)),
        ]
    },
    notes: &[
        "munmap, untouched is the control: a mapping without pages",
        "this is the time of whoever frees; shootdowns and the stall of others are another thing: 'quell lab run \
         munmap', 'quell lab run dontneed'",
        "pieces are of 4 KB pages; in pieces of 4 KB up to 64 MiB are freed",
    ],
    place_note: None,
};

/// The sizes of the chunks, MiB.
const CHUNK_SIZES_MIB: [u64; 7] = [16, 32, 64, 128, 256, 512, 1024];

/// The largest chunk that is freed a page at a time, MiB: a gigabyte takes a second, and shows no more.
const MAX_SINGLY_FREED_MIB: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FreeMethod {
    Untouched,
    Munmap { huge: bool },
    DontNeed { piece: usize },
}

/// The sizes that fit into a quarter of the memory; the smallest in any case.
fn chunk_sizes(memory: u64, most: u64) -> Vec<u64> {
    let fits = |mib: &u64| *mib == CHUNK_SIZES_MIB[0] || (*mib <= most && mib << 20 <= memory / 4);
    CHUNK_SIZES_MIB.into_iter().filter(fits).collect()
}

fn free_part(series: &'static str, how: FreeMethod, place: &CurvePlace) -> CurvePart {
    let most = match how {
        FreeMethod::DontNeed { piece: PAGE_BYTES } => MAX_SINGLY_FREED_MIB,
        _ => u64::MAX,
    };
    CurvePart {
        series,
        per: "chunk",
        sample: SampleKind::Operation,
        xs: chunk_sizes(place.memory, most),
        prepare: Box::new(move |place| {
            if how == (FreeMethod::Munmap { huge: true })
                && let Some(why) = no_huge_pages()
            {
                return Err(io::Error::other(why));
            }
            let cpus = &place.others[..place.others.len().min(1)];
            let peers = PeerThreads::start_on(cpus, PeerActivity::Spin)?;
            Ok(Box::new(FreeBench { how, peers }))
        }),
    }
}

struct FreeBench {
    how: FreeMethod,
    peers: PeerThreads,
}

impl CurveBench for FreeBench {
    fn measure_batch(&mut self, mib: u64, batch: &mut TimeBatch) -> io::Result<()> {
        let bytes = usize::try_from(mib << 20).map_err(io::Error::other)?;
        let _busy = self.peers.begin_activity(batch)?;
        while batch.goes_on() {
            let area = LabMapping::with_huge_pages(
                bytes,
                self.how == (FreeMethod::Munmap { huge: true }),
            )?;
            if self.how != FreeMethod::Untouched {
                area.fill_pages();
            }
            match self.how {
                FreeMethod::Untouched | FreeMethod::Munmap { .. } => {
                    batch.time_operation(|| area.unmap())?;
                }
                FreeMethod::DontNeed { piece } => batch.time_operation(|| {
                    for offset in (0..bytes).step_by(piece) {
                        area.advise_range(offset, piece, libc::MADV_DONTNEED)?;
                    }
                    Ok(())
                })?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Check that chunks fit into a quarter of the memory, apart from the smallest, and that none is larger than asked.
        #[test]
        fn chunks_fit(memory in 0_u64..1 << 40, most in 0_u64..2000) {
            let sizes = chunk_sizes(memory, most);
            prop_assert_eq!(sizes[0], 16);
            prop_assert!(sizes[1..].iter().all(|s| *s <= most && (s << 20) * 4 <= memory));
        }
    }
}
