//! The maps of loaded eBPF programs: how they are opened, read, and sized.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object};
use quell_host::proc::Proc;

use crate::error::{Error, Result};
use crate::layout::{self, Pod};

/// The maps that are read while the probe runs, each by its own descriptor.
pub(crate) struct ProbeMaps {
    pub(crate) culprit_infos: MapHandle,
    pub(crate) stacks: MapHandle,
    pub(crate) records: MapHandle,
    pub(crate) culprit_tallies: MapHandle,
    pub(crate) victim_infos: MapHandle,
    pub(crate) victim_tallies: MapHandle,
    pub(crate) hists: MapHandle,
    pub(crate) healths: MapHandle,
    pub(crate) scope_tgids: MapHandle,
    pub(crate) scope_cpus: MapHandle,
    /// Only the processes in `scope_tgids` are watched.
    pub(crate) watches_processes: bool,
    pub(crate) state: MapHandle,
    pub(crate) sample_every: MapHandle,
}

impl ProbeMaps {
    /// Whether a process is none of those in [`Scope::Tree`](crate::Scope::Tree), and only shot at them. `None` where
    /// that can't be told: it has ended, and the kernel side forgets it then (sched_process_free, kernel/exit.c:
    /// delayed_put_task_struct()).
    pub(crate) fn is_stranger(&self, proc: &Proc, pid: u32) -> Option<bool> {
        if !self.watches_processes {
            return Some(false);
        }
        match self.scope_tgids.lookup(&pid.to_ne_bytes(), MapFlags::ANY) {
            Ok(Some(_)) => Some(false),
            // The process is looked for after its number: while it is there, the number is nobody else's.
            Ok(None) => proc.exists(pid).then_some(true),
            Err(_) => None,
        }
    }
}

/// A map of a loaded object, by a descriptor of its own.
pub(crate) fn open_map(object: &Object, name: &str) -> Result<MapHandle> {
    let found = object.maps().find(|m| m.name() == name);
    let map = found.ok_or_else(|| missing_from_object("map", name))?;
    MapHandle::try_from(&map).map_err(Error::load("keep a map open"))
}

/// Says that the object and the loader are of different builds.
pub(crate) fn missing_from_object(what: &str, name: &str) -> Error {
    Error::Missing {
        what: format!("the eBPF object has no {what} '{name}'"),
        help: "rebuild quell with 'make build'".to_owned(),
    }
}

/// The bytes of the value at a key; none if there is no such key.
pub(crate) fn read_value(map: &MapHandle, key: u32) -> Result<Vec<u8>> {
    Ok(map
        .lookup(&key.to_ne_bytes(), MapFlags::ANY)
        .map_err(Error::load("read a map"))?
        .unwrap_or_default())
}

/// The value of each CPU at a key; none if there is no such key. `doing` is what can't be done if the map can't be read.
pub(crate) fn read_per_cpu_values<T: Pod>(
    map: &MapHandle,
    key: &[u8],
    doing: &'static str,
) -> Result<Vec<T>> {
    let values = map
        .lookup_percpu(key, MapFlags::ANY)
        .map_err(Error::load(doing))?;
    let values = values.unwrap_or_default();
    Ok(values
        .iter()
        .map(|bytes| layout::read_pod(bytes).unwrap_or_default())
        .collect())
}

/// The addresses of a stack in a map of stacks, innermost first; none for a negative number, which the kernel gives where it
/// kept no stack.
pub(crate) fn stack_addresses(stacks: &MapHandle, id: i32) -> Result<Vec<u64>> {
    let Ok(id) = u32::try_from(id) else {
        return Ok(Vec::new());
    };
    let value = read_value(stacks, id)?;
    let addresses = layout::words_of(&value);
    Ok(addresses.take_while(|&address| address != 0).collect())
}

/// The size of a ring, a power of two of pages. It takes at most an eighth of the memory that is available, which is little in
/// a small container: records that find it full are counted as lost, but a quell that takes all of the memory is killed.
pub(crate) fn fitting_ring_bytes(asked: u32, available: Option<u64>) -> u32 {
    const MIN_BYTES: u32 = 256 << 10;
    let max_bytes = available.map_or(u64::MAX, |bytes| bytes / 8);
    let mut bytes = asked;
    while u64::from(bytes) > max_bytes && bytes > MIN_BYTES {
        bytes /= 2;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the ring leaves most of a small memory to others, is as large as asked where there is enough, and is
    /// always one that the kernel takes.
    #[test]
    fn ring_fits_the_memory() {
        assert_eq!(fitting_ring_bytes(64 << 20, None), 64 << 20);
        assert_eq!(fitting_ring_bytes(64 << 20, Some(4 << 30)), 64 << 20);
        assert_eq!(fitting_ring_bytes(64 << 20, Some(64 << 20)), 8 << 20);
        for mib in 0..600 {
            let bytes = fitting_ring_bytes(64 << 20, Some(mib << 20));
            assert!(bytes.is_power_of_two() && bytes >= 4096, "{mib}: {bytes}");
            assert!(
                u64::from(bytes) <= (mib << 17).max(256 << 10),
                "{mib}: {bytes}"
            );
        }
    }
}
