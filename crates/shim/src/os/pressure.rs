//! How full memory is: the machine's, and that of the control group that the process is in now.
//!
//! Which group that is is asked anew now and then. Whoever starts a process may move it to another one at any moment
//! (cgroups(7)), as a desktop or a supervisor does with its children; the limit of the group before says nothing then.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::cgroup::ControlGroup;
use super::file::{File, PathBuffer, field_value, leading_number};
use super::mapping_limit;
use super::unseen_copy;
use crate::kernel::Pressure;

/// PSI's `some avg10`, in hundredths of a percent, above which memory is short: tasks waited for it 1 %
/// of the last ten seconds.
const SHORT_CENTIPERCENT: u64 = 100;

/// The group is asked for at one of so many looks, each 100 ms after the other at least: to tell it the kernel may wait for whoever
/// makes groups or moves processes (cgroup_mutex, kernel/cgroup/cgroup.c, up to Linux 6.7).
const LOOKS_PER_GROUP_READ: u32 = 8;

/// So many others may have been at it, one time after the other. Somebody left it by siglongjmp(3) then, or is stopped.
const MAX_VAIN_LOOKS: u32 = 16;

pub(super) struct PressureGauge {
    /// The thread that looks; 0 is none.
    taken: AtomicUsize,
    /// How often in a row it was taken.
    in_vain: AtomicU32,
    files: UnsafeCell<PressureFiles>,
}

/// The files that are read, by name: a KB, and not on the stack, which may be a signal handler's.
struct PressureFiles {
    group: ControlGroup,
    stalls: PathBuffer,
    /// The process that has asked for the group, and how many looks ago.
    process: usize,
    looks: u32,
}

// SAFETY: the files' names are used by the thread that has `taken` only.
unsafe impl Sync for PressureGauge {}

impl PressureGauge {
    pub(super) const fn new() -> PressureGauge {
        PressureGauge {
            taken: AtomicUsize::new(0),
            in_vain: AtomicU32::new(0),
            files: UnsafeCell::new(PressureFiles {
                group: ControlGroup::EMPTY,
                stalls: PathBuffer::EMPTY,
                process: 0,
                looks: 0,
            }),
        }
    }

    /// None while another thread looks, or this one below the signal handler that we are in; where that has no end memory is taken
    /// for short.
    #[inline(never)]
    pub(super) fn read_pressure(&self, me: usize) -> Option<Pressure> {
        let order = (Ordering::Acquire, Ordering::Relaxed);
        let free = self.taken.compare_exchange(0, me, order.0, order.1);
        if free.is_err() {
            let in_vain = self.in_vain.fetch_add(1, Ordering::Relaxed);
            return (in_vain >= MAX_VAIN_LOOKS).then_some(Pressure::Some);
        }
        self.in_vain.store(0, Ordering::Relaxed);
        // SAFETY: see `Sync`.
        let free = unsafe { &mut *self.files.get() }.least_free();
        self.taken.store(0, Ordering::Release);
        Some(match free {
            Some(free) if !mapping_limit::is_close() => Pressure::None(free),
            _ => Pressure::Some,
        })
    }

    /// In the child of fork(2): another thread that was at it is not there.
    pub(super) fn abandon_in_child(&self, me: usize) {
        // Only where it has to be: the child copies a page for it.
        if ![0, me].contains(&self.taken.load(Ordering::Relaxed)) {
            self.taken.store(0, Ordering::Relaxed);
        }
    }
}

impl PressureFiles {
    /// Asks for the group; none if that can't be told.
    fn ask_for_group(&mut self) -> Option<()> {
        let process = unseen_copy::process_id().ok()?;
        self.looks += 1;
        if self.process == process && self.looks < LOOKS_PER_GROUP_READ {
            return Some(());
        }
        self.process = 0;
        // By the thread: where the process's first thread has ended, its file says that the process is in no group.
        let file = File::named(b"/proc/thread-self/cgroup\0");
        self.group.read_from(file, b"").then_some(())?;
        self.stalls
            .set_parts(&[self.group.folder_path(), b"/memory.pressure"]);
        (self.process, self.looks) = (process, 0);
        Some(())
    }

    /// How many bytes are left where least is. None where memory is short, or that can't be told.
    fn least_free(&mut self) -> Option<usize> {
        self.ask_for_group()?;
        let mut buffer = [0; 256];
        let mut stalls = self
            .stalls
            .file()
            .read_start(&mut buffer)
            .and_then(some_avg10);
        if stalls.is_none() {
            let machine = File::named(b"/proc/pressure/memory\0");
            stalls = machine.read_start(&mut buffer).and_then(some_avg10);
        }
        if stalls.is_some_and(|s| s > SHORT_CENTIPERCENT) {
            return None;
        }
        let machine =
            File::named(b"/proc/meminfo\0").find_line(|line| field_value(line, b"MemAvailable"))?;
        self.group.least_free((machine * 1024) as usize)
    }
}

/// `some avg10=1.23 …` as hundredths.
fn some_avg10(text: &[u8]) -> Option<u64> {
    let rest = text.strip_prefix(b"some avg10=")?;
    let point = rest.iter().position(|b| *b == b'.')?;
    Some(leading_number(rest)? * 100 + leading_number(rest.get(point + 1..)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that PSI's line is read, and foreign text is none.
    #[test]
    fn psi() {
        assert_eq!(
            some_avg10(b"some avg10=1.23 avg60=0.00 avg300=0.00 total=1\nfull"),
            Some(123)
        );
        assert_eq!(some_avg10(b"some avg10=100.00 "), Some(10_000));
        for text in [
            &b""[..],
            b"some",
            b"some avg10=",
            b"some avg10=1",
            b"full avg10=1.00",
        ] {
            assert_eq!(some_avg10(text), None);
        }
    }
}
