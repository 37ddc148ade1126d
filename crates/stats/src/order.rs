//! Which run of each pair goes first.
//!
//! Always "before" and then "after" would hand a warming cache, a falling clock rate or a job that
//! comes by every other run to one side only. A fair coin a pair could give one side the first
//! place in all pairs. So each side goes first equally often, and which pairs those are is drawn by
//! chance (Fisher, *The Design of Experiments*, 1935: chance must decide, or the test has no base).

use crate::Rng;

/// The order of the two runs in one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PairOrder {
    /// First without the plan, then with it.
    BeforeFirst,
    /// First with the plan, then without it.
    AfterFirst,
}

/// The order of every pair: as many begin with "before" as with "after" (one more of either where
/// the number is odd, by chance), shuffled. The same seed gives the same orders.
#[must_use]
pub fn draw_orders(pairs: usize, seed: u64) -> Vec<PairOrder> {
    let mut rng = Rng::new(seed);
    let extra = pairs % 2 * rng.below(2);
    let first = pairs / 2 + extra;
    let mut orders: Vec<PairOrder> = (0..pairs)
        .map(|i| {
            if i < first {
                PairOrder::BeforeFirst
            } else {
                PairOrder::AfterFirst
            }
        })
        .collect();
    rng.shuffle(&mut orders);
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that both orders come equally often, one apart where the number is odd.
    #[test]
    fn balanced() {
        for pairs in 0..=100 {
            for seed in 0..20 {
                let orders = draw_orders(pairs, seed);
                let first = orders
                    .iter()
                    .filter(|&&o| o == PairOrder::BeforeFirst)
                    .count();
                assert_eq!(orders.len(), pairs);
                assert!(first.abs_diff(pairs - first) <= 1);
            }
        }
    }

    /// Check that chance decides: every place goes to either side about half of the time.
    #[test]
    fn every_place_is_random() {
        let mut first = [0u32; 5];
        for seed in 0..4_000 {
            for (count, order) in first.iter_mut().zip(draw_orders(5, seed)) {
                *count += u32::from(order == PairOrder::BeforeFirst);
            }
        }
        assert!(
            first.iter().all(|n| (1_850..2_150).contains(n)),
            "{first:?}"
        );
    }

    /// Check that the same seed gives the same orders.
    #[test]
    fn seeded() {
        assert_eq!(draw_orders(20, 3), draw_orders(20, 3));
        assert_ne!(draw_orders(20, 3), draw_orders(20, 4));
    }
}
