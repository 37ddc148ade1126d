//! What was mapped where, and when.
//!
//! A recording reads a process's mappings when it shoots, again and again while they change. Between two
//! readings nobody knows when a mapping came or went, and an address may be used for one thing after
//! another. So an address is looked up in the reading before the shootdown. What only the one after it
//! has counts too, but not for a call that takes mappings away: that has come later. What brk(2) gives back
//! is the heap, whoever looked when.

use quell_event::Cause;
use quell_event::trace::{Module, Process, Row};

use super::quick_map::QuickMap;

/// What brk(2) moves the end of.
const HEAP: &str = "[heap] (brk)";
const HEAP_NUMBER: u32 = 0;

/// A range of addresses, and the number of its name.
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    end: u64,
    name: u32,
}

/// The mappings of a process, as they were read at one time.
struct Reading {
    t_ns: u64,
    /// By address; mappings don't overlap.
    ranges: Vec<Range>,
}

impl Reading {
    fn at(&self, address: u64) -> Option<u32> {
        let after = self.ranges.partition_point(|r| r.start <= address);
        let range = self.ranges[..after].last()?;
        (address < range.end).then_some(range.name)
    }
}

/// The mappings with a name, of every process.
pub(crate) struct Mappings {
    /// Of a process, by time.
    readings: QuickMap<u32, Vec<Reading>>,
    numbers: QuickMap<String, u32>,
    names: Vec<String>,
}

impl Default for Mappings {
    fn default() -> Self {
        Self {
            readings: QuickMap::default(),
            numbers: QuickMap::from_iter([(HEAP.to_owned(), HEAP_NUMBER)]),
            names: vec![HEAP.to_owned()],
        }
    }
}

impl Mappings {
    /// Adds a reading. One of the same time replaces the other.
    pub(crate) fn add(&mut self, process: &Process) {
        let reading = self.reading(process);
        let all = self.readings.entry(process.pid).or_default();
        let at = all.partition_point(|r| r.t_ns < reading.t_ns);
        match all.get_mut(at).filter(|r| r.t_ns == reading.t_ns) {
            Some(same) => *same = reading,
            None => all.insert(at, reading),
        }
    }

    /// This reading in place of all others of its process, as if it had always been so: for who asks as the
    /// program runs.
    pub(crate) fn renew(&mut self, process: &Process) {
        let reading = Reading {
            t_ns: 0,
            ..self.reading(process)
        };
        self.readings.insert(process.pid, vec![reading]);
    }

    fn reading(&mut self, process: &Process) -> Reading {
        let modules = process.modules.iter().filter(|m| !is_anonymous(m));
        let mut ranges: Vec<Range> = modules
            .map(|m| Range {
                start: m.start,
                end: m.end,
                name: self.number(m),
            })
            .collect();
        ranges.sort_unstable_by_key(|r| r.start);
        Reading {
            t_ns: process.t_ns,
            ranges,
        }
    }

    fn number(&mut self, mapping: &Module) -> u32 {
        let name = match mapping.path.as_str() {
            "[heap]" => HEAP.to_owned(),
            name if name.starts_with('[') => name.to_owned(),
            file => format!("file {file}"),
        };
        let next = self.names.len() as u32;
        let names = &mut self.names;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            next
        })
    }

    /// The number of the name of what the range of this shootdown was, if it had one. A flush of everything has no
    /// range: the kernel does that from 34 pages on, also where it is the heap that is given back.
    pub(crate) fn of(&self, row: &Row) -> Option<u32> {
        if row.cause == Cause::Brk {
            return Some(HEAP_NUMBER);
        }
        if row.full() {
            return None;
        }
        let all = self.readings.get(&row.pid)?;
        let next = all.partition_point(|r| r.t_ns <= row.t_ns);
        let before = next.checked_sub(1).and_then(|i| all.get(i));
        if let Some(name) = before.and_then(|r| r.at(row.start)) {
            return Some(name);
        }
        let goes = matches!(row.cause, Cause::Munmap | Cause::Mremap);
        let after = all.get(next).filter(|_| !goes);
        after.and_then(|r| r.at(row.start))
    }

    /// What a number stands for.
    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }
}

/// Anonymous memory that is shared has a name, and says as little by it (mm/shmem.c, shmem_zero_setup).
fn is_anonymous(mapping: &Module) -> bool {
    mapping.path == "/dev/zero"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(t_ns: u64, mappings: &[(&str, u64, u64)]) -> Process {
        let module = |&(path, start, end): &(&str, u64, u64)| Module {
            path: path.to_owned(),
            start,
            end,
            ..Module::default()
        };
        Process {
            pid: 7,
            t_ns,
            modules: mappings.iter().map(module).collect(),
            ..Process::default()
        }
    }

    fn name(mappings: &Mappings, t_ns: u64, start: u64, cause: Cause) -> Option<&str> {
        let row = Row {
            pid: 7,
            t_ns,
            start,
            end: start + 4096,
            cause,
            ..Row::default()
        };
        Some(mappings.name(mappings.of(&row)?))
    }

    /// Check that a file that is mapped later does not name what was unmapped there before, in whatever order the
    /// readings come.
    #[test]
    fn later_files_are_not_blamed() {
        let early = process(100, &[("/lib/a.so", 0x1000, 0x3000)]);
        let late = process(
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
                mappings.add(p);
            }
            let name = |t, start, cause| name(&mappings, t, start, cause);
            assert_eq!(name(150, 0x8000, Cause::Munmap), None);
            assert_eq!(name(200, 0x8000, Cause::Munmap), Some("file /lib/b.so"));
            assert_eq!(name(150, 0x2fff, Cause::Munmap), Some("file /lib/a.so"));
            assert_eq!(name(200, 0xa000, Cause::Munmap), None);
            // before anybody looked, and while a library was being loaded
            assert_eq!(name(50, 0x1000, Cause::Munmap), None);
            assert_eq!(name(50, 0x1000, Cause::Mprotect), Some("file /lib/a.so"));
            assert_eq!(name(150, 0x8000, Cause::Mprotect), Some("file /lib/b.so"));
            assert_eq!(name(150, 0x3000, Cause::Mprotect), None);
        }
    }

    /// Check that a process that is read as it runs has one reading, which holds for all that came.
    #[test]
    fn renewed() {
        let mut mappings = Mappings::default();
        mappings.renew(&process(100, &[("[heap]", 0x1000, 0x3000)]));
        mappings.renew(&process(200, &[("[heap]", 0x1000, 0x2000)]));
        assert_eq!(name(&mappings, 0, 0x1000, Cause::Munmap), Some(HEAP));
        assert_eq!(name(&mappings, 150, 0x2000, Cause::Munmap), None);
        // the heap was larger before anybody looked
        assert_eq!(name(&mappings, 150, 0x2000, Cause::Brk), Some(HEAP));
        assert_eq!(mappings.readings[&7].len(), 1);
    }

    /// Check that in a trace without times, of quell 0.1.0, the last reading counts.
    #[test]
    fn readings_without_a_time() {
        let mut mappings = Mappings::default();
        mappings.add(&process(0, &[("/a", 0x1000, 0x2000)]));
        mappings.add(&process(0, &[("/b", 0x1000, 0x2000)]));
        assert_eq!(name(&mappings, 9, 0x1000, Cause::Munmap), Some("file /b"));
    }
}
