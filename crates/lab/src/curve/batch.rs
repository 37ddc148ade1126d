//! The times of one point that are taken without a break.

use std::io;
use std::time::Duration;

use crate::tsc::{self, TscLine};

/// Room for the times of a batch: many rounds of some are better than one of very many.
const MAX_TIMES: usize = 5000;

/// How long a batch may go on without a single time, where the event that it measures never comes.
const MAX_WAIT_FOR_FIRST: Duration = Duration::from_secs(5);

/// The times of one batch, and when it ends.
#[derive(Debug)]
pub struct TimeBatch {
    line: TscLine,
    until: u64,
    last: u64,
    samples: Vec<f64>,
    /// Whether there was room for the last time.
    last_was_kept: bool,
}

impl TimeBatch {
    /// Makes room for times, in which the kernel has pages already: a fault of our own would be measured.
    #[must_use]
    pub fn new() -> Self {
        let mut samples = vec![0.5; MAX_TIMES];
        samples.clear();
        Self {
            line: TscLine::measure(Duration::from_millis(10)),
            until: 0,
            last: 0,
            samples,
            last_was_kept: false,
        }
    }

    /// Begins a new batch of so many ns.
    pub fn begin_batch(&mut self, ns: u64) {
        self.samples.clear();
        let now = tsc::read_tsc();
        self.until = now.saturating_add(self.line.ticks_of_ns(ns));
        let patience = tsc::duration_ns(MAX_WAIT_FOR_FIRST);
        self.last = self.until.saturating_add(self.line.ticks_of_ns(patience));
    }

    /// Whether there is time and room for another. There is time for one in any case, and an end in any case.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        let now = tsc::read_tsc();
        self.samples.len() < MAX_TIMES
            && (now < self.until || (self.samples.is_empty() && now < self.last))
    }

    /// A reading of the counter after which no batch goes on, for a thread that spins beside it; an operation that has begun by
    /// then ends later.
    #[must_use]
    pub fn deadline_tsc(&self) -> u64 {
        self.last
    }

    /// Times one operation.
    ///
    /// # Errors
    ///
    /// The operation's.
    #[inline(always)]
    pub fn time_operation<T>(
        &mut self,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.time_mean(1, operation)
    }

    /// Times so many operations at once, for their mean.
    ///
    /// # Errors
    ///
    /// The operation's.
    #[inline(always)]
    pub fn time_mean<T>(
        &mut self,
        of: u64,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let begin = tsc::read_tsc();
        let done = operation()?;
        let end = tsc::read_tsc();
        self.last_was_kept = self.samples.len() < MAX_TIMES;
        if self.last_was_kept {
            let ns = end.saturating_sub(begin) as f64 * self.line.ns_per_tick / of.max(1) as f64;
            self.samples.push(ns);
        }
        Ok(done)
    }

    /// Drops the last time, because it was not of the operation that is measured. An operation that found no room was not kept, and
    /// there is nothing to drop.
    pub fn forget_last(&mut self) {
        if self.last_was_kept {
            self.samples.pop();
            self.last_was_kept = false;
        }
    }

    /// The times, ns, to a hundredth. The first tenth is left out: caches, branch predictor and peers had not settled yet.
    #[must_use]
    pub fn times(&self) -> Vec<f64> {
        let settled = &self.samples[self.samples.len() / 10..];
        settled
            .iter()
            .map(|ns| (ns * 100.0).round() / 100.0)
            .collect()
    }
}

impl Default for TimeBatch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Check that a batch ends by its time, that one in which nothing is timed ends too, and that one whose time is over
    /// before it begins takes one time.
    #[test]
    fn ends_in_any_case() {
        if tsc::tsc_quality().is_err() {
            return;
        }
        let mut batch = TimeBatch::new();
        batch.begin_batch(2_000_000);
        let before = std::time::Instant::now();
        while batch.goes_on() {
            batch
                .time_operation(|| {
                    thread::sleep(Duration::from_micros(100));
                    Ok(())
                })
                .unwrap();
        }
        assert!(before.elapsed() < Duration::from_secs(300));
        let times = batch.times();
        assert!(
            !times.is_empty() && times.iter().all(|ns| *ns >= 100_000.0),
            "{times:?}"
        );
        batch.begin_batch(0);
        let mut turns = 0;
        while batch.goes_on() {
            batch.time_operation(|| Ok(())).unwrap();
            turns += 1;
        }
        assert_eq!(turns, 1);
        batch.begin_batch(0);
        batch.last = batch.until;
        assert!(!batch.goes_on());
    }

    /// Check that there is never more than there is room for, that the first tenth is left out and that what was
    /// forgotten does not count.
    #[test]
    fn has_an_end_of_room() {
        let mut batch = TimeBatch::new();
        batch.begin_batch(u64::MAX);
        for _ in 0..MAX_TIMES + 10 {
            batch.time_operation(|| Ok(())).unwrap();
        }
        assert!(!batch.goes_on());
        assert_eq!(batch.times().len(), MAX_TIMES - MAX_TIMES / 10);
        batch.time_operation(|| Ok(())).unwrap();
        batch.forget_last();
        assert_eq!(batch.samples.len(), MAX_TIMES, "it was not kept");
        batch.samples.pop();
        batch.time_operation(|| Ok(())).unwrap();
        batch.forget_last();
        assert_eq!(batch.samples.len(), MAX_TIMES - 1);
    }
}
