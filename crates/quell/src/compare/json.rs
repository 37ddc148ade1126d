//! A comparison as the object `quell/compare/1`. Its keys never change, more may be added.

use quell_event::Summary;
use quell_event::summary::Quantiles;
use serde::Serialize;

use super::Comparison;
use super::change::{Row, change, rate};
use super::side::Side;
use super::spent::Accounts;

const SCHEMA: &str = "quell/compare/1";

/// The object, in one line.
///
/// # Errors
///
/// None that this has: there is no key that is not text.
pub(crate) fn json(c: &Comparison) -> serde_json::Result<String> {
    serde_json::to_string(&Object::new(c))
}

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    a: One<'a>,
    b: One<'a>,
    #[serde(flatten)]
    total: Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<AccountPair>,
    wait_each: Spread,
    delay_each: Spread,
    stall_each: Spread,
    causes: Vec<Line<'a>>,
    culprits: Vec<Line<'a>>,
    threads: Vec<Line<'a>>,
    regions: Vec<Line<'a>>,
    stacks: Vec<Line<'a>>,
    notes: &'a [String],
}

impl<'a> Object<'a> {
    fn new(c: &'a Comparison) -> Self {
        let durations = (c.a.summary.duration_ns, c.b.summary.duration_ns);
        let spread = |of: fn(&Summary) -> Quantiles| Spread {
            a: of(&c.a.summary),
            b: of(&c.b.summary),
        };
        let named = |rows: &'a [Row<String>], name: fn(&'a str) -> Name<'a>| {
            let line = |r: &'a Row<String>| Line::new(name(&r.key), r, durations);
            rows.iter().map(line).collect()
        };
        Self {
            schema: SCHEMA,
            a: One::new(&c.a),
            b: One::new(&c.b),
            total: Figures::new(&c.total, durations),
            account: Accounts::of(&c.a, &c.b)
                .map(|accounts| AccountPair::new(&accounts, durations)),
            wait_each: spread(|s| s.wait_ns),
            delay_each: spread(|s| s.delay_ns),
            stall_each: spread(|s| s.stall_ns),
            causes: named(&c.causes, Name::Cause),
            culprits: named(&c.culprits, Name::Comm),
            threads: named(&c.threads, Name::Comm),
            regions: named(&c.regions, Name::Region),
            stacks: c
                .stacks
                .iter()
                .map(|r| Line::new(Name::Frames(&r.key), r, durations))
                .collect(),
            notes: &c.notes,
        }
    }
}

/// One of the traces.
#[derive(Serialize)]
struct One<'a> {
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
    /// As in `meta.json`: `all`, `none`, or every how many-th.
    sampled: &'a str,
    cut_short: bool,
}

impl<'a> One<'a> {
    fn new(side: &'a Side) -> Self {
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
struct Spread {
    a: Quantiles,
    b: Quantiles,
}

/// A figure of both.
#[derive(Serialize)]
struct Pair {
    a: u64,
    b: u64,
    a_per_s: f64,
    b_per_s: f64,
    /// As a share of A; null where A has none and B has some.
    change: Option<f64>,
    change_per_s: Option<f64>,
}

impl Pair {
    fn new(a: u64, b: u64, durations: (u64, u64)) -> Self {
        let (a_per_s, b_per_s) = (rate(a, durations.0), rate(b, durations.1));
        Self {
            a,
            b,
            a_per_s,
            b_per_s,
            change: change(a as f64, b as f64),
            change_per_s: change(a_per_s, b_per_s),
        }
    }
}

#[derive(Serialize)]
struct Figures {
    shootdowns: Pair,
    #[serde(skip_serializing_if = "Option::is_none")]
    victims: Option<Pair>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ns: Option<Pair>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stall_ns: Option<Pair>,
}

impl Figures {
    fn new<K>(row: &Row<K>, durations: (u64, u64)) -> Self {
        let pair = |a: Option<u64>, b: Option<u64>| {
            // a side that has none at all says nothing of what is told of it
            (a.is_some() || b.is_some())
                .then(|| Pair::new(a.unwrap_or(0), b.unwrap_or(0), durations))
        };
        Self {
            shootdowns: Pair::new(row.a.shootdowns, row.b.shootdowns, durations),
            victims: pair(row.a.victims, row.b.victims),
            wait_ns: pair(row.a.wait_ns, row.b.wait_ns),
            stall_ns: pair(row.a.stall_ns, row.b.stall_ns),
        }
    }
}

/// The accounts of the time. Where only one trace has one there is none.
#[derive(Serialize)]
struct AccountPair {
    cpu_ns: Pair,
    memory_cpu_ns: Pair,
    blocked_ns: Pair,
    mechanisms: Vec<MechanismPair>,
}

#[derive(Serialize)]
struct MechanismPair {
    mechanism: &'static str,
    cpu_ns: Pair,
    blocked_ns: Pair,
    /// Between these the CPU times are, in 95 of 100 recordings.
    a_ci95: [u64; 2],
    b_ci95: [u64; 2],
    /// Whether these have nothing in common: sampling alone makes no such difference.
    apart: bool,
}

impl AccountPair {
    fn new(accounts: &Accounts<'_>, durations: (u64, u64)) -> Self {
        let (a, b) = (accounts.a, accounts.b);
        let pair = |a, b| Pair::new(a, b, durations);
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
enum Name<'a> {
    Cause(&'a str),
    Comm(&'a str),
    Region(&'a str),
    Frames(&'a [String]),
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    /// `both`, `gone` or `new`.
    state: &'static str,
    #[serde(flatten)]
    figures: Figures,
}

impl<'a> Line<'a> {
    fn new<K>(name: Name<'a>, row: &Row<K>, durations: (u64, u64)) -> Self {
        Self {
            name,
            state: row.state.name(),
            figures: Figures::new(row, durations),
        }
    }
}
