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
use super::tail_schema::{BATCH_ROWS, SCHEMA_KEY};

/// No header is longer, bytes; ours are some 3,000.
const HEADER_CAP: u32 = 1 << 16;
/// No body is longer, bytes: room for a dictionary of two million threads.
const BODY_CAP: u64 = 80 << 20;

/// What a stream is to hold, so that another one is told from it.
pub(super) struct Shape<'a> {
    /// Bytes of a value in each column of a row.
    pub(super) widths: &'a [u64],
    /// The same of each dictionary, of which each column is in one structure.
    pub(super) dictionaries: &'a [&'a [u64]],
    /// Key in the stream's metadata that it must have; its value is a list of names.
    pub(super) key: &'a str,
}

/// Where the values of each column lie in the body.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) rows: usize,
    /// Offset in the body, bytes, of each column.
    pub(super) columns: Vec<usize>,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// The first message; the names that the metadata has.
    Schema(Vec<String>),
    /// What the numbers of a column stand for: the dictionary of this number.
    Dictionary(usize, Layout),
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
pub(super) fn message(
    file: &File,
    at: u64,
    len: u64,
    shape: &Shape<'_>,
) -> io::Result<Option<Message>> {
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
    Ok(parse(&header, body_at, len - body_at, shape))
}

/// A file may be cut while it is read.
fn whole(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(err) if err.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(err) => Err(err),
    }
}

fn parse(header: &[u8], body_at: u64, left: u64, shape: &Shape<'_>) -> Option<Message> {
    let message = root_as_message(header).ok()?;
    let body = u64::try_from(message.bodyLength()).ok()?;
    if body > left.min(BODY_CAP) {
        return None;
    }
    let kind = match message.header_type() {
        MessageHeader::Schema => Kind::Schema(names(&message, shape.key)?),
        MessageHeader::DictionaryBatch => {
            let batch = message.header_as_dictionary_batch()?;
            let number = usize::try_from(batch.id()).ok()?;
            let widths = shape.dictionaries.get(number)?;
            if batch.isDelta() {
                return None;
            }
            // A structure has one buffer for itself and then two for each of its columns.
            Kind::Dictionary(number, layout(&batch.data()?, 1, widths, body)?)
        }
        MessageHeader::RecordBatch => {
            let layout = layout(&message.header_as_record_batch()?, 0, shape.widths, body)?;
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

/// The names of a stream that says that it is a tail of this kind.
fn names(message: &arrow_ipc::Message<'_>, key: &str) -> Option<Vec<String>> {
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
    Some(get(key)?.split(',').map(str::to_owned).collect())
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
