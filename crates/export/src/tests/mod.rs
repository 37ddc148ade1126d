//! Any trace, in each format: it parses, and its totals are the trace's.

mod perfetto;
mod stacks;
mod times;

pub(crate) use times::base64_of;

use std::io::Write;

use proptest::prelude::*;
use quell_event::trace::{
    SampleRow, StackCost, StackFrame, StackKind, Trace, TraceMeta, TraceWriter, TracedStack,
    WaitRow,
};
use quell_event::{Cause, Comm, HolderRole, Mechanism, MechanismPart, Shootdown, ShootdownVictim};

use crate::{Rows, Stacks};

const START_NS: u64 = 1_000_000_000;

/// Names with everything in them that a text format may stumble over.
fn comm() -> impl Strategy<Value = Comm> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            " ",
            "a;b",
            "say \"x\"",
            "c,d",
            "1 2",
            "\n",
            "ü",
            "=1+1"
        ])
        .prop_map(Comm::from),
        "[ -~]{0,15}".prop_map(|s| Comm::from(s.as_str())),
    ]
}

prop_compose! {
    fn victim()(
        cpu in 0u16..4,
        pid in 0u32..3,
        comm in comm(),
        bystander: bool,
        delay_ns in prop_oneof![0u32..3_000, any::<u32>()],
        stall_ns in prop_oneof![0u32..3_000, any::<u32>()],
    ) -> ShootdownVictim {
        ShootdownVictim { cpu, pid, tid: pid, comm, bystander, delay_ns, stall_ns }
    }
}

prop_compose! {
    /// In no order, overlapping, and with stacks that may not be there.
    fn shootdown()(
        t_ns in prop_oneof![0u64..START_NS * 2, START_NS..START_NS * 8, 0u64..1 << 50],
        wait_ns in prop_oneof![0u64..5_000, 0u64..1 << 43],
        (pid, comm, cpu) in (1u32..4, comm(), 0u16..4),
        cause in prop::sample::select(&Cause::ALL),
        (start, pages) in (0u64..1 << 40, prop::option::of(1u64..99)),
        (kernel_stack, user_stack) in (-1i32..6, -1i32..6),
        victims in prop::collection::vec(victim(), 0..4),
        unseen in 0u16..3,
    ) -> Shootdown {
        Shootdown {
            t_ns, wait_ns, pid, tid: pid, comm, cpu, cause, kernel_stack, user_stack, victims, unseen,
            start: start << 12,
            end: pages.map_or(u64::MAX, |n| (start + n) << 12),
            ..Shootdown::default()
        }
    }
}

fn shootdowns() -> impl Strategy<Value = Vec<Shootdown>> {
    prop::collection::vec(shootdown(), 0..60)
}

/// Stacks 0 to 3; rows name 4 and 5 too, which are missing.
fn some_stacks() -> Stacks {
    let frame = |symbol: &str, addr| StackFrame {
        addr,
        symbol: (!symbol.is_empty()).then(|| symbol.to_owned()),
        ..StackFrame::default()
    };
    let stack = |id: i32, frames| {
        let stack = TracedStack {
            id: id.cast_unsigned(),
            kind: StackKind::User,
            frames,
            ..TracedStack::default()
        };
        (id, stack)
    };
    Stacks::from([
        stack(0, vec![frame("f<[u8; 16]>", 16), frame("main", 32)]),
        stack(1, vec![frame("", 48), frame("a b 7", 64)]),
        stack(2, vec![]),
        stack(3, (0..20).map(|n| frame("deep", n)).collect()),
    ])
}

/// What a trace adds up to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    shootdowns: u64,
    rows: u64,
    seen: u64,
    wait_ns: u64,
    stall_ns: u64,
}

impl Totals {
    fn value_of(all: &[Shootdown]) -> Self {
        let mut totals = Self::default();
        for s in all {
            let seen = s.victims.len() as u64;
            totals.shootdowns += 1;
            totals.seen += seen;
            totals.rows += (seen + u64::from(s.unseen)).max(1);
            totals.wait_ns += s.wait_ns;
            totals.stall_ns += s.victims.iter().map(|v| u64::from(v.stall_ns)).sum::<u64>();
        }
        totals
    }
}

/// An account that adds up to what the shootdowns do: CPU time as their waits, and blocked time as their stalls.
fn cost(s: &Shootdown) -> StackCost {
    StackCost {
        pid: s.pid,
        comm: s.comm.as_text().as_ref().into(),
        mechanism: Mechanism::FaultAnon,
        part: MechanismPart::Alloc,
        stack: u32::try_from(s.user_stack).ok(),
        samples: 1,
        cpu_ns: s.wait_ns,
        waits: 1,
        blocked_ns: s.victims.iter().map(|v| u64::from(v.stall_ns)).sum(),
        longest_ns: 0,
    }
}

prop_compose! {
    /// Of few threads, so that one has several at once, which a kernel can't do.
    fn wait()(
        t_ns in START_NS..START_NS + 10_000_000, wait_ns in 0_u64..2_000_000, tid in 1_u32..4, comm in comm(),
        mechanism in prop::option::of(prop::sample::select(&Mechanism::ALL)),
        user_stack in -1i32..6, role in prop::option::of(prop::sample::select(&HolderRole::ALL)),
        holder_tid in 0_u32..4, doing in prop::sample::select(vec!["", "mmap of 1 page", "write /proc/1/clear_refs"]),
    ) -> WaitRow {
        let has_holder = role.is_some() && holder_tid != 0;
        WaitRow {
            t_ns, wait_ns, pid: 9, tid, comm, mechanism, user_stack, role,
            holder_pid: if has_holder { 9 } else { 0 },
            holder_tid: if has_holder { holder_tid } else { 0 },
            holder_doing: if has_holder { doing.into() } else { "".into() },
            ..WaitRow::default()
        }
    }
}

prop_compose! {
    fn sample()(
        t_ns in START_NS..START_NS + 10_000_000_000, samples in 1_u32..9, tid in 1_u32..4, comm in comm(),
        mechanism in prop::option::of(prop::sample::select(&Mechanism::ALL)), user_stack in -1i32..6,
    ) -> SampleRow {
        let samples = if mechanism.is_some() { 1 } else { samples };
        SampleRow { t_ns, samples, pid: 9, tid, comm, mechanism, user_stack, ..SampleRow::default() }
    }
}

/// What was recorded of the account, one by one.
fn singles() -> impl Strategy<Value = (Vec<WaitRow>, Vec<SampleRow>)> {
    (
        prop::collection::vec(wait(), 0..40),
        prop::collection::vec(sample(), 0..40),
    )
}

/// Writes a trace of these and exports it.
fn export(
    all: &[Shootdown],
    write: impl FnOnce(&Rows<'_>, &mut dyn Write) -> anyhow::Result<()>,
) -> Vec<u8> {
    export_with(all, &[], &[], write)
}

/// The same with waits and samples.
fn export_with(
    all: &[Shootdown],
    waits: &[WaitRow],
    samples: &[SampleRow],
    write: impl FnOnce(&Rows<'_>, &mut dyn Write) -> anyhow::Result<()>,
) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.quell");
    let meta = TraceMeta {
        start_monotonic_ns: START_NS,
        start_wall_ns: 1_700_000_000_000_000_000,
        ..TraceMeta::default()
    };
    let mut writer = TraceWriter::create(&path, &meta, false).unwrap();
    for s in all {
        writer.push_shootdown(s);
    }
    waits.iter().for_each(|wait| writer.push_wait(wait));
    samples.iter().for_each(|sample| writer.push_sample(sample));
    writer.set_account(&all.iter().map(cost).collect::<Vec<_>>());
    writer.finish(START_NS, |_| ()).unwrap();
    let trace = Trace::open(&path).unwrap();
    let mut out = Vec::new();
    write(&Rows::new(&trace, &|_| ()), &mut out).unwrap();
    out
}

pub(crate) struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Check that no format takes a full disk for success.
#[test]
fn a_full_disk_is_an_error() {
    let all = vec![Shootdown::default(); 2];
    let stacks = some_stacks();
    let weight = crate::SampleWeight::Count;
    export(&all, |rows, _| {
        assert!(crate::perfetto::write(rows, &stacks, &mut Broken).is_err());
        assert!(crate::pprof::write(rows, &stacks, weight, &mut Broken).is_err());
        assert!(crate::folded::write(rows, &stacks, weight, &mut Broken).is_err());
        assert!(crate::speedscope::write(rows, &stacks, weight, &mut Broken).is_err());
        assert!(crate::hgrm::write(rows, crate::Measure::Wait, &mut Broken).is_err());
        assert!(crate::hlog::write(rows, &crate::Measure::ALL, &mut Broken).is_err());
        assert!(crate::csv::write(rows, &mut Broken).is_err());
        Ok(())
    });
}
