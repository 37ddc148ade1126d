//! Loads that depend on each other, by the number of pages that they go through: the cost of a TLB that is too small, together
//! with that of page walks and caches, which only the CPU's counters could tell apart.

use std::io;

use quell_stats::Rng;

use super::batch::TimeBatch;
use super::huge_pages::no_huge_pages;
use super::line_chain::{self, LineLayout};
use super::{Curve, CurveBench, CurvePart, CurvePlace, SampleKind};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::tsc;

pub(super) const TLB_CURVE: Curve = Curve {
    name: "tlb-curve",
    about: "a load whose address the load before it gave, over so many lines, one in each page or packed",
    x: "pages",
    wants: &[],
    parts: |place| {
        vec![
            chase_part("packed", LineLayout::Packed, false, place),
            chase_part("4 KB pages", LineLayout::OneAPage, false, place),
            chase_part("huge pages", LineLayout::OneAPage, true, place),
        ]
    },
    notes: &[
        "packed is the control: as many lines of the caches, one after the other in 64 times fewer pages",
        "what lies between the series is the TLB with all that comes with it (page walks, tables in the caches, \
         prefetchers); without the CPU's counters it is not the cost of a TLB miss",
        "a sample is a mean of 4,096 loads, so there are no percentiles of single loads",
    ],
    place_note: None,
};

const MIN_CHASE_PAGES: u64 = 64;
const MAX_CHASE_PAGES: u64 = 65_536;

/// Turns of 16 loads in one sample, so that reading the counter is nothing beside them.
const TURNS_PER_SAMPLE: u64 = 256;

/// Powers of two, as long as two areas of so many pages are no more than a quarter of the memory.
fn chase_pages(memory: u64) -> Vec<u64> {
    let fits =
        |pages: &u64| *pages == MIN_CHASE_PAGES || 2 * pages * PAGE_BYTES as u64 <= memory / 4;
    std::iter::successors(Some(MIN_CHASE_PAGES), |n| Some(n * 2))
        .take_while(|n| *n <= MAX_CHASE_PAGES && fits(n))
        .collect()
}

fn chase_part(series: &'static str, lay: LineLayout, huge: bool, place: &CurvePlace) -> CurvePart {
    let xs = chase_pages(place.memory);
    let most = xs.last().copied().unwrap_or(MIN_CHASE_PAGES);
    CurvePart {
        series,
        per: "load",
        sample: SampleKind::Mean,
        xs,
        prepare: Box::new(move |_| {
            if huge && let Some(why) = no_huge_pages() {
                return Err(io::Error::other(why));
            }
            let lines = usize::try_from(most).map_err(io::Error::other)?;
            let area = LabMapping::with_huge_pages(lay.bytes_of_lines(lines), huge)?;
            area.fill_pages();
            Ok(Box::new(ChaseBench {
                area,
                lay,
                rng: Rng::new(tsc::read_tsc()),
            }))
        }),
    }
}

struct ChaseBench {
    area: LabMapping,
    lay: LineLayout,
    rng: Rng,
}

impl CurveBench for ChaseBench {
    fn measure_batch(&mut self, x: u64, batch: &mut TimeBatch) -> io::Result<()> {
        let lines = usize::try_from(x).map_err(io::Error::other)?;
        let first = line_chain::write_chain(&self.area, self.lay, lines, &mut self.rng);
        // Goes around once, so that caches and TLB hold this chain as it is followed and not as it was written.
        // SAFETY: the area lives as long as this, and the chain is written anew in the next batch only.
        let mut at =
            unsafe { line_chain::follow_chain(first, x.div_ceil(line_chain::LOADS_PER_TURN)) };
        while batch.goes_on() {
            at = batch.time_mean(TURNS_PER_SAMPLE * line_chain::LOADS_PER_TURN, || {
                // SAFETY: the same chain.
                Ok(unsafe { line_chain::follow_chain(at, TURNS_PER_SAMPLE) })
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a small machine gets fewer points and none gets no point.
    #[test]
    fn points_fit_the_memory() {
        assert_eq!(chase_pages(0), [64]);
        assert_eq!(chase_pages(u64::MAX).len(), 11);
        assert_eq!(chase_pages(u64::MAX).last(), Some(&65_536));
        assert_eq!(chase_pages(8 << 30).last(), Some(&65_536));
        assert_eq!(chase_pages(1 << 30).last(), Some(&32_768));
    }
}
