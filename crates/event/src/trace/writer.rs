//! Writing a trace while the program that is measured runs.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::event_columns::{EventColumns, MAX_PENDING_ROWS};
use super::file_names::TableFamily;
use super::flat_pending::PendingTable;
use super::jsonl::{self, JsonLines};
use super::meta::TraceIdentity;
use super::sealer::Sealer;
use super::side_tables::{StackCost, TracedProcess, TracedStack};
use super::tail_frame::MAX_BATCH_ROWS;
use super::tail_schema;
use super::tail_write::TailWriter;
use super::{
    RecordingEnd, SampleRow, TRACE_SCHEMA, TraceError, TraceMeta, WaitRow, file_names, meta,
};
use crate::{Shootdown, Tally};

/// Rows that are not in the files yet are lost when quell is killed: those of at most this time, and of one call more.
const TAIL_INTERVAL: Duration = Duration::from_millis(500);
const TALLY_INTERVAL: Duration = Duration::from_secs(1);
/// A tail of so many rows is sealed.
const MIN_SEAL_ROWS: u64 = 1 << 20;

/// `tally.json`.
#[derive(Serialize)]
struct SavedTally<'a> {
    trace: TraceIdentity,
    #[serde(flatten)]
    tally: &'a Tally,
}

/// How much was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingSummary {
    /// Shootdowns in the trace.
    pub shootdowns: u64,
    /// Rows in the trace.
    pub rows: u64,
    /// Shootdowns that are not in it, because the disk did not take them.
    pub dropped: u64,
    /// Bytes that the sealed segments take.
    pub bytes: u64,
}

/// How far [`TraceWriter::finish`] has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SealProgress {
    /// Rows sealed.
    pub rows: u64,
    /// Rows there are.
    pub of: u64,
}

/// Writes a trace. Dropped without [`TraceWriter::finish`], it leaves a trace as a killed recording does.
pub struct TraceWriter {
    dir: PathBuf,
    meta: TraceMeta,
    columns: EventColumns,
    /// The next shootdown's number.
    next_id: u64,
    dropped: u64,
    /// Rows in tails and segments.
    rows: u64,
    /// The tail that events are appended to; `None` until the next rows come.
    tail: Option<TailWriter>,
    /// Tails that were begun, which is also the number of the last one.
    tails: u32,
    /// A tail of so many rows is handed over to be sealed; [`MIN_SEAL_ROWS`], but for tests.
    min_seal_rows: u64,
    /// When pending rows were last written, by which [`TAIL_INTERVAL`] is kept.
    tail_written: Instant,
    waits: PendingTable<WaitRow>,
    samples: PendingTable<SampleRow>,
    /// Waits and samples that the probe did not hand over, for they came too fast; those that found no room here are counted by
    /// their tables.
    left_out: u64,
    processes: JsonLines,
    stacks: JsonLines,
    /// The table of stacks is replaced by this in the end.
    final_stacks: Option<Vec<u8>>,
    account: Vec<u8>,
    account_is_new: bool,
    tally: Vec<u8>,
    tally_is_new: bool,
    tally_written: Option<Instant>,
    sealer: Sealer,
    /// Keeps other recordings out: a lock goes when its process does, however that ends (flock(2)).
    _lock: File,
}

impl TraceWriter {
    /// Makes the directory and begins a trace there. `force` replaces a trace that is there, and
    /// nothing else: a file that quell did not write is never removed.
    ///
    /// # Errors
    ///
    /// All are [`TraceError`]s: something is there already, or the directory can't be made.
    pub fn create(dir: &Path, meta: &TraceMeta, force: bool) -> anyhow::Result<Self> {
        let lock = prepare_dir(dir, force)?;
        let meta = TraceMeta {
            schema: TRACE_SCHEMA.to_owned(),
            ended: None,
            ..meta.clone()
        };
        meta.write_to(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            meta,
            columns: EventColumns::new(MAX_BATCH_ROWS),
            next_id: 0,
            dropped: 0,
            rows: 0,
            tail: None,
            tails: 0,
            min_seal_rows: MIN_SEAL_ROWS,
            tail_written: Instant::now(),
            waits: PendingTable::new(),
            samples: PendingTable::new(),
            left_out: 0,
            processes: JsonLines::create(dir, file_names::PROCESSES_FILE)?,
            stacks: JsonLines::create(dir, file_names::STACKS_FILE)?,
            final_stacks: None,
            account: Vec::new(),
            account_is_new: false,
            tally: Vec::new(),
            tally_is_new: false,
            tally_written: None,
            sealer: Sealer::start(dir).map_err(|err| TraceError::Create(dir.to_owned(), err))?,
            _lock: lock,
        })
    }

    /// Adds a shootdown, in memory. One that names no victim counts as having one that was not seen.
    #[inline]
    pub fn push_shootdown(&mut self, s: &Shootdown) {
        if self.columns.row_count() >= MAX_PENDING_ROWS {
            self.dropped += 1;
            return;
        }
        self.columns.push_shootdown(self.next_id, s);
        self.next_id += 1;
    }

    /// Adds a wait, in memory.
    pub fn push_wait(&mut self, wait: &WaitRow) {
        self.waits.push_row(wait);
    }

    /// Adds a sample, in memory.
    pub fn push_sample(&mut self, sample: &SampleRow) {
        self.samples.push_row(sample);
    }

    /// Counts waits and samples that found no room before they came here.
    pub fn add_left_out(&mut self, rows: u64) {
        self.left_out += rows;
    }

    /// Adds a process as it was at a time, in memory. Of several with the same number all are kept.
    pub fn push_process(&mut self, process: &TracedProcess) {
        self.processes.add_row(process);
    }

    /// Adds a stack, in memory.
    pub fn push_stack(&mut self, stack: &TracedStack) {
        self.stacks.add_row(stack);
    }

    /// Replaces all stacks, in memory: by those that have names, say. [`TraceWriter::finish`] writes them.
    pub fn replace_stacks(&mut self, stacks: &[TracedStack]) {
        self.final_stacks = Some(jsonl::json_lines(stacks));
    }

    /// Takes the whole account by stacks, from the beginning of the recording until now, in place of the one that was taken
    /// before. It is in memory until the next [`TraceWriter::write_due`] that writes counts, or the end.
    pub fn set_account(&mut self, costs: &[StackCost]) {
        self.account = jsonl::json_lines(costs);
        self.account_is_new = true;
    }

    /// Takes the counts so far; the next [`TraceWriter::write_due`] that is due writes them.
    pub fn set_tally(&mut self, tally: &Tally) {
        self.tally.clear();
        let trace = TraceIdentity::from(&self.meta);
        // Memory takes everything, and a tally has no map whose keys are no text.
        self.tally_is_new =
            serde_json::to_writer(&mut self.tally, &SavedTally { trace, tally }).is_ok();
    }

    /// Writes the rows and counts that are due. The recording calls it every 100 ms or so.
    ///
    /// # Errors
    ///
    /// [`TraceError::Full`] and [`TraceError::Write`]. Rows that could not be written are kept, within bounds, and
    /// tried again by the next call.
    pub fn write_due(&mut self) -> anyhow::Result<()> {
        if self.tail_written.elapsed() >= TAIL_INTERVAL
            || self.columns.row_count() >= MAX_BATCH_ROWS / 2
        {
            self.write_rows()?;
        }
        if (self.tally_is_new || self.account_is_new)
            && self
                .tally_written
                .is_none_or(|t| t.elapsed() >= TALLY_INTERVAL)
        {
            self.write_counts()?;
        }
        self.sealer
            .take_error()
            .map_or(Ok(()), |err| Err(err.into()))
    }

    /// Shootdowns that had to be left out because writing could not keep up.
    #[must_use]
    pub fn dropped_shootdowns(&self) -> u64 {
        self.dropped
    }

    /// Writes and seals the rest, and marks the trace as ended at `monotonic_ns`, ns of
    /// CLOCK_MONOTONIC. `progress` is called whenever a segment is sealed.
    ///
    /// # Errors
    ///
    /// As for [`TraceWriter::write_due`]. The trace is then left as by a recording that was killed.
    pub fn finish(
        mut self,
        monotonic_ns: u64,
        mut progress: impl FnMut(SealProgress),
    ) -> anyhow::Result<RecordingSummary> {
        // Each part for itself: a full disk may still have room for the other.
        let written = self.write_rows();
        let counted = self.write_counts();
        let rotated = self.last_tail().and_then(|tail| {
            tail.map_or(Ok(()), |tail| {
                self.sealer.rotate_tail(TableFamily::Events, tail)
            })
        });
        let rotated = rotated
            .and(self.waits.end_tail(&self.dir, &mut self.sealer))
            .and(self.samples.end_tail(&self.dir, &mut self.sealer));
        let mut done = SealProgress {
            rows: 0,
            of: self.rows + self.waits.row_count() + self.samples.row_count(),
        };
        let sealed = self.sealer.seal_rest(|rows| {
            done.rows += rows;
            progress(done);
        });
        // after the tails are sealed, which makes room
        let named = match &self.final_stacks {
            Some(lines) => file_names::replace_file(&self.dir, file_names::STACKS_FILE, lines),
            None => Ok(()),
        };
        written.and(counted).and(rotated).and(sealed).and(named)?;
        let shootdowns = self.next_id;
        self.meta.ended = Some(RecordingEnd {
            monotonic_ns,
            shootdowns,
            rows: self.rows,
            waits: Some(self.waits.row_count()),
            samples: Some(self.samples.row_count()),
            left_out: self.left_out + self.waits.left_out() + self.samples.left_out(),
        });
        self.meta.write_to(&self.dir)?;
        let size = |family: TableFamily, segments| -> u64 {
            let bytes =
                |n| std::fs::metadata(family.sealed_path(&self.dir, n)).map_or(0, |m| m.len());
            (1..=segments).map(bytes).sum()
        };
        Ok(RecordingSummary {
            shootdowns,
            rows: self.rows,
            dropped: self.dropped,
            bytes: size(TableFamily::Events, self.tails)
                + size(TableFamily::Waits, self.waits.segment_count())
                + size(TableFamily::Samples, self.samples.segment_count()),
        })
    }

    /// Writes side tables first, so that a row never refers to a process or a stack that is not there.
    fn write_rows(&mut self) -> Result<(), TraceError> {
        self.processes.write_pending(&self.dir)?;
        self.stacks.write_pending(&self.dir)?;
        if self.columns.row_count() > 0 && self.tail.is_none() {
            self.tail = Some(TailWriter::create(
                &self.dir,
                TableFamily::Events,
                self.tails + 1,
                tail_schema::event_schema(),
            )?);
            self.tails += 1;
        }
        if let Some(tail) = &mut self.tail {
            let before = tail.row_count();
            let result = tail.append_columns(&mut self.columns);
            self.rows += tail.row_count() - before;
            result?;
        }
        self.waits.write_pending(&self.dir, &mut self.sealer)?;
        self.samples.write_pending(&self.dir, &mut self.sealer)?;
        if let Some(tail) = self.tail.take_if(|t| t.row_count() >= self.min_seal_rows) {
            self.sealer.rotate_tail(TableFamily::Events, tail)?;
        }
        self.tail_written = Instant::now();
        Ok(())
    }

    /// The tail that is left, or one without rows where there has been none: a pattern of file names that finds no
    /// file is an error for most readers of Parquet.
    fn last_tail(&mut self) -> Result<Option<TailWriter>, TraceError> {
        let tail = self.tail.take();
        if tail.is_some() || self.tails > 0 {
            return Ok(tail);
        }
        self.tails = 1;
        TailWriter::create(
            &self.dir,
            TableFamily::Events,
            1,
            tail_schema::event_schema(),
        )
        .map(Some)
    }

    /// Writes the tally and the account, where they are new.
    fn write_counts(&mut self) -> Result<(), TraceError> {
        if self.tally_is_new {
            file_names::replace_file(&self.dir, file_names::TALLY_FILE, &self.tally)?;
            self.tally_is_new = false;
        }
        if self.account_is_new {
            file_names::replace_file(&self.dir, file_names::ACCOUNT_FILE, &self.account)?;
            self.account_is_new = false;
        }
        self.tally_written = Some(Instant::now());
        Ok(())
    }

    /// For tests, which can't wait for a million rows.
    #[cfg(test)]
    pub(super) fn seal_from(&mut self, rows: u64) {
        self.min_seal_rows = rows;
        self.waits.seal_from(rows);
        self.samples.seal_from(rows);
    }

    /// For tests, which can't wait for half a second.
    #[cfg(test)]
    pub(super) fn write_now(&mut self) {
        self.write_rows().expect("the disk takes it");
    }

    /// For tests of disks that don't take it.
    #[cfg(test)]
    pub(super) fn try_write_now(&mut self) -> anyhow::Result<()> {
        Ok(self.write_rows()?)
    }
}

/// Makes room for a trace, and keeps others out of it.
fn prepare_dir(dir: &Path, force: bool) -> Result<File, TraceError> {
    match std::fs::create_dir(dir) {
        Ok(()) => return lock_dir(dir),
        Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(err) => return Err(TraceError::Create(dir.to_owned(), err)),
    }
    if !meta::is_trace(dir) {
        return Err(TraceError::Occupied(dir.to_owned()));
    }
    if !force {
        return Err(TraceError::Exists(dir.to_owned()));
    }
    let lock = lock_dir(dir)?;
    let write = |err| TraceError::from_write(dir, dir, err);
    for entry in std::fs::read_dir(dir).map_err(write)? {
        let entry = entry.map_err(write)?;
        if entry
            .file_name()
            .to_str()
            .is_some_and(file_names::is_trace_file)
        {
            std::fs::remove_file(entry.path()).map_err(write)?;
        }
    }
    Ok(lock)
}

/// Some network file systems have no locks: then nobody is kept out.
fn lock_dir(dir: &Path) -> Result<File, TraceError> {
    let file = File::open(dir).map_err(|err| TraceError::Create(dir.to_owned(), err))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(TraceError::Busy(dir.to_owned())),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}
