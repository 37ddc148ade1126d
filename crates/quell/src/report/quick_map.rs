//! The hash map for sums over a trace.

/// Some are looked up for each row, so the hash is a quick one. It is seeded, so that a hostile trace can't aim for
/// collisions.
pub(super) type QuickMap<K, V> = std::collections::HashMap<K, V, ahash::RandomState>;
