//! The messages of an Arrow stream, one after the other.
//!
//! The columns are known, so messages are taken apart here and not by the general reader, which
//! allocates as much as a header claims and may panic on a garbled one. All lengths are checked against
//! the file before anything is allocated; only numbers remain to be trusted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use arrow_ipc::{MessageHeader, RecordBatch, root_as_message};

use super::schema::{SCHEMA_KEY, TRACE_SCHEMA};

/// A batch has no more rows than this.
pub(super) const MAX_BATCH_ROWS: usize = 1 << 16;
/// A longer header is refused; ours take some 3,000 bytes.
const MAX_HEADER_BYTES: u32 = 1 << 16;
/// A longer body is refused: a dictionary of two million threads has room.
const MAX_BODY_BYTES: u64 = 80 << 20;

/// The shape of a kind of stream, by which streams of other kinds are refused.
pub(super) struct StreamShape<'a> {
    /// Bytes of a value in each column of a row.
    pub(super) widths: &'a [u64],
    /// The same of each dictionary, of which each column is in one structure.
    pub(super) dictionaries: &'a [&'a [u64]],
    /// Key in the stream's metadata that it must have; its value is a list of names.
    pub(super) key: &'a str,
}

/// Where the values of each column lie in the body.
#[derive(Debug)]
pub(super) struct BodyLayout {
    pub(super) rows: usize,
    /// Offset in the body, bytes, of each column.
    pub(super) columns: Vec<usize>,
}

#[derive(Debug)]
pub(super) enum MessageKind {
    /// The first message; the names that the metadata has.
    Schema(Vec<String>),
    /// The values that the numbers of a column stand for: the dictionary of this number.
    Dictionary(usize, BodyLayout),
    Rows(BodyLayout),
    End,
}

#[derive(Debug)]
pub(super) struct TailMessage {
    pub(super) kind: MessageKind,
    /// Where the body begins in the file.
    pub(super) body_at: u64,
    pub(super) body_len: usize,
    /// Where the next message begins.
    pub(super) next: u64,
}

/// The message at `at` of a file of `len` bytes; `None` where there is no whole one that this
/// version wrote, which is where a tail ends that was cut.
pub(super) fn read_message(
    file: &File,
    at: u64,
    len: u64,
    shape: &StreamShape<'_>,
) -> io::Result<Option<TailMessage>> {
    let left = len.saturating_sub(at);
    if left < 8 {
        return Ok(None);
    }
    let mut prefix = [0; 8];
    if !is_whole(file.read_exact_at(&mut prefix, at))? {
        return Ok(None);
    }
    let [a, b, c, d, w, x, y, z] = prefix;
    let header_len = u32::from_le_bytes([w, x, y, z]);
    if [a, b, c, d] != [0xff; 4]
        || header_len > MAX_HEADER_BYTES
        || u64::from(header_len) > left - 8
    {
        return Ok(None);
    }
    if header_len == 0 {
        return Ok(Some(TailMessage {
            kind: MessageKind::End,
            body_at: at + 8,
            body_len: 0,
            next: at + 8,
        }));
    }
    let mut header = vec![0; header_len as usize];
    if !is_whole(file.read_exact_at(&mut header, at + 8))? {
        return Ok(None);
    }
    let body_at = at + 8 + u64::from(header_len);
    Ok(parse_header(&header, body_at, len - body_at, shape))
}

/// Says whether all bytes were read: a file may be cut while it is read.
fn is_whole(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(err) if err.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(err) => Err(err),
    }
}

fn parse_header(
    header: &[u8],
    body_at: u64,
    left: u64,
    shape: &StreamShape<'_>,
) -> Option<TailMessage> {
    let message = root_as_message(header).ok()?;
    let body = u64::try_from(message.bodyLength()).ok()?;
    if body > left.min(MAX_BODY_BYTES) {
        return None;
    }
    let kind = match message.header_type() {
        MessageHeader::Schema => MessageKind::Schema(schema_names(&message, shape.key)?),
        MessageHeader::DictionaryBatch => {
            let batch = message.header_as_dictionary_batch()?;
            let number = usize::try_from(batch.id()).ok()?;
            let widths = shape.dictionaries.get(number)?;
            if batch.isDelta() {
                return None;
            }
            // A structure has one buffer for itself and then two for each of its columns.
            MessageKind::Dictionary(number, parse_layout(&batch.data()?, 1, widths, body)?)
        }
        MessageHeader::RecordBatch => {
            let layout = parse_layout(&message.header_as_record_batch()?, 0, shape.widths, body)?;
            if layout.rows > MAX_BATCH_ROWS {
                return None;
            }
            MessageKind::Rows(layout)
        }
        _ => return None,
    };
    Some(TailMessage {
        kind,
        body_at,
        body_len: body as usize,
        next: body_at + body,
    })
}

/// The names of a stream that says that it is a tail of this kind.
fn schema_names(message: &arrow_ipc::Message<'_>, key: &str) -> Option<Vec<String>> {
    let metadata = message.header_as_schema()?.custom_metadata()?;
    let get = |key| {
        metadata
            .iter()
            .find(|kv| kv.key() == Some(key))
            .and_then(|kv| kv.value())
    };
    if get(SCHEMA_KEY) != Some(TRACE_SCHEMA) {
        return None;
    }
    Some(get(key)?.split(',').map(str::to_owned).collect())
}

/// Buffers come in pairs, where values are missing and the values, after `skip` others.
fn parse_layout(
    batch: &RecordBatch<'_>,
    skip: usize,
    widths: &[u64],
    body: u64,
) -> Option<BodyLayout> {
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
    Some(BodyLayout {
        rows: rows as usize,
        columns,
    })
}
