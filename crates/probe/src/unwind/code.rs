//! What a file says of how its code is unwound: `.eh_frame`, and where its segments are mapped.
//!
//! Any field may lie: the `object` crate checks what is read, and framehop what the sections say.

use std::rc::Rc;

use framehop::{ExplicitModuleSectionInfo, Module};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, elf};
use quell_host::contents::Contents;
use quell_host::maps::Mapping;

/// More of one section is not read, bytes: that of a browser has 20 MB.
const MAX_SECTION: u64 = 64 << 20;

type Bytes = Rc<[u8]>;

/// A section, and where it is as linked.
#[derive(Clone, Debug)]
struct Section {
    bytes: Bytes,
    address: u64,
}

impl Section {
    fn range(&self) -> std::ops::Range<u64> {
        self.address..self.address.saturating_add(self.bytes.len() as u64)
    }
}

/// A piece of the file that has code.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    size: u64,
    address: u64,
}

/// How the code of one file is unwound.
#[derive(Debug)]
pub(crate) struct FrameInfo {
    eh_frame: Section,
    eh_frame_hdr: Option<Section>,
    text: Option<std::ops::Range<u64>>,
    segments: Vec<Segment>,
}

impl FrameInfo {
    /// Of a file; `None` if it has no `.eh_frame`, or can't be read.
    pub(crate) fn read(contents: &Contents) -> Option<Self> {
        let file = ElfFile64::<Endianness, _>::parse(contents).ok()?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            (section.size() <= MAX_SECTION).then_some(())?;
            Some(Section {
                bytes: section.data().ok()?.into(),
                address: section.address(),
            })
        };
        let endian = file.endian();
        let segments = file.elf_program_headers().iter();
        let code = segments.filter(|s| {
            s.p_type(endian) == elf::PT_LOAD && s.p_flags(endian) & elf::PF_X == elf::PF_X
        });
        let segments = code.map(|s| Segment {
            offset: s.p_offset(endian),
            size: s.p_filesz(endian),
            address: s.p_vaddr(endian),
        });
        Some(Self {
            segments: segments.collect(),
            text: file
                .section_by_name(".text")
                .map(|t| t.address()..t.address().saturating_add(t.size())),
            eh_frame: section(".eh_frame")?,
            eh_frame_hdr: section(".eh_frame_hdr"),
        })
    }

    /// What it takes, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let header = self.eh_frame_hdr.as_ref().map_or(0, |s| s.bytes.len());
        self.eh_frame.bytes.len() + header
    }

    /// It, where a process has mapped it.
    pub(crate) fn module(&self, mapping: &Mapping) -> Option<Module<Bytes>> {
        let segment = self.segments.iter().find(|s| {
            // a mapping begins at the page that the segment begins in
            let end = s.offset.saturating_add(s.size);
            mapping.offset < end
                && mapping.offset.saturating_add(mapping.end - mapping.start) > s.offset
        })?;
        // what is added to an address as linked; less than nothing is added modulo 2^64
        let bias = mapping
            .start
            .wrapping_sub(mapping.offset)
            .wrapping_add(segment.offset)
            .wrapping_sub(segment.address);
        // an image that is linked to a high address: framehop counts from its beginning in 32 bits
        let base = self.segments.iter().map(|s| s.address).min().unwrap_or(0) & !0xffff_ffff;
        let sections = ExplicitModuleSectionInfo {
            base_svma: base,
            text_svma: self.text.clone(),
            eh_frame_svma: Some(self.eh_frame.range()),
            eh_frame: Some(Rc::clone(&self.eh_frame.bytes)),
            eh_frame_hdr_svma: self.eh_frame_hdr.as_ref().map(Section::range),
            eh_frame_hdr: self.eh_frame_hdr.as_ref().map(|s| Rc::clone(&s.bytes)),
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(
            String::new(),
            mapping.start..mapping.end,
            bias.wrapping_add(base),
            sections,
        ))
    }
}
