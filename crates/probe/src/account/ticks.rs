//! The clock events that take the samples: one on each CPU that is online.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

use libbpf_rs::{Link, Object};

use crate::error::{Error, Result};
use crate::loader;

/// `struct perf_event_attr` up to the members that are used here (include/uapi/linux/perf_event.h:
/// PERF_ATTR_SIZE_VER0). The rest is zero.
#[derive(Default)]
#[repr(C)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// PERF_TYPE_SOFTWARE.
const SOFTWARE: u32 = 1;
/// PERF_COUNT_SW_CPU_CLOCK: a timer of the CPU, which virtual machines have as well.
const CPU_CLOCK: u64 = 0;
/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// The events, ticking until dropped.
pub(super) struct Ticks {
    // the links go first
    links: Vec<Link>,
    events: Vec<OwnedFd>,
}

fn event(cpu: u32, period_ns: u64) -> std::io::Result<OwnedFd> {
    let attributes = EventAttributes {
        kind: SOFTWARE,
        size: u32::try_from(size_of::<EventAttributes>()).unwrap_or(0),
        config: CPU_CLOCK,
        sample_period: period_ns,
        ..EventAttributes::default()
    };
    // SAFETY: the kernel reads `size` bytes of the attributes, which live until it returns; of all processes (-1) on
    // this CPU, in no group (-1).
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(&attributes),
            -1,
            libc::c_int::try_from(cpu).unwrap_or(-1),
            -1,
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just opened it, and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}

impl Ticks {
    /// Starts to sample on every CPU that is online.
    pub(super) fn start(object: &mut Object, period_ns: u64) -> Result<Self> {
        let cpus = quell_host::cpus::online(Path::new("/")).unwrap_or_default();
        let mut ticks = Self {
            links: Vec::new(),
            events: Vec::new(),
        };
        for cpu in cpus {
            let event = event(cpu, period_ns).map_err(|err| refused(cpu, &err))?;
            let found = object.progs_mut().find(|p| p.name() == "account_sample");
            let program = found.ok_or_else(|| loader::missing("program", "account_sample"))?;
            let link = program
                .attach_perf_event(event.as_raw_fd())
                .map_err(Error::load("attach the eBPF program that takes samples"))?;
            ticks.links.push(link);
            ticks.events.push(event);
        }
        Ok(ticks)
    }

    /// Takes no more.
    pub(super) fn stop(&mut self) {
        self.links.clear();
        self.events.clear();
    }
}

fn refused(cpu: u32, err: &std::io::Error) -> Error {
    Error::Missing {
        what: format!("the kernel refuses a clock event on CPU {cpu}: {err}"),
        help: "run quell as root, or give it CAP_PERFMON; 'sysctl kernel.perf_event_paranoid' says who may"
            .to_owned(),
    }
}
