//! Perfetto: a track for each CPU as culprit and as victim, one for each thread that memory management made sleep and for
//! who kept it waiting, arrows between them, and counters.
//!
//! Written packet by packet, in the order of the trace: readers of the format sort by time, and
//! only what stands on one track must come in order.

mod counters;
mod events;
mod names;
pub(crate) mod proto;
mod tracks;

use std::io::Write;

use anyhow::Context as _;
use prost::Message as _;
use quell_event::Comm;
use quell_event::trace::{Meta, Row, Sample, Wait};

use crate::{Rows, Stacks};
use counters::Counters;
use names::Names;
use proto::{Clock, ClockSnapshot, Data, Defaults, Packet, TrackEvent};
use tracks::{Act, Side, Spot, ThreadId, Tracks};

/// All packets are of one sequence: what names stand for is said once.
pub(crate) const SEQUENCE: u32 = 1;
/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_MONOTONIC` of perfetto's `builtin_clock.proto`.
pub(crate) const REALTIME: u32 = 1;
pub(crate) const MONOTONIC: u32 = 3;
/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE` of `trace_packet.proto`.
pub(crate) const STATE_CLEARED: u32 = 1;
pub(crate) const NEEDS_STATE: u32 = 2;

/// Writes the trace as a `perfetto.protos.Trace`.
///
/// # Errors
///
/// If the trace can't be read or `out` can't be written.
pub fn write(rows: &Rows<'_>, stacks: &Stacks, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut packets = Packets {
        out,
        buffer: Vec::new(),
        last_flow: 0,
        tracks: Tracks::default(),
        names: Names::new(stacks),
    };
    packets.begin(rows.meta())?;
    let begin = rows.meta().start_monotonic_ns;
    let mut counters = Counters::new(begin, 1);
    rows.each_shootdown(|shootdown| {
        count(shootdown, &mut counters);
        packets.shootdown(shootdown)
    })?;
    packets.counters(
        &counters,
        [
            ("shootdowns", proto::UNIT_COUNT),
            ("stalled time", proto::UNIT_NS),
        ],
    )?;
    rows.each_wait(|wait| packets.wait(wait))?;
    let mut counters = Counters::new(begin, SAMPLES_WIDTH_MS);
    rows.each_sample(|sample| {
        let all = sample.samples.into();
        let of_memory = if sample.mechanism.is_some() { all } else { 0 };
        counters.add(sample.t_ns, [of_memory, all]);
        if of_memory > 0 {
            packets.sample(sample)?;
        }
        Ok(())
    })?;
    packets.counters(
        &counters,
        [
            ("samples of memory management", proto::UNIT_COUNT),
            ("samples", proto::UNIT_COUNT),
        ],
    )
}

/// There are half a thousand samples a second of a CPU, or twice as many: shorter bins would have one or none.
const SAMPLES_WIDTH_MS: u64 = 10;

/// Counts a shootdown: itself where it begins, each stall where that begins.
fn count(rows: &[Row], counters: &mut Counters<2>) {
    for row in rows {
        if row.is_first() {
            counters.add(row.t_ns, [1, 0]);
        }
        if !row.is_unseen() {
            let at = row.t_ns.saturating_add(row.delay_ns.into());
            counters.add(at, [0, row.stall_ns.into()]);
        }
    }
}

/// The packets as they are written.
struct Packets<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    last_flow: u64,
    tracks: Tracks,
    names: Names<'a>,
}

impl Packets<'_> {
    /// What holds for all that follows: the clock, and the names that are known beforehand.
    fn begin(&mut self, meta: &Meta) -> anyhow::Result<()> {
        self.put(Packet {
            flags: Some(STATE_CLEARED),
            first: Some(true),
            defaults: Some(Defaults {
                clock: Some(MONOTONIC),
            }),
            interned: Some(names::fixed()),
            ..Packet::default()
        })?;
        let clock = |id, ns| Clock {
            id: Some(id),
            timestamp: Some(ns),
        };
        let snapshot = ClockSnapshot {
            clocks: vec![
                clock(MONOTONIC, meta.start_monotonic_ns),
                clock(REALTIME, meta.start_wall_ns),
            ],
            primary: Some(MONOTONIC),
        };
        self.put(Packet {
            timestamp: Some(meta.start_monotonic_ns),
            data: Some(Data::ClockSnapshot(snapshot)),
            ..Packet::default()
        })?;
        self.put(tracks::root().into())
    }

    /// The culprit's slice, and one for each victim that was seen, at which an arrow ends.
    fn shootdown(&mut self, rows: &[Row]) -> anyhow::Result<()> {
        let Some(culprit) = rows.first() else {
            return Ok(());
        };
        let victims = rows.iter().filter(|v| !v.is_unseen());
        let first_flow = self.last_flow + 1;
        let mut event = events::culprit(culprit, rows, &mut self.names);
        self.last_flow += victims.clone().count() as u64;
        event.flow_ids = (first_flow..=self.last_flow).collect();
        let end = culprit.t_ns.saturating_add(culprit.wait_ns);
        self.slice(Side::Culprit, culprit.cpu, culprit.t_ns, end, event)?;
        for (flow, victim) in (first_flow..).zip(victims) {
            let mut event = events::victim(victim, &mut self.names);
            event.terminating_flow_ids = vec![flow];
            let start = victim.t_ns.saturating_add(victim.delay_ns.into());
            let end = start.saturating_add(victim.stall_ns.into());
            self.slice(Side::Victim, victim.victim_cpu, start, end, event)?;
        }
        Ok(())
    }

    /// The slice of who waits, and one of whom it waits for, from which an arrow leads to it.
    fn wait(&mut self, wait: &Wait) -> anyhow::Result<()> {
        let mut flow = None;
        if wait.holder_tid != 0 {
            let mut event = events::holder(wait, &mut self.names);
            self.last_flow += 1;
            flow = Some(self.last_flow);
            event.flow_ids.extend(flow);
            let thread = ThreadId {
                pid: wait.holder_pid,
                tid: wait.holder_tid,
            };
            self.slice_of(Act::Holds, thread, &wait.holder_comm, wait, event)?;
        }
        let mut event = events::waiter(wait, &mut self.names);
        event.terminating_flow_ids.extend(flow);
        let thread = ThreadId {
            pid: wait.pid,
            tid: wait.tid,
        };
        self.slice_of(Act::Waits, thread, &wait.comm, wait, event)
    }

    /// A thread's slice of a wait, as long as that.
    fn slice_of(
        &mut self,
        act: Act,
        thread: ThreadId,
        comm: &Comm,
        wait: &Wait,
        event: TrackEvent,
    ) -> anyhow::Result<()> {
        let (start, end) = (wait.t_ns, wait.t_ns.saturating_add(wait.wait_ns));
        let spot = self.tracks.spot_of(act, thread, &comm.text(), start, end);
        self.slice_at(spot, start, end, event)
    }

    /// A mark on the thread's track.
    fn sample(&mut self, sample: &Sample) -> anyhow::Result<()> {
        let thread = ThreadId {
            pid: sample.pid,
            tid: sample.tid,
        };
        let uuid = self.tracks.thread(thread, &sample.comm.text());
        self.new_tracks()?;
        let event = TrackEvent {
            track_uuid: Some(uuid),
            kind: Some(proto::INSTANT),
            ..events::sample(sample, &mut self.names)
        };
        self.event(sample.t_ns, event)
    }

    /// Tracks of counters, with all their values.
    fn counters<const N: usize>(
        &mut self,
        counters: &Counters<N>,
        of: [(&str, i32); N],
    ) -> anyhow::Result<()> {
        for (track, values) in counters.tracks(of, || self.tracks.number()) {
            self.put(track.into())?;
            for (t_ns, value) in values {
                self.event(t_ns, value)?;
            }
        }
        Ok(())
    }

    /// Describes tracks before they are used.
    fn new_tracks(&mut self) -> anyhow::Result<()> {
        for track in self.tracks.fresh() {
            self.put(track.into())?;
        }
        Ok(())
    }

    /// A slice, or an instant where the CPU has no track left on which it would not overlap.
    fn slice(
        &mut self,
        side: Side,
        cpu: u16,
        start: u64,
        end: u64,
        event: TrackEvent,
    ) -> anyhow::Result<()> {
        let spot = self.tracks.spot(side, cpu, start, end);
        self.slice_at(spot, start, end, event)
    }

    fn slice_at(
        &mut self,
        spot: Spot,
        start: u64,
        end: u64,
        mut event: TrackEvent,
    ) -> anyhow::Result<()> {
        self.new_tracks()?;
        let (uuid, kind) = match spot {
            Spot::Slice(uuid) => (uuid, proto::SLICE_BEGIN),
            Spot::Instant(uuid) => (uuid, proto::INSTANT),
        };
        (event.track_uuid, event.kind) = (Some(uuid), Some(kind));
        self.event(start, event)?;
        if kind == proto::INSTANT {
            return Ok(());
        }
        let ending = TrackEvent {
            kind: Some(proto::SLICE_END),
            track_uuid: Some(uuid),
            ..TrackEvent::default()
        };
        self.event(end, ending)
    }

    fn event(&mut self, t_ns: u64, event: TrackEvent) -> anyhow::Result<()> {
        let interned = self.names.fresh();
        self.put(Packet {
            timestamp: Some(t_ns),
            flags: Some(NEEDS_STATE),
            interned,
            data: Some(Data::TrackEvent(event)),
            ..Packet::default()
        })
    }

    fn put(&mut self, mut packet: Packet) -> anyhow::Result<()> {
        packet.sequence = Some(SEQUENCE);
        self.buffer.clear();
        proto::encode_packet(&packet, &mut self.buffer);
        debug_assert!(self.buffer.len() > packet.encoded_len());
        self.out
            .write_all(&self.buffer)
            .context("can't write the Perfetto trace")
    }
}
