//! The CPUs that a thread may run on.

use std::io;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread on these CPUs.
///
/// # Errors
///
/// If none of them is one that the thread may use.
pub fn pin_self(cpus: &[u32]) -> io::Result<()> {
    set_affinity(None, cpus)
}

/// Keeps a thread of this process on these CPUs; without one the calling thread.
pub(crate) fn set_affinity(thread: Option<Pid>, cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if let Ok(cpu) = usize::try_from(cpu)
            && cpu < CpuSet::MAX_CPU
        {
            set.set(cpu);
        }
    }
    sched_setaffinity(thread, &set).map_err(|err| {
        io::Error::new(
            io::Error::from(err).kind(),
            format!("can't keep a thread on CPU {cpus:?}: {err}"),
        )
    })
}

/// The CPUs that the calling thread may use.
///
/// # Errors
///
/// If the kernel does not say.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None::<Pid>)?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
    Ok(cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}
