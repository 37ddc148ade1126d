//! The settings of an experiment and its rounds: one block of each arm, and whether it counts.

use std::time::Duration;

use crate::arm::{Arm, VictimActivity};
use crate::attribute::{ClassifiedBlock, sum_over};
use crate::mechanism::OperationTiming;
use crate::tsc::monotonic_ns;

/// The default length of a block.
pub const DEFAULT_BLOCK_MS: u64 = 150;

/// The default time from the start of one operation to that of the next.
pub const DEFAULT_PACE_US: u64 = 10;

/// The settings of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentOptions {
    /// The victim's CPU.
    pub victim_cpu: u32,
    /// The culprit's CPU.
    pub culprit_cpu: u32,
    /// The longest time of the whole experiment.
    pub budget: Duration,
    /// Whether the budget may be stretched to the time that the fewest rounds take: nobody has asked for this budget.
    pub may_stretch: bool,
    /// The length of a block.
    pub block: Duration,
    /// How soon one operation may follow the start of the last.
    pub pace: Duration,
    /// Whether the victim spins or sleeps.
    pub mode: VictimActivity,
    /// The seed of the order of the arms.
    pub seed: u64,
    /// Rounds at most; 0 is as many as the budget allows.
    pub rounds: usize,
}

impl ExperimentOptions {
    /// The defaults: a victim that spins, and as many rounds as the answer takes.
    #[must_use]
    pub fn new(victim_cpu: u32, culprit_cpu: u32, budget: Duration) -> Self {
        Self {
            victim_cpu,
            culprit_cpu,
            budget,
            may_stretch: false,
            block: Duration::from_millis(DEFAULT_BLOCK_MS),
            pace: Duration::from_micros(DEFAULT_PACE_US),
            mode: VictimActivity::Spin,
            seed: monotonic_ns(),
            rounds: 0,
        }
    }
}

/// A block of one arm.
#[derive(Clone, Debug)]
pub struct MeasuredBlock {
    /// The arm.
    pub arm: Arm,
    /// The block with its classified gaps.
    pub block: ClassifiedBlock,
    /// Why it does not count, if it does not.
    pub invalid: Option<InvalidReason>,
}

/// Why a block does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InvalidReason {
    /// The probe lost records.
    Lost,
    /// The victim had its CPU for less than a fifth of the block.
    Away,
    /// No operation of the culprit began and ended in it.
    NoOperation,
    /// An operation of the culprit failed.
    Failed,
}

impl InvalidReason {
    /// The reason in words.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Lost => "the probe lost records",
            Self::Away => "others had the victim's CPU for more than four fifths of the time",
            Self::NoOperation => {
                "no operation began and ended in a block: one that takes so long needs a longer --block"
            }
            Self::Failed => "an operation failed",
        }
    }
}

/// One block of each arm.
pub type Round = Vec<MeasuredBlock>;

/// The block of an arm, if it counts.
pub(crate) fn valid_block(round: &Round, arm: Arm) -> Option<&ClassifiedBlock> {
    let found = round.iter().find(|m| m.arm == arm && m.invalid.is_none())?;
    Some(&found.block)
}

/// Whether the round counts: the three arms that are compared are valid, and no operation failed.
pub(crate) fn is_valid_round(round: &Round) -> bool {
    let valid = |arm| valid_block(round, arm).is_some();
    // A failed operation tells nothing, not even that it was short.
    let failed = round
        .iter()
        .any(|m| m.invalid == Some(InvalidReason::Failed));
    valid(Arm::Idle) && valid(Arm::Sham) && valid(Arm::Real) && !failed
}

/// Operations that tell something of the victim. One that is done once takes so long that on a busy machine the victim is always
/// away for a part of it: it tells less then, but still something.
#[must_use]
pub(crate) fn telling_operations(blocks: &[&ClassifiedBlock], timing: OperationTiming) -> u64 {
    sum_over(
        blocks,
        match timing {
            OperationTiming::Repeated | OperationTiming::Slow { .. } => |block| block.counted_ops,
            OperationTiming::Once { .. } => |block| block.whole_ops,
        },
    )
}
