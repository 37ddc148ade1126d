//! Waits and samples: all of them come back, sealed or not, and after a crash those before the cut.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::super::{SampleRow, TableReadCounts, Trace, TraceError, TraceWriter, WaitRow};
use super::{meta, place};
use crate::account::{HolderRole, MechanismPart};
use crate::{Comm, Mechanism, Text};

/// Like a program's: few mechanisms and holders, times that grow.
pub(super) fn wait(n: u64) -> WaitRow {
    let h = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let is_lock = h.is_multiple_of(3);
    WaitRow {
        t_ns: n * 70_000 + h % 1000,
        wait_ns: 5_000 + h % 90_000,
        pid: 100,
        tid: 100 + (h % 7) as u32,
        comm: Comm::from("worker"),
        mechanism: Some(Mechanism::ALL[h as usize % Mechanism::ALL.len()]),
        syscall: (h % 400) as i16 - 3,
        kernel_stack: (h % 9) as i32,
        user_stack: (h % 20) as i32 - 1,
        role: is_lock.then_some(HolderRole::ALL[h as usize % HolderRole::ALL.len()]),
        holder_pid: if is_lock { 200 } else { 0 },
        holder_tid: if is_lock { 201 } else { 0 },
        holder_comm: if is_lock {
            Comm::from("holder")
        } else {
            Comm::default()
        },
        holder_doing: if is_lock {
            Text::from("write /proc/100/clear_refs")
        } else {
            Text::default()
        },
    }
}

pub(super) fn sample(n: u64) -> SampleRow {
    let h = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mechanism = (!h.is_multiple_of(4)).then_some(Mechanism::FaultAnon);
    SampleRow {
        t_ns: n * 1_000_000,
        samples: if mechanism.is_some() {
            1
        } else {
            1 + h as u32 % 9
        },
        cpu: (h % 300) as u16,
        pid: 100,
        tid: 100 + (h % 7) as u32,
        comm: Comm::from("worker"),
        mechanism,
        part: if mechanism.is_some() {
            MechanismPart::ALL[h as usize % MechanismPart::ALL.len()]
        } else {
            MechanismPart::Other
        },
        kernel_stack: (h % 9) as i32 - 1,
        user_stack: (h % 20) as i32 - 1,
    }
}

fn waits_in(path: &Path) -> anyhow::Result<(Vec<WaitRow>, TableReadCounts)> {
    let mut all = Vec::new();
    let read = Trace::open(path)?.for_each_wait(|wait| all.push(wait.clone()))?;
    Ok((all, read))
}

fn samples_in(path: &Path) -> anyhow::Result<Vec<SampleRow>> {
    let mut all = Vec::new();
    Trace::open(path)?.for_each_sample(|sample| all.push(*sample))?;
    Ok(all)
}

/// A recording of so many of each, written 100 at a time, in segments of `segment` rows or more.
fn record(path: &Path, n: u64, segment: u64) -> TraceWriter {
    let mut writer = TraceWriter::create(path, &meta(), false).unwrap();
    writer.seal_from(segment);
    for i in 0..n {
        writer.push_wait(&wait(i));
        writer.push_sample(&sample(i));
        if i % 100 == 99 {
            writer.write_now();
        }
    }
    writer.write_now();
    writer
}

/// Check that all rows come back in their order, whether sealed in one segment or in several, or not sealed.
#[test]
fn rows_come_back() {
    let waits: Vec<WaitRow> = (0..1050).map(wait).collect();
    let samples: Vec<SampleRow> = (0..1050).map(sample).collect();
    for segment in [300, 1 << 20] {
        let (_dir, path) = place();
        let writer = record(&path, 1050, segment);
        assert_eq!(waits_in(&path).unwrap().0, waits);
        assert_eq!(samples_in(&path).unwrap(), samples);
        let summary = writer.finish(9, |_| ()).unwrap();
        assert!(summary.bytes > 1000, "{summary:?}");
        let (found, read) = waits_in(&path).unwrap();
        assert_eq!(found, waits);
        assert_eq!((read.rows, read.unread_bytes), (1050, 0));
        assert_eq!(samples_in(&path).unwrap(), samples);
        let ended = Trace::open(&path).unwrap().meta().ended.unwrap();
        assert_eq!(
            (ended.waits, ended.samples, ended.left_out),
            (Some(1050), Some(1050), 0)
        );
        let sealed = |n: u32| path.join(format!("waits-{n:05}.parquet")).exists();
        assert_eq!((sealed(1), sealed(2)), (true, segment == 300));
    }
}

/// Check that a recording without any leaves a file without rows, so that a query finds one, and that traces of before
/// there were any have none.
#[test]
fn none_are_none() {
    let (_dir, path) = place();
    record(&path, 0, 100).finish(9, |_| ()).unwrap();
    for table in ["waits", "samples"] {
        assert!(path.join(format!("{table}-00001.parquet")).exists());
    }
    assert_eq!(
        waits_in(&path).unwrap(),
        (Vec::new(), TableReadCounts::default())
    );
    // as quell wrote it before
    for table in ["waits", "samples"] {
        fs::remove_file(path.join(format!("{table}-00001.parquet"))).unwrap();
    }
    let text = fs::read_to_string(path.join("meta.json")).unwrap();
    let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ended = old["ended"].as_object_mut().unwrap();
    for key in ["waits", "samples", "left_out"] {
        assert!(ended.remove(key).is_some(), "{key}");
    }
    fs::write(path.join("meta.json"), old.to_string()).unwrap();
    assert_eq!(
        waits_in(&path).unwrap(),
        (Vec::new(), TableReadCounts::default())
    );
    assert!(samples_in(&path).unwrap().is_empty());
}

/// Check that a tail cut anywhere gives whole batches before the cut, and that all else of the trace is read as before.
#[test]
fn cut_tails_give_whole_batches() {
    let (_dir, path) = place();
    drop(record(&path, 300, 1 << 20));
    let tail = path.join("waits-tail-00001.arrows");
    let whole = fs::read(&tail).unwrap();
    let all: Vec<WaitRow> = (0..300).map(wait).collect();
    let mut counts = std::collections::BTreeSet::new();
    for cut in (0..=whole.len()).rev().step_by(61) {
        fs::write(&tail, &whole[..cut]).unwrap();
        let (found, read) = waits_in(&path).unwrap();
        assert_eq!(found, all[..found.len()], "cut at {cut}");
        assert_eq!(read.rows, found.len() as u64);
        assert!((read.unread_bytes as usize) <= cut);
        counts.insert(found.len());
        assert_eq!(samples_in(&path).unwrap().len(), 300);
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [0, 100, 200, 300]);
}

/// Check that what is missing or cut of waits is an error of theirs with the file's name, and of nothing else.
#[test]
fn missing_waits_are_told() {
    let (_dir, path) = place();
    record(&path, 700, 300).finish(9, |_| ()).unwrap();
    let first = path.join("waits-00001.parquet");
    let bytes = fs::read(&first).unwrap();
    fs::write(&first, &bytes[..bytes.len() / 2]).unwrap();
    let err = waits_in(&path).unwrap_err();
    assert!(err.to_string().contains("waits-00001.parquet"), "{err}");
    fs::remove_file(&first).unwrap();
    let err = waits_in(&path).unwrap_err();
    assert!(
        matches!(err.downcast_ref(), Some(TraceError::Damaged(..))),
        "{err}"
    );
    // all of them
    for n in 2..9 {
        let _ = fs::remove_file(path.join(format!("waits-{n:05}.parquet")));
    }
    let err = waits_in(&path).unwrap_err();
    assert!(err.to_string().contains("0 of 700 rows of waits"), "{err}");
    // a file of the other table
    fs::copy(path.join("samples-00001.parquet"), &first).unwrap();
    let err = waits_in(&path).unwrap_err();
    assert!(err.to_string().contains("other columns"), "{err}");
    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.row_count(), 0);
    assert_eq!(samples_in(&path).unwrap().len(), 700);
}

/// Check that replacing a trace removes the waits and samples of the one before.
#[test]
fn replaced_traces_leave_nothing() {
    let (_dir, path) = place();
    record(&path, 700, 300).finish(9, |_| ()).unwrap();
    let writer = TraceWriter::create(&path, &meta(), true).unwrap();
    writer.finish(9, |_| ()).unwrap();
    assert_eq!(
        waits_in(&path).unwrap(),
        (Vec::new(), TableReadCounts::default())
    );
}

/// Any text, also with what no file may have.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{0,120}", "[ -~]{0,90}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Check that any values come back as they were, names as the text that they are, and longer text cut.
    #[test]
    fn any_values_come_back(
        numbers in any::<(u64, u64, u32, u32, i16, i32, i32)>(),
        comm in any::<[u8; 16]>(), doing in text(), count in 1_u64..5, seals: bool,
    ) {
        let (t_ns, wait_ns, pid, tid, syscall, kernel_stack, user_stack) = numbers;
        let one = WaitRow {
            t_ns: t_ns >> 1, wait_ns: wait_ns >> 1, pid, tid, syscall, kernel_stack, user_stack,
            comm: Comm(comm),
            holder_comm: Comm(comm),
            role: Some(HolderRole::Queued),
            holder_doing: Text::from(doing.as_str()),
            ..wait(7)
        };
        let (_dir, path) = place();
        let mut writer = TraceWriter::create(&path, &meta(), false).unwrap();
        (0..count).for_each(|_| writer.push_wait(&one));
        writer.write_now();
        if seals {
            writer.finish(1, |_| ()).unwrap();
        } else {
            drop(writer);
        }
        let (found, _) = waits_in(&path).unwrap();
        prop_assert_eq!(found.len() as u64, count);
        for found in found {
            let comm = super::plain_comm(&one.comm);
            prop_assert_eq!(found.comm.as_text(), comm.as_text());
            prop_assert!(one.holder_doing.starts_with(found.holder_doing.as_str()));
            prop_assert!(found.holder_doing.len() >= one.holder_doing.len().min(77));
            let same = WaitRow { comm: one.comm, holder_comm: one.holder_comm, holder_doing: one.holder_doing.clone(), ..found };
            prop_assert_eq!(&same, &one);
        }
    }
}
