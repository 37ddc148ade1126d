//! Rows in order, unpacked on one thread while they are used on another.

use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use super::Error;
use super::row::Row;
use super::segments::Segment;

/// Rows that change hands at a time: few enough to be in a CPU's cache still.
const ROWS: usize = 1 << 11;
/// Batches that may lie ready, so that neither thread waits for the other's single slow rows.
const AHEAD: usize = 8;

/// Hands over every row of all segments: to `beside` on the thread that unpacks them, which has less
/// to do, and after that to `each` on this one.
pub(super) fn for_each(
    segments: &[Segment],
    beside: impl FnMut(&Row) + Send,
    mut each: impl FnMut(&Row),
) -> Result<(), Error> {
    let (full, take) = sync_channel(AHEAD);
    let (used, again) = channel();
    thread::scope(|scope| {
        let unpacker = Unpacker {
            full,
            again,
            rows: Vec::with_capacity(ROWS),
        };
        let thread = scope.spawn(move || unpacker.unpack(segments, beside));
        for rows in take {
            let rows: Vec<Row> = rows;
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
    full: SyncSender<Vec<Row>>,
    again: Receiver<Vec<Row>>,
    rows: Vec<Row>,
}

impl Unpacker {
    fn unpack(
        mut self,
        segments: &[Segment],
        mut beside: impl FnMut(&Row) + Send,
    ) -> Result<(), Error> {
        let result = segments.iter().try_for_each(|segment| {
            segment.for_each(|row| {
                beside(row);
                self.rows.push(*row);
                if self.rows.len() == ROWS {
                    self.send();
                }
            })
        });
        // also what came before an error
        self.send();
        result
    }

    fn send(&mut self) {
        let mut empty = self.again.try_recv().unwrap_or_default();
        empty.clear();
        let rows = mem::replace(&mut self.rows, empty);
        // The other side goes away only by a panic, which is told there.
        let _ = self.full.send(rows);
    }
}
