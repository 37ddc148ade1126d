//! Which track a slice goes to.
//!
//! Slices on one track must nest or be apart, so waits and stalls of a CPU have tracks of their
//! own. On one side of a CPU they are apart in the kernel, but rows come in the order of recording,
//! and one culprit's may come late. Then the CPU gets one more track of the same name: Perfetto
//! draws tracks of one name and one parent as one.

use std::collections::HashMap;

use super::proto::{self, Track};

/// Above all CPUs.
const ROOT: u64 = 1;

/// No CPU has more tracks of one side: more than this only happens in traces that are made up.
const MOST: usize = 1024;

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Culprit,
    Victim,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Culprit => "waits as culprit",
            Self::Victim => "stalls as victim",
        }
    }
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
    lanes: HashMap<(Side, u16), Vec<Lane>>,
    made: u64,
    fresh: Vec<Track>,
}

/// The group of all CPUs.
pub(super) fn root() -> Track {
    Track {
        uuid: Some(ROOT),
        name: Some("CPUs".to_owned()),
        child_ordering: Some(proto::BY_RANK),
        ..Track::default()
    }
}

impl Tracks {
    /// Takes the first track of a CPU's side that is free from `start` on.
    pub(super) fn spot(&mut self, side: Side, cpu: u16, start: u64, end: u64) -> Spot {
        let lanes = self.lanes.entry((side, cpu)).or_default();
        if let Some(lane) = lanes.iter_mut().find(|l| l.end <= start) {
            lane.end = end;
            return Spot::Slice(lane.uuid);
        }
        if let Some(first) = lanes.first()
            && lanes.len() == MOST
        {
            return Spot::Instant(first.uuid);
        }
        let parent = self.cpu(cpu);
        let uuid = self.number();
        self.fresh.push(Track {
            uuid: Some(uuid),
            parent: Some(parent),
            name: Some(side.name().to_owned()),
            rank: Some(side as i32),
            ..Track::default()
        });
        let lanes = self.lanes.entry((side, cpu)).or_default();
        lanes.push(Lane { uuid, end });
        Spot::Slice(uuid)
    }

    /// Tracks that were made since the last call: they are described before they are used.
    pub(super) fn fresh(&mut self) -> Vec<Track> {
        std::mem::take(&mut self.fresh)
    }

    /// A number that no track has yet.
    pub(super) fn number(&mut self) -> u64 {
        self.made += 1;
        ROOT + self.made
    }

    fn cpu(&mut self, cpu: u16) -> u64 {
        if let Some(uuid) = self.cpus.get(&cpu) {
            return *uuid;
        }
        let uuid = self.number();
        self.cpus.insert(cpu, uuid);
        self.fresh.push(Track {
            uuid: Some(uuid),
            parent: Some(ROOT),
            name: Some(format!("CPU {cpu}")),
            child_ordering: Some(proto::BY_RANK),
            rank: Some(cpu.into()),
            ..Track::default()
        });
        uuid
    }
}
