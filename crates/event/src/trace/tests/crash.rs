//! What kill -9 leaves, at any moment.

use std::fs;
use std::path::Path;

use super::super::tail_frame::read_message;
use super::super::tail_schema::EVENT_SHAPE;
use super::super::{EventRow, Trace, TraceWriter};
use super::{meta, place, rows_in, rows_of, shootdown, write};

/// Where each message of a tail begins, and the file's length.
fn boundaries(tail: &Path) -> Vec<u64> {
    let file = fs::File::open(tail).unwrap();
    let len = file.metadata().unwrap().len();
    let mut all = vec![0];
    while let Some(m) = read_message(&file, all[all.len() - 1], len, &EVENT_SHAPE).unwrap() {
        all.push(m.next);
    }
    assert_eq!(all.last(), Some(&len));
    all
}

fn expected(n: u64) -> Vec<EventRow> {
    rows_of(&(0..n).map(shootdown).collect::<Vec<_>>())
}

/// Check that a tail cut anywhere, also in its schema or at nothing, gives exactly the batches before the cut.
#[test]
fn cut_tails_give_whole_batches() {
    let (_dir, path) = place();
    drop(write(&path, 400, 1 << 20));
    let tail = path.join("tail-00001.arrows");
    let whole = fs::read(&tail).unwrap();
    let boundaries = boundaries(&tail);
    let all = expected(400);
    let mut cuts: Vec<u64> = (0..whole.len() as u64).step_by(97).collect();
    for b in &boundaries {
        cuts.extend((b.saturating_sub(9)..b + 10).filter(|c| *c <= whole.len() as u64));
    }
    let mut counts = std::collections::BTreeSet::new();
    for cut in cuts {
        fs::write(&tail, &whole[..cut as usize]).unwrap();
        let trace = Trace::open(&path).unwrap();
        let rows = rows_in(&trace);
        assert_eq!(rows, all[..rows.len()], "cut at {cut}");
        assert_eq!(trace.row_count(), rows.len() as u64);
        assert!(trace.cut_short());
        let readable = boundaries.iter().rev().find(|b| **b <= cut).unwrap();
        assert_eq!(trace.unread_bytes(), cut - readable, "cut at {cut}");
        counts.insert(rows.len());
    }
    // None, and the rows of each number of batches of 100 shootdowns.
    assert_eq!(counts.len(), 5, "{counts:?}");
    assert!(counts.contains(&0) && counts.contains(&all.len()));
}

/// Check that rows are not doubled where the machine stopped between naming a segment and removing its tail.
#[test]
fn sealed_segments_hide_their_tails() {
    let (_dir, path) = place();
    let writer = write(&path, 400, 1 << 20);
    let tail = path.join("tail-00001.arrows");
    let before = fs::read(&tail).unwrap();
    writer.finish(1, |_| ()).unwrap();
    assert!(!tail.exists());
    fs::write(&tail, &before).unwrap();
    assert_eq!(rows_in(&Trace::open(&path).unwrap()), expected(400));
    // Half-written files are nobody's.
    fs::write(path.join("events-00001.parquet.tmp"), "half").unwrap();
    fs::write(path.join("meta.json.tmp"), "{").unwrap();
    assert_eq!(rows_in(&Trace::open(&path).unwrap()), expected(400));
    // And where the power went with the sealed file not on the disk, the tail counts.
    fs::write(path.join("events-00001.parquet"), "").unwrap();
    assert_eq!(rows_in(&Trace::open(&path).unwrap()), expected(400));
}

/// Check that a recording that is read while it goes on gives what is written so far, sealed or not.
#[test]
fn open_recordings_can_be_read() {
    let (_dir, path) = place();
    let mut writer = write(&path, 1000, 300);
    let trace = Trace::open(&path).unwrap();
    for i in 1000..1200 {
        writer.push_shootdown(&shootdown(i));
    }
    writer.finish(1, |_| ()).unwrap();
    assert_eq!(rows_in(&trace), expected(1000));
    assert_eq!(rows_in(&Trace::open(&path).unwrap()), expected(1200));
}

/// Check that a cut last line of a side table is left out, and a garbled one in the middle too.
#[test]
fn cut_lines_are_left_out() {
    let (_dir, path) = place();
    let mut writer = TraceWriter::create(&path, &meta(), false).unwrap();
    for pid in 1..=3 {
        writer.push_process(&super::super::TracedProcess {
            pid,
            ..Default::default()
        });
    }
    writer.finish(1, |_| ()).unwrap();
    let table = path.join("processes.jsonl");
    let whole = fs::read_to_string(&table).unwrap();
    let read = || {
        Trace::open(&path)
            .unwrap()
            .read_processes()
            .unwrap()
            .rows
            .len()
    };
    for cut in 0..=whole.len() {
        fs::write(&table, &whole[..cut]).unwrap();
        assert_eq!(read(), whole[..cut].matches('\n').count(), "cut at {cut}");
    }
    let garbled = whole.replacen("\"pid\":2", "\"pid\":x", 1);
    fs::write(&table, garbled).unwrap();
    assert_eq!(read(), 2);
    fs::remove_file(&table).unwrap();
    assert_eq!(read(), 0);
}
