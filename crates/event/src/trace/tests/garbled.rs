//! Garbled files: an error or some rows, never a panic and never the memory of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;

use super::super::{Trace, TraceError, TraceMeta, TraceWriter};
use super::{meta, place, shootdown, write};
use crate::Tally;

/// One trace with every kind of file: two sealed segments and a tail.
static TRACE: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let (dir, path) = place();
    let mut writer = write(&path, 600, 400);
    writer.push_process(&super::super::TracedProcess {
        pid: 1,
        ..Default::default()
    });
    writer.push_stack(&super::super::TracedStack {
        id: 1,
        ..Default::default()
    });
    writer.set_tally(&Tally::default());
    for n in 0..600 {
        writer.push_wait(&super::flat::wait(n));
        writer.push_sample(&super::flat::sample(n));
        if n == 300 {
            writer.write_now();
        }
    }
    writer.finish(1, |_| ()).unwrap();
    let (_other, unsealed) = place();
    let mut other = write(&unsealed, 300, 1 << 20);
    for n in 0..300 {
        other.push_wait(&super::flat::wait(n));
        other.push_sample(&super::flat::sample(n));
        if n % 100 == 99 {
            other.write_now();
        }
    }
    drop(other);
    for table in ["waits", "samples"] {
        let name = format!("{table}-tail-00001.arrows");
        let next = path.join(format!("{table}-tail-00002.arrows"));
        fs::copy(unsealed.join(name), next).unwrap();
    }
    fs::copy(
        unsealed.join("tail-00001.arrows"),
        path.join("tail-00099.arrows"),
    )
    .unwrap();
    let last = (1..)
        .find(|n| !path.join(format!("events-{n:05}.parquet")).exists())
        .unwrap();
    fs::rename(
        path.join("tail-00099.arrows"),
        path.join(format!("tail-{last:05}.arrows")),
    )
    .unwrap();
    // As if it had not ended, for then the number of rows is open.
    let meta = fs::read_to_string(path.join("meta.json")).unwrap();
    let mut meta: serde_json::Value = serde_json::from_str(&meta).unwrap();
    meta["ended"] = serde_json::Value::Null;
    fs::write(path.join("meta.json"), meta.to_string()).unwrap();
    (dir, path)
});

/// Reads everything there is. An error must be one line of our own.
fn read_all(path: &Path) {
    let result = Trace::open(path).and_then(|trace| {
        let mut rows = 0u64;
        trace.for_each_row(|row| rows += u64::from(row.cause.name().len() > 1))?;
        trace.for_each_wait(|wait| rows += u64::from(wait.role.is_some()))?;
        trace.for_each_sample(|sample| rows += u64::from(sample.samples))?;
        trace.read_processes()?;
        trace.read_stacks()?;
        if let Some(tally) = trace.read_tally()? {
            let _ = (tally.wait.quantile(0.99), tally.stall.quantile(1.0));
        }
        Ok(())
    });
    if let Err(err) = result {
        assert!(err.downcast_ref::<TraceError>().is_some(), "{err:?}");
        assert!(!err.to_string().contains('\n'), "{err}");
    }
}

/// A copy of the trace with one file changed.
fn with(file: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let (_dir, copy) = place();
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&TRACE.1).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let mut bytes = fs::read(copy.join(file)).unwrap();
    change(&mut bytes);
    fs::write(copy.join(file), bytes).unwrap();
    read_all(&copy);
}

fn files() -> Vec<String> {
    let names = fs::read_dir(&TRACE.1).unwrap();
    let mut names: Vec<_> = names
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() > 6, "{names:?}");
    names
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Check that flipped bytes anywhere make neither a panic nor an error that is not ours.
    #[test]
    fn flipped_bytes_are_survived(
        file in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..6),
        at_end: bool,
    ) {
        let files = files();
        with(&files[file.index(files.len())], |bytes| {
            // Headers and footers are where lengths are.
            let from = if at_end { bytes.len().saturating_sub(6_000) } else { 0 };
            for (at, flip) in &flips {
                let at = from + at.index(bytes.len() - from);
                bytes[at] ^= flip;
            }
        });
    }

    /// Check that a file cut anywhere makes neither a panic nor an error that is not ours.
    #[test]
    fn cut_files_are_survived(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let files = files();
        with(&files[file.index(files.len())], |bytes| bytes.truncate(at.index(bytes.len() + 1)));
    }

    /// Check that noise in place of a part of a file is survived.
    #[test]
    fn noise_is_survived(
        file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(),
        noise in prop::collection::vec(any::<u8>(), 1..300),
    ) {
        let files = files();
        with(&files[file.index(files.len())], |bytes| {
            let at = at.index(bytes.len());
            let n = noise.len().min(bytes.len() - at);
            bytes[at..at + n].copy_from_slice(&noise[..n]);
        });
    }
}

/// Check that flips all over a small sealed segment and a small tail, which are mostly headers, are survived.
#[test]
fn flipped_headers_are_survived() {
    let (_dir, path) = place();
    write(&path, 3, 1 << 20).finish(1, |_| ()).unwrap();
    let (_other, unsealed) = place();
    drop(write(&unsealed, 3, 1 << 20));
    for file in [
        path.join("events-00001.parquet"),
        unsealed.join("tail-00001.arrows"),
    ] {
        let dir = file.parent().unwrap();
        let whole = fs::read(&file).unwrap();
        // Every byte with every flip was tried once, and takes minutes.
        for at in (0..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[at] ^= [0x01, 0x80, 0xff][at % 3];
            fs::write(&file, bytes).unwrap();
            read_all(dir);
        }
    }
}

/// Check that a footer with a schema as deep as fits is refused and doesn't end the process.
#[test]
fn deep_schemas_are_refused() {
    let (_dir, path) = place();
    write(&path, 3, 1 << 20).finish(1, |_| ()).unwrap();
    // Version 1, then a list of structures: name "a", one child.
    let levels = 40_000u32;
    let mut footer = vec![0x15, 0x02, 0x19, 0xfc];
    footer.extend([
        levels as u8 | 0x80,
        (levels >> 7) as u8 | 0x80,
        (levels >> 14) as u8,
    ]);
    for _ in 0..levels {
        footer.extend([0x48, 1, b'a', 0x15, 0x02, 0]);
    }
    footer.push(0);
    let mut file = b"PAR1".to_vec();
    file.extend(&footer);
    file.extend((footer.len() as u32).to_le_bytes());
    file.extend(b"PAR1");
    assert!(footer.len() < 256 << 10);
    fs::write(path.join("events-00001.parquet"), file).unwrap();
    let err = Trace::open(&path).err().unwrap();
    assert!(
        matches!(err.downcast_ref(), Some(TraceError::Damaged(..))),
        "{err}"
    );
}

/// Check that the tally of another trace is damaged, however alike their shootdowns are, and that one that does not say
/// whose it is, as from before it did, is read.
#[test]
fn tallies_of_other_traces_are_refused() {
    let (_dir, path) = place();
    let other = path.with_file_name("other.quell");
    for (dir, begun) in [(&path, 5), (&other, 6)] {
        let meta = TraceMeta {
            start_monotonic_ns: begun,
            ..meta()
        };
        let mut writer = TraceWriter::create(dir, &meta, false).unwrap();
        writer.push_shootdown(&shootdown(1));
        writer.set_tally(&Tally::default());
        writer.finish(9, |_| ()).unwrap();
        assert!(Trace::open(dir).unwrap().read_tally().unwrap().is_some());
    }
    let tally = path.join("tally.json");
    fs::copy(other.join("tally.json"), &tally).unwrap();
    let err = Trace::open(&path).unwrap().read_tally().unwrap_err();
    assert!(matches!(err, TraceError::Damaged(..)), "{err}");
    assert!(err.to_string().contains("another trace"), "{err}");
    fs::write(&tally, serde_json::to_string(&Tally::default()).unwrap()).unwrap();
    assert!(Trace::open(&path).unwrap().read_tally().unwrap().is_some());
}

/// Check that a tally whose histograms have another size is damaged, and none is none.
#[test]
fn odd_tallies_are_refused() {
    let (_dir, path) = place();
    let mut writer = write(&path, 3, 1 << 20);
    writer.push_shootdown(&shootdown(1));
    writer.set_tally(&Tally::default());
    writer.finish(1, |_| ()).unwrap();
    let tally = path.join("tally.json");
    let good = fs::read_to_string(&tally).unwrap();
    assert!(Trace::open(&path).unwrap().read_tally().unwrap().is_some());
    fs::write(&tally, good.replacen("[0,", "[0,0,", 1)).unwrap();
    let err = Trace::open(&path).unwrap().read_tally().unwrap_err();
    assert!(matches!(err, TraceError::Damaged(..)), "{err}");
    fs::remove_file(&tally).unwrap();
    assert_eq!(Trace::open(&path).unwrap().read_tally().unwrap(), None);
}
