//! Reading a tail, up to where it was cut.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::comm::comm_from_bytes;
use super::event_columns::{BYSTANDER_FLAG, OWN_MM_FLAG};
use super::event_row::EventRow;
use super::intern::Task;
use super::tail_frame::{BodyLayout, MessageKind, StreamShape, TailMessage, read_message};
use super::tail_schema::EVENT_SHAPE;
use crate::Cause;

/// How much of a tail can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TailExtent {
    /// Rows in whole batches.
    pub(super) rows: u64,
    /// Bytes of whole batches.
    pub(super) bytes: u64,
    /// Bytes after them.
    pub(super) unread: u64,
}

/// Finds the whole batches of a tail of events by their headers.
pub(super) fn event_extent(file: &File) -> io::Result<TailExtent> {
    tail_extent(file, &EVENT_SHAPE)
}

/// Finds the whole batches of any tail by their headers.
pub(super) fn tail_extent(file: &File, shape: &StreamShape<'_>) -> io::Result<TailExtent> {
    let len = file.metadata()?.len();
    let mut extent = TailExtent::default();
    while let Some(m) = read_message(file, extent.bytes, len, shape)? {
        // A stream begins with its schema and has no other.
        if matches!(m.kind, MessageKind::Schema(_)) != (extent.bytes == 0) {
            break;
        }
        if let MessageKind::Rows(layout) = &m.kind {
            extent.rows += layout.rows as u64;
        }
        extent.bytes = m.next;
        if matches!(m.kind, MessageKind::End) {
            break;
        }
    }
    extent.unread = len.saturating_sub(extent.bytes);
    Ok(extent)
}

/// Hands over every row of the first `bytes` bytes, as [`event_extent`] found them.
pub(super) fn for_each_event(
    file: &File,
    bytes: u64,
    mut each: impl FnMut(&EventRow),
) -> io::Result<()> {
    let mut at = 0;
    let mut tables = TailDictionaries::default();
    let mut body = Vec::new();
    while let Some(TailMessage {
        kind,
        body_at,
        body_len,
        next,
    }) = read_message(file, at, bytes, &EVENT_SHAPE)?
    {
        at = next;
        // Grows to the largest body, which is checked to be in the file.
        body.resize(body_len, 0);
        file.read_exact_at(&mut body, body_at)?;
        match kind {
            MessageKind::Schema(names) => {
                let known = |name: &String| name.parse().unwrap_or(Cause::Other);
                tables.causes = names.iter().map(known).collect();
            }
            MessageKind::Dictionary(0, layout) => tables.culprits = read_tasks(&body, &layout),
            MessageKind::Dictionary(_, layout) => tables.victims = read_tasks(&body, &layout),
            MessageKind::Rows(layout) => hand_over_rows(&body, &layout, &tables, &mut each),
            MessageKind::End => break,
        }
    }
    Ok(())
}

/// The causes and threads that the numbers in the rows stand for.
#[derive(Default)]
struct TailDictionaries {
    causes: Vec<Cause>,
    culprits: Vec<Task>,
    victims: Vec<Task>,
}

/// The values of a column: `N` bytes each, the first at `offset`. The layout was checked against
/// the body, so every row below its count has them.
#[derive(Clone, Copy)]
struct TailColumn<'a, const N: usize>(&'a [[u8; N]]);

impl<'a, const N: usize> TailColumn<'a, N> {
    fn new(body: &'a [u8], layout: &BodyLayout, column: usize) -> Self {
        let from = layout.columns.get(column).copied().unwrap_or(usize::MAX);
        let to = from.saturating_add(layout.rows.saturating_mul(N));
        Self(body.get(from..to).map_or(&[], |bytes| bytes.as_chunks().0))
    }

    fn get(self, row: usize) -> [u8; N] {
        self.0.get(row).copied().unwrap_or([0; N])
    }
}

fn read_tasks(body: &[u8], layout: &BodyLayout) -> Vec<Task> {
    let pid = TailColumn::<4>::new(body, layout, 0);
    let tid = TailColumn::<4>::new(body, layout, 1);
    let cgroup = TailColumn::<8>::new(body, layout, 2);
    let comm = TailColumn::<16>::new(body, layout, 3);
    let task = |i| Task {
        pid: u32::from_le_bytes(pid.get(i)),
        tid: u32::from_le_bytes(tid.get(i)),
        cgroup: u64::from_le_bytes(cgroup.get(i)),
        comm: comm_from_bytes(&comm.get(i)),
    };
    (0..layout.rows).map(task).collect()
}

fn hand_over_rows(
    body: &[u8],
    layout: &BodyLayout,
    tables: &TailDictionaries,
    each: &mut impl FnMut(&EventRow),
) {
    let id = TailColumn::<8>::new(body, layout, 0);
    let victim_index = TailColumn::<2>::new(body, layout, 1);
    let t_ns = TailColumn::<8>::new(body, layout, 2);
    let wait_ns = TailColumn::<8>::new(body, layout, 3);
    let cause = TailColumn::<1>::new(body, layout, 4);
    let syscall = TailColumn::<2>::new(body, layout, 5);
    let culprit = TailColumn::<4>::new(body, layout, 6);
    let cpu = TailColumn::<2>::new(body, layout, 7);
    let start = TailColumn::<8>::new(body, layout, 8);
    let end = TailColumn::<8>::new(body, layout, 9);
    let kernel_stack = TailColumn::<4>::new(body, layout, 10);
    let user_stack = TailColumn::<4>::new(body, layout, 11);
    let victim = TailColumn::<4>::new(body, layout, 12);
    let victim_cpu = TailColumn::<2>::new(body, layout, 13);
    let flags = TailColumn::<1>::new(body, layout, 14);
    let delay_ns = TailColumn::<4>::new(body, layout, 15);
    let stall_ns = TailColumn::<4>::new(body, layout, 16);
    let thread = |all: &[Task], key: [u8; 4]| {
        all.get(u32::from_le_bytes(key) as usize)
            .copied()
            .unwrap_or_default()
    };
    for i in 0..layout.rows {
        let by = thread(&tables.culprits, culprit.get(i));
        let at = thread(&tables.victims, victim.get(i));
        let [flags] = flags.get(i);
        let [cause] = cause.get(i);
        each(&EventRow {
            id: u64::from_le_bytes(id.get(i)),
            victim_index: u16::from_le_bytes(victim_index.get(i)),
            t_ns: u64::from_le_bytes(t_ns.get(i)),
            wait_ns: u64::from_le_bytes(wait_ns.get(i)),
            cause: tables
                .causes
                .get(usize::from(cause))
                .copied()
                .unwrap_or(Cause::Other),
            syscall: i16::from_le_bytes(syscall.get(i)),
            pid: by.pid,
            tid: by.tid,
            comm: by.comm,
            cpu: u16::from_le_bytes(cpu.get(i)),
            cgroup: by.cgroup,
            start: u64::from_le_bytes(start.get(i)),
            end: u64::from_le_bytes(end.get(i)),
            own_mm: flags & OWN_MM_FLAG != 0,
            kernel_stack: i32::from_le_bytes(kernel_stack.get(i)),
            user_stack: i32::from_le_bytes(user_stack.get(i)),
            victim_cpu: u16::from_le_bytes(victim_cpu.get(i)),
            victim_pid: at.pid,
            victim_tid: at.tid,
            victim_comm: at.comm,
            bystander: flags & BYSTANDER_FLAG != 0,
            delay_ns: u32::from_le_bytes(delay_ns.get(i)),
            stall_ns: u32::from_le_bytes(stall_ns.get(i)),
        });
    }
}
