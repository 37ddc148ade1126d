//! The clock events that take the samples: one on each CPU that is online, also of those that come later.

use std::collections::{BTreeMap, BTreeSet};
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
/// What ticks on a CPU, until dropped.
struct Tick {
    // the link goes first
    _link: Link,
    _event: OwnedFd,
}

/// The events, by CPU.
pub(super) struct Ticks {
    ticks: BTreeMap<u32, Tick>,
    /// The program that takes the samples.
    name: &'static str,
    period_ns: u64,
    stopped: bool,
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
    /// Starts to sample on every CPU that is online, by this program.
    pub(super) fn start(object: &mut Object, name: &'static str, period_ns: u64) -> Result<Self> {
        let mut ticks = Self {
            ticks: BTreeMap::new(),
            name,
            period_ns,
            stopped: false,
        };
        for cpu in quell_host::cpus::online(Path::new("/")).unwrap_or_default() {
            ticks.add(object, cpu)?;
        }
        Ok(ticks)
    }

    fn add(&mut self, object: &mut Object, cpu: u32) -> Result<()> {
        let event = event(cpu, self.period_ns).map_err(|err| refused(cpu, &err))?;
        let found = object.progs_mut().find(|p| p.name() == self.name);
        let program = found.ok_or_else(|| loader::missing("program", self.name))?;
        let link = program
            .attach_perf_event(event.as_raw_fd())
            .map_err(Error::load("attach the eBPF program that takes samples"))?;
        let tick = Tick {
            _link: link,
            _event: event,
        };
        self.ticks.insert(cpu, tick);
        Ok(())
    }

    /// Samples on these CPUs, which are online now. An event ends with its CPU, and one that comes back needs another.
    pub(super) fn follow(&mut self, object: &mut Object, online: &[u32]) {
        if self.stopped {
            return;
        }
        let (came, went) = changes(self.ticks.keys().copied(), online);
        for cpu in went {
            self.ticks.remove(&cpu);
        }
        for cpu in came {
            // one that has gone again is tried at the next look
            let _ = self.add(object, cpu);
        }
    }

    /// Takes no more.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.ticks.clear();
    }
}

/// CPUs that came, and CPUs that went.
fn changes(known: impl Iterator<Item = u32>, online: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let known: BTreeSet<u32> = known.collect();
    let online: BTreeSet<u32> = online.iter().copied().collect();
    let only = |a: &BTreeSet<u32>, b: &BTreeSet<u32>| a.difference(b).copied().collect();
    (only(&online, &known), only(&known, &online))
}

fn refused(cpu: u32, err: &std::io::Error) -> Error {
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
        let changed = |known: &[u32], online: &[u32]| changes(known.iter().copied(), online);
        assert_eq!(changed(&[0, 1], &[0, 1]), (vec![], vec![]));
        assert_eq!(changed(&[0, 1, 3], &[0, 2, 1]), (vec![2], vec![3]));
        assert_eq!(changed(&[], &[5]), (vec![5], vec![]));
    }
}
