//! Rows summed up on several threads.

use super::super::{EventRow, RowSums, Trace};
use super::{place, write};

/// Keeps what it was given.
#[derive(Default)]
struct Kept {
    parts: Vec<u32>,
    rows: Vec<(u32, EventRow)>,
}

/// All of a row that a sum may use.
fn what(part: u32, row: &EventRow) -> (u32, EventRow) {
    let row = EventRow {
        id: 0,
        syscall: 0,
        cpu: 0,
        kernel_stack: 0,
        victim_tid: 0,
        ..*row
    };
    (part, row)
}

impl RowSums for Kept {
    fn begin_part(&mut self, part: u32) {
        self.parts.push(part);
    }

    fn add_row(&mut self, row: &EventRow) {
        let part = self.parts.last().copied();
        self.rows.push(what(part.unwrap(), row));
    }
}

/// Check that every row is summed up once, with all that a sum may use, that its part tells its place, and that a thread has its parts
/// in order.
#[test]
fn every_row_is_summed_once() {
    let (_dir, path) = place();
    write(&path, 5_000, 1_000).finish(1, |_| ()).unwrap();
    let trace = Trace::open(&path).unwrap();
    let told = std::sync::atomic::AtomicU64::new(0);
    let kept = trace
        .sum_rows(Kept::default, &|rows| {
            told.fetch_max(rows, std::sync::atomic::Ordering::Relaxed);
        })
        .unwrap();
    let mut summed = Vec::new();
    for kept in kept {
        assert!(kept.parts.is_sorted());
        summed.extend(kept.rows);
    }
    // stable, so that the rows of a part stay as they came
    summed.sort_by_key(|(part, ..)| *part);
    let mut rows = Vec::new();
    trace.for_each_row(|row| rows.push(what(0, row))).unwrap();
    summed.iter_mut().for_each(|row| row.0 = 0);
    assert_eq!(summed, rows);
    assert_eq!(told.into_inner(), trace.row_count());
}

/// Check that a garbled segment is the same error for who sums up as for who reads in order.
#[test]
fn garbled_segments_are_told() {
    let (_dir, path) = place();
    write(&path, 5_000, 1_000).finish(1, |_| ()).unwrap();
    let file = path.join("events-00002.parquet");
    let mut bytes = std::fs::read(&file).unwrap();
    let pages = bytes.len() - 8 * 1024;
    bytes[4..pages].fill(0);
    std::fs::write(&file, bytes).unwrap();
    let trace = Trace::open(&path).unwrap();
    let err = trace.sum_rows(Kept::default, &|_| {}).err().unwrap();
    assert!(err.to_string().contains("events-00002"), "{err}");
    let err = trace.for_each_row(|_| {}).unwrap_err();
    assert!(err.to_string().contains("events-00002"), "{err}");
}
