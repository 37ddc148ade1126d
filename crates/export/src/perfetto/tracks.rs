//! Which track a slice goes to.
//!
//! Slices on one track must nest or be apart, so waits and stalls of a CPU have tracks of their
//! own. On one side of a CPU they are apart in the kernel, but rows come in the order of recording,
//! and one culprit's may come late. Then the CPU gets one more track of the same name: Perfetto
//! draws tracks of one name and one parent as one.
//!
//! A thread has a track of its own, on which it sleeps, and below it one for the time in which others wait for it: of several
//! that wait at once, each has a slice, and so again as many tracks as that takes.

use std::collections::{HashMap, HashSet};

use super::proto::{self, ProcessDescriptor, ThreadDescriptor, TrackDescriptor};

/// Above all CPUs.
const ROOT_TRACK: u64 = 1;

/// No CPU has more tracks of one side: more than this only happens in traces that are made up.
const MAX_SIDE_TRACKS: usize = 1024;

/// The two sides of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CpuSide {
    Culprit,
    Victim,
}

impl CpuSide {
    fn name(self) -> &'static str {
        match self {
            Self::Culprit => "waits as culprit",
            Self::Victim => "stalls as victim",
        }
    }
}

/// The reasons why a thread has slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ThreadAct {
    /// It sleeps.
    Waits,
    /// Others sleep until it is done.
    Holds,
}

/// A thread, by the numbers of its process and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ThreadId {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// Where a slice goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// Onto a track where it lies behind all others.
    Slice(u64),
    /// Onto a track where it would overlap.
    Instant(u64),
}

struct Lane {
    uuid: u64,
    /// The end of the last slice there.
    end: u64,
}

/// The tracks so far.
#[derive(Default)]
pub(super) struct Tracks {
    cpus: HashMap<u16, u64>,
    lanes: HashMap<(CpuSide, u16), Vec<Lane>>,
    processes: HashSet<u32>,
    threads: HashMap<ThreadId, u64>,
    acts: HashMap<(ThreadAct, ThreadId), Vec<Lane>>,
    made: u64,
    fresh: Vec<TrackDescriptor>,
}

/// The group of all CPUs.
pub(super) fn root_track() -> TrackDescriptor {
    TrackDescriptor {
        uuid: Some(ROOT_TRACK),
        name: Some("CPUs".to_owned()),
        child_ordering: Some(proto::BY_RANK),
        ..TrackDescriptor::default()
    }
}

impl Tracks {
    /// Finds a place for a slice of a CPU's side: the first of its tracks that is free from `start` on, or a new one. Where there
    /// may be no more of them it is a mark on the first.
    pub(super) fn free_spot(&mut self, side: CpuSide, cpu: u16, start: u64, end: u64) -> Spot {
        let lanes = self.lanes.entry((side, cpu)).or_default();
        if let Some(spot) = free_lane(lanes, start, end) {
            return spot;
        }
        let parent = self.cpu_track(cpu);
        let uuid = self.new_number();
        self.fresh.push(TrackDescriptor {
            uuid: Some(uuid),
            parent: Some(parent),
            name: Some(side.name().to_owned()),
            rank: Some(side as i32),
            ..TrackDescriptor::default()
        });
        let lanes = self.lanes.entry((side, cpu)).or_default();
        lanes.push(Lane { uuid, end });
        Spot::Slice(uuid)
    }

    /// Finds a place for a slice of a thread in the same way, on its tracks for this reason.
    pub(super) fn spot_of(
        &mut self,
        act: ThreadAct,
        thread: ThreadId,
        comm: &str,
        start: u64,
        end: u64,
    ) -> Spot {
        let own = self.thread_track(thread, comm);
        let lanes = self.acts.entry((act, thread)).or_default();
        if let Some(spot) = free_lane(lanes, start, end) {
            return spot;
        }
        // A thread sleeps once at a time, except in invented traces.
        let name = match (act, lanes.is_empty()) {
            (ThreadAct::Waits, true) => {
                lanes.push(Lane { uuid: own, end });
                return Spot::Slice(own);
            }
            (ThreadAct::Waits, false) => "waits",
            (ThreadAct::Holds, _) => "others wait for it",
        };
        let uuid = self.new_number();
        self.fresh.push(TrackDescriptor {
            uuid: Some(uuid),
            parent: Some(own),
            name: Some(name.to_owned()),
            ..TrackDescriptor::default()
        });
        let lanes = self.acts.entry((act, thread)).or_default();
        lanes.push(Lane { uuid, end });
        Spot::Slice(uuid)
    }

    /// A thread's own track, which is made when it is first asked for, and before it one for its process.
    pub(super) fn thread_track(&mut self, thread: ThreadId, comm: &str) -> u64 {
        if let Some(uuid) = self.threads.get(&thread) {
            return *uuid;
        }
        let number = |n: u32| Some(n.cast_signed());
        if self.processes.insert(thread.pid) {
            let uuid = self.new_number();
            self.fresh.push(TrackDescriptor {
                uuid: Some(uuid),
                process: Some(ProcessDescriptor {
                    pid: number(thread.pid),
                    // that of the thread that was seen first, which mostly is the process's
                    name: Some(comm.to_owned()),
                }),
                ..TrackDescriptor::default()
            });
        }
        let uuid = self.new_number();
        self.threads.insert(thread, uuid);
        self.fresh.push(TrackDescriptor {
            uuid: Some(uuid),
            thread: Some(ThreadDescriptor {
                pid: number(thread.pid),
                tid: number(thread.tid),
                name: Some(comm.to_owned()),
            }),
            ..TrackDescriptor::default()
        });
        uuid
    }

    /// Tracks that were made since the last call: they are described before they are used.
    pub(super) fn take_new(&mut self) -> Vec<TrackDescriptor> {
        std::mem::take(&mut self.fresh)
    }

    /// A number that no track has yet.
    pub(super) fn new_number(&mut self) -> u64 {
        self.made += 1;
        ROOT_TRACK + self.made
    }

    fn cpu_track(&mut self, cpu: u16) -> u64 {
        if let Some(uuid) = self.cpus.get(&cpu) {
            return *uuid;
        }
        let uuid = self.new_number();
        self.cpus.insert(cpu, uuid);
        self.fresh.push(TrackDescriptor {
            uuid: Some(uuid),
            parent: Some(ROOT_TRACK),
            name: Some(format!("CPU {cpu}")),
            child_ordering: Some(proto::BY_RANK),
            rank: Some(cpu.into()),
            ..TrackDescriptor::default()
        });
        uuid
    }
}

/// The first of the tracks that is free from `start` on; or the first of all as a place for a mark, where there may be no
/// more of them.
fn free_lane(lanes: &mut [Lane], start: u64, end: u64) -> Option<Spot> {
    if let Some(lane) = lanes.iter_mut().find(|l| l.end <= start) {
        lane.end = end;
        return Some(Spot::Slice(lane.uuid));
    }
    let first = lanes.first()?;
    (lanes.len() == MAX_SIDE_TRACKS).then_some(Spot::Instant(first.uuid))
}
