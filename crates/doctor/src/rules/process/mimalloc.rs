//! ALLOC-MI: mimalloc gives memory back.

use crate::rules::prelude::*;

use super::common::{self, AllocatorInputs, StartEnvironment};

const PURGE_DELAY_VARIABLE: &str = "MIMALLOC_PURGE_DELAY";
const DECOMMIT_VARIABLE: &str = "MIMALLOC_ALLOW_DECOMMIT";
const PAGE_RESET_VARIABLE: &str = "MIMALLOC_PAGE_RESET";
/// The older name of the delay, which is still read.
const RESET_DELAY_VARIABLE: &str = "MIMALLOC_RESET_DELAY";

pub(super) const ALLOC_MI: AuditRule = AuditRule {
    id: "ALLOC-MI",
    title: "mimalloc gives memory back",
    severity: Severity::Medium,
    why: "Freed pages are given back by madvise some ms later: shootdowns on every CPU of the program, and page \
          faults when the memory is used again.",
    risk: "Freed memory stays with the program. In 2.x, blocks over about 16 MB are unmapped whatever is set.",
    source: "mimalloc src/options.c, purge_delay; rigtorp.se/virtual-memory, whose MIMALLOC_PAGE_RESET is deprecated",
    causes: &[Cause::Munmap, Cause::MadviseDontneed, Cause::MadviseFree],
    check: RuleCheck::Process(check_alloc_mi),
};

fn check_alloc_mi(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    common::judge_allocators(process, &[SoftwareKind::Mimalloc], judge_mimalloc)
}

fn judge_mimalloc(found: &FoundSoftware, seen: &AllocatorInputs<'_>) -> CheckResult {
    // which knob belongs to which version, crates/remedy knows: asked as if nothing were set
    let remedy = common::with_remedy(CheckResult::hazard(""), found, &|_| None);
    let knob = remedy.fixes.iter().find_map(|fix| match fix {
        Fix::Env { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let Some(knob) = knob else {
        let why = format!("what {found} listens to can't be told");
        return CheckResult {
            notes: remedy.notes,
            ..CheckResult::unknown(why)
        };
    };
    let mut value = mimalloc_option(seen.env, knob);
    if knob == PURGE_DELAY_VARIABLE && value.is_none() {
        value = mimalloc_option(seen.env, RESET_DELAY_VARIABLE);
    }
    let value = value.as_deref().and_then(parse_mimalloc_value);
    let checked = match (knob, value) {
        (PURGE_DELAY_VARIABLE, Some(n)) if n < 0 => CheckResult::ok("it keeps what is freed"),
        (PURGE_DELAY_VARIABLE, Some(0)) => {
            mimalloc_hazard(&remedy, "freed pages are given back at once".to_owned())
        }
        (PURGE_DELAY_VARIABLE, n) => {
            let default = if found.at_least(3, 0, 0) { 1000 } else { 10 };
            let ms = n.unwrap_or(default);
            mimalloc_hazard(&remedy, format!("freed pages are given back after {ms} ms"))
        }
        (_, Some(0)) => CheckResult::ok("it keeps what is freed"),
        _ => mimalloc_hazard(&remedy, "freed pages are given back".to_owned()),
    };
    let read = [
        PURGE_DELAY_VARIABLE,
        RESET_DELAY_VARIABLE,
        DECOMMIT_VARIABLE,
        PAGE_RESET_VARIABLE,
    ]
    .iter()
    .filter_map(|name| {
        let value = mimalloc_option(seen.env, name);
        let shown = value.or_else(|| (*name == knob).then(|| "(not set)".to_owned()));
        Some(FileReading::new(format!("environment {name}"), shown?))
    });
    let mut checked = checked.with_reads(read);
    for name in [PURGE_DELAY_VARIABLE, DECOMMIT_VARIABLE, PAGE_RESET_VARIABLE] {
        if name == knob || mimalloc_option(seen.env, name).is_none() {
            continue;
        }
        let why = match (name, knob) {
            // its name is deprecated_page_reset now
            (PAGE_RESET_VARIABLE, PURGE_DELAY_VARIABLE) => {
                "it is deprecated, and this version does not read it"
            }
            // 2.0.9 still has it, and has it off
            (PAGE_RESET_VARIABLE, _) => {
                "it is off by default in this version, and deprecated later"
            }
            _ => "it belongs to another version",
        };
        checked = checked.with_note(format!("{name} is set: {why}; what counts is {knob}"));
    }
    checked
}

fn mimalloc_hazard(remedy: &CheckResult, said: String) -> CheckResult {
    let mut checked = CheckResult::hazard(said);
    checked.fixes.clone_from(&remedy.fixes);
    checked
}

/// A variable, in capitals or not.
fn mimalloc_option(env: &StartEnvironment<'_>, name: &str) -> Option<String> {
    env(&name.to_ascii_lowercase()).or_else(|| env(name))
}

/// A value as mimalloc reads it; `None` for one that it refuses (`mi_option_init`).
fn parse_mimalloc_value(text: &str) -> Option<i64> {
    match &text.to_ascii_uppercase()[..] {
        "" | "1" | "TRUE" | "YES" | "ON" => Some(1),
        "0" | "FALSE" | "NO" | "OFF" => Some(0),
        other => other.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::assert_hazard;
    use crate::rules::process::common::made::{
        allocator_of_version, ask_about_program, judge_in_environment,
    };

    fn with(version: (u32, u32, u32), env: &[(&str, &str)]) -> CheckResult {
        judge_in_environment(
            judge_mimalloc,
            &allocator_of_version(SoftwareKind::Mimalloc, version),
            env,
        )
    }

    /// Check a real recognition: the default delay is a hazard, and -1 is none.
    #[test]
    fn the_default_is_a_hazard() {
        let constants =
            "\0mimalloc_%s\0mimalloc: \0show_errors\0show_stats\0eager_commit_delay\0purge_delay\0";
        let found = ask_about_program(&ALLOC_MI, "app", constants, "A=b\0", "app\0");
        assert_hazard(&found, "", "environment: MIMALLOC_PURGE_DELAY=-1");
        assert!(found.said.contains("after 10 ms"), "{}", found.said);
        let off = ask_about_program(
            &ALLOC_MI,
            "app",
            constants,
            "MIMALLOC_PURGE_DELAY=-1\0",
            "app\0",
        );
        assert_eq!(off.status, FindingStatus::Ok);
        assert_eq!(
            ask_about_program(&ALLOC_MI, "app", "", "A=b\0", "app\0").status,
            FindingStatus::Ok
        );
    }

    /// Check that each line of versions is asked for its own knob, and that another one's is said to do nothing.
    #[test]
    fn versions_have_their_knobs() {
        let off = |version, name, value| with(version, &[(name, value)]).status.unwrap();
        assert_eq!(
            off((3, 3, 2), PURGE_DELAY_VARIABLE, "-1"),
            FindingStatus::Ok
        );
        assert_eq!(
            off((2, 2, 7), "mimalloc_purge_delay", "-1"),
            FindingStatus::Ok
        );
        assert_eq!(
            off((2, 2, 7), RESET_DELAY_VARIABLE, "-1"),
            FindingStatus::Ok
        );
        assert_eq!(
            off((2, 2, 7), DECOMMIT_VARIABLE, "0"),
            FindingStatus::Hazard
        );
        assert_eq!(off((2, 0, 9), DECOMMIT_VARIABLE, "0"), FindingStatus::Ok);
        assert_eq!(
            off((2, 0, 9), PURGE_DELAY_VARIABLE, "-1"),
            FindingStatus::Hazard
        );
        assert_eq!(
            with((2, 0, 9), &[]).fixes,
            [Fix::set_variable(DECOMMIT_VARIABLE, "0")]
        );
        assert!(with((3, 3, 2), &[]).said.contains("1000 ms"));
        assert!(
            with((3, 3, 2), &[(PURGE_DELAY_VARIABLE, "0")])
                .said
                .contains("at once")
        );
        assert_eq!(with((1, 6, 0), &[]).status, Some(FindingStatus::Unknown));
    }

    /// Check that rigtorp's setting is called deprecated, and is none.
    #[test]
    fn page_reset_is_deprecated() {
        let checked = with((2, 2, 7), &[(PAGE_RESET_VARIABLE, "0")]);
        assert_eq!(checked.status, Some(FindingStatus::Hazard));
        assert!(
            checked.notes[0].contains("deprecated"),
            "{:?}",
            checked.notes
        );
    }
}
