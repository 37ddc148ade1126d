//! The times when the victim's CPU was taken away, and the operations that this spoils.

use quell_event::{Interruption, InterruptionKind as Kind};

use crate::block::{CulpritOp, VictimGap};

/// A gap that is longer by this than all that the probe saw in it, for each interruption and one more, ns, means that the CPU
/// itself was taken away. To enter and leave an interrupt takes a few µs, where the hypervisor has a part in it too.
const STOLEN_NS: u64 = 20_000;

/// An operation counts if the victim was away for less than one part in so many of it: the events that it may have missed are
/// then below 1 % of those that are counted.
const MAX_AWAY_DIVISOR: u64 = 100;

/// Whether the CPU did not run for the most of a gap. A fault has no end that the probe sees, and may take as long as a disk
/// takes to read a page: then nobody knows.
pub(crate) fn is_stolen(gap: &VictimGap, seen: &[Interruption]) -> bool {
    let known = covered_ns(seen);
    let entries = u64::try_from(1 + seen.len()).unwrap_or(u64::MAX);
    seen.iter().all(|i| i.kind != Kind::Fault)
        && gap.ns.saturating_sub(known) >= entries.saturating_mul(STOLEN_NS)
}

/// The time that these take together, ns: interrupts lie within a softirq, and calls within their interrupt. They are in the
/// order of their begins.
fn covered_ns(seen: &[Interruption]) -> u64 {
    let (mut sum, mut until) = (0, 0);
    for i in seen {
        sum += i.end_ns.saturating_sub(i.begin_ns.max(until));
        until = until.max(i.end_ns);
    }
    sum
}

/// Whether the victim was away for so much of an operation that it may have missed its effect.
pub(crate) fn is_missed(away: &[VictimGap], op: &CulpritOp) -> bool {
    let from = away.partition_point(|g| g.end_ns() <= op.begin_ns);
    let missed: u64 = away[from..]
        .iter()
        .take_while(|g| g.begin_ns < op.end_ns)
        .map(|g| g.end_ns().min(op.end_ns) - g.begin_ns.max(op.begin_ns))
        .sum();
    missed * MAX_AWAY_DIVISOR > op.end_ns.saturating_sub(op.begin_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(kind: Kind, ns: u64) -> Interruption {
        Interruption {
            kind,
            begin_ns: 100,
            end_ns: 100 + ns,
            tgid: 0,
            tid: 0,
        }
    }

    /// Check that a gap is the hypervisor's if what the probe saw in it explains too little, and never with a fault.
    #[test]
    fn what_nobody_explains_is_stolen() {
        let gap = |ns| VictimGap { begin_ns: 0, ns };
        assert!(!is_stolen(&gap(15_000), &[]));
        assert!(is_stolen(&gap(60_000), &[]));
        assert!(is_stolen(&gap(60_000), &[seen(Kind::Timer, 900)]));
        assert!(!is_stolen(&gap(30_000), &[seen(Kind::Timer, 900)]));
        assert!(!is_stolen(&gap(90_000), &[seen(Kind::Irq, 88_000)]));
        assert!(!is_stolen(&gap(90_000), &[seen(Kind::Fault, 0)]));
        // what lies in another is not counted twice
        let nested = [seen(Kind::Softirq, 70_000), seen(Kind::Irq, 60_000)];
        assert!(!is_stolen(&gap(90_000), &nested));
        assert!(is_stolen(&gap(140_000), &nested));
    }

    /// Check that an operation is missed while the victim was away, from a hundredth of it on.
    #[test]
    fn operations_are_missed_while_away() {
        let away =
            [(100_000, 60_000), (300_000, 90_000)].map(|(begin_ns, ns)| VictimGap { begin_ns, ns });
        let missed = |begin_ns, end_ns| is_missed(&away, &CulpritOp { begin_ns, end_ns });
        assert!(!missed(9_000, 19_000));
        assert!(missed(110_000, 111_000));
        assert!(missed(299_000, 301_000));
        assert!(!missed(160_000, 300_000));
        assert!(missed(90_000, 290_000));
        assert!(!missed(161_000, 20_161_000));
        assert!(missed(0, 10_000_000));
        assert!(!missed(0, 15_000_000));
        assert!(!missed(500_000, 500_000));
    }
}
