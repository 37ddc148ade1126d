//! Two sides take turns on one CPU, in one address space or in two, by the pages that each reads when it is its turn. Between
//! threads the page tables stay; between processes CR3 is loaded, with or without a flush: x86 keeps the TLB entries of the last
//! few address spaces apart by PCID (arch/x86/mm/tlb.c: choose_new_asid(), TLB_NR_DYN_ASIDS).

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::mm::MapFlags;

use super::batch::TimeBatch;
use super::forked_child::ForkedChild;
use super::line_chain::LineLayout;
use super::turn_wire::TurnWire;
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
    notes: &[
        "no switch is the control: one thread that writes and reads pipes as both sides do together, and reads the \
         pages of both",
        "a figure is a round trip: two switches, twice the system calls, and both sides' reads",
        "the pages are read one line each, in order; without the CPU's counters what they cost more after a switch \
         is not the cost of TLB misses",
    ],
    place_note: None,
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
    /// It ends when this does.
    Process { _child: ForkedChild },
}

impl PingPong {
    fn new(by: WireKind, with: OtherSideKind) -> io::Result<Self> {
        let board = SharedBoard::new()?;
        let (wire, there) = match by {
            WireKind::Pipe => TurnWire::pipes()?,
            WireKind::Futex => TurnWire::futexes(&board.turn),
        };
        let other = match with {
            OtherSideKind::Nobody => OtherSide::Nobody(there, SidePages::new()?),
            OtherSideKind::Thread => {
                let pages = SidePages::new()?;
                thread::Builder::new()
                    .name("quell-peer".to_owned())
                    .spawn(move || take_turns(&there, board, &pages))?;
                OtherSide::Thread
            }
            OtherSideKind::Process => OtherSide::Process {
                _child: ForkedChild::start(|| take_turns(&there, board, &SidePages::new()?))?,
            },
        };
        Ok(Self {
            wire,
            board,
            pages: SidePages::new()?,
            other,
        })
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
