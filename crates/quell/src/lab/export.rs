//! Results for other tools: the figures that each form takes.

use quell_export::influx::InfluxPoint;
use quell_export::lab::{Gap, Timeline, Turns};
use quell_lab::arm::Arm;
use quell_lab::judge::LabVerdict;
use quell_lab::summary::{ArmSummary, EffectSummary, ExperimentSummary};

use super::Results;

/// The lengths of turns; none where the file has no histograms.
pub(crate) fn turn_histograms(results: &Results) -> Vec<Turns<'_>> {
    let all = results.all.iter().flat_map(|summary| {
        let arms = summary.arms_in_order();
        arms.map(|(arm, told)| Turns {
            experiment: &summary.experiment,
            arm: arm.name(),
            ran_ns: told.ran_ns,
            turns: &told.histogram,
        })
    });
    all.filter(|t| !t.turns.is_empty()).collect()
}

/// The timelines; none where the file has none.
pub(crate) fn block_timelines(results: &Results) -> Vec<Timeline<'_>> {
    let all = results.all.iter().enumerate();
    let all = all.flat_map(|(result, summary)| {
        let arms = summary.arms_in_order();
        arms.map(move |(arm, told)| Timeline {
            result,
            experiment: &summary.experiment,
            arm: arm.name(),
            gaps: timeline_gaps(told),
            ops: &told.timeline_ops,
        })
    });
    all.filter(|t| !t.gaps.is_empty() || !t.ops.is_empty())
        .collect()
}

fn timeline_gaps(arm: &ArmSummary) -> Vec<Gap<'_>> {
    let gaps = arm.timeline.iter();
    gaps.map(|(begin_ns, ns, class, caused)| Gap {
        begin_ns: *begin_ns,
        ns: *ns,
        class: class.name(),
        caused: *caused,
    })
    .collect()
}

/// The measurement of the points of results.
const RESULT_MEASUREMENT: &str = "quell_lab";
/// The class of figures that are not of one class.
pub(super) const ALL_CLASSES: &str = "all";
/// The arm of figures that compare two.
const EFFECT_ARM: &str = "real-less-sham";

/// The line of a point.
pub(super) fn influx_line(
    measurement: &str,
    tags: [(&str, &str); 3],
    fields: Vec<(&str, i64)>,
    t_ns: u64,
) -> String {
    InfluxPoint {
        measurement,
        tags: tags.to_vec(),
        fields,
        t_ns,
    }
    .protocol_line()
}

/// Lines for InfluxDB: a point for each class of each arm, one for each arm, and one for the effect. Those of the
/// n-th result of a file are n ns later, so that two of one experiment don't replace each other.
pub(crate) fn influx_lines(results: &Results) -> String {
    let mut out = String::new();
    for (n, summary) in (0..).zip(&results.all) {
        let t_ns = results.wall_ns.saturating_add(n);
        let mut put = |arm: &str, class: &str, fields: Vec<(&'static str, i64)>| {
            let tags = [
                ("experiment", summary.experiment.as_str()),
                ("arm", arm),
                ("class", class),
            ];
            out.push_str(&influx_line(RESULT_MEASUREMENT, tags, fields, t_ns));
        };
        for (arm, told) in summary.arms_in_order() {
            put(arm.name(), ALL_CLASSES, arm_fields(arm, told));
            // Without the probe nobody knows the class.
            for (class, (gaps, ns)) in told.gaps.iter().filter(|_| arm != Arm::Untraced) {
                let fields = vec![("gaps", to_i64(*gaps)), ("gaps_ns", to_i64(*ns))];
                put(arm.name(), class, fields);
            }
        }
        put(EFFECT_ARM, ALL_CLASSES, effect_fields(summary));
    }
    out
}

/// A number as InfluxDB has it, whose integers have a sign.
pub(super) fn to_i64(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn arm_fields(arm: Arm, told: &ArmSummary) -> Vec<(&'static str, i64)> {
    let mut fields = vec![
        ("blocks", to_i64(told.blocks as u64)),
        ("invalid", to_i64(told.all_invalid() as u64)),
        ("ran_ns", to_i64(told.ran_ns)),
        ("away_ns", to_i64(told.away_ns)),
        ("ops", to_i64(told.ops)),
    ];
    if let Some((p50, p99)) = told.op_ns {
        fields.extend([("op_p50_ns", to_i64(p50)), ("op_p99_ns", to_i64(p99))]);
    }
    for (name, field) in [
        ("p50", "turn_p50_ns"),
        ("p90", "turn_p90_ns"),
        ("p99", "turn_p99_ns"),
        ("p999", "turn_p999_ns"),
        ("p9999", "turn_p9999_ns"),
        ("p99999", "turn_p99999_ns"),
    ] {
        fields.extend(told.turn_ns.get(name).map(|ns| (field, to_i64(*ns))));
    }
    if arm != Arm::Untraced {
        fields.extend([
            ("shootdowns", to_i64(told.shootdowns)),
            ("caused", to_i64(told.caused)),
            ("faults", to_i64(told.faults)),
            ("stall_ppm", told.stall_ppm.round() as i64),
        ]);
    }
    fields
}

fn effect_fields(summary: &ExperimentSummary) -> Vec<(&'static str, i64)> {
    let EffectSummary {
        stall_ppm,
        ns_per_event,
        events,
        ..
    } = &summary.effect;
    let scaled = |n: f64, by: f64| (n * by).round() as i64;
    let mut fields = vec![
        ("stall_ppm", scaled(stall_ppm.difference, 1.0)),
        ("events", to_i64(*events)),
    ];
    let (low, high) = stall_ppm.ci95;
    fields.extend(low.map(|n| ("stall_ppm_low", scaled(n, 1.0))));
    fields.extend(high.map(|n| ("stall_ppm_high", scaled(n, 1.0))));
    fields.extend(ns_per_event.map(|n| ("ns_per_event", scaled(n, 1.0))));
    let per_1000 = |n: Option<f64>| n.map(|n| scaled(n, 1000.0));
    let shootdowns = per_1000(summary.shootdowns_per_op);
    let faults = per_1000(summary.faults_per_op);
    fields.extend(shootdowns.map(|n| ("shootdowns_per_1000_ops", n)));
    fields.extend(faults.map(|n| ("faults_per_1000_ops", n)));
    fields.extend(summary.matched.map(|n| ("matched_ppm", scaled(n, 1e6))));
    match summary.verdict {
        LabVerdict::Shown => fields.push(("shown", 1)),
        LabVerdict::NotShown => fields.push(("shown", 0)),
        // The answer is not known.
        LabVerdict::TooNoisy | LabVerdict::TooShort => {}
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::fixture;

    /// Check every line of two results: each class of each arm that the probe saw, each arm, the effect, a time a result.
    #[test]
    fn lines_for_influx() {
        let mut second = fixture::munmap_result();
        second.experiment = "a b,c=d".to_owned();
        second.arms.retain(|name, _| name == "untraced");
        second.verdict = LabVerdict::TooNoisy;
        let results = Results {
            all: vec![fixture::dontneed_result(), second],
            wall_ns: 1_700_000_000_000_000_000,
        };
        insta::assert_snapshot!(influx_lines(&results));
    }

    /// Check that what has no histogram or timeline is left out, and the rest is told in the order of arms.
    #[test]
    fn what_is_there_is_told() {
        let results = Results {
            all: vec![
                fixture::dontneed_result().without_pictures(),
                fixture::munmap_result(),
            ],
            wall_ns: 0,
        };
        let told: Vec<_> = turn_histograms(&results)
            .iter()
            .map(|t| (t.experiment, t.arm))
            .collect();
        let arms = ["idle", "sham", "real", "untraced"];
        assert_eq!(told, arms.map(|arm| ("munmap", arm)));
        let told = block_timelines(&results);
        assert!(told.iter().all(|t| t.result == 1));
        assert_eq!(told.iter().map(|t| t.arm).collect::<Vec<_>>(), arms);
        assert_eq!((told[2].gaps.len(), told[2].ops.len()), (3, 2));
        assert_eq!(
            (told[2].gaps[0].class, told[2].gaps[0].caused),
            ("tlb", true)
        );
    }
}
