//! Operations that fail: one failure costs its block, and only repeated failures cost the experiment.

use std::collections::BTreeMap;
use std::io;

use crate::arm::Arm;
use crate::attribute::ClassifiedBlock;
use crate::round::{InvalidReason, MeasuredBlock};
use crate::worker_handle::OperationFailure;

/// So many failed blocks of one arm in a row are no accident: a kernel that is short of huge pages, a daemon that comes late and
/// a disk that is full for a moment pass sooner.
const MAX_FAILURES_IN_A_ROW: u32 = 3;

/// The number of failures of each arm in a row.
#[derive(Debug, Default)]
pub(crate) struct FailureStreaks(BTreeMap<Arm, u32>);

impl FailureStreaks {
    /// The block that was measured; one whose operation failed is marked as invalid.
    ///
    /// # Errors
    ///
    /// Of an operation that fails again and again, and every other error.
    pub(crate) fn accept_block(
        &mut self,
        arm: Arm,
        block: anyhow::Result<MeasuredBlock>,
    ) -> anyhow::Result<MeasuredBlock> {
        let row = self.0.entry(arm).or_default();
        match block {
            Ok(measured) => {
                *row = 0;
                Ok(measured)
            }
            Err(err) if is_failure(&err) && *row + 1 < MAX_FAILURES_IN_A_ROW => {
                *row += 1;
                Ok(MeasuredBlock {
                    arm,
                    block: ClassifiedBlock::default(),
                    invalid: Some(InvalidReason::Failed),
                })
            }
            Err(err) => Err(err),
        }
    }
}

fn is_failure(err: &anyhow::Error) -> bool {
    err.chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|err| {
            err.get_ref()
                .is_some_and(|inner| inner.is::<OperationFailure>())
        })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    fn failed() -> anyhow::Result<MeasuredBlock> {
        Err(io::Error::other(OperationFailure("no huge page".into())))
            .context("the real arm of collapse")
    }

    fn fine(arm: Arm) -> anyhow::Result<MeasuredBlock> {
        Ok(MeasuredBlock {
            arm,
            block: ClassifiedBlock::default(),
            invalid: None,
        })
    }

    /// Check that a block whose operation failed does not count, that the third in a row of one arm ends it with the
    /// kernel's words, whatever other arms do meanwhile, and that one that goes well begins anew.
    #[test]
    fn three_in_a_row() {
        let mut failures = FailureStreaks::default();
        for _ in 0..2 {
            for _ in 0..2 {
                let block = failures.accept_block(Arm::Real, failed()).unwrap();
                assert_eq!(block.invalid, Some(InvalidReason::Failed));
                assert!(failures.accept_block(Arm::Sham, fine(Arm::Sham)).is_ok());
            }
            let block = failures.accept_block(Arm::Real, fine(Arm::Real)).unwrap();
            assert_eq!(block.invalid, None);
        }
        assert!(failures.accept_block(Arm::Real, failed()).is_ok());
        assert!(failures.accept_block(Arm::Real, failed()).is_ok());
        let given_up = failures.accept_block(Arm::Real, failed()).unwrap_err();
        assert!(format!("{given_up:#}").contains("no huge page"));
    }

    /// Check that a worker that has gone ends it at once.
    #[test]
    fn what_has_gone_is_no_failed_operation() {
        let gone = Err(io::Error::other("the worker has ended: signal: 7").into());
        assert!(
            FailureStreaks::default()
                .accept_block(Arm::Real, gone)
                .is_err()
        );
    }
}
