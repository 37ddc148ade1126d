//! What goes in comes out.

use parquet::file::reader::FileReader as _;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{
    MappedModule, StackFrame, StackKind, Trace, TraceMeta, TraceWriter, TracedProcess, TracedStack,
};
use super::{meta, place, rows_in, rows_of, shootdown, write};
use crate::{
    Cause, Comm, CulpritTally, Histogram, Shootdown, ShootdownCounts, ShootdownVictim, Tally,
    VictimTally,
};

fn comms() -> impl Strategy<Value = Comm> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(Comm),
        "\\PC{0,8}".prop_map(|s: String| Comm::from(s.as_str())),
        Just(Comm::from("")),
        Just(Comm::from("a\tb\n\u{1b}[1m")),
        // As the kernel cuts a name of three-byte letters.
        Just(Comm::from("日本語の名前")),
    ]
}

prop_compose! {
    fn victims()(
        cpu in 0u16..u16::MAX, (pid, tid) in any::<(u32, u32)>(), comm in comms(),
        (bystander, delay_ns, stall_ns) in any::<(bool, u32, u32)>(),
    ) -> ShootdownVictim {
        ShootdownVictim { cpu, pid, tid, comm, bystander, delay_ns, stall_ns }
    }
}

prop_compose! {
    fn shootdowns()(
        (t_ns, wait_ns) in (0..=i64::MAX as u64, 0..=i64::MAX as u64),
        (pid, tid, cpu, cgroup) in any::<(u32, u32, u16, u64)>(),
        comm in comms(),
        cause in proptest::sample::select(&Cause::ALL),
        syscall in any::<i16>(),
        (start, end, full, own_mm) in any::<(u64, u64, bool, bool)>(),
        (kernel_stack, user_stack) in any::<(i32, i32)>(),
        victims in prop_oneof![9 => vec(victims(), 0..4), 1 => vec(victims(), 100..300)],
        unseen in prop_oneof![9 => Just(0u16), 1 => 0u16..70],
    ) -> Shootdown {
        let end = if full { u64::MAX } else { end };
        Shootdown {
            t_ns, wait_ns, pid, tid, comm, cpu, cgroup, cause, syscall, start, end, own_mm,
            kernel_stack, user_stack, victims, unseen,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Check that every row comes back, from tails and from sealed segments, in the order of recording.
    #[test]
    fn all_rows_come_back(all in vec(shootdowns(), 0..40), segment in 1u64..200) {
        let (_dir, path) = place();
        let mut writer = TraceWriter::create(&path, &meta(), false).unwrap();
        writer.seal_from(segment);
        for (i, s) in all.iter().enumerate() {
            writer.push_shootdown(s);
            if i % 7 == 0 {
                writer.write_now();
            }
        }
        writer.write_now();
        let expected = rows_of(&all);
        prop_assert_eq!(&rows_in(&Trace::open(&path).unwrap()), &expected);

        let mut seen = 0;
        let summary = writer.finish(99, |p| seen = p.rows).unwrap();
        let trace = Trace::open(&path).unwrap();
        prop_assert_eq!(&rows_in(&trace), &expected);
        prop_assert_eq!(trace.row_count(), expected.len() as u64);
        prop_assert_eq!((summary.rows, summary.shootdowns), (trace.row_count(), all.len() as u64));
        prop_assert_eq!(seen, trace.row_count());
        prop_assert!(!trace.cut_short());
        prop_assert_eq!(trace.unread_bytes(), 0);
    }
}

/// Check that a recording that saw nothing leaves a segment without rows, with its columns.
#[test]
fn no_rows() {
    let (_dir, path) = place();
    write(&path, 0, 100).finish(1, |_| ()).unwrap();
    let trace = Trace::open(&path).unwrap();
    assert!(!trace.cut_short());
    assert_eq!(rows_in(&trace), []);
    let file = std::fs::File::open(path.join("events-00001.parquet")).unwrap();
    let reader = parquet::file::reader::SerializedFileReader::new(file).unwrap();
    let meta = reader.metadata().file_metadata();
    assert_eq!(meta.num_rows(), 0);
    assert!(meta.schema_descr().num_columns() > 20);
}

/// Check that more rows than a batch, a row group and a page hold come back, and that nothing but sealed segments is left.
#[test]
fn long_traces_come_back() {
    let (_dir, path) = place();
    let mut writer = TraceWriter::create(&path, &meta(), false).unwrap();
    writer.seal_from(400_000);
    let all: Vec<_> = (0..300_000).map(shootdown).collect();
    for (i, s) in all.iter().enumerate() {
        writer.push_shootdown(s);
        // Now and then far more than a batch comes between two ticks.
        if i % 90_000 == 0 {
            writer.write_now();
        }
    }
    writer.finish(1, |_| ()).unwrap();
    let trace = Trace::open(&path).unwrap();
    let expected = rows_of(&all);
    let mut at = 0;
    trace
        .for_each_row(|row| {
            assert_eq!(*row, expected[at]);
            at += 1;
        })
        .unwrap();
    assert_eq!(at, expected.len());
    let left: Vec<_> = std::fs::read_dir(&path)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(left.iter().all(|n| {
        let n = n.to_str().unwrap();
        !n.ends_with(".tmp") && !n.ends_with(".arrows")
    }));
}

/// Check that whatever is told by a trace's files has nothing left that a terminal acts on, and is bounded.
#[test]
fn what_others_wrote_is_cleaned() {
    let (_dir, path) = place();
    let hostile = || "\u{1b}]0;x\u{7}\n\u{202e}\u{9b}".repeat(1 << 16);
    let meta = TraceMeta {
        command: vec![hostile().into()],
        ..meta()
    };
    let mut writer = TraceWriter::create(&path, &meta, false).unwrap();
    let counts = CulpritTally {
        pid: 1,
        comm: hostile(),
        cgroup: 0,
        cause: Cause::Other,
        detail: Some(hostile()),
        counts: ShootdownCounts::default(),
    };
    let victim = VictimTally {
        pid: 1,
        comm: hostile(),
        cgroup: 0,
        bystander: false,
        hits: 1,
        stall_ns: 1,
    };
    writer.set_tally(&Tally {
        culprits: vec![counts],
        victims: vec![victim],
        ..Tally::default()
    });
    let module = MappedModule {
        path: hostile(),
        build_id: Some(hostile()),
        perms: hostile(),
        ..MappedModule::default()
    };
    writer.push_process(&TracedProcess {
        comm: hostile(),
        exe: hostile(),
        cmdline: vec![hostile()],
        modules: vec![module],
        ..TracedProcess::default()
    });
    writer.push_stack(&TracedStack {
        frames: vec![StackFrame {
            symbol: Some(hostile()),
            module: Some(hostile()),
            ..StackFrame::default()
        }],
        ..TracedStack::default()
    });
    writer.push_shootdown(&Shootdown {
        comm: Comm(*b"\x1b[31m\xe2\x80\xae\n123456\0"),
        ..shootdown(1)
    });
    writer.finish(9, |_| ()).unwrap();
    let file = path.join("meta.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text
        .replace("raw_tp", "raw\\u001b[2J")
        .replace("here", "\\u202e");
    std::fs::write(&file, text).unwrap();
    let trace = Trace::open(&path).unwrap();
    let processes = trace.read_processes().unwrap().rows;
    let stacks = trace.read_stacks().unwrap().rows;
    assert_eq!((processes.len(), stacks.len()), (1, 1));
    assert_eq!(
        (&*trace.meta().backend, &*trace.meta().host),
        ("raw?[2J", "?")
    );
    assert_eq!(rows_in(&trace)[0].comm.as_text(), "?[31m??123456");
    let all = format!("{:?}{processes:?}{stacks:?}", trace.meta());
    let tally = trace.read_tally().unwrap().unwrap();
    let all = format!("{all}{:?}{:?}", tally.culprits, tally.victims);
    // written by fmt::Debug, which would escape them
    assert!(
        !all.contains("\\u{") && !all.contains("\\n"),
        "{:.2000}",
        all
    );
    assert!(all.len() < 20 * crate::text::MAX_TEXT_CHARS * 4);
}

/// Check that meta, tally, processes and stacks come back, and that later lines replace earlier ones.
#[test]
fn side_tables_come_back() {
    let (_dir, path) = place();
    let mut writer = TraceWriter::create(&path, &meta(), false).unwrap();
    let mut wait = Histogram::default();
    wait.record(1234);
    let mut tally = Tally {
        culprits: vec![CulpritTally {
            pid: 1,
            comm: "a \"b\" é".into(),
            cgroup: u64::MAX,
            cause: Cause::Munmap,
            detail: Some("f".into()),
            counts: ShootdownCounts {
                shootdowns: 3,
                ..ShootdownCounts::default()
            },
        }],
        wait,
        ..Tally::default()
    };
    writer.set_tally(&tally);
    writer.write_due().unwrap();
    assert_eq!(
        Trace::open(&path).unwrap().read_tally().unwrap(),
        Some(tally.clone())
    );
    tally.empty_sends = 9;
    writer.set_tally(&tally);
    let mut process = TracedProcess {
        pid: 7,
        t_ns: 8,
        comm: "x".into(),
        exe: "/bin/x".into(),
        cmdline: vec!["x".into(), "\\ é".into()],
        modules: vec![MappedModule {
            path: "/bin/x".into(),
            start: 1,
            end: u64::MAX,
            offset: 2,
            perms: "r-xp".into(),
            dev: 3,
            inode: 4,
            build_id: Some("ab".into()),
        }],
        stranger: false,
    };
    writer.push_process(&process);
    process.comm = "y".into();
    process.stranger = true;
    writer.push_process(&process);
    let stack = TracedStack {
        id: 3,
        kind: StackKind::User,
        pid: Some(7),
        frames: vec![StackFrame {
            addr: 5,
            symbol: Some("main".into()),
            ..StackFrame::default()
        }],
        cut: true,
        gone: false,
    };
    let kernel = TracedStack {
        id: 4,
        kind: StackKind::Kernel,
        ..TracedStack::default()
    };
    writer.push_stack(&TracedStack {
        frames: Vec::new(),
        ..stack.clone()
    });
    writer.write_now();
    writer.replace_stacks(&[stack.clone(), kernel.clone()]);
    writer.finish(12, |_| ()).unwrap();
    let lines = std::fs::read_to_string(path.join("stacks.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2, "one line each: {lines}");

    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.read_tally().unwrap(), Some(tally));
    assert_eq!(trace.read_processes().unwrap().rows, [(7, process)].into());
    assert_eq!(
        trace.read_stacks().unwrap().rows,
        [(3, stack), (4, kernel)].into()
    );
    let mut read = trace.meta().clone();
    assert_eq!(
        read.ended.take().map(|e| (e.monotonic_ns, e.rows)),
        Some((12, 0))
    );
    read.schema.clear();
    assert_eq!(read, meta());
}

/// Check that each shootdown has exactly one first row, also where nobody is named as its victim.
#[test]
fn first_rows_count_shootdowns() {
    let (_dir, path) = place();
    let mut writer = write(&path, 500, 1 << 20);
    writer.push_shootdown(&Shootdown::default());
    writer.push_shootdown(&Shootdown {
        unseen: 3,
        ..Shootdown::default()
    });
    writer.finish(1, |_| ()).unwrap();
    let rows = rows_in(&Trace::open(&path).unwrap());
    assert_eq!(rows.iter().filter(|r| r.is_first()).count(), 502);
    let unseen: Vec<_> = rows
        .iter()
        .filter(|r| r.id >= 500)
        .map(|r| r.is_unseen())
        .collect();
    assert_eq!(unseen, [true; 4]);
}
