//! A plan as TOML that people read and edit.

use anyhow::{Context as _, Result, anyhow, ensure};
use quell_event::Text;
use serde::{Deserialize, Serialize};

use crate::{Plan, Planned, quote, start};

const PLAN_SCHEMA: &str = "quell/plan/1";
const PLAN_HEAD: &str = "\
# A plan of quell: what to set for one program, and why. Edit it freely; `quell run --plan FILE -- CMD`
# starts a command with it. `sets` are environment variables; what you have set yourself is kept. `starts`
# is done to the process before it starts.
";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    schema: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    remedies: Vec<Planned>,
}

impl Planned {
    /// Whether its shares of time can be.
    fn is_possible(&self) -> bool {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let ceiling = self
            .ceiling
            .is_none_or(|c| is_share(c.cpu) && is_share(c.wall));
        let is_interval = |[low, high]: [f64; 2]| low >= -1.0 && low <= high && high.is_finite();
        ceiling && self.predicted.is_none_or(is_interval)
    }
}

impl Plan {
    /// The plan as a commented TOML file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let file = PlanFile {
            schema: PLAN_SCHEMA.to_owned(),
            notes: self.notes.clone(),
            remedies: self.remedies.clone(),
        };
        // Strings, numbers and tables of them: nothing that TOML can't hold.
        let body = toml::to_string_pretty(&file).unwrap_or_default();
        format!("{PLAN_HEAD}\n{body}")
    }

    /// Reads a plan. An unknown key or a wrong type is refused with its line, and an impossible value with the remedy's name.
    /// Texts for people are cleaned.
    pub fn from_toml(text: &str) -> Result<Plan> {
        let file: PlanFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |s| {
                1 + text[..s.start.min(text.len())].matches('\n').count()
            });
            let message = error.message().trim().replace('\n', ", ");
            anyhow!("reading the plan: line {line}: {message}")
        })?;
        ensure!(
            file.schema == PLAN_SCHEMA,
            "reading the plan: schema is '{}', not '{PLAN_SCHEMA}'",
            file.schema
        );
        let mut plan = Plan {
            notes: file.notes.into_iter().map(clean_words).collect(),
            remedies: file.remedies,
        };
        for entry in &mut plan.remedies {
            let id = &entry.remedy;
            for (name, value) in &entry.sets {
                let fits = quote::is_name(name) && !value.contains('\0');
                ensure!(
                    fits,
                    "reading the plan: remedy {id}: '{}' can't be an environment variable",
                    name.escape_debug()
                );
            }
            ensure!(
                !(entry.sets.is_empty() && entry.starts.is_empty()),
                "reading the plan: remedy {id}: it does nothing: write [remedies.sets] or [remedies.starts], or take it out"
            );
            ensure!(
                (0.0..=1.0).contains(&entry.predicted_stop),
                "reading the plan: remedy {id}: predicted_stop is {}, not a share from 0 to 1",
                entry.predicted_stop
            );
            ensure!(
                entry.is_possible(),
                "reading the plan: remedy {id}: ceiling or predicted is no share of time that can be: take it out"
            );
            for words in [
                &mut entry.remedy,
                &mut entry.evidence,
                &mut entry.cost,
                &mut entry.touches,
            ] {
                *words = clean_words(std::mem::take(words));
            }
        }
        let tables = plan.remedies.iter().map(|r| (r.remedy.as_str(), &r.starts));
        start::merge_starts(tables).context("reading the plan")?;
        Ok(plan)
    }
}

/// A file may come from others. Values that a program gets stay as they are, and are quoted where they are shown.
fn clean_words(words: String) -> String {
    // People break long texts of TOML into lines.
    Text::from(words.replace('\n', " ")).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::RemedyCeiling;
    use proptest::prelude::*;

    fn sample() -> Plan {
        Plan {
            remedies: vec![Planned {
                remedy: "jemalloc.decay".into(),
                sets: BTreeMap::from([("_RJEM_MALLOC_CONF".into(), "dirty_decay_ms:-1".into())]),
                starts: BTreeMap::new(),
                evidence: "1600 of 1700 shootdowns (94 %)".into(),
                predicted_stop: 0.9,
                cost: "memory".into(),
                ..Planned::default()
            }],
            notes: vec!["glibc: left as it is".into()],
        }
    }

    /// Check that shares of time which can't be are refused with the remedy's name, and that a plan without any is read.
    #[test]
    fn impossible_shares_are_refused() {
        let mut plan = sample();
        assert!(Plan::from_toml(&plan.to_toml()).is_ok());
        plan.remedies[0].predicted = Some([0.2, -0.2]);
        let refused = |plan: &Plan| Plan::from_toml(&plan.to_toml()).unwrap_err().to_string();
        let why = refused(&plan);
        assert!(
            why.contains("remedy jemalloc.decay: ceiling or predicted"),
            "{why}"
        );
        plan.remedies[0].predicted = None;
        plan.remedies[0].ceiling = Some(RemedyCeiling {
            cpu: 1.5,
            ..RemedyCeiling::default()
        });
        assert!(refused(&plan).contains("share of time"));
    }

    /// Check the exact text that users will see and edit.
    #[test]
    fn exact() {
        let body = "\
schema = \"quell/plan/1\"
notes = [\"glibc: left as it is\"]

[[remedies]]
remedy = \"jemalloc.decay\"
evidence = \"1600 of 1700 shootdowns (94 %)\"
predicted_stop = 0.9
cost = \"memory\"

[remedies.sets]
_RJEM_MALLOC_CONF = \"dirty_decay_ms:-1\"
";
        assert_eq!(sample().to_toml(), format!("{PLAN_HEAD}\n{body}"));
    }

    /// Check that starts are a table of their own, and that a remedy may have only that.
    #[test]
    fn starts() {
        let mut plan = sample();
        plan.remedies[0].starts = BTreeMap::from([("cpus".into(), "0-3,5".into())]);
        plan.remedies[0].sets.clear();
        let text = plan.to_toml();
        assert!(
            text.ends_with("cost = \"memory\"\n\n[remedies.starts]\ncpus = \"0-3,5\"\n"),
            "{text}"
        );
        let read = Plan::from_toml(&text).unwrap();
        assert_eq!(read, plan);
        assert_eq!(
            read.starts(),
            [crate::Start::parse("cpus", "0-3,5").unwrap()]
        );
        let why = |text: &str| format!("{:#}", Plan::from_toml(text).unwrap_err());
        assert!(why(&text.replace("0-3,5", "x")).contains("cpus is 'x', not a list"));
        assert!(why(&text.replace("cpus", "nice")).contains("there is no 'nice'"));
        let twice = text.split_once("[[").unwrap().1.replace("0-3,5", "7");
        assert!(why(&format!("{text}\n[[{twice}")).contains("contradicts cpus=0-3,5"));
        let none = text.split_once("\n[remedies.starts]").unwrap().0;
        assert!(why(none).contains("it does nothing"));
    }

    /// Check that a bad plan is refused in one line that names the key and the line.
    #[test]
    fn refuses() {
        let good = sample().to_toml();
        let why = |text: &str| {
            let error = format!("{:#}", Plan::from_toml(text).unwrap_err());
            assert!(!error.contains('\n'), "{error}");
            error
        };
        let unknown = why(&good.replace("cost =", "costs ="));
        assert!(
            unknown.contains("line 12") && unknown.contains("`costs`"),
            "{unknown}"
        );
        let top = why(&format!("colour = 1\n{good}"));
        assert!(top.contains("line 1") && top.contains("`colour`"), "{top}");
        assert!(why(&good.replace("plan/1", "plan/9")).contains("quell/plan/9"));
        assert!(why(&good.replace("0.9", "9.0")).contains("predicted_stop is 9"));
        assert!(why(&good.replace("0.9", "nan")).contains("predicted_stop"));
        for name in ["A=B", "BAD NAME", "1A", "a.b"] {
            let text = good.replace("_RJEM_MALLOC_CONF", &format!("\"{name}\""));
            assert!(why(&text).contains(&format!("'{name}'")));
        }
        assert!(why("schema = ").contains("line 1"));
        assert!(why("").contains("schema"));
        assert!(why("\u{7f}ELF").contains("line 1"));
    }

    proptest! {
        /// Check that any plan comes back as it was written, and that its texts are plain.
        #[test]
        fn round_trip(
            ids in proptest::collection::vec(("[a-z.]{1,9}", ".*", 0u32..=1000, "(?s).{0,40}"), 0..4),
            sets in proptest::collection::btree_map("[A-Z_]{1,9}", "[^\0]{0,30}", 1..4),
            slack in proptest::option::of(1..1_000_000u32),
            notes in proptest::collection::vec("(?s).{0,40}", 0..3),
        ) {
            let starts: BTreeMap<String, String> =
                slack.into_iter().map(|ns| ("timer_slack_ns".to_owned(), ns.to_string())).collect();
            let remedies = ids.into_iter().map(|(remedy, evidence, stop, cost)| Planned {
                remedy, evidence, cost, sets: sets.clone(), starts: starts.clone(),
                predicted_stop: f64::from(stop) / 1000.0,
                touches: "unmap: it keeps".to_owned(),
                predicted: Some([-f64::from(stop) / 1000.0, 0.5]),
                ceiling: Some(RemedyCeiling {
                    cpu_ns: 7,
                    cpu: f64::from(stop) / 1000.0,
                    ..RemedyCeiling::default()
                }),
                memory_allowed: false,
            });
            let plan = Plan { remedies: remedies.collect(), notes };
            let read = Plan::from_toml(&plan.to_toml()).unwrap();
            let mut plain = plan;
            plain.notes = plain.notes.into_iter().map(clean_words).collect();
            for p in &mut plain.remedies {
                p.evidence = clean_words(std::mem::take(&mut p.evidence));
                p.cost = clean_words(std::mem::take(&mut p.cost));
            }
            prop_assert_eq!(read, plain);
        }

        /// Check that no text makes the reader panic.
        #[test]
        fn any_text(text in "(?s).{0,200}") {
            let _ = Plan::from_toml(&text);
        }
    }
}
