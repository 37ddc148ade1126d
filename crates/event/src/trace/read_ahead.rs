//! Rows in order, unpacked on one thread while they are used on another.

use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use super::TraceError;
use super::event_row::EventRow;
use super::segments::TableSegment;

/// So many rows change hands at a time: few enough to be in a CPU's cache still.
const ROWS_PER_BATCH: usize = 1 << 11;
/// So many batches may lie ready, so that neither thread waits for the other's single slow rows.
const MAX_READY_BATCHES: usize = 8;

/// Hands over every row of all segments: to `beside` on the thread that unpacks them, which has less
/// to do, and after that to `each` on this one.
pub(super) fn for_each_row_ahead(
    segments: &[TableSegment],
    beside: impl FnMut(&EventRow) + Send,
    mut each: impl FnMut(&EventRow),
) -> Result<(), TraceError> {
    let (full, take) = sync_channel(MAX_READY_BATCHES);
    let (used, again) = channel();
    thread::scope(|scope| {
        let unpacker = Unpacker {
            full,
            again,
            rows: Vec::with_capacity(ROWS_PER_BATCH),
        };
        let thread = scope.spawn(move || unpacker.unpack_segments(segments, beside));
        for rows in take {
            let rows: Vec<EventRow> = rows;
            rows.iter().for_each(&mut each);
            // nobody takes it back at the end
            let _ = used.send(rows);
        }
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Fills batches and sends them, in those that come back.
struct Unpacker {
    full: SyncSender<Vec<EventRow>>,
    again: Receiver<Vec<EventRow>>,
    rows: Vec<EventRow>,
}

impl Unpacker {
    fn unpack_segments(
        mut self,
        segments: &[TableSegment],
        mut beside: impl FnMut(&EventRow) + Send,
    ) -> Result<(), TraceError> {
        let result = segments.iter().try_for_each(|segment| {
            segment.for_each_row(|row| {
                beside(row);
                self.rows.push(*row);
                if self.rows.len() == ROWS_PER_BATCH {
                    self.send_batch();
                }
            })
        });
        // rows before an error are handed over too
        self.send_batch();
        result
    }

    fn send_batch(&mut self) {
        let mut empty = self.again.try_recv().unwrap_or_default();
        empty.clear();
        let rows = mem::replace(&mut self.rows, empty);
        // The other side goes away only by a panic, which is told there.
        let _ = self.full.send(rows);
    }
}
