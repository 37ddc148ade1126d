//! Stacks of programs that keep no frame pointers, by the `.eh_frame` of their files.
//!
//! Compilers leave frame pointers out, and then the kernel's walk ends after a function or two. But they write down, for
//! the sake of exceptions and debuggers, where each function's frame begins at each instruction: `.eh_frame`, which
//! packages keep when they are stripped. With a piece of the stack (`piece.rs`) that is enough to follow it.
//!
//! Code without it is followed by frame pointers: a JIT's, an assembler's, Go's.

mod code;
mod piece;
mod rule;

use std::collections::HashMap;

use gimli::UnwindContext;
use quell_host::maps::{self, Mapping};

use crate::symbols::Files;
use code::{Found, FrameInfo};
pub(crate) use piece::{Followed, Kind, Piece, Pieces, is_of_piece};
use rule::{Registers, Rule, Step};

/// Frames that are kept: as many as the kernel's own walk (perf_event_max_stack).
const DEPTH: usize = 127;

/// What is read of files takes no more than this, bytes; it is let go of, then, and read again where it is needed.
const MAX_READ: usize = 192 << 20;

/// So many rules are kept.
const MAX_RULES: usize = 1 << 16;

/// Follows stacks.
#[derive(Default)]
pub(crate) struct Unwinder {
    /// By the number of the file; of those without, that they have none.
    code: HashMap<u32, Option<FrameInfo>>,
    read: usize,
    /// By file and address as linked.
    rules: HashMap<(u32, u64), Rule>,
    context: UnwindContext<usize>,
}

impl Unwinder {
    /// Follows a stack of a process with these mappings.
    pub(crate) fn unwind(&mut self, maps: &[Mapping], files: &Files, piece: &Piece) -> Unwound {
        let mut unwound = Unwound {
            addresses: vec![piece.ip()],
            is_certain: true,
            ..Unwound::default()
        };
        let mut regs = Registers {
            ip: piece.ip(),
            sp: piece.sp(),
            bp: piece.bp,
        };
        while unwound.addresses.len() < DEPTH {
            // a call that never returns may be its function's last instruction, and returns to the next one's first
            let is_first = unwound.addresses.len() == 1;
            let at = regs.ip.wrapping_sub(u64::from(!is_first));
            let stack = |address| piece.word(address);
            match self.step(maps, files, piece.pid, at, &regs, &stack) {
                Some(Step::Start) => {
                    unwound.is_whole = true;
                    break;
                }
                // a frame begins above those that it called
                Some(Step::Caller(next)) if next.sp > regs.sp => regs = next,
                // the piece ends there, or the frame is none
                _ => break,
            }
            // where a call put it: the frame of the caller begins above (System V ABI for x86-64, 3.2.2)
            unwound.returns.push((regs.sp.wrapping_sub(8), regs.ip));
            unwound.addresses.push(regs.ip);
        }
        unwound
    }

    /// Where the frame of an address leads.
    fn step(
        &mut self,
        maps: &[Mapping],
        files: &Files,
        pid: u32,
        at: u64,
        regs: &Registers,
        stack: rule::Stack<'_>,
    ) -> Option<Step> {
        let by_pointer = |regs: &Registers| match regs.bp {
            // the convention for where a thread began
            0 => Some(Step::Start),
            _ => Rule::FRAME_POINTER.apply(regs, stack),
        };
        let mapping = maps::at(maps, at).filter(|m| m.perms.exec && m.is_file());
        let Some((mapping, number)) = mapping.and_then(|m| Some((m, files.number(pid, m)?))) else {
            return by_pointer(regs);
        };
        self.load(number, files);
        let Some(info) = self.code.get(&number).and_then(Option::as_ref) else {
            return by_pointer(regs);
        };
        let linked = at.wrapping_sub(info.bias(mapping)?);
        if let Some(rule) = self.rules.get(&(number, linked)) {
            return rule.apply(regs, stack);
        }
        match info.find(linked, &mut self.context, regs, stack) {
            Found::Rule(rule) => {
                if self.rules.len() >= MAX_RULES {
                    self.rules.clear();
                }
                self.rules.insert((number, linked), rule);
                rule.apply(regs, stack)
            }
            Found::Step(step) => step,
            Found::Nothing => by_pointer(regs),
        }
    }

    /// Reads what a file says, once.
    fn load(&mut self, number: u32, files: &Files) {
        if self.code.contains_key(&number) {
            return;
        }
        let info = files.contents(number).ok();
        let info = info.and_then(|contents| FrameInfo::read(&contents));
        let bytes = info.as_ref().map_or(0, FrameInfo::bytes);
        if self.read + bytes > MAX_READ {
            self.code.clear();
            self.rules.clear();
            self.read = 0;
        }
        self.read += bytes;
        self.code.insert(number, info);
    }
}

/// A stack that was followed.
#[derive(Debug, Default)]
pub(crate) struct Unwound {
    /// Innermost first: the instruction, then return addresses.
    pub(crate) addresses: Vec<u64>,
    /// Where each return address lies, and what it is.
    pub(crate) returns: Vec<(u64, u64)>,
    /// It was followed to where the thread began.
    pub(crate) is_whole: bool,
    /// The mappings were those of the time.
    pub(crate) is_certain: bool,
}

impl Unwound {
    /// Frames are missing at its outer end, because there are too many.
    pub(crate) fn is_cut(&self) -> bool {
        self.addresses.len() >= DEPTH && !self.is_whole
    }

    /// Whether it tells more than what was walked by frame pointers.
    pub(crate) fn is_better_than(&self, walked: &[u64]) -> bool {
        let farther = self.addresses.len() >= walked.len();
        self.addresses.len() > 1 && (self.is_whole || farther)
    }
}
