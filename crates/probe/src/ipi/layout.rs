//! The tables of the programs that see function calls, as Rust reads them: the twin of `bpf/ipi.h`.

use crate::layout::{Pod, pod};

pod! {
    struct IpiConfig {
        scope: u32,
        self_tgid: u32,
    }
    struct CallKey {
        func: u64,
        tgid: u32,
        cpu: u16,
        flags: u8,
        zero: u8,
    }
    struct CallCounts {
        calls: u64,
        timed: u64,
        delay_ns: u64,
        delay_max_ns: u64,
        stall_ns: u64,
        stall_max_ns: u64,
    }
    struct CallVictimKey {
        func: u64,
        tgid: u32,
        zero: u32,
    }
    struct CallVictimCounts {
        hits: u64,
        stall_ns: u64,
    }
    struct CallHealth {
        lost: u64,
        own: u64,
    }
}

/// The call is an irq_work, whose handler has no tracepoint.
pub(super) const CALL_IRQ_WORK: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that no type has padding, and that sizes are those of the static assertions in ipi.h.
    #[test]
    fn layouts_agree() {
        assert_eq!((size_of::<IpiConfig>(), IpiConfig::padding()), (8, 0));
        assert_eq!((size_of::<CallKey>(), CallKey::padding()), (16, 0));
        assert_eq!((size_of::<CallCounts>(), CallCounts::padding()), (48, 0));
        let victim = (size_of::<CallVictimKey>(), CallVictimKey::padding());
        assert_eq!(victim, (16, 0));
        let counts = (size_of::<CallVictimCounts>(), CallVictimCounts::padding());
        assert_eq!(counts, (16, 0));
        assert_eq!((size_of::<CallHealth>(), CallHealth::padding()), (16, 0));
    }
}
