//! The messages of an Arrow stream, one after the other.
//!
//! The columns are known, so messages are taken apart here and not by the general reader, which
//! allocates what a header claims and may panic on a garbled one. All lengths are checked against
//! the file before anything is allocated; what remains to trust are numbers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use arrow_ipc::{MessageHeader, RecordBatch, root_as_message};

use super::SCHEMA;
use super::tail_schema::{BATCH_ROWS, CAUSES_KEY, SCHEMA_KEY, TASK_WIDTHS, WIDTHS};

/// No header is longer, bytes; ours are some 3,000.
const HEADER_CAP: u32 = 1 << 16;
/// No body is longer, bytes: room for a dictionary of two million threads.
const BODY_CAP: u64 = 80 << 20;

/// Where the values of each column lie in the body.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) rows: usize,
    /// Offset in the body, bytes, of each column.
    pub(super) columns: Vec<usize>,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// The first message; the names of the causes by number.
    Schema(Vec<String>),
    /// Threads for column `id` of the two that name threads.
    Threads(i64, Layout),
    Rows(Layout),
    End,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// Where the body begins in the file.
    pub(super) body_at: u64,
    pub(super) body_len: usize,
    /// Where the next message begins.
    pub(super) next: u64,
}

/// The message at `at` of a file of `len` bytes; `None` where there is no whole one that this
/// version wrote, which is where a tail ends that was cut.
pub(super) fn message(file: &File, at: u64, len: u64) -> io::Result<Option<Message>> {
    let left = len.saturating_sub(at);
    if left < 8 {
        return Ok(None);
    }
    let mut prefix = [0; 8];
    if !whole(file.read_exact_at(&mut prefix, at))? {
        return Ok(None);
    }
    let [a, b, c, d, w, x, y, z] = prefix;
    let header_len = u32::from_le_bytes([w, x, y, z]);
    if [a, b, c, d] != [0xff; 4] || header_len > HEADER_CAP || u64::from(header_len) > left - 8 {
        return Ok(None);
    }
    if header_len == 0 {
        return Ok(Some(Message {
            kind: Kind::End,
            body_at: at + 8,
            body_len: 0,
            next: at + 8,
        }));
    }
    let mut header = vec![0; header_len as usize];
    if !whole(file.read_exact_at(&mut header, at + 8))? {
        return Ok(None);
    }
    let body_at = at + 8 + u64::from(header_len);
    Ok(parse(&header, body_at, len - body_at))
}

/// A file may be cut while it is read.
fn whole(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(err) if err.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(err) => Err(err),
    }
}

fn parse(header: &[u8], body_at: u64, left: u64) -> Option<Message> {
    let message = root_as_message(header).ok()?;
    let body = u64::try_from(message.bodyLength()).ok()?;
    if body > left.min(BODY_CAP) {
        return None;
    }
    let kind = match message.header_type() {
        MessageHeader::Schema => Kind::Schema(causes(&message)?),
        MessageHeader::DictionaryBatch => {
            let batch = message.header_as_dictionary_batch()?;
            if batch.isDelta() || !(0..2).contains(&batch.id()) {
                return None;
            }
            // A structure has one buffer for itself and then two for each of its columns.
            Kind::Threads(batch.id(), layout(&batch.data()?, 1, &TASK_WIDTHS, body)?)
        }
        MessageHeader::RecordBatch => {
            let layout = layout(&message.header_as_record_batch()?, 0, &WIDTHS, body)?;
            if layout.rows > BATCH_ROWS {
                return None;
            }
            Kind::Rows(layout)
        }
        _ => return None,
    };
    Some(Message {
        kind,
        body_at,
        body_len: body as usize,
        next: body_at + body,
    })
}

/// The names of the causes, of a stream that says that it is a tail.
fn causes(message: &arrow_ipc::Message<'_>) -> Option<Vec<String>> {
    let metadata = message.header_as_schema()?.custom_metadata()?;
    let get = |key| {
        metadata
            .iter()
            .find(|kv| kv.key() == Some(key))
            .and_then(|kv| kv.value())
    };
    if get(SCHEMA_KEY) != Some(SCHEMA) {
        return None;
    }
    Some(get(CAUSES_KEY)?.split(',').map(str::to_owned).collect())
}

/// Buffers come in pairs, where values are missing and the values, after `skip` others.
fn layout(batch: &RecordBatch<'_>, skip: usize, widths: &[u64], body: u64) -> Option<Layout> {
    let rows = u64::try_from(batch.length()).ok()?;
    let buffers = batch.buffers()?;
    if batch.compression().is_some() || buffers.len() != skip + 2 * widths.len() {
        return None;
    }
    let mut columns = Vec::with_capacity(widths.len());
    for (i, width) in widths.iter().enumerate() {
        let buffer = buffers.get(skip + 2 * i + 1);
        let offset = u64::try_from(buffer.offset()).ok()?;
        let length = u64::try_from(buffer.length()).ok()?;
        if offset.checked_add(length)? > body || length < rows.checked_mul(*width)? {
            return None;
        }
        columns.push(offset as usize);
    }
    Some(Layout {
        rows: rows as usize,
        columns,
    })
}
