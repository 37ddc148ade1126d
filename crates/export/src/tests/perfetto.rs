//! Perfetto's rules, played through as its importer does.

use std::collections::HashMap;

use proptest::prelude::*;
use prost::Message as _;

use super::{Totals, export_with, shootdowns, singles, some_stacks};
use crate::perfetto::proto::{self, Packet, PacketData, TrackEvent};

/// `Trace`, which quell itself never holds as a whole.
#[derive(Clone, PartialEq, prost::Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

fn events(trace: &Trace) -> Vec<(u64, &TrackEvent)> {
    let mut events: Vec<_> = trace
        .packet
        .iter()
        .filter_map(|p| match &p.data {
            Some(PacketData::TrackEvent(event)) => Some((p.timestamp.unwrap(), event)),
            _ => None,
        })
        .collect();
    // Stable, as the importer's sort is.
    events.sort_by_key(|(t, _)| *t);
    events
}

proptest! {
    /// Check that slices never nest, that they last as long as waits and stalls, that each arrow has both
    /// ends in that order, that names are known before use, that each sample of memory management has a mark, and that
    /// counters add up.
    #[test]
    fn any_trace(all in shootdowns(), (waits, samples) in singles()) {
        let stacks = some_stacks();
        let bytes = export_with(&all, &waits, &samples, |rows, out| crate::perfetto::write(rows, &stacks, out));
        let trace = Trace::decode(&bytes[..]).unwrap();
        let totals = Totals::value_of(&all);

        let mut tracks = HashMap::new();
        let (mut strings, mut fixed) = (0, 0);
        for packet in &trace.packet {
            if let Some(interned) = &packet.interned {
                strings += interned.strings.len() as u64;
                fixed += interned.event_names.len() as u64;
            }
            match packet.data.as_ref() {
                Some(PacketData::TrackDescriptor(track)) => {
                    let parent = track.parent;
                    prop_assert!(parent.is_none_or(|p| tracks.contains_key(&p)));
                    let name = match (&track.name, &track.thread, &track.process) {
                        (Some(name), None, None) => name.clone(),
                        (None, Some(thread), None) => {
                            prop_assert!(thread.pid.is_some() && thread.tid.is_some() && thread.name.is_some());
                            "waits".to_owned()
                        }
                        (None, None, Some(_)) => "process".to_owned(),
                        _ => return Err(TestCaseError::fail("a track of two kinds")),
                    };
                    let old = tracks.insert(track.uuid.unwrap(), name);
                    prop_assert_eq!(old, None);
                }
                Some(PacketData::TrackEvent(event)) => {
                    prop_assert!(tracks.contains_key(&event.track_uuid.unwrap()));
                    prop_assert!(event.name_iid.is_none_or(|n| n <= fixed));
                    for arg in &event.args {
                        if let Some(proto::ArgValue::String(iid)) = arg.value {
                            prop_assert!(iid <= strings);
                        }
                    }
                }
                _ => {}
            }
        }

        let mut open: HashMap<u64, u64> = HashMap::new();
        let (mut lasted, mut counted) = (HashMap::<&str, u64>::new(), HashMap::<&str, u64>::new());
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        for (t, event) in events(&trace) {
            let uuid = event.track_uuid.unwrap();
            let name = tracks[&uuid].as_str();
            match event.kind.unwrap() {
                proto::SLICE_BEGIN => {
                    prop_assert_eq!(open.insert(uuid, t), None, "slices overlap on {}", name);
                    *counted.entry(name).or_default() += 1;
                }
                proto::SLICE_END => {
                    *lasted.entry(name).or_default() += t - open.remove(&uuid).unwrap();
                }
                proto::TYPE_COUNTER => {
                    let name = name.split(" per ").next().unwrap();
                    *counted.entry(name).or_default() += event.counter_value.unwrap().cast_unsigned();
                }
                proto::TYPE_INSTANT => *counted.entry("marks").or_default() += 1,
                kind => prop_assert!(false, "an event of type {}", kind),
            }
            begun.extend(&event.flow_ids);
            for flow in &event.terminating_flow_ids {
                prop_assert!(begun.contains(flow), "an arrow ends before it begins");
                ended.push(*flow);
            }
        }
        prop_assert!(open.is_empty());
        begun.sort_unstable();
        ended.sort_unstable();
        let held: Vec<_> = waits.iter().filter(|w| w.holder_tid != 0).collect();
        let arrows = totals.seen + held.len() as u64;
        prop_assert_eq!(&begun, &(1..=arrows).collect::<Vec<_>>());
        prop_assert_eq!(&begun, &ended);
        let of = |map: &HashMap<&str, u64>, name| map.get(name).copied().unwrap_or(0);
        prop_assert_eq!(of(&counted, "waits as culprit"), totals.shootdowns);
        prop_assert_eq!(of(&counted, "stalls as victim"), totals.seen);
        prop_assert_eq!(of(&lasted, "waits as culprit"), totals.wait_ns);
        prop_assert_eq!(of(&lasted, "stalls as victim"), totals.stall_ns);
        prop_assert_eq!(of(&counted, "shootdowns"), totals.shootdowns);
        prop_assert_eq!(of(&counted, "stalled time"), totals.stall_ns);
        prop_assert_eq!(of(&counted, "waits"), waits.len() as u64);
        prop_assert_eq!(of(&lasted, "waits"), waits.iter().map(|w| w.wait_ns).sum::<u64>());
        prop_assert_eq!(of(&counted, "others wait for it"), held.len() as u64);
        prop_assert_eq!(of(&lasted, "others wait for it"), held.iter().map(|w| w.wait_ns).sum::<u64>());
        let of_memory = samples.iter().filter(|s| s.mechanism.is_some()).count() as u64;
        prop_assert_eq!(of(&counted, "marks"), of_memory);
        prop_assert_eq!(of(&counted, "samples of memory management"), of_memory);
        let every: u64 = samples.iter().map(|s| u64::from(s.samples)).sum();
        prop_assert_eq!(of(&counted, "samples"), every);
    }
}
