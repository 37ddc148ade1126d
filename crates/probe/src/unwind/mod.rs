//! Unwinds stacks of programs that keep no frame pointers, by the `.eh_frame` of their files.
//!
//! Compilers leave frame pointers out, and then the kernel's walk ends after a function or two. But they write down, for
//! the sake of exceptions and debuggers, where each function's frame begins at each instruction: `.eh_frame`, which
//! packages keep when they are stripped. With a piece of the stack (`piece.rs`) that is enough to follow it.
//!
//! Code without it is followed by frame pointers: a JIT's, an assembler's, Go's.

mod frame_info;
mod frame_rule;
mod piece;

use std::collections::HashMap;

use gimli::UnwindContext;
use quell_host::maps::{self, Mapping};

use crate::symbols::CodeFiles;
use frame_info::{FrameInfo, FrameLookup};
use frame_rule::{FrameRegisters, FrameRule, FrameStep};
pub(crate) use piece::{FollowedStack, PieceKind, StackPiece, StackPieces, is_of_piece};

/// The most frames of a stack, as many as in the kernel's own walk (perf_event_max_stack).
const MAX_UNWOUND_FRAMES: usize = 127;

/// The most bytes of frame info that are kept. Beyond that all is dropped, and read again where it is needed.
const MAX_FRAME_INFO_BYTES: usize = 192 << 20;

/// The most rules that are kept; then all are looked up anew.
const MAX_KEPT_RULES: usize = 1 << 16;

/// Unwinds stacks, and keeps the frame info of files for that.
#[derive(Default)]
pub(crate) struct Unwinder {
    /// By the number of the file; `None` for a file without.
    infos: HashMap<u32, Option<FrameInfo>>,
    read: usize,
    /// By file and linked address.
    rules: HashMap<(u32, u64), FrameRule>,
    context: UnwindContext<usize>,
}

impl Unwinder {
    /// Unwinds a stack of a process with these mappings.
    pub(crate) fn unwind_piece(
        &mut self,
        maps: &[Mapping],
        files: &CodeFiles,
        piece: &StackPiece,
    ) -> UnwoundStack {
        let mut unwound = UnwoundStack {
            addresses: vec![piece.ip()],
            is_certain: true,
            ..UnwoundStack::default()
        };
        let mut regs = FrameRegisters {
            ip: piece.ip(),
            sp: piece.sp(),
            bp: piece.bp,
        };
        while unwound.addresses.len() < MAX_UNWOUND_FRAMES {
            // A call that never returns may be its function's last instruction, so that its return address is in the next
            // function.
            let is_first = unwound.addresses.len() == 1;
            let at = regs.ip.wrapping_sub(u64::from(!is_first));
            let stack = |address| piece.stack_word(address);
            match self.next_step(maps, files, piece.pid, at, &regs, &stack) {
                Some(FrameStep::Start) => {
                    unwound.is_whole = true;
                    break;
                }
                // A frame begins above those that it called.
                Some(FrameStep::Caller(next)) if next.sp > regs.sp => regs = next,
                // The piece ends there, or this is no frame.
                _ => break,
            }
            // A call puts the return address right below the frame of the caller (System V ABI for x86-64, 3.2.2).
            unwound.returns.push((regs.sp.wrapping_sub(8), regs.ip));
            unwound.addresses.push(regs.ip);
        }
        unwound
    }

    /// The frame that the one at this address leads to.
    fn next_step(
        &mut self,
        maps: &[Mapping],
        files: &CodeFiles,
        pid: u32,
        at: u64,
        regs: &FrameRegisters,
        stack: frame_rule::StackReader<'_>,
    ) -> Option<FrameStep> {
        let by_pointer = |regs: &FrameRegisters| match regs.bp {
            // By convention rbp is 0 where a thread began.
            0 => Some(FrameStep::Start),
            _ => FrameRule::FRAME_POINTER.apply_rule(regs, stack),
        };
        let mapping = maps::mapping_at(maps, at).filter(|m| m.perms.exec && m.is_file());
        let Some((mapping, number)) = mapping.and_then(|m| Some((m, files.file_number(pid, m)?)))
        else {
            return by_pointer(regs);
        };
        self.load_frame_info(number, files);
        let Some(info) = self.infos.get(&number).and_then(Option::as_ref) else {
            return by_pointer(regs);
        };
        let linked = at.wrapping_sub(info.load_bias(mapping)?);
        if let Some(rule) = self.rules.get(&(number, linked)) {
            return rule.apply_rule(regs, stack);
        }
        match info.find_rule(linked, &mut self.context, regs, stack) {
            FrameLookup::Rule(rule) => {
                if self.rules.len() >= MAX_KEPT_RULES {
                    self.rules.clear();
                }
                self.rules.insert((number, linked), rule);
                rule.apply_rule(regs, stack)
            }
            FrameLookup::Step(step) => step,
            FrameLookup::Nothing => by_pointer(regs),
        }
    }

    /// Reads the frame info of a file, once.
    fn load_frame_info(&mut self, number: u32, files: &CodeFiles) {
        if self.infos.contains_key(&number) {
            return;
        }
        let info = files.file_contents(number).ok();
        let info = info.and_then(|contents| FrameInfo::read(&contents));
        let bytes = info.as_ref().map_or(0, FrameInfo::size_bytes);
        if self.read + bytes > MAX_FRAME_INFO_BYTES {
            self.infos.clear();
            self.rules.clear();
            self.read = 0;
        }
        self.read += bytes;
        self.infos.insert(number, info);
    }
}

/// The frames of a stack, as far as it could be unwound.
#[derive(Debug, Default)]
pub(crate) struct UnwoundStack {
    /// Innermost first: the instruction, then return addresses.
    pub(crate) addresses: Vec<u64>,
    /// The place of each return address, and the address itself.
    pub(crate) returns: Vec<(u64, u64)>,
    /// It was unwound to where the thread began.
    pub(crate) is_whole: bool,
    /// The mappings were those of the time when the piece was taken, as far as is known.
    pub(crate) is_certain: bool,
}

impl UnwoundStack {
    /// Whether frames are missing at its outer end, because there are too many.
    pub(crate) fn is_cut(&self) -> bool {
        self.addresses.len() >= MAX_UNWOUND_FRAMES && !self.is_whole
    }

    /// Whether it has more than the frames that were walked by frame pointers.
    pub(crate) fn is_better_than(&self, walked: &[u64]) -> bool {
        let farther = self.addresses.len() >= walked.len();
        self.addresses.len() > 1 && (self.is_whole || farther)
    }
}
