//! ALLOC-MI: mimalloc gives memory back.

use quell_event::Cause;
use quell_remedy::{FoundSoftware, SoftwareKind};

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

use super::common::{self, Env, Seen};

const DELAY: &str = "MIMALLOC_PURGE_DELAY";
const DECOMMIT: &str = "MIMALLOC_ALLOW_DECOMMIT";
const RESET: &str = "MIMALLOC_PAGE_RESET";
/// What the delay was called before, and still may be.
const OLD_DELAY: &str = "MIMALLOC_RESET_DELAY";

pub(super) const RULE: Rule = Rule {
    id: "ALLOC-MI",
    title: "mimalloc gives memory back",
    severity: Severity::Medium,
    why: "Freed pages are given back by madvise some ms later: shootdowns on every CPU of the program, and page \
          faults when the memory is used again.",
    risk: "Freed memory stays with the program. In 2.x, blocks over about 16 MB are unmapped whatever is set.",
    source: "mimalloc src/options.c, purge_delay; rigtorp.se/virtual-memory, whose MIMALLOC_PAGE_RESET is deprecated",
    causes: &[Cause::Munmap, Cause::MadviseDontneed, Cause::MadviseFree],
    check: Check::Process(check),
};

fn check(_: &Look<'_>, process: &Process) -> Checked {
    common::each(process, &[SoftwareKind::Mimalloc], judge)
}

fn judge(found: &FoundSoftware, seen: &Seen<'_>) -> Checked {
    // which knob belongs to which version, crates/remedy knows: asked as if nothing were set
    let remedy = common::remedied(Checked::hazard(""), found, &|_| None);
    let knob = remedy.fixes.iter().find_map(|fix| match fix {
        Fix::Env { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let Some(knob) = knob else {
        let why = format!("what {found} listens to can't be told");
        return Checked {
            notes: remedy.notes,
            ..Checked::unknown(why)
        };
    };
    let mut value = option(seen.env, knob);
    if knob == DELAY && value.is_none() {
        value = option(seen.env, OLD_DELAY);
    }
    let value = value.as_deref().and_then(number);
    let checked = match (knob, value) {
        (DELAY, Some(n)) if n < 0 => Checked::ok("it keeps what is freed"),
        (DELAY, Some(0)) => hazard(&remedy, "freed pages are given back at once".to_owned()),
        (DELAY, n) => {
            let default = if found.at_least(3, 0, 0) { 1000 } else { 10 };
            let ms = n.unwrap_or(default);
            hazard(&remedy, format!("freed pages are given back after {ms} ms"))
        }
        (_, Some(0)) => Checked::ok("it keeps what is freed"),
        _ => hazard(&remedy, "freed pages are given back".to_owned()),
    };
    let read = [DELAY, OLD_DELAY, DECOMMIT, RESET]
        .iter()
        .filter_map(|name| {
            let value = option(seen.env, name);
            let shown = value.or_else(|| (*name == knob).then(|| "(not set)".to_owned()));
            Some(Read::new(format!("environment {name}"), shown?))
        });
    let mut checked = checked.read(read);
    for name in [DELAY, DECOMMIT, RESET] {
        if name == knob || option(seen.env, name).is_none() {
            continue;
        }
        let why = match (name, knob) {
            // its name is deprecated_page_reset now
            (RESET, DELAY) => "it is deprecated, and this version does not read it",
            // 2.0.9 still has it, and has it off
            (RESET, _) => "it is off by default in this version, and deprecated later",
            _ => "it belongs to another version",
        };
        checked = checked.note(format!("{name} is set: {why}; what counts is {knob}"));
    }
    checked
}

fn hazard(remedy: &Checked, said: String) -> Checked {
    let mut checked = Checked::hazard(said);
    checked.fixes.clone_from(&remedy.fixes);
    checked
}

/// A variable, in capitals or not.
fn option(env: &Env<'_>, name: &str) -> Option<String> {
    env(&name.to_ascii_lowercase()).or_else(|| env(name))
}

/// A value as mimalloc reads it; `None` for one that it refuses (`mi_option_init`).
fn number(text: &str) -> Option<i64> {
    match &text.to_ascii_uppercase()[..] {
        "" | "1" | "TRUE" | "YES" | "ON" => Some(1),
        "0" | "FALSE" | "NO" | "OFF" => Some(0),
        other => other.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::assert_hazard;
    use crate::rules::process::common::made::{asked, found, judged};

    fn with(version: (u32, u32, u32), env: &[(&str, &str)]) -> Checked {
        judged(judge, &found(SoftwareKind::Mimalloc, version), env)
    }

    /// Check a real recognition: the default delay is a hazard, and -1 is none.
    #[test]
    fn the_default_is_a_hazard() {
        let constants =
            "\0mimalloc_%s\0mimalloc: \0show_errors\0show_stats\0eager_commit_delay\0purge_delay\0";
        let found = asked(&RULE, "app", constants, "A=b\0", "app\0");
        assert_hazard(&found, "", "environment: MIMALLOC_PURGE_DELAY=-1");
        assert!(found.said.contains("after 10 ms"), "{}", found.said);
        let off = asked(
            &RULE,
            "app",
            constants,
            "MIMALLOC_PURGE_DELAY=-1\0",
            "app\0",
        );
        assert_eq!(off.status, Status::Ok);
        assert_eq!(asked(&RULE, "app", "", "A=b\0", "app\0").status, Status::Ok);
    }

    /// Check that each line of versions is asked for its own knob, and that another one's is said to do nothing.
    #[test]
    fn versions_have_their_knobs() {
        let off = |version, name, value| with(version, &[(name, value)]).status.unwrap();
        assert_eq!(off((3, 3, 2), DELAY, "-1"), Status::Ok);
        assert_eq!(off((2, 2, 7), "mimalloc_purge_delay", "-1"), Status::Ok);
        assert_eq!(off((2, 2, 7), OLD_DELAY, "-1"), Status::Ok);
        assert_eq!(off((2, 2, 7), DECOMMIT, "0"), Status::Hazard);
        assert_eq!(off((2, 0, 9), DECOMMIT, "0"), Status::Ok);
        assert_eq!(off((2, 0, 9), DELAY, "-1"), Status::Hazard);
        assert_eq!(with((2, 0, 9), &[]).fixes, [Fix::env(DECOMMIT, "0")]);
        assert!(with((3, 3, 2), &[]).said.contains("1000 ms"));
        assert!(with((3, 3, 2), &[(DELAY, "0")]).said.contains("at once"));
        assert_eq!(with((1, 6, 0), &[]).status, Some(Status::Unknown));
    }

    /// Check that rigtorp's setting is called deprecated, and is none.
    #[test]
    fn page_reset_is_deprecated() {
        let checked = with((2, 2, 7), &[(RESET, "0")]);
        assert_eq!(checked.status, Some(Status::Hazard));
        assert!(
            checked.notes[0].contains("deprecated"),
            "{:?}",
            checked.notes
        );
    }
}
