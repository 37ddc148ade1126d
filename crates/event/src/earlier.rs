//! What came since an earlier snapshot: counts that only grow, less those that were there before.

use std::collections::HashMap;
use std::hash::Hash;

/// Takes the fields that are named of one snapshot from those of a later one. Both are the same counters, read twice, which only
/// grow; should one have become smaller all the same, it counts as not grown.
macro_rules! subtract_fields {
    ($now:expr, $earlier:expr; $($field:ident),+ $(,)?) => {{
        $($now.$field = $now.$field.saturating_sub($earlier.$field);)+
    }};
}

pub(crate) use subtract_fields;

/// Returns the rows of `now`, each less the row of `earlier` with the same key, by `subtract`. A row without an earlier one is wholly
/// new; one that only `earlier` has is not returned.
pub(crate) fn subtract_earlier<'a, T: Clone, K: Eq + Hash>(
    now: &'a [T],
    earlier: &'a [T],
    key: impl Fn(&'a T) -> K,
    subtract: impl Fn(&mut T, &T),
) -> Vec<T> {
    let earlier: HashMap<K, &T> = earlier.iter().map(|row| (key(row), row)).collect();
    let since = |row: &'a T| {
        let mut rest = row.clone();
        if let Some(before) = earlier.get(&key(row)) {
            subtract(&mut rest, before);
        }
        rest
    };
    now.iter().map(since).collect()
}
