//! Every order of two threads (and what a handler does in between), by loom: the lock, what handlers
//! leave for its holder, and what leaves while another thread wants its addresses.

use core::cell::Cell;
use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;

use crate::kernel::{Errno, Kernel, Map, Mapping, Pins, Pressure, Threads};
use crate::late::Late;
use crate::linux::{MADV_DONTNEED, MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use crate::lock::{Lock, Taken};
use crate::sync::{AtomicU32, Guarded};
use crate::{Counters, Held, Node, PAGE, Part, Range, Scratch, Settings, Shim, Zero};

loom::thread_local! {
    static ME: Cell<usize> = Cell::new(1);
}

/// Every order; or those with no more than so many switches where nobody had to wait, where all take hours: with
/// six `leaving` has 255,519 orders, with eight 5,901,620, which found nothing more.
fn explore(switches: Option<usize>, work: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = switches;
    builder.max_branches = 100_000;
    builder.check(work);
}

/// What the library writes into a page that it keeps.
const MARK: u8 = 255;

/// Six pages: each mapped or not, and with what in it; and which can't be written.
struct Six(Mutex<[Option<u8>; 6]>, Mutex<[bool; 6]>);

fn pages(range: Range) -> core::ops::Range<usize> {
    range.start / PAGE - 1..range.end / PAGE - 1
}

impl Six {
    fn set(&self, range: Range, page: Option<u8>) {
        self.0.lock().unwrap()[pages(range)].fill(page);
    }

    fn is_closed(&self, at: usize) -> bool {
        self.1.lock().unwrap()[pages(range(at, PAGE))][0]
    }

    /// MADV_DONTNEED: what is mapped is zero.
    fn empty(&self, range: Range) {
        for page in &mut self.0.lock().unwrap()[pages(range)] {
            *page = page.map(|_| 0);
        }
    }
}

fn range(addr: usize, len: usize) -> Range {
    Range::of(addr, len).unwrap()
}

impl Threads for Six {
    fn thread(&self) -> usize {
        ME.with(Cell::get)
    }
    fn sleep(&self, _: &AtomicU32, _: u32, _: u32) {
        thread::yield_now();
    }
    fn wake(&self, _: &AtomicU32) {}
    fn now(&self) -> u64 {
        0
    }
}

// SAFETY: no memory is touched.
unsafe impl Kernel for Six {
    unsafe fn mmap(&self, map: &Map) -> Result<usize, Errno> {
        let at = if map.addr == 0 {
            let free =
                |s: &usize| pages(range(*s, map.len)).all(|n| self.0.lock().unwrap()[n].is_none());
            let last = 7 * PAGE - map.len;
            (PAGE..=last)
                .step_by(PAGE)
                .find(free)
                .ok_or(Errno::ENOMEM)?
        } else {
            map.addr
        };
        self.set(range(at, map.len), Some(0));
        Ok(at)
    }
    unsafe fn munmap(&self, addr: usize, len: usize) -> Result<(), Errno> {
        self.set(range(addr, len), None);
        Ok(())
    }
    unsafe fn mprotect(&self, addr: usize, len: usize, prot: i32) -> Result<(), Errno> {
        self.1.lock().unwrap()[pages(range(addr, len))].fill(prot & PROT_WRITE == 0);
        Ok(())
    }
    unsafe fn madvise(&self, addr: usize, len: usize, advice: i32) -> Result<(), Errno> {
        assert_eq!(advice, MADV_DONTNEED);
        self.empty(range(addr, len));
        Ok(())
    }
    unsafe fn mremap(
        &self,
        _: usize,
        _: usize,
        _: usize,
        _: i32,
        _: usize,
    ) -> Result<usize, Errno> {
        Err(Errno::ENOMEM)
    }
    unsafe fn unname(&self, _: Range) -> Result<(), Errno> {
        Ok(())
    }
    unsafe fn give_back(&self, ranges: &[Part]) -> Result<usize, Errno> {
        ranges
            .iter()
            .for_each(|p| self.empty(range(p.start, p.len)));
        Ok(ranges.iter().map(|p| p.len).sum())
    }
    unsafe fn mincore(&self, _: Range, pages: &mut [u8]) -> Result<(), Errno> {
        pages.fill(1);
        Ok(())
    }
    unsafe fn zero(&self, range: Range) {
        self.set(range, Some(0));
    }
    unsafe fn clear(&self, range: Range) -> usize {
        let closed = self.1.lock().unwrap()[pages(range)].to_vec();
        assert!(!closed.contains(&true), "a page that can't be written");
        self.set(range, Some(0));
        0
    }
    fn count_used(&self, pages: &[usize]) -> Option<usize> {
        Some(pages.len())
    }
    fn mapping_at(&self, _: Range) -> Option<Mapping> {
        // All that is mapped is one mapping, with the anchor in it.
        let range = range(PAGE, 6 * PAGE);
        Some(Mapping {
            range,
            is_plain: true,
        })
    }
    fn all_there(&self, range: Range) -> bool {
        self.0.lock().unwrap()[pages(range)]
            .iter()
            .all(Option::is_some)
    }
    unsafe fn mark(&self, range: Range, _: u64) {
        self.set(range, Some(MARK));
    }
    fn is_marked(&self, range: Range, _: u64) -> bool {
        self.0.lock().unwrap()[pages(range)]
            .iter()
            .all(|page| *page == Some(MARK))
    }
    unsafe fn clear_marked(&self, range: Range, mark: u64) -> bool {
        let marked = self.is_marked(range, mark);
        if marked {
            self.set(range, Some(0));
        }
        marked
    }
    unsafe fn fingerprint(&self, range: Range) -> u64 {
        let word = |hash: u64, page: &Option<u8>| hash * 300 + u64::from(page.unwrap_or(0));
        self.0.lock().unwrap()[pages(range)].iter().fold(1, word)
    }
    fn has_fingerprint(&self, range: Range, fingerprint: u64) -> bool {
        // SAFETY: no memory is touched.
        unsafe { self.fingerprint(range) == fingerprint }
    }
    fn pins(&self) -> Pins {
        Pins::None
    }
    unsafe fn count_not_zero(&self, pages: &[usize]) -> usize {
        pages.len()
    }
    fn is_own(&self, _: Range) -> bool {
        true
    }
    fn resident(&self) -> Option<usize> {
        let written = |page: &&Option<u8>| page.is_some_and(|value| value != 0);
        Some(self.0.lock().unwrap().iter().filter(written).count() * PAGE)
    }
    fn pressure(&self) -> Pressure {
        Pressure::None(usize::MAX)
    }
}

/// Runs the work of the second thread.
fn second(work: impl FnOnce() + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        ME.with(|me| me.set(2));
        work();
    })
}

/// A library with a page of the program's, to whose protection the second thread does something while the first does
/// something else; then what the kernel and the library hold.
fn on_one_page(first: fn(&Shim<Six>, usize), other: fn(&Shim<Six>, usize)) -> (bool, Vec<Held>) {
    let shim = Arc::new(shim(4));
    // SAFETY: the model's memory.
    let at = unsafe { shim.mmap(&ONE) }.unwrap();
    let beside = second({
        let shim = Arc::clone(&shim);
        move || other(&shim, at)
    });
    first(&shim, at);
    beside.join().unwrap();
    shim.check().unwrap();
    let mut held = Vec::new();
    shim.each_region(|_, one| held.push(one));
    (shim.kernel().is_closed(at), held)
}

/// mprotect(2) of the page.
fn protect(shim: &Shim<Six>, at: usize, prot: i32) {
    // SAFETY: the model's memory.
    unsafe { shim.mprotect(at, PAGE, prot) }.unwrap();
}

fn six() -> Six {
    Six(Mutex::new([None; 6]), Mutex::new([false; 6]))
}

/// Check that two threads never have the lock at once, and that both get it.
#[test]
fn lock() {
    explore(None, || {
        let all = Arc::new((six(), Lock::default(), Guarded::new(0)));
        let add = |all: &(Six, Lock, Guarded<i32>)| {
            assert_eq!(all.1.take(&all.0), Taken::Yes);
            assert_eq!(all.1.take(&all.0), Taken::Mine);
            // SAFETY: we have the lock; loom checks it.
            unsafe { all.2.with(|n| *n += 1) };
            all.1.release(&all.0);
        };
        let other = second({
            let all = Arc::clone(&all);
            move || {
                add(&all);
            }
        });
        add(&all);
        other.join().unwrap();
        // SAFETY: the other thread is over.
        assert_eq!(unsafe { all.2.with(|n| *n) }, 2);
    });
}

/// Check that what a handler adds inside the lock, also after its holder has looked, is handed out once
/// and not later than to the next holder.
#[test]
fn late() {
    explore(None, || {
        let all = Arc::new((six(), Lock::default(), Late::default(), Guarded::new(0)));
        let other = second({
            let all = Arc::clone(&all);
            move || {
                assert_eq!(all.1.take(&all.0), Taken::Yes);
                assert!(all.2.each(|r| assert_eq!(r.start, PAGE)));
                // A handler, at the worst moment.
                assert!(all.2.add(range(PAGE, PAGE)));
                all.1.release(&all.0);
            }
        });
        assert_eq!(all.1.take(&all.0), Taken::Yes);
        // SAFETY: we have the lock.
        assert!(all.2.each(|_| unsafe { all.3.with(|n| *n += 1) }));
        all.1.release(&all.0);
        other.join().unwrap();
        // SAFETY: the other thread is over.
        assert!(all.2.each(|_| unsafe { all.3.with(|n| *n += 1) }));
        // SAFETY: as above.
        assert_eq!(unsafe { all.3.with(|n| *n) }, 1);
    });
}

const ONE: Map = Map {
    addr: 0,
    len: PAGE,
    prot: 3,
    flags: MAP_PRIVATE | MAP_ANONYMOUS,
    fd: -1,
    offset: 0,
};

fn shim(cache: usize) -> Shim<Six> {
    bounded(cache, 0)
}

fn bounded(cache: usize, resident: usize) -> Shim<Six> {
    let settings = Settings {
        cache: cache * PAGE,
        resident: resident * PAGE,
        zero: Zero::UpTo(PAGE),
        least: PAGE,
        least_zeroed: PAGE,
        lifetimes: 0,
        ..Settings::default()
    };
    let counters = Box::leak(Box::new(Counters::new()));
    let places = Box::leak(vec![Node::EMPTY; 16].into_boxed_slice());
    let scratch = Box::leak(Box::new(Scratch::EMPTY));
    Shim::new(six(), settings, counters, places, scratch)
}

/// Check that what one thread maps at a kept address stays what it is while the other gives kept memory
/// back.
#[test]
fn leaving() {
    explore(Some(6), || {
        let shim = Arc::new(shim(2));
        // SAFETY: the model's memory.
        unsafe {
            let all: Vec<usize> = (0..3).map(|_| shim.mmap(&ONE).unwrap()).collect();
            shim.munmap(all[0], PAGE).unwrap();
            shim.munmap(all[1], PAGE).unwrap();
            let other = second({
                let (shim, at) = (Arc::clone(&shim), all[2]);
                move || {
                    // Above the budget: the oldest leave.
                    shim.munmap(at, PAGE).unwrap();
                }
            });
            let fixed = Map {
                addr: all[0],
                flags: ONE.flags | MAP_FIXED,
                ..ONE
            };
            assert_eq!(shim.mmap(&fixed), Ok(all[0]));
            shim.kernel().set(range(all[0], PAGE), Some(7));
            other.join().unwrap();
            assert_eq!(
                shim.kernel().0.lock().unwrap()[pages(range(all[0], PAGE))],
                [Some(7)]
            );
        }
        shim.check().unwrap();
    });
}

/// Maps and writes while the other thread goes on, and checks that it is all there when that one is over. Where it is.
fn keeps(shim: &Shim<Six>, map: &Map, other: thread::JoinHandle<()>) -> usize {
    // SAFETY: the model's memory.
    let mine = unsafe { shim.mmap(map) }.unwrap();
    let mapped = range(mine, map.len);
    shim.kernel().set(mapped, Some(7));
    other.join().unwrap();
    let there = shim.kernel().0.lock().unwrap()[pages(mapped)].to_vec();
    assert_eq!(there, vec![Some(7); map.len / PAGE]);
    mine
}

/// Check that a thread that is given the addresses which another is just unmapping keeps them.
#[test]
fn going() {
    explore(Some(6), || {
        let shim = Arc::new(shim(4));
        // SAFETY: the model's memory.
        unsafe {
            let at = shim.mmap(&ONE).unwrap();
            shim.munmap(at, PAGE).unwrap();
            let other = second({
                let shim = Arc::clone(&shim);
                move || {
                    // Unmaps what is kept, to see that it is a hole.
                    let _ = shim.other(at, PAGE, || Ok(()));
                }
            });
            let mine = keeps(&shim, &ONE, other);
            shim.munmap(mine, PAGE).unwrap();
        }
        shim.check().unwrap();
    });
}

/// Check the same where the other thread unmaps a range around them first.
#[test]
fn going_in_a_hole() {
    explore(Some(6), || {
        let shim = Arc::new(shim(4));
        let three = Map {
            len: 3 * PAGE,
            ..ONE
        };
        // SAFETY: the model's memory.
        unsafe {
            let at = shim.mmap(&three).unwrap();
            shim.munmap(at + PAGE, PAGE).unwrap();
            let other = second({
                let shim = Arc::clone(&shim);
                move || {
                    let _ = shim.other(at + PAGE, PAGE, || Ok(()));
                }
            });
            shim.munmap(at, three.len).unwrap();
            keeps(&shim, &three, other);
        }
        shim.check().unwrap();
    });
}

/// Check that two threads that unmap while too much is in memory lose nothing, and that what one of them maps
/// then is empty and its own.
#[test]
fn above_the_bound() {
    explore(Some(6), || {
        let shim = Arc::new(bounded(6, 2));
        let long = Map {
            len: 2 * PAGE,
            ..ONE
        };
        // SAFETY: the model's memory.
        unsafe {
            let all: Vec<usize> = (0..3).map(|_| shim.mmap(&long).unwrap()).collect();
            for at in &all {
                shim.kernel().set(range(*at, long.len), Some(7));
            }
            shim.munmap(all[0], long.len).unwrap();
            let other = second({
                let (shim, at) = (Arc::clone(&shim), all[1]);
                move || {
                    shim.munmap(at, 2 * PAGE).unwrap();
                }
            });
            shim.munmap(all[2], long.len).unwrap();
            let mine = shim.mmap(&ONE).unwrap();
            let there = || shim.kernel().0.lock().unwrap()[pages(range(mine, PAGE))].to_vec();
            assert_eq!(there(), [Some(0)]);
            shim.kernel().set(range(mine, PAGE), Some(8));
            other.join().unwrap();
            assert_eq!(there(), [Some(8)]);
        }
        shim.check().unwrap();
    });
}

/// Check that what one thread has given back is zeroed only while it can be written, whenever the other takes
/// that away and gives it again; and that at the end it can be, and is known.
#[test]
fn protected_meanwhile() {
    explore(Some(4), || {
        let give_back = |shim: &Shim<Six>, at| {
            // SAFETY: the model's memory.
            unsafe { shim.madvise(at, PAGE, MADV_DONTNEED) }.unwrap();
        };
        let (closed, held) = on_one_page(give_back, |shim, at| {
            protect(shim, at, PROT_READ);
            assert!(shim.kernel().is_closed(at));
            protect(shim, at, PROT_READ | PROT_WRITE);
        });
        assert!(!closed);
        assert_eq!(held, [Held::Live(3, true)]);
    });
}

/// Check that two threads that change one page's protection at once leave it as the library knows it.
#[test]
fn protected_twice() {
    explore(Some(5), || {
        let (closed, held) = on_one_page(
            |shim, at| protect(shim, at, PROT_READ | PROT_WRITE),
            |shim, at| protect(shim, at, PROT_READ),
        );
        let prot = if closed { 1 } else { 3 };
        assert!(held.iter().all(|one| *one == Held::Live(prot, true)));
    });
}
