//! The messages of a Perfetto trace, as far as quell writes them. Numbers and types are those of
//! `protos/perfetto/trace/trace.proto` and the files that it includes.

use prost::{Message, Oneof};

/// `TrackEvent.Type`.
pub(super) const SLICE_BEGIN: i32 = 1;
pub(super) const SLICE_END: i32 = 2;
pub(super) const INSTANT: i32 = 3;
pub(super) const COUNTER: i32 = 4;
/// `TrackDescriptor.ChildTracksOrdering.EXPLICIT`.
pub(super) const BY_RANK: i32 = 3;
/// `CounterDescriptor.Unit`.
pub(super) const UNIT_NS: i32 = 1;
pub(super) const UNIT_COUNT: i32 = 2;

/// Appends a packet as the next `packet` (field 1) of the message `Trace`: so a trace is written
/// without holding it.
pub(super) fn encode_packet(packet: &Packet, buffer: &mut Vec<u8>) {
    prost::encoding::message::encode(1, packet, buffer);
}

/// `TracePacket`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) sequence: Option<u32>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) flags: Option<u32>,
    #[prost(message, optional, tag = "59")]
    pub(super) defaults: Option<Defaults>,
    #[prost(bool, optional, tag = "87")]
    pub(super) first: Option<bool>,
    #[prost(oneof = "Data", tags = "6, 11, 60")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "6")]
    ClockSnapshot(ClockSnapshot),
    #[prost(message, tag = "11")]
    TrackEvent(TrackEvent),
    #[prost(message, tag = "60")]
    Track(Track),
}

/// `TracePacketDefaults`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Defaults {
    #[prost(uint32, optional, tag = "58")]
    pub(super) clock: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) primary: Option<u32>,
}

/// `ClockSnapshot.Clock`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub(super) id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) timestamp: Option<u64>,
}

/// `TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Track {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<Counter>,
    #[prost(int32, optional, tag = "11")]
    pub(super) child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub(super) rank: Option<i32>,
}

/// `CounterDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Counter {
    #[prost(int32, optional, tag = "3")]
    pub(super) unit: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) args: Vec<Arg>,
    #[prost(int32, optional, tag = "9")]
    pub(super) kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    pub(super) counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) terminating_flow_ids: Vec<u64>,
}

/// `DebugAnnotation`: what Perfetto calls an argument of a slice.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Arg {
    #[prost(uint64, optional, tag = "1")]
    pub(super) name_iid: Option<u64>,
    #[prost(oneof = "Value", tags = "2, 3, 4, 7, 17")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(uint64, tag = "3")]
    Uint(u64),
    #[prost(int64, tag = "4")]
    Int(i64),
    #[prost(uint64, tag = "7")]
    Pointer(u64),
    /// Of the interned strings.
    #[prost(uint64, tag = "17")]
    String(u64),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<Interned>,
    #[prost(message, repeated, tag = "3")]
    pub(super) arg_names: Vec<Interned>,
    #[prost(message, repeated, tag = "29")]
    pub(super) strings: Vec<Interned>,
}

/// `EventName`, `DebugAnnotationName` and `InternedString`, which are alike on the wire.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Interned {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) text: Option<String>,
}

impl From<Track> for Packet {
    fn from(track: Track) -> Self {
        Self {
            data: Some(Data::Track(track)),
            ..Self::default()
        }
    }
}
