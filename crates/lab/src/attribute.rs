//! Lays the interruptions that the probe saw on the victim's CPU beside the gaps that the victim saw itself.

use quell_event::{Interruption, InterruptionKind as Kind, named_enum};
use serde::{Deserialize, Serialize};

use crate::block::{CulpritOp, RawBlock, VictimGap};
use crate::cpu_lost::{is_missed, is_stolen};

named_enum! {
    /// The cause of a gap. Where several causes lie in one, the first of this list counts: the rest is part of it, or small. Output
    /// lists them in this order too.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum GapClass with serde {
        /// Another thread ran, against the victim's will.
        Sched = "sched",
        /// A page fault, with all that it waited for: a disk, a lock.
        Fault = "fault",
        /// A shootdown.
        Tlb = "tlb",
        /// Another function that another CPU asked for.
        Callfn = "callfn",
        /// A device, another vector of the kernel's, or the work that such an interrupt has left to do (softirq).
        Irq = "irq",
        /// The CPU's timer.
        Timer = "timer",
        /// Nothing that the kernel knows of: the hypervisor, firmware, or the memory itself. quell names no cause.
        None = "none",
    }
}

impl GapClass {
    fn from_kind(kind: Kind) -> Self {
        match kind {
            Kind::Sched => Self::Sched,
            Kind::Fault => Self::Fault,
            Kind::Tlb => Self::Tlb,
            Kind::Callfn | Kind::Vector => Self::Callfn,
            Kind::Irq | Kind::Softirq => Self::Irq,
            Kind::Timer => Self::Timer,
        }
    }
}

/// A gap and its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassifiedGap {
    /// The gap.
    pub gap: VictimGap,
    /// Its class.
    pub class: GapClass,
    /// Whether the culprit had a part in it: a shootdown of its, or a fault of the victim where the mechanism makes those.
    pub caused: bool,
    /// The process whose request gave the gap its class, or that ran instead; 0 where there is none.
    pub by: u32,
}

/// A block of which every gap has a class.
#[derive(Clone, Debug, Default)]
pub struct ClassifiedBlock {
    /// When the victim began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Turns that were no gaps: their length in ns and their number.
    pub turns: Vec<(u64, u64)>,
    /// The gaps, in order.
    pub gaps: Vec<ClassifiedGap>,
    /// The culprit's operations, in order.
    pub ops: Vec<CulpritOp>,
    /// For how long other threads had the victim's CPU, ns.
    pub away_ns: u64,
    /// Shootdowns that interrupted the victim while it ran.
    pub hits: u64,
    /// Those of them that lie in a gap.
    pub matched: u64,
    /// Those that the culprit asked for.
    pub caused_hits: u64,
    /// Shootdowns and faults of the culprit's whose gap has a length of its own: not where the CPU was taken away too.
    pub timed_events: u64,
    /// Faults of the victim, whatever their cause, but for those in gaps in which another thread ran.
    pub faults: u64,
    /// Those of them that the mechanism makes.
    pub caused_faults: u64,
    /// Operations that lie in the block from their beginning to their end.
    pub whole_ops: u64,
    /// Those of them while the victim had its CPU, for all but a hundredth of them at most.
    pub counted_ops: u64,
    /// Shootdowns of the culprit at the victim within those.
    pub counted_hits: u64,
    /// Caused faults within those.
    pub counted_faults: u64,
}

/// By how much an interruption may lie beside its gap, ns: the error of two readings of two clocks and of the line through two
/// moments.
const SLACK_NS: u64 = 500;

impl ClassifiedBlock {
    /// The time that the victim had its CPU, ns.
    #[must_use]
    pub fn ran_ns(&self) -> u64 {
        (self.end_ns - self.begin_ns).saturating_sub(self.away_ns)
    }

    /// Whether an operation fell into the time of the victim, also one whose effect nobody can tell: long ones are all of that
    /// kind where others have the CPU now and then.
    #[must_use]
    pub fn is_operated(&self) -> bool {
        let in_time = |op: &CulpritOp| op.end_ns > self.begin_ns && op.begin_ns < self.end_ns;
        self.ops.iter().any(in_time)
    }

    /// Time in gaps of the culprit's, ns.
    #[must_use]
    pub fn caused_ns(&self) -> u64 {
        self.gaps
            .iter()
            .filter(|t| t.caused)
            .map(|t| t.gap.ns)
            .sum()
    }

    /// The same as a share of the time in which the victim ran, ppm.
    #[must_use]
    pub fn caused_ppm(&self) -> f64 {
        ratio_ppm(self.caused_ns(), self.ran_ns())
    }
}

/// The sum of a figure over blocks.
pub(crate) fn sum_over(blocks: &[&ClassifiedBlock], of: fn(&ClassifiedBlock) -> u64) -> u64 {
    blocks.iter().map(|block| of(block)).sum()
}

/// The events that the culprit answers for.
pub struct Blame<'a> {
    /// Knows the culprit's process and the kernel's threads that work for it, by their number.
    pub is_culprit: &'a dyn Fn(u32) -> bool,
    /// Whether the mechanism makes the victim fault. Where it does not, others take the victim's pages away: a machine
    /// that is short of memory, DAMON (mm/damon/), the host.
    pub faults: bool,
}

/// Finds each gap's class, and counts the shootdowns, faults and operations of the block.
#[must_use]
pub fn classify_gaps(
    raw: RawBlock,
    mut seen: Vec<Interruption>,
    blame: &Blame<'_>,
) -> ClassifiedBlock {
    seen.sort_by_key(|i| i.begin_ns);
    let mut kinds: Vec<Vec<Interruption>> = vec![Vec::new(); raw.gaps.len()];
    let mut stray = Vec::new();
    for i in &seen {
        match gap_of(&raw.gaps, i.begin_ns) {
            Some(at) => kinds[at].push(*i),
            None => stray.push(*i),
        }
    }
    let mut told = ClassifiedBlock {
        begin_ns: raw.begin_ns,
        end_ns: raw.end_ns,
        turns: raw.turns,
        ..ClassifiedBlock::default()
    };
    let mut away = Vec::new();
    let mut hits = Vec::new();
    let mut faults = Vec::new();
    for (gap, seen) in raw.gaps.iter().zip(&kinds) {
        let first = seen.iter().min_by_key(|i| i.kind);
        let mut class = first.map_or(GapClass::None, |i| GapClass::from_kind(i.kind));
        let mut caused = false;
        if class == GapClass::Sched {
            told.away_ns += gap.ns;
            away.push(*gap);
        } else {
            // A CPU that the hypervisor has taken away is not interrupted but flushes when it comes back (arch/x86/kernel/kvm.c:
            // kvm_flush_tlb_multi()). The gap counts as the hypervisor's, whatever came in it; otherwise all that time would be
            // laid to a culprit that waits for this CPU.
            let stolen = is_stolen(gap, seen);
            if stolen {
                away.push(*gap);
                class = GapClass::None;
            }
            // The length of a fault of others is not the cost of a shootdown that came meanwhile: faults are served with
            // interrupts on (arch/x86/mm/fault.c: do_user_addr_fault()).
            let foreign = class == GapClass::Fault && !blame.faults;
            let before = hits.len() + faults.len();
            for i in seen {
                match i.kind {
                    Kind::Tlb => {
                        told.hits += 1;
                        told.matched += 1;
                        if (blame.is_culprit)(i.tgid) {
                            hits.push(i.begin_ns);
                        }
                    }
                    Kind::Fault => {
                        told.faults += 1;
                        if blame.faults {
                            faults.push(i.begin_ns);
                        }
                    }
                    _ => {}
                }
            }
            if !stolen && !foreign {
                let events = hits.len() + faults.len() - before;
                caused = events > 0;
                told.timed_events += to_u64(events);
            }
        }
        told.gaps.push(ClassifiedGap {
            gap: *gap,
            class,
            caused,
            by: first
                .filter(|_| class != GapClass::None)
                .map_or(0, |i| i.tgid),
        });
    }
    // A shootdown that no gap shows, while the victim spun: the share that can't be explained is counted, not hidden.
    for i in stray {
        let spun = (raw.begin_ns..raw.end_ns).contains(&i.begin_ns);
        if i.kind == Kind::Tlb && spun {
            told.hits += 1;
            if (blame.is_culprit)(i.tgid) {
                hits.push(i.begin_ns);
            }
        }
    }
    hits.sort_unstable();
    told.caused_hits = to_u64(hits.len());
    told.caused_faults = to_u64(faults.len());
    for op in &raw.ops {
        let whole = op.begin_ns >= raw.begin_ns && op.end_ns <= raw.end_ns;
        if !whole {
            continue;
        }
        told.whole_ops += 1;
        if is_missed(&away, op) {
            continue;
        }
        told.counted_ops += 1;
        told.counted_hits += count_within(&hits, op);
        told.counted_faults += count_within(&faults, op);
    }
    told.ops = raw.ops;
    told
}

/// The gap that a moment lies in, or beside which it lies within the slack.
fn gap_of(gaps: &[VictimGap], at: u64) -> Option<usize> {
    let after = gaps.partition_point(|g| g.begin_ns <= at);
    let before = after.checked_sub(1);
    if let Some(before) = before
        && at < gaps[before].end_ns()
    {
        return Some(before);
    }
    let late = before
        .map(|i| (at - gaps[i].end_ns(), i))
        .filter(|(off, _)| *off <= SLACK_NS);
    let early = gaps
        .get(after)
        .map(|g| (g.begin_ns - at, after))
        .filter(|(off, _)| *off <= SLACK_NS);
    late.into_iter().chain(early).min().map(|(_, i)| i)
}

/// How many of these moments lie within an operation.
fn count_within(moments: &[u64], op: &CulpritOp) -> u64 {
    let from = moments.partition_point(|&m| m < op.begin_ns.saturating_sub(SLACK_NS));
    let to = moments.partition_point(|&m| m <= op.end_ns + SLACK_NS);
    to_u64(to.saturating_sub(from))
}

/// The ratio in millionths; 0 of an empty time.
pub(crate) fn ratio_ppm(ns: u64, of: u64) -> f64 {
    if of == 0 {
        return 0.0;
    }
    ns as f64 * 1e6 / of as f64
}

fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
