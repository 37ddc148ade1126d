//! Freeing a large chunk, by its size and by how it is freed, with a peer that spins in the address space. munmap
//! gathers pages and flushes a batch at once (mm/mmu_gather.c: MAX_GATHER_BATCH_COUNT), madvise flushes once a call.

use std::io;

use super::area::{Area, no_huge_pages};
use super::batch::Batch;
use super::peers::{Does, Peers};
use super::{Bench, Curve, Part, Place, Sample};
use crate::memory::{HUGE, PAGE};

pub(super) const CURVE: Curve = Curve {
    name: "free-chunk",
    about: "freeing a chunk that was written, by munmap or piece by piece, while a peer spins on another CPU",
    x: "MiB",
    wants: &[],
    parts: |place| {
        vec![
            part("munmap, untouched", How::Untouched, place),
            part("munmap, 4 KB pages", How::Munmap { huge: false }, place),
            part("munmap, huge pages", How::Munmap { huge: true }, place),
            part("DONTNEED, 2 MB each", How::DontNeed { piece: HUGE }, place),
            part("DONTNEED, 4 KB each", How::DontNeed { piece: PAGE }, place),
        ]
    },
    notes: |_| {
        vec![
            "munmap, untouched is the control: a mapping without pages".to_owned(),
            "this is the time of whoever frees; shootdowns and the stall of others are another thing: 'quell lab run \
             munmap', 'quell lab run dontneed'"
                .to_owned(),
            "pieces are of 4 KB pages; in pieces of 4 KB up to 64 MiB are freed".to_owned(),
        ]
    },
};

/// The sizes of the chunks, MiB.
const SIZES: [u64; 7] = [16, 32, 64, 128, 256, 512, 1024];

/// The largest chunk that is freed a page at a time, MiB: a gigabyte takes a second, and shows no more.
const MOST_SINGLY: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Untouched,
    Munmap { huge: bool },
    DontNeed { piece: usize },
}

/// The sizes that fit into a quarter of the memory; the smallest in any case.
fn sizes(memory: u64, most: u64) -> Vec<u64> {
    let fits = |mib: &u64| *mib == SIZES[0] || (*mib <= most && mib << 20 <= memory / 4);
    SIZES.into_iter().filter(fits).collect()
}

fn part(series: &'static str, how: How, place: &Place) -> Part {
    let most = match how {
        How::DontNeed { piece: PAGE } => MOST_SINGLY,
        _ => u64::MAX,
    };
    Part {
        series,
        per: "chunk",
        sample: Sample::Operation,
        xs: sizes(place.memory, most),
        prepare: Box::new(move |place| {
            if how == (How::Munmap { huge: true })
                && let Some(why) = no_huge_pages()
            {
                return Err(io::Error::other(why));
            }
            let cpus = &place.others[..place.others.len().min(1)];
            let peers = Peers::on(cpus, Does::Spin)?;
            Ok(Box::new(Free { how, peers }))
        }),
    }
}

struct Free {
    how: How,
    peers: Peers,
}

impl Bench for Free {
    fn batch(&mut self, mib: u64, batch: &mut Batch) -> io::Result<()> {
        let bytes = usize::try_from(mib << 20).map_err(io::Error::other)?;
        let _busy = self.peers.begin(batch)?;
        while batch.goes_on() {
            let area = Area::new(bytes, self.how == (How::Munmap { huge: true }))?;
            if self.how != How::Untouched {
                area.fill();
            }
            match self.how {
                How::Untouched | How::Munmap { .. } => batch.time(|| area.unmap())?,
                How::DontNeed { piece } => batch.time(|| {
                    for offset in (0..bytes).step_by(piece) {
                        area.advise(offset, piece, libc::MADV_DONTNEED)?;
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
            let sizes = sizes(memory, most);
            prop_assert_eq!(sizes[0], 16);
            prop_assert!(sizes[1..].iter().all(|s| *s <= most && (s << 20) * 4 <= memory));
        }
    }
}
