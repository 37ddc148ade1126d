//! The messages of a Perfetto trace, as far as quell writes them. Numbers and types are those of
//! `protos/perfetto/trace/trace.proto` and the files that it includes.

use prost::{Message, Oneof};

/// `TrackEvent.Type`.
pub(crate) const SLICE_BEGIN: i32 = 1;
pub(crate) const SLICE_END: i32 = 2;
pub(crate) const TYPE_INSTANT: i32 = 3;
pub(crate) const TYPE_COUNTER: i32 = 4;
/// `TrackDescriptor.ChildTracksOrdering.EXPLICIT`.
pub(crate) const BY_RANK: i32 = 3;
/// `CounterDescriptor.Unit`.
pub(crate) const UNIT_NS: i32 = 1;
pub(crate) const UNIT_COUNT: i32 = 2;

/// `TracePacket`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Packet {
    #[prost(uint64, optional, tag = "8")]
    pub(crate) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(crate) sequence: Option<u32>,
    #[prost(message, optional, tag = "12")]
    pub(crate) interned: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub(crate) flags: Option<u32>,
    #[prost(message, optional, tag = "59")]
    pub(crate) defaults: Option<PacketDefaults>,
    #[prost(bool, optional, tag = "87")]
    pub(crate) first: Option<bool>,
    #[prost(oneof = "PacketData", tags = "6, 11, 60")]
    pub(crate) data: Option<PacketData>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum PacketData {
    #[prost(message, tag = "6")]
    ClockSnapshot(ClockSnapshot),
    #[prost(message, tag = "11")]
    TrackEvent(TrackEvent),
    #[prost(message, tag = "60")]
    TrackDescriptor(TrackDescriptor),
}

/// `TracePacketDefaults`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PacketDefaults {
    #[prost(uint32, optional, tag = "58")]
    pub(crate) clock: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(crate) clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) primary: Option<u32>,
}

/// `ClockSnapshot.Clock`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) timestamp: Option<u64>,
}

/// `TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) uuid: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) parent: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(crate) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(crate) thread: Option<ThreadDescriptor>,
    #[prost(message, optional, tag = "8")]
    pub(crate) counter: Option<CounterDescriptor>,
    #[prost(int32, optional, tag = "11")]
    pub(crate) child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub(crate) rank: Option<i32>,
}

/// `ProcessDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(crate) pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(crate) name: Option<String>,
}

/// `ThreadDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(crate) pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) tid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub(crate) name: Option<String>,
}

/// `CounterDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    pub(crate) unit: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(crate) args: Vec<Arg>,
    #[prost(int32, optional, tag = "9")]
    pub(crate) kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(crate) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(crate) track_uuid: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    pub(crate) counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(crate) flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(crate) terminating_flow_ids: Vec<u64>,
}

/// `DebugAnnotation`: Perfetto calls it an argument of a slice.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Arg {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) name_iid: Option<u64>,
    #[prost(oneof = "ArgValue", tags = "2, 3, 4, 7, 17")]
    pub(crate) value: Option<ArgValue>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum ArgValue {
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
pub(crate) struct InternedData {
    #[prost(message, repeated, tag = "2")]
    pub(crate) event_names: Vec<Interned>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) arg_names: Vec<Interned>,
    #[prost(message, repeated, tag = "29")]
    pub(crate) strings: Vec<Interned>,
}

/// `EventName`, `DebugAnnotationName` and `InternedString`, which are alike on the wire.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Interned {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) text: Option<String>,
}

impl From<TrackDescriptor> for Packet {
    fn from(track: TrackDescriptor) -> Self {
        Self {
            data: Some(PacketData::TrackDescriptor(track)),
            ..Self::default()
        }
    }
}
