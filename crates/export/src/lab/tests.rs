//! Any result, in each format: it is read back, and holds its input.

use std::collections::HashMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use proptest::prelude::*;
use prost::Message as _;

use super::{Gap, Timeline, Turns, hist, perfetto};
use crate::perfetto::proto::{self, ArgValue, Packet, PacketData};
use crate::tests::{Broken, base64_of};

/// Names that hold the formats' separators.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("dontneed".to_owned()), "[a-z, =\n\\\\é]{0,8}"]
}

fn turns() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((1u64..1 << 40, 1u64..1 << 30), 1..30)
}

/// `Trace`, which quell itself never holds as a whole.
#[derive(Clone, PartialEq, prost::Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

proptest! {
    /// Check that the log has an interval for each arm, one after the other, with all turns in it.
    #[test]
    fn log_any_result(arms in prop::collection::vec((name(), name(), 0u64..1 << 40, turns()), 0..4)) {
        let all: Vec<_> = arms.iter().map(|(experiment, arm, ran_ns, turns)| Turns {
            experiment, arm, ran_ns: *ran_ns, turns,
        }).collect();
        let mut log = Vec::new();
        hist::write_log(&all, 1_700_000_000_000_000_000, &mut log).unwrap();
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(&log) {
            if let LogEntry::Interval(i) = entry.unwrap() {
                let bytes = base64_of(i.encoded_histogram());
                let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                prop_assert!(i.tag().is_some());
                found.push((i.start_timestamp(), histogram.len()));
            }
        }
        prop_assert_eq!(found.len(), arms.len());
        prop_assert!(found.windows(2).all(|w| w[0].0 <= w[1].0));
        for ((_, n), (_, _, _, turns)) in found.iter().zip(&arms) {
            prop_assert_eq!(*n, turns.iter().map(|(_, n)| n).sum::<u64>());
        }
    }

    /// Check that a distribution ends with all turns and that its values only grow.
    #[test]
    fn distribution_any_result(turns in turns(), arm in name()) {
        let mut text = Vec::new();
        let one = Turns { experiment: "munmap", arm: &arm, ran_ns: 1, turns: &turns };
        hist::write_distribution(&one, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines = text.lines().skip(2).take_while(|l| !l.starts_with('#'));
        let numbers = |l: &str| l.split_whitespace().map(|w| w.parse::<f64>().unwrap()).collect::<Vec<_>>();
        let lines: Vec<_> = lines.map(numbers).collect();
        prop_assert!(lines.windows(2).all(|w| w[0][0] <= w[1][0]));
        let total = turns.iter().map(|(_, n)| n).sum::<u64>();
        prop_assert_eq!(lines.last().unwrap()[2] as u64, total);
    }

    /// Check that every gap and every operation is a slice of its length on a track of its arm, that slices never
    /// overlap on a track, and that their names are known before they are used.
    #[test]
    fn perfetto_any_result(
        arms in prop::collection::vec((
            name(), name(),
            prop::collection::vec((0u64..1 << 30, 0u64..1 << 20, prop::sample::select(&["tlb", "timer", "none"]), any::<bool>()), 0..20),
            prop::collection::vec((0u64..1 << 30, 0u64..1 << 20), 0..20),
        ), 0..4),
    ) {
        let ops: Vec<Vec<(u64, u64)>> = arms.iter().map(|a| a.3.iter().map(|(b, ns)| (*b, b + ns)).collect()).collect();
        let all: Vec<_> = arms.iter().zip(&ops).enumerate().map(|(n, ((experiment, arm, gaps, _), ops))| Timeline {
            result: n / 2,
            experiment,
            arm,
            gaps: gaps.iter().map(|&(begin_ns, ns, class, caused)| Gap { begin_ns, ns, class, caused }).collect(),
            ops,
        }).collect();
        let mut bytes = Vec::new();
        perfetto::write(&all, 7, &mut bytes).unwrap();
        let trace = Trace::decode(&bytes[..]).unwrap();
        let mut names = Vec::new();
        let mut tracks = HashMap::new();
        let mut events = Vec::new();
        for packet in &trace.packet {
            if let Some(interned) = &packet.interned {
                names.extend(interned.event_names.iter().map(|n| n.text.clone().unwrap()));
            }
            match &packet.data {
                Some(PacketData::TrackDescriptor(track)) => {
                    prop_assert!(track.parent.is_none_or(|p| tracks.contains_key(&p)));
                    tracks.insert(track.uuid.unwrap(), track.name.clone().unwrap());
                }
                Some(PacketData::TrackEvent(event)) => events.push((packet.timestamp.unwrap(), event)),
                _ => {}
            }
        }
        // stable, as the importer's sort is
        events.sort_by_key(|(t, _)| *t);
        let mut open = HashMap::new();
        let mut found = Vec::new();
        for (t, event) in events {
            let uuid = event.track_uuid.unwrap();
            if event.kind == Some(proto::SLICE_BEGIN) {
                let name = names[event.name_iid.unwrap() as usize - 1].as_str();
                let caused = event.args.first().map(|a| a.value == Some(ArgValue::Bool(true)));
                prop_assert!(open.insert(uuid, (t, name, caused)).is_none(), "slices overlap");
            } else {
                let (begin, name, caused) = open.remove(&uuid).unwrap();
                found.push((begin - perfetto::BEGIN_NS, t - begin, name, caused));
            }
        }
        prop_assert!(open.is_empty());
        let gaps = arms.iter().flat_map(|a| &a.2).map(|&(b, ns, class, caused)| (b, ns, class, Some(caused)));
        let ops = arms.iter().flat_map(|a| &a.3).map(|&(b, ns)| (b, ns, "operation", None));
        let mut given: Vec<_> = gaps.chain(ops).collect();
        given.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, given);
    }
}

/// Check that no format takes a full disk for success.
#[test]
fn a_full_disk_is_an_error() {
    let turns = Turns {
        experiment: "munmap",
        arm: "real",
        ran_ns: 1,
        turns: &[(30, 1)],
    };
    assert!(hist::write_log(&[turns], 0, &mut Broken).is_err());
    assert!(hist::write_distribution(&turns, &mut Broken).is_err());
    assert!(perfetto::write(&[], 0, &mut Broken).is_err());
}
