//! The records of the programs that see interruptions, as Rust reads them: the twin of `bpf/interruptions.h`.

use crate::layout::{Pod, pod};

pod! {
    struct InterruptionsConfig {
        fn_flush_tlb_func: u64,
        cpu: u32,
        tid: u32,
        stacks: u32,
        tgid: u32,
    }
    struct InterruptionRecord {
        begin_ns: u64,
        end_ns: u64,
        kind: u32,
        tgid: u32,
        tid: u32,
        zero: u32,
        culprit_stack: i32,
        victim_stack: i32,
    }
    struct LostCounts {
        records: u64,
        askers: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that no type has padding, and that sizes are those of the static assertions in interruptions.h.
    #[test]
    fn layouts_agree() {
        assert_eq!(
            (
                size_of::<InterruptionsConfig>(),
                InterruptionsConfig::padding()
            ),
            (24, 0)
        );
        let record = (
            size_of::<InterruptionRecord>(),
            InterruptionRecord::padding(),
        );
        assert_eq!(record, (40, 0));
        assert_eq!((size_of::<LostCounts>(), LostCounts::padding()), (16, 0));
    }
}
