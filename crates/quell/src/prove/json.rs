//! The proof as one JSON object, `quell/prove/1`.

use std::collections::BTreeMap;

use quell_remedy::RemedyCeiling;
use quell_remedy::advice::Advised;
use serde::{Serialize, Serializer};

use super::left_out::LeftOut;
use super::metric::MetricUnit;
use super::pair_accounts;
use super::proof::{JudgedMetric, Proof};
use super::tried::TriedChange;
use crate::plan::PlannedJson;

#[derive(Serialize)]
struct ProofJson<'a> {
    schema: &'static str,
    command: &'a [String],
    pairs: usize,
    verdict: &'static str,
    /// The reason why no pairs were run, if none were.
    reason: Option<&'a str>,
    plan: Vec<PlannedJson<'a>>,
    left_out: Vec<LeftOutJson<'a>>,
    /// The share of all shootdowns that the whole plan was expected to stop.
    predicted_stop: f64,
    /// The share that it stopped in the pairs; null where no pairs were run, or there was nothing to stop.
    measured_stop: Option<f64>,
    environment: &'a BTreeMap<String, String>,
    /// The metric that the verdict is about; null where no pairs were run.
    objective: Option<ObjectiveJson<'a>>,
    /// The changes that were tried by runs before, in the order of their races. The first race has the whole plan where it has
    /// several parts, and the single changes.
    tried: Vec<TriedJson<'a>>,
    #[serde(serialize_with = "metrics_by_name")]
    metrics: &'a [JudgedMetric],
    observed: Option<ObservedJson>,
    account: Option<pair_accounts::AccountJson<'a>>,
    /// Advice for costs that no setting reaches.
    advice: &'a [Advised],
    notes: &'a [String],
    seed: u64,
}

/// A remedy that breaks the program, or would as far as the program's files tell.
#[derive(Serialize)]
struct LeftOutJson<'a> {
    remedy: &'a str,
    sets: &'a BTreeMap<String, String>,
    starts: &'a BTreeMap<String, String>,
    why: &'a str,
    /// The number of runs with it; 0 where it was not tried.
    runs: usize,
    failed: usize,
    /// False where only the plan as a whole is known to break the program.
    singled_out: bool,
}

impl<'a> From<&'a LeftOut> for LeftOutJson<'a> {
    fn from(out: &'a LeftOut) -> Self {
        Self {
            remedy: &out.planned.remedy,
            sets: &out.planned.sets,
            starts: &out.planned.starts,
            why: &out.why,
            runs: out.with.runs,
            failed: out.with.failed,
            singled_out: out.singled_out,
        }
    }
}

/// The metric that the verdict is about.
#[derive(Serialize)]
struct ObjectiveJson<'a> {
    name: &'a str,
    /// The value after, divided by that before.
    ratio: f64,
    /// An end that is infinite is null.
    ci95: [Option<f64>; 2],
    verdict: &'static str,
}

/// One or several changes that were tried together.
#[derive(Serialize)]
struct TriedJson<'a> {
    remedy: String,
    sets: BTreeMap<&'a String, &'a String>,
    starts: BTreeMap<&'a String, &'a String>,
    runs: usize,
    ratio: f64,
    ci95: [Option<f64>; 2],
    won: bool,
    kept: bool,
    why: &'a str,
    /// The remedies of the runs that it was compared with.
    beside: &'a [String],
    /// For a single change beside plain runs, as in [`PlannedJson`]: it was predicted for those.
    ceiling: Option<RemedyCeiling>,
    predicted: Option<[f64; 2]>,
}

impl<'a> From<&'a TriedChange> for TriedJson<'a> {
    fn from(tried: &'a TriedChange) -> Self {
        let single = match tried.changes.as_slice() {
            [one] if tried.beside.is_empty() => Some(one),
            _ => None,
        };
        Self {
            remedy: tried.remedy_names(),
            sets: tried.changes.iter().flat_map(|c| &c.sets).collect(),
            starts: tried.changes.iter().flat_map(|c| &c.starts).collect(),
            runs: tried.runs,
            ratio: tried.ratio,
            ci95: finite_ends(tried.ci95),
            won: tried.won,
            kept: tried.kept,
            why: &tried.why,
            beside: &tried.beside,
            ceiling: single.and_then(|one| one.ceiling),
            predicted: single.and_then(|one| one.predicted),
        }
    }
}

fn finite_ends((low, high): (f64, f64)) -> [Option<f64>; 2] {
    [low, high].map(|end| end.is_finite().then_some(end))
}

#[derive(Serialize)]
struct ObservedJson {
    shootdowns: u64,
    page_faults: Option<u64>,
}

#[derive(Serialize)]
struct MetricJson {
    before: Vec<serde_json::Number>,
    after: Vec<serde_json::Number>,
    /// The value after, divided by that before; null where there are no pairs.
    ratio: Option<f64>,
    /// An end that is infinite is null.
    ci95: [Option<f64>; 2],
    verdict: &'static str,
    reason: Option<String>,
    higher_is_better: bool,
}

impl From<&JudgedMetric> for MetricJson {
    fn from(judged: &JudgedMetric) -> Self {
        let c = &judged.comparison;
        let finite = |v: f64| (v.is_finite() && !c.before.is_empty()).then_some(v);
        let list = |values: &[f64]| {
            values
                .iter()
                .filter_map(|v| json_number(judged.metric.unit, *v))
                .collect()
        };
        Self {
            before: list(&c.before),
            after: list(&c.after),
            ratio: finite(c.ratio),
            ci95: match c.before.as_slice() {
                [] => [None; 2],
                _ => finite_ends(c.ci95),
            },
            verdict: c.verdict.as_str(),
            reason: judged.why_no_evidence(),
            higher_is_better: judged.metric.higher_is_better,
        }
    }
}

/// The value as an integer, but for the user's own metrics.
fn json_number(unit: MetricUnit, value: f64) -> Option<serde_json::Number> {
    match unit {
        MetricUnit::Number => serde_json::Number::from_f64(value),
        _ => Some(serde_json::Number::from(value.round() as u64)),
    }
}

/// The metrics by name, in the order of the report.
fn metrics_by_name<S: Serializer>(all: &[JudgedMetric], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(all.iter().map(|j| (&j.metric.name, MetricJson::from(j))))
}

/// The object, on one line.
pub(crate) fn proof_json(proof: &Proof) -> anyhow::Result<String> {
    let document = ProofJson {
        schema: "quell/prove/1",
        command: &proof.command,
        pairs: proof.pairs,
        verdict: proof.overall.verdict.as_str(),
        reason: proof.nothing.as_deref(),
        plan: proof.plan.remedies.iter().map(PlannedJson::from).collect(),
        left_out: proof.left_out.iter().map(LeftOutJson::from).collect(),
        predicted_stop: proof.plan.predicted_stop(),
        measured_stop: proof.measured_stop(),
        environment: &proof.environment,
        objective: proof
            .deciding_metric()
            .filter(|_| proof.pairs > 0)
            .map(|j| ObjectiveJson {
                name: &j.metric.name,
                ratio: j.comparison.ratio,
                ci95: finite_ends(j.comparison.ci95),
                verdict: j.comparison.verdict.as_str(),
            }),
        tried: proof.tried.iter().map(TriedJson::from).collect(),
        metrics: &proof.metrics,
        observed: proof.observed.as_ref().map(|e| ObservedJson {
            shootdowns: e.shootdowns,
            page_faults: e.page_faults,
        }),
        account: pair_accounts::AccountJson::new(proof.account.as_ref(), proof.spent.as_deref()),
        advice: &proof.advice,
        notes: &proof.notes,
        seed: proof.seed,
    };
    Ok(serde_json::to_string(&document)? + "\n")
}
