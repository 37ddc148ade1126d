//! A comparison as the object `quell/lab-compare/1`. Its keys never change, more may be added.

use quell_lab::judge::Verdict;
use quell_lab::summary::Interval;
use serde::Serialize;

use super::{Change, Comparison, Differs, Figure, Pair};

const SCHEMA: &str = "quell/lab-compare/1";

/// The object, in one line.
///
/// # Errors
///
/// None that this has: there is no key that is not text.
pub(crate) fn json(c: &Comparison<'_>) -> serde_json::Result<String> {
    serde_json::to_string(&Object {
        schema: SCHEMA,
        a: File {
            path: &c.a,
            experiments: c.many.0,
        },
        b: File {
            path: &c.b,
            experiments: c.many.1,
        },
        experiments: c.pairs.iter().map(One::new).collect(),
        only_a: &c.only_a,
        only_b: &c.only_b,
    })
}

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    a: File<'a>,
    b: File<'a>,
    experiments: Vec<One<'a>>,
    only_a: &'a [&'a str],
    only_b: &'a [&'a str],
}

#[derive(Serialize)]
struct File<'a> {
    path: &'a str,
    experiments: usize,
}

#[derive(Serialize)]
struct Both<T> {
    a: T,
    b: T,
}

#[derive(Serialize)]
struct Stall {
    a: Interval,
    b: Interval,
    ratio: Option<f64>,
}

#[derive(Serialize)]
struct One<'a> {
    experiment: &'a str,
    change: Change,
    why: &'static str,
    differs: Vec<Differs>,
    verdict: Both<Verdict>,
    sham_verdict: Both<Verdict>,
    stall_ppm: Stall,
    shootdowns_per_op: Figure,
    ns_per_event: Figure,
    turn_p999_ns: Figure,
    op_p50_ns: Figure,
}

impl<'a> One<'a> {
    fn new(pair: &Pair<'a>) -> Self {
        let (change, why) = pair.change();
        Self {
            experiment: &pair.a.experiment,
            change,
            why,
            differs: pair.differs(),
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
            shootdowns_per_op: pair.shootdowns_per_op(),
            ns_per_event: pair.ns_per_event(),
            turn_p999_ns: pair.turn_p999_ns(),
            op_p50_ns: pair.op_p50_ns(),
        }
    }
}
