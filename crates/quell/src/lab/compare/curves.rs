//! Curves side by side, a line for each point that is on both sides.

use std::cmp::Ordering;
use std::fmt::Write as _;

use quell_lab::curve::{CurveSeries, CurveSummary};
use quell_stats::{MIN_RUNS, median, runs_apart};
use serde::Serialize;

use super::pair::{MACHINE_CONDITIONS, differing_of};
use super::{BothSides, DifferingCondition, EffectChange, RatioedFigures};
use crate::lab::curve::format_short_ns;
use crate::show::style::BOLD;
use crate::show::table::{Table, plain};

const CURVE_COMPARISON_SCHEMA: &str = "quell/lab-compare-curves/1";

/// A file of curves: its name and its curves.
pub(crate) type NamedCurves = (String, Vec<CurveSummary>);

/// All curves of both sides.
#[derive(Debug, Serialize)]
pub(crate) struct CurveComparison {
    schema: &'static str,
    /// The names of the files.
    #[serde(flatten)]
    files: BothSides<Vec<String>>,
    curves: Vec<ComparedCurve>,
}

#[derive(Debug, Serialize)]
struct ComparedCurve {
    experiment: String,
    x: String,
    differs: Vec<DifferingCondition>,
    points: Vec<ComparedPoint>,
}

/// One point.
#[derive(Debug, Serialize)]
struct ComparedPoint {
    series: String,
    per: String,
    x: u64,
    /// The middle of each side's medians, ns.
    #[serde(flatten)]
    medians: RatioedFigures<f64>,
    change: EffectChange,
    /// The logarithms of the medians of each side's runs.
    #[serde(skip)]
    logs: BothSides<Vec<f64>>,
}

impl CurveComparison {
    pub(crate) fn new(a: &[&NamedCurves], b: &[&NamedCurves]) -> Self {
        let sides = BothSides { a, b };
        let mut curves: Vec<ComparedCurve> = Vec::new();
        for curve in a.first().iter().flat_map(|f| &f.1) {
            let same = |c: &&CurveSummary| c.experiment == curve.experiment;
            let runs =
                sides.map(|side| side.iter().filter_map(|f| f.1.iter().find(same)).collect());
            curves.extend(ComparedCurve::new(curve, &runs));
        }
        // Whatever is asked is asked together.
        let family = curves.iter().map(|c| c.points.len()).sum();
        for point in curves.iter_mut().flat_map(|c| &mut c.points) {
            point.change = match runs_apart(&point.logs.a, &point.logs.b, family) {
                Some(Ordering::Greater) => EffectChange::More,
                Some(_) => EffectChange::Less,
                None => EffectChange::None,
            };
        }
        Self {
            schema: CURVE_COMPARISON_SCHEMA,
            files: sides.map(|side| side.iter().map(|f| f.0.clone()).collect()),
            curves,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.curves.is_empty()
    }

    /// The whole text.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        for (side, paths) in [("A", &self.files.a), ("B", &self.files.b)] {
            for path in paths {
                // Writing to a String does not fail.
                let _ = writeln!(out, "{BOLD}{side}{BOLD:#}  {}", plain(path));
            }
        }
        for curve in &self.curves {
            let _ = writeln!(out, "\n{BOLD}{}{BOLD:#}", plain(&curve.experiment));
            for condition in &curve.differs {
                let _ = writeln!(out, "{}", condition.describe(""));
            }
            let x = format!(">{}", plain(&curve.x));
            let mut table = Table::new(&["", &x, ">A", ">B", ">B/A", ""]);
            for p in &curve.points {
                table.row(vec![
                    plain(&format!("{} ({})", p.series, p.per)),
                    p.x.to_string(),
                    format_short_ns(p.medians.sides.a),
                    format_short_ns(p.medians.sides.b),
                    p.medians
                        .ratio
                        .map_or_else(String::new, |r| format!("{r:.2}")),
                    match p.change {
                        EffectChange::More => "more".to_owned(),
                        EffectChange::Less => "less".to_owned(),
                        EffectChange::None => String::new(),
                    },
                ]);
            }
            out.push_str(&table.text());
        }
        if self.files.a.len().min(self.files.b.len()) < MIN_RUNS {
            out.push_str("\nNo change is claimed: that takes two runs of each side (A B A B), for runs differ too.\n");
        }
        out
    }
}

impl ComparedCurve {
    /// A curve of A's first file beside all runs of it; none where B has none.
    fn new(curve: &CurveSummary, runs: &BothSides<Vec<&CurveSummary>>) -> Option<Self> {
        let other = runs.b.first()?;
        let points = curve.series.iter().flat_map(|series| {
            let points = series.points.iter();
            points.filter_map(|p| ComparedPoint::new(series, p.x, runs))
        });
        Some(Self {
            experiment: curve.experiment.clone(),
            x: curve.x.clone(),
            differs: differing_of(&MACHINE_CONDITIONS, &curve.machine, &other.machine),
            points: points.collect(),
        })
    }
}

impl ComparedPoint {
    /// A point of a series, if both sides have it; whether it changed is not known yet.
    fn new(series: &CurveSeries, x: u64, runs: &BothSides<Vec<&CurveSummary>>) -> Option<Self> {
        let median_ns = |curve: &&CurveSummary| {
            let mut all = curve.series.iter();
            let same = all.find(|s| s.name == series.name && s.per == series.per)?;
            let p50 = same.points.iter().find(|p| p.x == x)?.p50;
            (p50 > 0.0).then_some(p50)
        };
        let times = runs.map(|side| side.iter().filter_map(median_ns).collect::<Vec<f64>>());
        if times.a.is_empty() || times.b.is_empty() {
            return None;
        }
        let sides = times.map(|side| median(side));
        let ratio = Some(sides.b / sides.a).filter(|r| r.is_finite());
        Some(Self {
            series: series.name.clone(),
            per: series.per.clone(),
            x,
            medians: RatioedFigures { sides, ratio },
            change: EffectChange::None,
            logs: times.map(|side| side.iter().map(|ns| ns.ln()).collect()),
        })
    }
}
