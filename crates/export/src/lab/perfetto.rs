//! Perfetto: for each arm of each experiment a track of the victim's gaps, named by their class, and one of the
//! culprit's operations. All blocks begin at the same moment, so that arms lie under each other.

use std::io::Write;

use anyhow::Context as _;

use super::Timeline;
use crate::perfetto::proto::{
    self, Arg, ArgValue, Clock, ClockSnapshot, Interned, InternedData, Packet, PacketData,
    PacketDefaults, TrackDescriptor, TrackEvent,
};
use crate::perfetto::{CLOCK_MONOTONIC, CLOCK_REALTIME, NEEDS_STATE, SEQUENCE_ID, STATE_CLEARED};

/// When blocks begin: not 0, which a clock snapshot could as well mean as "none".
pub(super) const BEGIN_NS: u64 = 1_000_000_000;

/// Overlapping slices lie on at most this many tracks: only invented results need more.
const MAX_OVERLAP_TRACKS: usize = 64;

/// The name of the operations' slices.
const OPERATION_NAME: &str = "operation";
/// The argument of gaps.
const CAUSED_ARGUMENT: &str = "by_the_culprit";
const CAUSED_IID: u64 = 1;

/// Writes the timelines as a `perfetto.protos.Trace`. Blocks begin at `wall_ns` (since 1970) on the wall's clock, because results
/// don't say when they were measured.
///
/// # Errors
///
/// If `out` can't be written.
pub fn write(all: &[Timeline<'_>], wall_ns: u64, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut names: Vec<&str> = vec![OPERATION_NAME];
    for gap in all.iter().flat_map(|t| &t.gaps) {
        if !names.contains(&gap.class) {
            names.push(gap.class);
        }
    }
    let mut packets = LabPackets {
        out,
        buffer: Vec::new(),
        last: 0,
        names,
    };
    packets.write_preamble(wall_ns)?;
    let mut group: Option<(usize, u64)> = None;
    for timeline in all {
        let parent = match group {
            Some((result, uuid)) if result == timeline.result => uuid,
            _ => packets.write_group(None, timeline.experiment)?,
        };
        group = Some((timeline.result, parent));
        packets.write_arm(parent, timeline)?;
    }
    Ok(())
}

struct LabPackets<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    /// The last number of a track.
    last: u64,
    /// Of slices; their number is their place and one.
    names: Vec<&'a str>,
}

/// A slice: begin, end, and event.
type Slice = (u64, u64, TrackEvent);

impl LabPackets<'_> {
    fn write_preamble(&mut self, wall_ns: u64) -> anyhow::Result<()> {
        let interned = |iid: u64, text: &str| Interned {
            iid: Some(iid),
            text: Some(text.to_owned()),
        };
        let names = (1..).zip(&self.names).map(|(iid, n)| interned(iid, n));
        let interned = InternedData {
            event_names: names.collect(),
            arg_names: vec![interned(CAUSED_IID, CAUSED_ARGUMENT)],
            strings: Vec::new(),
        };
        self.write_packet(Packet {
            flags: Some(STATE_CLEARED),
            first: Some(true),
            defaults: Some(PacketDefaults {
                clock: Some(CLOCK_MONOTONIC),
            }),
            interned: Some(interned),
            ..Packet::default()
        })?;
        let clock = |id, ns| Clock {
            id: Some(id),
            timestamp: Some(ns),
        };
        let snapshot = ClockSnapshot {
            clocks: vec![
                clock(CLOCK_MONOTONIC, BEGIN_NS),
                clock(CLOCK_REALTIME, wall_ns),
            ],
            primary: Some(CLOCK_MONOTONIC),
        };
        self.write_packet(Packet {
            timestamp: Some(BEGIN_NS),
            data: Some(PacketData::ClockSnapshot(snapshot)),
            ..Packet::default()
        })
    }

    /// Writes a track that holds others, in the order in which these are written.
    fn write_group(&mut self, parent: Option<u64>, name: &str) -> anyhow::Result<u64> {
        self.write_track(parent, name, Some(proto::BY_RANK))
    }

    fn write_track(
        &mut self,
        parent: Option<u64>,
        name: &str,
        ordering: Option<i32>,
    ) -> anyhow::Result<u64> {
        self.last += 1;
        let track = TrackDescriptor {
            uuid: Some(self.last),
            parent,
            name: Some(name.to_owned()),
            child_ordering: ordering,
            rank: i32::try_from(self.last).ok(),
            ..TrackDescriptor::default()
        };
        self.write_packet(track.into())?;
        Ok(self.last)
    }

    fn write_arm(&mut self, parent: u64, timeline: &Timeline<'_>) -> anyhow::Result<()> {
        let arm = self.write_group(Some(parent), timeline.arm)?;
        let number = |name: &str| (1..).zip(&self.names).find(|(_, n)| **n == name);
        let named = |name: &str| TrackEvent {
            name_iid: number(name).map(|(iid, _)| iid),
            ..TrackEvent::default()
        };
        let gaps = timeline.gaps.iter().map(|gap| {
            let mut event = named(gap.class);
            event.args = vec![Arg {
                name_iid: Some(CAUSED_IID),
                value: Some(ArgValue::Bool(gap.caused)),
            }];
            (gap.begin_ns, gap.begin_ns.saturating_add(gap.ns), event)
        });
        let gaps: Vec<Slice> = gaps.collect();
        let ops = timeline.ops.iter();
        let ops: Vec<Slice> = ops
            .map(|&(b, e)| (b, e.max(b), named(OPERATION_NAME)))
            .collect();
        self.write_slices(arm, "the victim's gaps", gaps)?;
        self.write_slices(arm, "the culprit's operations", ops)
    }

    /// Slices on one track, or on several of one name where they overlap: Perfetto draws those as one.
    fn write_slices(&mut self, arm: u64, name: &str, mut slices: Vec<Slice>) -> anyhow::Result<()> {
        slices.sort_by_key(|s| (s.0, s.1));
        let mut lanes: Vec<(u64, u64)> = Vec::new();
        for (begin, end, event) in slices {
            let full = lanes.len() == MAX_OVERLAP_TRACKS;
            let uuid = match lanes.iter_mut().find(|(_, until)| *until <= begin) {
                Some(lane) => {
                    lane.1 = end;
                    lane.0
                }
                None if full => continue,
                None => {
                    let uuid = self.write_track(Some(arm), name, None)?;
                    lanes.push((uuid, end));
                    uuid
                }
            };
            let opening = TrackEvent {
                kind: Some(proto::SLICE_BEGIN),
                track_uuid: Some(uuid),
                ..event
            };
            self.write_event(begin, opening)?;
            let closing = TrackEvent {
                kind: Some(proto::SLICE_END),
                track_uuid: Some(uuid),
                ..TrackEvent::default()
            };
            self.write_event(end, closing)?;
        }
        Ok(())
    }

    fn write_event(&mut self, since_ns: u64, event: TrackEvent) -> anyhow::Result<()> {
        self.write_packet(Packet {
            timestamp: Some(BEGIN_NS.saturating_add(since_ns)),
            flags: Some(NEEDS_STATE),
            data: Some(PacketData::TrackEvent(event)),
            ..Packet::default()
        })
    }

    fn write_packet(&mut self, mut packet: Packet) -> anyhow::Result<()> {
        packet.sequence = Some(SEQUENCE_ID);
        self.buffer.clear();
        proto::encode_packet(&packet, &mut self.buffer);
        self.out
            .write_all(&self.buffer)
            .context("can't write the Perfetto trace")
    }
}
