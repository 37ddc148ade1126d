//! The counters of the processor, as the kernel lends them.

use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::fd::OwnedFd;

use quell_event::account::CounterReading;

use super::events::CounterEvent;
use crate::perf_event::{self, EventTarget, PerfEventAttributes};

/// A lender of counters: the kernel, or a test.
pub(super) trait CounterLender {
    /// A counter that was lent.
    type Counter;

    /// Lends a counter of an event in user mode. That of a thread also counts all that the thread starts from now on.
    fn lend(&self, event: CounterEvent, on: EventTarget) -> Result<Self::Counter>;

    /// The count so far.
    fn read(&self, counter: &Self::Counter) -> Result<CounterReading>;
}

/// The kernel as lender.
pub(super) struct KernelCounters;

/// PERF_FORMAT_TOTAL_TIME_ENABLED and PERF_FORMAT_TOTAL_TIME_RUNNING.
const WITH_TIMES: u64 = 1 | 2;
/// Bits of `struct perf_event_attr`, in their order there.
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

impl CounterLender for KernelCounters {
    type Counter = OwnedFd;

    fn lend(&self, event: CounterEvent, on: EventTarget) -> Result<OwnedFd> {
        let inherit = match on {
            EventTarget::Thread(_) => INHERIT,
            EventTarget::Cpu(_) => 0,
        };
        let attributes = PerfEventAttributes {
            kind: event.kind,
            config: event.config,
            read_format: WITH_TIMES,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | inherit,
            ..PerfEventAttributes::default()
        };
        perf_event::open_perf_event(attributes, on)
    }

    fn read(&self, counter: &OwnedFd) -> Result<CounterReading> {
        let mut bytes = [0; 24];
        let mut file = std::fs::File::from(counter.try_clone()?);
        if file.read(&mut bytes)? != bytes.len() {
            return Err(Error::from(ErrorKind::UnexpectedEof));
        }
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| words.get(at).map_or(0, |w| u64::from_ne_bytes(*w));
        Ok(CounterReading {
            value: word(0),
            enabled_ns: word(1),
            running_ns: word(2),
        })
    }
}
