//! Perfetto: a track for each CPU as culprit and as victim, one for each thread that memory management made sleep and for each
//! holder that kept it waiting, arrows between them, and counters.
//!
//! Written packet by packet, in the order of the trace: readers of the format sort by time, and only the slices of one track must
//! come in order.

mod counters;
mod events;
mod names;
pub(crate) mod proto;
mod tracks;

use std::io::Write;

use anyhow::Context as _;
use prost::Message as _;
use quell_event::Comm;
use quell_event::trace::{EventRow, SampleRow, TraceMeta, WaitRow};

use crate::{Rows, Stacks};
use counters::CounterBins;
use names::InternedNames;
use proto::{Clock, ClockSnapshot, Packet, PacketData, PacketDefaults, TrackEvent};
use tracks::{CpuSide, Spot, ThreadAct, ThreadId, Tracks};

/// All packets are of one sequence, so that each interned name is written once.
pub(crate) const SEQUENCE_ID: u32 = 1;
/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_MONOTONIC` of perfetto's `builtin_clock.proto`.
pub(crate) const CLOCK_REALTIME: u32 = 1;
pub(crate) const CLOCK_MONOTONIC: u32 = 3;
/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE` of `trace_packet.proto`.
pub(crate) const STATE_CLEARED: u32 = 1;
pub(crate) const NEEDS_STATE: u32 = 2;

/// Writes the trace as a `perfetto.protos.Trace`.
///
/// # Errors
///
/// If the trace can't be read or `out` can't be written.
pub fn write(rows: &Rows<'_>, stacks: &Stacks, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut packets = TracePackets {
        out,
        buffer: Vec::new(),
        last_flow: 0,
        tracks: Tracks::default(),
        names: InternedNames::new(stacks),
    };
    packets.write_preamble(rows.meta())?;
    let begin = rows.meta().start_monotonic_ns;
    let mut counters = CounterBins::new(begin, 1);
    rows.each_shootdown(|shootdown| {
        count_shootdown(shootdown, &mut counters);
        packets.write_shootdown(shootdown)
    })?;
    packets.write_counters(
        &counters,
        [
            ("shootdowns", proto::UNIT_COUNT),
            ("stalled time", proto::UNIT_NS),
        ],
    )?;
    rows.each_wait(|wait| packets.write_wait(wait))?;
    let mut counters = CounterBins::new(begin, SAMPLES_WIDTH_MS);
    rows.each_sample(|sample| {
        let all = sample.samples.into();
        let of_memory = if sample.mechanism.is_some() { all } else { 0 };
        counters.add(sample.t_ns, [of_memory, all]);
        if of_memory > 0 {
            packets.write_mark(sample)?;
        }
        Ok(())
    })?;
    packets.write_counters(
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
fn count_shootdown(rows: &[EventRow], counters: &mut CounterBins<2>) {
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
struct TracePackets<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    last_flow: u64,
    tracks: Tracks,
    names: InternedNames<'a>,
}

impl TracePackets<'_> {
    /// Writes the packets that hold for all others: the clock, and the names that are known beforehand.
    fn write_preamble(&mut self, meta: &TraceMeta) -> anyhow::Result<()> {
        self.write_packet(Packet {
            flags: Some(STATE_CLEARED),
            first: Some(true),
            defaults: Some(PacketDefaults {
                clock: Some(CLOCK_MONOTONIC),
            }),
            interned: Some(names::fixed_names()),
            ..Packet::default()
        })?;
        let clock = |id, ns| Clock {
            id: Some(id),
            timestamp: Some(ns),
        };
        let snapshot = ClockSnapshot {
            clocks: vec![
                clock(CLOCK_MONOTONIC, meta.start_monotonic_ns),
                clock(CLOCK_REALTIME, meta.start_wall_ns),
            ],
            primary: Some(CLOCK_MONOTONIC),
        };
        self.write_packet(Packet {
            timestamp: Some(meta.start_monotonic_ns),
            data: Some(PacketData::ClockSnapshot(snapshot)),
            ..Packet::default()
        })?;
        self.write_packet(tracks::root_track().into())
    }

    /// The culprit's slice, and one for each victim that was seen, at which an arrow ends.
    fn write_shootdown(&mut self, rows: &[EventRow]) -> anyhow::Result<()> {
        let Some(culprit) = rows.first() else {
            return Ok(());
        };
        let victims = rows.iter().filter(|v| !v.is_unseen());
        let first_flow = self.last_flow + 1;
        let mut event = events::culprit_slice(culprit, rows, &mut self.names);
        self.last_flow += victims.clone().count() as u64;
        event.flow_ids = (first_flow..=self.last_flow).collect();
        let end = culprit.t_ns.saturating_add(culprit.wait_ns);
        self.write_slice(CpuSide::Culprit, culprit.cpu, culprit.t_ns, end, event)?;
        for (flow, victim) in (first_flow..).zip(victims) {
            let mut event = events::victim_slice(victim, &mut self.names);
            event.terminating_flow_ids = vec![flow];
            let start = victim.t_ns.saturating_add(victim.delay_ns.into());
            let end = start.saturating_add(victim.stall_ns.into());
            self.write_slice(CpuSide::Victim, victim.victim_cpu, start, end, event)?;
        }
        Ok(())
    }

    /// The slice of the thread that waits, and one of the holder, from which an arrow leads to the first.
    fn write_wait(&mut self, wait: &WaitRow) -> anyhow::Result<()> {
        let mut flow = None;
        if wait.holder_tid != 0 {
            let mut event = events::holder_slice(wait, &mut self.names);
            self.last_flow += 1;
            flow = Some(self.last_flow);
            event.flow_ids.extend(flow);
            let thread = ThreadId {
                pid: wait.holder_pid,
                tid: wait.holder_tid,
            };
            self.slice_of(ThreadAct::Holds, thread, &wait.holder_comm, wait, event)?;
        }
        let mut event = events::waiter_slice(wait, &mut self.names);
        event.terminating_flow_ids.extend(flow);
        let thread = ThreadId {
            pid: wait.pid,
            tid: wait.tid,
        };
        self.slice_of(ThreadAct::Waits, thread, &wait.comm, wait, event)
    }

    /// A thread's slice of a wait, as long as that.
    fn slice_of(
        &mut self,
        act: ThreadAct,
        thread: ThreadId,
        comm: &Comm,
        wait: &WaitRow,
        event: TrackEvent,
    ) -> anyhow::Result<()> {
        let (start, end) = (wait.t_ns, wait.t_ns.saturating_add(wait.wait_ns));
        let spot = self
            .tracks
            .spot_of(act, thread, &comm.as_text(), start, end);
        self.slice_at(spot, start, end, event)
    }

    /// A mark on the thread's track.
    fn write_mark(&mut self, sample: &SampleRow) -> anyhow::Result<()> {
        let thread = ThreadId {
            pid: sample.pid,
            tid: sample.tid,
        };
        let uuid = self.tracks.thread_track(thread, &sample.comm.as_text());
        self.new_tracks()?;
        let event = TrackEvent {
            track_uuid: Some(uuid),
            kind: Some(proto::TYPE_INSTANT),
            ..events::sample_mark(sample, &mut self.names)
        };
        self.write_event(sample.t_ns, event)
    }

    /// Tracks of counters, with all their values.
    fn write_counters<const N: usize>(
        &mut self,
        counters: &CounterBins<N>,
        of: [(&str, i32); N],
    ) -> anyhow::Result<()> {
        for (track, values) in counters.counter_tracks(of, || self.tracks.new_number()) {
            self.write_packet(track.into())?;
            for (t_ns, value) in values {
                self.write_event(t_ns, value)?;
            }
        }
        Ok(())
    }

    /// Describes tracks before they are used.
    fn new_tracks(&mut self) -> anyhow::Result<()> {
        for track in self.tracks.take_new() {
            self.write_packet(track.into())?;
        }
        Ok(())
    }

    /// A slice, or an instant where the CPU has no track left on which it would not overlap.
    fn write_slice(
        &mut self,
        side: CpuSide,
        cpu: u16,
        start: u64,
        end: u64,
        event: TrackEvent,
    ) -> anyhow::Result<()> {
        let spot = self.tracks.free_spot(side, cpu, start, end);
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
            Spot::Instant(uuid) => (uuid, proto::TYPE_INSTANT),
        };
        (event.track_uuid, event.kind) = (Some(uuid), Some(kind));
        self.write_event(start, event)?;
        if kind == proto::TYPE_INSTANT {
            return Ok(());
        }
        let ending = TrackEvent {
            kind: Some(proto::SLICE_END),
            track_uuid: Some(uuid),
            ..TrackEvent::default()
        };
        self.write_event(end, ending)
    }

    fn write_event(&mut self, t_ns: u64, event: TrackEvent) -> anyhow::Result<()> {
        let interned = self.names.take_new();
        self.write_packet(Packet {
            timestamp: Some(t_ns),
            flags: Some(NEEDS_STATE),
            interned,
            data: Some(PacketData::TrackEvent(event)),
            ..Packet::default()
        })
    }

    fn write_packet(&mut self, mut packet: Packet) -> anyhow::Result<()> {
        packet.sequence = Some(SEQUENCE_ID);
        self.buffer.clear();
        proto::encode_packet(&packet, &mut self.buffer);
        debug_assert!(self.buffer.len() > packet.encoded_len());
        self.out
            .write_all(&self.buffer)
            .context("can't write the Perfetto trace")
    }
}
