//! ALLOC-JE: jemalloc gives memory back after a while.

use quell_event::Cause;
use quell_remedy::{FoundSoftware, SoftwareKind};

use crate::finding::Severity;
use crate::look::Look;
use crate::process::Process;
use crate::rule::{Check, Checked, Rule};

use super::common::{self, Seen};
use super::jemalloc_conf::{Settings, given, wanted};

pub(super) const RULE: Rule = Rule {
    id: "ALLOC-JE",
    title: "jemalloc gives memory back",
    severity: Severity::High,
    why: "Pages that were free for some time are given back by madvise, whole bunches by whichever thread comes \
          by: shootdowns on every CPU of the program, and page faults when the memory is used again.",
    risk: "A program that peaks once keeps its peak.",
    source: "ByteDance 2020, jemalloc and TLB shootdown; github.com/jemalloc/jemalloc/issues/1422; jemalloc.net \
             opt.dirty_decay_ms",
    causes: &[Cause::Munmap, Cause::MadviseDontneed, Cause::MadviseFree],
    check: Check::Process(check),
};

fn check(_: &Look<'_>, process: &Process) -> Checked {
    common::each(process, &[SoftwareKind::Jemalloc], judge)
}

fn judge(found: &FoundSoftware, seen: &Seen<'_>) -> Checked {
    let read = given(found, seen).map(|(name, _)| common::variable(seen.env, &name).1);
    let Some(settings) = Settings::of(found, seen) else {
        return Checked::unknown(format!("what {found} listens to can't be told")).read(read);
    };
    if settings.keeps(found) {
        return Checked::ok("it keeps what is freed").read(read);
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
    let checked = wanted(Checked::hazard(said), found, seen)
        .read(read)
        .note("what the program sets by mallctl() can't be seen from outside");
    if !found.at_least(5, 0, 0) || settings.last("thp", |v| Some(v == "always")) == Some(true) {
        return checked;
    }
    checked.note(CALLOC)
}

/// Measured under calloc of 64 KB to 4 MB: docs/remedies.md.
const CALLOC: &str = "a program that callocs blocks of 64 KB and more may have more shootdowns with it than before \
                      (5.3.0: 1 to 606 became 1,344 to 3,591): there thp:always besides, unless it forks as it works; \
                      'quell prove' finds the plan for it";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::fix::Fix;
    use crate::rules::fixture::assert_hazard;
    use crate::rules::process::common::made::{REDIS, asked, found, judged};

    /// What quell adds for 5.2 and newer.
    const BOUNDED: &str = "oversize_threshold:65536,lg_extent_max_active_fit:16";

    fn with(version: (u32, u32, u32), conf: &str) -> Checked {
        let mut found = found(SoftwareKind::Jemalloc, version);
        found.conf_env = Some("MALLOC_CONF".to_owned());
        let env = [("MALLOC_CONF", conf)];
        judged(judge, &found, if conf.is_empty() { &[] } else { &env })
    }

    /// Check a real recognition: Redis' jemalloc is told by its own variable, and another name doesn't help.
    #[test]
    fn defaults_are_a_hazard() {
        // The file tells 5.2 from its options.
        let set = "JE_MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0";
        let found = asked(&RULE, "redis-server", REDIS, "A=b\0", "redis-server\0");
        assert_hazard(&found, "", &format!("environment: {set}"));
        assert!(found.said.contains("10000 ms"), "{}", found.said);
        let ok = asked(
            &RULE,
            "redis-server",
            REDIS,
            "JE_MALLOC_CONF=dirty_decay_ms:-1\0",
            "r\0",
        );
        assert_eq!(ok.status, Status::Ok);
        let other = "MALLOC_CONF=dirty_decay_ms:-1\0";
        let other = asked(&RULE, "redis-server", REDIS, other, "r\0");
        assert_eq!(other.status, Status::Hazard);
        assert_eq!(asked(&RULE, "app", "", "A=b\0", "a\0").status, Status::Ok);
    }

    /// Check that each line of versions is judged by its own keys.
    #[test]
    fn versions_have_their_keys() {
        let status = |version, conf| with(version, conf).status.unwrap();
        assert_eq!(status((5, 3, 0), "dirty_decay_ms:-1"), Status::Ok);
        assert_eq!(
            status((5, 3, 0), "dirty_decay_ms:-1,dirty_decay_ms:5"),
            Status::Hazard
        );
        assert_eq!(
            status((5, 3, 0), "purge:decay,decay_time:-1"),
            Status::Hazard
        );
        assert_eq!(status((4, 5, 0), "purge:decay,decay_time:-1"), Status::Ok);
        assert_eq!(status((4, 5, 0), "decay_time:-1"), Status::Hazard);
        assert_eq!(status((4, 5, 0), "dirty_decay_ms:-1"), Status::Hazard);
        assert_eq!(status((4, 0, 3), "lg_dirty_mult:-1"), Status::Ok);
        assert_eq!(status((4, 0, 3), ""), Status::Hazard);
        let old = with((4, 0, 3), "");
        assert_eq!(old.fixes, [Fix::env("MALLOC_CONF", "lg_dirty_mult:-1")]);
    }

    /// Check that what the user set besides stays, and that what is behind a blank counts for nothing.
    #[test]
    fn the_users_settings_stay() {
        let checked = with((5, 3, 0), "narenas:2,dirty_decay_ms:0");
        assert_eq!(checked.said, "freed pages are given back at once");
        let set = format!("narenas:2,dirty_decay_ms:-1,muzzy_decay_ms:-1,{BOUNDED}");
        assert_eq!(checked.fixes, [Fix::env("MALLOC_CONF", set)]);
        assert_eq!(
            with((5, 3, 0), "narenas:2, dirty_decay_ms:-1").status,
            Some(Status::Hazard)
        );
    }

    /// Check that what was built in counts, and that the environment wins.
    #[test]
    fn built_in_settings_count() {
        let mut found = found(SoftwareKind::Jemalloc, (5, 3, 0));
        found.conf_env = Some("MALLOC_CONF".to_owned());
        found.built_in = Some("dirty_decay_ms:-1".to_owned());
        assert_eq!(judged(judge, &found, &[]).status, Some(Status::Ok));
        let env = [("MALLOC_CONF", "dirty_decay_ms:1000")];
        assert_eq!(judged(judge, &found, &env).status, Some(Status::Hazard));
        found.version = None;
        assert_eq!(judged(judge, &found, &[]).status, Some(Status::Unknown));
    }
}
