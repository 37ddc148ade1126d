//! How the code of a file is unwound: its `.eh_frame`, and where its segments are mapped.
//!
//! Any field may lie: the `object` and `gimli` crates check the fields, and long ones are refused here.

use std::rc::Rc;

use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EhFrameOffset, FrameDescriptionEntry, LittleEndian,
    UnwindContext, UnwindSection as _,
};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, elf};
use quell_host::contents::Contents;
use quell_host::maps::Mapping;

use super::frame_rule::{
    FrameRegisters, FrameRule, FrameStep, SectionReader, StackReader, apply_row,
};

/// The largest section that is read: that of a browser has 20 MB.
const MAX_SECTION_BYTES: u64 = 64 << 20;

/// The largest section without an index that is used, because it is read from its beginning for each address.
const MAX_UNSORTED_BYTES: usize = 256 << 10;

/// The largest entry of a function that is used, because its instructions are followed from the first on.
const MAX_ENTRY_BYTES: usize = 64 << 10;

/// The bytes of a section, and its linked address.
#[derive(Clone, Debug)]
struct LoadedSection {
    bytes: Rc<[u8]>,
    address: u64,
}

impl LoadedSection {
    fn section_reader(&self) -> SectionReader<'_> {
        SectionReader::new(&self.bytes, LittleEndian)
    }
}

/// A segment of the file that has code.
#[derive(Clone, Copy, Debug)]
struct CodeSegment {
    offset: u64,
    size: u64,
    address: u64,
}

/// How the code of one file is unwound.
#[derive(Debug)]
pub(crate) struct FrameInfo {
    eh_frame: LoadedSection,
    eh_frame_hdr: Option<LoadedSection>,
    bases: BaseAddresses,
    segments: Vec<CodeSegment>,
}

/// How the frame at an address is unwound.
pub(super) enum FrameLookup {
    /// By a rule that is worth keeping.
    Rule(FrameRule),
    /// By an entry that applies only here, with the frame that it leads to; `None` where that can't be told.
    Step(Option<FrameStep>),
    /// The file has no entry for the address.
    Nothing,
}

impl FrameInfo {
    /// The info of a file; `None` if it has no `.eh_frame`, or can't be read.
    pub(crate) fn read(contents: &Contents) -> Option<Self> {
        let file = ElfFile64::<Endianness, _>::parse(contents).ok()?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            (section.size() <= MAX_SECTION_BYTES).then_some(())?;
            Some(LoadedSection {
                bytes: section.data().ok()?.into(),
                address: section.address(),
            })
        };
        let endian = file.endian();
        let segments = file.elf_program_headers().iter();
        let code = segments.filter(|s| {
            s.p_type(endian) == elf::PT_LOAD && s.p_flags(endian) & elf::PF_X == elf::PF_X
        });
        let segments = code.map(|s| CodeSegment {
            offset: s.p_offset(endian),
            size: s.p_filesz(endian),
            address: s.p_vaddr(endian),
        });
        let segments = segments.collect();
        let text = file.section_by_name(".text").map_or(0, |t| t.address());
        let got = file.section_by_name(".got").map_or(0, |t| t.address());
        Some(Self::new(
            section(".eh_frame")?,
            section(".eh_frame_hdr"),
            segments,
            [text, got],
        ))
    }

    fn new(
        eh_frame: LoadedSection,
        eh_frame_hdr: Option<LoadedSection>,
        segments: Vec<CodeSegment>,
        [text, got]: [u64; 2],
    ) -> Self {
        let mut bases = BaseAddresses::default()
            .set_text(text)
            .set_got(got)
            .set_eh_frame(eh_frame.address);
        if let Some(header) = &eh_frame_hdr {
            bases = bases.set_eh_frame_hdr(header.address);
        }
        Self {
            eh_frame,
            eh_frame_hdr,
            bases,
            segments,
        }
    }

    /// The memory that it takes, bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        let header = self.eh_frame_hdr.as_ref().map_or(0, |s| s.bytes.len());
        self.eh_frame.bytes.len() + header
    }

    /// The number that is added to a linked address to get that of this mapping, modulo 2^64.
    pub(super) fn load_bias(&self, mapping: &Mapping) -> Option<u64> {
        let length = mapping.end.checked_sub(mapping.start)?;
        let segment = self.segments.iter().find(|s| {
            // A mapping begins at the page that the segment begins in.
            mapping.offset < s.offset.saturating_add(s.size)
                && mapping.offset.saturating_add(length) > s.offset
        })?;
        let linked = segment
            .address
            .wrapping_sub(segment.offset)
            .wrapping_add(mapping.offset);
        Some(mapping.start.wrapping_sub(linked))
    }

    /// The rule or the next frame for a linked address.
    pub(super) fn find_rule(
        &self,
        address: u64,
        context: &mut UnwindContext<usize>,
        regs: &FrameRegisters,
        stack: StackReader<'_>,
    ) -> FrameLookup {
        let mut section = EhFrame::from(self.eh_frame.section_reader());
        section.set_address_size(8);
        let Some(entry) = self.find_entry(&section, address) else {
            return FrameLookup::Nothing;
        };
        if entry.entry_len() > MAX_ENTRY_BYTES || entry.cie().entry_len() > MAX_ENTRY_BYTES {
            return FrameLookup::Step(None);
        }
        let row = entry.unwind_info_for_address(&section, &self.bases, context, address);
        let Ok(row) = row else {
            return FrameLookup::Step(None);
        };
        // A signal's frame leads to one that was interrupted and called nobody, so no rule of calls fits.
        match FrameRule::from_row(row).filter(|_| !entry.is_signal_trampoline()) {
            Some(rule) => FrameLookup::Rule(rule),
            None => FrameLookup::Step(apply_row(
                row,
                &section,
                entry.cie().encoding(),
                regs,
                stack,
            )),
        }
    }

    /// The entry that covers an address of the file: by the index, or by reading all where there is none and the section is short. `None`
    /// also where neither can be read.
    fn find_entry<'a>(
        &'a self,
        section: &EhFrame<SectionReader<'a>>,
        address: u64,
    ) -> Option<FrameDescriptionEntry<SectionReader<'a>>> {
        let of = |section: &EhFrame<SectionReader<'a>>,
                  bases: &BaseAddresses,
                  at: EhFrameOffset<usize>| { section.cie_from_offset(bases, at) };
        let header = self.eh_frame_hdr.as_ref().and_then(|header| {
            let header = EhFrameHdr::from(header.section_reader());
            header.parse(&self.bases, 8).ok()
        });
        match header.as_ref().and_then(|h| h.table()) {
            Some(table) => table
                .fde_for_address(section, &self.bases, address, of)
                .ok(),
            None if self.eh_frame.bytes.len() <= MAX_UNSORTED_BYTES => {
                section.fde_for_address(&self.bases, address, of).ok()
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::UnwindContext;
    use proptest::prelude::*;

    /// One function at 0x1000, of 0x100 bytes, with these instructions, as a compiler writes it.
    fn made(instructions: &[u8]) -> FrameInfo {
        // length, CIE id, version, "zR", code 1, data -8, return address in 16, augmentation of one byte: sdata4 relative
        let mut cie = vec![0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b];
        // the frame begins 8 above rsp, where the return address lies below: DW_CFA_def_cfa, DW_CFA_offset
        cie.extend([0x0c, 7, 8, 0x90, 1]);
        cie.resize(cie.len().next_multiple_of(4), 0);
        let mut bytes = (cie.len() as u32).to_le_bytes().to_vec();
        bytes.extend(&cie);
        let mut fde = Vec::new();
        let at = bytes.len() as u32;
        fde.extend((at + 4).to_le_bytes());
        // relative to where it stands, and the section is at 0
        fde.extend((0x1000_u32).wrapping_sub(at + 8).to_le_bytes());
        fde.extend(0x100_u32.to_le_bytes());
        fde.push(0);
        fde.extend(instructions);
        fde.resize(fde.len().next_multiple_of(4), 0);
        bytes.extend((fde.len() as u32).to_le_bytes());
        bytes.extend(&fde);
        bytes.extend([0; 4]);
        let section = LoadedSection {
            bytes: bytes.into(),
            address: 0,
        };
        FrameInfo::new(section, None, Vec::new(), [0, 0])
    }

    fn step(info: &FrameInfo, address: u64) -> Option<FrameStep> {
        let regs = FrameRegisters {
            ip: address,
            sp: 0x7000,
            bp: 0x7100,
        };
        // every word says where it lies
        let stack = |at: u64| (0x7000..0x8000).contains(&at).then_some(at | 1 << 40);
        match info.find_rule(address, &mut UnwindContext::new(), &regs, &stack) {
            FrameLookup::Rule(rule) => rule.apply_rule(&regs, &stack),
            FrameLookup::Step(step) => step,
            FrameLookup::Nothing => None,
        }
    }

    fn caller(ip: u64, sp: u64, bp: u64) -> Option<FrameStep> {
        Some(FrameStep::Caller(FrameRegisters { ip, sp, bp }))
    }

    /// Check that frames are found by the stack pointer, by rbp, and by an expression, and that the first one is known.
    #[test]
    fn rules_of_compilers() {
        let word = |at: u64| at | 1 << 40;
        // before anything is pushed
        assert_eq!(
            step(&made(&[]), 0x1004),
            caller(word(0x7000), 0x7008, 0x7100)
        );
        // DW_CFA_advance_loc 4, DW_CFA_def_cfa_offset 32, DW_CFA_offset rbp at 16 below
        let pushed = [0x44, 0x0e, 32, 0x86, 2];
        assert_eq!(
            step(&made(&pushed), 0x1002),
            caller(word(0x7000), 0x7008, 0x7100)
        );
        let deeper = caller(word(0x7018), 0x7020, word(0x7010));
        assert_eq!(step(&made(&pushed), 0x1004), deeper);
        // DW_CFA_def_cfa rbp 16
        let by_bp = caller(word(0x7108), 0x7110, 0x7100);
        assert_eq!(step(&made(&[0x0c, 6, 16]), 0x1004), by_bp);
        // DW_CFA_def_cfa_expression: rsp + 24
        let expression = [0x0f, 2, 0x77, 24];
        assert_eq!(
            step(&made(&expression), 0x1004),
            caller(word(0x7010), 0x7018, 0x7100)
        );
        // DW_CFA_undefined of the return address
        assert_eq!(step(&made(&[0x07, 16]), 0x1004), Some(FrameStep::Start));
        // nothing is written of what comes after
        assert_eq!(step(&made(&[]), 0x1100), None);
    }

    /// Check that an expression without an end has one: DW_OP_skip back to itself.
    #[test]
    fn no_expression_goes_on_for_ever() {
        let forever = [0x0f, 3, 0x2f, 0xfd, 0xff];
        assert_eq!(step(&made(&forever), 0x1004), None);
    }

    proptest! {
        /// Check that whatever is written of a function, following it ends, and reads no other memory than the stack.
        #[test]
        fn any_instructions(instructions in prop::collection::vec(any::<u8>(), 0..200), at in 0x0ff0_u64..0x1110) {
            let _step = step(&made(&instructions), at);
        }

        /// Check that no section makes the reader fail.
        #[test]
        fn any_section(frames in prop::collection::vec(any::<u8>(), 0..400), header in prop::collection::vec(any::<u8>(), 0..100), at: u64) {
            let section = |bytes: Vec<u8>, address| LoadedSection { bytes: bytes.into(), address };
            let header = section([&[1, 0x1b, 0x03, 0x3b], header.as_slice()].concat(), 0x2000);
            let info = FrameInfo::new(section(frames, 0x1000), Some(header), Vec::new(), [0, 0]);
            let _step = step(&info, at % 0x4000);
        }
    }
}
