//! Stacks of programs that keep no frame pointers, by the `.eh_frame` of their files.
//!
//! Compilers leave frame pointers out, and then the kernel's walk ends after a function or two. But they write down, for
//! the sake of exceptions and debuggers, where each function's frame begins at each instruction: `.eh_frame`, which
//! packages keep when they are stripped. With a piece of the stack (`piece.rs`) that is enough to follow it.
//!
//! Code without it is followed by frame pointers: a JIT's, an assembler's, Go's.

mod code;
mod piece;

use std::collections::HashMap;
use std::rc::Rc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Unwinder as _};
use quell_host::maps::Mapping;

use crate::symbols::Files;
use code::FrameInfo;
pub(crate) use piece::{Followed, Kind, Piece, Pieces, is_of_piece};

/// Frames that are kept: as many as the kernel's own walk (perf_event_max_stack).
const DEPTH: usize = 127;

/// What is read of files takes no more than this, bytes; it is let go of, then, and read again where it is needed.
const MAX_READ: usize = 192 << 20;

/// The code of so many processes is known at once: a build starts thousands.
const MAX_PROCESSES: usize = 64;

/// framehop's memory of rules tells sets of modules apart by 16 bits, and each module that is added makes another set.
const MAX_SETS: usize = 1 << 15;

/// The code of a process, as of when its mappings had been seen to change so often.
struct Process {
    changes: u64,
    unwinder: UnwinderX86_64<Rc<[u8]>>,
}

/// Follows stacks.
#[derive(Default)]
pub(crate) struct Unwinder {
    /// By the number of the file; of those without, that they have none.
    code: HashMap<u32, Option<FrameInfo>>,
    read: usize,
    processes: HashMap<u32, Process>,
    cache: CacheX86_64,
    /// Modules that were added since the memory of rules was emptied.
    sets: usize,
}

impl Unwinder {
    /// Follows a stack. `changes` is how often the mappings of this process were seen to change.
    pub(crate) fn unwind(
        &mut self,
        changes: u64,
        maps: &[Mapping],
        files: &Files,
        piece: &Piece,
    ) -> Unwound {
        let known = self.processes.get(&piece.pid);
        if known.is_none_or(|p| p.changes != changes) {
            if self.processes.len() >= MAX_PROCESSES || self.sets >= MAX_SETS {
                self.forget_processes();
            }
            let unwinder = self.unwinder_of(piece.pid, maps, files);
            let process = Process { changes, unwinder };
            self.processes.insert(piece.pid, process);
        }
        let mut unwound = Unwound {
            is_certain: true,
            ..Unwound::default()
        };
        let Some(process) = self.processes.get(&piece.pid) else {
            return unwound;
        };
        unwound.addresses.push(piece.ip());
        let mut regs = UnwindRegsX86_64::new(piece.ip(), piece.sp(), piece.bp);
        let mut word = |address| piece.word(address).ok_or(());
        let mut frame = FrameAddress::from_instruction_pointer(piece.ip());
        while unwound.addresses.len() < DEPTH {
            let next = process
                .unwinder
                .unwind_frame(frame, &mut regs, &mut self.cache, &mut word);
            let address = match next {
                Ok(Some(address)) => address,
                Ok(None) => {
                    unwound.is_whole = true;
                    break;
                }
                // the piece ends there, or the frame is none
                Err(_) => break,
            };
            let Some(returns) = FrameAddress::from_return_address(address) else {
                break;
            };
            // where a call put it: the frame of the caller begins above (System V ABI for x86-64, 3.2.2)
            unwound.returns.push((regs.sp().wrapping_sub(8), address));
            unwound.addresses.push(address);
            frame = returns;
        }
        unwound
    }

    fn forget_processes(&mut self) {
        self.processes.clear();
        self.cache = CacheX86_64::default();
        self.sets = 0;
    }

    fn unwinder_of(
        &mut self,
        pid: u32,
        maps: &[Mapping],
        files: &Files,
    ) -> UnwinderX86_64<Rc<[u8]>> {
        let mut unwinder = UnwinderX86_64::new();
        for mapping in maps.iter().filter(|m| m.perms.exec && m.is_file()) {
            let number = files.number(pid, mapping);
            let info = number.and_then(|number| self.frame_info(number, files));
            if let Some(module) = info.and_then(|info| info.module(mapping)) {
                unwinder.add_module(module);
                self.sets += 1;
            }
        }
        unwinder
    }

    fn frame_info(&mut self, number: u32, files: &Files) -> Option<&FrameInfo> {
        if !self.code.contains_key(&number) {
            let info = files.contents(number).ok();
            let info = info.and_then(|contents| FrameInfo::read(&contents));
            let bytes = info.as_ref().map_or(0, FrameInfo::bytes);
            if self.read + bytes > MAX_READ {
                self.code.clear();
                self.forget_processes();
                self.read = 0;
            }
            self.read += bytes;
            self.code.insert(number, info);
        }
        self.code.get(&number)?.as_ref()
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
