//! Operations that fail: one failure costs its block, and only repeated failures cost the experiment.

use std::io;

use crate::arm::Arm;
use crate::attribute::Attributed;
use crate::process::Failed;
use crate::round::{Invalid, Measured};

/// So many failed blocks of one arm in a row are no accident: a kernel that is short of huge pages, a daemon that comes late and
/// a disk that is full for a moment pass sooner.
const MOST: u32 = 3;

/// The number of failures of each arm in a row.
#[derive(Debug, Default)]
pub(crate) struct Failures([u32; Arm::ALL.len()]);

impl Failures {
    /// The block that was measured; one whose operation failed is marked as invalid.
    ///
    /// # Errors
    ///
    /// Of an operation that fails again and again, and every other error.
    pub(crate) fn of(
        &mut self,
        arm: Arm,
        block: anyhow::Result<Measured>,
    ) -> anyhow::Result<Measured> {
        let Some(row) = Arm::ALL
            .iter()
            .position(|a| *a == arm)
            .and_then(|at| self.0.get_mut(at))
        else {
            return block;
        };
        match block {
            Ok(measured) => {
                *row = 0;
                Ok(measured)
            }
            Err(err) if is_failure(&err) && *row + 1 < MOST => {
                *row += 1;
                Ok(Measured {
                    arm,
                    block: Attributed::default(),
                    invalid: Some(Invalid::Failed),
                })
            }
            Err(err) => Err(err),
        }
    }
}

fn is_failure(err: &anyhow::Error) -> bool {
    err.chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|err| err.get_ref().is_some_and(|inner| inner.is::<Failed>()))
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    fn failed() -> anyhow::Result<Measured> {
        Err(io::Error::other(Failed("no huge page".into()))).context("the real arm of collapse")
    }

    fn fine(arm: Arm) -> anyhow::Result<Measured> {
        Ok(Measured {
            arm,
            block: Attributed::default(),
            invalid: None,
        })
    }

    /// Check that a block whose operation failed does not count, that the third in a row of one arm ends it with the
    /// kernel's words, whatever other arms do meanwhile, and that one that goes well begins anew.
    #[test]
    fn three_in_a_row() {
        let mut failures = Failures::default();
        for _ in 0..2 {
            for _ in 0..2 {
                let block = failures.of(Arm::Real, failed()).unwrap();
                assert_eq!(block.invalid, Some(Invalid::Failed));
                assert!(failures.of(Arm::Sham, fine(Arm::Sham)).is_ok());
            }
            let block = failures.of(Arm::Real, fine(Arm::Real)).unwrap();
            assert_eq!(block.invalid, None);
        }
        assert!(failures.of(Arm::Real, failed()).is_ok());
        assert!(failures.of(Arm::Real, failed()).is_ok());
        let given_up = failures.of(Arm::Real, failed()).unwrap_err();
        assert!(format!("{given_up:#}").contains("no huge page"));
    }

    /// Check that a worker that has gone ends it at once.
    #[test]
    fn what_has_gone_is_no_failed_operation() {
        let gone = Err(io::Error::other("the worker has ended: signal: 7").into());
        assert!(Failures::default().of(Arm::Real, gone).is_err());
    }
}
