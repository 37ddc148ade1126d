//! Packets as they are written: those of every trace, and slices.

use std::io::Write;

use anyhow::Context as _;

use super::proto::{
    self, Clock, ClockSnapshot, InternedData, Packet, PacketData, PacketDefaults, TrackEvent,
};

/// All packets are of one sequence, so that each interned name is written once.
const SEQUENCE_ID: u32 = 1;
/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_MONOTONIC` of perfetto's `builtin_clock.proto`.
const CLOCK_REALTIME: u32 = 1;
const CLOCK_MONOTONIC: u32 = 3;
/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE` of `trace_packet.proto`.
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;

/// Writes packets one by one: so a trace is written without holding it.
pub(crate) struct PacketWriter<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
}

impl<'a> PacketWriter<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            buffer: Vec::new(),
        }
    }

    /// Writes the packets that hold for all others: the names that are known beforehand, and both clocks at the beginning.
    pub(crate) fn write_preamble(
        &mut self,
        names: InternedData,
        start_ns: u64,
        wall_ns: u64,
    ) -> anyhow::Result<()> {
        self.write_packet(Packet {
            flags: Some(STATE_CLEARED),
            first: Some(true),
            defaults: Some(PacketDefaults {
                clock: Some(CLOCK_MONOTONIC),
            }),
            interned: Some(names),
            ..Packet::default()
        })?;
        let clock = |id, ns| Clock {
            id: Some(id),
            timestamp: Some(ns),
        };
        let snapshot = ClockSnapshot {
            clocks: vec![
                clock(CLOCK_MONOTONIC, start_ns),
                clock(CLOCK_REALTIME, wall_ns),
            ],
            primary: Some(CLOCK_MONOTONIC),
        };
        self.write_packet(Packet {
            timestamp: Some(start_ns),
            data: Some(PacketData::ClockSnapshot(snapshot)),
            ..Packet::default()
        })
    }

    /// Writes a slice of a track; `new_names` are those that the event uses first.
    pub(crate) fn write_slice(
        &mut self,
        track: u64,
        start_ns: u64,
        end_ns: u64,
        event: TrackEvent,
        new_names: Option<InternedData>,
    ) -> anyhow::Result<()> {
        let opening = TrackEvent {
            kind: Some(proto::SLICE_BEGIN),
            track_uuid: Some(track),
            ..event
        };
        self.write_event(start_ns, opening, new_names)?;
        let closing = TrackEvent {
            kind: Some(proto::SLICE_END),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        self.write_event(end_ns, closing, None)
    }

    pub(crate) fn write_event(
        &mut self,
        t_ns: u64,
        event: TrackEvent,
        new_names: Option<InternedData>,
    ) -> anyhow::Result<()> {
        self.write_packet(Packet {
            timestamp: Some(t_ns),
            flags: Some(NEEDS_STATE),
            interned: new_names,
            data: Some(PacketData::TrackEvent(event)),
            ..Packet::default()
        })
    }

    pub(crate) fn write_packet(&mut self, mut packet: Packet) -> anyhow::Result<()> {
        packet.sequence = Some(SEQUENCE_ID);
        self.buffer.clear();
        // As the next `packet` (field 1) of the message `Trace`.
        prost::encoding::message::encode(1, &packet, &mut self.buffer);
        self.out
            .write_all(&self.buffer)
            .context("can't write the Perfetto trace")
    }
}
