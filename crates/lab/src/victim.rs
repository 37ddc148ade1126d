//! The victim: a calibrated spin that writes down every gap.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::memory::{LabMapping, PAGE_BYTES};
use crate::tsc::{self, TickPair};

/// Memory that the victim touches while it spins, one page a turn.
///
/// Only this crate makes one, for its maker makes a promise that no type can: that the mechanism that gives it keeps all of it
/// mapped, readable, and writable where it is written, whenever the victim is not at rest. The worker waits for that rest before
/// it asks the mechanism for anything else, or lets go of it.
#[derive(Clone, Copy, Debug)]
pub struct TouchedMemory {
    at: *mut u8,
    bytes: usize,
    write: bool,
}

// SAFETY: an address and a length; `Victim::spin` says who keeps the memory there.
unsafe impl Send for TouchedMemory {}

impl TouchedMemory {
    /// Takes every page of a mapping, to be written or read.
    #[must_use]
    pub(crate) fn new(mapping: &LabMapping, write: bool) -> Self {
        Self {
            at: mapping.start(),
            bytes: mapping.bytes(),
            write,
        }
    }

    /// Touches all of its pages once.
    pub(crate) fn touch_all(&self) {
        for page in 0..self.page_count() {
            // SAFETY: below the number of pages; whoever made this keeps the memory mapped meanwhile.
            unsafe { self.touch_page(page) };
        }
    }

    fn page_count(&self) -> usize {
        self.bytes / PAGE_BYTES
    }

    /// # Safety
    ///
    /// The page is one of them, and they are mapped and readable, and writable where they are written.
    #[inline(always)]
    unsafe fn touch_page(&self, page: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let at = self.at.add(page * PAGE_BYTES);
            if self.write {
                at.write_volatile(page as u8);
            } else {
                at.read_volatile();
            }
        }
    }
}

/// A turn of the spin that takes so many times the shortest is a gap. The shortest interrupt takes about 20 times a turn.
const GAP_PER_SHORTEST: usize = 8;

/// A gap also takes so many times as long as all turns but one of a thousand: a victim that goes through much memory waits for
/// page walks and cache lines in many of its turns, and those are no stalls.
const GAP_PER_MOST: usize = 2;

/// Room for gaps. A block ends early when it is full.
const MAX_GAPS: usize = 1 << 19;

/// Turns are counted by their length up to so many ticks; those beyond are gaps.
pub const MAX_TURN_TICKS: usize = 4096;

/// So many turns are enough for calibration; fewer would be those of a CPU that others have.
const MIN_CALIBRATION_TURNS: u64 = 10_000;

/// Calibration is tried so often.
const MAX_CALIBRATIONS: u32 = 20;

/// The spinning thread's own memory, all of it touched before it spins.
#[derive(Debug)]
pub struct Victim {
    /// The number of turns that were no gaps, by their length in ticks.
    pub turns: Vec<u32>,
    /// The gaps, in order: from one reading of the counter to the next.
    pub gaps: Vec<TickPair>,
    limit: u64,
}

impl Victim {
    /// Finds the shortest turn, over so many ticks; again where others had the CPU.
    ///
    /// # Errors
    ///
    /// If others have it all the time.
    pub fn calibrated(ticks: u64, touch: Option<TouchedMemory>) -> io::Result<Self> {
        let mut victim = Self {
            turns: vec![0; MAX_TURN_TICKS],
            gaps: Vec::with_capacity(MAX_GAPS),
            limit: MAX_TURN_TICKS as u64,
        };
        // The kernel gives pages when they are written, which would be gaps of our own making.
        victim.gaps.resize(MAX_GAPS, (0, 0));
        victim.gaps.clear();
        victim.keep_from_forks();
        for _ in 0..MAX_CALIBRATIONS {
            victim.limit = MAX_TURN_TICKS as u64;
            victim.spin(ticks, touch, &false.into());
            victim.limit = find_gap_limit(&victim.turns);
            let turns: u64 = victim.turns.iter().map(|n| u64::from(*n)).sum();
            if turns >= MIN_CALIBRATION_TURNS {
                return Ok(victim);
            }
        }
        Err(io::Error::other(
            "others have the victim's CPU, so that it can't be calibrated: --victim-cpu names another one",
        ))
    }

    /// Keeps the room for gaps out of children (madvise(2), MADV_DONTFORK). Pages that a child shares are read only until they
    /// are written again, also blocks later: where the victim writes down its gaps these would be faults that are none of the
    /// experiment's.
    fn keep_from_forks(&mut self) {
        let room = self.gaps.spare_capacity_mut();
        let begin = room.as_mut_ptr().expose_provenance();
        let end = begin + size_of_val(room);
        let (begin, end) = (
            begin.next_multiple_of(PAGE_BYTES),
            end / PAGE_BYTES * PAGE_BYTES,
        );
        if begin < end {
            // SAFETY: whole pages within the vector's own room; nothing about them changes for this process. A kernel
            // that refuses leaves some faults more.
            unsafe {
                libc::madvise(
                    std::ptr::with_exposed_provenance_mut(begin),
                    end - begin,
                    libc::MADV_DONTFORK,
                )
            };
        }
    }

    /// A turn of so many ticks is a gap.
    #[must_use]
    pub fn gap_limit_ticks(&self) -> u64 {
        self.limit
    }

    /// Spins for so many ticks, or until there is no room for gaps, and returns its first and its last reading. It ends by the counter, which goes on whatever the culprit
    /// does; the touched memory must stay mapped meanwhile.
    ///
    /// `spins` is set once it has touched all of its memory, and looks at the counter.
    pub fn spin(
        &mut self,
        ticks: u64,
        touch: Option<TouchedMemory>,
        spins: &AtomicBool,
    ) -> TickPair {
        self.turns.fill(0);
        // The vector begins in a page that it shares with the allocator, and so with a child.
        self.gaps.clear();
        self.gaps.push((0, 0));
        self.gaps.clear();
        let pages = touch.as_ref().map_or(0, TouchedMemory::page_count);
        // Faults that the block before has left behind are not this one's.
        if let Some(touch) = touch {
            touch.touch_all();
        }
        spins.store(true, Ordering::Release);
        let begin = tsc::read_tsc();
        let deadline = begin.saturating_add(ticks);
        let mut page = 0;
        let mut last = begin;
        while last < deadline {
            if let Some(touch) = touch
                && pages > 0
            {
                // SAFETY: `page` is below the number of pages; the culprit keeps the memory mapped and readable,
                // and writable where `write` is set, until the block is over.
                unsafe { touch.touch_page(page) };
                page = if page + 1 == pages { 0 } else { page + 1 };
            }
            let now = tsc::read_tsc();
            let took = now - last;
            if took < self.limit {
                // The limit is at most MAX_TURN_TICKS.
                if let Some(n) = self.turns.get_mut(took as usize) {
                    *n += 1;
                }
            } else {
                if self.gaps.len() == MAX_GAPS {
                    break;
                }
                self.gaps.push((last, took));
            }
            last = now;
        }
        (begin, last)
    }
}

/// The length from which on a turn is a gap, ticks, by turns that were measured.
fn find_gap_limit(turns: &[u32]) -> u64 {
    let total: u64 = turns.iter().map(|n| u64::from(*n)).sum();
    let shortest = turns.iter().position(|&n| n > 0).unwrap_or(1);
    let mut below = 0;
    let most = turns.iter().position(|&n| {
        below += u64::from(n);
        below * 1000 >= total * 999
    });
    let limit = (shortest * GAP_PER_SHORTEST).max(most.unwrap_or(0) * GAP_PER_MOST);
    limit.clamp(64, MAX_TURN_TICKS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the limit is a multiple of the shortest turn, or of the long ones where those are many, and within
    /// what is counted.
    #[test]
    fn limits() {
        let turns = |of: &[(usize, u32)]| {
            let mut turns = vec![0; MAX_TURN_TICKS];
            of.iter().for_each(|&(ticks, n)| turns[ticks] = n);
            turns
        };
        assert_eq!(find_gap_limit(&turns(&[(60, 9_999), (3000, 1)])), 480);
        assert_eq!(find_gap_limit(&turns(&[(60, 900), (500, 100)])), 1000);
        assert_eq!(
            find_gap_limit(&turns(&[(60, 900), (3000, 100)])),
            MAX_TURN_TICKS as u64
        );
        assert_eq!(find_gap_limit(&turns(&[(1, 5)])), 64);
        assert_eq!(find_gap_limit(&turns(&[])), 64);
    }

    /// Check that turns and gaps together make up the time that was spun: nothing is left out.
    #[test]
    fn time_adds_up() {
        if tsc::tsc_quality().is_err() {
            return;
        }
        let page = LabMapping::anonymous(PAGE_BYTES).unwrap();
        let touch = Some(TouchedMemory::new(&page, true));
        let mut victim = Victim::calibrated(1 << 22, touch).unwrap();
        let spins = AtomicBool::new(false);
        let (begin, end) = victim.spin(1 << 24, touch, &spins);
        assert!(spins.load(Ordering::Acquire));
        let turns: u64 = victim
            .turns
            .iter()
            .enumerate()
            .map(|(ticks, &n)| ticks as u64 * u64::from(n))
            .sum();
        let gaps: u64 = victim.gaps.iter().map(|(_, ticks)| ticks).sum();
        assert_eq!(turns + gaps, end - begin);
        assert!(end - begin >= 1 << 24);
        assert!(
            victim
                .gaps
                .iter()
                .all(|(_, ticks)| *ticks >= victim.gap_limit_ticks())
        );
    }
}
