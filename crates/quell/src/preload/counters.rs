//! The counters of libquell.so in a process, read from its memory while it runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use quell_host::elf::ElfFile;
use quell_host::maps::{self, Mapping};
use quell_host::proc::Proc;
use quell_shim::Counters;
use serde::Serialize;

/// The symbol of the counters in the library.
const COUNTERS_SYMBOL: &[u8] = b"quell_shim_counters";
/// The bytes of the mark and the number of counters before them.
const HEADER_BYTES: usize = 16;

/// The counters of the library in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ShimCounters {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    /// By name, in the library's order.
    #[serde(serialize_with = "as_map")]
    pub(crate) counters: Vec<(&'static str, u64)>,
}

fn as_map<S: serde::Serializer>(
    counters: &[(&'static str, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let by_name: BTreeMap<&str, u64> = counters.iter().copied().collect();
    by_name.serialize(serializer)
}

impl ShimCounters {
    /// The counter of this name; 0 where the process has an older library without it.
    pub(crate) fn get(&self, name: &str) -> u64 {
        let found = self.counters.iter().find(|(n, _)| *n == name);
        found.map_or(0, |(_, count)| *count)
    }

    /// The number of the program's calls.
    pub(crate) fn calls_by_program(&self) -> u64 {
        let names = ["mmap", "munmap", "dontneed", "free"];
        names.iter().map(|name| self.get(name)).sum()
    }
}

/// Reads the counters of a process, if it has the library.
///
/// # Errors
///
/// The process has the library, and its memory may not be read; the error says who may. A process that ended, or whose
/// mappings may not be read, has none.
pub(crate) fn read_counters(root: &Path, pid: u32) -> anyhow::Result<Option<ShimCounters>> {
    let mappings = maps::read_maps(root, pid).unwrap_or_default();
    match library_mapping(&mappings) {
        Some(first) => read_from_memory(pid, first),
        None => Ok(None),
    }
}

/// The first mapping of the library, which begins with its ELF header.
fn library_mapping(mappings: &[Mapping]) -> Option<&Mapping> {
    mappings.iter().find(|m| {
        let name = m.path.as_ref().and_then(|p| p.file_name());
        m.offset == 0 && name.is_some_and(|n| n == quell_remedy::SHIM_LIBRARY)
    })
}

/// Reads the counters through /proc/PID/mem, so that the process is neither stopped nor changed.
fn read_from_memory(pid: u32, first: &Mapping) -> anyhow::Result<Option<ShimCounters>> {
    let path = first.path.as_deref().unwrap_or(Path::new(""));
    let place = counters_address(pid, first, path)
        .with_context(|| format!("looking for the counters of {} in {pid}", path.display()))?;
    let file = match File::open(format!("/proc/{pid}/mem")) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| {
                format!(
                    "reading the memory of {pid}; root may, and the user who traces it (ptrace(2))"
                )
            });
        }
    };
    let mut bytes = vec![0; HEADER_BYTES + 8 * Counters::NAMES.len()];
    // The process ended while it was read, so it has none.
    match file.read_at(&mut bytes, place) {
        Ok(got) if got >= HEADER_BYTES => bytes.truncate(got),
        _ => return Ok(None),
    }
    let Some(counters) = parse_counters(&bytes) else {
        bail!(
            "{} in process {pid} is of another quell: its counters can't be read",
            path.display()
        );
    };
    Ok(Some(ShimCounters {
        pid,
        comm: Proc::new("/").comm(pid).unwrap_or_default(),
        counters,
    }))
}

/// The address of the counters in the process, by the symbols of the file that it has mapped. A library's addresses count from
/// its ELF header, which `first` begins with.
fn counters_address(pid: u32, first: &Mapping, path: &Path) -> anyhow::Result<u64> {
    let ours = ElfFile::from_bytes(super::library::SHIM_BYTES.to_vec())?;
    let inside = quell_host::under(&Proc::new("/").path_of(pid, "root"), path);
    // Its own file is taken where that can be read, and otherwise ours: builds differ seldom.
    let elf = ElfFile::open(&inside).unwrap_or(ours);
    let symbols = elf.symbols(|name| name == COUNTERS_SYMBOL);
    let symbol = symbols.first().context("it has none")?;
    Ok(first.start + symbol.address)
}

/// The counters after the mark; none if the mark is another one. An older library has the first few only, and the last ones of
/// a newer library are passed over.
fn parse_counters(bytes: &[u8]) -> Option<Vec<(&'static str, u64)>> {
    let mut words = bytes
        .chunks_exact(8)
        .map(|w| u64::from_ne_bytes(w.try_into().unwrap_or_default()));
    if words.next()?.to_ne_bytes() != *b"QUELLSH1" {
        return None;
    }
    let count = usize::try_from(words.next()?).ok()?;
    Some(
        Counters::NAMES
            .iter()
            .copied()
            .zip(words)
            .take(count)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that exactly the counters after the mark are read.
    #[test]
    fn parses() {
        let words = |mark: &[u8; 8], words: &[u64]| {
            let mut bytes = mark.to_vec();
            bytes.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
            bytes
        };
        let read = parse_counters(&words(b"QUELLSH1", &[2, 7, 5, 9])).unwrap();
        assert_eq!(read, [("mmap", 7), ("mmap_served", 5)]);
        assert_eq!(parse_counters(&words(b"QUELLSH2", &[2, 7, 5])), None);
        assert_eq!(parse_counters(b"QUELL"), None);
    }
}
