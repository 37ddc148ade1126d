//! A comparison as the object `quell/lab-compare/1`. Its keys never change, more may be added.

use quell_lab::judge::LabVerdict;
use quell_lab::summary::IntervalSummary;
use serde::Serialize;

use super::{
    BothSides, ComparedFile, Comparison, DifferingCondition, EffectChange, ExperimentPair,
    ExperimentRuns, RatioedFigures,
};

const COMPARISON_SCHEMA: &str = "quell/lab-compare/1";

/// The object.
pub(crate) fn comparison_object(c: &Comparison<'_>) -> impl Serialize {
    let of_pair = |pair| PairObject::new(pair, c.pairs.len());
    ComparisonObject {
        schema: COMPARISON_SCHEMA,
        first: c.files.map(|files| files.first().copied()),
        more_a: c.files.a.get(1..).unwrap_or_default(),
        more_b: c.files.b.get(1..).unwrap_or_default(),
        experiments: c.pairs.iter().map(of_pair).collect(),
        only_a: &c.only.a,
        only_b: &c.only.b,
    }
}

#[derive(Serialize)]
struct ComparisonObject<'a> {
    schema: &'static str,
    #[serde(flatten)]
    first: BothSides<Option<ComparedFile<'a>>>,
    more_a: &'a [ComparedFile<'a>],
    more_b: &'a [ComparedFile<'a>],
    experiments: Vec<PairObject<'a>>,
    only_a: &'a [&'a str],
    only_b: &'a [&'a str],
}

#[derive(Serialize)]
struct PairObject<'a> {
    experiment: &'a str,
    change: EffectChange,
    why: &'static str,
    /// Whether the intervals of the first two runs lie apart, which is no claim.
    within: EffectChange,
    runs: BothSides<usize>,
    differs: Vec<DifferingCondition>,
    /// The same among the runs of one side.
    not_alike: Vec<DifferingCondition>,
    verdict: BothSides<LabVerdict>,
    sham_verdict: BothSides<LabVerdict>,
    stall_ppm: RatioedFigures<IntervalSummary>,
    stall_ns_per_op: RatioedFigures<Option<f64>>,
    shootdowns_per_op: RatioedFigures<Option<f64>>,
    ns_per_event: RatioedFigures<Option<f64>>,
    turn_p999_ns: RatioedFigures<Option<f64>>,
    op_p50_ns: RatioedFigures<Option<f64>>,
}

impl<'a> PairObject<'a> {
    fn new(pair: &ExperimentPair<'a>, family: usize) -> Self {
        let (change, why) = pair.claimed_change(family);
        let first = pair.first_runs();
        Self {
            experiment: &first.a.experiment,
            change,
            why,
            within: pair.change_of_first_runs(),
            runs: pair.map(ExperimentRuns::len),
            differs: pair.differing_conditions(),
            not_alike: pair.unlike_runs(),
            verdict: first.map(|s| s.verdict),
            sham_verdict: first.map(|s| s.sham_verdict),
            stall_ppm: pair.stall_ppm(),
            stall_ns_per_op: pair.stall_ns_per_op(),
            shootdowns_per_op: pair.shootdowns_per_op(),
            ns_per_event: pair.ns_per_event(),
            turn_p999_ns: pair.turn_p999_ns(),
            op_p50_ns: pair.op_p50_ns(),
        }
    }
}
