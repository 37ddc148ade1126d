//! Evidence that stays honest however often one looks, and whenever one stops.
//!
//! A test for a fixed number of pairs is wrong more often than it says if one looks after each pair and stops at a
//! welcome result. This one is a bet (Ville, *Étude critique de la notion de collectif*, 1939; Shafer, "Testing by
//! betting", 2021): one begins with 1, and before each pair stakes on "the log ratio lies below θ". If it lies above as
//! often and as far as below, no way of staking makes money, so with chance α at most one ever has 1/α. The stake
//! on a difference x is tanh(λ (θ - x)): all for a difference that is large beside 1/λ, little for a small one. As
//! tanh turns its sign with its argument, that is a fair game for every distribution that is symmetric about θ, and a
//! losing one where the truth lies above; nothing need be known of the noise. The money is spread over several λ, since nobody
//! knows beforehand how large differences are.
//!
//! The order of the two runs of a pair is drawn, so where a plan changes nothing their log ratio is symmetric about 0,
//! and that is all that the claim "better" rests on.

/// Differences of 1 down to 1/256 in the logarithm: from a factor of 2.7 to 0.4 %.
const BET_LAMBDAS: [f64; 5] = [1.0, 4.0, 16.0, 64.0, 256.0];

/// An end of the interval is halved this often, which finds it to a millionth of the range that is searched.
const END_HALVINGS: u32 = 40;

/// The most money that a bet on "the differences lie below `theta`" ever had, if it began with 1. From 1/α on the claim is wrong
/// with chance α at most, even if somebody looks after each difference. Values that are no number win and lose nothing.
#[must_use]
pub fn evidence_below(differences: &[f64], theta: f64) -> f64 {
    most_money(differences.iter().map(|d| theta - d))
}

/// The same for a bet on "the differences lie above `theta`".
#[must_use]
pub fn evidence_above(differences: &[f64], theta: f64) -> f64 {
    most_money(differences.iter().map(|d| d - theta))
}

fn most_money(gains: impl Iterator<Item = f64>) -> f64 {
    let mut money = [1.0 / BET_LAMBDAS.len() as f64; BET_LAMBDAS.len()];
    let mut most = 1.0;
    for gain in gains.filter(|g| !g.is_nan()) {
        for (money, lambda) in money.iter_mut().zip(BET_LAMBDAS) {
            *money *= 1.0 + (lambda * gain).tanh();
        }
        most = f64::max(most, money.iter().sum());
    }
    most
}

/// Where the middle of the differences lies: in all looks together the interval misses it with chance 1 - `confidence` at
/// most. Without an end on either side while there are too few of them: fewer than 6 for 0.95.
#[must_use]
pub fn anytime_interval(differences: &[f64], confidence: f64) -> (f64, f64) {
    let enough = 2.0 / (1.0 - confidence.clamp(0.5, 0.9999));
    let finite = || differences.iter().copied().filter(|d| d.is_finite());
    let least = finite().fold(f64::INFINITY, f64::min);
    let most = finite().fold(f64::NEG_INFINITY, f64::max);
    if least > most {
        return (f64::NEG_INFINITY, f64::INFINITY);
    }
    // Beyond this distance nearly all is staked for every λ, so no end can lie there.
    let margin = 8.0 + (most - least);
    let low = last_ruled_out(least - margin, most, |theta| {
        evidence_above(differences, theta) >= enough
    });
    let high = last_ruled_out(most + margin, least, |theta| {
        evidence_below(differences, theta) >= enough
    });
    (
        low.unwrap_or(f64::NEG_INFINITY),
        high.unwrap_or(f64::INFINITY),
    )
}

/// The last value on the way from `out` to `within` that is ruled out; none where `out` itself is not.
fn last_ruled_out(out: f64, within: f64, is_ruled_out: impl Fn(f64) -> bool) -> Option<f64> {
    if !is_ruled_out(out) {
        return None;
    }
    let (mut ruled_out, mut open) = (out, within);
    if is_ruled_out(open) {
        return Some(open);
    }
    for _ in 0..END_HALVINGS {
        let middle = f64::midpoint(ruled_out, open);
        if is_ruled_out(middle) {
            ruled_out = middle;
        } else {
            open = middle;
        }
    }
    Some(ruled_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use proptest::prelude::*;

    /// A bell curve's draw: the sum of twelve.
    fn bell(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.next_unit()).sum::<f64>() - 6.0
    }

    /// The difference of two runs of one program, with noise of a kind.
    fn nothing(rng: &mut Rng, kind: usize) -> f64 {
        let run = |rng: &mut Rng| match kind {
            0 => 0.03 * bell(rng),
            // one run in ten takes twice as long
            1 => 0.02 * bell(rng) + if rng.next_unit() < 0.1 { 0.7 } else { 0.0 },
            // two modes
            2 => 0.01 * bell(rng) + if rng.next_unit() < 0.5 { 0.2 } else { 0.0 },
            // a tail without a mean
            _ => 0.02 * (rng.next_unit() / (1.0 - rng.next_unit())).ln().sinh(),
        };
        run(rng) - run(rng)
    }

    /// Check that of 10,000 races of a program against itself, 40 pairs each with a look after every pair, no more are
    /// called different than is promised: each side in 2.5 % at most, whatever the noise; and none before 6 pairs.
    #[test]
    fn a_against_a() {
        let mut rng = Rng::new(20_261_129);
        for kind in 0..4 {
            let mut wrong = 0;
            for _ in 0..10_000 {
                let differences: Vec<f64> = (0..40).map(|_| nothing(&mut rng, kind)).collect();
                wrong += u32::from(evidence_below(&differences, 0.0) >= 40.0);
                assert!(evidence_below(&differences[..5], 0.0) < 40.0);
            }
            // 250 and four standard deviations
            assert!(wrong <= 312, "kind {kind}: {wrong} of 10,000");
        }
    }

    /// Check that changes of 5 % in noise of 1 % and of 20 % in noise of 3 % are found within 7 and 10 pairs, nearly always.
    #[test]
    fn changes_are_found() {
        let mut rng = Rng::new(3);
        for (change, noise, pairs) in [(-0.05, 0.01, 7), (-0.2, 0.03, 10)] {
            let found = (0..500).filter(|_| {
                let draw = |rng: &mut Rng| change + noise * (bell(rng) - bell(rng));
                let differences: Vec<f64> = (0..pairs).map(|_| draw(&mut rng)).collect();
                evidence_below(&differences, 0.0) >= 40.0
            });
            let found = found.count();
            assert!(found >= 480, "{change} in {noise}: {found} of 500");
        }
    }

    /// Check that the interval holds the truth in 95 % of 2,000 cases at least, after the last of 20 pairs.
    #[test]
    fn intervals_hold_the_truth() {
        let mut rng = Rng::new(9);
        for kind in 0..4 {
            let held = (0..2_000).filter(|_| {
                let differences: Vec<f64> =
                    (0..20).map(|_| nothing(&mut rng, kind) - 0.1).collect();
                let (low, high) = anytime_interval(&differences, 0.95);
                low <= -0.1 && -0.1 <= high
            });
            let held = held.count();
            assert!(held >= 1_900, "kind {kind}: {held} of 2,000");
        }
    }

    /// Check that few pairs rule nothing out, and that six of one kind do.
    #[test]
    fn few_pairs_rule_nothing_out() {
        let same = [-0.3; 6];
        assert_eq!(
            anytime_interval(&same[..5], 0.95),
            (f64::NEG_INFINITY, f64::INFINITY)
        );
        let (low, high) = anytime_interval(&same, 0.95);
        assert!(low < -0.3 && -0.3 < high && high < 0.0, "{low} {high}");
        assert_eq!(
            anytime_interval(&[], 0.95),
            (f64::NEG_INFINITY, f64::INFINITY)
        );
    }

    proptest! {
        /// Check that turning all signs turns the interval, that more pairs never give evidence back, and that no values
        /// make it fail.
        #[test]
        fn turns_with_its_values(values in prop::collection::vec(-3.0..3.0_f64, 0..30), odd in any::<f64>()) {
            let turned: Vec<f64> = values.iter().map(|v| -v).collect();
            let (low, high) = anytime_interval(&values, 0.9);
            let (turned_low, turned_high) = anytime_interval(&turned, 0.9);
            let near = |a: f64, b: f64| a == b || (a - b).abs() < 1e-6;
            prop_assert!(near(low, -turned_high) && near(high, -turned_low));
            let few = evidence_below(&values[..values.len() / 2], 0.0);
            prop_assert!(few <= evidence_below(&values, 0.0));
            let with_odd: Vec<f64> = values.iter().copied().chain([odd]).collect();
            let _any = anytime_interval(&with_odd, 0.95);
        }
    }
}
