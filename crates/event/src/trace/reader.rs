//! Reading a trace, however its recording ended.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::event_row::EventRow;
use super::file_names::TableFamily;
use super::flat::FlatRow;
use super::flat_read::{self, TableReadCounts};
use super::meta::{TraceIdentity, read_bounded};
use super::parallel_sum::{self, RowSums};
use super::read_ahead;
use super::segments::{TableSegment, find_segments, open_segment};
use super::side_tables::{StackCost, TracedProcess, TracedStack};
use super::{SampleRow, TraceError, TraceMeta, WaitRow, file_names, jsonl};
use crate::{Tally, histogram};

/// A longer `tally.json` is refused.
const MAX_TALLY_BYTES: u64 = 256 << 20;

/// A trace, opened for reading.
#[derive(Debug)]
pub struct Trace {
    dir: PathBuf,
    meta: TraceMeta,
    segments: Vec<TableSegment>,
}

/// A table beside the events.
#[derive(Debug)]
pub struct SideTable<T> {
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
    /// All are [`TraceError`]s: there is none, it is none, it is of another version, or a file of it is
    /// damaged.
    pub fn open(dir: &Path) -> anyhow::Result<Self> {
        let meta = TraceMeta::read_from(dir)?;
        let mut segments = Vec::new();
        for (number, found) in (1..).zip(find_segments(dir, TableFamily::Events)?) {
            segments.push(open_segment(dir, TableFamily::Events, number, found)?);
        }
        let trace = Self {
            dir: dir.to_owned(),
            meta,
            segments,
        };
        if let Some(ended) = trace.meta.ended
            && ended.rows != trace.row_count()
        {
            let why = format!("{} of {} rows are there", trace.row_count(), ended.rows);
            return Err(TraceError::damaged(dir, why).into());
        }
        Ok(trace)
    }

    /// Where, when and of whom the recording is.
    #[must_use]
    pub fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    /// Rows in the trace: one for each victim of each shootdown.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        self.segments.iter().map(TableSegment::row_count).sum()
    }

    /// Did the recording end without being closed, so that its last second may be missing?
    #[must_use]
    pub fn cut_short(&self) -> bool {
        self.meta.ended.is_none()
    }

    /// Returns the files of all segments, where all are sealed, for other readers of Parquet. `None` where there is a tail, which those
    /// can't read.
    #[must_use]
    pub fn sealed_files(&self) -> Option<Vec<&Path>> {
        let mut files = Vec::new();
        for segment in &self.segments {
            files.push(match segment {
                TableSegment::Sealed(sealed) => sealed.path(),
                TableSegment::Tail(..) => return None,
            });
        }
        Some(files)
    }

    /// Bytes at the end of tails that belong to no whole batch.
    #[must_use]
    pub fn unread_bytes(&self) -> u64 {
        self.segments.iter().map(TableSegment::unread_bytes).sum()
    }

    /// The exact counts; `None` where there are none, as in the first second of a recording.
    ///
    /// # Errors
    ///
    /// [`TraceError::Damaged`] where they are garbled: they are replaced as a whole, so that a recording
    /// that was killed is no reason. The same where they say that they are of another trace.
    pub fn read_tally(&self) -> Result<Option<Tally>, TraceError> {
        let path = self.dir.join(file_names::TALLY_FILE);
        let bytes = match read_bounded(&path, MAX_TALLY_BYTES) {
            Ok(bytes) => bytes,
            Err(TraceError::Missing(_)) => return Ok(None),
            Err(err) => return Err(err),
        };
        let damaged = |err| TraceError::damaged(&path, err);
        let shape: TallyShape = serde_json::from_slice(&bytes).map_err(damaged)?;
        if shape
            .trace
            .is_some_and(|of| of != TraceIdentity::from(&self.meta))
        {
            return Err(TraceError::damaged(&path, "it is of another trace"));
        }
        let whole = |h: &HistogramShape| h.counts.len() == histogram::BUCKET_COUNT;
        if ![&shape.wait, &shape.delay, &shape.stall]
            .into_iter()
            .all(whole)
        {
            return Err(TraceError::damaged(&path, "a histogram of another size"));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// The processes that were seen, by number, as they were last.
    ///
    /// # Errors
    ///
    /// The table is there and can't be read.
    pub fn read_processes(&self) -> anyhow::Result<SideTable<TracedProcess>> {
        self.read_table(file_names::PROCESSES_FILE, |p: &TracedProcess| p.pid)
    }

    /// Hands over the processes that were seen, each as often as it was looked at, in that order. Returns how
    /// many lines can't be read.
    ///
    /// # Errors
    ///
    /// The table is there and can't be read.
    pub fn for_each_process(&self, each: impl FnMut(TracedProcess)) -> anyhow::Result<u64> {
        Ok(jsonl::for_each_line(
            &self.dir.join(file_names::PROCESSES_FILE),
            each,
        )?)
    }

    /// The stacks, by number.
    ///
    /// # Errors
    ///
    /// The table is there and can't be read.
    pub fn read_stacks(&self) -> anyhow::Result<SideTable<TracedStack>> {
        self.read_table(file_names::STACKS_FILE, |s: &TracedStack| s.id)
    }

    /// The account by stacks; nothing where there is none, as in traces of before it. With how many lines can't be read.
    ///
    /// # Errors
    ///
    /// The table is there and can't be read.
    pub fn read_account(&self) -> anyhow::Result<(Vec<StackCost>, u64)> {
        let mut costs = Vec::new();
        let path = self.dir.join(file_names::ACCOUNT_FILE);
        let garbled = jsonl::for_each_line(&path, |cost| costs.push(cost))?;
        Ok((costs, garbled))
    }

    /// Hands over every wait, by when they ended. There are none in traces of before they were kept.
    ///
    /// # Errors
    ///
    /// A file of theirs is cut, garbled or missing; the rows before that place have been handed over then.
    pub fn for_each_wait(&self, each: impl FnMut(&WaitRow)) -> anyhow::Result<TableReadCounts> {
        self.read_flat(self.meta.ended.and_then(|e| e.waits), each)
    }

    /// Hands over every sample, in the order of recording. There are none in traces of before they were kept.
    ///
    /// # Errors
    ///
    /// A file of theirs is cut, garbled or missing; the rows before that place have been handed over then.
    pub fn for_each_sample(&self, each: impl FnMut(&SampleRow)) -> anyhow::Result<TableReadCounts> {
        self.read_flat(self.meta.ended.and_then(|e| e.samples), each)
    }

    /// Reads a table of which there are so many rows, if that is known.
    fn read_flat<R: FlatRow>(
        &self,
        rows: Option<u64>,
        each: impl FnMut(&R),
    ) -> anyhow::Result<TableReadCounts> {
        let read = flat_read::read_flat_table(&self.dir, each)?;
        if let Some(rows) = rows
            && rows != read.rows
        {
            let why = format!("{} of {rows} rows of {} are there", read.rows, R::FAMILY);
            return Err(TraceError::damaged(&self.dir, why).into());
        }
        Ok(read)
    }

    fn read_table<T: DeserializeOwned>(
        &self,
        name: &str,
        number: impl Fn(&T) -> u32,
    ) -> anyhow::Result<SideTable<T>> {
        let mut rows = HashMap::new();
        let garbled = jsonl::for_each_line(&self.dir.join(name), |row: T| {
            rows.insert(number(&row), row);
        })?;
        Ok(SideTable { rows, garbled })
    }

    /// Hands over every row in the order of recording: shootdowns by `id`, victims by
    /// `victim_index`. Rows are unpacked on a thread of their own, some batches ahead. Takes some ten
    /// megabytes of memory, whatever the length of the trace.
    ///
    /// # Errors
    ///
    /// [`TraceError::Damaged`] where a page of a sealed segment is garbled; the rows before it have been
    /// handed over then.
    pub fn for_each_row(&self, each: impl FnMut(&EventRow)) -> anyhow::Result<()> {
        self.for_each_row_beside(|_| {}, each)
    }

    /// Hands over every row as [`Self::for_each_row`] does, and to `beside` first, on the thread that unpacks them.
    ///
    /// # Errors
    ///
    /// As [`Self::for_each_row`].
    pub fn for_each_row_beside(
        &self,
        beside: impl FnMut(&EventRow) + Send,
        each: impl FnMut(&EventRow),
    ) -> anyhow::Result<()> {
        Ok(read_ahead::for_each_row_ahead(
            &self.segments,
            beside,
            each,
        )?)
    }

    /// Sums all rows up, on so many threads at most as there are CPUs. `new` makes the sum that a thread adds
    /// its rows to; the caller adds these up. Which thread has which part is not known before, but each
    /// has its parts in the order of recording. `told` is called with how many rows are done, of any
    /// thread.
    ///
    /// Only the columns that a sum over shootdowns and victims needs are read; `id`, `syscall`, `cpu`,
    /// `kernel_stack` and `victim_tid` are not, and mean nothing.
    ///
    /// # Errors
    ///
    /// [`TraceError::Damaged`] where a page of a sealed segment is garbled.
    pub fn sum_rows<S: RowSums>(
        &self,
        new: impl Fn() -> S + Sync,
        told: &(dyn Fn(u64) + Sync),
    ) -> anyhow::Result<Vec<S>> {
        Ok(parallel_sum::sum_rows(&self.segments, new, told)?)
    }
}

/// A tally must have this shape so that its percentiles can be asked for.
#[derive(Deserialize)]
struct TallyShape {
    /// None in traces from before it was written.
    #[serde(default)]
    trace: Option<TraceIdentity>,
    wait: HistogramShape,
    delay: HistogramShape,
    stall: HistogramShape,
}

#[derive(Deserialize)]
struct HistogramShape {
    counts: Vec<IgnoredAny>,
}
