//! madvise(MADV_DONTNEED) and madvise(MADV_FREE) by their number of pages: up to a ceiling the kernel invalidates page by page, beyond it the
//! whole address space, here and on every CPU that the address space runs on (arch/x86/mm/tlb.c: get_flush_tlb_info()
//! and tlb_single_page_flush_ceiling, 33 unless somebody has changed it).

use std::io;

use super::batch::TimeBatch;
use super::peers::{PeerActivity, PeerThreads};
use super::{Curve, CurveBench, CurvePart, SampleKind};
use crate::memory::{LabMapping, PAGE_BYTES};

pub(super) const FLUSH_THRESHOLD_CURVE: Curve = Curve {
    name: "flush-threshold",
    about: "madvise(MADV_DONTNEED) of pages that were written, alone, and with a peer on another CPU; and MADV_FREE",
    x: "pages",
    wants: &[],
    parts: |_| {
        let (take, free) = (libc::MADV_DONTNEED, libc::MADV_FREE);
        let (spin, sleep) = (Some(PeerActivity::Spin), Some(PeerActivity::Sleep));
        vec![
            madvise_part("alone", take, None),
            madvise_part("peer spinning", take, spin),
            madvise_part("peer asleep", take, sleep),
            madvise_part("FREE, alone", free, None),
            madvise_part("FREE, peer spinning", free, spin),
        ]
    },
    notes: &[
        "0 pages is the control: the call on a page that holds nothing, which flushes nothing",
        "a step after 33 pages is tlb_single_page_flush_ceiling (arch/x86/mm/tlb.c): from 34 on the whole address \
         space is flushed; the refill of the TLB comes later and is not in these times",
    ],
    place_note: None,
};

/// The points of x; 0 is the control.
const ADVISED_PAGES: [u64; 13] = [0, 1, 2, 4, 8, 16, 24, 32, 33, 34, 40, 48, 64];

/// The advice covers up to so many pages; behind them lies one that nobody writes, for the control.
const MAX_ADVISED_PAGES: usize = 64;

fn madvise_part(series: &'static str, advice: i32, peer: Option<PeerActivity>) -> CurvePart {
    CurvePart {
        series,
        per: "call",
        sample: SampleKind::Operation,
        xs: ADVISED_PAGES.to_vec(),
        prepare: Box::new(move |place| {
            let cpus = &place.others[..place.others.len().min(1)];
            Ok(Box::new(MadviseBench::new(advice, None, cpus, peer)?))
        }),
    }
}

/// Writes pages and gives them back: MADV_DONTNEED at once, MADV_FREE when the kernel needs them, which it flushes for
/// all the same, so that a write meanwhile is seen (mm/madvise.c: madvise_free_pte_range()).
#[derive(Debug)]
pub(super) struct MadviseBench {
    advice: i32,
    /// The number of pages, where x is something else.
    pages: Option<u64>,
    area: LabMapping,
    peers: Option<PeerThreads>,
}

impl MadviseBench {
    /// Takes peers on these CPUs, or none: then the process has one thread, and the kernel knows of no other CPU.
    pub(super) fn new(
        advice: i32,
        pages: Option<u64>,
        cpus: &[u32],
        peers: Option<PeerActivity>,
    ) -> io::Result<Self> {
        Ok(Self {
            advice,
            pages,
            area: LabMapping::with_huge_pages((MAX_ADVISED_PAGES + 1) * PAGE_BYTES, false)?,
            peers: peers
                .map(|does| PeerThreads::start_on(cpus, does))
                .transpose()?,
        })
    }
}

impl CurveBench for MadviseBench {
    fn measure_batch(&mut self, x: u64, batch: &mut TimeBatch) -> io::Result<()> {
        let _busy = self
            .peers
            .as_ref()
            .map(|p| p.begin_activity(batch))
            .transpose()?;
        let pages = self.pages.unwrap_or(x);
        let written = usize::try_from(pages).unwrap_or(0) * PAGE_BYTES;
        let (at, bytes) = if written == 0 {
            (MAX_ADVISED_PAGES * PAGE_BYTES, PAGE_BYTES)
        } else {
            (0, written)
        };
        while batch.goes_on() {
            for offset in (0..written).step_by(PAGE_BYTES) {
                // SAFETY: within the area, which has room for them: no point has more than MAX_ADVISED_PAGES.
                unsafe { self.area.start().add(offset).write_volatile(1) };
            }
            batch.time_operation(|| self.area.advise_range(at, bytes, self.advice))?;
        }
        Ok(())
    }
}
