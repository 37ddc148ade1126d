//! The records of the programs that watch a machine for months, as Rust reads them: the twin of `bpf/watch.h`.

use crate::layout::{Pod, pod};

pod! {
    struct WatchConfig {
        self_tgid: u32,
        has_prev_state: u32,
        has_code: u32,
        zero: u32,
    }
    struct WatchSampleHead {
        cgroup: u64,
        tgid: u32,
        nr: i32,
        kernel_frames: u16,
        user_frames: u16,
        zero: u32,
        comm: [u8; 16],
    }
    #[derive(Hash)]
    struct SleepKey {
        cgroup: u64,
        stack: u64,
        nr: i32,
        zero: u32,
    }
    struct SleepTally {
        sleeps: u64,
        ns: u64,
    }
    struct WatchHealth {
        lost_samples: u64,
        lost_sleeps: u64,
    }
}

/// The most sleeps that the programs can tell apart, as `MAX_SLEEPS` in watch.h.
pub(super) const MAX_SLEEPS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that no type has padding, and that sizes are those of the static assertions in watch.h.
    #[test]
    fn layouts_agree() {
        assert_eq!((size_of::<WatchConfig>(), WatchConfig::padding()), (16, 0));
        assert_eq!(
            (size_of::<WatchSampleHead>(), WatchSampleHead::padding()),
            (40, 0)
        );
        assert_eq!((size_of::<SleepKey>(), SleepKey::padding()), (24, 0));
        assert_eq!((size_of::<SleepTally>(), SleepTally::padding()), (16, 0));
        assert_eq!((size_of::<WatchHealth>(), WatchHealth::padding()), (16, 0));
        let header = include_str!("../../bpf/watch.h");
        assert!(header.contains(&format!("#define MAX_SLEEPS {MAX_SLEEPS}\n")));
    }
}
