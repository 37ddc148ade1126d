//! PROC-LAZYFREE: memory that the process gave back, and that is taken when somebody needs it.

use crate::rules::prelude::*;

use super::common;
use super::jemalloc_conf;

pub(super) const PROC_LAZYFREE: AuditRule = AuditRule {
    id: "PROC-LAZYFREE",
    title: "freed memory that waits to be taken",
    severity: Severity::Medium,
    why: "madvise(MADV_FREE) is a shootdown, and when memory is short the pages are taken with another one; \
          whoever uses them after that takes page faults.",
    risk: "Freed memory stays with the program.",
    source: "rigtorp.se/virtual-memory; man madvise(2); mm/madvise.c madvise_free_pte_range",
    causes: &[Cause::MadviseFree],
    check: RuleCheck::Process(check_proc_lazyfree),
};

fn check_proc_lazyfree(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    let (lazy, read) = process.rollup_bytes("LazyFree");
    let checked = match lazy {
        Some(0) => CheckResult::ok("none"),
        Some(bytes) => {
            let said = format!("{} kB were given back and not taken yet", bytes >> 10);
            let mut checked = CheckResult::hazard(said);
            // jemalloc does so with pages that were unused for dirty_decay_ms; others only where they are told to
            let knobs =
                common::judge_allocators(process, &[SoftwareKind::Jemalloc], |found, seen| {
                    jemalloc_conf::with_wanted_conf(CheckResult::hazard(""), found, seen)
                });
            checked.fixes.extend(knobs.fixes);
            checked.with_advice(
                "program: don't call madvise(MADV_FREE) while others work, and see the ALLOC-* rules for its \
                 allocator",
            )
        }
        None => {
            CheckResult::unknown("what it gave back can't be read (CAP_SYS_PTRACE or CAP_PERFMON)")
        }
    };
    checked
        .with_reads([read])
        .with_harm_counters(&["pglazyfree", "pglazyfreed"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};
    use crate::rules::process::common::made::{REDIS_JEMALLOC, elf_program};

    const SOME: (&str, &str) = ("PID/smaps_rollup", "LazyFree:            64 kB");
    const ADVICE: &str = "program: don't call madvise(MADV_FREE) while others work, and see the ALLOC-* rules for its \
                          allocator";

    /// Check that memory given back is a hazard, that none is fine, and that a kernel that doesn't say is unknown.
    #[test]
    fn given_back_is_a_hazard() {
        let found = ask_rule_on(&PROC_LAZYFREE, &[SOME]);
        assert_hazard(&found, "", ADVICE);
        assert_eq!(found.said, "64 kB were given back and not taken yet");
        let none = [("PID/smaps_rollup", "LazyFree:             0 kB")];
        assert_eq!(status_on(&PROC_LAZYFREE, &none), FindingStatus::Ok);
        assert_eq!(
            status_on(&PROC_LAZYFREE, &[("PID/smaps_rollup", "Rss: 5 kB")]),
            FindingStatus::Unknown
        );
        assert_eq!(status_on(&PROC_LAZYFREE, &[]), FindingStatus::Unknown);
    }

    /// Check that a jemalloc in it is told to keep memory.
    #[test]
    fn jemalloc_is_told() {
        let files = [
            SOME,
            ("PID/maps", "400000-401000 r-xp 00000000 fe:00 5 /opt/app"),
            ("/opt/app", &elf_program(REDIS_JEMALLOC)),
            ("PID/environ", "A=b\0"),
        ];
        let lasting = ask_rule_on(&PROC_LAZYFREE, &files).fix_lasting();
        let first = lasting.lines().next().unwrap();
        assert!(
            first.starts_with("environment: JE_MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1"),
            "{first}"
        );
    }
}
