//! ALLOC-GLIBC: glibc's malloc gives memory back.

use crate::rules::prelude::*;

use super::common::{self, AllocatorInputs, StartEnvironment};

pub(super) const ALLOC_GLIBC: AuditRule = AuditRule {
    id: "ALLOC-GLIBC",
    title: "glibc's malloc gives memory back",
    severity: Severity::Medium,
    why: "free() of a large block is a munmap, and when the top of a heap is free it is cut off: shootdowns on \
          every CPU of the program, and page faults when the memory is asked for again.",
    risk: "Freed memory stays with the program: 19 % more under churn, 54 % with blocks of 1 to 64 MB, measured.",
    source: "github.com/bitcharmer/tlb_shootdowns; johnnysswlab.com; man mallopt(3); glibc manual, Memory \
             Allocation Tunables",
    causes: &[Cause::Munmap, Cause::MadviseDontneed, Cause::Brk],
    check: RuleCheck::Process(check_alloc_glibc),
};

/// A larger threshold keeps all blocks that matter.
const MIN_LARGE_BYTES: u64 = 1 << 30;

fn check_alloc_glibc(_: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    // asked first: it holds whatever the environment says, and where that can't be read
    let all = process.recognised_software().ok();
    let replaced = all.and_then(|all| malloc_replaced(process.proc_path("maps"), &all.found));
    replaced
        .unwrap_or_else(|| common::judge_allocators(process, &[SoftwareKind::Glibc], judge_glibc))
}

fn malloc_replaced(maps: String, all: &[FoundSoftware]) -> Option<CheckResult> {
    let other = all.iter().find(|f| f.replaces_malloc)?;
    let said = format!("{} takes the place of its malloc", other.kind);
    Some(CheckResult::ok(said).with_reads([FileReading::new(maps, other.to_string())]))
}

fn judge_glibc(found: &FoundSoftware, seen: &AllocatorInputs<'_>) -> CheckResult {
    if found.version.is_none() {
        return CheckResult::unknown(format!("how old {found} is can't be told"));
    }
    let whole = |name: &str| {
        let value = (seen.env)(name)?;
        Some(if name == "GLIBC_TUNABLES" && found.at_least(2, 39, 0) {
            readable_tunables(&value)
        } else {
            value
        })
    };
    let set = |tunable, alias| malloc_setting(&whole, found, tunable, alias);
    let threshold = set("mmap_threshold", "MALLOC_MMAP_THRESHOLD_");
    let most = set("mmap_max", "MALLOC_MMAP_MAX_");
    let trim = set("trim_threshold", "MALLOC_TRIM_THRESHOLD_");
    let pad = set("top_pad", "MALLOC_TOP_PAD_");
    // up to 2.34 a threshold over 32 MB is ignored (malloc.c, do_set_mmap_threshold)
    let large = |n: Option<u64>| n.is_some_and(|n| n >= MIN_LARGE_BYTES);
    let mapped = most != Some(0) && !(large(threshold) && found.at_least(2, 35, 0));
    let trimmed = !large(trim);
    let any = [threshold, most, trim, pad].iter().any(Option::is_some);
    let checked = match (mapped, trimmed) {
        (false, false) => CheckResult::ok("it keeps what is freed"),
        // each of the four switches the threshold off that would grow with use (malloc.c, no_dyn_threshold)
        (true, _) if any => CheckResult::hazard(
            "large blocks are mapped one by one, with a threshold that no longer grows: worse than its defaults",
        )
        .with_severity(Severity::High),
        (true, _) => CheckResult::hazard("its defaults: large blocks are mapped one by one, heaps are trimmed"),
        (false, true) => CheckResult::hazard("heaps are trimmed"),
    };
    let reads = [
        "GLIBC_TUNABLES",
        "MALLOC_TRIM_THRESHOLD_",
        "MALLOC_MMAP_MAX_",
    ];
    let reads = reads.map(|name| common::read_variable(seen.env, name).1);
    let checked = checked.with_reads(reads);
    if !mapped && !trimmed {
        return checked;
    }
    common::with_remedy(checked, found, &whole)
        .with_note("what the program sets by mallopt() can't be seen from outside")
}

/// A setting of malloc, by its tunable or the older variable. Tunables came with 2.26.
fn malloc_setting(
    env: &StartEnvironment<'_>,
    found: &FoundSoftware,
    tunable: &str,
    alias: &str,
) -> Option<u64> {
    let tunables = env("GLIBC_TUNABLES").filter(|_| !found.is_below(2, 26, 0));
    let tunables = tunables.unwrap_or_default();
    let own = |t: &str| {
        let value = t.strip_prefix("glibc.malloc.")?.strip_prefix(tunable)?;
        parse_c_number(value.strip_prefix('=')?)
    };
    let set = tunables.split(':').rev().find_map(own);
    set.or_else(|| parse_c_number(&env(alias)?))
}

/// From 2.39 on, a value with a second '=', or an end without one, makes ld.so ignore all of it
/// (elf/dl-tunables.c, parse_tunables_string): the text that it reads, which is nothing or all.
fn readable_tunables(tunables: &str) -> String {
    let twice = |t: &str| t.matches('=').count() > 1;
    let last = tunables.rsplit(':').next().unwrap_or_default();
    let cut = !last.is_empty() && !last.contains('=');
    if cut || tunables.split(':').any(twice) {
        return String::new();
    }
    tunables.to_owned()
}

/// As C reads it: decimal, 0x… or 0…; -1 is the largest.
fn parse_c_number(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
        _ => text
            .parse()
            .ok()
            .or_else(|| text.parse::<i64>().ok().map(|n| n as u64)),
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

    const TUNABLES: &str = "GLIBC_TUNABLES";
    const KEPT: &str = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296:\
                        glibc.malloc.top_pad=67108864";

    fn with(version: (u32, u32, u32), env: &[(&str, &str)]) -> CheckResult {
        judge_in_environment(
            judge_glibc,
            &allocator_of_version(SoftwareKind::Glibc, version),
            env,
        )
    }

    /// Check a real recognition, of a static program: the defaults are a hazard with quell's own remedy.
    #[test]
    fn defaults_are_a_hazard() {
        let constants =
            "\0malloc(): corrupted top size\0free(): invalid pointer\0glibc.malloc.hugetlb\0";
        let found = ask_about_program(&ALLOC_GLIBC, "app", constants, "A=b\0", "app\0");
        assert_hazard(&found, "", &format!("environment: GLIBC_TUNABLES={KEPT}"));
        assert_eq!(found.severity, Severity::Medium);
        let kept = format!("GLIBC_TUNABLES={KEPT}\0");
        let found = ask_about_program(&ALLOC_GLIBC, "app", constants, &kept, "app\0");
        assert_eq!(found.status, FindingStatus::Ok);
        assert_eq!(
            ask_about_program(&ALLOC_GLIBC, "app", "", "A=b\0", "app\0").status,
            FindingStatus::Ok
        );
    }

    /// Check that one setting alone is worse than none, and that a threshold that an old glibc ignores is no help.
    #[test]
    fn half_is_worse() {
        let half = [(TUNABLES, "glibc.malloc.trim_threshold=4294967296")];
        let checked = with((2, 36, 0), &half);
        assert_eq!(
            (checked.status, checked.severity),
            (Some(FindingStatus::Hazard), Some(Severity::High))
        );
        assert_eq!(
            with((2, 36, 0), &[(TUNABLES, KEPT)]).status,
            Some(FindingStatus::Ok)
        );
        assert_eq!(
            with((2, 31, 0), &[(TUNABLES, KEPT)]).status,
            Some(FindingStatus::Hazard)
        );
        let old = [("MALLOC_MMAP_MAX_", "0"), ("MALLOC_TRIM_THRESHOLD_", "-1")];
        assert_eq!(with((2, 17, 0), &old).status, Some(FindingStatus::Ok));
        assert_eq!(
            with((2, 17, 0), &[(TUNABLES, KEPT)]).status,
            Some(FindingStatus::Hazard)
        );
    }

    /// Check that a string that glibc 2.39 ignores as a whole counts for nothing there.
    #[test]
    fn malformed_is_ignored() {
        let bad = format!("{KEPT}:glibc.malloc.check");
        let env = [(TUNABLES, &bad[..])];
        assert_eq!(with((2, 38, 0), &env).status, Some(FindingStatus::Ok));
        let new = with((2, 39, 0), &env);
        assert_eq!(new.status, Some(FindingStatus::Hazard));
        assert_eq!(new.fixes, [Fix::set_variable(TUNABLES, KEPT)]);
        assert_eq!(readable_tunables("a=b=c"), "");
        assert_eq!(readable_tunables("a:b=c:"), "a:b=c:");
    }

    /// Check that an allocator that takes malloc's place makes glibc's a bystander, and one beside it doesn't.
    #[test]
    fn another_takes_its_place() {
        let mut other = allocator_of_version(SoftwareKind::Jemalloc, (5, 3, 0));
        assert_eq!(malloc_replaced("maps".to_owned(), &[other.clone()]), None);
        other.replaces_malloc = true;
        let checked = malloc_replaced("maps".to_owned(), &[other]).unwrap();
        assert_eq!(checked.status, Some(FindingStatus::Ok));
    }

    /// Check that numbers are read as C reads them.
    #[test]
    fn numbers() {
        let all = ["10", "0x10", "010", "0", "-1", "x"].map(parse_c_number);
        assert_eq!(
            all,
            [Some(10), Some(16), Some(8), Some(0), Some(u64::MAX), None]
        );
    }
}
