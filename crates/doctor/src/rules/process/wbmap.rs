//! PROC-WBMAP: the process writes to mapped files that a disk lies behind.

use quell_event::Cause;

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::process::{ForeignMap, Process};
use crate::rule::{Check, Checked, Rule};

use super::common::UNREADABLE;

pub(super) const RULE: Rule = Rule {
    id: "PROC-WBMAP",
    title: "writable mapping of a file on a disk",
    severity: Severity::Critical,
    why: "To write a dirty page to the disk the kernel write-protects it, a shootdown, and a write to it \
          meanwhile waits for the disk.",
    risk: "What lies in memory only is gone when the machine stops.",
    source: "rigtorp.se/virtual-memory; github.com/bitcharmer/tlb_shootdowns; mm/page-writeback.c folio_mkclean",
    causes: &[Cause::Writeback],
    check: Check::Process(check),
};

/// Files that are named.
const NAMED: usize = 5;

fn check(_: &Look<'_>, process: &Process) -> Checked {
    let path = process.path("maps");
    match process.foreign_maps() {
        Some(maps) => judge(path, maps),
        None => Checked::unknown(UNREADABLE).read([Read::new(path, "(not readable)")]),
    }
}

fn judge(path: String, mut maps: Vec<ForeignMap>) -> Checked {
    // PROC-HSPERF's
    maps.retain(|m| !m.is_of_java());
    let on_disk: Vec<String> = maps
        .iter()
        .filter(|m| m.written_back == Some(true))
        .map(|m| m.path.display().to_string())
        .collect();
    let unasked = maps.iter().filter(|m| m.written_back.is_none()).count();
    let shown = on_disk
        .iter()
        .take(NAMED)
        .map(|p| Read::new(path.clone(), format!("rw-s {p}")));
    if !on_disk.is_empty() {
        return Checked::hazard(format!(
            "{} writable shared mappings of files that are written back",
            on_disk.len()
        ))
        .read(shown)
        .fix(Fix::Advice(
            "program: put the file on tmpfs (/dev/shm), or use a memfd or anonymous memory"
                .to_owned(),
        ));
    }
    if unasked > 0 {
        return Checked::unknown(format!(
            "the file system of {unasked} mappings can't be asked (CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH)"
        ))
        .read([Read::new(path, format!("{unasked} writable shared mappings of files"))]);
    }
    Checked::ok("no writable shared mapping of a file on a disk").read([Read::new(
        path,
        format!("{} writable shared mappings of files", maps.len()),
    )])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::ask;

    const WRITABLE: &str = "7f0000000000-7f0000001000 rw-s 00000000 08:01 12 /var/lib/ring";

    /// Check that a file on a disk is a hazard, and the counters of a Java virtual machine are left to their rule.
    #[test]
    fn files_on_a_disk() {
        let map = |path: &str| ForeignMap {
            path: path.into(),
            written_back: Some(true),
        };
        let of = |maps| judge("/proc/1/maps".to_owned(), maps);
        let java = || map("/tmp/hsperfdata_a/1");
        assert_eq!(of(vec![java()]).status, Some(Status::Ok));
        let both = of(vec![java(), map("/var/lib/ring")]);
        assert_eq!(both.status, Some(Status::Hazard));
        assert!(both.said.starts_with("1 writable"), "{}", both.said);
    }

    /// Check that a mapping whose file system can't be asked is unknown, and private ones don't matter.
    #[test]
    fn what_cannot_be_asked_is_unknown() {
        let found = ask(&RULE, &[("PID/maps", WRITABLE)]);
        assert_eq!(found.status, Status::Unknown);
        let private = WRITABLE.replace("rw-s", "rw-p");
        assert_eq!(ask(&RULE, &[("PID/maps", &private)]).status, Status::Ok);
        assert_eq!(ask(&RULE, &[]).status, Status::Unknown);
    }
}
