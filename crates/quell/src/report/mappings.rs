//! The mappings of processes over time.
//!
//! A recording reads a process's mappings when it shoots, again and again while they change. Between two
//! readings nobody knows when a mapping came or went, and an address may be used for several mappings in turn. So an
//! address is looked up in the reading before the shootdown, and if it is not there in the one after it. The latter does not
//! count for a call that takes mappings away, because a mapping seen afterwards has come later. A shootdown by brk(2) is of
//! the heap, whatever the readings have.

use quell_event::Cause;
use quell_event::trace::{EventRow, MappedModule, TracedProcess};

use super::quick_map::{NumberedSet, QuickMap};

/// The mapping whose end brk(2) moves.
const HEAP_NAME: &str = "[heap] (brk)";
const HEAP_NUMBER: u32 = 0;

/// A range of addresses, and the number of its name.
#[derive(Clone, Copy)]
struct NamedRange {
    start: u64,
    end: u64,
    name: u32,
}

/// The mappings of a process, as they were read at one time.
struct MappingsReading {
    t_ns: u64,
    /// Sorted by address; mappings don't overlap.
    ranges: Vec<NamedRange>,
}

impl MappingsReading {
    fn name_at(&self, address: u64) -> Option<u32> {
        let after = self.ranges.partition_point(|r| r.start <= address);
        let range = self.ranges[..after].last()?;
        (address < range.end).then_some(range.name)
    }
}

/// The mappings with a name, of every process.
pub(crate) struct Mappings {
    /// The readings of each process, by time.
    readings: QuickMap<u32, Vec<MappingsReading>>,
    names: NumberedSet<String>,
}

impl Default for Mappings {
    fn default() -> Self {
        Self {
            readings: QuickMap::default(),
            // so that it has HEAP_NUMBER
            names: NumberedSet::from_iter([HEAP_NAME.to_owned()]),
        }
    }
}

impl Mappings {
    /// Adds a reading. It replaces one of the same time.
    pub(crate) fn add_process(&mut self, process: &TracedProcess) {
        let reading = self.reading_of(process);
        let all = self.readings.entry(process.pid).or_default();
        let at = all.partition_point(|r| r.t_ns < reading.t_ns);
        match all.get_mut(at).filter(|r| r.t_ns == reading.t_ns) {
            Some(same) => *same = reading,
            None => all.insert(at, reading),
        }
    }

    /// Puts this reading in place of all others of its process, as if it had always been so. It serves callers that ask while
    /// the program runs.
    pub(crate) fn replace_readings(&mut self, process: &TracedProcess) {
        let reading = MappingsReading {
            t_ns: 0,
            ..self.reading_of(process)
        };
        self.readings.insert(process.pid, vec![reading]);
    }

    /// The named mappings of a process when it was read, by address, without memory that is shared and anonymous. Their names
    /// are kept once for all readings.
    fn reading_of(&mut self, process: &TracedProcess) -> MappingsReading {
        let modules = process.modules.iter().filter(|m| !is_anonymous(m));
        let mut ranges: Vec<NamedRange> = modules
            .map(|m| NamedRange {
                start: m.start,
                end: m.end,
                name: self.number_of_name(m),
            })
            .collect();
        ranges.sort_unstable_by_key(|r| r.start);
        MappingsReading {
            t_ns: process.t_ns,
            ranges,
        }
    }

    fn number_of_name(&mut self, mapping: &MappedModule) -> u32 {
        let name = match mapping.path.as_str() {
            "[heap]" => HEAP_NAME.to_owned(),
            name if name.starts_with('[') => name.to_owned(),
            file => format!("file {file}"),
        };
        self.names.insert_full(name).0 as u32
    }

    /// The number of the name of the mapping that this shootdown flushed, if it had one. A full flush has no range: the kernel
    /// makes one from 34 pages on (tlb_single_page_flush_ceiling in arch/x86/mm/tlb.c is 33), also where the heap is given back,
    /// which is why brk(2) comes first.
    pub(crate) fn name_of_range(&self, row: &EventRow) -> Option<u32> {
        if row.cause == Cause::Brk {
            return Some(HEAP_NUMBER);
        }
        if row.is_full() {
            return None;
        }
        let all = self.readings.get(&row.pid)?;
        let next = all.partition_point(|r| r.t_ns <= row.t_ns);
        let before = next.checked_sub(1).and_then(|i| all.get(i));
        if let Some(name) = before.and_then(|r| r.name_at(row.start)) {
            return Some(name);
        }
        let goes = matches!(row.cause, Cause::Munmap | Cause::Mremap);
        let after = all.get(next).filter(|_| !goes);
        after.and_then(|r| r.name_at(row.start))
    }

    /// The name with this number.
    pub(crate) fn name(&self, number: u32) -> &str {
        let name = self.names.get_index(number as usize);
        name.map_or("", String::as_str)
    }
}

/// Shared anonymous memory has a name too, which says nothing about it (mm/shmem.c, shmem_zero_setup).
fn is_anonymous(mapping: &MappedModule) -> bool {
    mapping.path == "/dev/zero"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process_reading(t_ns: u64, mappings: &[(&str, u64, u64)]) -> TracedProcess {
        let module = |&(path, start, end): &(&str, u64, u64)| MappedModule {
            path: path.to_owned(),
            start,
            end,
            ..MappedModule::default()
        };
        TracedProcess {
            pid: 7,
            t_ns,
            modules: mappings.iter().map(module).collect(),
            ..TracedProcess::default()
        }
    }

    fn name(mappings: &Mappings, t_ns: u64, start: u64, cause: Cause) -> Option<&str> {
        let row = EventRow {
            pid: 7,
            t_ns,
            start,
            end: start + 4096,
            cause,
            ..EventRow::default()
        };
        Some(mappings.name(mappings.name_of_range(&row)?))
    }

    /// Check that a file that is mapped later does not name memory that was unmapped there before, in whatever order the
    /// readings come.
    #[test]
    fn later_files_are_not_blamed() {
        let early = process_reading(100, &[("/lib/a.so", 0x1000, 0x3000)]);
        let late = process_reading(
            200,
            &[
                ("/lib/a.so", 0x1000, 0x3000),
                ("/lib/b.so", 0x8000, 0x9000),
                ("/dev/zero", 0xa000, 0xb000),
            ],
        );
        for order in [[&early, &late], [&late, &early]] {
            let mut mappings = Mappings::default();
            for p in order {
                mappings.add_process(p);
            }
            let name = |t, start, cause| name(&mappings, t, start, cause);
            assert_eq!(name(150, 0x8000, Cause::Munmap), None);
            assert_eq!(name(200, 0x8000, Cause::Munmap), Some("file /lib/b.so"));
            assert_eq!(name(150, 0x2fff, Cause::Munmap), Some("file /lib/a.so"));
            assert_eq!(name(200, 0xa000, Cause::Munmap), None);
            // One shootdown came before the first reading, and one while a library was being loaded.
            assert_eq!(name(50, 0x1000, Cause::Munmap), None);
            assert_eq!(name(50, 0x1000, Cause::Mprotect), Some("file /lib/a.so"));
            assert_eq!(name(150, 0x8000, Cause::Mprotect), Some("file /lib/b.so"));
            assert_eq!(name(150, 0x3000, Cause::Mprotect), None);
        }
    }

    /// Check that a process that is read while it runs has one reading, which holds for all its shootdowns.
    #[test]
    fn renewed_readings_replace_others() {
        let mut mappings = Mappings::default();
        mappings.replace_readings(&process_reading(100, &[("[heap]", 0x1000, 0x3000)]));
        mappings.replace_readings(&process_reading(200, &[("[heap]", 0x1000, 0x2000)]));
        assert_eq!(name(&mappings, 0, 0x1000, Cause::Munmap), Some(HEAP_NAME));
        assert_eq!(name(&mappings, 150, 0x2000, Cause::Munmap), None);
        // The heap was larger before the first reading.
        assert_eq!(name(&mappings, 150, 0x2000, Cause::Brk), Some(HEAP_NAME));
        assert_eq!(mappings.readings[&7].len(), 1);
    }

    /// Check that in a trace without times, of quell 0.1.0, the last reading counts.
    #[test]
    fn readings_without_a_time() {
        let mut mappings = Mappings::default();
        mappings.add_process(&process_reading(0, &[("/a", 0x1000, 0x2000)]));
        mappings.add_process(&process_reading(0, &[("/b", 0x1000, 0x2000)]));
        assert_eq!(name(&mappings, 9, 0x1000, Cause::Munmap), Some("file /b"));
    }
}
