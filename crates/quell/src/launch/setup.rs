//! The changes for a command to quell's own environment, laid out so that a child between fork
//! and exec only has to make system calls.

use std::ffi::OsString;

use quell_remedy::{Numa, Start};

/// The changes that a plan makes for a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Added to quell's own environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Done to the process before it becomes the command.
    pub(crate) starts: Vec<Start>,
}

impl Setup {
    /// Nothing is different.
    pub(crate) const NONE: &'static Setup = &Setup {
        env: Vec::new(),
        starts: Vec::new(),
    };
}

/// One system call.
pub(super) enum Action {
    Prctl(i32, u64),
    /// The mask of CPUs.
    Affinity(Vec<u64>),
    /// The mode, and the mask of nodes.
    Memory(i32, Vec<u64>),
}

/// A mask with the bits of these numbers, as the kernel takes it: words of the machine, the lowest first.
fn bit_mask(numbers: &[u32]) -> Vec<u64> {
    let most = numbers.iter().max().copied().unwrap_or(0) as usize;
    let mut words = vec![0; most / 64 + 1];
    for number in numbers {
        words[*number as usize / 64] |= 1 << (number % 64);
    }
    words
}

/// From linux/prctl.h and linux/mempolicy.h of 6.18; libc has not all of them for every C library.
const PR_SET_THP_DISABLE: i32 = 41;
const PR_SET_MEMORY_MERGE: i32 = 67;
const PR_SET_TIMERSLACK: i32 = 29;
const MPOL_PREFERRED: i32 = 1;
const MPOL_BIND: i32 = 2;
const MPOL_INTERLEAVE: i32 = 3;
const MPOL_LOCAL: i32 = 4;

impl Action {
    pub(super) fn from_start(start: &Start) -> Self {
        match start {
            Start::ThpNever => Action::Prctl(PR_SET_THP_DISABLE, 1),
            Start::Ksm { merge } => Action::Prctl(PR_SET_MEMORY_MERGE, u64::from(*merge)),
            Start::TimerSlack { ns } => Action::Prctl(PR_SET_TIMERSLACK, *ns),
            Start::Cpus(list) => Action::Affinity(bit_mask(list.numbers())),
            Start::Numa(numa) => match numa {
                Numa::Local => Action::Memory(MPOL_LOCAL, Vec::new()),
                Numa::Bind(nodes) => Action::Memory(MPOL_BIND, bit_mask(nodes.numbers())),
                Numa::Interleave(nodes) => {
                    Action::Memory(MPOL_INTERLEAVE, bit_mask(nodes.numbers()))
                }
                Numa::Preferred(node) => Action::Memory(MPOL_PREFERRED, bit_mask(&[*node])),
            },
        }
    }

    /// Makes the system call for this process; errno if it fails.
    ///
    /// # Safety
    ///
    /// Async-signal-safe, for a child between fork and exec.
    pub(super) unsafe fn do_to_self(&self) -> Result<(), i32> {
        // SAFETY: system calls only, on memory that is laid out; the lengths are those of the masks. The
        // kernel takes a mask of nodes by bits and reads one less than it is told (mm/mempolicy.c).
        let done = unsafe {
            match self {
                Action::Prctl(what, value) => {
                    i64::from(libc::prctl(*what, *value, 0_u64, 0_u64, 0_u64))
                }
                Action::Affinity(mask) => libc::syscall(
                    libc::SYS_sched_setaffinity,
                    0,
                    size_of_val(mask.as_slice()),
                    mask.as_ptr(),
                ),
                Action::Memory(mode, mask) => libc::syscall(
                    libc::SYS_set_mempolicy,
                    *mode,
                    mask.as_ptr(),
                    if mask.is_empty() {
                        0
                    } else {
                        mask.len() * 64 + 1
                    },
                ),
            }
        };
        if done < 0 {
            // SAFETY: this thread's errno.
            Err(unsafe { *libc::__errno_location() })
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the words of a mask.
    #[test]
    fn masks() {
        assert_eq!(bit_mask(&[0, 2]), [5]);
        assert_eq!(bit_mask(&[64]), [0, 1]);
        assert_eq!(bit_mask(&[]), [0]);
    }
}
