//! Samples: what one in so many shootdowns asked for, and the code that asked.
//!
//! For who watches for hours: nothing here grows with time, and nothing is counted by it.

use std::cell::RefCell;
use std::rc::Rc;

use quell_event::Cause;

use crate::causes::Causes;
use crate::error::Result;
use crate::layout::{self, RECORD_SAMPLE, SampleRecord};
use crate::loader::Probe;
use crate::ring::Ring;

/// So many are read in one go at most, lest fast culprits keep the reader.
const AT_ONCE: usize = 1 << 14;

/// One shootdown of many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The culprit's process.
    pub pid: u32,
    /// The process that the counts have it under: another one, 0, where they tell no more apart.
    pub counted_as: u32,
    /// It stands for so many, as of every CPU one in so many is taken.
    pub every: u32,
    /// Why.
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

/// Reads the samples of a [`Probe`] that keeps [`crate::Keep::Samples`].
pub struct Samples {
    ring: Ring,
    read: Rc<RefCell<Vec<SampleRecord>>>,
    causes: Rc<RefCell<Causes>>,
}

impl Samples {
    /// Starts to read.
    ///
    /// # Errors
    ///
    /// If the ring can't be mapped.
    pub fn new(probe: &Probe) -> Result<Self> {
        let read = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&read);
        let ring = Ring::new(&probe.maps.records, move |bytes| {
            let sample = layout::read::<SampleRecord>(bytes);
            // never borrowed while the ring is read: take() ends before it reads again
            if let (Some(sample), Ok(mut read)) = (sample, sink.try_borrow_mut())
                && sample.kind == RECORD_SAMPLE
            {
                read.push(sample);
            }
        })?;
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
    pub fn take(&self) -> Result<Vec<Sample>> {
        // what is left is read by the next call
        let _more = self.ring.read(AT_ONCE)?;
        let read = std::mem::take(&mut *self.read.borrow_mut());
        let mut causes = self.causes.borrow_mut();
        read.iter().map(|s| sample(s, &mut causes)).collect()
    }
}

fn sample(record: &SampleRecord, causes: &mut Causes) -> Result<Sample> {
    let culprit = causes.culprit(record.culprit)?;
    let frames = usize::from(record.frames);
    Ok(Sample {
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
