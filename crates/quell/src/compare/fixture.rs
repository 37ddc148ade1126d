//! Made-up sides for tests.

use quell_event::account::{AccountSummary, MechanismRow};
use quell_event::tally_summary::{CauseRow, CulpritRow, Quantiles, RegionRow, ThreadRow};
use quell_event::{Mechanism, TallySummary};

use super::side::TraceSide;
use super::{Amount, Comparison};

/// Names with their shootdowns, for every kind of row.
#[derive(Clone, Debug, Default)]
pub(super) struct MadeSide {
    pub(super) duration_ns: u64,
    pub(super) causes: Vec<(&'static str, u64)>,
    pub(super) culprits: Vec<(&'static str, u64)>,
    pub(super) threads: Vec<(&'static str, u64)>,
    pub(super) regions: Vec<(&'static str, u64)>,
    pub(super) stacks: Vec<(&'static [&'static str], u64)>,
}

impl MadeSide {
    /// Each shootdown has one victim, 3 µs of wait and 400 ns of stall.
    pub(super) fn to_trace_side(&self) -> TraceSide {
        let n: u64 = self.causes.iter().map(|c| c.1).sum();
        let spread = |each: u64| Quantiles {
            sum: n * each,
            p50: each,
            p99: 4 * each,
            p999: 9 * each,
            max: 20 * each,
        };
        let cause = |&(cause, n): &(&str, u64)| CauseRow {
            cause: cause.to_owned(),
            shootdowns: n,
            victims: n,
            wait_ns: 3_000 * n,
            stall_ns: 400 * n,
            ..CauseRow::default()
        };
        let thread = |&(comm, n): &(&str, u64)| ThreadRow {
            comm: comm.into(),
            shootdowns: n,
            wait_ns: 3_000 * n,
            ..ThreadRow::default()
        };
        let mut culprits: Vec<CulpritRow> = (1000..)
            .zip(&self.culprits)
            .map(|(pid, &(comm, n))| CulpritRow {
                pid,
                comm: comm.into(),
                shootdowns: n,
                victims: n,
                wait_ns: 3_000 * n,
                ..CulpritRow::default()
            })
            .collect();
        if let Some(first) = culprits.first_mut() {
            first.threads = self.threads.iter().map(thread).collect();
        }
        let region = |&(region, shootdowns): &(&str, u64)| RegionRow {
            region: region.into(),
            shootdowns,
        };
        let mut side = TraceSide {
            path: "t.quell".into(),
            title: "'program': where its time goes".into(),
            scope: "the command".into(),
            sampled: "all".into(),
            summary: TallySummary {
                backend: "raw_tp".into(),
                duration_ns: self.duration_ns,
                shootdowns: n,
                victims: n,
                wait_ns: spread(3_000),
                delay_ns: spread(2_000),
                stall_ns: spread(400),
                causes: self.causes.iter().map(cause).collect(),
                culprits,
                regions: self.regions.iter().map(region).collect(),
                ..TallySummary::default()
            },
            ..TraceSide::default()
        };
        for (frames, shootdowns) in &self.stacks {
            let frames = frames.iter().map(|f| (*f).to_owned()).collect();
            let amount = Amount {
                shootdowns: *shootdowns,
                ..Amount::default()
            };
            side.stacks.entry(frames).or_default().add(&amount);
        }
        side
    }
}

/// An account with this CPU time, and with CPU time and time asleep by mechanism, all in ms.
pub(crate) fn account(cpu_ms: u64, rows: &[(Mechanism, u64, u64)]) -> AccountSummary {
    let ms = |ms: u64| ms * 1_000_000;
    let within = |ns: u64| [ns * 9 / 10, ns * 11 / 10];
    let row = |&(mechanism, cpu, blocked): &(Mechanism, u64, u64)| MechanismRow {
        mechanism,
        cpu_ns: ms(cpu),
        ci95: within(ms(cpu)),
        blocked_ns: ms(blocked),
        count: 0,
        longest_ns: 0,
        who: Vec::new(),
        parts: Vec::new(),
        advice: Vec::new(),
        holders: Vec::new(),
    };
    let memory = ms(rows.iter().map(|r| r.1).sum());
    AccountSummary {
        cpu_ns: ms(cpu_ms),
        memory_cpu_ns: memory,
        memory_cpu_ci95: within(memory),
        blocked_ns: ms(rows.iter().map(|r| r.2).sum()),
        mechanisms: rows.iter().map(row).collect(),
        ..AccountSummary::default()
    }
}

/// A program before a plan and after it, which halved its time.
pub(super) fn before_and_after() -> Comparison {
    let before = MadeSide {
        duration_ns: 10_000_000_000,
        causes: vec![
            ("madvise.dontneed", 90_000),
            ("munmap", 1_000),
            ("cow", 200),
        ],
        culprits: vec![("python3", 80_000), ("python3", 11_000), ("sh", 200)],
        threads: vec![("polars-0", 70_000), ("python3", 10_000)],
        regions: vec![
            ("anonymous memory of jemalloc (polars.so)", 90_000),
            ("[heap] (brk)", 1_200),
        ],
        stacks: vec![
            (
                &["__madvise (libc.so.6)", "pages_purge (polars.so)"],
                90_000,
            ),
            (
                &["__munmap (libc.so.6)", "polars.so+0x40 [no symbol]"],
                1_000,
            ),
        ],
    };
    let after = MadeSide {
        duration_ns: 5_000_000_000,
        causes: vec![("munmap", 1_000), ("cow", 100), ("mprotect", 7)],
        culprits: vec![("python3", 1_000), ("make", 107)],
        threads: vec![("polars-0", 900), ("python3", 100)],
        regions: vec![("[heap] (brk)", 1_107)],
        stacks: vec![(
            &["__munmap (libc.so.6)", "polars.so+0x40 [no symbol]"],
            1_000,
        )],
    };
    let mut a = before.to_trace_side();
    a.summary.account = Some(account(
        4_000,
        &[
            (Mechanism::FaultAnon, 900, 0),
            (Mechanism::Advise, 300, 0),
            (Mechanism::Unmap, 100, 0),
            (Mechanism::LockMmap, 5, 700),
        ],
    ));
    let mut b = after.to_trace_side();
    b.path = "after.quell".into();
    b.summary.lost = 12;
    b.summary.account = Some(account(
        3_000,
        &[(Mechanism::FaultAnon, 200, 0), (Mechanism::Unmap, 97, 0)],
    ));
    Comparison::of_sides(a, b.with_losses())
}
