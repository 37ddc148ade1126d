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

use super::area::Area;
use super::batch::Batch;
use super::walk::Lay;
use super::{Bench, Curve, Part, Sample};
use crate::memory::{Mapping, PAGE};

pub(super) const CURVE: Curve = Curve {
    name: "context-switch",
    about: "a round trip of two switches on one CPU, each side reading so many pages of its own when it is its turn",
    x: "pages",
    wants: &[],
    parts: |_| {
        vec![
            part("no switch", By::Pipe, With::Nobody),
            part("threads, pipe", By::Pipe, With::Thread),
            part("processes, pipe", By::Pipe, With::Process),
            part("threads, futex", By::Futex, With::Thread),
            part("processes, futex", By::Futex, With::Process),
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
const PAGES: [u64; 5] = [0, 16, 64, 256, 1024];

#[derive(Clone, Copy, Debug)]
enum By {
    Pipe,
    Futex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum With {
    Nobody,
    Thread,
    Process,
}

fn part(series: &'static str, by: By, with: With) -> Part {
    Part {
        series,
        per: "round trip",
        sample: Sample::Operation,
        xs: PAGES.to_vec(),
        prepare: Box::new(move |_| Ok(Box::new(PingPong::new(by, with)?))),
    }
}

/// The memory that both sides share, also where they are two processes.
#[derive(Debug)]
#[repr(C)]
struct Board {
    /// The side whose turn it is, for the futex.
    turn: AtomicU32,
    /// Pages that a side reads.
    pages: AtomicU32,
}

impl Board {
    /// Maps the board for good: the other side may look at it until the process ends.
    fn new() -> io::Result<&'static Self> {
        let (at, _) = Mapping::map(PAGE, MapFlags::SHARED)?.into_raw();
        // SAFETY: a page of zeros, aligned to its size and mapped for good; both fields are atomic, and 0 is a value of
        // them.
        Ok(unsafe { &*at.cast::<Self>() })
    }
}

const HERE: u32 = 0;
const THERE: u32 = 1;

/// One side of a wire: waits for its turn and passes it on.
#[derive(Debug)]
enum Wire {
    Pipe { from: OwnedFd, to: OwnedFd },
    Futex { board: &'static Board, side: u32 },
}

impl Wire {
    /// The two ends of a wire.
    fn new(by: By, board: &'static Board) -> io::Result<(Self, Self)> {
        Ok(match by {
            By::Pipe => {
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
            By::Futex => {
                let side = |side| Self::Futex { board, side };
                (side(HERE), side(THERE))
            }
        })
    }

    fn wait(&self) -> io::Result<()> {
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

    fn pass(&self) -> io::Result<()> {
        match self {
            Self::Pipe { to, .. } => {
                rustix::io::write(to, &[0])?;
            }
            Self::Futex { board, side } => {
                board.turn.store(HERE + THERE - side, Ordering::Release);
                futex::wake(&board.turn, futex::Flags::empty(), 1)?;
            }
        }
        Ok(())
    }
}

/// A side's own memory: pages of 4 KB, all present.
struct Pages(Area);

impl Pages {
    fn new() -> io::Result<Self> {
        let most = PAGES[PAGES.len() - 1] as usize;
        let area = Area::new(most * PAGE, false)?;
        area.fill();
        Ok(Self(area))
    }

    /// Reads a line of each of the first so many pages.
    #[inline(always)]
    fn read(&self, pages: u32) {
        let most = self.0.bytes() / PAGE;
        for page in 0..(pages as usize).min(most) {
            // SAFETY: within the area, of which `page` is a page.
            unsafe {
                self.0
                    .start()
                    .add(Lay::OneAPage.offset(page))
                    .read_volatile()
            };
        }
    }
}

/// The loop of the other side, until its wire ends.
fn take_turns(wire: &Wire, board: &Board, pages: &Pages) -> io::Result<()> {
    loop {
        wire.wait()?;
        pages.read(board.pages.load(Ordering::Relaxed));
        wire.pass()?;
    }
}

struct PingPong {
    wire: Wire,
    board: &'static Board,
    pages: Pages,
    other: Other,
}

enum Other {
    /// There is nobody: this side uses the other one's wire and pages.
    Nobody(Wire, Pages),
    /// It ends with the process.
    Thread,
    Process(Pid),
}

impl PingPong {
    fn new(by: By, with: With) -> io::Result<Self> {
        let board = Board::new()?;
        let (wire, there) = Wire::new(by, board)?;
        let other = match with {
            With::Nobody => Other::Nobody(there, Pages::new()?),
            With::Thread => {
                let pages = Pages::new()?;
                thread::Builder::new()
                    .name("quell-peer".to_owned())
                    .spawn(move || take_turns(&there, board, &pages))?;
                Other::Thread
            }
            With::Process => Other::Process(fork(&there, board)?),
        };
        Ok(Self {
            wire,
            board,
            pages: Pages::new()?,
            other,
        })
    }
}

/// Starts the other side as a process, on the same CPU, which it inherits (sched_setaffinity(2)).
fn fork(wire: &Wire, board: &Board) -> io::Result<Pid> {
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
                take_turns(wire, board, &Pages::new()?)
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
        if let Other::Process(child) = self.other {
            // It may have gone already, which is as good.
            let _ = rustix::process::kill_process(child, Signal::KILL);
            let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
        }
    }
}

impl Bench for PingPong {
    fn batch(&mut self, pages: u64, batch: &mut Batch) -> io::Result<()> {
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        self.board.pages.store(pages, Ordering::Relaxed);
        while batch.goes_on() {
            batch.time(|| {
                self.wire.pass()?;
                if let Other::Nobody(there, its_pages) = &self.other {
                    there.wait()?;
                    its_pages.read(pages);
                    there.pass()?;
                }
                self.wire.wait()?;
                self.pages.read(pages);
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
        if !tsc::is_usable() {
            return;
        }
        let mut batch = Batch::new();
        // a fork of this program, which has threads, is not what `fork` is made for
        for (by, with) in [
            (By::Pipe, With::Nobody),
            (By::Pipe, With::Thread),
            (By::Futex, With::Thread),
        ] {
            let mut bench = PingPong::new(by, with).unwrap();
            let mut median = |pages| {
                batch.begin(20_000_000);
                bench.batch(pages, &mut batch).unwrap();
                quell_stats::median(&batch.times())
            };
            // beside other tests a batch may have been kept off its CPU for most of its time
            let longer = (0..20).any(|_| median(0) < median(1024));
            assert!(longer, "{by:?} {with:?}");
        }
    }
}
