//! Exact rank tests: how often chance alone would order the runs so.
//!
//! Ranks ask nothing of the noise: heavy tails, outliers and two modes are all the same to them
//! (Lehmann, *Nonparametrics*, 1975, chapters 1 and 3). Equal values share their mean rank and the
//! chances are counted over the ranks at hand, so ties are exact as well. Ranks are kept doubled to
//! stay whole.

use crate::dist::normal_cdf;

/// Up to this many pairs the two-group chances are counted out; beyond it the normal curve is
/// near to them, and a little more careful far out.
const MAX_COUNTED_PAIRS: usize = 20;

/// The result of a test: how surprising the order is, and on which side the second group lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RankOutcome {
    /// Chance of something at least as extreme, on either side, if nothing changed.
    pub p: f64,
    /// 1 where "after" is larger, -1 where it is smaller, 0 where it is neither.
    pub side: f64,
}

impl RankOutcome {
    /// Chance explains all of it.
    pub(crate) const NO_SURPRISE: Self = Self { p: 1.0, side: 0.0 };
}

/// The smallest chance that any outcome of the two-group test can have with `n` runs on each side.
pub(crate) fn least_p_groups(n: usize) -> f64 {
    2.0 / (1..=n).fold(1.0, |ways, i| ways * (n + i) as f64 / i as f64)
}

/// The smallest chance that any outcome of the test over `n` pairs can have.
pub(crate) fn least_p_pairs(n: usize) -> f64 {
    2.0 * 0.5f64.powi(n.min(1_000) as i32)
}

/// The test of Wilcoxon, Mann and Whitney for two groups of the same size.
pub(crate) fn rank_sum_test(before: &[f64], after: &[f64]) -> RankOutcome {
    let n = before.len().min(after.len());
    let all: Vec<f64> = [&before[..n], &after[..n]].concat();
    let ranks = doubled_ranks(&all);
    let total: usize = ranks.iter().sum();
    let sum: usize = ranks[n..].iter().sum();
    let off = (2 * sum).abs_diff(total);
    let p = if n <= MAX_COUNTED_PAIRS {
        counted_chance(&ranks, off)
    } else {
        normal_chance(&ranks, off)
    };
    RankOutcome {
        p: p.min(1.0),
        side: side_of_middle(2 * sum, total),
    }
}

/// The share of all ways to split the ranks in two halves that are at least `off` off.
fn counted_chance(ranks: &[usize], off: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    let ways = subset_sums(ranks, ranks.len() / 2);
    let far: f64 = ways
        .iter()
        .enumerate()
        .filter(|(s, _)| (2 * s).abs_diff(total) >= off)
        .map(|(_, w)| w)
        .sum();
    far / ways.iter().sum::<f64>()
}

/// The same from the normal curve with the mean and variance of these ranks.
fn normal_chance(ranks: &[usize], off: usize) -> f64 {
    let size = ranks.len() as f64;
    let mean = ranks.iter().sum::<usize>() as f64 / size;
    let squares: f64 = ranks.iter().map(|&r| (r as f64 - mean).powi(2)).sum();
    let deviation = (squares * size / (4.0 * (size - 1.0))).sqrt();
    if deviation == 0.0 {
        return 1.0;
    }
    // Doubled ranks move in steps of two, so half a step is one.
    2.0 * normal_cdf(-((off as f64 / 2.0 - 1.0) / deviation).max(0.0))
}

/// The signed-rank test of Wilcoxon over the differences of pairs. Differences of 0 take their rank
/// and no side (Pratt, "Remarks on Zeros and Ties in the Wilcoxon Signed Rank Procedures", 1959).
pub(crate) fn signed_rank_test(differences: &[f64]) -> RankOutcome {
    let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let signed: Vec<(usize, bool)> = doubled_ranks(&sizes)
        .into_iter()
        .zip(differences)
        .filter(|(_, d)| **d != 0.0)
        .map(|(rank, d)| (rank, *d > 0.0))
        .collect();
    let total: usize = signed.iter().map(|(r, _)| r).sum();
    let sum: usize = signed.iter().filter(|(_, up)| *up).map(|(r, _)| r).sum();
    let off = (2 * sum).abs_diff(total);
    // chance[s]: that the ranks which chance turns upwards add up to s.
    let mut chance = vec![0.0; total + 1];
    chance[0] = 1.0;
    let mut reach = 0;
    for (rank, _) in &signed {
        reach += rank;
        for s in (0..=reach).rev() {
            let with = if s >= *rank { chance[s - rank] } else { 0.0 };
            chance[s] = 0.5 * (chance[s] + with);
        }
    }
    let far: f64 = chance
        .iter()
        .enumerate()
        .filter(|(s, _)| (2 * s).abs_diff(total) >= off)
        .map(|(_, c)| c)
        .sum();
    RankOutcome {
        p: far.min(1.0),
        side: side_of_middle(2 * sum, total),
    }
}

fn side_of_middle(twice: usize, total: usize) -> f64 {
    match twice.cmp(&total) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Less => -1.0,
        std::cmp::Ordering::Equal => 0.0,
    }
}

/// Twice the rank of every value, counted from 1; equal values share their mean.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    for tied in places.chunk_by(|&a, &b| values[a] == values[b]) {
        let last = first + tied.len();
        for &place in tied {
            ranks[place] = first + 1 + last;
        }
        first = last;
    }
    ranks
}

/// How many ways there are to choose `size` of the ranks with each sum.
fn subset_sums(ranks: &[usize], size: usize) -> Vec<f64> {
    let width = ranks.iter().sum::<usize>() + 1;
    let mut ways = vec![0.0; (size + 1) * width];
    ways[0] = 1.0;
    for (seen, &rank) in ranks.iter().enumerate() {
        for taken in (1..=size.min(seen + 1)).rev() {
            let (less, more) = ways.split_at_mut(taken * width);
            let from = &less[(taken - 1) * width..];
            for (to, from) in more[rank..width].iter_mut().zip(from) {
                *to += from;
            }
        }
    }
    ways.split_off(size * width)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that full separation has the textbook chance: 2 in C(2n, n), and 2 in 2^n for pairs.
    #[test]
    fn extremes() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        let test = rank_sum_test(&low, &high);
        assert!((test.p - 2.0 / 252.0).abs() < 1e-12 && test.side == 1.0);
        assert!((least_p_groups(5) - 2.0 / 252.0).abs() < 1e-12);
        let test = signed_rank_test(&[-1.0, -2.0, -3.0, -4.0]);
        assert!((test.p - 0.125).abs() < 1e-12 && test.side == -1.0);
        assert!((least_p_pairs(4) - 0.125).abs() < 1e-12);
    }

    /// Check that the chances agree with the printed tables of Lehmann.
    #[test]
    fn printed_tables() {
        // U = 1 with 4 and 4: 2 of 70 on each side.
        let test = rank_sum_test(&[1.0, 2.0, 3.0, 5.0], &[4.0, 6.0, 7.0, 8.0]);
        assert!((test.p - 4.0 / 70.0).abs() < 1e-12);
        // Signed rank 3 with 6 pairs: 5 of 64 on each side.
        let test = signed_rank_test(&[1.0, 2.0, -3.0, -4.0, -5.0, -6.0]);
        assert!((test.p - 10.0 / 64.0).abs() < 1e-12);
    }

    /// Check that ties, zeros and equal groups say that nothing is surprising.
    #[test]
    fn ties() {
        let same = [1.0; 5];
        assert_eq!(rank_sum_test(&same, &same), RankOutcome::NO_SURPRISE);
        assert_eq!(rank_sum_test(&[1.0; 30], &[1.0; 30]).p, 1.0);
        assert_eq!(signed_rank_test(&[0.0; 6]), RankOutcome::NO_SURPRISE);
        assert_eq!(signed_rank_test(&[]), RankOutcome::NO_SURPRISE);
    }

    /// Check that where the normal curve takes over it is near to the count, on the careful side.
    #[test]
    fn curve_meets_count() {
        let ranks: Vec<usize> = (1..=2 * MAX_COUNTED_PAIRS).map(|r| 2 * r).collect();
        for off in [0, 200, 400, 500] {
            let (exact, near) = (counted_chance(&ranks, off), normal_chance(&ranks, off));
            assert!(
                near > exact * 0.97 && near < exact * 2.0,
                "{off}: {exact} {near}"
            );
        }
    }
}
