//! The page's data, as `web/data.js` reads it. No part of quell's contract: it may change with the page.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quell_event::{Cause, NO_STACK};
use serde_json::{Value, json};

use crate::about::{About, NameSource};
use crate::bins::Binner;
use crate::cells::Cells;
use crate::keys::OTHER_STACK;
use crate::names::{StackTree, UniqueTexts, cut_name};
use crate::spent::SpentRows;

/// A number that stands for "folded".
const FOLDED_NUMBER: i64 = -1;

/// Amounts of everything, and how many bytes they are.
#[derive(Default)]
pub(crate) struct PackedAmounts {
    causes: Cells,
    sites: Cells,
    pairs: Cells,
    matrix: Cells,
    spread: Cells,
}

impl PackedAmounts {
    pub(crate) fn new(b: &Binner) -> Self {
        let (step, bin) = first_step_and_bin(b);
        let mut packed = Self::default();
        for cause in used_causes(b) {
            packed.causes.push_series(&b.timeline[cause as usize], bin);
        }
        b.sites
            .live_entries()
            .for_each(|e| packed.sites.push_series(&e.series, step));
        b.pairs
            .live_entries()
            .for_each(|e| packed.pairs.push_series(&e.series, step));
        b.matrix
            .pairs()
            .live_entries()
            .for_each(|e| packed.matrix.push_series(&e.series, step));
        packed.spread.push_spread(&b.spread, step);
        packed
    }

    pub(crate) fn len(&self) -> usize {
        [
            &self.causes,
            &self.sites,
            &self.pairs,
            &self.matrix,
            &self.spread,
        ]
        .into_iter()
        .map(Cells::len)
        .sum()
    }
}

/// Names of everything, and how many bytes they are.
#[derive(Default)]
pub(crate) struct PackedNames {
    frames: UniqueTexts,
    regions: UniqueTexts,
    tree: StackTree,
    /// Of each site: a node of the tree; −1 none, −2 folded.
    stack: Vec<i32>,
    region: Vec<i64>,
}

impl PackedNames {
    pub(crate) fn new(b: &Binner, names: &dyn NameSource) -> Self {
        let mut named = Self::default();
        for e in b.sites.live_entries() {
            let stack = match e.key.stack {
                OTHER_STACK => -2,
                NO_STACK => -1,
                id => names
                    .stack(id)
                    .map_or(-1, |frames| named.tree.add(&mut named.frames, &frames)),
            };
            named.stack.push(stack);
            let region = e.key.region.map(|r| named.regions.id(&names.region(r)));
            named.region.push(region.map_or(FOLDED_NUMBER, i64::from));
        }
        named
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.bytes + self.regions.bytes + self.tree.json_bytes()
    }
}

/// The first step, and the first bin in it.
fn first_step_and_bin(b: &Binner) -> (u64, u64) {
    let min = b.range.map_or(0, |r| r.0);
    let step = min >> b.step_log2;
    (step, step << (b.step_log2 - b.bin_log2))
}

/// Causes with rows, those with most stall first: they get the most distinct colours.
fn used_causes(b: &Binner) -> Vec<Cause> {
    let total = |c: Cause| {
        let cells = b.timeline[c as usize].cells();
        cells
            .iter()
            .fold((0u64, 0u64), |sum, (_, [n, _, _, stall])| {
                (sum.0.saturating_add(*stall), sum.1.saturating_add(*n))
            })
    };
    let seen = Cause::ALL
        .into_iter()
        .filter(|&c| !b.timeline[c as usize].cells().is_empty());
    let mut used: Vec<Cause> = seen.collect();
    used.sort_by_key(|&c| (std::cmp::Reverse(total(c)), c));
    used
}

/// A figure of each of these things.
fn column<T, N: Into<Value>>(things: &[T], figure: impl Fn(&T) -> N) -> Value {
    things.iter().map(|thing| figure(thing).into()).collect()
}

/// Everything together. Times are ns after the recording began, where nothing else is said.
pub(crate) fn page_data(
    b: &Binner,
    about: &About<'_>,
    names: &dyn NameSource,
    packed: &PackedAmounts,
    mut named: PackedNames,
) -> Value {
    let spent = SpentRows::new(about.costs, names, &mut named.frames, &mut named.tree);
    let s = about.summary;
    let used = used_causes(b);
    let places: HashMap<Cause, u32> = used.iter().copied().zip(0u32..).collect();
    let place = |cause: &Cause| places.get(cause).copied().unwrap_or(0);
    let origin = first_step_and_bin(b).0 << b.step_log2;
    let start = about.start_monotonic_ns;
    let relative = |t: u64| i64::try_from(i128::from(t) - i128::from(start)).unwrap_or(i64::MAX);
    let (from, to) = b.range.unwrap_or((start, start));
    let number = |n: Option<u32>| n.map_or(FOLDED_NUMBER, i64::from);
    let sites: Vec<_> = b.sites.live_entries().map(|e| e.key).collect();
    let pairs: Vec<_> = b.pairs.live_entries().map(|e| e.key).collect();
    let matrix: Vec<_> = b.matrix.pairs().live_entries().map(|e| e.key).collect();
    let shots = b.shots.kept();
    let name = |pid: u32| {
        let known = names.process(pid).filter(|name| !name.is_empty());
        known.unwrap_or_else(|| {
            b.comms
                .get(&pid)
                .map_or_else(String::new, |c| c.as_text().into_owned())
        })
    };
    let mentioned = (sites.iter().map(|s| s.culprit))
        .chain(pairs.iter().flat_map(|p| [p.culprit, p.victim]))
        .chain(shots.into_iter().flatten().map(|s| Some(s.culprit)));
    let pids: BTreeSet<u32> = mentioned.flatten().collect();
    let processes: BTreeMap<u32, String> = pids.into_iter().map(|pid| (pid, name(pid))).collect();
    json!({
        "title": cut_name(about.title),
        "version": about.version,
        "host": about.host,
        "kernel": about.kernel,
        "start_wall_ms": about.start_wall_ns / 1_000_000,
        "backend": s.backend,
        "duration_ns": s.duration_ns,
        "cpus": s.cpus,
        "notes": about.notes,
        // The exact counts: rows may be missing.
        "counted": {
            "shootdowns": s.shootdowns,
            "victims": s.victims,
            "lost": s.lost,
            "lost_known": s.lost_known,
            "lost_stacks": s.lost_stacks,
            "unseen": b.unseen,
        },
        // Where the time went, where that was looked at, and the same by stacks: of the whole trace.
        "account": s.account,
        "spent": spent,
        // When bin 0 and step 0 begin; the first and the last row.
        "origin_ns": relative(origin),
        "from_ns": relative(from),
        "to_ns": relative(to),
        "bin_ns": 1u64 << b.bin_log2,
        "bins_a_step": 1u64 << (b.step_log2 - b.bin_log2),
        "steps": b.step_count(),
        "causes": {
            "name": column(&used, |c| c.name()),
            "text": column(&used, |c| c.describe().split_whitespace().collect::<Vec<_>>().join(" ")),
            // By bin; all others by step.
            "cells": packed.causes.to_base64(),
        },
        "sites": {
            "cause": column(&sites, |s| place(&s.cause)),
            "culprit": column(&sites, |s| number(s.culprit)),
            "region": named.region,
            "stack": named.stack,
            "cells": packed.sites.to_base64(),
        },
        "pairs": {
            "culprit": column(&pairs, |p| number(p.culprit)),
            "victim": column(&pairs, |p| number(p.victim)),
            "bystander": column(&pairs, |p| u8::from(p.bystander)),
            "cells": packed.pairs.to_base64(),
        },
        "matrix": {
            "group": b.matrix.cpus_per_group(),
            "from": column(&matrix, |p| p.from),
            "at": column(&matrix, |p| p.at),
            "cells": packed.matrix.to_base64(),
        },
        "spread": packed.spread.to_base64(),
        // After bin 0 began.
        "shots": shots.map(|shots| json!({
            "t_ns": column(shots, |s| s.t_ns.saturating_sub(origin)),
            "cause": column(shots, |s| place(&s.cause)),
            "culprit": column(shots, |s| s.culprit),
            "victims": column(shots, |s| s.victims),
            "wait_ns": column(shots, |s| s.wait_ns),
            "stall_ns": column(shots, |s| s.stall_ns),
        })),
        "processes": processes,
        "frames": Value::from_iter(named.frames.list),
        "tree": named.tree,
        "regions": Value::from_iter(named.regions.list),
        "folded": {"sites": b.sites.folded_count(), "pairs": b.pairs.folded_count()},
    })
}
