//! The open tail: an Arrow stream that is appended to.
//!
//! Batches are encoded in memory and written in one go. Bytes that a full disk kept out stay in memory,
//! and the file is cut back to its last whole batch, so that the next attempt goes on from there.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeBinaryArray, PrimitiveArray, RecordBatch,
    StructArray,
};
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};

use super::TraceError;
use super::comm::plain_comm;
use super::event_columns::EventColumns;
use super::file_names::TableFamily;
use super::intern::{Task, TaskInterner};
use super::tail_frame::MAX_BATCH_ROWS;
use super::tail_schema::task_fields;

pub(super) struct TailWriter {
    dir: PathBuf,
    path: PathBuf,
    number: u32,
    file: File,
    /// Bytes in the file that belong to whole batches.
    whole: u64,
    rows: u64,
    schema: SchemaRef,
    /// Encoded bytes that the file does not have yet.
    stream: StreamWriter<Vec<u8>>,
}

impl TailWriter {
    pub(super) fn create(
        dir: &Path,
        family: TableFamily,
        number: u32,
        schema: SchemaRef,
    ) -> Result<Self, TraceError> {
        let path = family.tail_path(dir, number);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|err| TraceError::from_write(dir, &path, err))?;
        // 8 is the least that the format allows; a quiet recording has more padding than rows.
        let stream = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)
            .and_then(|options| StreamWriter::try_new_with_options(Vec::new(), &schema, options))
            .map_err(|err| encoding_error_at(&path, err))?;
        Ok(Self {
            dir: dir.to_owned(),
            path,
            number,
            file,
            whole: 0,
            rows: 0,
            schema,
            stream,
        })
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Rows encoded so far.
    pub(super) fn row_count(&self) -> u64 {
        self.rows
    }

    /// Moves all rows of `columns` to the file.
    pub(super) fn append_columns(&mut self, columns: &mut EventColumns) -> Result<(), TraceError> {
        if columns.row_count() > 0 {
            let rows = columns.row_count();
            self.encode_columns(columns)
                .map_err(|err| encoding_error_at(&self.path, err))?;
            self.rows += rows as u64;
        }
        self.flush_pending()
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Moves `rows` rows that are encoded as batches already to the file.
    pub(super) fn append_batches(
        &mut self,
        batches: &[RecordBatch],
        rows: u64,
    ) -> Result<(), TraceError> {
        for batch in batches {
            let encoded = self.stream.write(batch);
            encoded.map_err(|err| self.encoding_error(err))?;
        }
        self.rows += rows;
        self.flush_pending()
    }

    /// Returns the error for rows that could not be encoded.
    pub(super) fn encoding_error(&self, err: ArrowError) -> TraceError {
        encoding_error_at(&self.path, err)
    }

    /// Ends the stream, as a reader of Arrow expects it.
    pub(super) fn end_stream(mut self) -> Result<(), TraceError> {
        self.stream
            .finish()
            .map_err(|err| encoding_error_at(&self.path, err))?;
        self.flush_pending()
    }

    fn flush_pending(&mut self) -> Result<(), TraceError> {
        let pending = self.stream.get_mut();
        if let Err(err) = self.file.write_all(pending) {
            // Else the next batch would come after half a one, and nobody could read it.
            let cut = self.file.set_len(self.whole).and_then(|()| {
                use std::io::{Seek, SeekFrom};
                self.file.seek(SeekFrom::Start(self.whole)).map(|_| ())
            });
            return Err(TraceError::from_write(
                &self.dir,
                &self.path,
                cut.err().unwrap_or(err),
            ));
        }
        self.whole += pending.len() as u64;
        pending.clear();
        Ok(())
    }

    fn encode_columns(&mut self, columns: &mut EventColumns) -> Result<(), ArrowError> {
        let rows = columns.row_count();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        let mut lent: Vec<Buffer> = Vec::with_capacity(arrays.capacity());
        macro_rules! plain {
            ($($field:ident: $ty:ty),+) => { $(
                let buffer = Buffer::from_vec(std::mem::take(&mut columns.$field));
                lent.push(buffer.clone());
                arrays.push(Arc::new(PrimitiveArray::<$ty>::new(ScalarBuffer::from(buffer), None)));
            )+ };
        }
        plain!(id: UInt64Type, victim_index: UInt16Type, t_ns: UInt64Type, wait_ns: UInt64Type);
        plain!(cause: UInt8Type, syscall: Int16Type);
        arrays.push(thread_column(&columns.culprit, &columns.culprits)?);
        plain!(cpu: UInt16Type, start: UInt64Type, end: UInt64Type);
        plain!(kernel_stack: Int32Type, user_stack: Int32Type);
        arrays.push(thread_column(&columns.victim, &columns.victims)?);
        plain!(victim_cpu: UInt16Type, flags: UInt8Type, delay_ns: UInt32Type, stall_ns: UInt32Type);

        let batch = RecordBatch::try_new(self.schema.clone(), arrays)?;
        for from in (0..rows).step_by(MAX_BATCH_ROWS) {
            self.stream
                .write(&batch.slice(from, MAX_BATCH_ROWS.min(rows - from)))?;
        }
        drop(batch);

        // The same memory serves the next batch: mapping and unmapping some megabytes twice a
        // second would be shootdowns of our own.
        let mut lent = lent.into_iter();
        macro_rules! back {
            ($($field:ident),+) => { $( columns.$field = emptied_vec(lent.next()); )+ };
        }
        back!(
            id,
            victim_index,
            t_ns,
            wait_ns,
            cause,
            syscall,
            cpu,
            start,
            end
        );
        back!(
            kernel_stack,
            user_stack,
            victim_cpu,
            flags,
            delay_ns,
            stall_ns
        );
        columns.culprit.clear();
        columns.victim.clear();
        columns.culprits.clear();
        columns.victims.clear();
        Ok(())
    }
}

fn emptied_vec<T: ArrowNativeType>(buffer: Option<Buffer>) -> Vec<T> {
    let mut vec = buffer.and_then(|b| b.into_vec().ok()).unwrap_or_default();
    vec.clear();
    vec
}

/// A column of threads. The keys are copied, because the stream keeps them with their dictionary.
fn thread_column(keys: &[u32], interner: &TaskInterner) -> Result<ArrayRef, ArrowError> {
    let tasks = interner.tasks();
    let keys = PrimitiveArray::<UInt32Type>::new(ScalarBuffer::from(keys.to_vec()), None);
    Ok(Arc::new(DictionaryArray::try_new(
        keys,
        Arc::new(thread_dictionary(tasks)?),
    )?))
}

fn thread_dictionary(tasks: &[Task]) -> Result<StructArray, ArrowError> {
    let u32s = |get: fn(&Task) -> u32| -> ArrayRef {
        Arc::new(PrimitiveArray::<UInt32Type>::from_iter_values(
            tasks.iter().map(get),
        ))
    };
    let cgroups = PrimitiveArray::<UInt64Type>::from_iter_values(tasks.iter().map(|t| t.cgroup));
    let comms: Vec<u8> = tasks.iter().flat_map(|t| plain_comm(&t.comm).0).collect();
    let comms = FixedSizeBinaryArray::try_new(16, Buffer::from_vec(comms), None)?;
    let columns: Vec<ArrayRef> = vec![
        u32s(|t| t.pid),
        u32s(|t| t.tid),
        Arc::new(cgroups),
        Arc::new(comms),
    ];
    debug_assert!(columns.iter().all(|c| c.len() == tasks.len()));
    StructArray::try_new(task_fields(), columns, None)
}

/// Encoding happens in memory and can't fail but by a mistake here.
fn encoding_error_at(path: &Path, err: ArrowError) -> TraceError {
    TraceError::Write(path.to_owned(), std::io::Error::other(err))
}
