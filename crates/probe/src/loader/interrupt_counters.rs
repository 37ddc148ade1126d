//! Reads who interrupted whom, by CPU: the counters that each victim's CPU keeps for each culprit's. Reading them costs the
//! kernel nothing.

use std::os::fd::AsFd as _;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::MapHandle;
use quell_event::InterruptMatrix;
use rustix::mm::{MapFlags, ProtFlags};

use super::Probe;
use crate::error::{Error, Result};

/// Every value of an array begins at a multiple of 8 bytes (array_map_alloc() in
/// kernel/bpf/arraymap.c), which libbpf relies on too.
const VALUE_STRIDE_BYTES: usize = 8;

/// The mapped counters: reading them takes no system call, and at 256 CPUs there are 65,536.
pub(super) struct InterruptCounters {
    start: NonNull<u8>,
    bytes: usize,
    /// Values from one victim's first to the next one's.
    row_cells: usize,
}

impl InterruptCounters {
    /// Maps `cpus` rows of `row` counters.
    pub(super) fn map_counters(map: &MapHandle, cpus: u32, row: u32) -> Result<Self> {
        let bytes = cpus as usize * row as usize * VALUE_STRIDE_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice, of a map that is made for it
        // (BPF_F_MMAPABLE) and has so many bytes: the kernel refuses more.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                map.as_fd(),
                0,
            )
        };
        let refused = |err: std::io::Error| Error::load("map the counters of CPUs")(err.into());
        let start = start.map_err(|err| refused(err.into()))?;
        let start = NonNull::new(start.cast())
            .ok_or_else(|| refused(std::io::Error::from(std::io::ErrorKind::AddrInUse)))?;
        Ok(Self {
            start,
            bytes,
            row_cells: row as usize,
        })
    }

    /// How often a culprit's CPU has interrupted a victim's, modulo 2^32; 0 beyond the mapping. The culprit's number is below the length of a row.
    fn get(&self, victim: usize, culprit: usize) -> u32 {
        let at = (victim * self.row_cells + culprit) * VALUE_STRIDE_BYTES;
        if at + VALUE_STRIDE_BYTES > self.bytes {
            return 0;
        }
        // SAFETY: inside the mapping, and aligned, as the mapping begins at a page. The kernel writes
        // it meanwhile, whole words only, hence atomic loads.
        unsafe {
            let word = self.start.as_ptr().add(at).cast::<AtomicU32>();
            (*word).load(Ordering::Relaxed)
        }
    }
}

impl Drop for InterruptCounters {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of which no pointer leaves this type.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl Probe {
    /// How often each CPU has been interrupted by each other one since the probe was loaded, modulo
    /// 2^32: take the difference of two readings. It has every shootdown on the machine, whatever the
    /// scope, quell's own included.
    #[must_use]
    pub fn interrupt_matrix(&self) -> InterruptMatrix {
        let cpus = self.cpus as usize;
        let mut matrix = InterruptMatrix::new(cpus);
        for victim in 0..cpus {
            for culprit in 0..cpus {
                matrix.set_hits(culprit, victim, self.interrupts_by_cpu.get(victim, culprit));
            }
        }
        matrix
    }
}
