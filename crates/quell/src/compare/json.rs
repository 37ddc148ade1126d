//! A comparison as the object `quell/compare/1`. Its keys never change, more may be added.

use quell_event::TallySummary;
use quell_event::tally_summary::Quantiles;
use serde::Serialize;

use super::Comparison;
use super::accounts::ComparedAccounts;
use super::change::{ComparedRow, rate_per_second, relative_change};
use super::side::TraceSide;

const COMPARE_SCHEMA: &str = "quell/compare/1";

/// The object, in one line.
///
/// # Errors
///
/// None in practice: every key is text.
pub(crate) fn comparison_json(c: &Comparison) -> serde_json::Result<String> {
    serde_json::to_string(&ComparisonJson::new(c))
}

#[derive(Serialize)]
struct ComparisonJson<'a> {
    schema: &'static str,
    a: TraceJson<'a>,
    b: TraceJson<'a>,
    #[serde(flatten)]
    total: FiguresJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<AccountPair>,
    wait_each: QuantilesPair,
    delay_each: QuantilesPair,
    stall_each: QuantilesPair,
    causes: Vec<RowJson<'a>>,
    culprits: Vec<RowJson<'a>>,
    threads: Vec<RowJson<'a>>,
    regions: Vec<RowJson<'a>>,
    stacks: Vec<RowJson<'a>>,
    notes: &'a [String],
}

impl<'a> ComparisonJson<'a> {
    fn new(c: &'a Comparison) -> Self {
        let durations = (c.a.summary.duration_ns, c.b.summary.duration_ns);
        let spread = |of: fn(&TallySummary) -> Quantiles| QuantilesPair {
            a: of(&c.a.summary),
            b: of(&c.b.summary),
        };
        let named = |rows: &'a [ComparedRow<String>], name: fn(&'a str) -> KeyJson<'a>| {
            let line = |r: &'a ComparedRow<String>| RowJson::new(name(&r.key), r, durations);
            rows.iter().map(line).collect()
        };
        Self {
            schema: COMPARE_SCHEMA,
            a: TraceJson::new(&c.a),
            b: TraceJson::new(&c.b),
            total: FiguresJson::new(&c.total, durations),
            account: ComparedAccounts::of_sides(&c.a, &c.b)
                .map(|accounts| AccountPair::new(&accounts, durations)),
            wait_each: spread(|s| s.wait_ns),
            delay_each: spread(|s| s.delay_ns),
            stall_each: spread(|s| s.stall_ns),
            causes: named(&c.causes, KeyJson::Cause),
            culprits: named(&c.culprits, KeyJson::Comm),
            threads: named(&c.threads, KeyJson::Comm),
            regions: named(&c.regions, KeyJson::Region),
            stacks: c
                .stacks
                .iter()
                .map(|r| RowJson::new(KeyJson::Frames(&r.key), r, durations))
                .collect(),
            notes: &c.notes,
        }
    }
}

/// One of the traces.
#[derive(Serialize)]
struct TraceJson<'a> {
    trace: &'a str,
    title: &'a str,
    backend: &'a str,
    scope: &'a str,
    kernel: &'a str,
    host: &'a str,
    cpus: u32,
    duration_ns: u64,
    lost: u64,
    lost_known: bool,
    lost_stacks: u64,
    /// As in `meta.json`: `all`, `none`, or a number N for one in N.
    sampled: &'a str,
    cut_short: bool,
}

impl<'a> TraceJson<'a> {
    fn new(side: &'a TraceSide) -> Self {
        Self {
            trace: &side.path,
            title: &side.title,
            backend: &side.summary.backend,
            scope: &side.scope,
            kernel: &side.kernel,
            host: &side.host,
            cpus: side.summary.cpus,
            duration_ns: side.summary.duration_ns,
            lost: side.summary.lost,
            lost_known: side.summary.lost_known,
            lost_stacks: side.summary.lost_stacks,
            sampled: &side.sampled,
            cut_short: side.cut_short,
        }
    }
}

#[derive(Serialize)]
struct QuantilesPair {
    a: Quantiles,
    b: Quantiles,
}

/// A figure of both traces.
#[derive(Serialize)]
struct FigurePair {
    a: u64,
    b: u64,
    a_per_s: f64,
    b_per_s: f64,
    /// As a share of A; null where A has none and B has some.
    change: Option<f64>,
    change_per_s: Option<f64>,
}

impl FigurePair {
    fn new(a: u64, b: u64, durations: (u64, u64)) -> Self {
        let (a_per_s, b_per_s) = (
            rate_per_second(a, durations.0),
            rate_per_second(b, durations.1),
        );
        Self {
            a,
            b,
            a_per_s,
            b_per_s,
            change: relative_change(a as f64, b as f64),
            change_per_s: relative_change(a_per_s, b_per_s),
        }
    }
}

#[derive(Serialize)]
struct FiguresJson {
    shootdowns: FigurePair,
    #[serde(skip_serializing_if = "Option::is_none")]
    victims: Option<FigurePair>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ns: Option<FigurePair>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stall_ns: Option<FigurePair>,
}

impl FiguresJson {
    fn new<K>(row: &ComparedRow<K>, durations: (u64, u64)) -> Self {
        let pair = |a: Option<u64>, b: Option<u64>| {
            // A figure that neither side has is left out.
            (a.is_some() || b.is_some())
                .then(|| FigurePair::new(a.unwrap_or(0), b.unwrap_or(0), durations))
        };
        Self {
            shootdowns: FigurePair::new(row.a.shootdowns, row.b.shootdowns, durations),
            victims: pair(row.a.victims, row.b.victims),
            wait_ns: pair(row.a.wait_ns, row.b.wait_ns),
            stall_ns: pair(row.a.stall_ns, row.b.stall_ns),
        }
    }
}

/// The accounts of both traces; absent where only one trace has one.
#[derive(Serialize)]
struct AccountPair {
    cpu_ns: FigurePair,
    memory_cpu_ns: FigurePair,
    blocked_ns: FigurePair,
    mechanisms: Vec<MechanismPair>,
}

#[derive(Serialize)]
struct MechanismPair {
    mechanism: &'static str,
    cpu_ns: FigurePair,
    blocked_ns: FigurePair,
    /// The CPU times are within these bounds in 95 of 100 recordings.
    a_ci95: [u64; 2],
    b_ci95: [u64; 2],
    /// Whether the intervals don't overlap: sampling alone makes no such difference.
    apart: bool,
}

impl AccountPair {
    fn new(accounts: &ComparedAccounts<'_>, durations: (u64, u64)) -> Self {
        let (a, b) = (accounts.a, accounts.b);
        let pair = |a, b| FigurePair::new(a, b, durations);
        let mechanisms = accounts.mechanisms.iter().map(|m| MechanismPair {
            mechanism: m.mechanism.name(),
            cpu_ns: pair(m.a.cpu_ns, m.b.cpu_ns),
            blocked_ns: pair(m.a.blocked_ns, m.b.blocked_ns),
            a_ci95: m.a.ci95,
            b_ci95: m.b.ci95,
            apart: m.is_apart(),
        });
        Self {
            cpu_ns: pair(a.cpu_ns, b.cpu_ns),
            memory_cpu_ns: pair(a.memory_cpu_ns, b.memory_cpu_ns),
            blocked_ns: pair(a.blocked_ns, b.blocked_ns),
            mechanisms: mechanisms.collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum KeyJson<'a> {
    Cause(&'a str),
    Comm(&'a str),
    Region(&'a str),
    Frames(&'a [String]),
}

#[derive(Serialize)]
struct RowJson<'a> {
    #[serde(flatten)]
    name: KeyJson<'a>,
    /// `both`, `gone` or `new`.
    state: &'static str,
    #[serde(flatten)]
    figures: FiguresJson,
}

impl<'a> RowJson<'a> {
    fn new<K>(name: KeyJson<'a>, row: &ComparedRow<K>, durations: (u64, u64)) -> Self {
        Self {
            name,
            state: row.state.name(),
            figures: FiguresJson::new(row, durations),
        }
    }
}
