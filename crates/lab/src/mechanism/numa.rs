//! Pages that change their node: by request (move_pages), also to a slower tier of memory, as reclaim does there where it would
//! swap (mm/vmscan.c: demote_folio_list(), by the same migrate_pages()), or because the kernel has found out by faults where they
//! are used (NUMA balancing). To find that out it takes all rights away from some of the process now and then, with a flush
//! (kernel/sched/fair.c: task_numa_work(), mm/mempolicy.c: change_prot_numa()). A page that moves is unmapped, and the unmapped
//! pages of a batch are flushed at once (mm/migrate.c: migrate_pages_batch(), 512 pages).

use std::ffi::c_void;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use super::mapping_culprit::{MappingCulprit, VictimAccess, nothing_before};
use super::{Culprit, DEFAULT_MECHANISM, OperationTiming, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::system;

pub(super) const MOVE_PAGES_MECHANISM: StallMechanism = StallMechanism {
    name: "move-pages",
    about: "move_pages of written pages to the next NUMA node",
    params: &[pages_param(64, 1 << 16)],
    expects: |params| (params.get("pages") <= 512).then_some(1.0),
    prepare: |params| {
        Ok(Box::new(Move::new(
            params.size("pages"),
            nodes_with_memory(),
        )?))
    },
    lacks: one_node,
    ..DEFAULT_MECHANISM
};

pub(super) const DEMOTE_MECHANISM: StallMechanism = StallMechanism {
    name: "demote",
    about: "move_pages of written pages to a slower tier of memory, and the next time back",
    params: &[pages_param(64, 1 << 16)],
    expects: MOVE_PAGES_MECHANISM.expects,
    prepare: |params| {
        Ok(Box::new(Move::new(
            params.size("pages"),
            fastest_and_slowest(&memory_tiers()),
        )?))
    },
    lacks: || {
        let tiers = memory_tiers().len();
        (tiers < 2).then(|| {
            format!(
                "{} of memory ({TIERS_FOLDER})",
                match tiers {
                    0 => "no tiers".to_owned(),
                    _ => "one tier".to_owned(),
                }
            )
        })
    },
    ..DEFAULT_MECHANISM
};

pub(super) const NUMA_BALANCING_MECHANISM: StallMechanism = StallMechanism {
    name: "numa-balancing",
    about: "NUMA balancing of pages that culprit and victim write; off in the idle and the sham arm",
    params: &[pages_param(4096, 1 << 20)],
    expects: |_| None,
    makes_faults: true,
    prepare: |params| {
        Ok(Box::new(MappingCulprit {
            mapping: LabMapping::small_pages(params.size("pages") * PAGE_BYTES)?,
            victim: VictimAccess::Writes,
            before: nothing_before,
            operation: write_for_a_while,
        }))
    },
    needs: &[super::SystemNeed::NumaBalancing],
    // The kernel looks once a second of a thread's time at most (kernel/sched/fair.c: task_tick_numa()).
    timing: OperationTiming::Slow { block_ms: 3000 },
    // A process is scanned whichever of its threads runs: with balancing on, a victim alone would be too.
    switch: Some(system::turn_numa_balancing),
    lacks: one_node,
    ..DEFAULT_MECHANISM
};

/// The nodes that have memory.
fn nodes_with_memory() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/node/has_memory").unwrap_or_default();
    quell_host::cpus::parse_cpu_list(text.trim()).unwrap_or_default()
}

/// The folder where the kernel lists the tiers of memory (Linux 6.1), the faster the lower its number.
const TIERS_FOLDER: &str = "/sys/devices/virtual/memory_tiering";

/// The nodes with memory of each tier, the fastest first.
fn memory_tiers() -> Vec<Vec<u32>> {
    let with_memory = nodes_with_memory();
    let folders = fs::read_dir(TIERS_FOLDER).into_iter().flatten().flatten();
    let mut tiers: Vec<(u32, Vec<u32>)> = folders
        .filter_map(|folder| {
            let name = folder.file_name().into_string().ok()?;
            let number = name.strip_prefix("memory_tier")?.parse().ok()?;
            let text = fs::read_to_string(folder.path().join("nodelist")).ok()?;
            let mut nodes = quell_host::cpus::parse_cpu_list(text.trim()).unwrap_or_default();
            nodes.retain(|node| with_memory.contains(node));
            (!nodes.is_empty()).then_some((number, nodes))
        })
        .collect();
    tiers.sort();
    tiers.into_iter().map(|(_, nodes)| nodes).collect()
}

/// A node of the fastest tier and one of the slowest.
fn fastest_and_slowest(tiers: &[Vec<u32>]) -> Vec<u32> {
    let ends = [tiers.first(), tiers.last()];
    let ends = ends.into_iter().flatten();
    ends.filter_map(|nodes| nodes.first().copied()).collect()
}

fn one_node() -> Option<String> {
    (nodes_with_memory().len() < 2).then(|| "one NUMA node".to_owned())
}

/// The flag of include/uapi/linux/mempolicy.h for pages that nobody else maps.
const MPOL_MF_MOVE: i32 = 1 << 1;

struct Move {
    mapping: LabMapping,
    /// The addresses of the pages, as numbers; the node that each shall go to; and the node where each is.
    pages: Vec<usize>,
    to: Vec<i32>,
    status: Vec<i32>,
    nodes: Vec<u32>,
    next: usize,
}

impl Move {
    /// Moves them from one of the nodes to the next.
    fn new(pages: usize, nodes: Vec<u32>) -> io::Result<Self> {
        let mapping = LabMapping::small_pages(pages * PAGE_BYTES)?;
        let start = mapping.start().addr();
        let mut new = Self {
            mapping,
            pages: (0..pages).map(|i| start + i * PAGE_BYTES).collect(),
            to: vec![0; pages],
            status: vec![0; pages],
            nodes,
            next: 0,
        };
        // This brings all of them to one node, whichever they began on.
        new.run_operation()?;
        Ok(new)
    }
}

impl Culprit for Move {
    fn prepare_operation(&mut self) -> io::Result<()> {
        self.mapping.touch_pages();
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        let Some(&node) = self.nodes.get(self.next) else {
            return Err(io::Error::other("no NUMA node with memory"));
        };
        self.next = (self.next + 1) % self.nodes.len();
        self.to.fill(i32::try_from(node).unwrap_or(0));
        // SAFETY: three arrays of so many elements, of which the kernel writes the last.
        let ret = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                self.pages.len(),
                self.pages.as_ptr().cast::<*mut c_void>(),
                self.to.as_ptr(),
                self.status.as_mut_ptr(),
                MPOL_MF_MOVE,
            )
        };
        match ret {
            0 => Ok(()),
            -1 => Err(io::Error::last_os_error()),
            left => Err(io::Error::other(format!(
                "{left} pages did not go to node {node}"
            ))),
        }
    }
}

/// Writes all pages for as long as the kernel takes to look.
fn write_for_a_while(mapping: &LabMapping) -> io::Result<()> {
    // The kernel looks when a thread has used its CPU for long enough. Should all clocks stand still, it ends after a hundred
    // times over the pages.
    let until = Instant::now() + Duration::from_millis(1);
    for _ in 0..100 {
        mapping.touch_pages();
        if Instant::now() > until {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that pages go between the fastest and the slowest tier, and nowhere where there is one.
    #[test]
    fn ends_are_the_first_and_the_last() {
        let (fast, middle, slow) = (vec![0, 1], vec![2], vec![3, 4]);
        assert_eq!(fastest_and_slowest(&[fast.clone(), middle, slow]), [0, 3]);
        assert_eq!(fastest_and_slowest(&[fast]), [0, 0]);
        assert!(fastest_and_slowest(&[]).is_empty());
    }
}
