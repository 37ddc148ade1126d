//! SYS-WB: much dirty memory gathers before it is written.

use quell_event::Cause;

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::rule::{Check, Checked, Rule};

const BACKGROUND: &str = "vm.dirty_background_ratio";
const RATIO: &str = "vm.dirty_ratio";
const BYTES: &str = "vm.dirty_bytes";
/// Where programs are throttled. The kernel begins to write at half of it at the latest (mm/page-writeback.c,
/// domain_dirty_limits), so the other limit can stay a share. That one in bytes could not be taken back: it takes no
/// 0, and to write the share zeroes it (dirty_background_ratio_handler).
const WANTED: &str = "536870912";
/// The kernel's shares by default, of what is available.
const DEFAULTS: [(&str, i64); 2] = [(BACKGROUND, 10), (RATIO, 20)];

pub(super) const RULE: Rule = Rule {
    id: "SYS-WB",
    title: "limits of dirty memory",
    severity: Severity::Medium,
    why: "To write a mapped file's dirty pages the kernel write-protects each, a shootdown, and writers of a page \
          wait for the disk: where a share of memory may be dirty, many GB are written in one go.",
    risk: "Data is written sooner and in smaller parts; programs that write much reach the limit sooner and are \
           throttled.",
    source: "kernel Documentation/admin-guide/sysctl/vm.rst, dirty_bytes; LUF patch series; \
             rigtorp.se/virtual-memory",
    causes: &[Cause::Writeback],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (mut reads, mut fixes, mut wide, mut unread) = (Vec::new(), Vec::new(), Vec::new(), false);
    for (name, default) in DEFAULTS {
        let (ratio, read) = look.read(&file(name));
        reads.push(read);
        match ratio.number() {
            // 0 where the limit is one in bytes
            Some(n) if n >= default => {
                wide.push(format!("{name} is {n} %"));
                fixes.extend(narrower(name));
            }
            Some(_) => {}
            // every kernel has them
            None => unread = true,
        }
    }
    let (written, by) = written(look);
    reads.extend(by);
    let checked = match written {
        _ if wide.is_empty() && unread => Checked::unknown("the limits can't be read"),
        _ if wide.is_empty() => Checked::ok("limited in bytes, or to less than by default"),
        Some(true) => fixes.into_iter().fold(
            Checked::hazard(format!(
                "{}, and mapped files are written back",
                wide.join(", ")
            )),
            Checked::fix,
        ),
        Some(false) => Checked::ok("the process writes to no mapped file of a disk"),
        None => Checked::unknown(
            "whether a program writes to mapped files of a disk is not known (--pid)",
        ),
    };
    checked.read(reads)
}

fn narrower(name: &str) -> Vec<Fix> {
    if name == BACKGROUND {
        return vec![Fix::sysctl(BACKGROUND, "1")];
    }
    // The share is 0 as soon as there are bytes, and to write 0 again changes nothing. It is here so that undo writes
    // the share that was, which sets the bytes back to 0 (dirty_ratio_handler).
    vec![Fix::sysctl(BYTES, WANTED), Fix::sysctl(RATIO, "0")]
}

/// Whether dirty pages of mapped files are written back: seen to be, or those of the process may be.
fn written(look: &Look<'_>) -> (Option<bool>, Option<Read>) {
    let seen = look
        .evidence()
        .shootdowns(&[Cause::Writeback])
        .filter(|&n| n > 0);
    if let Some(n) = seen {
        let read = Read::new("shootdowns by writeback", n.to_string());
        return (Some(true), Some(read));
    }
    let Some(process) = look.process() else {
        return (None, None);
    };
    let path = process.path("maps");
    let Some(maps) = process.foreign_maps() else {
        return (None, Some(Read::new(path, "(not readable)")));
    };
    let on_disk = maps.iter().filter(|m| m.written_back == Some(true)).count();
    let unasked = maps.iter().any(|m| m.written_back.is_none());
    let read = Read::new(
        path,
        format!("{on_disk} writable shared mappings of files on a disk"),
    );
    let written = if on_disk > 0 {
        Some(true)
    } else if unasked {
        None
    } else {
        Some(false)
    };
    (written, Some(read))
}

fn file(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;
    use crate::finding::Status;
    use crate::rules::fixture::{ask_with, assert_hazard, status};

    const BACK: &str = "/proc/sys/vm/dirty_background_ratio";
    const ALL: &str = "/proc/sys/vm/dirty_ratio";

    fn written() -> Evidence {
        Evidence {
            seen: "in t.quell".to_owned(),
            causes: Some([(Cause::Writeback, 5)].into()),
            ..Evidence::default()
        }
    }

    /// Check that the defaults are a hazard where mapped files were written back, and limits in bytes are none.
    #[test]
    fn the_default_is_a_hazard() {
        assert_hazard(
            &ask_with(&RULE, &[(BACK, "10"), (ALL, "20")], &written()),
            "sysctl -w vm.dirty_background_ratio=1\nsysctl -w vm.dirty_bytes=536870912\n\
             sysctl -w vm.dirty_ratio=0",
            "sysctl.d: vm.dirty_background_ratio = 1\nsysctl.d: vm.dirty_bytes = 536870912\n\
             sysctl.d: vm.dirty_ratio = 0",
        );
        let after = [(BACK, "1"), (ALL, "0")];
        assert_eq!(ask_with(&RULE, &after, &written()).status, Status::Ok);
        let bytes = ask_with(&RULE, &[(BACK, "0"), (ALL, "0")], &written());
        assert_eq!(bytes.status, Status::Ok);
        assert_eq!(
            ask_with(&RULE, &[(ALL, "x")], &written()).status,
            Status::Unknown
        );
    }

    /// Check that it depends on the process, and is unknown without one.
    #[test]
    fn the_process_matters() {
        let files = [(BACK, "10"), (ALL, "20")];
        assert_eq!(status(&RULE, &files), Status::Unknown);
        let rule = Rule {
            check: Check::Process(|look, _| check(look)),
            ..RULE
        };
        let with = |maps| status(&rule, &[files[0], files[1], ("PID/maps", maps)]);
        assert_eq!(
            with("7f0000000000-7f0000001000 rw-p 00000000 08:01 12 /x"),
            Status::Ok
        );
        assert_eq!(
            with("7f0000000000-7f0000001000 rw-s 00000000 08:01 12 /x"),
            Status::Unknown
        );
        assert_eq!(status(&rule, &files), Status::Unknown);
    }
}
