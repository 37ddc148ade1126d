//! SYS-THP-SHMEM: huge pages for shared memory.

use crate::rules::prelude::*;

use super::common::{self, THP_SHMEM_FILE};

const MOUNTS_FILE: &str = "/proc/self/mounts";

pub(super) const SYS_THP_SHMEM: AuditRule = AuditRule {
    id: "SYS-THP-SHMEM",
    title: "huge pages for shared memory",
    severity: Severity::Medium,
    why: "khugepaged collapses the pages of shared rings and segments, and holes and truncation split them: a \
          shootdown in every process that maps them.",
    risk: "Large shared segments take more misses of the TLB: give them hugetlbfs instead.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst, shmem_enabled; \
             Documentation/filesystems/tmpfs.rst, huge=",
    causes: &[Cause::ThpCollapse, Cause::ThpSplit],
    check: RuleCheck::System(check_sys_thp_shmem),
};

// 'advise' gives them to those who ask by madvise(2), which is that program's choice as in SYS-THP; a size that
// inherits has the setting for all; a tmpfs that is mounted, such as /dev/shm, has its own (mm/shmem.c)
fn check_sys_thp_shmem(look: &SystemView<'_>) -> CheckResult {
    let (top, read) = look.read(THP_SHMEM_FILE);
    let (mounts, sizes) = (
        look.file(MOUNTS_FILE),
        common::thp_size_settings(look, "shmem_enabled"),
    );
    let mut reads = vec![read];
    let mut values = vec![(THP_SHMEM_FILE.to_owned(), top.clone())];
    for size in sizes {
        reads.push(size.read);
        values.push((size.path, size.value));
    }
    let (mut said, mut fixes, mut unread) = (Vec::new(), Vec::new(), false);
    for (path, value) in values {
        match (value.chosen_word(), &value) {
            (Some(set @ ("always" | "within_size" | "force")), _) => {
                said.push(format!("{path} is {set}"));
                fixes.push(Fix::set_file(path, "never"));
            }
            (Some("advise" | "never" | "deny" | "inherit"), _) | (None, FileValue::Absent) => {}
            _ => unread = true,
        }
    }
    // both of these overrule the mounts
    if !matches!(top.chosen_word(), Some("deny" | "force")) && top != FileValue::Absent {
        unread |= matches!(mounts, FileValue::Refused(_));
        for (folder, option) in huge_mounts(mounts.text().unwrap_or_default()) {
            said.push(format!("{folder} is mounted with {option}"));
            reads.push(FileReading::new(format!("{MOUNTS_FILE} {folder}"), option));
            // a name for a shell is not to have quotes in it; blanks are written \040 there (proc_pid_mounts(5))
            if !folder.contains(['\'', '\\']) {
                fixes.push(Fix::Command(format!(
                    "mount -o remount,huge=never '{folder}'"
                )));
            }
            fixes.push(Fix::Advice(format!("/etc/fstab: huge=never for {folder}")));
        }
    }
    let checked = if !said.is_empty() {
        CheckResult::hazard(said.join("; ")).with_fixes(fixes)
    } else if unread {
        CheckResult::unknown("the setting can't be read")
    } else if top == FileValue::Absent {
        CheckResult::ok("this kernel has none")
    } else {
        CheckResult::ok("given to nobody who does not ask")
    };
    checked
        .with_reads(reads)
        .with_harm_counters(&["thp_file_alloc"])
}

/// The folders where a tmpfs gives huge pages to all, and the option that says so.
fn huge_mounts(text: &str) -> Vec<(&str, &str)> {
    let of = |line| {
        let mut words = str::split_ascii_whitespace(line);
        let (_, folder, kind, options) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        let given = |o: &&str| matches!(*o, "huge=always" | "huge=within_size");
        let option = options.split(',').find(given)?;
        (kind == "tmpfs").then_some((folder, option))
    };
    text.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const OFF: (&str, &str) = (
        THP_SHMEM_FILE,
        "always within_size advise [never] deny force",
    );
    const SIZE: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/shmem_enabled";

    /// Check that what gives huge pages to all is a hazard, for all sizes or one, and what asks is none.
    #[test]
    fn given_to_all_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(
                &SYS_THP_SHMEM,
                &[(
                    THP_SHMEM_FILE,
                    "always [within_size] advise never deny force",
                )],
            ),
            "echo never > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/shmem_enabled - - - - never",
        );
        assert_hazard(
            &ask_rule_on(
                &SYS_THP_SHMEM,
                &[OFF, (SIZE, "[always] inherit within_size advise never")],
            ),
            "echo never > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/shmem_enabled",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/hugepages-64kB/shmem_enabled - - - - never",
        );
        let inherits = (SIZE, "always [inherit] within_size advise never");
        assert_eq!(
            status_on(&SYS_THP_SHMEM, &[OFF, inherits]),
            FindingStatus::Ok
        );
        let asked = (
            THP_SHMEM_FILE,
            "always within_size [advise] never deny force",
        );
        assert_eq!(status_on(&SYS_THP_SHMEM, &[asked]), FindingStatus::Ok);
        assert_eq!(status_on(&SYS_THP_SHMEM, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_THP_SHMEM, &[(THP_SHMEM_FILE, "garbage")]),
            FindingStatus::Unknown
        );
    }

    /// Check that a tmpfs that gives huge pages is one too, unless the setting for all overrules it.
    #[test]
    fn mounts_count() {
        let mounts = (
            MOUNTS_FILE,
            "tmpfs /dev/shm tmpfs rw,huge=always 0 0\ntmpfs /run tmpfs rw 0 0",
        );
        assert_hazard(
            &ask_rule_on(&SYS_THP_SHMEM, &[OFF, mounts]),
            "mount -o remount,huge=never '/dev/shm'",
            "/etc/fstab: huge=never for /dev/shm",
        );
        let deny = (
            THP_SHMEM_FILE,
            "always within_size advise never [deny] force",
        );
        assert_eq!(
            status_on(&SYS_THP_SHMEM, &[deny, mounts]),
            FindingStatus::Ok
        );
    }
}
