//! Every order of two threads (and of a handler in between), by loom: the lock, the notes that handlers leave for its
//! holder, and memory that leaves while another thread wants its addresses.

use core::cell::Cell;
use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;

use crate::deferred::Deferred;
use crate::kernel::{Errno, Kernel, Map, Mapping, Pins, Pressure, Threads};
use crate::linux::{
    MADV_DONTNEED, MADV_FREE, MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_PRIVATE,
    PROT_READ, PROT_WRITE,
};
use crate::lock::{Lock, Taken};
use crate::sync::{AtomicU32, Guarded};
use crate::{Counters, Node, PAGE, Part, Range, RangeUse, Scratch, Settings, Shim, ZeroLimit};

loom::thread_local! {
    static ME: Cell<usize> = Cell::new(1);
}

/// More orders than these of one model are not run: some have hundreds of millions, also with few switches, as loom lets
/// a thread read each older value that the memory model allows.
const MOST_ORDERS: usize = 500_000;

/// Every order; or those with no more than so many switches where nobody had to wait. In one of them at least the
/// library has done the work that the model is about, which `work` says: one in which it leaves all to the kernel can't
/// fail.
fn explore(switches: Option<usize>, work: impl Fn() -> bool + Sync + Send + 'static) {
    let is_reached = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = switches;
    builder.max_branches = 100_000;
    builder.max_permutations = Some(MOST_ORDERS);
    let reached = Arc::clone(&is_reached);
    builder.check(move || {
        reached.fetch_or(work(), std::sync::atomic::Ordering::Relaxed);
    });
    assert!(is_reached.load(std::sync::atomic::Ordering::Relaxed));
}

/// The library writes this into a page that it keeps.
const MARK: u8 = 255;

/// So many pages there are, from the address of the first on.
const PAGES: usize = 8;

/// A page that is mapped: its content, and whether it can be written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mapped {
    content: u8,
    writable: bool,
}

/// A few pages, each mapped or not. Each call is one step, as the kernel's is.
struct Few(Mutex<[Option<Mapped>; PAGES]>);

fn pages(range: Range) -> core::ops::Range<usize> {
    range.start / PAGE - 1..range.end / PAGE - 1
}

impl Few {
    fn with<T>(&self, range: Range, step: impl FnOnce(&mut [Option<Mapped>]) -> T) -> T {
        step(&mut self.0.lock().unwrap()[pages(range)])
    }

    /// Writes the mapped pages.
    fn write(&self, range: Range, content: u8) {
        self.with(range, |pages| {
            for page in pages.iter_mut().flatten() {
                page.content = content;
            }
        });
    }

    /// The same as the processor does it, which faults elsewhere.
    fn store(&self, range: Range, content: u8) {
        self.with(range, |pages| {
            for page in pages {
                let page = page.as_mut().expect("a page that is mapped");
                assert!(page.writable, "a page that can be written");
                page.content = content;
            }
        });
    }

    /// The content of each page; none where none is mapped.
    fn contents(&self, range: Range) -> Vec<Option<u8>> {
        self.with(range, |pages| {
            let each = pages.iter().map(|page| page.map(|page| page.content));
            each.collect()
        })
    }

    fn is_writable(&self, at: usize) -> bool {
        self.with(range(at, PAGE), |pages| {
            pages[0].is_some_and(|page| page.writable)
        })
    }

    fn is_all(&self, range: Range, content: u8) -> bool {
        self.contents(range)
            .iter()
            .all(|page| *page == Some(content))
    }
}

fn range(addr: usize, len: usize) -> Range {
    Range::from_addr_len(addr, len).unwrap()
}

impl Threads for Few {
    fn thread_id(&self) -> usize {
        ME.with(Cell::get)
    }
    fn sleep_while(&self, _: &AtomicU32, _: u32, _: u32) {
        thread::yield_now();
    }
    fn wake_all(&self, _: &AtomicU32) {}
    fn now_ns(&self) -> u64 {
        // Long after its beginning, so that the first call looks how much memory there is: without that nothing is kept.
        1 << 40
    }
}

// SAFETY: no memory is touched.
unsafe impl Kernel for Few {
    unsafe fn mmap(&self, map: &Map) -> Result<usize, Errno> {
        let new = Some(Mapped {
            content: 0,
            writable: map.prot & PROT_WRITE != 0,
        });
        let count = map.len / PAGE;
        let mut all = self.0.lock().unwrap();
        let last = PAGES - count;
        let is_free = |n: usize| all[n..n + count].iter().all(Option::is_none);
        let fixed = map.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
        let n = if fixed {
            (map.addr / PAGE).wrapping_sub(1)
        } else {
            (0..=last).find(|n| is_free(*n)).unwrap_or(PAGES)
        };
        if n > last {
            return Err(Errno::ENOMEM);
        }
        if map.flags & MAP_FIXED_NOREPLACE != 0 && !is_free(n) {
            return Err(Errno::EEXIST);
        }
        all[n..n + count].fill(new);
        Ok((n + 1) * PAGE)
    }
    unsafe fn munmap(&self, addr: usize, len: usize) -> Result<(), Errno> {
        self.with(range(addr, len), |pages| pages.fill(None));
        Ok(())
    }
    unsafe fn mprotect(&self, addr: usize, len: usize, prot: i32) -> Result<(), Errno> {
        self.with(range(addr, len), |pages| {
            for page in pages.iter_mut().flatten() {
                page.writable = prot & PROT_WRITE != 0;
            }
        });
        Ok(())
    }
    unsafe fn madvise(&self, addr: usize, len: usize, advice: i32) -> Result<(), Errno> {
        assert!([MADV_DONTNEED, MADV_FREE].contains(&advice));
        self.write(range(addr, len), 0);
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
    unsafe fn advise_each(&self, ranges: &[Part], _: i32) -> Result<usize, Errno> {
        ranges
            .iter()
            .for_each(|p| self.write(range(p.start, p.len), 0));
        Ok(ranges.iter().map(|p| p.len).sum())
    }
    unsafe fn mincore(&self, _: Range, pages: &mut [u8]) -> Result<(), Errno> {
        pages.fill(1);
        Ok(())
    }
    unsafe fn zero(&self, range: Range) {
        self.write(range, 0);
    }
    unsafe fn clear_used(&self, range: Range) -> usize {
        self.store(range, 0);
        0
    }
    fn count_used(&self, pages: &[usize]) -> Option<usize> {
        Some(pages.len())
    }
    fn mapping_at(&self, wanted: Range) -> Option<Mapping> {
        let all = self.0.lock().unwrap();
        let first = pages(wanted).start;
        let writable = all[first]?.writable;
        // Pages that lie side by side and may be used alike are one mapping.
        let alike = |n: &usize| all[*n].is_some_and(|page| page.writable == writable);
        let before = (0..first).rev().take_while(alike).count();
        let after = (first..PAGES).take_while(alike).count();
        Some(Mapping {
            range: range((first + 1 - before) * PAGE, (before + after) * PAGE),
            is_plain: writable,
        })
    }
    fn all_there(&self, range: Range) -> Option<bool> {
        Some(self.contents(range).iter().all(Option::is_some))
    }
    unsafe fn write_marks(&self, range: Range, _: u64) {
        self.store(range, MARK);
    }
    unsafe fn has_marks(&self, range: Range, mark: u64) -> bool {
        self.is_marked(range, mark)
    }
    fn is_marked(&self, range: Range, _: u64) -> bool {
        self.is_all(range, MARK)
    }
    unsafe fn clear_marked(&self, range: Range, mark: u64) -> usize {
        if !self.is_marked(range, mark) {
            return 0;
        }
        self.store(range, 0);
        range.len()
    }
    unsafe fn fingerprint(&self, range: Range) -> u64 {
        let word = |hash: u64, page: &Option<u8>| hash * 300 + u64::from(page.unwrap_or(0));
        self.contents(range).iter().fold(1, word)
    }
    fn has_fingerprint(&self, range: Range, fingerprint: u64) -> bool {
        // SAFETY: no memory is touched.
        unsafe { self.fingerprint(range) == fingerprint }
    }
    fn pinned_pages(&self) -> Pins {
        Pins::None
    }
    unsafe fn count_not_zero(&self, pages: &[usize]) -> usize {
        for page in pages {
            assert_ne!(
                self.contents(range(*page, PAGE)),
                [None],
                "a page that is mapped"
            );
        }
        pages.len()
    }
    fn is_own(&self, _: Range) -> bool {
        true
    }
    fn resident_bytes(&self) -> Option<usize> {
        let contents = self.contents(range(PAGE, PAGES * PAGE));
        let written = contents.iter().flatten().filter(|content| **content != 0);
        Some(written.count() * PAGE)
    }
    fn memory_pressure(&self) -> Option<Pressure> {
        Some(Pressure::None(usize::MAX))
    }
}

/// Runs the work of the second thread.
fn second(work: impl FnOnce() + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        ME.with(|me| me.set(2));
        work();
    })
}

/// The state that the kernel and the library hold in the end, without anchors, and whether anything was zeroed.
struct InTheEnd {
    is_writable: bool,
    held: Vec<RangeUse>,
    was_zeroed: bool,
}

/// A library with a page of the program's, and where that is.
fn with_page(shim: Shim<Few>) -> (Arc<Shim<Few>>, usize) {
    // SAFETY: the model's memory.
    let at = unsafe { shim.mmap(&ONE) }.unwrap();
    shim.kernel().write(range(at, PAGE), 5);
    (Arc::new(shim), at)
}

/// A library that offers all that it keeps.
fn offering() -> Shim<Few> {
    with(Settings {
        cache: 4 * PAGE,
        firm: Some(0),
        ..Settings::default()
    })
}

/// A library with a page of the program's, to which the second thread does something while the first does something else.
fn on_one_page(first: fn(&Shim<Few>, usize), other: fn(&Shim<Few>, usize)) -> InTheEnd {
    let (shim, at) = with_page(shim(4));
    let beside = second({
        let shim = Arc::clone(&shim);
        move || other(&shim, at)
    });
    first(&shim, at);
    beside.join().unwrap();
    shim.check().unwrap();
    let mut held = Vec::new();
    shim.each_region(|_, one| {
        if one != RangeUse::Anchor {
            held.push(one);
        }
    });
    InTheEnd {
        is_writable: shim.kernel().is_writable(at),
        held,
        was_zeroed: shim.counters.dontneed_zeroed.get() > 0,
    }
}

/// MADV_DONTNEED of the page.
fn give_back(shim: &Shim<Few>, at: usize) {
    // SAFETY: the model's memory.
    unsafe { shim.madvise(at, PAGE, MADV_DONTNEED) }.unwrap();
}

/// mprotect(2) of the page.
fn protect(shim: &Shim<Few>, at: usize, prot: i32) {
    // SAFETY: the model's memory.
    unsafe { shim.mprotect(at, PAGE, prot) }.unwrap();
}

fn few() -> Few {
    Few(Mutex::new([None; PAGES]))
}

/// Check that two threads never have the lock at once, and that both get it.
#[test]
fn lock() {
    explore(None, || {
        let all = Arc::new((few(), Lock::default(), Guarded::new(0)));
        let add = |all: &(Few, Lock, Guarded<i32>)| {
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
        true
    });
}

/// Check that a range that a handler adds inside the lock, also after its holder has looked, is handed out once and not
/// later than to the next holder.
#[test]
fn late() {
    explore(None, || {
        let all = Arc::new((few(), Lock::default(), Deferred::default(), Guarded::new(0)));
        let other = second({
            let all = Arc::clone(&all);
            move || {
                assert_eq!(all.1.take(&all.0), Taken::Yes);
                assert!(all.2.take_each(|r| assert_eq!(r.start, PAGE)));
                // A handler, at the worst moment.
                assert!(all.2.add(range(PAGE, PAGE)));
                all.1.release(&all.0);
            }
        });
        assert_eq!(all.1.take(&all.0), Taken::Yes);
        // SAFETY: we have the lock.
        assert!(all.2.take_each(|_| unsafe { all.3.with(|n| *n += 1) }));
        all.1.release(&all.0);
        other.join().unwrap();
        // SAFETY: the other thread is over.
        assert!(all.2.take_each(|_| unsafe { all.3.with(|n| *n += 1) }));
        // SAFETY: as above.
        assert_eq!(unsafe { all.3.with(|n| *n) }, 1);
        true
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

/// Two of them, side by side.
const TWO: Map = Map {
    len: 2 * PAGE,
    ..ONE
};

/// One at a certain address, by MAP_FIXED or MAP_FIXED_NOREPLACE.
fn one_at(addr: usize, fixed: i32) -> Map {
    Map {
        addr,
        flags: ONE.flags | fixed,
        ..ONE
    }
}

fn shim(cache: usize) -> Shim<Few> {
    bounded(cache, 0)
}

fn bounded(cache: usize, resident: usize) -> Shim<Few> {
    with(Settings {
        cache: cache * PAGE,
        resident: resident * PAGE,
        ..Settings::default()
    })
}

fn with(settings: Settings) -> Shim<Few> {
    let settings = Settings {
        zero: ZeroLimit::UpTo(PAGE),
        least: PAGE,
        least_zeroed: PAGE,
        lifetimes: 0,
        ..settings
    };
    let counters = Box::leak(Box::new(Counters::new()));
    let places = Box::leak(vec![Node::EMPTY; 16].into_boxed_slice());
    let scratch = Box::leak(Box::new(Scratch::EMPTY));
    Shim::new(few(), settings, counters, places, scratch)
}

/// Check that memory that one thread maps at a kept address stays as it is while the other gives kept memory back.
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
            assert_eq!(shim.mmap(&one_at(all[0], MAP_FIXED)), Ok(all[0]));
            shim.kernel().write(range(all[0], PAGE), 7);
            other.join().unwrap();
            assert_eq!(shim.kernel().contents(range(all[0], PAGE)), [Some(7)]);
        }
        shim.check().unwrap();
        shim.counters.evicted.get() > 0
    });
}

/// Maps and writes while the other thread goes on, and checks that it is all there when that one is over. Where it is.
fn keeps(shim: &Shim<Few>, map: &Map, other: thread::JoinHandle<()>) -> usize {
    // SAFETY: the model's memory.
    let mine = unsafe { shim.mmap(map) }.unwrap();
    let mapped = range(mine, map.len);
    shim.kernel().write(mapped, 7);
    other.join().unwrap();
    let there = shim.kernel().contents(mapped);
    assert_eq!(there, vec![Some(7); map.len / PAGE]);
    mine
}

/// Check that memory that one thread offers to the kernel, which takes it at once here, is never served to the other.
#[test]
fn offered_meanwhile() {
    explore(Some(5), || {
        let (shim, at) = with_page(offering());
        let other = second({
            let shim = Arc::clone(&shim);
            // SAFETY: the model's memory.
            move || unsafe { shim.munmap(at, PAGE) }.unwrap()
        });
        keeps(&shim, &ONE, other);
        shim.check().unwrap();
        shim.counters.offered.get() > 0
    });
}

/// Check that nothing is kept where one thread offers while the other says that nothing is to be kept any more.
#[test]
fn offered_while_retired() {
    explore(Some(4), || {
        let (shim, at) = with_page(offering());
        let other = second({
            let shim = Arc::clone(&shim);
            move || shim.stop_keeping()
        });
        // SAFETY: the model's memory.
        unsafe { shim.munmap(at, PAGE) }.unwrap();
        other.join().unwrap();
        shim.check().unwrap();
        shim.each_region(|_, held| assert!(!matches!(held, RangeUse::Dirty | RangeUse::Leaving)));
        shim.counters.offered.get() > 0
    });
}

/// A library that keeps two pages and is to keep nothing any more, by the second thread, while the first does something with
/// two pages of the program's. In the end nothing may be kept, nor mapped.
fn retired_while(resident: usize, first: fn(&Shim<Few>, usize)) -> Arc<Shim<Few>> {
    let shim = Arc::new(bounded(6, resident));
    // SAFETY: the model's memory.
    let all = [(); 2].map(|()| unsafe { shim.mmap(&TWO) }.unwrap());
    for at in all {
        shim.kernel().write(range(at, TWO.len), 7);
    }
    unmap_two(&shim, all[0]);
    let other = second({
        let shim = Arc::clone(&shim);
        move || shim.stop_keeping()
    });
    first(&shim, all[1]);
    other.join().unwrap();
    shim.check().unwrap();
    shim.each_region(|page, one| panic!("{one:?} at {page:x?}"));
    for at in all {
        assert_eq!(shim.kernel().contents(range(at, TWO.len)), [None, None]);
    }
    shim
}

/// munmap(2) of two pages.
fn unmap_two(shim: &Shim<Few>, at: usize) {
    // SAFETY: the model's memory.
    unsafe { shim.munmap(at, 2 * PAGE) }.unwrap();
}

/// Check that nothing stays kept where the library is to keep nothing any more, though another thread keeps, trims, marks or is
/// served meanwhile.
#[test]
fn retired_meanwhile() {
    explore(Some(3), || {
        let shim = retired_while(0, unmap_two);
        shim.counters.munmap_kept.get() > 1
    });
    explore(Some(3), || {
        let shim = retired_while(5, unmap_two);
        shim.counters.trimmed.get() > 0
    });
    explore(Some(3), || {
        let shim = retired_while(0, |shim, at| {
            // SAFETY: the model's memory.
            unsafe {
                let mine = shim.mmap(&ONE).unwrap();
                shim.munmap(mine, PAGE).unwrap();
            }
            unmap_two(shim, at);
        });
        shim.counters.mmap_served.get() > 0
    });
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
                    // Unmaps kept memory, to see that it is a hole.
                    let _ = shim.change_unfollowed(at, PAGE, || Ok(()));
                }
            });
            let mine = keeps(&shim, &ONE, other);
            shim.munmap(mine, PAGE).unwrap();
        }
        shim.check().unwrap();
        shim.counters.evicted.get() > 0
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
                    let _ = shim.change_unfollowed(at + PAGE, PAGE, || Ok(()));
                }
            });
            shim.munmap(at, three.len).unwrap();
            keeps(&shim, &three, other);
        }
        shim.check().unwrap();
        shim.counters.evicted.get() > 0
    });
}

/// Check that two threads that unmap while too much is in memory lose nothing, and that a new mapping of one of them is
/// empty and its own.
#[test]
fn above_the_bound() {
    explore(Some(6), || {
        let shim = Arc::new(bounded(6, 5));
        // SAFETY: the model's memory.
        unsafe {
            let all: Vec<usize> = (0..3).map(|_| shim.mmap(&TWO).unwrap()).collect();
            for at in &all {
                shim.kernel().write(range(*at, TWO.len), 7);
            }
            unmap_two(&shim, all[0]);
            let other = second({
                let (shim, at) = (Arc::clone(&shim), all[1]);
                move || unmap_two(&shim, at)
            });
            unmap_two(&shim, all[2]);
            let mine = shim.mmap(&ONE).unwrap();
            let there = || shim.kernel().contents(range(mine, PAGE));
            assert_eq!(there(), [Some(0)]);
            shim.kernel().write(range(mine, PAGE), 8);
            other.join().unwrap();
            assert_eq!(there(), [Some(8)]);
        }
        shim.check().unwrap();
        shim.counters.trimmed.get() > 0
    });
}

/// Check that a range that one thread has given back is zeroed only while it can be written, whenever the other takes
/// that away and gives it again; and that at the end it can be, and is known.
#[test]
fn protected_meanwhile() {
    explore(Some(4), || {
        let done = on_one_page(give_back, |shim, at| {
            protect(shim, at, PROT_READ);
            assert!(!shim.kernel().is_writable(at));
            protect(shim, at, PROT_READ | PROT_WRITE);
        });
        assert!(done.is_writable);
        assert_eq!(done.held, [RangeUse::Live(3, true)]);
        done.was_zeroed
    });
}

/// Check that two threads that change one page's protection at once leave it as the library knows it.
#[test]
fn protected_twice() {
    explore(Some(5), || {
        let done = on_one_page(
            |shim, at| protect(shim, at, PROT_READ | PROT_WRITE),
            |shim, at| protect(shim, at, PROT_READ),
        );
        let prot = if done.is_writable { 3 } else { 1 };
        let is_same = |one: &RangeUse| *one == RangeUse::Live(prot, true);
        assert!(done.held.iter().all(is_same));
        !done.held.is_empty()
    });
}

/// Check that a range that one thread has given back is not zeroed any more once the other has mapped something there
/// that can't be written.
#[test]
fn replaced_meanwhile() {
    explore(Some(4), || {
        let done = on_one_page(give_back, |shim, at| {
            let fixed = Map {
                prot: PROT_READ,
                ..one_at(at, MAP_FIXED)
            };
            // SAFETY: the model's memory.
            assert_eq!(unsafe { shim.mmap(&fixed) }, Ok(at));
        });
        assert!(!done.is_writable);
        assert_eq!(done.held, [RangeUse::Live(1, true)]);
        done.was_zeroed
    });
}

/// Check that a thread that gives back again and again a range that the other protects again and again is refused
/// nothing, and zeroes it only while it can be written.
#[test]
fn protected_again_and_again() {
    explore(Some(3), || {
        let done = on_one_page(
            |shim, at| {
                give_back(shim, at);
                give_back(shim, at);
            },
            |shim, at| {
                for prot in [PROT_READ, PROT_READ | PROT_WRITE, PROT_READ] {
                    protect(shim, at, prot);
                }
            },
        );
        assert!(!done.is_writable);
        done.was_zeroed
    });
}

/// Maps into the hole beside the page, writes there, and unmaps it and a hole behind it.
fn use_hole(shim: &Shim<Few>, at: usize, fixed: i32) {
    let hole = range(at + PAGE, PAGE);
    // SAFETY: the model's memory.
    unsafe {
        assert_eq!(shim.mmap(&one_at(hole.start, fixed)), Ok(hole.start));
        shim.kernel().write(hole, 7);
        assert_eq!(shim.kernel().contents(hole), [Some(7)]);
        // A call that is not followed.
        shim.change_unfollowed(hole.start, PAGE, || Ok(())).unwrap();
        assert_eq!(shim.kernel().contents(hole), [Some(7)]);
        shim.munmap(hole.start, 2 * PAGE).unwrap();
    }
}

/// Check that beside a range that one thread gives back, while all kept memory goes, another keeps the content that it
/// maps into a hole and writes. Nothing is zeroed but by an anchor in that hole, as the page on the other side is none.
#[test]
fn hole_replaced() {
    explore(Some(3), || {
        let done = on_one_page(
            |shim, at| {
                give_back(shim, at);
                shim.unmap_all_kept();
            },
            |shim, at| use_hole(shim, at, MAP_FIXED),
        );
        assert_eq!(done.held, [RangeUse::Live(3, true)]);
        done.was_zeroed
    });
}

/// Check that the hole is one also to whom is refused a range that is none.
#[test]
fn hole_found_free() {
    explore(Some(3), || {
        let done = on_one_page(give_back, |shim, at| {
            use_hole(shim, at, MAP_FIXED_NOREPLACE);
        });
        assert_eq!(done.held, [RangeUse::Live(3, true)]);
        done.was_zeroed
    });
}

/// Check that a range that one thread gives back and another unmaps is not written after that where it is unmapped, and
/// that nothing that was in it comes back.
#[test]
fn unmapped_meanwhile() {
    explore(Some(4), || {
        let done = on_one_page(give_back, |shim, at| {
            // SAFETY: the model's memory.
            unsafe {
                shim.munmap(at, PAGE).unwrap();
                let mine = shim.mmap(&ONE).unwrap();
                assert_eq!(shim.kernel().contents(range(mine, PAGE)), [Some(0)]);
                shim.kernel().write(range(mine, PAGE), 7);
                shim.munmap(mine, PAGE).unwrap();
            }
        });
        done.was_zeroed
    });
}
