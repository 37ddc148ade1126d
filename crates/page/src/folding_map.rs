//! A map from keys to amounts over time, within a bound: where it is reached, keys are folded into coarser ones.

use std::collections::HashMap;
use std::hash::Hash;

use crate::series::{StepAmount as _, StepSeries};

/// A key, and the coarser key under which it is counted where there are too many.
pub(crate) trait FoldKey: Copy + Eq + Hash {
    /// How much it says: 0 says the least and is never folded.
    fn detail(self) -> u8;
    /// The same, saying less.
    fn coarser(self) -> Self;
}

/// One of them.
pub(crate) struct FoldEntry<K, const N: usize> {
    pub(crate) key: K,
    pub(crate) series: StepSeries<[u64; N]>,
    pub(crate) total: [u64; N],
    /// Where it was folded into.
    into: Option<u32>,
}

/// All of them.
pub(crate) struct FoldingMap<K, const N: usize> {
    ids: HashMap<K, u32, ahash::RandomState>,
    entries: Vec<FoldEntry<K, N>>,
    /// The last key and its number, because rows of one kind come in runs.
    last: Option<(K, u32)>,
    live: usize,
    cells: usize,
    folded: u64,
}

impl<K: FoldKey, const N: usize> Default for FoldingMap<K, N> {
    fn default() -> Self {
        Self {
            ids: HashMap::default(),
            entries: Vec::new(),
            last: None,
            live: 0,
            cells: 0,
            folded: 0,
        }
    }
}

impl<K: FoldKey, const N: usize> FoldingMap<K, N> {
    /// Adds an amount; true if the key was never seen before.
    #[inline]
    pub(crate) fn add(&mut self, key: K, step: u64, amount: &[u64; N]) -> bool {
        let known = self.ids.len();
        let id = match self.last {
            Some((last, id)) if last == key => id,
            _ => {
                let id = self.id(key);
                self.last = Some((key, id));
                id
            }
        };
        let entry = &mut self.entries[id as usize];
        entry.total.add(amount);
        self.cells += usize::from(entry.series.add(step, amount));
        self.ids.len() > known
    }

    /// The number under which a key is counted: its own, or that of the coarser key into which it was folded.
    fn id(&mut self, key: K) -> u32 {
        if let Some(&id) = self.ids.get(&key) {
            let mut id = id;
            // It ends, as each key was folded into a coarser one.
            while let Some(into) = self.entries[id as usize].into {
                id = into;
            }
            return id;
        }
        let id = self.entries.len() as u32;
        self.ids.insert(key, id);
        self.entries.push(FoldEntry {
            key,
            series: StepSeries::default(),
            total: [0; N],
            into: None,
        });
        self.live += 1;
        id
    }

    /// Those that stand for themselves.
    pub(crate) fn live_entries(&self) -> impl Iterator<Item = &FoldEntry<K, N>> {
        self.entries.iter().filter(|e| e.into.is_none())
    }

    /// How many stand for themselves.
    pub(crate) fn live_count(&self) -> usize {
        self.live
    }

    /// Amounts that are kept.
    pub(crate) fn cells(&self) -> usize {
        self.cells
    }

    /// How many were folded into others. A coarser key that is folded in its turn counts as one more.
    pub(crate) fn folded_count(&self) -> u64 {
        self.folded
    }

    /// Makes steps twice as long.
    pub(crate) fn double_steps(&mut self) {
        self.entries
            .iter_mut()
            .for_each(|e| e.series.double_steps());
        self.recount_cells();
    }

    /// Folds the smallest entries until at most `most` are left, with at most `cells` amounts. The most detailed keys go first.
    /// False if nothing was folded: there was no need, or no key can be coarser.
    pub(crate) fn fold_smallest(&mut self, most: usize, cells: usize) -> bool {
        let before = self.folded;
        let finest = self
            .live_entries()
            .map(|e| e.key.detail())
            .max()
            .unwrap_or(0);
        for detail in (1..=finest).rev() {
            for id in self.smallest_ids(detail) {
                if self.live <= most && self.cells <= cells {
                    break;
                }
                self.fold_one(id);
            }
        }
        // It may have been folded.
        self.last = None;
        self.folded > before
    }

    fn fold_one(&mut self, id: u32) {
        let coarser = self.entries[id as usize].key.coarser();
        let into = self.id(coarser);
        if into == id {
            return;
        }
        let entry = &mut self.entries[id as usize];
        entry.into = Some(into);
        let series = std::mem::take(&mut entry.series);
        let total = std::mem::replace(&mut entry.total, [0; N]);
        let target = &mut self.entries[into as usize];
        let had = target.series.cells().len();
        target.series.merge(&series);
        target.total.add(&total);
        self.cells = self.cells + target.series.cells().len() - had - series.cells().len();
        self.live -= 1;
        self.folded += 1;
    }

    /// Those of one detail, by their share of all amounts.
    fn smallest_ids(&self, detail: u8) -> Vec<u32> {
        let mut all = [0u64; N];
        self.live_entries().for_each(|e| all.add(&e.total));
        let share = |e: &FoldEntry<K, N>| -> f64 {
            let parts = e.total.iter().zip(&all);
            parts.map(|(&n, &all)| n as f64 / all.max(1) as f64).sum()
        };
        let mut ids: Vec<(f64, u32)> = (0u32..)
            .zip(&self.entries)
            .filter(|(_, e)| e.into.is_none() && e.key.detail() == detail)
            .map(|(id, e)| (share(e), id))
            .collect();
        ids.sort_by(|a, b| a.0.total_cmp(&b.0));
        ids.into_iter().map(|(_, id)| id).collect()
    }

    fn recount_cells(&mut self) {
        self.cells = self.entries.iter().map(|e| e.series.cells().len()).sum();
    }
}
