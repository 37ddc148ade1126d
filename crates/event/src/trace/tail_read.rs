//! Reading a tail, up to where it was cut.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::columns::{BYSTANDER, OWN_MM, comm_of};
use super::intern::Task;
use super::row::Row;
use super::tail_frame::{Kind, Layout, Message, Shape, message};
use super::tail_schema::SHAPE;
use crate::Cause;

/// What a tail holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Rows in whole batches.
    pub(super) rows: u64,
    /// Bytes of whole batches.
    pub(super) bytes: u64,
    /// Bytes after them.
    pub(super) unread: u64,
}

/// Finds the whole batches of a tail of events by their headers.
pub(super) fn extent(file: &File) -> io::Result<Extent> {
    extent_of(file, &SHAPE)
}

/// The same of any tail.
pub(super) fn extent_of(file: &File, shape: &Shape<'_>) -> io::Result<Extent> {
    let len = file.metadata()?.len();
    let mut extent = Extent::default();
    while let Some(m) = message(file, extent.bytes, len, shape)? {
        // A stream begins with its schema and has no other.
        if matches!(m.kind, Kind::Schema(_)) != (extent.bytes == 0) {
            break;
        }
        if let Kind::Rows(layout) = &m.kind {
            extent.rows += layout.rows as u64;
        }
        extent.bytes = m.next;
        if matches!(m.kind, Kind::End) {
            break;
        }
    }
    extent.unread = len.saturating_sub(extent.bytes);
    Ok(extent)
}

/// Hands over every row of the first `bytes` bytes, as [`extent`] found them.
pub(super) fn for_each(file: &File, bytes: u64, mut each: impl FnMut(&Row)) -> io::Result<()> {
    let mut at = 0;
    let mut tables = Tables::default();
    let mut body = Vec::new();
    while let Some(Message {
        kind,
        body_at,
        body_len,
        next,
    }) = message(file, at, bytes, &SHAPE)?
    {
        at = next;
        // Grows to the largest body, which is checked to be in the file.
        body.resize(body_len, 0);
        file.read_exact_at(&mut body, body_at)?;
        match kind {
            Kind::Schema(names) => {
                let known = |name: &String| name.parse().unwrap_or(Cause::Other);
                tables.causes = names.iter().map(known).collect();
            }
            Kind::Dictionary(0, layout) => tables.culprits = threads(&body, &layout),
            Kind::Dictionary(_, layout) => tables.victims = threads(&body, &layout),
            Kind::Rows(layout) => rows(&body, &layout, &tables, &mut each),
            Kind::End => break,
        }
    }
    Ok(())
}

/// What numbers in the rows stand for.
#[derive(Default)]
struct Tables {
    causes: Vec<Cause>,
    culprits: Vec<Task>,
    victims: Vec<Task>,
}

/// The values of a column: `N` bytes each, the first at `offset`. The layout was checked against
/// the body, so every row below its count has them.
#[derive(Clone, Copy)]
struct Column<'a, const N: usize>(&'a [[u8; N]]);

impl<'a, const N: usize> Column<'a, N> {
    fn new(body: &'a [u8], layout: &Layout, column: usize) -> Self {
        let from = layout.columns.get(column).copied().unwrap_or(usize::MAX);
        let to = from.saturating_add(layout.rows.saturating_mul(N));
        Self(body.get(from..to).map_or(&[], |bytes| bytes.as_chunks().0))
    }

    fn get(self, row: usize) -> [u8; N] {
        self.0.get(row).copied().unwrap_or([0; N])
    }
}

fn threads(body: &[u8], layout: &Layout) -> Vec<Task> {
    let pid = Column::<4>::new(body, layout, 0);
    let tid = Column::<4>::new(body, layout, 1);
    let cgroup = Column::<8>::new(body, layout, 2);
    let comm = Column::<16>::new(body, layout, 3);
    let task = |i| Task {
        pid: u32::from_le_bytes(pid.get(i)),
        tid: u32::from_le_bytes(tid.get(i)),
        cgroup: u64::from_le_bytes(cgroup.get(i)),
        comm: comm_of(&comm.get(i)),
    };
    (0..layout.rows).map(task).collect()
}

fn rows(body: &[u8], layout: &Layout, tables: &Tables, each: &mut impl FnMut(&Row)) {
    let id = Column::<8>::new(body, layout, 0);
    let victim_index = Column::<2>::new(body, layout, 1);
    let t_ns = Column::<8>::new(body, layout, 2);
    let wait_ns = Column::<8>::new(body, layout, 3);
    let cause = Column::<1>::new(body, layout, 4);
    let syscall = Column::<2>::new(body, layout, 5);
    let culprit = Column::<4>::new(body, layout, 6);
    let cpu = Column::<2>::new(body, layout, 7);
    let start = Column::<8>::new(body, layout, 8);
    let end = Column::<8>::new(body, layout, 9);
    let kernel_stack = Column::<4>::new(body, layout, 10);
    let user_stack = Column::<4>::new(body, layout, 11);
    let victim = Column::<4>::new(body, layout, 12);
    let victim_cpu = Column::<2>::new(body, layout, 13);
    let flags = Column::<1>::new(body, layout, 14);
    let delay_ns = Column::<4>::new(body, layout, 15);
    let stall_ns = Column::<4>::new(body, layout, 16);
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
        each(&Row {
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
            own_mm: flags & OWN_MM != 0,
            kernel_stack: i32::from_le_bytes(kernel_stack.get(i)),
            user_stack: i32::from_le_bytes(user_stack.get(i)),
            victim_cpu: u16::from_le_bytes(victim_cpu.get(i)),
            victim_pid: at.pid,
            victim_tid: at.tid,
            victim_comm: at.comm,
            bystander: flags & BYSTANDER != 0,
            delay_ns: u32::from_le_bytes(delay_ns.get(i)),
            stall_ns: u32::from_le_bytes(stall_ns.get(i)),
        });
    }
}
