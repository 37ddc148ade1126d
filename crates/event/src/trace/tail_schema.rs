//! The columns of a tail.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use super::schema::{SCHEMA_KEY, TRACE_SCHEMA};
use super::tail_frame::StreamShape;
use crate::Cause;

/// Key in the stream's metadata: the names of all causes in the order of their numbers.
const CAUSES_KEY: &str = "quell.causes";

/// The shape of a tail of events.
pub(super) const EVENT_SHAPE: StreamShape<'_> = StreamShape {
    widths: &EVENT_WIDTHS_BYTES,
    // culprits and victims
    dictionaries: &[&TASK_WIDTHS_BYTES, &TASK_WIDTHS_BYTES],
    key: CAUSES_KEY,
};

/// Bytes of a value in each column, in order.
const EVENT_WIDTHS_BYTES: [u64; 17] = [8, 2, 8, 8, 1, 2, 4, 2, 8, 8, 4, 4, 4, 2, 1, 4, 4];

/// Bytes of a value in each column of a dictionary of threads: pid, tid, cgroup, comm.
const TASK_WIDTHS_BYTES: [u64; 4] = [4, 4, 8, 16];

/// The columns of a dictionary of threads.
pub(super) fn task_fields() -> Fields {
    Fields::from(vec![
        Field::new("pid", DataType::UInt32, false),
        Field::new("tid", DataType::UInt32, false),
        Field::new("cgroup", DataType::UInt64, false),
        Field::new("comm", DataType::FixedSizeBinary(16), false),
    ])
}

/// The columns of a tail.
pub(super) fn event_schema() -> SchemaRef {
    let task = DataType::Dictionary(
        Box::new(DataType::UInt32),
        Box::new(DataType::Struct(task_fields())),
    );
    let fields = vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("victim_index", DataType::UInt16, false),
        Field::new("t_ns", DataType::UInt64, false),
        Field::new("wait_ns", DataType::UInt64, false),
        Field::new("cause", DataType::UInt8, false),
        Field::new("syscall", DataType::Int16, false),
        Field::new("culprit", task.clone(), false),
        Field::new("cpu", DataType::UInt16, false),
        Field::new("start", DataType::UInt64, false),
        Field::new("end", DataType::UInt64, false),
        Field::new("kernel_stack", DataType::Int32, false),
        Field::new("user_stack", DataType::Int32, false),
        Field::new("victim", task, false),
        Field::new("victim_cpu", DataType::UInt16, false),
        Field::new("flags", DataType::UInt8, false),
        Field::new("delay_ns", DataType::UInt32, false),
        Field::new("stall_ns", DataType::UInt32, false),
    ];
    let names = Cause::ALL.map(Cause::name);
    let metadata = HashMap::from([
        (SCHEMA_KEY.to_owned(), TRACE_SCHEMA.to_owned()),
        (CAUSES_KEY.to_owned(), names.join(",")),
    ]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}
