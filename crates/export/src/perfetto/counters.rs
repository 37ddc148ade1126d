//! Counters over time, in bins: shootdowns and stalled time, or samples.
//!
//! The bins begin short. When there are too many, each two are made one: so memory is bounded
//! whatever the length of the trace, and nothing needs to be known of it beforehand.

use super::proto::{self, CounterDescriptor, TrackDescriptor, TrackEvent};

/// More bins are not kept: more than any screen has pixels.
const MAX_BINS: usize = 1 << 14;

const NS_PER_MS: u64 = 1_000_000;

/// The bins of `N` counters.
pub(super) struct CounterBins<const N: usize> {
    base_ns: u64,
    width_ns: u64,
    bins: Vec<[u64; N]>,
}

impl<const N: usize> CounterBins<N> {
    /// No counts yet; earlier moments than `base_ns` will count there. Bins are `width_ms` long at first.
    pub(super) fn new(base_ns: u64, width_ms: u64) -> Self {
        Self {
            base_ns,
            width_ns: width_ms * NS_PER_MS,
            bins: Vec::new(),
        }
    }

    /// Adds `by` to the counters at a moment.
    pub(super) fn add(&mut self, t_ns: u64, by: [u64; N]) {
        add_all(self.bin_at(t_ns), by);
    }

    fn bin_at(&mut self, t_ns: u64) -> &mut [u64; N] {
        let since = t_ns.saturating_sub(self.base_ns);
        while since / self.width_ns >= MAX_BINS as u64 {
            self.widen_bins();
        }
        // Below MAX_BINS, so it is no larger than a usize.
        let index = (since / self.width_ns) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, [0; N]);
        }
        &mut self.bins[index]
    }

    fn widen_bins(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let halves = std::mem::take(&mut self.bins);
        self.bins = halves
            .chunks(2)
            .map(|pair| {
                let mut sum = [0; N];
                pair.iter().for_each(|bin| add_all(&mut sum, *bin));
                sum
            })
            .collect();
    }

    /// A track for each counter, of its name and unit and of the number that `uuid` gives it, and its values by moment in
    /// ns. Between bins that hold something the values go to 0.
    pub(super) fn counter_tracks(
        &self,
        of: [(&str, i32); N],
        mut uuid: impl FnMut() -> u64,
    ) -> Vec<(TrackDescriptor, Vec<(u64, TrackEvent)>)> {
        let per = width_text(self.width_ns);
        let track = |(counter, (name, unit)): (usize, (&str, i32))| {
            self.counter_track(uuid(), format!("{name} per {per}"), unit, counter)
        };
        of.into_iter().enumerate().map(track).collect()
    }

    fn counter_track(
        &self,
        uuid: u64,
        name: String,
        unit: i32,
        counter: usize,
    ) -> (TrackDescriptor, Vec<(u64, TrackEvent)>) {
        let track = TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name),
            counter: Some(CounterDescriptor { unit: Some(unit) }),
            ..TrackDescriptor::default()
        };
        let mut events = Vec::new();
        let mut before = 0;
        let last = [0; N];
        for (index, bin) in (0u64..).zip(self.bins.iter().chain([&last])) {
            let now = bin[counter];
            if now == 0 && before == 0 {
                continue;
            }
            before = now;
            let event = TrackEvent {
                kind: Some(proto::TYPE_COUNTER),
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

fn add_all<const N: usize>(to: &mut [u64; N], by: [u64; N]) {
    for (sum, by) in to.iter_mut().zip(by) {
        *sum = sum.saturating_add(by);
    }
}

/// A bin's width in words.
fn width_text(ns: u64) -> String {
    match ns / NS_PER_MS {
        ms @ 0..10_000 => format!("{ms} ms"),
        ms => format!("{} s", ms / 1000),
    }
}
