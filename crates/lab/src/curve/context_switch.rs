//! Two sides take turns on one CPU, in one address space or in two, by the pages that each reads when it is its turn. Between
//! threads the page tables stay; between processes CR3 is loaded, with or without a flush: x86 keeps the TLB entries of the last
//! few address spaces apart by PCID (arch/x86/mm/tlb.c: choose_new_asid(), TLB_NR_DYN_ASIDS).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::io::Errno;
use rustix::mm::MapFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::futex;

use super::batch::TimeBatch;
use super::line_chain::LineLayout;
use super::{Curve, CurveBench, CurvePart, SampleKind};
use crate::memory::{LabMapping, PAGE_BYTES};

pub(super) const CONTEXT_SWITCH_CURVE: Curve = Curve {
    name: "context-switch",
    about: "a round trip of two switches on one CPU, each side reading so many pages of its own when it is its turn",
    x: "pages",
    wants: &[],
    parts: |_| {
        vec![
            context_switch_part("no switch", WireKind::Pipe, OtherSideKind::Nobody),
            context_switch_part("threads, pipe", WireKind::Pipe, OtherSideKind::Thread),
            context_switch_part("processes, pipe", WireKind::Pipe, OtherSideKind::Process),
            context_switch_part("threads, futex", WireKind::Futex, OtherSideKind::Thread),
            context_switch_part("processes, futex", WireKind::Futex, OtherSideKind::Process),
        ]
    },
    notes: |_| {
        vec![
            "no switch is the control: one thread that writes and reads pipes as both sides do together, and reads the \
             pages of both"
                .to_owned(),
            "a figure is a round trip: two switches, twice the system calls, and both sides' reads".to_owned(),
            "the pages are read one line each, in order; without the CPU's counters what they cost more after a switch \
             is not the cost of TLB misses"
                .to_owned(),
        ]
    },
};

/// Pages that each side reads.
const PAGES_PER_SIDE: [u64; 5] = [0, 16, 64, 256, 1024];

#[derive(Clone, Copy, Debug)]
enum WireKind {
    Pipe,
    Futex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherSideKind {
    Nobody,
    Thread,
    Process,
}

fn context_switch_part(series: &'static str, by: WireKind, with: OtherSideKind) -> CurvePart {
    CurvePart {
        series,
        per: "round trip",
        sample: SampleKind::Operation,
        xs: PAGES_PER_SIDE.to_vec(),
        prepare: Box::new(move |_| Ok(Box::new(PingPong::new(by, with)?))),
    }
}

/// The memory that both sides share, also where they are two processes.
#[derive(Debug)]
#[repr(C)]
struct SharedBoard {
    /// The side whose turn it is, for the futex.
    turn: AtomicU32,
    /// Pages that a side reads.
    pages: AtomicU32,
}

impl SharedBoard {
    /// Maps the board for good: the other side may look at it until the process ends.
    fn new() -> io::Result<&'static Self> {
        let (at, _) = LabMapping::map_with_flags(PAGE_BYTES, MapFlags::SHARED)?.into_raw();
        // SAFETY: a page of zeros, aligned to its size and mapped for good; both fields are atomic, and 0 is a value of
        // them.
        Ok(unsafe { &*at.cast::<Self>() })
    }
}

const HERE_SIDE: u32 = 0;
const THERE_SIDE: u32 = 1;

/// One side of a wire: waits for its turn and passes it on.
#[derive(Debug)]
enum TurnWire {
    Pipe {
        from: OwnedFd,
        to: OwnedFd,
    },
    Futex {
        board: &'static SharedBoard,
        side: u32,
    },
}

impl TurnWire {
    /// The two ends of a wire.
    fn new(by: WireKind, board: &'static SharedBoard) -> io::Result<(Self, Self)> {
        Ok(match by {
            WireKind::Pipe => {
                let (from_here, to_there) = pipe_with(PipeFlags::CLOEXEC)?;
                let (from_there, to_here) = pipe_with(PipeFlags::CLOEXEC)?;
                let here = Self::Pipe {
                    from: from_there,
                    to: to_there,
                };
                let there = Self::Pipe {
                    from: from_here,
                    to: to_here,
                };
                (here, there)
            }
            WireKind::Futex => {
                let side = |side| Self::Futex { board, side };
                (side(HERE_SIDE), side(THERE_SIDE))
            }
        })
    }

    fn wait_for_turn(&self) -> io::Result<()> {
        match self {
            Self::Pipe { from, .. } => loop {
                match rustix::io::read(from, &mut [0_u8; 1][..]) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(err) => return Err(err.into()),
                }
            },
            Self::Futex { board, side } => loop {
                let turn = board.turn.load(Ordering::Acquire);
                if turn == *side {
                    return Ok(());
                }
                // FUTEX_PRIVATE_FLAG is not used, also between threads: the two cases shall differ by the address space only.
                match futex::wait(&board.turn, futex::Flags::empty(), turn, None) {
                    Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(err) => return Err(err.into()),
                }
            },
        }
    }

    fn pass_turn(&self) -> io::Result<()> {
        match self {
            Self::Pipe { to, .. } => {
                rustix::io::write(to, &[0])?;
            }
            Self::Futex { board, side } => {
                board
                    .turn
                    .store(HERE_SIDE + THERE_SIDE - side, Ordering::Release);
                futex::wake(&board.turn, futex::Flags::empty(), 1)?;
            }
        }
        Ok(())
    }
}

/// A side's own memory: pages of 4 KB, all present.
struct SidePages(LabMapping);

impl SidePages {
    fn new() -> io::Result<Self> {
        let most = PAGES_PER_SIDE[PAGES_PER_SIDE.len() - 1] as usize;
        let area = LabMapping::with_huge_pages(most * PAGE_BYTES, false)?;
        area.fill_pages();
        Ok(Self(area))
    }

    /// Reads a line of each of the first so many pages.
    #[inline(always)]
    fn read_lines(&self, pages: u32) {
        let most = self.0.bytes() / PAGE_BYTES;
        for page in 0..(pages as usize).min(most) {
            // SAFETY: within the area, of which `page` is a page.
            unsafe {
                self.0
                    .start()
                    .add(LineLayout::OneAPage.line_offset(page))
                    .read_volatile()
            };
        }
    }
}

/// The loop of the other side, until its wire ends.
fn take_turns(wire: &TurnWire, board: &SharedBoard, pages: &SidePages) -> io::Result<()> {
    loop {
        wire.wait_for_turn()?;
        pages.read_lines(board.pages.load(Ordering::Relaxed));
        wire.pass_turn()?;
    }
}

struct PingPong {
    wire: TurnWire,
    board: &'static SharedBoard,
    pages: SidePages,
    other: OtherSide,
}

enum OtherSide {
    /// There is nobody: this side uses the other one's wire and pages.
    Nobody(TurnWire, SidePages),
    /// It ends with the process.
    Thread,
    Process(Pid),
}

impl PingPong {
    fn new(by: WireKind, with: OtherSideKind) -> io::Result<Self> {
        let board = SharedBoard::new()?;
        let (wire, there) = TurnWire::new(by, board)?;
        let other = match with {
            OtherSideKind::Nobody => OtherSide::Nobody(there, SidePages::new()?),
            OtherSideKind::Thread => {
                let pages = SidePages::new()?;
                thread::Builder::new()
                    .name("quell-peer".to_owned())
                    .spawn(move || take_turns(&there, board, &pages))?;
                OtherSide::Thread
            }
            OtherSideKind::Process => OtherSide::Process(fork_other_side(&there, board)?),
        };
        Ok(Self {
            wire,
            board,
            pages: SidePages::new()?,
            other,
        })
    }
}

/// Starts the other side as a process, on the same CPU, which it inherits (sched_setaffinity(2)).
fn fork_other_side(wire: &TurnWire, board: &SharedBoard) -> io::Result<Pid> {
    let parent = getpid();
    // SAFETY: a worker has one thread until its bench is made, so the child may do all that the parent may; it never
    // returns from here.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let work = || -> io::Result<()> {
                set_parent_process_death_signal(Some(Signal::KILL))?;
                // The parent may have gone before the call above.
                if getppid() != Some(parent) {
                    return Ok(());
                }
                take_turns(wire, board, &SidePages::new()?)
            };
            // A panic must not unwind into stack frames of the parent's.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: ends the child without running the exit handlers that the parent has registered.
            unsafe { libc::_exit(0) }
        }
        child => Pid::from_raw(child).ok_or_else(|| io::Error::other("a child without a number")),
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        if let OtherSide::Process(child) = self.other {
            // It may have gone already, which is as good.
            let _ = rustix::process::kill_process(child, Signal::KILL);
            let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
        }
    }
}

impl CurveBench for PingPong {
    fn measure_batch(&mut self, pages: u64, batch: &mut TimeBatch) -> io::Result<()> {
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        self.board.pages.store(pages, Ordering::Relaxed);
        while batch.goes_on() {
            batch.time_operation(|| {
                self.wire.pass_turn()?;
                if let OtherSide::Nobody(there, its_pages) = &self.other {
                    there.wait_for_turn()?;
                    its_pages.read_lines(pages);
                    there.pass_turn()?;
                }
                self.wire.wait_for_turn()?;
                self.pages.read_lines(pages);
                Ok(())
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsc;

    /// Check that turns are taken with a thread, a process and nobody, by pipe and by futex, and that both sides read the
    /// pages that they are told: a round trip that reads a thousand on each side takes longer.
    #[test]
    fn turns_are_taken() {
        if tsc::tsc_quality().is_err() {
            return;
        }
        let mut batch = TimeBatch::new();
        // a fork of this program, which has threads, is not what `fork` is made for
        for (by, with) in [
            (WireKind::Pipe, OtherSideKind::Nobody),
            (WireKind::Pipe, OtherSideKind::Thread),
            (WireKind::Futex, OtherSideKind::Thread),
        ] {
            let mut bench = PingPong::new(by, with).unwrap();
            let mut median = |pages| {
                batch.begin_batch(20_000_000);
                bench.measure_batch(pages, &mut batch).unwrap();
                quell_stats::median(&batch.times())
            };
            // beside other tests a batch may have been kept off its CPU for most of its time
            let longer = (0..20).any(|_| median(0) < median(1024));
            assert!(longer, "{by:?} {with:?}");
        }
    }
}
