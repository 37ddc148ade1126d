//! TLB misses, as the processor counts them. The program pays for them in its own time: they are no part of the time of
//! memory management.

use serde::{Deserialize, Serialize};

use crate::Text;
use crate::earlier::subtract_fields;

/// The count of one kind of event, summed over CPUs, threads or both, as perf_event_open(2) reads it. A CPU has fewer counters than
/// there are kinds; those then take turns, and the count is that of their turns alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterReading {
    /// How many events were counted, in its turns alone; [`CounterReading::scaled_count`] makes up for the rest.
    pub value: u64,
    /// For how long it was to be counted, ns, summed over all counters that were added: of two CPUs, twice the time that passed.
    pub enabled_ns: u64,
    /// For how long of that it had a counter, ns, summed likewise.
    pub running_ns: u64,
}

impl CounterReading {
    /// Adds the reading of another counter of the same kind, on another CPU or thread: counts and both times are sums then, so
    /// that one which had no counter for a while is made up for by the others in [`Self::scaled_count`]. A later reading of the same
    /// counter must not be added to an earlier one, which it includes.
    pub fn add_reading(&mut self, other: Self) {
        self.value = self.value.saturating_add(other.value);
        self.enabled_ns = self.enabled_ns.saturating_add(other.enabled_ns);
        self.running_ns = self.running_ns.saturating_add(other.running_ns);
    }

    /// Returns the counts since `earlier`.
    #[must_use]
    pub fn since(mut self, earlier: Self) -> Self {
        subtract_fields!(self, earlier; value, enabled_ns, running_ns);
        self
    }

    /// Returns the count as it would have been with a counter all the time; `None` where there never was one.
    #[must_use]
    pub fn scaled_count(self) -> Option<u64> {
        if self.running_ns == 0 {
            return None;
        }
        let all = u128::from(self.value) * u128::from(self.enabled_ns.max(self.running_ns));
        Some(u64::try_from(all / u128::from(self.running_ns)).unwrap_or(u64::MAX))
    }

    /// The share of the time in which there was a counter for it, 0 to 1.
    #[must_use]
    pub fn share_of_time(self) -> f64 {
        match self.enabled_ns {
            0 => 0.0,
            all => (self.running_ns as f64 / all as f64).min(1.0),
        }
    }
}

/// The counters of the watched processes, all of them in user mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlbCounts {
    /// Cycles.
    pub cycles: CounterReading,
    /// Cycles in which a page walk was under way: for loads, for stores, for code.
    pub walk_cycles: [CounterReading; 3],
    /// Misses that took a walk: of loads, of stores, of code.
    pub misses: [CounterReading; 3],
    /// Why something of this is not counted; empty where all is.
    pub why: Text,
}

impl TlbCounts {
    /// Returns the counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: [CounterReading; 3], then: [CounterReading; 3]| {
            [0, 1, 2].map(|kind: usize| now[kind].since(then[kind]))
        };
        Self {
            cycles: self.cycles.since(earlier.cycles),
            walk_cycles: less(self.walk_cycles, earlier.walk_cycles),
            misses: less(self.misses, earlier.misses),
            why: self.why.clone(),
        }
    }
}

/// TLB misses as they are reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TlbMisses {
    /// Cycles in user mode; null where they are not counted, as are those below.
    pub cycles: Option<u64>,
    /// Cycles of these in which a page walk was under way.
    pub walk_cycles: Option<u64>,
    /// The same as a share, 0 to 1.
    pub walk_share: Option<f64>,
    /// Misses that took a walk.
    pub misses: Option<u64>,
    /// The share of the time, 0 to 1, in which there was a counter, for the event that had one least; figures are scaled
    /// by it. Null where nothing is counted.
    pub counted: Option<f64>,
    /// Why something is not counted here; null where all is.
    pub why: Option<Text>,
}

/// Returns the scaled sum of the counters that counted, if one did.
fn sum_scaled(kinds: &[CounterReading]) -> Option<u64> {
    kinds
        .iter()
        .filter_map(|kind| kind.scaled_count())
        .reduce(u64::saturating_add)
}

impl From<&TlbCounts> for TlbMisses {
    fn from(counts: &TlbCounts) -> Self {
        let all = [counts.cycles]
            .into_iter()
            .chain(counts.walk_cycles)
            .chain(counts.misses);
        let shares = all
            .filter(|c| c.running_ns > 0)
            .map(CounterReading::share_of_time);
        let cycles = counts.cycles.scaled_count();
        // walks for loads and for code may be under way at once, and scaling has its error
        let walk_cycles = sum_scaled(&counts.walk_cycles).map(|n| n.min(cycles.unwrap_or(n)));
        Self {
            cycles,
            walk_cycles,
            walk_share: walk_cycles
                .zip(cycles.filter(|&n| n > 0))
                .map(|(walks, all)| walks as f64 / all as f64),
            misses: sum_scaled(&counts.misses),
            counted: shares.reduce(f64::min),
            why: (!counts.why.is_empty()).then(|| counts.why.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted() -> impl Strategy<Value = CounterReading> {
        (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(value, a, b)| CounterReading {
            value,
            enabled_ns: a.max(b),
            running_ns: a.min(b),
        })
    }

    proptest! {
        /// Check that scaling never takes away from what was counted, adds nothing to what was counted all the time, and
        /// is none without a counter.
        #[test]
        fn scaling_only_adds(c in counted()) {
            match c.scaled_count() {
                None => prop_assert_eq!(c.running_ns, 0),
                Some(n) => prop_assert!(n >= c.value),
            }
            let all_the_time = CounterReading { running_ns: c.enabled_ns.max(1), enabled_ns: c.enabled_ns.max(1), ..c };
            prop_assert_eq!(all_the_time.scaled_count(), Some(c.value));
            prop_assert!((0.0..=1.0).contains(&c.share_of_time()));
        }

        /// Check that half the time with a counter makes twice the count.
        #[test]
        fn half_the_time_is_twice_the_count(value in 0..u64::MAX / 2, ns in 1..u64::MAX / 2) {
            let half = CounterReading { value, enabled_ns: 2 * ns, running_ns: ns };
            prop_assert_eq!(half.scaled_count(), Some(2 * value));
        }

        /// Check that an interval and what was before it make the whole.
        #[test]
        fn intervals_add_up(a in counted(), b in counted()) {
            let half = |c: CounterReading| CounterReading {
                value: c.value / 2, enabled_ns: c.enabled_ns / 2, running_ns: c.running_ns / 2,
            };
            let (before, more) = (half(a), half(b));
            let mut now = before;
            now.add_reading(more);
            prop_assert_eq!(now.since(before), more);
        }

        /// Check that walks are never more than all cycles, whatever was counted.
        #[test]
        fn walks_are_a_share(cycles in counted(), walks in prop::array::uniform3(counted())) {
            let told = TlbMisses::from(&TlbCounts { cycles, walk_cycles: walks, ..TlbCounts::default() });
            if let Some(share) = told.walk_share {
                prop_assert!((0.0..=1.0).contains(&share), "{share}");
            }
        }
    }

    /// Check that without counters nothing is told but why, and that the event which had a counter least is said.
    #[test]
    fn what_is_told() {
        let none = TlbMisses::from(&TlbCounts {
            why: "no counters".into(),
            ..TlbCounts::default()
        });
        assert_eq!(
            none,
            TlbMisses {
                why: Some("no counters".into()),
                ..TlbMisses::default()
            }
        );
        let counted = |value, running_ns| CounterReading {
            value,
            enabled_ns: 100,
            running_ns,
        };
        let told = TlbMisses::from(&TlbCounts {
            cycles: counted(1000, 100),
            walk_cycles: [counted(50, 50), CounterReading::default(), counted(20, 100)],
            misses: [counted(3, 50), counted(1, 100), CounterReading::default()],
            why: Text::default(),
        });
        assert_eq!((told.walk_cycles, told.misses), (Some(120), Some(7)));
        assert_eq!((told.walk_share, told.counted), (Some(0.12), Some(0.5)));
        assert_eq!(told.why, None);
    }
}
