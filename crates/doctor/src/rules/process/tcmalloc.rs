//! ALLOC-TC: tcmalloc gives memory back.

use quell_event::Cause;
use quell_remedy::{FoundSoftware, SoftwareKind};

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::Look;
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

use super::common::{self, Seen};

const RATE: &str = "TCMALLOC_RELEASE_RATE";
const AGGRESSIVE: &str = "TCMALLOC_AGGRESSIVE_DECOMMIT";

pub(super) const RULE: Rule = Rule {
    id: "ALLOC-TC",
    title: "tcmalloc gives memory back",
    severity: Severity::Medium,
    why: "Now and then a free() gives spans back by madvise: a shootdown on every CPU of the program, and page \
          faults when the memory is used again.",
    risk: "Freed memory stays with the program.",
    source: "gperftools src/page_heap.cc, IncrementalScavenge; gperftools docs, TCMALLOC_RELEASE_RATE",
    causes: &[Cause::MadviseDontneed],
    check: Check::Process(check),
};

fn check(_: &Look<'_>, process: &Process) -> Checked {
    common::each(
        process,
        &[SoftwareKind::Gperftools, SoftwareKind::GoogleTcmalloc],
        judge,
    )
}

fn judge(found: &FoundSoftware, seen: &Seen<'_>) -> Checked {
    if found.kind == SoftwareKind::GoogleTcmalloc {
        return Checked::unknown(
            "google's tcmalloc reads no variable and gives back what the program tells it to, which can't be seen",
        )
        .note(
            "look for SetBackgroundReleaseRate and ReleaseMemoryToSystem in the program (MongoDB: tcmallocReleaseRate)",
        );
    }
    let (rate, rate_read) = common::variable(seen.env, RATE);
    let (aggressive, aggressive_read) = common::variable(seen.env, AGGRESSIVE);
    // base/commandlineflags.h, EnvToBool: an empty value is yes
    let aggressive =
        aggressive.is_some_and(|v| v.is_empty() || v.starts_with(['t', 'T', 'y', 'Y', '1']));
    let rate = rate.map_or(1.0, |text| strtod(&text));
    let releases = rate > 1e-6;
    let checked = match (releases, aggressive) {
        (false, false) => Checked::ok("it keeps what is freed"),
        (_, true) => {
            Checked::hazard("every free() of a span gives it back").severity(Severity::High)
        }
        (true, false) => Checked::hazard(format!("it gives memory back at a rate of {rate}")),
    };
    let checked = checked.read([rate_read, aggressive_read]);
    if !releases && !aggressive {
        return checked;
    }
    let checked = if aggressive {
        checked.fix(Fix::env(AGGRESSIVE, "0"))
    } else {
        checked
    };
    if releases {
        common::remedied(checked, found, seen.env)
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
    use crate::finding::Status;
    use crate::rules::fixture::assert_hazard;
    use crate::rules::process::common::made::{asked, found, judged};

    const GPERFTOOLS: &str =
        "\0TCMALLOC_RELEASE_RATE\0tcmalloc.max_total_thread_cache_bytes\0gperftools 2.15\0";

    /// Check a real recognition: the default rate is a hazard, and 0 is none.
    #[test]
    fn the_default_is_a_hazard() {
        let found = asked(&RULE, "app", GPERFTOOLS, "A=b\0", "app\0");
        assert_hazard(&found, "", "environment: TCMALLOC_RELEASE_RATE=0");
        assert_eq!(found.said, "it gives memory back at a rate of 1");
        let off = asked(
            &RULE,
            "app",
            GPERFTOOLS,
            "TCMALLOC_RELEASE_RATE=0\0",
            "app\0",
        );
        assert_eq!(off.status, Status::Ok);
        assert_eq!(asked(&RULE, "app", "", "A=b\0", "app\0").status, Status::Ok);
    }

    /// Check that the aggressive mode is worse, whatever the rate, and that both are switched off.
    #[test]
    fn aggressive_is_worse() {
        let found = found(SoftwareKind::Gperftools, (2, 10, 0));
        let rated = |env: &[(&str, &str)]| judged(judge, &found, env);
        let both = rated(&[(AGGRESSIVE, "true")]);
        assert_eq!(both.severity, Some(Severity::High));
        assert_eq!(both.fixes, [Fix::env(AGGRESSIVE, "0"), Fix::env(RATE, "0")]);
        let one = rated(&[(AGGRESSIVE, "1"), (RATE, "0")]);
        assert_eq!(one.fixes, [Fix::env(AGGRESSIVE, "0")]);
        let off = rated(&[(AGGRESSIVE, "no"), (RATE, "0.0")]);
        assert_eq!(off.status, Some(Status::Ok));
    }

    /// Check that google's tcmalloc, which nothing outside tells, is unknown.
    #[test]
    fn googles_is_unknown() {
        let found = found(SoftwareKind::GoogleTcmalloc, (0, 0, 0));
        assert_eq!(judged(judge, &found, &[]).status, Some(Status::Unknown));
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
