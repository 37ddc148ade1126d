//! All rows, summed up on several threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use super::Error;
use super::parquet_batch::Need;
use super::parquet_read::Groups;
use super::row::Row;
use super::segments::Segment;

/// More threads take more memory, some ten megabytes each, and have little left to do.
const THREADS_CAP: usize = 8;

/// What rows are added to.
pub trait Sums: Send {
    /// What follows is of this part of the trace. Parts are numbered in the order of recording; a
    /// shootdown's rows may lie in two of them.
    fn begin(&mut self, part: u32);

    /// Adds a row.
    fn take(&mut self, row: &Row);
}

/// What one thread reads at a time: a row group of a sealed segment, or a tail.
#[derive(Clone, Copy)]
struct Part {
    segment: usize,
    group: usize,
}

fn parts(segments: &[Segment]) -> Vec<Part> {
    let parts = segments.iter().enumerate().flat_map(|(segment, found)| {
        let groups = match found {
            Segment::Sealed(sealed) => sealed.groups,
            Segment::Tail(..) => 1,
        };
        (0..groups).map(move |group| Part { segment, group })
    });
    parts.collect()
}

/// Sums all rows up; one sum a thread.
pub(super) fn sum<S: Sums>(
    segments: &[Segment],
    new: impl Fn() -> S + Sync,
    told: &(dyn Fn(u64) + Sync),
) -> Result<Vec<S>, Error> {
    let parts = parts(segments);
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = parts.len().min(cpus).clamp(1, THREADS_CAP);
    let team = Team {
        segments,
        parts,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        done: AtomicU64::new(0),
        told,
    };
    let results: Vec<_> = thread::scope(|scope| {
        let work = || team.work(new());
        // this thread is one of them
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mine = work();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            let panicked = |panic| std::panic::resume_unwind(panic);
            thread.join().unwrap_or_else(panicked)
        };
        std::iter::once(mine)
            .chain(others.into_iter().map(join))
            .collect()
    });
    let mut sums = Vec::with_capacity(threads);
    let mut first: Option<(usize, Error)> = None;
    for result in results {
        match result {
            Ok(sum) => sums.push(sum),
            // of several the earliest part's, as if one thread had read all
            Err((part, err)) if first.as_ref().is_none_or(|(f, _)| part < *f) => {
                first = Some((part, err));
            }
            Err(_) => {}
        }
    }
    first.map_or(Ok(sums), |(_, err)| Err(err))
}

/// What the threads share.
struct Team<'a> {
    segments: &'a [Segment],
    parts: Vec<Part>,
    next: AtomicUsize,
    stop: AtomicBool,
    done: AtomicU64,
    told: &'a (dyn Fn(u64) + Sync),
}

impl Team<'_> {
    /// Takes parts until there are none. An error comes with the number of its part. Parts are taken
    /// in their order and always finished, so that the earliest bad one is always found.
    fn work<S: Sums>(&self, mut sum: S) -> Result<S, (usize, Error)> {
        let mut open = None;
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = self.parts.get(number) else {
                break;
            };
            let read = self.read(*part, number, &mut open, &mut sum);
            read.map_err(|err| {
                self.stop.store(true, Ordering::Relaxed);
                (number, err)
            })?;
        }
        Ok(sum)
    }

    /// Reads a part. Its segment is kept open, for the next part is mostly of the same.
    fn read<'a, S: Sums>(
        &'a self,
        part: Part,
        number: usize,
        open: &mut Option<(usize, Groups<'a>)>,
        sum: &mut S,
    ) -> Result<(), Error> {
        sum.begin(u32::try_from(number).unwrap_or(u32::MAX));
        let mut rows = 0;
        let mut take = |row: &Row| {
            rows += 1;
            sum.take(row);
        };
        match &self.segments[part.segment] {
            tail @ Segment::Tail(..) => tail.for_each(take)?,
            Segment::Sealed(sealed) => {
                let groups = match open {
                    Some((segment, groups)) if *segment == part.segment => groups,
                    _ => {
                        let groups = sealed.groups(Need::Sums)?;
                        &mut open.insert((part.segment, groups)).1
                    }
                };
                groups.for_each(part.group, &mut take)?;
            }
        }
        (self.told)(self.done.fetch_add(rows, Ordering::Relaxed) + rows);
        Ok(())
    }
}
