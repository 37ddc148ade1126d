//! Perfetto: for each arm of each experiment a track of the victim's gaps, named by their class, and one of the
//! culprit's operations. All blocks begin at the same moment, so that arms lie under each other.

use std::io::Write;
use std::iter;

use indexmap::IndexSet;

use super::Timeline;
use crate::perfetto::names::intern_entry;
use crate::perfetto::packets::PacketWriter;
use crate::perfetto::proto::{self, Arg, ArgValue, InternedData, TrackDescriptor, TrackEvent};

/// When blocks begin: not 0, which a clock snapshot could as well mean as "none".
pub(super) const BEGIN_NS: u64 = 1_000_000_000;

/// Overlapping slices lie on at most this many tracks: only invented results need more.
const MAX_OVERLAP_TRACKS: usize = 64;

/// The name of the operations' slices.
const OPERATION_NAME: &str = "operation";
/// The argument of gaps.
const CAUSED_ARGUMENT: &str = "by_the_culprit";
const CAUSED_IID: u64 = 1;

/// Writes the timelines as a `perfetto.protos.Trace`. Those of one result follow each other in `all`. Blocks begin at `wall_ns`
/// (since 1970) on the wall's clock, because results don't say when they were measured.
///
/// # Errors
///
/// If `out` can't be written.
pub fn write(all: &[Timeline<'_>], wall_ns: u64, out: &mut dyn Write) -> anyhow::Result<()> {
    let classes = all.iter().flat_map(|t| &t.gaps).map(|gap| gap.class);
    let names: IndexSet<&str> = iter::once(OPERATION_NAME).chain(classes).collect();
    let mut packets = PacketWriter::new(out);
    packets.write_preamble(interned_names(&names), BEGIN_NS, wall_ns)?;
    let mut packets = LabPackets {
        packets,
        last: 0,
        names,
    };
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
    packets: PacketWriter<'a>,
    /// The last number of a track.
    last: u64,
    /// Of slices; their number is their place and one.
    names: IndexSet<&'a str>,
}

/// A slice: begin, end, and event.
type Slice = (u64, u64, TrackEvent);

impl LabPackets<'_> {
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
        self.packets.write_packet(track.into())?;
        Ok(self.last)
    }

    fn write_arm(&mut self, parent: u64, timeline: &Timeline<'_>) -> anyhow::Result<()> {
        let arm = self.write_group(Some(parent), timeline.arm)?;
        let named = |name: &str| TrackEvent {
            name_iid: self.names.get_index_of(name).map(|place| place as u64 + 1),
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

    /// Slices on one track, or on several of one name where they overlap: Perfetto draws those as one. A slice that would need
    /// one track too many is left out.
    fn write_slices(&mut self, arm: u64, name: &str, mut slices: Vec<Slice>) -> anyhow::Result<()> {
        slices.sort_by_key(|s| (s.0, s.1));
        let at = |since_begin: u64| BEGIN_NS.saturating_add(since_begin);
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
            self.packets
                .write_slice(uuid, at(begin), at(end), event, None)?;
        }
        Ok(())
    }
}

fn interned_names(names: &IndexSet<&str>) -> InternedData {
    let names = (1..).zip(names);
    InternedData {
        event_names: names.map(|(iid, name)| intern_entry(iid, *name)).collect(),
        arg_names: vec![intern_entry(CAUSED_IID, CAUSED_ARGUMENT)],
        strings: Vec::new(),
    }
}
