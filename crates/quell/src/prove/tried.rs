//! Changes that were tried by runs, and how they are reported.

use std::collections::BTreeSet;

use quell_event::Text;
use quell_remedy::{Planned, single_settings};
use quell_stats::{Elimination, Fate, Standing};

use crate::show::units::{plural, ratio_as_change};

/// One or several changes that were tried together.
#[derive(Debug, Clone)]
pub(crate) struct TriedChange {
    pub(crate) changes: Vec<Planned>,
    /// Its name for people, with its settings where several of one name were tried.
    pub(crate) label: String,
    /// The number of runs with it that worked.
    pub(crate) runs: usize,
    /// The objective with it, divided by that without; 1 where no run worked.
    pub(crate) ratio: f64,
    /// The interval is 0 to infinity while there are too few runs.
    pub(crate) ci95: (f64, f64),
    /// Whether it won its race.
    pub(crate) won: bool,
    /// It is part of the plan to be proved: a change that wins by itself may add nothing to another one.
    pub(crate) kept: bool,
    /// The reason why it was kept or not.
    pub(crate) why: String,
    /// The remedies of the runs that it was compared with; empty for plain runs.
    pub(crate) beside: Vec<String>,
}

impl TriedChange {
    /// The names of its remedies.
    pub(crate) fn remedy_names(&self) -> String {
        remedy_names(&self.changes)
    }

    /// A line for the log and the report.
    pub(crate) fn report_line(&self) -> String {
        let word = match (self.won, self.kept) {
            (_, true) => "keeps",
            (true, false) => "leaves",
            (false, false) => "drops",
        };
        format!("{word} {}: {}", self.label, self.why)
    }
}

fn remedy_names(changes: &[Planned]) -> String {
    let names: Vec<&str> = changes.iter().map(|c| c.remedy.as_str()).collect();
    names.join(" and ")
}

/// The single settings of some changes: `MALLOC_CONF=a:1,b:2` holds two, `a:1` and `b:2`. A variable with one setting keeps its
/// name before it.
fn split_settings(changes: &[Planned]) -> BTreeSet<String> {
    let all = changes.iter().flat_map(|c| c.sets.iter().chain(&c.starts));
    let single = |(name, value): (&String, &String)| match single_settings(name, value).as_slice() {
        [one] => vec![format!("{name}={one}")],
        several => several.iter().map(|one| (*one).to_owned()).collect(),
    };
    all.flat_map(single).collect()
}

/// Names for people. Several forms of one remedy get the settings that not all of them have; a form without any such setting
/// is `alone`.
pub(super) fn distinct_labels(all: &[Vec<Planned>]) -> Vec<String> {
    const MAX_LABEL_CHARS: usize = 70;
    let names: Vec<String> = all.iter().map(|changes| remedy_names(changes)).collect();
    let label = |(place, own): (usize, &String)| {
        let forms = all.iter().zip(&names).filter(|(_, name)| *name == own);
        let forms: Vec<BTreeSet<String>> =
            forms.map(|(changes, _)| split_settings(changes)).collect();
        if forms.len() < 2 {
            return own.clone();
        }
        let of_all = |setting: &String| forms.iter().all(|form| form.contains(setting));
        let more = split_settings(&all[place])
            .into_iter()
            .filter(|s| !of_all(s));
        let more: Vec<String> = more.collect();
        if more.is_empty() {
            return format!("{own} (alone)");
        }
        format!(
            "{own} ({})",
            Text::from(more.join(" ")).cut_to(MAX_LABEL_CHARS)
        )
    };
    names.iter().enumerate().map(label).collect()
}

/// The standing of a candidate in words.
pub(super) fn explain_standing(standing: &Standing, objective: &str) -> String {
    let rounds = plural(standing.rounds as u64, "round");
    let so_far = ratio_as_change(standing.ratio);
    match standing.fate {
        Fate::Won => format!("{objective} {so_far} in {rounds}"),
        Fate::Racing if standing.rounds == 0 => "not tried to its end".to_owned(),
        Fate::Racing => {
            format!("not tried to its end: {objective} {so_far} in {rounds} so far")
        }
        Fate::Out(Elimination::Failed) => "a run with it failed".to_owned(),
        Fate::Out(Elimination::Slower) => format!("{objective} got worse: {so_far} in {rounds}"),
        Fate::Out(Elimination::NoGain) => format!("no gain: {objective} {so_far} in {rounds}"),
        Fate::Out(Elimination::Wild { ratio }) => format!(
            "{objective} {so_far} in the middle of {rounds}, and {} in the worst tenth",
            ratio_as_change(ratio)
        ),
    }
}

/// The candidates that are still in the race, the best first, in a few words; empty before the first round.
pub(super) fn so_far(standings: &[Standing], labels: &[&str], higher_is_better: bool) -> String {
    const MAX_STANDINGS: usize = 3;
    let mut running: Vec<(&str, f64)> = standings
        .iter()
        .zip(labels)
        .filter(|(s, _)| matches!(s.fate, Fate::Racing | Fate::Won) && s.rounds > 0)
        .map(|(s, label)| (*label, s.ratio))
        .collect();
    running.sort_by(|a, b| a.1.total_cmp(&b.1));
    if higher_is_better {
        running.reverse();
    }
    let told = running.iter().take(MAX_STANDINGS);
    let told: Vec<String> = told
        .map(|(l, r)| format!("{l} {}", ratio_as_change(*r)))
        .collect();
    told.join(", ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A change that sets one variable.
    pub(in crate::prove) fn planned_change(remedy: &str, variable: &str, value: &str) -> Planned {
        Planned {
            remedy: remedy.into(),
            sets: BTreeMap::from([(variable.to_owned(), value.to_owned())]),
            ..Planned::default()
        }
    }

    /// One change that was tried in four runs and is not kept.
    pub(in crate::prove) fn tried_change(change: &Planned, won: bool) -> TriedChange {
        TriedChange {
            changes: vec![change.clone()],
            label: change.remedy.clone(),
            runs: 4,
            ratio: 0.9,
            ci95: (0.8, 1.0),
            won,
            kept: false,
            why: "so".to_owned(),
            beside: Vec::new(),
        }
    }

    fn standing_of(fate: Fate, rounds: usize, ratio: f64) -> Standing {
        Standing {
            fate,
            rounds,
            ratio,
            ci95: (0.8, 1.1),
        }
    }

    /// Check that labels of one remedy's forms have their settings, and those of others their names alone.
    #[test]
    fn forms_are_told_apart() {
        let all = [
            vec![planned_change("a", "A", "1")],
            vec![planned_change("a", "A", "2")],
            vec![planned_change("b", "B", "1")],
            vec![planned_change("a", "A", "1"), planned_change("b", "B", "1")],
        ];
        assert_eq!(
            distinct_labels(&all),
            ["a (A=1)", "a (A=2)", "b", "a and b"]
        );
    }

    /// Check that forms which have most in common are labelled by the rest of their settings, however their variable separates
    /// them, and that the one without further settings is called alone.
    #[test]
    fn forms_in_few_words() {
        let forms = |variable: &str, values: &[&str]| {
            let form = |value: &&str| vec![planned_change("a", variable, value)];
            distinct_labels(&values.iter().map(form).collect::<Vec<_>>())
        };
        let tunables = [
            "glibc.malloc.top_pad=1:glibc.malloc.mmap_max=0",
            "glibc.malloc.top_pad=1",
            "glibc.malloc.top_pad=2:glibc.malloc.mmap_max=0",
        ];
        assert_eq!(
            forms("GLIBC_TUNABLES", &tunables),
            [
                "a (glibc.malloc.mmap_max=0 glibc.malloc.top_pad=1)",
                "a (GLIBC_TUNABLES=glibc.malloc.top_pad=1)",
                "a (glibc.malloc.mmap_max=0 glibc.malloc.top_pad=2)",
            ]
        );
        let keys = [
            "dirty_decay_ms:-1,thp:always",
            "dirty_decay_ms:-1,x:1,thp:always",
        ];
        assert_eq!(forms("MALLOC_CONF", &keys), ["a (alone)", "a (x:1)"]);
        let java = ["-Xms1g -XX:+AlwaysPreTouch", "-Xms1g -XX:-ZUncommit"];
        assert_eq!(
            forms("JAVA_TOOL_OPTIONS", &java),
            ["a (-XX:+AlwaysPreTouch)", "a (-XX:-ZUncommit)"]
        );
    }

    /// Check that each fate has its words and figures.
    #[test]
    fn fates_in_words() {
        let words = |fate| explain_standing(&standing_of(fate, 4, 0.9), "time");
        assert_eq!(words(Fate::Won), "time -10 % in 4 rounds");
        assert_eq!(
            words(Fate::Racing),
            "not tried to its end: time -10 % in 4 rounds so far"
        );
        assert_eq!(
            words(Fate::Out(Elimination::NoGain)),
            "no gain: time -10 % in 4 rounds"
        );
        assert_eq!(
            words(Fate::Out(Elimination::Wild { ratio: 1.4 })),
            "time -10 % in the middle of 4 rounds, and +40 % in the worst tenth"
        );
        assert_eq!(
            explain_standing(&standing_of(Fate::Racing, 0, 1.0), "time"),
            "not tried to its end"
        );
    }

    /// Check that the best candidate still in the race comes first, that one which is out or has not run is absent, and that
    /// more may be better.
    #[test]
    fn the_best_so_far() {
        let standings = [
            standing_of(Fate::Racing, 2, 1.1),
            standing_of(Fate::Racing, 2, 0.9),
            standing_of(Fate::Out(Elimination::Slower), 3, 2.0),
            standing_of(Fate::Racing, 0, 1.0),
        ];
        let labels = ["a", "b", "c", "d"];
        assert_eq!(so_far(&standings, &labels, false), "b -10 %, a +10 %");
        assert_eq!(so_far(&standings, &labels, true), "a +10 %, b -10 %");
        assert_eq!(so_far(&[], &[], false), "");
    }

    /// Check that a line says whether a change is part of the plan to be proved, also for one that won by itself.
    #[test]
    fn line_for_each_outcome() {
        let line = |won, kept| {
            let tried = tried_change(&planned_change("a", "A", "1"), won);
            TriedChange { kept, ..tried }.report_line()
        };
        assert_eq!(line(true, true), "keeps a: so");
        assert_eq!(line(true, false), "leaves a: so");
        assert_eq!(line(false, false), "drops a: so");
    }
}
