//! SYS-LUF: a kernel that can defer the flushes of reclaim and demotion, and doesn't.

use super::common;
use quell_event::Cause;

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const FILE: &str = "/proc/sys/vm/luf_max";
const STALE: &str = "/proc/sys/vm/luf_stale_ms";
/// Pages that a node may hold back, 4 MB: one flush for some thousand of them (kernel/luf).
const PAGES: &str = "1024";
/// Flushes that were asked for by name: a change of mappings or of a file came before the batch was full.
const FORCED: [&str; 5] = [
    "luf_flush_mm",
    "luf_flush_fault",
    "luf_flush_write",
    "luf_flush_invalidate",
    "luf_flush_undo",
];

pub(super) const RULE: Rule = Rule {
    id: "SYS-LUF",
    title: "deferred flushes (LUF)",
    severity: Severity::Low,
    why: "A kernel with LUF can hold back clean pages of mapped files that reclaim and demotion unmap, and flush once for \
          about a thousand of them; switched off it interrupts every CPU that maps them for some ten.",
    risk: "4 MB a node are held back; until they are flushed, vm.luf_stale_ms at most (100 ms unless it is set), a CPU may read a file through an \
           entry whose page is unmapped.",
    source: "quell's series for Linux 6.12, kernel/luf: Documentation/mm/luf.rst",
    causes: &[Cause::LufDeferred, Cause::LufForced],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(FILE);
    let mut reads = vec![read];
    let checked = match (value.number(), &value) {
        (Some(0), _) => {
            Checked::hazard("built in, and switched off").fix(Fix::sysctl("vm.luf_max", PAGES))
        }
        (Some(pages), _) if pages > 0 => {
            let (held, first) = common::vmstat(look, "nr_luf_held");
            let (flushes, second) = common::vmstat(look, "luf_flush");
            let (stale, third) = look.read(STALE);
            reads.extend([first, second, third]);
            let forced = FORCED.map(|name| common::vmstat(look, name).0);
            let forced: Option<u64> = forced.into_iter().sum();
            Checked::ok(on(pages, held, flushes.zip(forced), stale.number()))
        }
        (None, Value::Absent) => Checked::ok("this kernel has none"),
        _ => Checked::unknown("the setting can't be read"),
    };
    checked.read(reads)
}

/// Its state in words.
fn on(pages: i64, held: Option<u64>, flushes: Option<(u64, u64)>, stale: Option<i64>) -> String {
    let mut said = format!("on: a node holds back up to {pages} pages");
    if let Some(ms) = stale {
        said += &format!(", for {ms} ms at most");
    }
    if let Some(held) = held {
        said += &format!("; {held} now");
    }
    if let Some((all, forced)) = flushes {
        said += &format!("; {all} flushes since boot, {forced} of them forced by a change");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that a kernel with it says whether it is on, and how to switch it on; others have nothing to say.
    #[test]
    fn state_is_told() {
        assert_hazard(
            &ask(&RULE, &[(FILE, "0")]),
            "sysctl -w vm.luf_max=1024",
            "sysctl.d: vm.luf_max = 1024",
        );
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "many")]), Status::Unknown);
        let vmstat = "nr_luf_held 12\nluf_flush 900\nluf_flush_limit 800\nluf_flush_mm 60\nluf_flush_fault 30\n\
                      luf_flush_write 7\nluf_flush_invalidate 2\nluf_flush_undo 1";
        let found = ask(
            &RULE,
            &[(FILE, "1024"), (STALE, "100"), ("/proc/vmstat", vmstat)],
        );
        assert_eq!(found.status, Status::Ok);
        assert_eq!(
            found.said,
            "on: a node holds back up to 1024 pages, for 100 ms at most; 12 now; 900 flushes since boot, 100 of them \
             forced by a change"
        );
        assert_eq!(status(&RULE, &[(FILE, "1024")]), Status::Ok);
    }
}
