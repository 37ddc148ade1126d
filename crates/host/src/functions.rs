//! Which function lies at a place of an ELF file, by its symbol tables.
//!
//! Names alone, in one pass over a table that is neither copied nor sorted: a large program has a
//! million symbols, and a recording asks for a few hundred places. Files of 32 and of 64 bits. Any
//! field may lie, so offsets are checked by the `object` crate, and an entry that can't be read has no name. The
//! bytes are in memory, or [`Contents`](crate::contents::Contents) of a file.

use std::cmp::Reverse;

use object::read::elf::{
    FileHeader, NoteIterator, ProgramHeader, SectionHeader, SectionTable, Sym, SymbolTable,
};
use object::{Endianness, elf};

pub use object::read::ReadRef;

/// More symbols than any program has: Chrome, of a gigabyte with its debug information, has two
/// million.
const MAX_SYMBOLS: usize = 1 << 24;

/// One table may cost so much, in names of 64 bytes that are looked at for a place. Functions hardly
/// overlap, so only a table made to cost time comes near it: the rest of that is left alone.
const MAX_TABLE_COST: usize = 1 << 24;

/// Notes behind so many bytes of a segment are not read.
const MAX_NOTE_BYTES: u64 = 1 << 20;

/// More notes than any file has; the end of a file that is one hole is as long as its maker likes.
const MAX_NOTES: usize = 10_000;

/// Longer names are cut: nobody reads them, and a file can hold one of gigabytes, for each symbol.
const MAX_NAME_BYTES: usize = 16 << 10;

/// Which table of symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// All functions; strip(1) takes this table away (`.symtab`).
    Full,
    /// Functions that others may link to; this table is always there in a library (`.dynsym`).
    Exported,
}

/// Calls the function for 64-bit files or the one for 32-bit files.
macro_rules! by_class {
    ($data:expr, $function:ident($($argument:expr),*)) => {
        match $data.read_bytes_at(4, 1).ok().and_then(<[u8]>::first) {
            Some(&class) if class == elf::ELFCLASS64.0 => {
                $function::<elf::FileHeader64<Endianness>, _>($data, $($argument),*)
            }
            Some(&class) if class == elf::ELFCLASS32.0 => {
                $function::<elf::FileHeader32<Endianness>, _>($data, $($argument),*)
            }
            _ => None,
        }
    };
}

/// Whether these bytes begin as an ELF file does.
#[must_use]
pub fn is_elf<'d>(data: impl ReadRef<'d>) -> bool {
    data.read_bytes_at(0, 4) == Ok(&elf::ELFMAG)
}

/// The build id of a file, in hexadecimal.
#[must_use]
pub fn build_id<'d>(data: impl ReadRef<'d>) -> Option<String> {
    by_class!(data, find_build_id())
}

/// The linked address of the code at an offset of the file.
#[must_use]
pub fn linked_address<'d>(data: impl ReadRef<'d>, offset: u64) -> Option<u64> {
    by_class!(data, find_address(offset))
}

/// The contents of a section as they are in the file.
#[must_use]
pub fn section_contents<'d>(data: impl ReadRef<'d>, name: &str) -> Option<&'d [u8]> {
    by_class!(data, find_section(name))
}

/// The linked address of a section.
#[must_use]
pub fn section_address<'d>(data: impl ReadRef<'d>, name: &str) -> Option<u64> {
    by_class!(data, find_section_address(name))
}

/// The linked address where a program starts.
#[must_use]
pub fn entry_address<'d>(data: impl ReadRef<'d>) -> Option<u64> {
    by_class!(data, find_entry())
}

/// The names of the functions at linked addresses, which must be sorted, as the table writes them:
/// C++ and Rust mangle theirs. `None` where the file has no such table.
#[must_use]
pub fn names_at<'d>(
    data: impl ReadRef<'d>,
    table: Table,
    addresses: &[u64],
) -> Option<Vec<Option<String>>> {
    debug_assert!(addresses.is_sorted());
    by_class!(data, find_names(table, addresses))
}

fn find_build_id<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    data: R,
) -> Option<String> {
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let mut left = MAX_NOTES;
    for segment in header.program_headers(endian, data).ok()? {
        if segment.p_type(endian) != elf::PT_NOTE {
            continue;
        }
        let (at, size) = (segment.p_offset(endian).into(), segment.p_filesz(endian));
        let notes = data.read_bytes_at(at, MAX_NOTE_BYTES.min(size.into()));
        let notes = notes.map(|n| NoteIterator::<E>::new(endian, segment.p_align(endian), n));
        let Ok(Ok(mut notes)) = notes else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            left = left.checked_sub(1)?;
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                // 20 bytes of SHA-1 mostly; a linker takes any that a user gives it
                let id = note.desc().iter().take(64);
                return Some(id.map(|b| format!("{b:02x}")).collect());
            }
        }
    }
    None
}

fn find_address<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    data: R,
    offset: u64,
) -> Option<u64> {
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    segments
        .iter()
        .filter(|s| s.p_type(endian) == elf::PT_LOAD && s.p_flags(endian).contains(elf::PF_X))
        .find_map(|s| {
            let inside = offset.checked_sub(s.p_offset(endian).into())?;
            let inside = (inside < s.p_filesz(endian).into()).then_some(inside)?;
            inside.checked_add(s.p_vaddr(endian).into())
        })
}

fn find_entry<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(data: R) -> Option<u64> {
    let header = E::parse(data).ok()?;
    Some(header.e_entry(header.endian().ok()?).into())
}

fn find_section<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    data: R,
    name: &str,
) -> Option<&'d [u8]> {
    let (section, endian) = section_header::<E, R>(data, name)?;
    section.data(endian, data).ok()
}

fn find_section_address<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    data: R,
    name: &str,
) -> Option<u64> {
    let (section, endian) = section_header::<E, R>(data, name)?;
    Some(section.sh_addr(endian).into())
}

/// The section with this name. Their names are read as a whole: one by one, each costs a system call.
fn section_header<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    data: R,
    name: &str,
) -> Option<(&'d E::SectionHeader, Endianness)> {
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.section_headers(endian, data).ok()?;
    let strings = usize::try_from(header.shstrndx(endian, data).ok()?).ok()?;
    let names = sections.get(strings)?.data(endian, data).ok()?;
    let has_name = |section: &&E::SectionHeader| {
        let at = usize::try_from(section.sh_name(endian)).ok();
        let rest = at.and_then(|at| names.get(at..)?.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    };
    Some((sections.iter().find(has_name)?, endian))
}

/// A symbol that may name a place.
#[derive(Clone, Copy)]
struct Candidate<'d> {
    start: u64,
    /// The end of its section, beyond which one without a size doesn't reach.
    limit: u64,
    /// An assembler's label, or a function.
    function: bool,
    local: bool,
    name: &'d [u8],
}

impl Candidate<'_> {
    /// Of the names for one place the innermost; of several for the same, the one that a reader knows:
    /// `madvise` rather than `__madvise`.
    fn name_preference(&self) -> impl Ord {
        let first = self.name.iter().take(8);
        let underscores = first.take_while(|b| **b == b'_').count();
        // `_Z` and `_R` are no modesty but mangled names
        let underscores = if self.name.starts_with(b"_Z") || self.name.starts_with(b"_R") {
            0
        } else {
            underscores
        };
        (
            self.start,
            self.function,
            Reverse(underscores),
            !self.local,
            Reverse(self.name.len()),
            Reverse(self.name),
        )
    }
}

fn take_better<'d>(best: &mut Option<Candidate<'d>>, new: Candidate<'d>) {
    let better = match best {
        None => true,
        Some(old) if old.start != new.start => new.start > old.start,
        Some(old) => new.name_preference() > old.name_preference(),
    };
    if better {
        *best = Some(new);
    }
}

fn find_names<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    data: R,
    table: Table,
    addresses: &[u64],
) -> Option<Vec<Option<String>>> {
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let kind = match table {
        Table::Full => elf::SHT_SYMTAB,
        Table::Exported => elf::SHT_DYNSYM,
    };
    let symbols = sections.symbols(endian, data, kind).ok()?;
    let strings = symbol_names(endian, data, &sections, &symbols);
    // a stripped library may keep a table of sections and files alone
    let mut any = false;
    // places inside a function that says its size
    let mut sized: Vec<Option<Candidate<'_>>> = vec![None; addresses.len()];
    // by the first place at or after it: the last symbol, and the last that says no size
    let mut latest: Vec<u64> = vec![0; addresses.len()];
    let mut bare: Vec<Option<Candidate<'_>>> = vec![None; addresses.len()];
    let mut cost = 0usize;
    'symbols: for symbol in symbols.iter().take(MAX_SYMBOLS) {
        let Some(place) = find_code_place::<E, R>(symbol, endian, &sections) else {
            continue;
        };
        any = true;
        let first = addresses.partition_point(|a| *a < place.start);
        let Some(slot) = latest.get_mut(first) else {
            continue;
        };
        *slot = place.start.max(*slot);
        let end = place.start.saturating_add(place.size);
        if place.size > 0 && addresses[first] >= end {
            continue;
        }
        let Some(candidate) = place.to_candidate::<E>(symbol, endian, strings) else {
            continue;
        };
        let each = 1 + candidate.name.len() / 64;
        if place.size == 0 {
            take_better(&mut bare[first], candidate);
            cost += each;
        }
        let covered = addresses[first..].iter().take_while(|a| **a < end);
        for (_, best) in covered.zip(&mut sized[first..]) {
            take_better(best, candidate);
            cost += each;
            if cost > MAX_TABLE_COST {
                break 'symbols;
            }
        }
        if cost > MAX_TABLE_COST {
            break;
        }
    }
    if !any {
        return None;
    }
    let mut reached = 0;
    let mut last_bare: Option<Candidate<'_>> = None;
    let mut names = Vec::with_capacity(addresses.len());
    for (i, &address) in addresses.iter().enumerate() {
        reached = latest[i].max(reached);
        if let Some(candidate) = bare[i] {
            take_better(&mut last_bare, candidate);
        }
        // Without a size a symbol reaches to the next one, or to its section's end. Exported ones lie
        // far apart, with others between that have no name: there it names its first byte only.
        let unsized_one = last_bare.filter(|c| match table {
            Table::Full => c.start == reached && address < c.limit,
            Table::Exported => c.start == address,
        });
        let found = sized[i].or(unsized_one);
        names.push(found.map(|c| String::from_utf8_lossy(c.name).into_owned()));
    }
    Some(names)
}

/// The names of a table of symbols, each ended by a NUL.
fn symbol_names<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    endian: Endianness,
    data: R,
    sections: &SectionTable<'d, E, R>,
    symbols: &SymbolTable<'d, E, R>,
) -> &'d [u8] {
    let section = sections.section(symbols.string_section());
    section.and_then(|s| s.data(endian, data)).unwrap_or(&[])
}

/// The name at a place among them, not longer than it may be; `None` if nothing ends it.
fn name_in(strings: &[u8], at: u32) -> Option<&[u8]> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let seen = rest.get(..MAX_NAME_BYTES).unwrap_or(rest);
    match memchr::memchr(0, seen) {
        Some(end) => seen.get(..end),
        None => (rest.len() > seen.len()).then_some(seen),
    }
}

/// The place of a symbol of code, without its name.
struct CodePlace {
    start: u64,
    size: u64,
    limit: u64,
    function: bool,
}

/// Where a symbol lies, if it is code that the file defines.
fn find_code_place<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    symbol: &E::Sym,
    endian: Endianness,
    sections: &SectionTable<'d, E, R>,
) -> Option<CodePlace> {
    let kind = symbol.st_type();
    let function = kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC;
    if symbol.is_undefined(endian) || !(function || kind == elf::STT_NOTYPE) {
        return None;
    }
    let section = sections
        .section(object::SectionIndex(symbol.st_shndx(endian).0.into()))
        .ok()
        .filter(|s| s.sh_flags(endian).contains(elf::SHF_EXECINSTR));
    // a label must lie in code; a function may be in a section of its own numbering
    if section.is_none() && !function {
        return None;
    }
    let limit = section.map_or(u64::MAX, |s| {
        let address: u64 = s.sh_addr(endian).into();
        address.saturating_add(s.sh_size(endian).into())
    });
    Some(CodePlace {
        start: symbol.st_value(endian).into(),
        size: symbol.st_size(endian).into(),
        limit,
        function,
    })
}

impl CodePlace {
    /// The candidate with the name of this symbol, which costs more to find than all else; `None` if it has none.
    fn to_candidate<'d, E: FileHeader<Endian = Endianness>>(
        &self,
        symbol: &E::Sym,
        endian: Endianness,
        strings: &'d [u8],
    ) -> Option<Candidate<'d>> {
        let name = name_in(strings, symbol.st_name(endian))?;
        (!name.is_empty()).then_some(Candidate {
            start: self.start,
            limit: self.limit,
            function: self.function,
            local: symbol.st_bind() == elf::STB_LOCAL,
            name,
        })
    }
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
