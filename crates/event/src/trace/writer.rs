//! Writing a trace while the program that is measured runs.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::columns::{Columns, ROWS_CAP};
use super::flat::Pending;
use super::jsonl::{self, Lines};
use super::meta::Of;
use super::names::Family;
use super::sealer::Sealer;
use super::side::{Process, Stack, StackCost};
use super::tail_schema::{self, BATCH_ROWS};
use super::tail_write::Tail;
use super::{Ended, Error, Meta, SCHEMA, Sample, Wait, meta, names};
use crate::{Shootdown, Tally};

/// What is not in the files yet is lost when quell is killed: at most this and a tick.
const TAIL_EVERY: Duration = Duration::from_millis(500);
const TALLY_EVERY: Duration = Duration::from_secs(1);
/// A tail is sealed from so many rows on.
const TAIL_ROWS: u64 = 1 << 20;

/// `tally.json`.
#[derive(Serialize)]
struct Saved<'a> {
    trace: Of,
    #[serde(flatten)]
    tally: &'a Tally,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Shootdowns in the trace.
    pub shootdowns: u64,
    /// Rows in the trace.
    pub rows: u64,
    /// Shootdowns that are not in it, because the disk did not take them.
    pub dropped: u64,
    /// Bytes that the sealed segments take.
    pub bytes: u64,
}

/// How far [`Writer::finish`] has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows sealed.
    pub rows: u64,
    /// Rows there are.
    pub of: u64,
}

/// Writes a trace. Dropped without [`Writer::finish`], it leaves what a killed recording leaves.
pub struct Writer {
    dir: PathBuf,
    meta: Meta,
    columns: Columns,
    /// The next shootdown's number.
    next_id: u64,
    dropped: u64,
    /// Rows in tails and segments.
    rows: u64,
    tail: Option<Tail>,
    tails: u32,
    tail_rows: u64,
    tail_written: Instant,
    waits: Pending<Wait>,
    samples: Pending<Sample>,
    left_out: u64,
    processes: Lines,
    stacks: Lines,
    /// What the table of stacks is replaced by in the end.
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

impl Writer {
    /// Makes the directory and begins a trace there. `force` replaces a trace that is there, and
    /// nothing else: what quell did not write is never removed.
    ///
    /// # Errors
    ///
    /// All are [`Error`]s: something is there already, or the directory can't be made.
    pub fn create(dir: &Path, meta: &Meta, force: bool) -> anyhow::Result<Self> {
        let lock = prepare(dir, force)?;
        let meta = Meta {
            schema: SCHEMA.to_owned(),
            ended: None,
            ..meta.clone()
        };
        meta.write(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            meta,
            columns: Columns::new(BATCH_ROWS),
            next_id: 0,
            dropped: 0,
            rows: 0,
            tail: None,
            tails: 0,
            tail_rows: TAIL_ROWS,
            tail_written: Instant::now(),
            waits: Pending::new(),
            samples: Pending::new(),
            left_out: 0,
            processes: Lines::create(dir, names::PROCESSES)?,
            stacks: Lines::create(dir, names::STACKS)?,
            final_stacks: None,
            account: Vec::new(),
            account_is_new: false,
            tally: Vec::new(),
            tally_is_new: false,
            tally_written: None,
            sealer: Sealer::start(dir).map_err(|err| Error::Create(dir.to_owned(), err))?,
            _lock: lock,
        })
    }

    /// Adds a shootdown, in memory. One that names no victim counts as having one that was not seen.
    #[inline]
    pub fn push(&mut self, s: &Shootdown) {
        if self.columns.rows() >= ROWS_CAP {
            self.dropped += 1;
            return;
        }
        self.columns.push(self.next_id, s);
        self.next_id += 1;
    }

    /// Adds a wait, in memory.
    pub fn wait(&mut self, wait: &Wait) {
        self.waits.push(wait);
    }

    /// Adds a sample, in memory.
    pub fn sample(&mut self, sample: &Sample) {
        self.samples.push(sample);
    }

    /// Counts waits and samples that found no room before they came here.
    pub fn leave_out(&mut self, rows: u64) {
        self.left_out += rows;
    }

    /// Adds what was read of a process at a time, in memory. Of several of the same number all are kept.
    pub fn process(&mut self, process: &Process) {
        self.processes.add(process);
    }

    /// Adds a stack, in memory.
    pub fn stack(&mut self, stack: &Stack) {
        self.stacks.add(stack);
    }

    /// Replaces all stacks, in memory: by those that have names, say. [`Writer::finish`] writes them.
    pub fn replace_stacks(&mut self, stacks: &[Stack]) {
        self.final_stacks = Some(jsonl::lines(stacks));
    }

    /// Takes the account by stacks so far; the next [`Writer::tick`] that writes counts writes it too.
    pub fn account(&mut self, costs: &[StackCost]) {
        self.account = jsonl::lines(costs);
        self.account_is_new = true;
    }

    /// Takes the counts so far; the next [`Writer::tick`] that is due writes them.
    pub fn tally(&mut self, tally: &Tally) {
        self.tally.clear();
        let trace = Of::from(&self.meta);
        // Memory takes everything, and a tally has no map whose keys are no text.
        self.tally_is_new = serde_json::to_writer(&mut self.tally, &Saved { trace, tally }).is_ok();
    }

    /// Writes what is due: to be called every 100 ms or so.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] and [`Error::Write`]. What could not be written is kept, within bounds, and
    /// tried again by the next call.
    pub fn tick(&mut self) -> anyhow::Result<()> {
        if self.tail_written.elapsed() >= TAIL_EVERY || self.columns.rows() >= BATCH_ROWS / 2 {
            self.write()?;
        }
        if (self.tally_is_new || self.account_is_new)
            && self
                .tally_written
                .is_none_or(|t| t.elapsed() >= TALLY_EVERY)
        {
            self.write_counts()?;
        }
        self.sealer.error().map_or(Ok(()), |err| Err(err.into()))
    }

    /// Shootdowns that had to be left out because writing could not keep up.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Writes and seals what is left, and marks the trace as ended at `monotonic_ns`, ns of
    /// CLOCK_MONOTONIC. `progress` is called whenever a segment is sealed.
    ///
    /// # Errors
    ///
    /// As for [`Writer::tick`]. The trace is then left as by a recording that was killed.
    pub fn finish(
        mut self,
        monotonic_ns: u64,
        mut progress: impl FnMut(Progress),
    ) -> anyhow::Result<Summary> {
        // Each part for itself: a full disk may still have room for the other.
        let written = self.write();
        let counted = self.write_counts();
        let rotated = self
            .last_tail()
            .and_then(|tail| tail.map_or(Ok(()), |tail| self.sealer.rotate(Family::Events, tail)));
        let rotated = rotated
            .and(self.waits.end(&self.dir, &mut self.sealer))
            .and(self.samples.end(&self.dir, &mut self.sealer));
        let mut done = Progress {
            rows: 0,
            of: self.rows + self.waits.rows() + self.samples.rows(),
        };
        let sealed = self.sealer.finish(|rows| {
            done.rows += rows;
            progress(done);
        });
        // after the tails are sealed, which makes room
        let named = match &self.final_stacks {
            Some(lines) => names::replace(&self.dir, names::STACKS, lines),
            None => Ok(()),
        };
        written.and(counted).and(rotated).and(sealed).and(named)?;
        let shootdowns = self.next_id;
        self.meta.ended = Some(Ended {
            monotonic_ns,
            shootdowns,
            rows: self.rows,
            waits: Some(self.waits.rows()),
            samples: Some(self.samples.rows()),
            left_out: self.left_out + self.waits.left_out() + self.samples.left_out(),
        });
        self.meta.write(&self.dir)?;
        let size = |family: Family, segments| -> u64 {
            let bytes = |n| std::fs::metadata(family.sealed(&self.dir, n)).map_or(0, |m| m.len());
            (1..=segments).map(bytes).sum()
        };
        Ok(Summary {
            shootdowns,
            rows: self.rows,
            dropped: self.dropped,
            bytes: size(Family::Events, self.tails)
                + size(Family::Waits, self.waits.segments())
                + size(Family::Samples, self.samples.segments()),
        })
    }

    /// Side tables first, so that what events refer to is there when they are.
    fn write(&mut self) -> Result<(), Error> {
        self.processes.write(&self.dir)?;
        self.stacks.write(&self.dir)?;
        if self.columns.rows() > 0 && self.tail.is_none() {
            self.tail = Some(Tail::create(
                &self.dir,
                Family::Events,
                self.tails + 1,
                tail_schema::schema(),
            )?);
            self.tails += 1;
        }
        if let Some(tail) = &mut self.tail {
            let before = tail.rows();
            let result = tail.append(&mut self.columns);
            self.rows += tail.rows() - before;
            result?;
        }
        self.waits.write(&self.dir, &mut self.sealer)?;
        self.samples.write(&self.dir, &mut self.sealer)?;
        if let Some(tail) = self.tail.take_if(|t| t.rows() >= self.tail_rows) {
            self.sealer.rotate(Family::Events, tail)?;
        }
        self.tail_written = Instant::now();
        Ok(())
    }

    /// The tail that is left, or one without rows where there has been none: a pattern of file names that finds no
    /// file is an error for most readers of Parquet.
    fn last_tail(&mut self) -> Result<Option<Tail>, Error> {
        let tail = self.tail.take();
        if tail.is_some() || self.tails > 0 {
            return Ok(tail);
        }
        self.tails = 1;
        Tail::create(&self.dir, Family::Events, 1, tail_schema::schema()).map(Some)
    }

    /// Those that are new.
    fn write_counts(&mut self) -> Result<(), Error> {
        if self.tally_is_new {
            names::replace(&self.dir, names::TALLY, &self.tally)?;
            self.tally_is_new = false;
        }
        if self.account_is_new {
            names::replace(&self.dir, names::ACCOUNT, &self.account)?;
            self.account_is_new = false;
        }
        self.tally_written = Some(Instant::now());
        Ok(())
    }

    /// For tests, which can't wait for a million rows.
    #[cfg(test)]
    pub(super) fn seal_from(&mut self, rows: u64) {
        self.tail_rows = rows;
        self.waits.seal_from(rows);
        self.samples.seal_from(rows);
    }

    /// For tests, which can't wait for half a second.
    #[cfg(test)]
    pub(super) fn write_now(&mut self) {
        self.write().expect("the disk takes it");
    }

    /// For tests of disks that don't take it.
    #[cfg(test)]
    pub(super) fn try_write_now(&mut self) -> anyhow::Result<()> {
        Ok(self.write()?)
    }
}

/// Makes room for a trace, and keeps others out of it.
fn prepare(dir: &Path, force: bool) -> Result<File, Error> {
    match std::fs::create_dir(dir) {
        Ok(()) => return lock(dir),
        Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(err) => return Err(Error::Create(dir.to_owned(), err)),
    }
    if !meta::is_trace(dir) {
        return Err(Error::Occupied(dir.to_owned()));
    }
    if !force {
        return Err(Error::Exists(dir.to_owned()));
    }
    let lock = lock(dir)?;
    let write = |err| Error::write(dir, dir, err);
    for entry in std::fs::read_dir(dir).map_err(write)? {
        let entry = entry.map_err(write)?;
        if entry.file_name().to_str().is_some_and(names::is_ours) {
            std::fs::remove_file(entry.path()).map_err(write)?;
        }
    }
    Ok(lock)
}

/// Some network file systems have no locks: then nobody is kept out.
fn lock(dir: &Path) -> Result<File, Error> {
    let file = File::open(dir).map_err(|err| Error::Create(dir.to_owned(), err))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::Busy(dir.to_owned())),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}
