//! Counters over time: shootdowns and stalled time in bins.
//!
//! The bins begin with 1 ms. When there are too many, each two are made one: so memory is bounded
//! whatever the length of the trace, and nothing needs to be known of it beforehand.

use quell_event::trace::Row;

use super::proto::{self, Counter, Track, TrackEvent};

/// More bins are not kept: more than any screen has pixels.
const MOST: usize = 1 << 14;

const FIRST_WIDTH_NS: u64 = 1_000_000;

/// The bins.
pub(super) struct Counters {
    base_ns: u64,
    width_ns: u64,
    bins: Vec<Bin>,
}

#[derive(Clone, Copy, Default)]
struct Bin {
    shootdowns: u64,
    stall_ns: u64,
}

impl Bin {
    fn add(&mut self, other: Self) {
        self.shootdowns += other.shootdowns;
        self.stall_ns = self.stall_ns.saturating_add(other.stall_ns);
    }
}

impl Counters {
    /// Nothing yet; what is before `base_ns` will count there.
    pub(super) fn new(base_ns: u64) -> Self {
        Self {
            base_ns,
            width_ns: FIRST_WIDTH_NS,
            bins: Vec::new(),
        }
    }

    /// Adds a shootdown: itself where it begins, each stall where that begins.
    pub(super) fn take(&mut self, rows: &[Row]) {
        for row in rows {
            if row.is_first() {
                let bin = Bin {
                    shootdowns: 1,
                    stall_ns: 0,
                };
                self.bin(row.t_ns).add(bin);
            }
            if !row.is_unseen() {
                let bin = Bin {
                    shootdowns: 0,
                    stall_ns: row.stall_ns.into(),
                };
                let at = row.t_ns.saturating_add(row.delay_ns.into());
                self.bin(at).add(bin);
            }
        }
    }

    fn bin(&mut self, t_ns: u64) -> &mut Bin {
        let since = t_ns.saturating_sub(self.base_ns);
        while since / self.width_ns >= MOST as u64 {
            self.widen();
        }
        // Below MOST, so it is no larger than a usize.
        let index = (since / self.width_ns) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        &mut self.bins[index]
    }

    fn widen(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let halves = std::mem::take(&mut self.bins);
        self.bins = halves
            .chunks(2)
            .map(|pair| {
                let mut sum = Bin::default();
                pair.iter().for_each(|bin| sum.add(*bin));
                sum
            })
            .collect();
    }

    /// Two tracks, of the numbers `uuid` and the one after it, and their values by moment in ns.
    /// Between bins that hold something the values go to 0.
    pub(super) fn tracks(&self, uuid: u64) -> [(Track, Vec<(u64, TrackEvent)>); 2] {
        let per = width(self.width_ns);
        [
            self.track(
                uuid,
                format!("shootdowns per {per}"),
                proto::UNIT_COUNT,
                |b| b.shootdowns,
            ),
            self.track(
                uuid + 1,
                format!("stalled time per {per}"),
                proto::UNIT_NS,
                |b| b.stall_ns,
            ),
        ]
    }

    fn track(
        &self,
        uuid: u64,
        name: String,
        unit: i32,
        value: impl Fn(&Bin) -> u64,
    ) -> (Track, Vec<(u64, TrackEvent)>) {
        let track = Track {
            uuid: Some(uuid),
            name: Some(name),
            counter: Some(Counter { unit: Some(unit) }),
            ..Track::default()
        };
        let mut events = Vec::new();
        let mut before = 0;
        let last = Bin::default();
        for (index, bin) in (0u64..).zip(self.bins.iter().chain([&last])) {
            let now = value(bin);
            if now == 0 && before == 0 {
                continue;
            }
            before = now;
            let event = TrackEvent {
                kind: Some(proto::COUNTER),
                track_uuid: Some(uuid),
                counter_value: Some(i64::try_from(now).unwrap_or(i64::MAX)),
                ..TrackEvent::default()
            };
            let t_ns = self
                .base_ns
                .saturating_add(index.saturating_mul(self.width_ns));
            events.push((t_ns, event));
        }
        (track, events)
    }
}

/// A bin's width in words.
fn width(ns: u64) -> String {
    match ns / FIRST_WIDTH_NS {
        ms @ 0..10_000 => format!("{ms} ms"),
        ms => format!("{} s", ms / 1000),
    }
}
