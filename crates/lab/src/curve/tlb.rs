//! Loads that depend on each other, by the number of pages that they go through: the cost of a TLB that is too small, together
//! with that of page walks and caches, which only the CPU's counters could tell apart.

use std::io;

use quell_stats::Rng;

use super::area::{Area, no_huge_pages};
use super::batch::Batch;
use super::walk::{self, Lay};
use super::{Bench, Curve, Part, Place, Sample};
use crate::memory::PAGE;
use crate::tsc;

pub(super) const CURVE: Curve = Curve {
    name: "tlb-curve",
    about: "a load whose address the load before it gave, over so many lines, one in each page or packed",
    x: "pages",
    wants: &[],
    parts: |place| {
        vec![
            part("packed", Lay::Packed, false, place),
            part("4 KB pages", Lay::OneAPage, false, place),
            part("huge pages", Lay::OneAPage, true, place),
        ]
    },
    notes: |_| {
        vec![
            "packed is the control: as many lines of the caches, one after the other in 64 times fewer pages".to_owned(),
            "what lies between the series is the TLB with all that comes with it (page walks, tables in the caches, \
             prefetchers); without the CPU's counters it is not the cost of a TLB miss"
                .to_owned(),
            "a sample is a mean of 4,096 loads, so there are no percentiles of single loads".to_owned(),
        ]
    },
};

const FEWEST: u64 = 64;
const MOST: u64 = 65_536;

/// Turns of 16 loads in one sample, so that reading the counter is nothing beside them.
const TURNS: u64 = 256;

/// Powers of two, as long as two areas of so many pages are no more than a quarter of the memory.
fn pages(memory: u64) -> Vec<u64> {
    let fits = |pages: &u64| *pages == FEWEST || 2 * pages * PAGE as u64 <= memory / 4;
    std::iter::successors(Some(FEWEST), |n| Some(n * 2))
        .take_while(|n| *n <= MOST && fits(n))
        .collect()
}

fn part(series: &'static str, lay: Lay, huge: bool, place: &Place) -> Part {
    let xs = pages(place.memory);
    let most = xs.last().copied().unwrap_or(FEWEST);
    Part {
        series,
        per: "load",
        sample: Sample::Mean,
        xs,
        prepare: Box::new(move |_| {
            if huge && let Some(why) = no_huge_pages() {
                return Err(io::Error::other(why));
            }
            let lines = usize::try_from(most).map_err(io::Error::other)?;
            let area = Area::new(lay.bytes(lines), huge)?;
            area.fill();
            Ok(Box::new(Chase {
                area,
                lay,
                rng: Rng::new(tsc::now()),
            }))
        }),
    }
}

struct Chase {
    area: Area,
    lay: Lay,
    rng: Rng,
}

impl Bench for Chase {
    fn batch(&mut self, x: u64, batch: &mut Batch) -> io::Result<()> {
        let lines = usize::try_from(x).map_err(io::Error::other)?;
        let first = walk::chain(&self.area, self.lay, lines, &mut self.rng);
        // Goes around once, so that caches and TLB hold this chain as it is followed and not as it was written.
        // SAFETY: the area lives as long as this, and the chain is written anew in the next batch only.
        let mut at = unsafe { walk::follow(first, x.div_ceil(walk::TURN)) };
        while batch.goes_on() {
            at = batch.time_mean(TURNS * walk::TURN, || {
                // SAFETY: the same chain.
                Ok(unsafe { walk::follow(at, TURNS) })
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
        assert_eq!(pages(0), [64]);
        assert_eq!(pages(u64::MAX).len(), 11);
        assert_eq!(pages(u64::MAX).last(), Some(&65_536));
        assert_eq!(pages(8 << 30).last(), Some(&65_536));
        assert_eq!(pages(1 << 30).last(), Some(&32_768));
    }
}
