//! What may be replaced, what is refused, and what the refusals say.

use std::fs;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::super::{Trace, TraceError, TraceWriter};
use super::{meta, place, rows_in, write};

fn refused(err: &anyhow::Error) -> &TraceError {
    assert_eq!(err.to_string().lines().count(), 1, "{err}");
    err.downcast_ref().expect("an error of the trace")
}

/// Check that a directory or file that is no trace is refused and left as it is, forced or not.
#[test]
fn foreign_things_are_left_alone() {
    let (_dir, path) = place();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("meta.json"), "{\"mine\": 1}").unwrap();
    for force in [false, true] {
        let err = TraceWriter::create(&path, &meta(), force).err().unwrap();
        assert!(matches!(refused(&err), TraceError::Occupied(_)), "{err}");
        assert!(refused(&err).is_bad_input());
    }
    assert_eq!(
        fs::read_to_string(path.join("meta.json")).unwrap(),
        "{\"mine\": 1}"
    );
    fs::remove_dir_all(&path).unwrap();
    fs::write(&path, "text").unwrap();
    assert!(TraceWriter::create(&path, &meta(), true).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
}

/// Check that a trace is replaced where that is forced, wholly, and that files of others in it stay.
#[test]
fn traces_are_replaced_by_force_only() {
    let (_dir, path) = place();
    write(&path, 300, 100).finish(1, |_| ()).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    let err = TraceWriter::create(&path, &meta(), false).err().unwrap();
    assert!(matches!(refused(&err), TraceError::Exists(_)));
    assert!(err.to_string().contains("--force"), "{err}");
    let mut writer = TraceWriter::create(&path, &meta(), true).unwrap();
    writer.push_shootdown(&super::shootdown(0));
    writer.finish(1, |_| ()).unwrap();
    let rows = rows_in(&Trace::open(&path).unwrap());
    assert!(rows.iter().all(|r| r.id == 0) && !rows.is_empty());
    assert_eq!(fs::read_to_string(path.join("notes.txt")).unwrap(), "mine");
}

/// Check that a trace that is being written is not replaced, forced or not, and can be once its
/// writer is gone.
#[test]
fn traces_under_way_are_left_alone() {
    let (_dir, path) = place();
    // nothing is sealed meanwhile, so the files stay the same
    let writer = write(&path, 300, 1000);
    let before = fs::read_dir(&path).unwrap().count();
    let err = TraceWriter::create(&path, &meta(), true).err().unwrap();
    assert!(matches!(refused(&err), TraceError::Busy(_)), "{err}");
    assert_eq!(fs::read_dir(&path).unwrap().count(), before);
    drop(writer);
    TraceWriter::create(&path, &meta(), true).unwrap();
}

/// Check that a directory that can't be made is refused with its name.
#[test]
fn parents_must_be_there() {
    let (_dir, path) = place();
    let err = TraceWriter::create(&path.join("deep"), &meta(), false)
        .err()
        .unwrap();
    assert!(matches!(refused(&err), TraceError::Create(..)), "{err}");
    assert!(err.to_string().contains("trace.quell/deep"), "{err}");
}

/// Check that what can't be opened as a trace is told apart, each in one line with its file.
#[test]
fn reading_refuses_what_is_no_trace() {
    let (_dir, path) = place();
    let open = || Trace::open(&path).err().unwrap();
    let err = open();
    assert!(matches!(refused(&err), TraceError::Missing(_)), "{err}");
    fs::write(&path, "text").unwrap();
    let err = open();
    assert!(matches!(refused(&err), TraceError::NotATrace(..)), "{err}");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let err = open();
    assert!(matches!(refused(&err), TraceError::NotATrace(..)), "{err}");
    fs::write(
        path.join("meta.json"),
        "{\"schema\": \"quell/trace/2\", \"start\": 1}",
    )
    .unwrap();
    let err = open();
    assert!(
        matches!(refused(&err), TraceError::Version(_, v) if v == "quell/trace/2"),
        "{err}"
    );
    fs::write(path.join("meta.json"), "{\"schema\": \"quell/tally/1\"}").unwrap();
    assert!(matches!(refused(&open()), TraceError::NotATrace(..)));
    for garbled in ["", "{", "[1]", "{\"schema\": \"quell/trace/1\"}"] {
        fs::write(path.join("meta.json"), garbled).unwrap();
        let err = open();
        assert!(matches!(refused(&err), TraceError::Damaged(..)), "{err}");
        assert!(err.to_string().contains("meta.json"), "{err}");
    }
}

/// Check that a foreign, cut or missing Parquet file is named.
#[test]
fn reading_refuses_damaged_segments() {
    let (_dir, path) = place();
    write(&path, 1000, 500).finish(1, |_| ()).unwrap();
    let first = path.join("events-00001.parquet");
    let whole = fs::read(&first).unwrap();
    let damaged = |bytes: &[u8]| {
        fs::write(&first, bytes).unwrap();
        let err = Trace::open(&path).err().unwrap();
        assert!(
            matches!(refused(&err), TraceError::Damaged(p, _) if *p == first),
            "{err}"
        );
        err.to_string()
    };
    assert!(damaged(&whole[..whole.len() / 2]).contains("cut short"));
    assert!(damaged(b"").contains("cut short"));
    assert!(damaged(b"PAR1 is not all that it takes to be one").contains("cut short"));
    assert!(damaged(&foreign()).contains("quell did not write"));
    fs::remove_file(&first).unwrap();
    let err = Trace::open(&path).err().unwrap();
    assert!(
        matches!(refused(&err), TraceError::Damaged(p, _) if *p == first),
        "{err}"
    );
    fs::write(&first, &whole).unwrap();
    Trace::open(&path).unwrap();
    // The last one leaves no gap, but the recording said how many rows there are.
    let mut last = 1;
    while path
        .join(format!("events-{:05}.parquet", last + 1))
        .exists()
    {
        last += 1;
    }
    fs::remove_file(path.join(format!("events-{last:05}.parquet"))).unwrap();
    assert!(
        matches!(refused(&Trace::open(&path).err().unwrap()), TraceError::Damaged(p, _) if *p == path)
    );
}

/// A good Parquet file of somebody else's.
fn foreign() -> Vec<u8> {
    use parquet::schema::parser::parse_message_type;
    let schema = parse_message_type("message m { required int64 id; }").unwrap();
    let writer = parquet::file::writer::SerializedFileWriter::new(
        Vec::new(),
        std::sync::Arc::new(schema),
        std::sync::Arc::default(),
    );
    writer.unwrap().into_inner().unwrap()
}

/// Check that a full disk is told with the directory's name, and that what was written can be read.
#[test]
fn full_disks_leave_a_trace() {
    let (dir, _) = place();
    // By the call and not by mount(8): a child of this process would hold the locks that other tests
    // have just let go, until it is another program (flock(2)).
    let (none, size) = (c"none", c"size=2m");
    let mounted = mount(none, dir.path(), c"tmpfs", MountFlags::empty(), size).is_ok();
    if !mounted {
        eprintln!("SKIPPED full_disks_leave_a_trace: mounting a small tmpfs takes root");
        return;
    }
    let path = dir.path().join("trace.quell");
    let result = std::panic::catch_unwind(|| {
        let mut writer = TraceWriter::create(&path, &meta(), false).unwrap();
        writer.seal_from(5_000);
        let mut told = None;
        for i in 0..200_000 {
            writer.push_shootdown(&super::shootdown(i));
            if i % 1000 == 0
                && let Err(err) = writer.write_due().and_then(|()| writer.try_write_now())
            {
                told = Some(err);
                break;
            }
        }
        let err = told
            .or_else(|| writer.finish(1, |_| ()).err())
            .expect("the disk is full");
        assert!(
            matches!(refused(&err), TraceError::Full(p) if *p == path),
            "{err}"
        );
        assert!(!refused(&err).is_bad_input());
        let trace = Trace::open(&path).unwrap();
        assert!(trace.cut_short());
        let rows = rows_in(&trace);
        assert!(rows.len() > 10_000, "{}", rows.len());
        assert_eq!(
            rows.iter().filter(|r| r.is_first()).count() as u64,
            rows.last().unwrap().id + 1
        );
    });
    unmount(dir.path(), UnmountFlags::DETACH).unwrap();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}
