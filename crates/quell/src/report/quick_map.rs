//! The table that sums over a trace are kept in.

/// Some are looked up for each row, so with a quick hash that a hostile trace can't aim at.
pub(super) type QuickMap<K, V> = std::collections::HashMap<K, V, ahash::RandomState>;
