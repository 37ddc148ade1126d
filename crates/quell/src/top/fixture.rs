//! An interval for tests, with two processes, a bystander and four CPUs.

use quell_event::tally_summary::{RegionRow, StackRow};
use quell_event::{
    Cause, CulpritTally, Histogram, InterruptMatrix, ShootdownCounts, Tally, VictimTally,
};

use super::close_up::{ProcessCloseUp, ThreadShootdowns};
use super::interval::{LiveInterval, LiveReading};
use super::regions::{RegionShootdowns, SampledRegions};

const ONE_SECOND_NS: u64 = 1_000_000_000;

pub(super) fn culprit_tally(pid: u32, comm: &str, cause: Cause, shootdowns: u64) -> CulpritTally {
    CulpritTally {
        pid,
        comm: comm.to_owned(),
        cgroup: 1,
        cause,
        detail: (cause == Cause::Other).then(|| "do_something".to_owned()),
        counts: ShootdownCounts {
            shootdowns,
            full: 0,
            pages: shootdowns * 2,
            victims: shootdowns * 2,
            wait_ns: shootdowns * 4000,
            delay_ns: shootdowns * 3000,
            stall_ns: shootdowns * 500,
        },
    }
}

pub(super) fn victim_tally(pid: u32, comm: &str, bystander: bool, hits: u64) -> VictimTally {
    VictimTally {
        pid,
        comm: comm.to_owned(),
        cgroup: 0,
        bystander,
        hits,
        stall_ns: hits * 600,
    }
}

fn histogram_of(of: u64, n: u64) -> Histogram {
    let mut h = Histogram::default();
    (0..n).for_each(|i| h.record(of + i % 50));
    h
}

/// One second of four culprits, three victims and four CPUs, of which CPU 2 hits CPU 3 most. With `guarded`, CPU 3 is isolated, and
/// that is an alarm.
pub(super) fn overview_interval(guarded: bool) -> LiveInterval {
    let culprits = vec![
        culprit_tally(4711, "polars", Cause::MadviseDontneed, 9000),
        culprit_tally(4711, "polars", Cause::Munmap, 345),
        culprit_tally(812, "postgres", Cause::Munmap, 120),
        culprit_tally(95, "kswapd0", Cause::Reclaim, 17),
        culprit_tally(1, "systemd", Cause::Other, 1),
    ];
    let tally = Tally {
        duration_ns: ONE_SECOND_NS,
        victims: vec![
            victim_tally(4711, "polars", false, 18_000),
            victim_tally(2000, "game-loop", true, 900),
            victim_tally(0, "swapper", true, 66),
        ],
        wait: histogram_of(4000, 9483),
        delay: histogram_of(3000, 18_966),
        stall: histogram_of(600, 18_966),
        culprits,
        ..Tally::default()
    };
    let mut matrix = InterruptMatrix::new(4);
    for (c, v, n) in [(0, 1, 9000), (0, 2, 8500), (1, 0, 1200), (2, 3, 266)] {
        matrix.set_hits(c, v, n);
    }
    let guard = Tally {
        duration_ns: ONE_SECOND_NS,
        culprits: vec![culprit_tally(812, "postgres", Cause::Munmap, 133)],
        ..Tally::default()
    };
    let now = LiveReading {
        tally,
        matrix,
        guard: guarded.then_some(guard),
    };
    let before = LiveReading {
        matrix: InterruptMatrix::new(4),
        ..LiveReading::default()
    };
    let isolated: &[u32] = if guarded { &[3] } else { &[] };
    LiveInterval {
        regions: Some(sampled_regions()),
        ..LiveInterval::between_readings(&before, &now, "raw_tp", &[0, 1, 2, 3], isolated)
    }
}

fn sampled_regions() -> SampledRegions {
    let region = |pid, comm: &str, cause: Cause, region: &str, shootdowns| RegionShootdowns {
        pid,
        comm: comm.to_owned(),
        cause: cause.name(),
        region: region.to_owned(),
        shootdowns,
    };
    let arenas = "anonymous memory of jemalloc (polars.abi3.so)";
    SampledRegions {
        shootdowns: 243,
        one_in: 39,
        regions: vec![
            region(4711, "polars", Cause::MadviseDontneed, arenas, 9000),
            region(4711, "polars", Cause::Munmap, arenas, 230),
            region(
                812,
                "postgres",
                Cause::Munmap,
                "file /data/base/16384/2619",
                120,
            ),
            region(4711, "polars", Cause::Munmap, "[heap] (brk)", 115),
        ],
    }
}

/// An interval with a close look at process 4711.
pub(super) fn close_up_interval() -> LiveInterval {
    let thread = |tid, comm: &str, shootdowns| ThreadShootdowns {
        tid,
        comm: comm.to_owned(),
        shootdowns,
        victims: shootdowns * 2,
        wait_ns: shootdowns * 4000,
    };
    let stack = |frames: &[&str], shootdowns, cause: &str| StackRow {
        frames: frames.iter().map(|&f| f.into()).collect(),
        cut: false,
        shootdowns,
        cause: cause.to_owned(),
    };
    LiveInterval {
        close_up: Some(ProcessCloseUp {
            ended: false,
            pid: 4711,
            threads: vec![thread(4720, "polars-3", 6000), thread(4711, "polars", 3345)],
            regions: vec![RegionRow {
                region: "anonymous memory of jemalloc (polars.abi3.so)".into(),
                shootdowns: 1000,
            }],
            stacks: vec![
                stack(
                    &[
                        "__madvise (libc.so.6)",
                        "_rjem_je_pages_purge_forced (polars.abi3.so)",
                        "main (python3)",
                    ],
                    900,
                    "madvise.dontneed",
                ),
                stack(&["__munmap (libc.so.6)"], 100, "munmap"),
            ],
            sampled: 1000,
            one_in: 9,
            lost: 0,
            duration_ns: ONE_SECOND_NS,
        }),
        ..overview_interval(false)
    }
}
