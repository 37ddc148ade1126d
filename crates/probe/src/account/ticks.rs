//! The clock events that take the samples: one on each CPU that is online.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use libbpf_rs::{Link, Object};

use crate::error::{Error, Result};
use crate::loader;
use crate::perf_event::{self, Attributes, On};

/// PERF_TYPE_SOFTWARE.
const SOFTWARE: u32 = 1;
/// PERF_COUNT_SW_CPU_CLOCK: a timer of the CPU, which virtual machines have as well.
const CPU_CLOCK: u64 = 0;
/// The events, ticking until dropped.
pub(super) struct Ticks {
    // the links go first
    links: Vec<Link>,
    events: Vec<OwnedFd>,
}

fn event(cpu: u32, period_ns: u64) -> std::io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: SOFTWARE,
        config: CPU_CLOCK,
        sample_period: period_ns,
        ..Attributes::default()
    };
    perf_event::open(attributes, On::Cpu(cpu))
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
