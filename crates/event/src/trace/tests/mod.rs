//! What a trace promises: all of it comes back, and most of it after a crash.

mod crash;
mod directory;
mod flat;
mod garbled;
mod round_trip;
mod sums;

use std::path::{Path, PathBuf};

use super::comm::plain_comm;
use super::{EventRow, Trace, TraceMeta, TraceWriter, UNSEEN_CPU};
use crate::{Cause, Comm, Shootdown, ShootdownVictim};

/// A directory for one test, and a name in it that is not taken.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.quell");
    (dir, path)
}

fn meta() -> TraceMeta {
    TraceMeta {
        quell: "0.1.0".into(),
        kernel: "6.18.0".into(),
        host: "here".into(),
        start_wall_ns: 1_700_000_000_000_000_000,
        start_monotonic_ns: 5,
        command: vec!["a".into(), "b c".into()],
        cpus: 2,
        stacks: "all".into(),
        backend: "raw_tp".into(),
        ..TraceMeta::default()
    }
}

/// Like a program's: some threads, times that grow, addresses that repeat, now and then all of it.
fn shootdown(n: u64) -> Shootdown {
    let h = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let full = h.is_multiple_of(17);
    let start = 0x7f00_0000_0000 + (h % 1000) * 0x1000;
    let victim = |v: u64| ShootdownVictim {
        cpu: v as u16,
        pid: 100,
        tid: 100 + v as u32,
        comm: Comm::from("worker"),
        bystander: h.is_multiple_of(5),
        delay_ns: 900 + (h % 400) as u32,
        stall_ns: 500 + (h % 100) as u32,
    };
    Shootdown {
        t_ns: n * 3_000 + h % 1000,
        wait_ns: 2_000 + h % 3000,
        pid: 100,
        tid: 100 + (h % 4) as u32,
        comm: Comm::from("program"),
        cpu: (h % 2) as u16,
        cgroup: 77,
        cause: Cause::ALL[h as usize % Cause::ALL.len()],
        syscall: 28,
        start: if full { 0 } else { start },
        end: if full {
            u64::MAX
        } else {
            start + (1 + h % 8) * 0x1000
        },
        own_mm: !h.is_multiple_of(3),
        kernel_stack: (h % 50) as i32,
        user_stack: (h % 90) as i32 - 1,
        victims: (0..1 + h % 3).map(victim).collect(),
        unseen: u16::from(h.is_multiple_of(31)),
    }
}

/// The rows that shootdowns become.
fn rows_of<'a>(all: impl IntoIterator<Item = &'a Shootdown>) -> Vec<EventRow> {
    let mut rows = Vec::new();
    for (id, s) in (0..).zip(all) {
        let none = ShootdownVictim {
            cpu: UNSEEN_CPU,
            ..ShootdownVictim::default()
        };
        let unseen = if s.victims.is_empty() {
            s.unseen.max(1)
        } else {
            s.unseen
        };
        let unseen = std::iter::repeat_n(&none, unseen.into());
        for (index, v) in (0..).zip(s.victims.iter().chain(unseen)) {
            rows.push(EventRow {
                id,
                victim_index: index,
                t_ns: s.t_ns,
                wait_ns: s.wait_ns,
                cause: s.cause,
                syscall: s.syscall,
                pid: s.pid,
                tid: s.tid,
                comm: plain_comm(&s.comm),
                cpu: s.cpu,
                cgroup: s.cgroup,
                start: s.start,
                end: s.end,
                own_mm: s.own_mm,
                kernel_stack: s.kernel_stack,
                user_stack: s.user_stack,
                victim_cpu: v.cpu,
                victim_pid: v.pid,
                victim_tid: v.tid,
                victim_comm: plain_comm(&v.comm),
                bystander: v.bystander,
                delay_ns: v.delay_ns,
                stall_ns: v.stall_ns,
            });
        }
    }
    rows
}

/// All rows of a trace.
fn rows_in(trace: &Trace) -> Vec<EventRow> {
    let mut rows = Vec::new();
    trace.for_each_row(|row| rows.push(*row)).unwrap();
    rows
}

/// A trace of `n` shootdowns in segments of about `segment` rows, written 100 at a time.
fn write(dir: &Path, n: u64, segment: u64) -> TraceWriter {
    let mut writer = TraceWriter::create(dir, &meta(), false).unwrap();
    writer.seal_from(segment);
    for i in 0..n {
        writer.push_shootdown(&shootdown(i));
        if i % 100 == 99 {
            writer.write_now();
        }
    }
    writer.write_now();
    writer
}
