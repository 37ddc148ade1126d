//! Samples: one in so many shootdowns, with its range and the code that asked for it.
//!
//! They are for watching for hours: nothing here grows with time, and counts do not come from samples.

use std::cell::RefCell;
use std::rc::Rc;

use quell_event::Cause;

use crate::causes::Causes;
use crate::error::Result;
use crate::layout::{self, RECORD_SAMPLE, SampleRecord};
use crate::loader::Probe;
use crate::record_ring::RecordRing;

/// The most samples that one call reads, so that fast culprits do not keep the reader from everything else.
const MAX_SAMPLES_AT_ONCE: usize = 1 << 14;

/// One shootdown of many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShootdownSample {
    /// The culprit's process.
    pub pid: u32,
    /// The process that the counts have it under: 0 instead of its own where the table had no room to tell it apart.
    pub counted_as: u32,
    /// It stands for so many shootdowns, because one in so many is taken on every CPU.
    pub every: u32,
    /// The cause of the shootdown.
    pub cause: Cause,
    /// The range is of the culprit's own address space.
    pub own_mm: bool,
    /// Where the range begins.
    pub start: u64,
    /// Where it ends; `u64::MAX` for everything.
    pub end: u64,
    /// Return addresses of the user stack, innermost first, at most four; none of a kernel thread.
    pub stack: Vec<u64>,
    /// The word on top of the user stack, or 0: mostly who called the system call's wrapper.
    pub caller: u64,
}

/// Reads the samples of a [`Probe`] that keeps [`crate::KeptDetail::Samples`].
pub struct ShootdownSamples {
    ring: RecordRing,
    read: Rc<RefCell<Vec<SampleRecord>>>,
    causes: Rc<RefCell<Causes>>,
}

impl ShootdownSamples {
    /// Starts to read.
    ///
    /// # Errors
    ///
    /// If the ring can't be mapped.
    pub fn new(probe: &Probe) -> Result<Self> {
        let read = Rc::new(RefCell::new(Vec::new()));
        let ring = RecordRing::with_receiver(
            &probe.maps.records,
            &read,
            |read: &mut Vec<SampleRecord>, bytes| {
                let sample = layout::read_pod::<SampleRecord>(bytes);
                read.extend(sample.filter(|sample| sample.kind == RECORD_SAMPLE));
            },
        )?;
        Ok(Self {
            ring,
            read,
            causes: Rc::clone(&probe.causes),
        })
    }

    /// The samples that came since the last call, up to a bound.
    ///
    /// # Errors
    ///
    /// If they or their culprits can't be read.
    pub fn take_samples(&self) -> Result<Vec<ShootdownSample>> {
        // The next call reads the rest.
        let _more = self.ring.read_records(MAX_SAMPLES_AT_ONCE)?;
        let read = std::mem::take(&mut *self.read.borrow_mut());
        let mut causes = self.causes.borrow_mut();
        read.iter().map(|s| to_sample(s, &mut causes)).collect()
    }
}

fn to_sample(record: &SampleRecord, causes: &mut Causes) -> Result<ShootdownSample> {
    let culprit = causes.find_culprit(record.culprit)?;
    let frames = usize::from(record.frames);
    Ok(ShootdownSample {
        pid: record.tgid,
        counted_as: culprit.pid,
        every: record.every,
        cause: culprit.cause,
        own_mm: record.flags & layout::SEND_OWN != 0,
        start: record.start,
        end: record.end,
        stack: record.stack.iter().copied().take(frames).collect(),
        caller: record.caller,
    })
}
