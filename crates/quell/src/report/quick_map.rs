//! The hash maps and sets for sums over a trace.

use ahash::RandomState;

/// Some are looked up for each row, so the hash is a quick one. It is seeded, so that a hostile trace can't aim for
/// collisions.
pub(super) type QuickMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// A set that numbers what is in it, in the order in which it came.
pub(super) type NumberedSet<T> = indexmap::IndexSet<T, RandomState>;
