//! Reading a trace, however its recording ended.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::ahead;
use super::flat::{FlatRow, Read};
use super::meta::{Of, read_capped};
use super::names::Family;
use super::parts::{self, Sums};
use super::row::Row;
use super::segments::{Segment, find, segment};
use super::side::{Process, Stack, StackCost};
use super::{Error, Meta, Sample, Wait, flat, jsonl, names};
use crate::{Tally, hist};

/// No `tally.json` is longer, bytes.
const TALLY_CAP: u64 = 256 << 20;

/// A trace, opened for reading.
#[derive(Debug)]
pub struct Trace {
    dir: PathBuf,
    meta: Meta,
    segments: Vec<Segment>,
}

/// A table beside the events.
#[derive(Debug)]
pub struct Table<T> {
    /// By number; of several lines for one the last.
    pub rows: HashMap<u32, T>,
    /// Lines that can't be read and are left out, but for a last one that was cut.
    pub garbled: u64,
}

impl Trace {
    /// Opens the trace at `dir` and looks at the outside of every segment.
    ///
    /// # Errors
    ///
    /// All are [`Error`]s: there is none, it is none, it is of another version, or a file of it is
    /// damaged.
    pub fn open(dir: &Path) -> anyhow::Result<Self> {
        let meta = Meta::read(dir)?;
        let mut segments = Vec::new();
        for (number, found) in (1..).zip(find(dir, Family::Events)?) {
            segments.push(segment(dir, Family::Events, number, found)?);
        }
        let trace = Self {
            dir: dir.to_owned(),
            meta,
            segments,
        };
        if let Some(ended) = trace.meta.ended
            && ended.rows != trace.rows()
        {
            let why = format!("{} of {} rows are there", trace.rows(), ended.rows);
            return Err(Error::damaged(dir, why).into());
        }
        Ok(trace)
    }

    /// What the recording is.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Rows in the trace: one for each victim of each shootdown.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.segments.iter().map(Segment::rows).sum()
    }

    /// Did the recording end without being closed, so that its last second may be missing?
    #[must_use]
    pub fn cut_short(&self) -> bool {
        self.meta.ended.is_none()
    }

    /// The files of all segments, where all are sealed: what other readers of Parquet need. None where a tail counts.
    #[must_use]
    pub fn sealed_files(&self) -> Option<Vec<&Path>> {
        let mut files = Vec::new();
        for segment in &self.segments {
            files.push(match segment {
                Segment::Sealed(sealed) => sealed.path(),
                Segment::Tail(..) => return None,
            });
        }
        Some(files)
    }

    /// Bytes at the end of tails that belong to no whole batch.
    #[must_use]
    pub fn unread_bytes(&self) -> u64 {
        self.segments.iter().map(Segment::unread).sum()
    }

    /// The exact counts; `None` where there are none, as in the first second of a recording.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] where they are garbled: they are replaced as a whole, so that a recording
    /// that was killed is no reason. The same where they say that they are of another trace.
    pub fn tally(&self) -> Result<Option<Tally>, Error> {
        let path = self.dir.join(names::TALLY);
        let bytes = match read_capped(&path, TALLY_CAP) {
            Ok(bytes) => bytes,
            Err(Error::Missing(_)) => return Ok(None),
            Err(err) => return Err(err),
        };
        let damaged = |err| Error::damaged(&path, err);
        let shape: TallyShape = serde_json::from_slice(&bytes).map_err(damaged)?;
        if shape.trace.is_some_and(|of| of != Of::from(&self.meta)) {
            return Err(Error::damaged(&path, "it is of another trace"));
        }
        let whole = |h: &HistogramShape| h.counts.len() == hist::BUCKETS;
        if ![&shape.wait, &shape.delay, &shape.stall]
            .into_iter()
            .all(whole)
        {
            return Err(Error::damaged(&path, "a histogram of another size"));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// The processes that were seen, by number, as they were last.
    ///
    /// # Errors
    ///
    /// The table is there and can't be read.
    pub fn processes(&self) -> anyhow::Result<Table<Process>> {
        self.table(names::PROCESSES, |p: &Process| p.pid)
    }

    /// Hands over the processes that were seen, each as often as it was looked at, in that order. Returns how
    /// many lines can't be read.
    ///
    /// # Errors
    ///
    /// The table is there and can't be read.
    pub fn each_process(&self, each: impl FnMut(Process)) -> anyhow::Result<u64> {
        Ok(jsonl::read(&self.dir.join(names::PROCESSES), each)?)
    }

    /// The stacks, by number.
    ///
    /// # Errors
    ///
    /// The table is there and can't be read.
    pub fn stacks(&self) -> anyhow::Result<Table<Stack>> {
        self.table(names::STACKS, |s: &Stack| s.id)
    }

    /// The account by stacks; nothing where there is none, as in traces of before it. With how many lines can't be read.
    ///
    /// # Errors
    ///
    /// The table is there and can't be read.
    pub fn account(&self) -> anyhow::Result<(Vec<StackCost>, u64)> {
        let mut costs = Vec::new();
        let path = self.dir.join(names::ACCOUNT);
        let garbled = jsonl::read(&path, |cost| costs.push(cost))?;
        Ok((costs, garbled))
    }

    /// Hands over every wait, by when they ended. There are none in traces of before they were kept.
    ///
    /// # Errors
    ///
    /// A file of theirs is cut, garbled or missing; what came before has been handed over then.
    pub fn waits(&self, each: impl FnMut(&Wait)) -> anyhow::Result<Read> {
        self.flat(self.meta.ended.and_then(|e| e.waits), each)
    }

    /// Hands over every sample, in the order of recording. There are none in traces of before they were kept.
    ///
    /// # Errors
    ///
    /// A file of theirs is cut, garbled or missing; what came before has been handed over then.
    pub fn samples(&self, each: impl FnMut(&Sample)) -> anyhow::Result<Read> {
        self.flat(self.meta.ended.and_then(|e| e.samples), each)
    }

    /// Reads a table of which there are so many rows, if that is known.
    fn flat<R: FlatRow>(&self, rows: Option<u64>, each: impl FnMut(&R)) -> anyhow::Result<Read> {
        let read = flat::read(&self.dir, each)?;
        if let Some(rows) = rows
            && rows != read.rows
        {
            let why = format!("{} of {rows} rows of {} are there", read.rows, R::FAMILY);
            return Err(Error::damaged(&self.dir, why).into());
        }
        Ok(read)
    }

    fn table<T: DeserializeOwned>(
        &self,
        name: &str,
        number: impl Fn(&T) -> u32,
    ) -> anyhow::Result<Table<T>> {
        let mut rows = HashMap::new();
        let garbled = jsonl::read(&self.dir.join(name), |row: T| {
            rows.insert(number(&row), row);
        })?;
        Ok(Table { rows, garbled })
    }

    /// Hands over every row in the order of recording: shootdowns by `id`, victims by
    /// `victim_index`. Rows are unpacked on a thread of their own, some batches ahead. Takes some ten
    /// megabytes of memory, whatever the length of the trace.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] where a page of a sealed segment is garbled; the rows before it have been
    /// handed over then.
    pub fn for_each(&self, each: impl FnMut(&Row)) -> anyhow::Result<()> {
        self.for_each_beside(|_| {}, each)
    }

    /// The same, and hands every row to `beside` first, on the thread that unpacks them.
    ///
    /// # Errors
    ///
    /// As [`Self::for_each`].
    pub fn for_each_beside(
        &self,
        beside: impl FnMut(&Row) + Send,
        each: impl FnMut(&Row),
    ) -> anyhow::Result<()> {
        Ok(ahead::for_each(&self.segments, beside, each)?)
    }

    /// Sums all rows up, on so many threads at most as there are CPUs. `new` makes what a thread adds
    /// its rows to; the caller adds them up. Which thread has which part is not known before, but each
    /// has its parts in the order of recording. `told` is called with how many rows are done, of any
    /// thread.
    ///
    /// Of the rows what a sum over shootdowns and victims needs is read; `id`, `syscall`, `cpu`,
    /// `kernel_stack` and `victim_tid` are not, and mean nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] where a page of a sealed segment is garbled.
    pub fn sum<S: Sums>(
        &self,
        new: impl Fn() -> S + Sync,
        told: &(dyn Fn(u64) + Sync),
    ) -> anyhow::Result<Vec<S>> {
        Ok(parts::sum(&self.segments, new, told)?)
    }
}

/// What a tally must have so that its percentiles can be asked for.
#[derive(Deserialize)]
struct TallyShape {
    /// None in traces from before it was written.
    #[serde(default)]
    trace: Option<Of>,
    wait: HistogramShape,
    delay: HistogramShape,
    stall: HistogramShape,
}

#[derive(Deserialize)]
struct HistogramShape {
    counts: Vec<IgnoredAny>,
}
