//! CSV: a row for each victim, with the columns of the trace format, and quoted as RFC 4180 says.

use std::borrow::Cow;
use std::io::{self, Write};

use anyhow::Context as _;
use quell_event::trace::EventRow;
use serde::Serialize;

use crate::Rows;

/// A line. The names are the header, and part of the contract; `docs/trace-format.md` has units.
#[derive(Serialize)]
struct CsvLine<'a> {
    id: u64,
    victim_index: u16,
    t_ns: u64,
    wait_ns: u64,
    cause: &'a str,
    syscall: i16,
    pid: u32,
    tid: u32,
    comm: Cow<'a, str>,
    cpu: u16,
    cgroup: u64,
    start: HexAddress,
    end: HexAddress,
    full: bool,
    pages: u64,
    own_mm: bool,
    kernel_stack: i32,
    user_stack: i32,
    victim_cpu: u16,
    victim_pid: u32,
    victim_tid: u32,
    victim_comm: Cow<'a, str>,
    bystander: bool,
    delay_ns: u32,
    stall_ns: u32,
}

/// In hexadecimal: spreadsheets and data frames round decimal numbers of 64 bits.
struct HexAddress(u64);

impl Serialize for HexAddress {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:#x}", self.0))
    }
}

impl<'a> From<&'a EventRow> for CsvLine<'a> {
    fn from(row: &'a EventRow) -> Self {
        Self {
            id: row.id,
            victim_index: row.victim_index,
            t_ns: row.t_ns,
            wait_ns: row.wait_ns,
            cause: row.cause.name(),
            syscall: row.syscall,
            pid: row.pid,
            tid: row.tid,
            comm: row.comm.as_text(),
            cpu: row.cpu,
            cgroup: row.cgroup,
            start: HexAddress(row.start),
            end: HexAddress(row.end),
            full: row.is_full(),
            pages: row.page_count(),
            own_mm: row.own_mm,
            kernel_stack: row.kernel_stack,
            user_stack: row.user_stack,
            victim_cpu: row.victim_cpu,
            victim_pid: row.victim_pid,
            victim_tid: row.victim_tid,
            victim_comm: row.victim_comm.as_text(),
            bystander: row.bystander,
            delay_ns: row.delay_ns,
            stall_ns: row.stall_ns,
        }
    }
}

/// The header, for a trace without a row.
const CSV_HEADER: &str = "id,victim_index,t_ns,wait_ns,cause,syscall,pid,tid,comm,cpu,cgroup,start,end,full,pages,\
own_mm,kernel_stack,user_stack,victim_cpu,victim_pid,victim_tid,victim_comm,bystander,delay_ns,stall_ns";

/// The writer's own error, which `csv` hides: it tells whether the reader has gone.
fn cause_of(err: ::csv::Error) -> io::Error {
    match err.into_kind() {
        ::csv::ErrorKind::Io(err) => err,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Writes a header, and a line for each victim of each shootdown.
///
/// # Errors
///
/// If the trace can't be read or `out` can't be written.
pub fn write(rows: &Rows<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{CSV_HEADER}").context("can't write CSV")?;
    let mut out = ::csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(out);
    rows.each_row(|row| {
        let written = out.serialize(CsvLine::from(row));
        written.map_err(cause_of).context("can't write CSV")
    })?;
    out.flush().context("can't write CSV")
}
