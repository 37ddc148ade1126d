//! Curves side by side, a line for each point that is on both sides.

use std::cmp::Ordering;
use std::fmt::Write as _;

use quell_lab::curve::{CurveSeries, CurveSummary};
use quell_stats::{MIN_RUNS, median, runs_apart};
use serde::Serialize;

use super::pair::machines;
use super::{Change, Differs};
use crate::lab::curve::nanoseconds;
use crate::show::style::BOLD;
use crate::show::table::{Table, plain};

const SCHEMA: &str = "quell/lab-compare-curves/1";

/// A file of curves: its name and its curves.
pub(crate) type NamedCurves = (String, Vec<CurveSummary>);

/// Both sides.
#[derive(Debug, Serialize)]
pub(crate) struct CurveComparison {
    schema: &'static str,
    a: Vec<String>,
    b: Vec<String>,
    curves: Vec<One>,
}

#[derive(Debug, Serialize)]
struct One {
    experiment: String,
    x: String,
    differs: Vec<Differs>,
    points: Vec<Beside>,
}

/// One point: the middle of each side's medians, ns.
#[derive(Debug, Serialize)]
struct Beside {
    series: String,
    per: String,
    x: u64,
    a: f64,
    b: f64,
    ratio: Option<f64>,
    change: Change,
    #[serde(skip)]
    runs: (Vec<f64>, Vec<f64>),
}

impl CurveComparison {
    pub(crate) fn new(a: &[&NamedCurves], b: &[&NamedCurves]) -> Self {
        let names = |side: &[&NamedCurves]| side.iter().map(|f| f.0.clone()).collect();
        let mut curves: Vec<One> = Vec::new();
        for curve in a.first().iter().flat_map(|f| &f.1) {
            let of_side = |side: &[&NamedCurves]| -> Vec<CurveSummary> {
                let same = |c: &&CurveSummary| c.experiment == curve.experiment;
                side.iter()
                    .filter_map(|f| f.1.iter().find(same).cloned())
                    .collect()
            };
            let (of_a, of_b) = (of_side(a), of_side(b));
            if let Some(other) = of_b.first() {
                curves.push(One::new(curve, other, &of_a, &of_b));
            }
        }
        // all that is asked is asked together
        let family = curves.iter().map(|c| c.points.len()).sum();
        for point in curves.iter_mut().flat_map(|c| &mut c.points) {
            point.change = match runs_apart(&point.runs.0, &point.runs.1, family) {
                Some(Ordering::Greater) => Change::More,
                Some(_) => Change::Less,
                None => Change::None,
            };
        }
        Self {
            schema: SCHEMA,
            a: names(a),
            b: names(b),
            curves,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.curves.is_empty()
    }

    /// The whole text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for (side, paths) in [("A", &self.a), ("B", &self.b)] {
            for path in paths {
                // writing to a String does not fail
                let _ = writeln!(out, "{BOLD}{side}{BOLD:#}  {}", plain(path));
            }
        }
        for curve in &self.curves {
            let _ = writeln!(out, "\n{BOLD}{}{BOLD:#}", plain(&curve.experiment));
            for d in &curve.differs {
                let line = format!("  the {} is not the same: {} and {}", d.what, d.a, d.b);
                let _ = writeln!(out, "{}", plain(&line));
            }
            let x = format!(">{}", plain(&curve.x));
            let mut table = Table::new(&["", &x, ">A", ">B", ">B/A", ""]);
            for p in &curve.points {
                table.row(vec![
                    plain(&format!("{} ({})", p.series, p.per)),
                    p.x.to_string(),
                    nanoseconds(p.a),
                    nanoseconds(p.b),
                    p.ratio.map_or_else(String::new, |r| format!("{r:.2}")),
                    match p.change {
                        Change::More => "more".to_owned(),
                        Change::Less => "less".to_owned(),
                        Change::None => String::new(),
                    },
                ]);
            }
            out.push_str(&table.text());
        }
        if self.a.len().min(self.b.len()) < MIN_RUNS {
            out.push_str("\nNo change is claimed: that takes two runs of each side (A B A B), for runs differ too.\n");
        }
        out
    }
}

impl One {
    fn new(
        curve: &CurveSummary,
        other: &CurveSummary,
        of_a: &[CurveSummary],
        of_b: &[CurveSummary],
    ) -> Self {
        let mut differs = Vec::new();
        machines(&curve.machine, &other.machine, &mut |what, a, b| {
            if a != b {
                let what = what.to_owned();
                differs.push(Differs { what, a, b });
            }
        });
        let beside = |series: &CurveSeries, x: u64| {
            let of = |side: &[CurveSummary]| -> Vec<f64> {
                let one = |c: &CurveSummary| {
                    let same = c
                        .series
                        .iter()
                        .find(|s| s.name == series.name && s.per == series.per)?;
                    let p50 = same.points.iter().find(|p| p.x == x)?.p50;
                    (p50 > 0.0).then_some(p50)
                };
                side.iter().filter_map(one).collect()
            };
            let (a, b) = (of(of_a), of(of_b));
            if a.is_empty() || b.is_empty() {
                return None;
            }
            let logs = |side: &[f64]| side.iter().map(|ns| ns.ln()).collect();
            let runs = (logs(&a), logs(&b));
            let (a, b) = (median(&a), median(&b));
            Some(Beside {
                series: series.name.clone(),
                per: series.per.clone(),
                x,
                a,
                b,
                ratio: Some(b / a).filter(|r| r.is_finite()),
                change: Change::None,
                runs,
            })
        };
        let points = curve.series.iter();
        let points = points.flat_map(|s| s.points.iter().filter_map(|p| beside(s, p.x)));
        Self {
            experiment: curve.experiment.clone(),
            x: curve.x.clone(),
            differs,
            points: points.collect(),
        }
    }
}
