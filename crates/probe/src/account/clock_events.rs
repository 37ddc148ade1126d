//! The clock events that take the samples: one on each CPU that is online, also on those that come later.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::path::Path;

use libbpf_rs::{Link, Object};

use crate::bpf_maps;
use crate::error::{Error, Result};
use crate::perf_event::{self, EventTarget, PerfEventAttributes};

/// The type of the kernel's own events (include/uapi/linux/perf_event.h).
const PERF_TYPE_SOFTWARE: u32 = 1;
/// A timer of the CPU, which virtual machines have as well.
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;

/// The events of all CPUs.
pub(super) struct ClockEvents {
    /// The link of a CPU's event to the program. Its event ends with it.
    links: BTreeMap<u32, Link>,
    /// The name of the program that takes the samples.
    program: &'static str,
    period_ns: u64,
    stopped: bool,
}

fn open_clock_event(cpu: u32, period_ns: u64) -> std::io::Result<OwnedFd> {
    let attributes = PerfEventAttributes {
        kind: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_period: period_ns,
        ..PerfEventAttributes::default()
    };
    perf_event::open_perf_event(attributes, EventTarget::Cpu(cpu))
}

impl ClockEvents {
    /// Starts to sample on every CPU that is online, by this program.
    pub(super) fn start(object: &mut Object, name: &'static str, period_ns: u64) -> Result<Self> {
        let mut clock = Self {
            links: BTreeMap::new(),
            program: name,
            period_ns,
            stopped: false,
        };
        for cpu in quell_host::cpus::read_online_cpus(Path::new("/")).unwrap_or_default() {
            clock.add_cpu(object, cpu)?;
        }
        Ok(clock)
    }

    fn add_cpu(&mut self, object: &mut Object, cpu: u32) -> Result<()> {
        let event =
            open_clock_event(cpu, self.period_ns).map_err(|err| refused_clock_event(cpu, &err))?;
        let found = object.progs_mut().find(|p| p.name() == self.program);
        let program =
            found.ok_or_else(|| bpf_maps::missing_from_object("program", self.program))?;
        let link = program
            .attach_perf_event(event.as_raw_fd())
            .map_err(Error::load("attach the eBPF program that takes samples"))?;
        // Now the link owns the event's descriptor and closes it (bpf_link_perf_detach() in libbpf's src/libbpf.c). Closed here too, it
        // would be closed twice, the second time as whatever another thread has got under its number.
        let _ = event.into_raw_fd();
        self.links.insert(cpu, link);
        Ok(())
    }

    /// Takes samples on these CPUs, which are online now. An event ends with its CPU, and a CPU that comes back needs another.
    pub(super) fn follow_cpus(&mut self, object: &mut Object, online: &[u32]) {
        if self.stopped {
            return;
        }
        let (came, went) = changed_cpus(self.links.keys().copied(), online);
        for cpu in went {
            self.links.remove(&cpu);
        }
        for cpu in came {
            // A CPU that has gone again meanwhile is tried at the next call.
            let _ = self.add_cpu(object, cpu);
        }
    }

    /// Takes no more samples.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.links.clear();
    }
}

/// The CPUs that came, and the CPUs that went.
fn changed_cpus(known: impl Iterator<Item = u32>, online: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let known: BTreeSet<u32> = known.collect();
    let online: BTreeSet<u32> = online.iter().copied().collect();
    let only = |a: &BTreeSet<u32>, b: &BTreeSet<u32>| a.difference(b).copied().collect();
    (only(&online, &known), only(&known, &online))
}

fn refused_clock_event(cpu: u32, err: &std::io::Error) -> Error {
    Error::Missing {
        what: format!("the kernel refuses a clock event on CPU {cpu}: {err}"),
        help: "run quell as root, or give it CAP_PERFMON; 'sysctl kernel.perf_event_paranoid' says who may"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that CPUs which came are told from those that went, and that one which was there and is stays.
    #[test]
    fn cpus_come_and_go() {
        let changed = |known: &[u32], online: &[u32]| changed_cpus(known.iter().copied(), online);
        assert_eq!(changed(&[0, 1], &[0, 1]), (vec![], vec![]));
        assert_eq!(changed(&[0, 1, 3], &[0, 2, 1]), (vec![2], vec![3]));
        assert_eq!(changed(&[], &[5]), (vec![5], vec![]));
    }
}
