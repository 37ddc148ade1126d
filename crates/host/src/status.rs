//! `/proc/PID/status`: who a process is, for others and for itself (proc_pid_status(5)).

/// The fields of `/proc/PID/status` that quell uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The process that the thread belongs to, as this /proc numbers them.
    pub tgid: u32,
    /// Its number in the innermost PID namespace: the number that `getpid` tells the process itself.
    pub own_pid: u32,
    /// Its real user.
    pub uid: u32,
    /// The user whose rights it has.
    pub euid: u32,
}

/// Parses the text of a `status` file; `None` where something is missing.
#[must_use]
pub fn parse_status(text: &[u8]) -> Option<Status> {
    // the name is escaped (proc_task_name), so that it can't begin a line of its own
    let field = |name: &[u8]| {
        let value = text
            .split(|b| *b == b'\n')
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(b":"))?;
        Some(std::str::from_utf8(value).ok()?.split_ascii_whitespace())
    };
    // outermost first; kernels without PID namespaces know one number only
    let mut pids = field(b"NStgid").or_else(|| field(b"Tgid"))?;
    let (tgid, own) = (pids.clone().next()?, pids.next_back()?);
    let mut uids = field(b"Uid")?;
    Some(Status {
        tgid: tgid.parse().ok()?,
        own_pid: own.parse().ok()?,
        uid: uids.next()?.parse().ok()?,
        euid: uids.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "Name:\ta\\nUid:\t0\nUmask:\t0022\nTgid:\t4711\nNgid:\t0\nPid:\t4711\n\
        Uid:\t100000\t100033\t100000\t100000\nGid:\t0\t0\t0\t0\nNStgid:\t4711\t33\t7\nNSpid:\t4711\t33\t7\n";

    /// Check that the innermost number and both users are read.
    #[test]
    fn reads_fields() {
        let status = parse_status(TEXT.as_bytes()).unwrap();
        assert_eq!(
            (status.tgid, status.own_pid, status.uid, status.euid),
            (4711, 7, 100_000, 100_033)
        );
        let old: String = TEXT
            .lines()
            .filter(|l| !l.starts_with("NS"))
            .map(|l| format!("{l}\n"))
            .collect();
        assert_eq!(parse_status(old.as_bytes()).unwrap().own_pid, 4711);
    }

    /// Check that this process finds itself.
    #[test]
    fn reads_own() {
        let status = parse_status(&std::fs::read("/proc/self/status").unwrap()).unwrap();
        assert_eq!(status.own_pid, std::process::id());
    }

    proptest! {
        /// Check that no bytes make the parser panic.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_status(&bytes);
        }

        /// Check that any numbers are read as written, in any depth of namespaces.
        #[test]
        fn any_numbers(pids in proptest::collection::vec(1u32.., 1..32), uid: u32, euid: u32) {
            let list: String = pids.iter().map(|p| format!("\t{p}")).collect();
            let text = format!("Uid:\t{uid}\t{euid}\t0\t0\nNStgid:{list}\n");
            let expected = Status { tgid: pids[0], own_pid: *pids.last().unwrap(), uid, euid };
            prop_assert_eq!(parse_status(text.as_bytes()), Some(expected));
        }

        /// Check that a real text with one byte changed and cut anywhere is read without panic.
        #[test]
        fn damaged(at in 0..TEXT.len(), byte: u8, cut in 0..TEXT.len()) {
            let mut text = TEXT.as_bytes().to_vec();
            text[at] = byte;
            let _ = parse_status(&text[..cut]);
        }
    }
}
