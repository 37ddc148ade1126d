//! The limits of the memory that the process maps, whether anything is in it or not.

use super::file::{File, field_value, leading_number};
use super::{nr, syscall};
use crate::PAGE;

/// Resources of getrlimit(2).
const RLIMIT_DATA: usize = 2;
const RLIMIT_AS: usize = 9;
const RLIM_INFINITY: u64 = u64::MAX;
/// Of /proc/sys/vm/overcommit_memory: mapped memory is promised, and there are no more promises than memory.
const OVERCOMMIT_NEVER: u64 = 2;

/// A limit, and how much of it is used, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappingLimit {
    limit: u64,
    used: u64,
}

impl MappingLimit {
    /// Whether the use is within a sixteenth of the limit.
    fn is_close(&self) -> bool {
        self.used > self.limit - self.limit / 16
    }
}

/// The lowest limit in bytes; none if there is none that can be told.
pub(super) fn lowest_limit() -> Option<usize> {
    let lowest = all_limits().into_iter().flatten().map(|b| b.limit).min()?;
    Some(usize::try_from(lowest).unwrap_or(usize::MAX))
}

/// Whether one of them is nearly used up.
pub(super) fn is_close() -> bool {
    all_limits().into_iter().flatten().any(|b| b.is_close())
}

/// The limits of addresses, of data and of the machine's promises, those of them that are set.
fn all_limits() -> [Option<MappingLimit>; 3] {
    let (addresses, data) = (soft_limit(RLIMIT_AS), soft_limit(RLIMIT_DATA));
    let mut bounds = [None; 3];
    if addresses.is_some() || data.is_some() {
        let mut buffer = [0; 128];
        let statm = File::named(b"/proc/self/statm\0").read_start(&mut buffer);
        let used = statm.and_then(in_use).unwrap_or([0; 2]);
        let bound = |limit: Option<u64>, used| limit.map(|limit| MappingLimit { limit, used });
        bounds = [bound(addresses, used[0]), bound(data, used[1]), None];
    }
    let overcommit = File::named(b"/proc/sys/vm/overcommit_memory\0").read_number();
    if overcommit == Some(OVERCOMMIT_NEVER) {
        let mut found = CommitLines::default();
        bounds[2] = File::named(b"/proc/meminfo\0").find_line(|line| found.read_line(line));
    }
    bounds
}

/// None where there is no such limit, or where that can't be told.
fn soft_limit(resource: usize) -> Option<u64> {
    let mut limits = [RLIM_INFINITY; 2];
    let args = [0, resource, 0, (&raw mut limits) as usize, 0, 0];
    // SAFETY: prlimit(2) of this process, which only writes the two limits.
    unsafe { syscall(nr::PRLIMIT64, args) }.ok()?;
    (limits[0] != RLIM_INFINITY).then_some(limits[0])
}

/// All mapped memory, and the private and writable part of it, from proc_pid_statm(5): the first and the sixth number,
/// in pages.
fn in_use(statm: &[u8]) -> Option<[u64; 2]> {
    let mut fields = statm.split(|b| *b == b' ');
    let all = leading_number(fields.next()?)?;
    let data = leading_number(fields.nth(4)?)?;
    Some([all, data].map(|pages| pages * PAGE as u64))
}

/// The machine's promises, from two lines of proc_meminfo(5), in KB.
#[derive(Default)]
struct CommitLines {
    limit: Option<u64>,
    used: Option<u64>,
}

impl CommitLines {
    /// Takes a line; the whole when there are both.
    fn read_line(&mut self, line: &[u8]) -> Option<MappingLimit> {
        self.limit = self.limit.or_else(|| field_value(line, b"CommitLimit"));
        self.used = self.used.or_else(|| field_value(line, b"Committed_AS"));
        Some(MappingLimit {
            limit: self.limit? * 1024,
            used: self.used? * 1024,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that both files are read as the kernel writes them, and that what is cut off is none.
    #[test]
    fn texts() {
        let page = PAGE as u64;
        assert_eq!(
            in_use(b"1418 482 354 5 0 120 0\n"),
            Some([1418 * page, 120 * page])
        );
        assert_eq!(in_use(b"1418 482 354 5 0"), None);
        assert_eq!(in_use(b""), None);
        let mut found = CommitLines::default();
        let lines: [&[u8]; 4] = [
            b"Buffers:          1024 kB",
            b"CommitLimit:    12341828 kB",
            b"Committed_AS:     270240 kB",
            b"VmallocTotal:   34359738367 kB",
        ];
        let bound = MappingLimit {
            limit: 12_341_828 * 1024,
            used: 270_240 * 1024,
        };
        assert_eq!(lines.iter().find_map(|l| found.read_line(l)), Some(bound));
        assert!(!bound.is_close());
        let used = 12_000_000 * 1024;
        assert!(MappingLimit { used, ..bound }.is_close());
    }

    /// Check against the C library that a limit is read, and on this machine's files that what is used is more
    /// than nothing.
    #[test]
    fn real() {
        let mut own = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        for resource in [RLIMIT_DATA, RLIMIT_AS, 7] {
            // SAFETY: getrlimit(2) into our own place.
            assert_eq!(unsafe { libc::getrlimit(resource as u32, &raw mut own) }, 0);
            assert_eq!(soft_limit(resource).unwrap_or(RLIM_INFINITY), own.rlim_cur);
        }
        assert_eq!(soft_limit(1000), None);
        let mut buffer = [0; 128];
        let statm = File::named(b"/proc/self/statm\0")
            .read_start(&mut buffer)
            .unwrap();
        let [all, data] = in_use(statm).unwrap();
        assert!(data > 0 && data < all);
        let mut found = CommitLines::default();
        let machine = File::named(b"/proc/meminfo\0").find_line(|line| found.read_line(line));
        assert!(machine.unwrap().used > 0);
    }
}
