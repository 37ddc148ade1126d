//! Perfetto: a track for each CPU as culprit and as victim, arrows between them, and counters.
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
use quell_event::trace::{Meta, Row};

use crate::{Rows, Stacks};
use counters::Counters;
use names::Names;
use proto::{Clock, ClockSnapshot, Data, Defaults, InternedData, Packet, TrackEvent};
use tracks::{Side, Spot, Tracks};

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
    let mut counters = Counters::new(rows.meta().start_monotonic_ns);
    rows.each_shootdown(|shootdown| {
        counters.take(shootdown);
        packets.shootdown(shootdown)
    })?;
    for (track, values) in counters.tracks(packets.tracks.number()) {
        packets.put(track.into())?;
        for (t_ns, value) in values {
            packets.event(t_ns, value)?;
        }
    }
    Ok(())
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

    /// A slice, or an instant where the CPU has no track left on which it would not overlap.
    fn slice(
        &mut self,
        side: Side,
        cpu: u16,
        start: u64,
        end: u64,
        mut event: TrackEvent,
    ) -> anyhow::Result<()> {
        let spot = self.tracks.spot(side, cpu, start, end);
        for track in self.tracks.fresh() {
            self.put(track.into())?;
        }
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
        let strings = self.names.fresh();
        let interned = (!strings.is_empty()).then(|| InternedData {
            strings,
            ..InternedData::default()
        });
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
