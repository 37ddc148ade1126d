//! The open tail: an Arrow stream that is appended to.
//!
//! Batches are encoded in memory and written in one go. What a full disk kept out stays in memory,
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

use super::Error;
use super::columns::{Columns, as_text};
use super::intern::{Interner, Task};
use super::names::Family;
use super::tail_schema::{BATCH_ROWS, task_fields};

pub(super) struct Tail {
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

impl Tail {
    pub(super) fn create(
        dir: &Path,
        family: Family,
        number: u32,
        schema: SchemaRef,
    ) -> Result<Self, Error> {
        let path = family.tail(dir, number);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|err| Error::write(dir, &path, err))?;
        // 8 is the least that the format allows; a quiet recording has more padding than rows.
        let stream = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)
            .and_then(|options| StreamWriter::try_new_with_options(Vec::new(), &schema, options))
            .map_err(|err| encoding(&path, err))?;
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
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Moves all rows of `columns` to the file.
    pub(super) fn append(&mut self, columns: &mut Columns) -> Result<(), Error> {
        if columns.rows() > 0 {
            let rows = columns.rows();
            self.encode(columns)
                .map_err(|err| encoding(&self.path, err))?;
            self.rows += rows as u64;
        }
        self.flush()
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Moves `rows` rows that are encoded as batches already to the file.
    pub(super) fn append_batches(
        &mut self,
        batches: &[RecordBatch],
        rows: u64,
    ) -> Result<(), Error> {
        for batch in batches {
            let encoded = self.stream.write(batch);
            encoded.map_err(|err| self.encoding(err))?;
        }
        self.rows += rows;
        self.flush()
    }

    /// What it means that rows could not be encoded.
    pub(super) fn encoding(&self, err: ArrowError) -> Error {
        encoding(&self.path, err)
    }

    /// Ends the stream, as a reader of Arrow expects it.
    pub(super) fn end(mut self) -> Result<(), Error> {
        self.stream
            .finish()
            .map_err(|err| encoding(&self.path, err))?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Error> {
        let pending = self.stream.get_mut();
        if let Err(err) = self.file.write_all(pending) {
            // Else the next batch would come after half a one, and nobody could read it.
            let cut = self.file.set_len(self.whole).and_then(|()| {
                use std::io::{Seek, SeekFrom};
                self.file.seek(SeekFrom::Start(self.whole)).map(|_| ())
            });
            return Err(Error::write(
                &self.dir,
                &self.path,
                cut.err().unwrap_or(err),
            ));
        }
        self.whole += pending.len() as u64;
        pending.clear();
        Ok(())
    }

    fn encode(&mut self, columns: &mut Columns) -> Result<(), ArrowError> {
        let rows = columns.rows();
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
        arrays.push(threads(&columns.culprit, &columns.culprits)?);
        plain!(cpu: UInt16Type, start: UInt64Type, end: UInt64Type);
        plain!(kernel_stack: Int32Type, user_stack: Int32Type);
        arrays.push(threads(&columns.victim, &columns.victims)?);
        plain!(victim_cpu: UInt16Type, flags: UInt8Type, delay_ns: UInt32Type, stall_ns: UInt32Type);

        let batch = RecordBatch::try_new(self.schema.clone(), arrays)?;
        for from in (0..rows).step_by(BATCH_ROWS) {
            self.stream
                .write(&batch.slice(from, BATCH_ROWS.min(rows - from)))?;
        }
        drop(batch);

        // The same memory serves the next batch: mapping and unmapping some megabytes twice a
        // second would be shootdowns of our own.
        let mut lent = lent.into_iter();
        macro_rules! back {
            ($($field:ident),+) => { $( columns.$field = emptied(lent.next()); )+ };
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

fn emptied<T: ArrowNativeType>(buffer: Option<Buffer>) -> Vec<T> {
    let mut vec = buffer.and_then(|b| b.into_vec().ok()).unwrap_or_default();
    vec.clear();
    vec
}

/// A column of threads. The keys are copied, because the stream keeps them with their dictionary.
fn threads(keys: &[u32], interner: &Interner) -> Result<ArrayRef, ArrowError> {
    let tasks = interner.tasks();
    let keys = PrimitiveArray::<UInt32Type>::new(ScalarBuffer::from(keys.to_vec()), None);
    Ok(Arc::new(DictionaryArray::try_new(
        keys,
        Arc::new(dictionary(tasks)?),
    )?))
}

fn dictionary(tasks: &[Task]) -> Result<StructArray, ArrowError> {
    let u32s = |get: fn(&Task) -> u32| -> ArrayRef {
        Arc::new(PrimitiveArray::<UInt32Type>::from_iter_values(
            tasks.iter().map(get),
        ))
    };
    let cgroups = PrimitiveArray::<UInt64Type>::from_iter_values(tasks.iter().map(|t| t.cgroup));
    let comms: Vec<u8> = tasks.iter().flat_map(|t| as_text(&t.comm).0).collect();
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
fn encoding(path: &Path, err: ArrowError) -> Error {
    Error::Write(path.to_owned(), std::io::Error::other(err))
}
