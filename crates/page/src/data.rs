//! The page's data, as `web/data.js` reads it. No part of quell's contract: it may change with the page.

use std::collections::{BTreeMap, HashMap};

use quell_event::account::AccountSummary;
use quell_event::{Cause, NO_STACK};
use serde::Serialize;

use crate::about::{About, NameSource};
use crate::bins::Binner;
use crate::cells::Cells;
use crate::keys::OTHER_STACK;
use crate::names::{StackTree, UniqueTexts, cut_name};
use crate::spent::SpentRows;

/// A number that stands for "folded".
const FOLDED_NUMBER: i64 = -1;

/// The whole.
#[derive(Serialize)]
pub(crate) struct PageData<'a> {
    title: String,
    version: &'a str,
    host: &'a str,
    kernel: &'a str,
    start_wall_ms: u64,
    backend: &'a str,
    duration_ns: u64,
    cpus: u32,
    notes: &'a [String],
    counted: ExactCounts,
    /// Where the time went, where that was looked at: of the whole trace.
    account: Option<&'a AccountSummary>,
    /// The same by stacks.
    spent: Option<SpentRows>,
    /// When bin 0 and step 0 begin, ns after the recording began.
    origin_ns: i64,
    /// First and last row, ns after the recording began.
    from_ns: i64,
    to_ns: i64,
    bin_ns: u64,
    bins_a_step: u64,
    steps: u64,
    causes: CauseColumns,
    sites: SiteColumns,
    pairs: PairColumns,
    matrix: MatrixColumns,
    spread: String,
    shots: Option<ShotColumns>,
    processes: BTreeMap<u32, String>,
    frames: Vec<String>,
    tree: StackTree,
    regions: Vec<String>,
    folded: FoldedCounts,
}

/// The exact counts: rows may be missing.
#[derive(Serialize)]
struct ExactCounts {
    shootdowns: u64,
    victims: u64,
    lost: u64,
    lost_known: bool,
    lost_stacks: u64,
    unseen: u64,
}

#[derive(Serialize)]
struct CauseColumns {
    name: Vec<&'static str>,
    text: Vec<String>,
    /// By bin.
    cells: String,
}

#[derive(Serialize)]
struct SiteColumns {
    cause: Vec<u32>,
    culprit: Vec<i64>,
    region: Vec<i64>,
    /// A node of the tree; −1 none, −2 folded.
    stack: Vec<i32>,
    cells: String,
}

#[derive(Serialize)]
struct PairColumns {
    culprit: Vec<i64>,
    victim: Vec<i64>,
    bystander: Vec<u8>,
    cells: String,
}

#[derive(Serialize)]
struct MatrixColumns {
    group: u32,
    from: Vec<u16>,
    at: Vec<u16>,
    cells: String,
}

#[derive(Serialize)]
struct ShotColumns {
    /// After bin 0 began.
    t_ns: Vec<u64>,
    cause: Vec<u32>,
    culprit: Vec<u32>,
    victims: Vec<u64>,
    wait_ns: Vec<u64>,
    stall_ns: Vec<u64>,
}

#[derive(Serialize)]
struct FoldedCounts {
    sites: u64,
    pairs: u64,
}

/// Amounts of everything, and how many bytes they are.
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
        let mut packed = Self {
            causes: Cells::default(),
            sites: Cells::default(),
            pairs: Cells::default(),
            matrix: Cells::default(),
            spread: Cells::default(),
        };
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
pub(crate) struct PackedNames {
    frames: UniqueTexts,
    regions: UniqueTexts,
    tree: StackTree,
    /// Of each site.
    stack: Vec<i32>,
    region: Vec<i64>,
}

impl PackedNames {
    pub(crate) fn new(b: &Binner, names: &dyn NameSource) -> Self {
        let mut named = Self {
            frames: UniqueTexts::default(),
            regions: UniqueTexts::default(),
            tree: StackTree::default(),
            stack: Vec::new(),
            region: Vec::new(),
        };
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
        .iter()
        .copied()
        .filter(|&c| !b.timeline[c as usize].cells().is_empty());
    let mut used: Vec<Cause> = seen.collect();
    used.sort_by_key(|&c| (std::cmp::Reverse(total(c)), c));
    used
}

/// Everything together.
pub(crate) fn page_data<'a>(
    b: &Binner,
    about: &About<'a>,
    names: &dyn NameSource,
    packed: &PackedAmounts,
    mut named: PackedNames,
) -> PageData<'a> {
    let spent = SpentRows::new(about.costs, names, &mut named.frames, &mut named.tree);
    let s = about.summary;
    let used = used_causes(b);
    let place: HashMap<Cause, u32> = used.iter().copied().zip(0u32..).collect();
    let origin_abs = first_step_and_bin(b).0 << b.step_log2;
    let relative = |t: u64| {
        i64::try_from(i128::from(t) - i128::from(about.start_monotonic_ns)).unwrap_or(i64::MAX)
    };
    let (from, to) = b
        .range
        .unwrap_or((about.start_monotonic_ns, about.start_monotonic_ns));
    let number = |n: Option<u32>| n.map_or(FOLDED_NUMBER, i64::from);
    let mut sites = SiteColumns {
        cause: Vec::new(),
        culprit: Vec::new(),
        region: named.region,
        stack: named.stack,
        cells: packed.sites.to_base64(),
    };
    let mut processes = BTreeMap::new();
    let mut name = |pid: Option<u32>| {
        let Some(pid) = pid else { return };
        processes.entry(pid).or_insert_with(|| {
            let comm = || {
                b.comms
                    .get(&pid)
                    .map_or_else(String::new, |c| c.as_text().into_owned())
            };
            names
                .process(pid)
                .filter(|n| !n.is_empty())
                .unwrap_or_else(comm)
        });
    };
    for e in b.sites.live_entries() {
        sites
            .cause
            .push(place.get(&e.key.cause).copied().unwrap_or(0));
        sites.culprit.push(number(e.key.culprit));
        name(e.key.culprit);
    }
    let mut pairs = PairColumns {
        culprit: Vec::new(),
        victim: Vec::new(),
        bystander: Vec::new(),
        cells: packed.pairs.to_base64(),
    };
    for e in b.pairs.live_entries() {
        pairs.culprit.push(number(e.key.culprit));
        pairs.victim.push(number(e.key.victim));
        pairs.bystander.push(u8::from(e.key.bystander));
        name(e.key.culprit);
        name(e.key.victim);
    }
    let shots = b.shots.kept().map(|kept| ShotColumns {
        t_ns: kept
            .iter()
            .map(|s| s.t_ns.saturating_sub(origin_abs))
            .collect(),
        cause: kept
            .iter()
            .map(|s| place.get(&s.cause).copied().unwrap_or(0))
            .collect(),
        culprit: kept.iter().map(|s| s.culprit).collect(),
        victims: kept.iter().map(|s| s.victims).collect(),
        wait_ns: kept.iter().map(|s| s.wait_ns).collect(),
        stall_ns: kept.iter().map(|s| s.stall_ns).collect(),
    });
    if let Some(kept) = b.shots.kept() {
        kept.iter().for_each(|s| name(Some(s.culprit)));
    }
    PageData {
        title: cut_name(about.title),
        version: about.version,
        host: about.host,
        kernel: about.kernel,
        start_wall_ms: about.start_wall_ns / 1_000_000,
        backend: &s.backend,
        duration_ns: s.duration_ns,
        cpus: s.cpus,
        notes: about.notes,
        counted: ExactCounts {
            shootdowns: s.shootdowns,
            victims: s.victims,
            lost: s.lost,
            lost_known: s.lost_known,
            lost_stacks: s.lost_stacks,
            unseen: b.unseen,
        },
        account: s.account.as_ref(),
        spent,
        origin_ns: relative(origin_abs),
        from_ns: relative(from),
        to_ns: relative(to),
        bin_ns: 1 << b.bin_log2,
        bins_a_step: 1 << (b.step_log2 - b.bin_log2),
        steps: b.step_count(),
        causes: CauseColumns {
            name: used.iter().map(|c| c.name()).collect(),
            text: used
                .iter()
                .map(|c| {
                    c.describe()
                        .split_whitespace()
                        .collect::<Vec<_>>()
                        .join(" ")
                })
                .collect(),
            cells: packed.causes.to_base64(),
        },
        sites,
        pairs,
        matrix: MatrixColumns {
            group: b.matrix.cpus_per_group(),
            from: b
                .matrix
                .pairs()
                .live_entries()
                .map(|e| e.key.from)
                .collect(),
            at: b.matrix.pairs().live_entries().map(|e| e.key.at).collect(),
            cells: packed.matrix.to_base64(),
        },
        spread: packed.spread.to_base64(),
        shots,
        processes,
        frames: named.frames.list,
        tree: named.tree,
        regions: named.regions.list,
        folded: FoldedCounts {
            sites: b.sites.folded_count(),
            pairs: b.pairs.folded_count(),
        },
    }
}
