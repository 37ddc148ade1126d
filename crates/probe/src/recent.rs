//! A map with a bound, for entries that come for weeks: it forgets those that nobody has asked for the longest.

use std::collections::HashMap;
use std::hash::Hash;

/// The entries that were put in or asked for lately. Once these fill half of the room, the entries that were not asked for
/// meanwhile are forgotten, which takes no list of their order.
pub(crate) struct RecentMap<K, V> {
    half: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Hash + Eq, V> RecentMap<K, V> {
    /// A map with room for `most` entries; the last half of them are certainly there.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            half: (most / 2).max(1),
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }
}

impl<K: Hash + Eq, V: Copy> RecentMap<K, V> {
    /// The value of a key, which counts as lately asked for then.
    pub(crate) fn get(&mut self, key: K) -> Option<V> {
        if let Some(value) = self.young.get(&key) {
            return Some(*value);
        }
        let value = self.old.remove(&key)?;
        self.insert(key, value);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Check against a list of who came when: it never has more than its room, always has the last half that were put
        /// in or asked for, and says of each what was put in last.
        #[test]
        fn keeps_the_last(most in 1_usize..20, steps in prop::collection::vec((0_u8..3, 0_u8..30), 0..300)) {
            let mut recent = RecentMap::new(most);
            let mut expected: HashMap<u8, usize> = HashMap::new();
            let mut order: Vec<u8> = Vec::new();
            for (n, (what, key)) in steps.into_iter().enumerate() {
                let is_late = order.iter().rev().take((most / 2).max(1)).any(|&k| k == key);
                let found = match what {
                    0 => {
                        recent.insert(key, n);
                        expected.insert(key, n);
                        Some(n)
                    }
                    1 => recent.get(key),
                    _ => recent.remove(&key),
                };
                let known = expected.get(&key).copied();
                prop_assert!(found == known || found.is_none() && !is_late, "{} is {:?}", key, found);
                if found.is_some() {
                    order.retain(|&k| k != key);
                    order.push(key);
                }
                if found.is_none() || what == 2 {
                    expected.remove(&key);
                }
                prop_assert!(recent.young.len() + recent.old.len() <= most.max(2));
            }
        }
    }
}
