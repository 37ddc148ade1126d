//! The metrics of each run: built-in ones, and numbers out of a program's own output.

use quell_stats::{MetricKind, MetricRole};
use regex::bytes::{Regex, RegexBuilder};

use crate::show::units::{bytes, count, time};
use crate::usage::usage;

/// The unit of a metric, by which its values are written for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricUnit {
    Count,
    Nanoseconds,
    Bytes,
    /// The user's own metric, whose unit nobody knows.
    Number,
}

impl MetricUnit {
    /// Whether pairs of its values are compared as counts, whose scatter is known, or as measures.
    pub(crate) fn kind(self) -> MetricKind {
        match self {
            Self::Count => MetricKind::Count,
            Self::Nanoseconds | Self::Bytes | Self::Number => MetricKind::Measure,
        }
    }

    /// Writes the value with its unit.
    pub(crate) fn format_value(self, value: f64) -> String {
        // The cast saturates, and a NaN becomes 0, so an impossible value is still shown as a number.
        let whole = value.round() as u64;
        match self {
            Self::Count => count(whole),
            Self::Nanoseconds => time(whole),
            Self::Bytes => bytes(whole),
            Self::Number if value.abs() >= 1000.0 && value.is_sign_positive() => count(whole),
            Self::Number => {
                let text = format!("{value:.3}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
        }
    }
}

/// One figure of a run that is compared.
#[derive(Clone, Debug)]
pub(crate) struct ProofMetric {
    /// Its key in JSON.
    pub(crate) name: String,
    /// Its name in text.
    pub(crate) title: String,
    pub(crate) unit: MetricUnit,
    pub(crate) role: MetricRole,
    pub(crate) higher_is_better: bool,
    /// The pattern that finds it in the output, for a metric of the user's.
    pattern: Option<Regex>,
}

const CPU_METRIC: &str = "cpu_ns";
const WALL_METRIC: &str = "wall_ns";

/// The index of the maximum memory in [`BUILT_IN`].
pub(crate) const MAX_RSS_INDEX: usize = 7;

/// The metrics of every run, in the order of [`super::sample::RunSample::values`]: key, title, unit and role.
const BUILT_IN: [(&str, &str, MetricUnit, MetricRole); 8] = {
    use MetricRole::{Cost, Explains, Objective};
    use MetricUnit::{Bytes, Count, Nanoseconds};
    [
        ("shootdowns", "shootdowns", Count, Explains),
        ("victims", "victims", Count, Explains),
        ("wait_ns", "wait of culprits", Nanoseconds, Explains),
        ("page_faults", "page faults", Count, Explains),
        ("system_ns", "system time", Nanoseconds, Explains),
        (CPU_METRIC, "CPU time", Nanoseconds, Objective),
        (WALL_METRIC, "wall time", Nanoseconds, Objective),
        ("max_rss", "maximum memory", Bytes, Cost),
    ]
};

/// The metrics of every run, and the user's own, given as `NAME=REGEX` or `NAME^=REGEX`.
pub(crate) fn all_metrics(asked: &[String]) -> anyhow::Result<Vec<ProofMetric>> {
    let built_in = BUILT_IN
        .iter()
        .map(|&(name, title, unit, role)| ProofMetric {
            name: name.to_owned(),
            title: title.to_owned(),
            unit,
            // The user runs the program for its own figure, so the time only explains it then.
            role: match role {
                MetricRole::Objective if !asked.is_empty() => MetricRole::Explains,
                role => role,
            },
            higher_is_better: false,
            pattern: None,
        });
    let mut metrics: Vec<ProofMetric> = built_in.collect();
    for text in asked {
        let metric = parse_metric(text)?;
        if metrics.iter().any(|m| m.name == metric.name) {
            return Err(usage(format!(
                "--metric {text}: there is a '{}' already",
                metric.name
            )));
        }
        metrics.push(metric);
    }
    Ok(metrics)
}

/// Parses `NAME=REGEX` or `NAME^=REGEX`, with an error that names the fault.
fn parse_metric(text: &str) -> anyhow::Result<ProofMetric> {
    let bad = |why: &str| usage(format!("--metric {text}: {why}"));
    let (name, pattern) = text
        .split_once('=')
        .ok_or_else(|| bad("write it as NAME=REGEX, or NAME^=REGEX where higher is better"))?;
    let (name, higher_is_better) = match name.strip_suffix('^') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if name.is_empty() || !name.chars().all(fits) {
        return Err(bad(
            "the name may have letters, digits, and _ . - in it, and nothing else",
        ));
    }
    // The pattern is matched line by line, as people read the output.
    let pattern = RegexBuilder::new(pattern)
        .multi_line(true)
        .build()
        .map_err(|err| {
            let err = err.to_string();
            let last = err.lines().last().unwrap_or_default();
            bad(last.trim_start_matches("error: "))
        })?;
    if pattern.captures_len() < 2 {
        return Err(bad(
            "the expression has no group: put ( ) around the number",
        ));
    }
    Ok(ProofMetric {
        name: name.to_owned(),
        title: if higher_is_better {
            format!("{name} (higher is better)")
        } else {
            name.to_owned()
        },
        unit: MetricUnit::Number,
        role: MetricRole::Objective,
        higher_is_better,
        pattern: Some(pattern),
    })
}

/// The user's objective as one number of a run, by which runs are ranked: of these metrics the first that the user named,
/// or the time.
#[derive(Clone, Copy)]
pub(crate) struct Objective<'a>(pub(crate) &'a [ProofMetric]);

impl Objective<'_> {
    fn named_metric(&self) -> Option<(usize, &ProofMetric)> {
        self.0.iter().enumerate().find(|(_, m)| m.is_from_output())
    }

    pub(crate) fn name(&self) -> &str {
        self.named_metric()
            .map_or("time", |(_, metric)| &metric.name)
    }

    pub(crate) fn higher_is_better(&self) -> bool {
        self.named_metric().is_some_and(|(_, m)| m.higher_is_better)
    }

    /// The value of one run. For time it is the geometric mean of CPU time and wall time, so that a change of either by the
    /// same share counts the same. A value that is missing is NaN, which a race passes over.
    pub(crate) fn value_of_run(&self, values: &[f64]) -> f64 {
        let value = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        if let Some((place, _)) = self.named_metric() {
            return value(place);
        }
        let of = |name: &str| {
            let place = self.0.iter().position(|m| m.name == name);
            place.map_or(f64::NAN, value)
        };
        (of(CPU_METRIC) * of(WALL_METRIC)).sqrt()
    }
}

impl ProofMetric {
    /// Whether it comes from the program's output.
    pub(crate) fn is_from_output(&self) -> bool {
        self.pattern.is_some()
    }

    /// Its name within a sentence.
    pub(crate) fn name_in_text(&self) -> &str {
        if self.is_from_output() {
            &self.name
        } else {
            &self.title
        }
    }

    /// Its value in an output: the first group of the last match. An error says why there is none. Commas and underscores group
    /// digits (`1,234.5`), so a decimal comma is not understood: `1,5` is 15.
    pub(crate) fn read_value(&self, output: &[u8]) -> Result<f64, String> {
        let Some(pattern) = &self.pattern else {
            return Err(format!("{} is not in the output", self.name));
        };
        let last = pattern.captures_iter(output).last();
        let Some(group) = last.as_ref().and_then(|c| c.get(1)) else {
            return Err(format!(
                "--metric {}: '{pattern}' matches nothing in the output",
                self.name
            ));
        };
        let text = String::from_utf8_lossy(group.as_bytes());
        let digits: String = text
            .trim()
            .chars()
            .filter(|c| *c != ',' && *c != '_')
            .collect();
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(format!("--metric {}: '{text}' is no number", self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_value(metric: &str, output: &str) -> Result<f64, String> {
        parse_metric(metric).unwrap().read_value(output.as_bytes())
    }

    /// Check that the last match counts, on any line, with commas or an exponent in the number.
    #[test]
    fn reads_numbers() {
        assert_eq!(
            read_value("s=([0-9.]+) s", "took 1.5 s\nthen 2.25 s\n"),
            Ok(2.25)
        );
        assert_eq!(
            read_value("ops^=^ops: (.*)$", "a\nops: 12,345\nb"),
            Ok(12345.0)
        );
        assert_eq!(read_value("x=x=(\\S+)", "x=1e3"), Ok(1000.0));
    }

    /// Check that no match, no number, and infinity are errors that name the metric.
    #[test]
    fn refuses_output() {
        assert!(
            read_value("s=([0-9.]+) s", "")
                .unwrap_err()
                .contains("--metric s: '([0-9.]+) s' matches nothing")
        );
        assert!(
            read_value("s=(.*)", "fast")
                .unwrap_err()
                .contains("'fast' is no number")
        );
        assert!(read_value("s=(.*)", "inf").is_err());
    }

    /// Check that bad metrics are refused in one line each.
    #[test]
    fn refuses_usage() {
        for (text, why) in [
            ("speed", "NAME=REGEX"),
            ("=(.)", "the name may"),
            ("a b=(.)", "the name may"),
            ("a=x", "no group"),
            ("a=(", "unclosed group"),
        ] {
            let err = parse_metric(text).unwrap_err();
            let line = err.to_string();
            assert!(
                err.is::<crate::usage::Usage>() && line.contains(why),
                "{line}"
            );
            assert!(!line.contains('\n'), "{line}");
        }
        let twice = ["a=(.)".to_owned(), "a=(.)".to_owned()];
        assert!(
            all_metrics(&twice)
                .unwrap_err()
                .to_string()
                .contains("already")
        );
        assert!(all_metrics(&["wall_ns=(.)".to_owned()]).is_err());
        assert_eq!(all_metrics(&[]).unwrap().len(), 8);
    }

    /// Check that the objective is CPU time and wall time in equal parts, or the user's figure in its direction.
    #[test]
    fn objectives() {
        let time = all_metrics(&[]).unwrap();
        let run = [1.0, 1.0, 1.0, 1.0, 1.0, 4e9, 9e9, 1.0];
        assert_eq!(Objective(&time).name(), "time");
        assert!((Objective(&time).value_of_run(&run) - 6e9).abs() < 1.0);
        assert!(!Objective(&time).higher_is_better());
        let named = all_metrics(&["ops^=(.)".to_owned()]).unwrap();
        let run = [1.0, 1.0, 1.0, 1.0, 1.0, 4e9, 9e9, 1.0, 77.0];
        assert_eq!(Objective(&named).name(), "ops");
        assert!((Objective(&named).value_of_run(&run) - 77.0).abs() < f64::EPSILON);
        assert!(Objective(&named).higher_is_better());
        let roles = |metrics: &[ProofMetric]| {
            let of = metrics.iter().filter(|m| m.role == MetricRole::Objective);
            of.map(|m| m.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(roles(&time), ["cpu_ns", "wall_ns"]);
        assert_eq!(roles(&named), ["ops"]);
    }

    /// Check that the maximum memory is at its index.
    #[test]
    fn place_of_memory() {
        assert_eq!(BUILT_IN[MAX_RSS_INDEX].0, "max_rss");
    }

    /// Check that values read well in each unit.
    #[test]
    fn units() {
        assert_eq!(MetricUnit::Count.format_value(1234.0), "1,234");
        assert_eq!(
            MetricUnit::Nanoseconds.format_value(12_300_000.0),
            "12.3 ms"
        );
        assert_eq!(MetricUnit::Bytes.format_value(650e6), "650 MB");
        assert_eq!(MetricUnit::Number.format_value(2.5), "2.5");
        assert_eq!(MetricUnit::Number.format_value(12345.6), "12,346");
        assert_eq!(MetricUnit::Number.format_value(0.0), "0");
    }
}
