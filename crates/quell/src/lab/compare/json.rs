//! A comparison as the object `quell/lab-compare/1`. Its keys never change, more may be added.

use quell_lab::judge::LabVerdict;
use quell_lab::summary::IntervalSummary;
use serde::Serialize;

use super::{Change, Comparison, Differs, Figure, File, Pair};

const SCHEMA: &str = "quell/lab-compare/1";

/// The object.
pub(crate) fn comparison_object(c: &Comparison<'_>) -> impl Serialize {
    Object {
        schema: SCHEMA,
        a: c.a.first().copied(),
        b: c.b.first().copied(),
        more_a: c.a.get(1..).unwrap_or_default(),
        more_b: c.b.get(1..).unwrap_or_default(),
        experiments: c.pairs.iter().map(|p| One::new(p, c.pairs.len())).collect(),
        only_a: &c.only_a,
        only_b: &c.only_b,
    }
}

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    a: Option<File<'a>>,
    b: Option<File<'a>>,
    more_a: &'a [File<'a>],
    more_b: &'a [File<'a>],
    experiments: Vec<One<'a>>,
    only_a: &'a [&'a str],
    only_b: &'a [&'a str],
}

#[derive(Serialize)]
struct Both<T> {
    a: T,
    b: T,
}

#[derive(Serialize)]
struct Stall {
    a: IntervalSummary,
    b: IntervalSummary,
    ratio: Option<f64>,
}

#[derive(Serialize)]
struct One<'a> {
    experiment: &'a str,
    change: Change,
    why: &'static str,
    /// Whether the intervals of the first two runs lie apart, which is no claim.
    within: Change,
    runs: Both<usize>,
    differs: Vec<Differs>,
    /// Among the runs of one side.
    not_alike: Vec<Differs>,
    verdict: Both<LabVerdict>,
    sham_verdict: Both<LabVerdict>,
    stall_ppm: Stall,
    stall_ns_per_op: Figure,
    shootdowns_per_op: Figure,
    ns_per_event: Figure,
    turn_p999_ns: Figure,
    op_p50_ns: Figure,
}

impl<'a> One<'a> {
    fn new(pair: &Pair<'a>, family: usize) -> Self {
        let (change, why) = pair.change(family);
        Self {
            experiment: &pair.a.experiment,
            change,
            why,
            within: pair.within(),
            runs: Both {
                a: pair.runs_a().count(),
                b: pair.runs_b().count(),
            },
            differs: pair.differs(),
            not_alike: pair.not_alike(),
            verdict: Both {
                a: pair.a.verdict,
                b: pair.b.verdict,
            },
            sham_verdict: Both {
                a: pair.a.sham_verdict,
                b: pair.b.sham_verdict,
            },
            stall_ppm: Stall {
                a: pair.stall(pair.a),
                b: pair.stall(pair.b),
                ratio: pair.stall_ratio(),
            },
            stall_ns_per_op: pair.stall_ns_per_op(),
            shootdowns_per_op: pair.shootdowns_per_op(),
            ns_per_event: pair.ns_per_event(),
            turn_p999_ns: pair.turn_p999_ns(),
            op_p50_ns: pair.op_p50_ns(),
        }
    }
}
