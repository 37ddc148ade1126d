//! Amounts of two traces, matched by name.

use std::collections::BTreeMap;

use quell_event::named_enum;

use crate::show::units::rate_per_second;

/// The figures of one trace for a name. Those that its kind lacks are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) shootdowns: u64,
    pub(crate) victims: Option<u64>,
    pub(crate) wait_ns: Option<u64>,
    pub(crate) stall_ns: Option<u64>,
}

impl Amount {
    /// Adds an amount of the same name.
    pub(crate) fn add(&mut self, other: &Self) {
        let sum = |mine: Option<u64>, more: Option<u64>| match (mine, more) {
            (None, None) => None,
            (mine, more) => Some(mine.unwrap_or(0) + more.unwrap_or(0)),
        };
        self.shootdowns += other.shootdowns;
        self.victims = sum(self.victims, other.victims);
        self.wait_ns = sum(self.wait_ns, other.wait_ns);
        self.stall_ns = sum(self.stall_ns, other.stall_ns);
    }
}

/// Amounts by name.
pub(crate) type Amounts<K> = BTreeMap<K, Amount>;

named_enum! {
    /// The traces that have a name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Presence {
        Both = "both",
        /// In A only.
        Gone = "gone",
        /// In B only.
        New = "new",
    }
}

/// One name, in both traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparedRow<K> {
    pub(crate) key: K,
    pub(crate) a: Amount,
    pub(crate) b: Amount,
    pub(crate) state: Presence,
}

impl<K> ComparedRow<K> {
    /// A side whose amount has no shootdown counts as one without the name; where neither has any, the state is `Both`.
    pub(crate) fn new(key: K, a: Option<Amount>, b: Option<Amount>) -> Self {
        let some = |side: Option<Amount>| side.is_some_and(|s| s.shootdowns > 0);
        let state = match (some(a), some(b)) {
            (true, false) => Presence::Gone,
            (false, true) => Presence::New,
            _ => Presence::Both,
        };
        Self {
            key,
            a: a.unwrap_or_default(),
            b: b.unwrap_or_default(),
            state,
        }
    }
}

/// The change from `a` to `b` as a share of `a`: −1 where all is gone, 0 where both are equal, also zero, and `None` where only
/// `a` is zero.
pub(crate) fn relative_change(a: f64, b: f64) -> Option<f64> {
    if a == b {
        return Some(0.0);
    }
    (a > 0.0).then(|| b / a - 1.0)
}

/// All names, the largest change of shootdowns per second first; of counts where a duration (ns, of A and of B) is 0.
pub(crate) fn compared_rows<K: Ord + Clone>(
    mut a: Amounts<K>,
    b: Amounts<K>,
    durations: (u64, u64),
) -> Vec<ComparedRow<K>> {
    let mut rows: Vec<_> = b
        .into_iter()
        .map(|(key, b)| {
            let a = a.remove(&key);
            ComparedRow::new(key, a, Some(b))
        })
        .collect();
    rows.extend(
        a.into_iter()
            .map(|(key, a)| ComparedRow::new(key, Some(a), None)),
    );
    let moved = |row: &ComparedRow<K>| {
        let (a, b) = (row.a.shootdowns, row.b.shootdowns);
        if durations.0 == 0 || durations.1 == 0 {
            return a.abs_diff(b) as f64;
        }
        (rate_per_second(a, durations.0) - rate_per_second(b, durations.1)).abs()
    };
    rows.sort_by(|x, y| {
        let size = |r: &ComparedRow<K>| r.a.shootdowns.max(r.b.shootdowns);
        let order = moved(y).total_cmp(&moved(x));
        order
            .then_with(|| size(y).cmp(&size(x)))
            .then_with(|| x.key.cmp(&y.key))
    });
    rows
}
