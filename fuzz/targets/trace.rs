//! A trace whose files are foreign: the first byte says which file of a sound trace is replaced, the
//! rest is its content. Everything that a report and exports read of it is read.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use quell_event::Shootdown;
use quell_event::trace::{SampleRow, Trace, TraceMeta, TraceWriter, WaitRow};

/// A sound trace: one segment of each table that is sealed, and the side tables.
fn sound() -> &'static Path {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a folder");
        let meta = TraceMeta { cpus: 2, ..TraceMeta::default() };
        let mut writer = TraceWriter::create(&dir.path().join("t.quell"), &meta, true).expect("a trace");
        for t_ns in 1..100 {
            writer.push_shootdown(&Shootdown { t_ns, end: 4096, unseen: 1, ..Shootdown::default() });
        }
        for t_ns in 1..100 {
            writer.push_wait(&WaitRow { t_ns, wait_ns: 7, ..WaitRow::default() });
            writer.push_sample(&SampleRow { t_ns, ..SampleRow::default() });
        }
        writer.finish(100, |_| {}).expect("an end");
        dir
    })
    .path()
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, content)) = bytes.split_first() else { return };
    let source = sound().join("t.quell");
    let dir = tempfile::tempdir().expect("a folder");
    let mut names: Vec<_> = std::fs::read_dir(&source)
        .expect("a folder")
        .flatten()
        .map(|e| e.file_name())
        .collect();
    for tail in ["tail-00009.arrows", "waits-tail-00002.arrows", "samples-tail-00002.arrows"] {
        names.push(tail.into());
    }
    names.sort();
    let replaced = &names[usize::from(which) % names.len()];
    for name in &names {
        if name == replaced {
            std::fs::write(dir.path().join(name), content).expect("a file");
        } else if source.join(name).exists() {
            std::fs::copy(source.join(name), dir.path().join(name)).expect("a copy");
        }
    }
    let Ok(trace) = Trace::open(dir.path()) else { return };
    let mut rows = 0_u64;
    let _ = trace.for_each_row(|row| rows += u64::from(row.is_first()));
    let _ = trace.for_each_wait(|wait| rows += u64::from(wait.role.is_some()));
    let _ = trace.for_each_sample(|sample| rows += u64::from(sample.samples));
    let _ = (trace.read_tally(), trace.read_processes(), trace.read_stacks(), rows);
});
