//! ALLOC-TC: tcmalloc gives memory back.

use crate::rules::prelude::*;

use super::common::{self, AllocatorInputs};

const RELEASE_RATE_VARIABLE: &str = "TCMALLOC_RELEASE_RATE";
const AGGRESSIVE_VARIABLE: &str = "TCMALLOC_AGGRESSIVE_DECOMMIT";

pub(super) const ALLOC_TC: AuditRule = AuditRule {
    id: "ALLOC-TC",
    title: "tcmalloc gives memory back",
    severity: Severity::Medium,
    why: "Now and then a free() gives spans back by madvise: a shootdown on every CPU of the program, and page \
          faults when the memory is used again.",
    risk: "Freed memory stays with the program.",
    source: "gperftools src/page_heap.cc, IncrementalScavenge; gperftools docs, TCMALLOC_RELEASE_RATE",
    causes: &[Cause::MadviseDontneed],
    check: RuleCheck::Process(check_alloc_tc),
};

fn check_alloc_tc(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    common::judge_allocators(
        process,
        &[SoftwareKind::Gperftools, SoftwareKind::GoogleTcmalloc],
        judge_tcmalloc,
    )
}

fn judge_tcmalloc(found: &FoundSoftware, seen: &AllocatorInputs<'_>) -> CheckResult {
    if found.kind == SoftwareKind::GoogleTcmalloc {
        return CheckResult::unknown(
            "google's tcmalloc reads no variable and gives back what the program tells it to, which can't be seen",
        )
        .with_note(
            "look for SetBackgroundReleaseRate and ReleaseMemoryToSystem in the program (MongoDB: tcmallocReleaseRate)",
        );
    }
    let (rate, rate_read) = common::read_variable(seen.env, RELEASE_RATE_VARIABLE);
    let (aggressive, aggressive_read) = common::read_variable(seen.env, AGGRESSIVE_VARIABLE);
    // base/commandlineflags.h, EnvToBool: an empty value is yes
    let aggressive =
        aggressive.is_some_and(|v| v.is_empty() || v.starts_with(['t', 'T', 'y', 'Y', '1']));
    let rate = rate.map_or(1.0, |text| strtod(&text));
    let releases = rate > 1e-6;
    let checked = match (releases, aggressive) {
        (false, false) => CheckResult::ok("it keeps what is freed"),
        (_, true) => CheckResult::hazard("every free() of a span gives it back")
            .with_severity(Severity::High),
        (true, false) => CheckResult::hazard(format!("it gives memory back at a rate of {rate}")),
    };
    let checked = checked.with_reads([rate_read, aggressive_read]);
    if !releases && !aggressive {
        return checked;
    }
    let checked = if aggressive {
        checked.with_fix(Fix::set_variable(AGGRESSIVE_VARIABLE, "0"))
    } else {
        checked
    };
    if releases {
        common::with_remedy(checked, found, seen.env)
    } else {
        checked
    }
}

/// As C reads it: the number at the start, 0 where there is none.
fn strtod(text: &str) -> f64 {
    let text = text.trim_start();
    let ends = (1..=text.len())
        .rev()
        .filter(|&end| text.is_char_boundary(end));
    ends.map(|end| text[..end].parse())
        .find_map(Result::ok)
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::assert_hazard;
    use crate::rules::process::common::made::{
        allocator_of_version, ask_about_program, judge_in_environment,
    };

    const GPERFTOOLS: &str =
        "\0TCMALLOC_RELEASE_RATE\0tcmalloc.max_total_thread_cache_bytes\0gperftools 2.15\0";

    /// Check a real recognition: the default rate is a hazard, and 0 is none.
    #[test]
    fn the_default_is_a_hazard() {
        let found = ask_about_program(&ALLOC_TC, "app", GPERFTOOLS, "A=b\0", "app\0");
        assert_hazard(&found, "", "environment: TCMALLOC_RELEASE_RATE=0");
        assert_eq!(found.said, "it gives memory back at a rate of 1");
        let off = ask_about_program(
            &ALLOC_TC,
            "app",
            GPERFTOOLS,
            "TCMALLOC_RELEASE_RATE=0\0",
            "app\0",
        );
        assert_eq!(off.status, FindingStatus::Ok);
        assert_eq!(
            ask_about_program(&ALLOC_TC, "app", "", "A=b\0", "app\0").status,
            FindingStatus::Ok
        );
    }

    /// Check that the aggressive mode is worse, whatever the rate, and that both are switched off.
    #[test]
    fn aggressive_is_worse() {
        let found = allocator_of_version(SoftwareKind::Gperftools, (2, 10, 0));
        let rated = |env: &[(&str, &str)]| judge_in_environment(judge_tcmalloc, &found, env);
        let both = rated(&[(AGGRESSIVE_VARIABLE, "true")]);
        assert_eq!(both.severity, Some(Severity::High));
        assert_eq!(
            both.fixes,
            [
                Fix::set_variable(AGGRESSIVE_VARIABLE, "0"),
                Fix::set_variable(RELEASE_RATE_VARIABLE, "0")
            ]
        );
        let one = rated(&[(AGGRESSIVE_VARIABLE, "1"), (RELEASE_RATE_VARIABLE, "0")]);
        assert_eq!(one.fixes, [Fix::set_variable(AGGRESSIVE_VARIABLE, "0")]);
        let off = rated(&[(AGGRESSIVE_VARIABLE, "no"), (RELEASE_RATE_VARIABLE, "0.0")]);
        assert_eq!(off.status, Some(FindingStatus::Ok));
    }

    /// Check that google's tcmalloc, which nothing outside tells, is unknown.
    #[test]
    fn googles_is_unknown() {
        let found = allocator_of_version(SoftwareKind::GoogleTcmalloc, (0, 0, 0));
        assert_eq!(
            judge_in_environment(judge_tcmalloc, &found, &[]).status,
            Some(FindingStatus::Unknown)
        );
    }

    /// Check that rates are read as C reads them.
    #[test]
    fn rates() {
        assert_eq!(
            ["5", "0.5x", "x", "", " 2"].map(strtod),
            [5.0, 0.5, 0.0, 0.0, 2.0]
        );
    }
}
