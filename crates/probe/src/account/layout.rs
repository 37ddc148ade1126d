//! The records of the account's eBPF programs, as Rust reads them: the twin of `bpf/account.h`.

use crate::layout::{Pod, pod};

pod! {
    struct AccountConfig {
        began_ns: u64,
        scope: u32,
        self_tgid: u32,
        has_prev_state: u32,
        unwinds: u32,
    }
    struct HolderRecord {
        tgid: u32,
        tid: u32,
        nr: i32,
        zero: u32,
        args: [u64; 3],
        comm: [u8; 16],
        folder: [u8; 32],
        file: [u8; 32],
    }
    struct AccountSampleHead {
        kind: u32,
        tgid: u32,
        tid: u32,
        nr: i32,
        t_ns: u64,
        cpu: u32,
        kernel_frames: u16,
        user_frames: u16,
        ustack: i32,
        advice: u32,
        caller: u64,
        comm: [u8; 16],
        thread: [u8; 16],
    }
    struct WaitRecord {
        kind: u32,
        tgid: u32,
        tid: u32,
        nr: i32,
        end_ns: u64,
        ns: u64,
        kstack: i32,
        ustack: i32,
        flags: u32,
        advice: u32,
        caller: u64,
        comm: [u8; 16],
        thread: [u8; 16],
        holder: HolderRecord,
    }
    struct ThreadRecord {
        kind: u32,
        tgid: u32,
        tid: u32,
        zero: u32,
        sums: [u64; 3],
        run_ns: u64,
    }
    struct ForkRecord {
        kind: u32,
        tgid: u32,
    }
    struct ThreadClock {
        since: u64,
        sums: [u64; 3],
        exec_first: u64,
        exec_last: u64,
        state: u32,
        tgid: u32,
        is_candidate: u32,
        flags: u32,
        kstack: i32,
        ustack: i32,
        nr: i32,
        advice: u32,
        caller: u64,
        lock: u64,
        holder: HolderRecord,
    }
    struct AccountHealth {
        lost_samples: u64,
        lost_waits: u64,
        lost_wait_ns: u64,
        lost_threads: u64,
        lost_stacks: u64,
    }
}

pub(super) const ACCOUNT_SAMPLE: u32 = 1;
pub(super) const ACCOUNT_WAIT: u32 = 2;
pub(super) const ACCOUNT_THREAD: u32 = 3;
pub(super) const ACCOUNT_FORK: u32 = 4;

/// The states of a thread in [`ThreadClock::sums`].
pub(super) const THREAD_RUNS: usize = 0;
pub(super) const THREAD_READY: usize = 1;
pub(super) const THREAD_SLEEPS: usize = 2;

pub(super) const WAIT_LOCK: u32 = 1;
pub(super) const WAIT_MMAP: u32 = 2;
pub(super) const WAIT_READERS: u32 = 8;
pub(super) const WAIT_QUEUED: u32 = 16;

pub(super) const NR_FAULT: i32 = -1;
pub(super) const NR_KTHREAD: i32 = -2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that no type has padding, and that sizes are those of the static assertions in account.h.
    #[test]
    fn layouts_agree() {
        assert_eq!(
            (size_of::<AccountConfig>(), AccountConfig::padding()),
            (24, 0)
        );
        assert_eq!(
            (size_of::<HolderRecord>(), HolderRecord::padding()),
            (120, 0)
        );
        assert_eq!(
            (size_of::<AccountSampleHead>(), AccountSampleHead::padding()),
            (80, 0)
        );
        assert_eq!((size_of::<WaitRecord>(), WaitRecord::padding()), (208, 0));
        assert_eq!(
            (size_of::<ThreadRecord>(), ThreadRecord::padding()),
            (48, 0)
        );
        assert_eq!((size_of::<ForkRecord>(), ForkRecord::padding()), (8, 0));
        assert_eq!((size_of::<ThreadClock>(), ThreadClock::padding()), (216, 0));
        let health = (size_of::<AccountHealth>(), AccountHealth::padding());
        assert_eq!(health, (40, 0));
    }
}
