//! An ELF file as a loader and strings(1) see it: the libraries that it needs, its exports, its strings.
//!
//! Only 64-bit files are read. Any field may lie, so every offset is checked by the `object` crate
//! or here, and parts that cannot be read are left out; only a file that is no ELF file at all is an error.

use std::fs::File;
use std::io::Read as _;
use std::ops::Deref;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use memchr::memmem;
use memmap2::Mmap;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, elf};

use crate::functions;

type Header = elf::FileHeader64<Endianness>;
type Segment = elf::ProgramHeader64<Endianness>;

/// A string is returned with so many bytes before the needle, and so many after it.
const MAX_BYTES_BESIDE_NEEDLE: usize = 1024;

/// An ELF file, mapped and with its tables checked.
#[derive(Debug)]
pub struct ElfFile {
    data: Data,
    machine: u16,
    library: bool,
    dynamic: Dynamic,
    /// Where constants lie: the file ranges that are searched for strings.
    constants: Vec<(usize, usize)>,
}

/// The entries of the dynamic section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// The name that it goes by (`DT_SONAME`).
    pub soname: Option<String>,
    /// The libraries that it needs, in order (`DT_NEEDED`).
    pub needed: Vec<String>,
    /// `DT_RPATH`, unsplit.
    pub rpath: Option<String>,
    /// `DT_RUNPATH`, unsplit.
    pub runpath: Option<String>,
}

/// A symbol that the file defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, without a version.
    pub name: String,
    /// Its address as linked.
    pub address: u64,
    /// Its size in bytes, 0 if not said.
    pub size: u64,
    /// Whether it is in the dynamic table, so that others link to it.
    pub exported: bool,
}

#[derive(Debug)]
enum Data {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Deref for Data {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Data::Mapped(map) => map,
            Data::Owned(bytes) => bytes,
        }
    }
}

/// Whether a file is a program or library for 32 bits, which no [`ElfFile`] is made of.
#[must_use]
pub fn is_32_bit(path: &Path) -> bool {
    let mut head = [0; 5];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.starts_with(&elf::ELFMAG) && head[4] == elf::ELFCLASS32.0
}

impl ElfFile {
    /// Maps the file at `path` and checks its headers.
    pub fn open(path: &Path) -> Result<ElfFile> {
        let opening = || format!("opening {} as an ELF file", path.display());
        // Opening a pipe or a device could block or have effects.
        let meta = std::fs::metadata(path).with_context(opening)?;
        ensure!(
            meta.is_file(),
            "opening {} as an ELF file: not a regular file",
            path.display()
        );
        let file = File::open(path).with_context(opening)?;
        // SAFETY: the map is private and read only. Programs and libraries are replaced by rename,
        // which leaves the mapped inode as it is; one that is truncated in place would kill its own
        // users by the same signal.
        let map = unsafe { Mmap::map(&file) }.with_context(opening)?;
        ElfFile::new(Data::Mapped(map)).with_context(opening)
    }

    /// Reads an ELF file from memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<ElfFile> {
        ElfFile::new(Data::Owned(bytes))
    }

    fn new(data: Data) -> Result<ElfFile> {
        let bytes: &[u8] = &data;
        ensure!(bytes.starts_with(&elf::ELFMAG), "not an ELF file");
        match bytes.get(4) {
            Some(&class) if class == elf::ELFCLASS64.0 => {}
            Some(&class) if class == elf::ELFCLASS32.0 => {
                bail!("a 32-bit ELF file; only 64-bit ones are read")
            }
            _ => bail!("an ELF file of unknown class"),
        }
        let header =
            Header::parse(bytes).map_err(|e| anyhow::anyhow!("damaged ELF header: {e}"))?;
        let endian = header
            .endian()
            .map_err(|e| anyhow::anyhow!("damaged ELF header: {e}"))?;
        let dynamic = read_dynamic(header, endian, bytes);
        let constants = constant_ranges(header, endian, bytes);
        let machine = header.e_machine(endian).0;
        // glibc's libc.so.6 is a library that can be started, so an interpreter does not tell. A static
        // position-independent program needs nothing and has no name.
        let program =
            interpreter_path(header, endian, bytes).is_some() || dynamic.needed.is_empty();
        let library =
            header.e_type(endian) == elf::ET_DYN && (dynamic.soname.is_some() || !program);
        Ok(ElfFile {
            machine,
            library,
            dynamic,
            constants,
            data,
        })
    }

    fn parse_header(&self) -> Option<(&Header, Endianness)> {
        let header = Header::parse(&*self.data).ok()?;
        Some((header, header.endian().ok()?))
    }

    /// The processor that it is for (`EM_X86_64` is 62, `EM_AARCH64` 183).
    #[must_use]
    pub fn machine(&self) -> u16 {
        self.machine
    }

    /// Whether it is a library or an extension, not a program.
    #[must_use]
    pub fn is_library(&self) -> bool {
        self.library
    }

    /// Reads its dynamic section; it is empty for a static program.
    #[must_use]
    pub fn dynamic(&self) -> &Dynamic {
        &self.dynamic
    }

    /// The program that loads it (`PT_INTERP`).
    #[must_use]
    pub fn interpreter(&self) -> Option<String> {
        let (header, endian) = self.parse_header()?;
        interpreter_path(header, endian, &self.data)
    }

    /// Its build id in hexadecimal.
    #[must_use]
    pub fn build_id(&self) -> Option<String> {
        functions::build_id(&self.data[..])
    }

    /// The contents of a section, where the file still has its section table.
    #[must_use]
    pub fn section_contents(&self, name: &str) -> Option<&[u8]> {
        functions::section_contents(&self.data[..], name)
    }

    /// The symbols it defines whose names `wanted` accepts, from both tables, without duplicates.
    #[must_use]
    pub fn symbols(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<Symbol> {
        let mut found: Vec<Symbol> = Vec::new();
        let Some((header, endian)) = self.parse_header() else {
            return found;
        };
        let data: &[u8] = &self.data;
        let Ok(sections) = header.sections(endian, data) else {
            return found;
        };
        for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
            let Ok(table) = sections.symbols(endian, data, kind) else {
                continue;
            };
            for symbol in table.iter() {
                if symbol.is_undefined(endian) {
                    continue;
                }
                let Ok(name) = symbol.name(endian, table.strings()) else {
                    continue;
                };
                if !wanted(name) {
                    continue;
                }
                let name = String::from_utf8_lossy(name).into_owned();
                if found.iter().any(|s| s.name == name) {
                    continue;
                }
                let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
                found.push(Symbol {
                    name,
                    address,
                    size,
                    exported: kind == elf::SHT_DYNSYM,
                });
            }
        }
        found
    }

    /// Up to `length` bytes of the file that lie at a linked address.
    #[must_use]
    pub fn bytes_at(&self, address: u64, length: usize) -> Option<&[u8]> {
        let (header, endian) = self.parse_header()?;
        let data: &[u8] = &self.data;
        let (start, end) = file_range(header.program_headers(endian, data).ok()?, endian, address)?;
        let range = data.get(start..end.min(data.len()))?;
        Some(&range[..range.len().min(length)])
    }

    /// The NUL-delimited strings among the constants that hold `needle`, at most `limit` of them.
    ///
    /// A needle may itself start or end with NUL, to ask for the start or the end of a string. What
    /// is returned has no NULs and is cut to about a thousand bytes on either side of the needle.
    #[must_use]
    pub fn find_strings(&self, needle: &[u8], limit: usize) -> Vec<&[u8]> {
        let finder = memmem::Finder::new(needle);
        let mut found = Vec::new();
        for &(start, end) in &self.constants {
            let Some(range) = self.data.get(start..end) else {
                continue;
            };
            for at in finder.find_iter(range) {
                if found.len() >= limit {
                    return found;
                }
                found.push(string_around(range, at, needle));
            }
        }
        found
    }

    /// Whether the constants hold `needle`.
    #[must_use]
    pub fn has_string(&self, needle: &[u8]) -> bool {
        !self.find_strings(needle, 1).is_empty()
    }
}

/// The string in `range` around the needle found at `at`.
fn string_around<'a>(range: &'a [u8], at: usize, needle: &[u8]) -> &'a [u8] {
    let inner = needle.iter().position(|b| *b != 0).unwrap_or(0);
    let first = (at + inner).min(range.len());
    let low = first.saturating_sub(MAX_BYTES_BESIDE_NEEDLE);
    let start = range[low..first]
        .iter()
        .rposition(|b| *b == 0)
        .map_or(low, |p| low + p + 1);
    let high = (first + needle.len() + MAX_BYTES_BESIDE_NEEDLE).min(range.len());
    let end = range[first..high]
        .iter()
        .position(|b| *b == 0)
        .map_or(high, |p| first + p);
    &range[start..end]
}

fn interpreter_path(header: &Header, endian: Endianness, data: &[u8]) -> Option<String> {
    header
        .program_headers(endian, data)
        .ok()?
        .iter()
        .find_map(|segment| {
            let name = segment.interpreter(endian, data).ok()??;
            Some(String::from_utf8_lossy(name).into_owned())
        })
}

/// Where in the file a linked address lies, to the end of its loaded segment.
fn file_range(segments: &[Segment], endian: Endianness, address: u64) -> Option<(usize, usize)> {
    segments
        .iter()
        .filter(|s| s.p_type(endian) == elf::PT_LOAD)
        .find_map(|segment| {
            let inside = address.checked_sub(segment.p_vaddr(endian))?;
            let left = segment
                .p_filesz(endian)
                .checked_sub(inside)
                .filter(|left| *left > 0)?;
            let start = usize::try_from(segment.p_offset(endian).checked_add(inside)?).ok()?;
            Some((start, start.checked_add(usize::try_from(left).ok()?)?))
        })
}

/// Reads the dynamic section through the segments, as the loader does: sections may be stripped.
fn read_dynamic(header: &Header, endian: Endianness, data: &[u8]) -> Dynamic {
    let mut out = Dynamic::default();
    let Ok(segments) = header.program_headers(endian, data) else {
        return out;
    };
    let Some(entries) = segments.iter().find_map(|s| s.dynamic(endian, data).ok()?) else {
        return out;
    };
    let value = |tag| {
        entries
            .iter()
            .find(|e| e.tag(endian) == tag)
            .map(|e| e.d_val.get(endian))
    };
    let Some(table) = value(elf::DT_STRTAB) else {
        return out;
    };
    let size = value(elf::DT_STRSZ).unwrap_or(u64::MAX);
    let Some(strings) = file_range(segments, endian, table).and_then(|(start, end)| {
        let left = data.get(start..end.min(data.len()))?;
        Some(&left[..usize::try_from(size).unwrap_or(usize::MAX).min(left.len())])
    }) else {
        return out;
    };
    let text = |at: u64| {
        let tail = strings.get(usize::try_from(at).ok()?..)?;
        let end = memchr::memchr(0, tail)?;
        Some(String::from_utf8_lossy(&tail[..end]).into_owned())
    };
    for entry in entries {
        let tag = entry.tag(endian);
        if tag == elf::DT_NULL {
            break;
        }
        let Some(name) = text(entry.d_val.get(endian)) else {
            continue;
        };
        match tag {
            elf::DT_NEEDED => out.needed.push(name),
            elf::DT_SONAME => out.soname = Some(name),
            elf::DT_RPATH => out.rpath = Some(name),
            elf::DT_RUNPATH => out.runpath = Some(name),
            _ => {}
        }
    }
    out
}

/// The parts of the file that hold constants: loaded, not code, not unwind tables. In a library of
/// 180 MB of code and symbols that is 6 MB, so that a search costs milliseconds. Without a section
/// table, every loaded segment.
fn constant_ranges(header: &Header, endian: Endianness, data: &[u8]) -> Vec<(usize, usize)> {
    let fits = |offset: u64, size: u64| {
        let start = usize::try_from(offset).ok()?;
        let end = start
            .checked_add(usize::try_from(size).ok()?)?
            .min(data.len());
        (start < end).then_some((start, end))
    };
    let sections = header.sections(endian, data);
    let mut ranges: Vec<(usize, usize)> = sections
        .iter()
        .flat_map(|table| table.iter().map(move |s| (table, s)))
        .filter(|(table, s)| {
            let flags = s.sh_flags(endian);
            let name = table.section_name(endian, s).unwrap_or_default();
            s.sh_type(endian) == elf::SHT_PROGBITS
                && flags.contains(elf::SHF_ALLOC)
                && !flags.contains(elf::SHF_EXECINSTR)
                && !matches!(
                    name,
                    b".eh_frame" | b".eh_frame_hdr" | b".gcc_except_table" | b".interp"
                )
        })
        .filter_map(|(_, s)| fits(s.sh_offset(endian), s.sh_size(endian)))
        .collect();
    if ranges.is_empty() {
        let segments = header.program_headers(endian, data).unwrap_or_default();
        ranges = segments
            .iter()
            .filter(|s| s.p_type(endian) == elf::PT_LOAD)
            .filter_map(|s| fits(s.p_offset(endian), s.p_filesz(endian)))
            .collect();
    }
    ranges
}

#[cfg(test)]
#[path = "elf_tests.rs"]
mod tests;
