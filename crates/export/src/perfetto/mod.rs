//! Perfetto: a track for each CPU as culprit and as victim, one for each thread that memory management made sleep and for each
//! holder that kept it waiting, arrows between them, and counters.
//!
//! Written packet by packet, in the order of the trace: readers of the format sort by time, and only the slices of one track must
//! come in order.

mod counters;
mod events;
pub(crate) mod names;
pub(crate) mod packets;
pub(crate) mod proto;
mod tracks;

use std::io::Write;

use quell_event::Comm;
use quell_event::trace::{EventRow, SampleRow, WaitRow};

use crate::{Rows, Stacks};
use counters::CounterBins;
use names::InternedNames;
use packets::PacketWriter;
use proto::TrackEvent;
use tracks::{CpuSide, Spot, ThreadAct, ThreadId, Tracks};

/// Writes the trace as a `perfetto.protos.Trace`.
///
/// # Errors
///
/// If the trace can't be read or `out` can't be written.
pub fn write(rows: &Rows<'_>, stacks: &Stacks, out: &mut dyn Write) -> anyhow::Result<()> {
    let meta = rows.meta();
    let begin = meta.start_monotonic_ns;
    let mut packets = PacketWriter::new(out);
    packets.write_preamble(names::fixed_names(), begin, meta.start_wall_ns)?;
    packets.write_packet(tracks::root_track().into())?;
    let mut packets = TracePackets {
        packets,
        last_flow: 0,
        tracks: Tracks::default(),
        names: InternedNames::new(stacks),
    };
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
    packets: PacketWriter<'a>,
    last_flow: u64,
    tracks: Tracks,
    names: InternedNames<'a>,
}

impl TracePackets<'_> {
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

    /// The slice of the thread that waits, and one of the holder, from which an arrow leads to the first. Where the holder is not
    /// known, and its number 0, there is only the first.
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
        let event = events::sample_mark(sample, &mut self.names);
        self.write_instant(uuid, sample.t_ns, event)
    }

    /// Tracks of counters, with all their values.
    fn write_counters<const N: usize>(
        &mut self,
        counters: &CounterBins<N>,
        of: [(&str, i32); N],
    ) -> anyhow::Result<()> {
        for (track, values) in counters.counter_tracks(of, || self.tracks.new_number()) {
            self.packets.write_packet(track.into())?;
            for (t_ns, value) in values {
                self.packets.write_event(t_ns, value, None)?;
            }
        }
        Ok(())
    }

    /// Describes tracks before they are used.
    fn new_tracks(&mut self) -> anyhow::Result<()> {
        for track in self.tracks.take_new() {
            self.packets.write_packet(track.into())?;
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
        event: TrackEvent,
    ) -> anyhow::Result<()> {
        self.new_tracks()?;
        let uuid = match spot {
            Spot::Slice(uuid) => uuid,
            Spot::Instant(uuid) => return self.write_instant(uuid, start, event),
        };
        let new_names = self.names.take_new();
        self.packets.write_slice(uuid, start, end, event, new_names)
    }

    fn write_instant(&mut self, track: u64, t_ns: u64, event: TrackEvent) -> anyhow::Result<()> {
        let event = TrackEvent {
            track_uuid: Some(track),
            kind: Some(proto::TYPE_INSTANT),
            ..event
        };
        self.packets.write_event(t_ns, event, self.names.take_new())
    }
}
