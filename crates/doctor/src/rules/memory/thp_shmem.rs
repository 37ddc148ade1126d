//! SYS-THP-SHMEM: huge pages for shared memory.

use quell_event::Cause;

use super::common::{self, THP_SHMEM};
use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const MOUNTS: &str = "/proc/self/mounts";

pub(super) const RULE: Rule = Rule {
    id: "SYS-THP-SHMEM",
    title: "huge pages for shared memory",
    severity: Severity::Medium,
    why: "khugepaged collapses the pages of shared rings and segments, and holes and truncation split them: a \
          shootdown in every process that maps them.",
    risk: "Large shared segments take more misses of the TLB: give them hugetlbfs instead.",
    source: "kernel Documentation/admin-guide/mm/transhuge.rst, shmem_enabled; \
             Documentation/filesystems/tmpfs.rst, huge=",
    causes: &[Cause::ThpCollapse, Cause::ThpSplit],
    check: Check::System(check),
};

// 'advise' gives them to those who ask by madvise(2), which is that program's choice as in SYS-THP; a size that
// inherits has the setting for all; a tmpfs that is mounted, such as /dev/shm, has its own (mm/shmem.c)
fn check(look: &Look<'_>) -> Checked {
    let (top, read) = look.read(THP_SHMEM);
    let (mounts, sizes) = (look.file(MOUNTS), common::sizes(look, "shmem_enabled"));
    let mut reads = vec![read];
    let mut values = vec![(THP_SHMEM.to_owned(), top.clone())];
    for size in sizes {
        reads.push(size.read);
        values.push((size.path, size.value));
    }
    let (mut said, mut fixes, mut unread) = (Vec::new(), Vec::new(), false);
    for (path, value) in values {
        match (value.chosen(), &value) {
            (Some(set @ ("always" | "within_size" | "force")), _) => {
                said.push(format!("{path} is {set}"));
                fixes.push(Fix::write(path, "never"));
            }
            (Some("advise" | "never" | "deny" | "inherit"), _) | (None, Value::Absent) => {}
            _ => unread = true,
        }
    }
    // both of these overrule the mounts
    if !matches!(top.chosen(), Some("deny" | "force")) && top != Value::Absent {
        unread |= matches!(mounts, Value::Refused(_));
        for (folder, option) in huge_mounts(mounts.text().unwrap_or_default()) {
            said.push(format!("{folder} is mounted with {option}"));
            reads.push(Read::new(format!("{MOUNTS} {folder}"), option));
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
        fixes
            .into_iter()
            .fold(Checked::hazard(said.join("; ")), Checked::fix)
    } else if unread {
        Checked::unknown("the setting can't be read")
    } else if top == Value::Absent {
        Checked::ok("this kernel has none")
    } else {
        Checked::ok("given to nobody who does not ask")
    };
    checked.read(reads).grows(&["thp_file_alloc"])
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
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const OFF: (&str, &str) = (THP_SHMEM, "always within_size advise [never] deny force");
    const SIZE: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/shmem_enabled";

    /// Check that what gives huge pages to all is a hazard, for all sizes or one, and what asks is none.
    #[test]
    fn given_to_all_is_a_hazard() {
        assert_hazard(
            &ask(
                &RULE,
                &[(THP_SHMEM, "always [within_size] advise never deny force")],
            ),
            "echo never > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/shmem_enabled - - - - never",
        );
        assert_hazard(
            &ask(
                &RULE,
                &[OFF, (SIZE, "[always] inherit within_size advise never")],
            ),
            "echo never > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/shmem_enabled",
            "tmpfiles.d: w /sys/kernel/mm/transparent_hugepage/hugepages-64kB/shmem_enabled - - - - never",
        );
        let inherits = (SIZE, "always [inherit] within_size advise never");
        assert_eq!(status(&RULE, &[OFF, inherits]), Status::Ok);
        let asked = (THP_SHMEM, "always within_size [advise] never deny force");
        assert_eq!(status(&RULE, &[asked]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(THP_SHMEM, "garbage")]), Status::Unknown);
    }

    /// Check that a tmpfs that gives huge pages is one too, unless the setting for all overrules it.
    #[test]
    fn mounts_count() {
        let mounts = (
            MOUNTS,
            "tmpfs /dev/shm tmpfs rw,huge=always 0 0\ntmpfs /run tmpfs rw 0 0",
        );
        assert_hazard(
            &ask(&RULE, &[OFF, mounts]),
            "mount -o remount,huge=never '/dev/shm'",
            "/etc/fstab: huge=never for /dev/shm",
        );
        let deny = (THP_SHMEM, "always within_size advise never [deny] force");
        assert_eq!(status(&RULE, &[deny, mounts]), Status::Ok);
    }
}
