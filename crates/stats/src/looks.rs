//! How often the pairs of a proof are looked at before it ends.
//!
//! Five pairs settle a large gain and leave a small one open, and nobody knows beforehand which it is. So a proof may
//! go on where its pairs promise a gain that they don't settle. Several looks are wrong more often than one, unless each
//! has to reach a stricter level: with three looks planned, each may claim with a third of the error and prints an interval that is as much
//! surer (Bonferroni). That holds whatever decides about going on, so `prove` may also stop for want of time.

use crate::{Comparison, MIN_PAIRS, PairOrder, Rng, Verdict, draw_orders};

/// The numbers of pairs at which an open proof is looked at: each look costs the first ones some power, so they are few.
const OPEN_LOOK_PAIRS: [usize; 3] = [MIN_PAIRS, 2 * MIN_PAIRS, 4 * MIN_PAIRS];

/// When the pairs of a proof are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks {
    /// Numbers of pairs, rising; never empty.
    at: Vec<usize>,
}

impl Looks {
    /// One look, after this number of pairs.
    #[must_use]
    pub fn once(pairs: usize) -> Self {
        Self { at: vec![pairs] }
    }

    /// After 5 pairs, and after 10 and 20 where a gain is open.
    #[must_use]
    pub fn while_open() -> Self {
        Self {
            at: OPEN_LOOK_PAIRS.to_vec(),
        }
    }

    /// How many looks are planned, which each of them has to make up for ([`Rules::looks`](crate::Rules::looks)).
    #[must_use]
    pub fn planned(&self) -> usize {
        self.at.len()
    }

    /// Pairs before the first look.
    #[must_use]
    pub fn first(&self) -> usize {
        self.at[0]
    }

    /// The orders of all pairs: balanced between any two looks, so that a job which runs beside every other run is seen at each.
    #[must_use]
    pub fn orders(&self, seed: u64) -> Vec<PairOrder> {
        let mut rng = Rng::new(seed);
        let mut made = 0;
        let mut all = Vec::new();
        for at in &self.at {
            all.extend(draw_orders(at - made, rng.next_u64()));
            made = *at;
        }
        all
    }

    /// The number of pairs at the next look after `made`; none when that was the last.
    #[must_use]
    pub fn next_after(&self, made: usize) -> Option<usize> {
        self.at.iter().copied().find(|at| *at > made)
    }
}

/// Whether pairs promise a gain and do not settle it: nothing is claimed of any objective, and the middle of one is better by
/// `smallest_effect` at least. The flag beside each says whether a higher value is better.
#[must_use]
pub fn is_gain_open(objectives: &[(&Comparison, bool)], smallest_effect: f64) -> bool {
    let is_settled = |c: &Comparison| c.verdict != Verdict::NoEvidence;
    let promises = |&(c, higher_is_better): &(&Comparison, bool)| {
        let ratio = if higher_is_better {
            1.0 / c.ratio
        } else {
            c.ratio
        };
        ratio <= 1.0 - smallest_effect
    };
    !objectives.iter().any(|(c, _)| is_settled(c)) && objectives.iter().any(promises)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rules, RunPair, compare_pairs};

    /// Check that looks come in order and end, and that one look is one look.
    #[test]
    fn looks_end() {
        let looks = Looks::while_open();
        assert_eq!(looks.first(), 5);
        let all: Vec<usize> = std::iter::successors(Some(5), |n| looks.next_after(*n)).collect();
        assert_eq!(all, [5, 10, 20]);
        assert_eq!(looks.planned(), all.len());
        for seed in 0..50 {
            let orders = looks.orders(seed);
            assert_eq!(orders.len(), 20);
            for part in [&orders[..5], &orders[5..10], &orders[10..]] {
                let first = part
                    .iter()
                    .filter(|o| **o == PairOrder::BeforeFirst)
                    .count();
                assert!(first.abs_diff(part.len() - first) <= 1);
            }
        }
        assert_eq!(
            (Looks::once(7).first(), Looks::once(7).next_after(7)),
            (7, None)
        );
    }

    /// Check that a gain is open only where it is promised and nothing is claimed, whichever side is better.
    #[test]
    fn open_gains() {
        let of = |ratios: [f64; 5], higher_is_better: bool| {
            let pairs = ratios.map(|ratio| RunPair::new(100.0, 100.0 * ratio));
            let rules = Rules {
                higher_is_better,
                looks: 3,
                ..Rules::default()
            };
            compare_pairs(&pairs, &rules)
        };
        let promising = of([0.8, 0.9, 1.05, 0.85, 0.99], false);
        let settled = of([0.50, 0.51, 0.5, 0.49, 0.505], false);
        let nothing = of([1.0, 0.99, 1.01, 1.02, 0.98], false);
        assert_eq!(settled.verdict, Verdict::Better);
        assert!(is_gain_open(&[(&promising, false)], 0.02));
        assert!(is_gain_open(
            &[(&nothing, false), (&promising, false)],
            0.02
        ));
        assert!(!is_gain_open(
            &[(&settled, false), (&promising, false)],
            0.02
        ));
        assert!(!is_gain_open(&[(&nothing, false)], 0.02));
        let throughput = of([1.2, 1.1, 0.95, 1.15, 1.01], true);
        assert!(is_gain_open(&[(&throughput, true)], 0.02));
        assert!(!is_gain_open(&[(&throughput, false)], 0.02));
        assert!(!is_gain_open(&[], 0.02));
    }
}
