//! Plans as people read them.

use std::fmt::Write as _;
use std::path::Path;

use quell_event::text::clean_text;
use quell_remedy::{Plan, Planned, emit};

use super::Environment;
use crate::show::lines::wrap;
use crate::show::style::{BOLD, DIM, heading};
use crate::show::units::{percent, ratio_as_change, time};

/// The remedies, each with its evidence, its predicted effect, and its cost.
pub(crate) fn describe_remedies(plan: &Plan) -> String {
    let mut out = String::new();
    for p in &plan.remedies {
        // Writing to a String does not fail.
        let _ = writeln!(out, "  {BOLD}{}{BOLD:#}", p.remedy);
        for (name, value) in &p.sets {
            // This line is not wrapped, because it is there to be copied.
            let _ = writeln!(out, "    sets {name}={}", clean_text(value));
        }
        for (key, value) in &p.starts {
            let _ = writeln!(out, "    starts it with {key}={}", clean_text(value));
        }
        if !p.evidence.is_empty() {
            out.push_str(&wrap(&format!("because {}", p.evidence), 4));
        }
        match touched_time(p) {
            Some(touched) => out.push_str(&wrap(&touched, 4)),
            // Without an account there is only a count.
            None if p.predicted_stop > 0.0 => {
                let stops = percent(p.predicted_stop);
                let _ = writeln!(out, "    predicted to stop {stops} of all shootdowns");
            }
            None => {}
        }
        if !p.cost.is_empty() {
            out.push_str(&wrap(&format!("cost: {}", p.cost), 4));
        }
    }
    out
}

/// The time that a change touches, and the prediction; none where there is no account.
fn touched_time(p: &Planned) -> Option<String> {
    let ceiling = p.ceiling?;
    // `cpu` is the share that `cpu_ns` is of all CPU time; the ends of the interval become shares by the same factor.
    let share = |ns: u64| ceiling.cpu * ns as f64 / ceiling.cpu_ns.max(1) as f64;
    let mut out = format!("touches {} of CPU time", percent(ceiling.cpu));
    if ceiling.cpu_ns > 0 {
        let [low, high] = ceiling.ci95.map(|ns| percent(share(ns).min(1.0)));
        let _ = write!(out, " ({low} to {high})");
    }
    if ceiling.blocked_ns > 0 {
        let _ = write!(out, " and {} asleep", time(ceiling.blocked_ns));
    }
    match p.predicted {
        Some([low, high]) => {
            let (low, high) = (ratio_as_change(1.0 + low), ratio_as_change(1.0 + high));
            let _ = write!(out, "; predicted CPU time {low} to {high}");
        }
        None => out.push_str("; the gain is not predicted"),
    }
    Some(out)
}

/// The line that says that a change could help.
pub(crate) fn could_help(p: &Planned, label: &str) -> String {
    let what =
        touched_time(p).unwrap_or_else(|| "the time that it touches is not known".to_owned());
    format!("could help: {label}: {what}")
}

/// All changes that could help, each with its settings and the time that it touches; empty if there are none.
pub(crate) fn describe_candidates(all: &[Planned], command: &str) -> String {
    let mut out = String::new();
    if all.is_empty() {
        return out;
    }
    heading(&mut out, "What could help");
    for p in all {
        // Writing to a String does not fail.
        let _ = writeln!(out, "  {BOLD}{}{BOLD:#}", p.remedy);
        for (name, value) in p.sets.iter().chain(&p.starts) {
            let _ = writeln!(out, "    {name}={}", clean_text(value));
        }
        if let Some(most) = touched_time(p) {
            out.push_str(&wrap(&most, 4));
            out.push_str(&wrap(&p.touches, 4));
        }
    }
    let _ = writeln!(
        out,
        "  {DIM}each by itself; only runs can show which of them win:{DIM:#} quell prove -- {command}"
    );
    out
}

/// How to keep the plan.
pub(crate) fn how_to_keep(
    plan: &Plan,
    environment: &Environment,
    command: &str,
    saved: Option<&Path>,
) -> String {
    let mut out = format!("\n{BOLD}Keep it{BOLD:#}\n");
    for (name, value) in environment {
        let _ = writeln!(out, "  {}", emit::shell_export(name, value));
    }
    for start in plan.starts() {
        let _ = writeln!(
            out,
            "  {DIM}no variable holds{DIM:#} {start}{DIM}, which quell run does{DIM:#}"
        );
    }
    let _ = match saved {
        Some(path) => writeln!(
            out,
            "  {DIM}or:{DIM:#} quell run --plan {} -- {command}",
            path.display()
        ),
        None => writeln!(
            out,
            "  {DIM}or write the plan to a file with --save FILE, and:{DIM:#} quell run --plan FILE -- {command}"
        ),
    };
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::show::lines::bullet_list;

    /// Check the text of a plan as people see it.
    #[test]
    fn plan_text() {
        let plan = Plan {
            remedies: vec![Planned {
                remedy: "jemalloc.decay".into(),
                sets: BTreeMap::from([("_RJEM_MALLOC_CONF".into(), "dirty_decay_ms:-1".into())]),
                starts: BTreeMap::from([("thp".into(), "never".into())]),
                evidence: "1600 of 1700 shootdowns (94 %) are from jemalloc".into(),
                predicted_stop: 0.894,
                cost: "freed memory stays resident".into(),
                ..Planned::default()
            }],
            notes: vec!["glibc: left as it is".into()],
        };
        let text = describe_remedies(&plan) + &bullet_list("Notes", &plan.notes);
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string(), @r"
          jemalloc.decay
            sets _RJEM_MALLOC_CONF=dirty_decay_ms:-1
            starts it with thp=never
            because 1600 of 1700 shootdowns (94 %) are from jemalloc
            predicted to stop 89 % of all shootdowns
            cost: freed memory stays resident

        Notes
          · glibc: left as it is
        ");
    }
}
