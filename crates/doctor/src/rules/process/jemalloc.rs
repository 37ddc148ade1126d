//! ALLOC-JE: jemalloc gives memory back after a while.

use crate::rules::prelude::*;

use super::common::{self, AllocatorInputs};
use super::jemalloc_conf::{JemallocSettings, given_conf, with_wanted_conf};

pub(super) const ALLOC_JE: AuditRule = AuditRule {
    id: "ALLOC-JE",
    title: "jemalloc gives memory back",
    severity: Severity::High,
    why: "Pages that were free for some time are given back by madvise, whole bunches by whichever thread comes \
          by: shootdowns on every CPU of the program, and page faults when the memory is used again.",
    risk: "A program that peaks once keeps its peak.",
    source: "ByteDance 2020, jemalloc and TLB shootdown; github.com/jemalloc/jemalloc/issues/1422; jemalloc.net \
             opt.dirty_decay_ms",
    causes: &[Cause::Munmap, Cause::MadviseDontneed, Cause::MadviseFree],
    check: RuleCheck::Process(check_alloc_je),
};

fn check_alloc_je(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    common::judge_allocators(process, &[SoftwareKind::Jemalloc], judge_jemalloc)
}

fn judge_jemalloc(found: &FoundSoftware, seen: &AllocatorInputs<'_>) -> CheckResult {
    let read = given_conf(found, seen).map(|(name, _)| common::read_variable(seen.env, &name).1);
    let Some(settings) = JemallocSettings::of(found, seen) else {
        return CheckResult::unknown(format!("what {found} listens to can't be told"))
            .with_reads(read);
    };
    if settings.keeps(found) {
        return CheckResult::ok("it keeps what is freed").with_reads(read);
    }
    // of 5.x only dirty_decay_ms counts: pages that stay dirty never become muzzy
    let said = match (found.at_least(5, 0, 0), settings.number("dirty_decay_ms")) {
        (true, Some(0)) => "freed pages are given back at once".to_owned(),
        (true, n) => format!(
            "freed pages are given back within {} ms",
            n.unwrap_or(10_000)
        ),
        (false, _) => "freed pages are given back when there are many".to_owned(),
    };
    let checked = with_wanted_conf(CheckResult::hazard(said), found, seen)
        .with_reads(read)
        .with_note("what the program sets by mallctl() can't be seen from outside");
    if !found.at_least(5, 0, 0) || settings.last("thp", |v| Some(v == "always")) == Some(true) {
        return checked;
    }
    checked.with_note(CALLOC_NOTE)
}

/// Measured under calloc of 64 KB to 4 MB: docs/remedies.md.
const CALLOC_NOTE: &str = "a program that callocs blocks of 64 KB and more may have more shootdowns with it than before \
                      (5.3.0: 1 to 606 became 1,344 to 3,591): there thp:always besides, unless it forks as it works; \
                      'quell prove' finds the plan for it";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::fix::Fix;
    use crate::rules::fixture::assert_hazard;
    use crate::rules::process::common::made::{
        REDIS_JEMALLOC, allocator_of_version, ask_about_program, judge_in_environment,
    };

    /// What quell adds for 5.2 and newer.
    const BOUNDED: &str = "oversize_threshold:65536,lg_extent_max_active_fit:16";

    fn with(version: (u32, u32, u32), conf: &str) -> CheckResult {
        let mut found = allocator_of_version(SoftwareKind::Jemalloc, version);
        found.conf_env = Some("MALLOC_CONF".to_owned());
        let env = [("MALLOC_CONF", conf)];
        judge_in_environment(
            judge_jemalloc,
            &found,
            if conf.is_empty() { &[] } else { &env },
        )
    }

    /// Check a real recognition: Redis' jemalloc is told by its own variable, and another name doesn't help.
    #[test]
    fn defaults_are_a_hazard() {
        // The file tells 5.2 from its options.
        let set = "JE_MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0";
        let found = ask_about_program(
            &ALLOC_JE,
            "redis-server",
            REDIS_JEMALLOC,
            "A=b\0",
            "redis-server\0",
        );
        assert_hazard(&found, "", &format!("environment: {set}"));
        assert!(found.said.contains("10000 ms"), "{}", found.said);
        let ok = ask_about_program(
            &ALLOC_JE,
            "redis-server",
            REDIS_JEMALLOC,
            "JE_MALLOC_CONF=dirty_decay_ms:-1\0",
            "r\0",
        );
        assert_eq!(ok.status, FindingStatus::Ok);
        let other = "MALLOC_CONF=dirty_decay_ms:-1\0";
        let other = ask_about_program(&ALLOC_JE, "redis-server", REDIS_JEMALLOC, other, "r\0");
        assert_eq!(other.status, FindingStatus::Hazard);
        assert_eq!(
            ask_about_program(&ALLOC_JE, "app", "", "A=b\0", "a\0").status,
            FindingStatus::Ok
        );
    }

    /// Check that each line of versions is judged by its own keys.
    #[test]
    fn versions_have_their_keys() {
        let status = |version, conf| with(version, conf).status.unwrap();
        assert_eq!(status((5, 3, 0), "dirty_decay_ms:-1"), FindingStatus::Ok);
        assert_eq!(
            status((5, 3, 0), "dirty_decay_ms:-1,dirty_decay_ms:5"),
            FindingStatus::Hazard
        );
        assert_eq!(
            status((5, 3, 0), "purge:decay,decay_time:-1"),
            FindingStatus::Hazard
        );
        assert_eq!(
            status((4, 5, 0), "purge:decay,decay_time:-1"),
            FindingStatus::Ok
        );
        assert_eq!(status((4, 5, 0), "decay_time:-1"), FindingStatus::Hazard);
        assert_eq!(
            status((4, 5, 0), "dirty_decay_ms:-1"),
            FindingStatus::Hazard
        );
        assert_eq!(status((4, 0, 3), "lg_dirty_mult:-1"), FindingStatus::Ok);
        assert_eq!(status((4, 0, 3), ""), FindingStatus::Hazard);
        let old = with((4, 0, 3), "");
        assert_eq!(
            old.fixes,
            [Fix::set_variable("MALLOC_CONF", "lg_dirty_mult:-1")]
        );
    }

    /// Check that what the user set besides stays, and that what is behind a blank counts for nothing.
    #[test]
    fn the_users_settings_stay() {
        let checked = with((5, 3, 0), "narenas:2,dirty_decay_ms:0");
        assert_eq!(checked.said, "freed pages are given back at once");
        let set = format!("narenas:2,dirty_decay_ms:-1,muzzy_decay_ms:-1,{BOUNDED}");
        assert_eq!(checked.fixes, [Fix::set_variable("MALLOC_CONF", set)]);
        assert_eq!(
            with((5, 3, 0), "narenas:2, dirty_decay_ms:-1").status,
            Some(FindingStatus::Hazard)
        );
    }

    /// Check that what was built in counts, and that the environment wins.
    #[test]
    fn built_in_settings_count() {
        let mut found = allocator_of_version(SoftwareKind::Jemalloc, (5, 3, 0));
        found.conf_env = Some("MALLOC_CONF".to_owned());
        found.built_in = Some("dirty_decay_ms:-1".to_owned());
        assert_eq!(
            judge_in_environment(judge_jemalloc, &found, &[]).status,
            Some(FindingStatus::Ok)
        );
        let env = [("MALLOC_CONF", "dirty_decay_ms:1000")];
        assert_eq!(
            judge_in_environment(judge_jemalloc, &found, &env).status,
            Some(FindingStatus::Hazard)
        );
        found.version = None;
        assert_eq!(
            judge_in_environment(judge_jemalloc, &found, &[]).status,
            Some(FindingStatus::Unknown)
        );
    }
}
