//! CSV: a row for each victim, with the columns of the trace format, and quoted as RFC 4180 says.

use std::io::{self, Write};

use anyhow::Context as _;
use quell_event::trace::EventRow;
use serde::Serialize;

use crate::Rows;

/// The columns: part of the contract; `docs/trace-format.md` has units.
const CSV_HEADER: &str = "id,victim_index,t_ns,wait_ns,cause,syscall,pid,tid,comm,cpu,cgroup,start,end,full,pages,\
own_mm,kernel_stack,user_stack,victim_cpu,victim_pid,victim_tid,victim_comm,bystander,delay_ns,stall_ns";

/// The values of the columns, in their order. They are several tuples, because serde takes none of 25; `csv` writes those as one
/// line.
fn csv_line(row: &EventRow) -> impl Serialize {
    let culprit = (
        row.id,
        row.victim_index,
        row.t_ns,
        row.wait_ns,
        row.cause.name(),
        row.syscall,
        row.pid,
        row.tid,
        row.comm.as_text(),
        row.cpu,
        row.cgroup,
    );
    // Spreadsheets and data frames round decimal numbers of 64 bits.
    let hex = |address: u64| format!("{address:#x}");
    let request = (
        hex(row.start),
        hex(row.end),
        row.is_full(),
        row.page_count(),
        row.own_mm,
        row.kernel_stack,
        row.user_stack,
    );
    let victim = (
        row.victim_cpu,
        row.victim_pid,
        row.victim_tid,
        row.victim_comm.as_text(),
        row.bystander,
        row.delay_ns,
        row.stall_ns,
    );
    (culprit, request, victim)
}

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
        let written = out.serialize(csv_line(row));
        written.map_err(cause_of).context("can't write CSV")
    })?;
    out.flush().context("can't write CSV")
}
