//! All rows, summed up on several threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use super::TraceError;
use super::event_batch::ColumnNeed;
use super::event_row::EventRow;
use super::parquet_read::RowGroups;
use super::segments::TableSegment;

/// More threads would take more memory, some ten megabytes each, and have little left to do.
const MAX_SUM_THREADS: usize = 8;

/// A sum to which a thread adds rows.
pub trait RowSums: Send {
    /// The rows that follow are of this part of the trace. Parts are numbered in the order of recording; a
    /// shootdown's rows may lie in two of them.
    fn begin_part(&mut self, part: u32);

    /// Adds a row.
    fn add_row(&mut self, row: &EventRow);
}

/// A part that one thread reads at a time: a row group of a sealed segment, or a tail.
#[derive(Clone, Copy)]
struct SumPart {
    segment: usize,
    group: usize,
}

fn parts_of(segments: &[TableSegment]) -> Vec<SumPart> {
    let parts = segments.iter().enumerate().flat_map(|(segment, found)| {
        let groups = match found {
            TableSegment::Sealed(sealed) => sealed.groups,
            TableSegment::Tail(..) => 1,
        };
        (0..groups).map(move |group| SumPart { segment, group })
    });
    parts.collect()
}

/// Sums all rows up; one sum a thread.
pub(super) fn sum_rows<S: RowSums>(
    segments: &[TableSegment],
    new: impl Fn() -> S + Sync,
    told: &(dyn Fn(u64) + Sync),
) -> Result<Vec<S>, TraceError> {
    let parts = parts_of(segments);
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = parts.len().min(cpus).clamp(1, MAX_SUM_THREADS);
    let team = SumTeam {
        segments,
        parts,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        done: AtomicU64::new(0),
        told,
    };
    let results: Vec<_> = thread::scope(|scope| {
        let work = || team.sum_parts(new());
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
    let mut first: Option<(usize, TraceError)> = None;
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

/// The state that the threads share.
struct SumTeam<'a> {
    segments: &'a [TableSegment],
    parts: Vec<SumPart>,
    /// The number of the part that is taken next; beyond the last where there are no more.
    next: AtomicUsize,
    /// A thread met an error: the others finish their part and take no other.
    stop: AtomicBool,
    /// Rows that all threads have added.
    done: AtomicU64,
    /// Is called with `done` after each part.
    told: &'a (dyn Fn(u64) + Sync),
}

impl SumTeam<'_> {
    /// Takes parts until there are none. An error comes with the number of its part. Parts are taken
    /// in their order and always finished, so that the earliest bad one is always found.
    fn sum_parts<S: RowSums>(&self, mut sum: S) -> Result<S, (usize, TraceError)> {
        let mut open = None;
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = self.parts.get(number) else {
                break;
            };
            let read = self.read_part(*part, number, &mut open, &mut sum);
            read.map_err(|err| {
                self.stop.store(true, Ordering::Relaxed);
                (number, err)
            })?;
        }
        Ok(sum)
    }

    /// Reads a part. Its segment is kept open, for the next part is mostly of the same.
    fn read_part<'a, S: RowSums>(
        &'a self,
        part: SumPart,
        number: usize,
        open: &mut Option<(usize, RowGroups<'a>)>,
        sum: &mut S,
    ) -> Result<(), TraceError> {
        sum.begin_part(u32::try_from(number).unwrap_or(u32::MAX));
        let mut rows = 0;
        let mut take = |row: &EventRow| {
            rows += 1;
            sum.add_row(row);
        };
        match &self.segments[part.segment] {
            tail @ TableSegment::Tail(..) => tail.for_each_row(take)?,
            TableSegment::Sealed(sealed) => {
                let groups = match open {
                    Some((segment, groups)) if *segment == part.segment => groups,
                    _ => {
                        let groups = sealed.open_groups(ColumnNeed::Sums)?;
                        &mut open.insert((part.segment, groups)).1
                    }
                };
                groups.for_each_row(part.group, &mut take)?;
            }
        }
        (self.told)(self.done.fetch_add(rows, Ordering::Relaxed) + rows);
        Ok(())
    }
}
