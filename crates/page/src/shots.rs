//! Single shootdowns, while they are few enough to be drawn one by one.

use quell_event::Cause;
use quell_event::trace::EventRow;

/// One shootdown on the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shot {
    pub(crate) t_ns: u64,
    pub(crate) cause: Cause,
    pub(crate) culprit: u32,
    pub(crate) victims: u64,
    pub(crate) wait_ns: u64,
    pub(crate) stall_ns: u64,
}

/// All of them, or none where there were too many.
pub(crate) struct ShotList {
    kept: Option<Vec<Shot>>,
    most: usize,
}

impl ShotList {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            kept: Some(Vec::new()),
            most,
        }
    }

    /// Adds a row. With the first shootdown too many all are dropped, and none is kept from then on.
    #[inline]
    pub(crate) fn take(&mut self, row: &EventRow) {
        let Some(kept) = &mut self.kept else {
            return;
        };
        if row.is_first() {
            if kept.len() == self.most {
                self.kept = None;
                return;
            }
            kept.push(Shot {
                t_ns: row.t_ns,
                cause: row.cause,
                culprit: row.pid,
                victims: 0,
                wait_ns: row.wait_ns,
                stall_ns: 0,
            });
        }
        // The rows of a shootdown follow each other.
        if let Some(shot) = kept.last_mut() {
            shot.victims += 1;
            shot.stall_ns += u64::from(row.stall_ns);
        }
    }

    pub(crate) fn kept(&self) -> Option<&[Shot]> {
        self.kept.as_deref()
    }
}
