//! A test for each rule of the advice for preload libraries, by its number.
#![cfg(not(any(miri, loom)))]
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "a test"
)]

mod model;
mod preload;

use std::process::Command;

use model::fake::{BASE, Fake};
use preload::{LONGEST, must, program, run};
use quell_shim::linux::*;
use quell_shim::{
    Counters, Kernel, Map, Node, PAGE, Pressure, RangeUse, Scratch, Settings, Shim, ZeroLimit,
};

/// Builds one of the programs beside this file.
macro_rules! build {
    ($name:literal) => {{
        let header = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests/rules");
        let source = include_str!(concat!("rules/", $name, ".c"));
        program($name, source, &[header])
    }};
}

const ANON: Map = Map {
    addr: 0,
    len: PAGE,
    prot: 3,
    flags: MAP_PRIVATE | MAP_ANONYMOUS,
    fd: -1,
    offset: 0,
};

fn over_the_model(settings: Settings) -> Shim<Fake> {
    let counters = Box::leak(Box::new(Counters::new()));
    let places = Box::leak(vec![Node::EMPTY; 64].into_boxed_slice());
    let scratch = Box::leak(Box::new(Scratch::EMPTY));
    Shim::new(Fake::default(), settings, counters, places, scratch)
}

fn pages(cache: usize) -> Settings {
    Settings {
        cache: cache * PAGE,
        keep: 1024 * 1024,
        zero: ZeroLimit::UpTo(16 * PAGE),
        least: PAGE,
        least_zeroed: PAGE,
        lifetimes: 0,
        ..Settings::default()
    }
}

/// The same for good, so that what the model calls back may use it.
fn leaked(settings: Settings) -> &'static Shim<Fake> {
    Box::leak(Box::new(over_the_model(settings)))
}

/// A mapping of so many pages.
fn of_pages(count: usize) -> Map {
    Map {
        len: count * PAGE,
        ..ANON
    }
}

/// Does it as another thread.
fn as_thread(shim: &Shim<Fake>, thread: usize, work: impl FnOnce()) {
    let me = shim.kernel().thread.replace(thread);
    work();
    shim.kernel().thread.set(me);
}

/// Does it before and after each call of the kernel's, which is done all the same.
fn at_calls(shim: &Shim<Fake>, work: impl Fn() + 'static) {
    let hook = move || {
        work();
        false
    };
    *shim.kernel().hook.borrow_mut() = Some(std::rc::Rc::new(hook));
}

/// Whether the kernel has something mapped there.
fn is_there(shim: &Shim<Fake>, at: usize) -> bool {
    shim.kernel().pages.borrow().contains_key(&(at / PAGE))
}

/// So many blocks of the program's, each of so many pages, with room between them for pages of the library's.
fn apart(shim: &Shim<Fake>, blocks: usize, count: usize) -> Vec<usize> {
    let map = |n: usize| {
        let hint = Map {
            addr: BASE + (1 + n * (count + 2)) * PAGE,
            ..of_pages(count)
        };
        // SAFETY: the model's memory.
        let at = unsafe { shim.mmap(&hint) }.unwrap();
        assert_eq!(at, hint.addr);
        (0..count).for_each(|page| shim.kernel().write(at + page * PAGE, 7));
        at
    };
    (0..blocks).map(map).collect()
}

/// Writes so many pages and unmaps them, and sees that they are kept.
fn keep(shim: &Shim<Fake>, at: usize, count: usize) {
    (0..count).for_each(|n| shim.kernel().write(at + n * PAGE, 7));
    // SAFETY: the model's memory.
    unsafe { shim.munmap(at, count * PAGE) }.unwrap();
    assert!(
        (0..count).all(|n| is_there(shim, at + n * PAGE)),
        "it is kept"
    );
}

/// Maps so many pages, writes them, and unmaps them, each as the program does.
fn churn(shim: &Shim<Fake>, count: usize) {
    let map = Map {
        len: count * PAGE,
        ..ANON
    };
    // SAFETY: the model's memory.
    unsafe {
        let at = shim.mmap(&map).unwrap();
        (0..count).for_each(|n| shim.kernel().write(at + n * PAGE, 1));
        shim.munmap(at, map.len).unwrap();
    }
}

/// Check rule 1: what the library does instead of the kernel is never more shootdowns, whatever the
/// sizes and the budget.
#[test]
fn rule_01_never_more() {
    for cache in [0, 1, 8, 30, 60] {
        let shim = over_the_model(pages(cache));
        for n in 0..200 {
            churn(&shim, 1 + n * 7 % 20);
        }
        let (with, without) = (shim.kernel().shootdowns.get(), 200);
        assert!(with <= without, "{with} with a cache of {cache} pages");
        assert!(
            cache < 30 || with < without / 4,
            "{with} with a cache of {cache} pages"
        );
    }
}

/// Check rule 2: what other ways have mapped or unmapped is never taken for ours, a program may freeze what it does not know, and
/// a static program runs as without.
#[test]
fn rule_02_what_is_not_seen() {
    must(&build!("unknown"), "");
    let frozen = build!("frozen");
    for settings in ["", "cache=1M", "lifetimes=0"] {
        must(&frozen, settings);
    }
    let over = build!("over");
    for settings in ["cache=1M", "cache=1M,trim=each"] {
        must(&over, settings);
    }
    let written = build!("written");
    for _ in 0..4 {
        must(&written, "");
    }
    let fixed = program("static", "int main(void) { return 0; }", &["-static"]);
    must(&fixed, "");
}

/// Check rule 2: whatever was done to memory past the library, by system calls in assembly, by devices and by other
/// processes, new memory is what Linux promises, and what is the program's keeps what is in it.
#[test]
fn rule_02_changed_past_the_library() {
    let exe = build!("unseen");
    for settings in ["", "cache=1G,zero=64M", "firm=0"] {
        let mut command = Command::new(&exe);
        command.args(["all", "3"]);
        let output = run(&mut command, settings, LONGEST);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{settings}: {text}");
    }
}

/// Check rule 3: MADV_DONTNEED reads as zero at once, fills nothing, and is the kernel's where memory is
/// anything but plain.
#[test]
fn rule_03_dontneed_is_zero_at_once() {
    for settings in ["", "zero=1G,keep=1G"] {
        must(&build!("dontneed"), settings);
        must(&build!("zeros"), settings);
        must(&build!("protects"), settings);
    }
}

/// Gives a range back by MADV_DONTNEED, and says whether its first page stays in memory, with zeros.
fn stays(shim: &Shim<Fake>, at: usize, count: usize) -> bool {
    // SAFETY: the model's memory.
    unsafe { shim.madvise(at, count * PAGE, MADV_DONTNEED) }.unwrap();
    let all = shim.kernel().pages.borrow();
    let page = &all[&(at / PAGE)];
    assert_eq!(page.value, 0);
    page.present
}

/// Check rule 3: what is zero already, as nobody has used it since it was zeroed in place, stays twice, and then it is given
/// back; once it is used again, it is zeroed in place again.
#[test]
fn rule_03_unused_is_given_back() {
    // More than those that are zeroed whatever they were used for.
    const COUNT: usize = 40;
    let shim = over_the_model(Settings {
        zero: ZeroLimit::UpTo(COUNT * PAGE),
        ..pages(8)
    });
    let at = apart(&shim, 1, COUNT)[0];
    let all = [(); 4].map(|()| stays(&shim, at, COUNT));
    assert_eq!(all, [true, true, true, false]);
    (0..COUNT).for_each(|n| shim.kernel().write(at + n * PAGE, 7));
    assert!(stays(&shim, at, COUNT));
    // Every second page is enough to go on.
    for _ in 0..4 {
        (0..COUNT)
            .step_by(2)
            .for_each(|n| shim.kernel().write(at + n * PAGE, 7));
        assert!(stays(&shim, at, COUNT));
    }
}

/// Check rule 3: near the bound of resident memory large ranges go, and small ones stay.
#[test]
fn rule_03_large_ranges_make_room() {
    const LARGE: usize = 16;
    let bounded = Settings {
        resident: 70 * PAGE,
        ..pages(8)
    };
    let shim = over_the_model(bounded);
    let large = apart(&shim, 3, LARGE);
    // Of 70 pages 48 are there: an eighth of the rest is two.
    assert!(!stays(&shim, large[0], LARGE));
    // SAFETY: the model's memory.
    let small = unsafe { shim.mmap(&of_pages(2)) }.unwrap();
    (0..2).for_each(|n| shim.kernel().write(small + n * PAGE, 7));
    assert!(stays(&shim, small, 2));
}

/// Check rule 4: no MADV_FREE comes late.
#[test]
fn rule_04_free_is_never_late() {
    must(&build!("free"), "cache=1M,keep=64M");
    must(&build!("free"), "cache=1M,keep=0");
}

/// Check rule 5: what is unmapped goes by one shootdown for many, and short returns lose nothing.
#[test]
fn rule_05_munmap_in_batches() {
    let shim = over_the_model(pages(32));
    // Apart, so that each is a region of its own.
    for at in apart(&shim, 16, 2) {
        keep(&shim, at, 2);
    }
    assert_eq!(shim.kernel().shootdowns.get(), 0);
    churn(&shim, 30);
    assert!(
        shim.kernel().shootdowns.get() <= 1,
        "one for all that had to go"
    );
    shim.check().unwrap();
}

/// Check rule 6: memory is zeroed where it is when it is served, without a shootdown, and it is zero.
#[test]
fn rule_06_zeroed_when_served() {
    let shim = over_the_model(pages(40));
    for _ in 0..50 {
        churn(&shim, 8);
    }
    assert_eq!(shim.kernel().shootdowns.get(), 0);
    // SAFETY: the model's memory.
    let at = unsafe {
        shim.mmap(&Map {
            len: 8 * PAGE,
            ..ANON
        })
    }
    .unwrap();
    let all = shim.kernel().pages.borrow();
    assert!((0..8).all(|n| all[&(at / PAGE + n)].value == 0));
}

/// Check rule 7: whatever asks for an address finds it free of what is kept.
#[test]
fn rule_07_fixed_addresses() {
    must(&build!("fixed"), "");
    must(&build!("crowded"), "");
    let holes = build!("holes");
    for settings in ["", "least=4K,lifetimes=0"] {
        must(&holes, settings);
    }
    let hints = build!("hints");
    must(&hints, "");
    must(&hints, "hint=32M");
}

/// Check rule 8: use after munmap is not seen, and faults in the strict mode.
#[test]
fn rule_08_use_after_unmap() {
    let exe = build!("after");
    must(&exe, "");
    let output = run(&mut Command::new(&exe), "strict", LONGEST);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
}

/// Check rule 7: a stack grows over what was unmapped below it.
#[test]
fn rule_07_growing_stacks() {
    must(&build!("grows"), "");
}

/// Check rule 9: guard pages stay what they are, and nobody is given one.
#[test]
fn rule_09_guard_pages() {
    must(&build!("guarded"), "");
}

/// Check rule 9: what the kernel writes to by a ring that nobody has seen is served to nobody.
#[test]
fn rule_09_unseen_rings() {
    must(&build!("rings"), "");
}

/// Check rule 9: nothing special is kept, and nothing special is passed on.
#[test]
fn rule_09_leaves_alone() {
    must(&build!("attributes"), "");
    must(&build!("devices"), "");
    must(&build!("retires"), "");
    must(&build!("lazy"), "lifetimes=0,free=pass");
    for settings in ["", "zero=64M,rss=4M"] {
        must(&build!("pipes"), settings);
        must(&build!("closed"), settings);
        must(&build!("shut"), settings);
        must(&build!("filtered"), settings);
    }
}

/// Check rule 9: what can't be told to be the library's any more stays, but not without bound.
#[test]
fn rule_09_lost() {
    for settings in ["", "cache=1G,zero=64M", "rss=64M"] {
        must(&build!("lost"), settings);
    }
}

/// Check rule 9: who unwinds a stack finds its way through the library's syscall(2).
#[test]
fn rule_09_unwinds() {
    must(&build!("unwinds"), "");
}

/// Check rule 10: what is given back, or unmapped, while a fork(2) of another thread has the lock for long is known
/// afterwards, so that whoever wants these addresses has them.
#[test]
fn rule_10_long_fork() {
    const BLOCK: usize = 4 * PAGE;
    for unmapped in [false, true] {
        let shim = leaked(pages(8));
        let block = of_pages(4);
        let all = apart(shim, 4, 4);
        all[..2].iter().for_each(|at| keep(shim, *at, 4));
        // SAFETY: the model's memory.
        unsafe {
            let forks = std::cell::Cell::new(0);
            at_calls(shim, move || {
                if forks.replace(1) == 0 {
                    as_thread(shim, 1, || shim.before_fork());
                }
            });
            if unmapped {
                // What is kept there is unmapped, so that it is to the kernel what it is to the program.
                shim.change_unfollowed(all[0], BLOCK, || Ok(())).unwrap();
            } else {
                // All that is kept leaves.
                shim.with_limit_set(|| ());
            }
            assert!(shim.kernel().slept.get(), "nobody waited for the fork");
            as_thread(shim, 1, || shim.after_fork(false));
            let fixed = Map {
                addr: all[0],
                flags: ANON.flags | MAP_FIXED,
                ..block
            };
            assert_eq!(shim.mmap(&fixed), Ok(all[0]));
            shim.munmap(all[3], BLOCK).unwrap();
        }
        shim.check().unwrap();
    }
}

/// So many pages are kept, and so many are mapped, of these blocks of so many pages.
fn kept_and_mapped(shim: &Shim<Fake>, blocks: &[usize], count: usize) -> (usize, usize) {
    let mut kept = 0;
    shim.each_region(|range, held| {
        if held == RangeUse::Dirty {
            kept += range.len() / PAGE;
        }
    });
    let all = blocks
        .iter()
        .flat_map(|at| (0..count).map(move |n| at + n * PAGE));
    (kept, all.filter(|at| is_there(shim, *at)).count())
}

/// Check rule 10: where what is mapped is to be read in a file, and none is opened during a fork(2), what is kept is given
/// back before that, and what another thread is about to give back, unmap or serve then is kept afterwards, and not lost.
#[test]
fn rule_10_forks_by_file() {
    let shim = over_the_model(pages(40));
    shim.kernel().by_file.set(true);
    let all = apart(&shim, 3, 4);
    all.iter().for_each(|at| keep(&shim, *at, 4));
    shim.before_fork();
    assert_eq!(kept_and_mapped(&shim, &all, 4), (0, 0));
    shim.after_fork(false);

    for what in 0..3 {
        let shim = leaked(pages(8));
        shim.kernel().by_file.set(true);
        let all = apart(shim, 3, 4);
        all[..2].iter().for_each(|at| keep(shim, *at, 4));
        let forks = std::cell::Cell::new(false);
        at_calls(shim, move || {
            if !forks.replace(true) {
                as_thread(shim, 1, || shim.before_fork());
            }
        });
        // SAFETY: the model's memory.
        unsafe {
            match what {
                // Above the budget, it gives back.
                0 => shim.munmap(all[2], 4 * PAGE).unwrap(),
                1 => shim.change_unfollowed(all[0], 4 * PAGE, || Ok(())).unwrap(),
                _ => drop(shim.mmap(&of_pages(4)).unwrap()),
            }
        }
        as_thread(shim, 1, || shim.after_fork(false));
        *shim.kernel().hook.borrow_mut() = None;
        shim.check().unwrap();
        let (kept, mapped) = kept_and_mapped(shim, &all[..2], 4);
        assert_eq!(kept, mapped, "{what}");
    }
}

/// Check rule 2: what was given back and can't be unmapped at once is not unmapped later, when a thread may have mapped
/// something there past the library: where the kernel refuses it, and where another's fork(2) has the lock for long.
#[test]
fn rule_02_unmapped_at_once_or_never() {
    for forks in [false, true] {
        let shim = leaked(pages(16));
        let at = apart(shim, 1, 4)[0];
        keep(shim, at, 4);
        let calls = std::cell::Cell::new(0);
        let hook = move || {
            let pages = shim.kernel().pages.borrow();
            let empty = pages.get(&(at / PAGE)).is_some_and(|page| !page.present);
            drop(pages);
            let call = calls.replace(calls.get() + u32::from(empty));
            if forks && empty && call == 0 {
                as_thread(shim, 1, || shim.before_fork());
            }
            // The first is the end of the one that gives back.
            !forks && empty && call == 1
        };
        *shim.kernel().hook.borrow_mut() = Some(std::rc::Rc::new(hook));
        shim.with_limit_set(|| ());
        *shim.kernel().hook.borrow_mut() = None;
        assert!(is_there(shim, at), "it was not unmapped");
        map_over(shim, at);
        if forks {
            as_thread(shim, 1, || shim.after_fork(false));
        }
        shim.stop_keeping();
        assert_eq!(value(shim, at), 9, "forks: {forks}");
        shim.check().unwrap();
        shim.each_region(|range, held| assert_eq!(range.start, at, "{held:?}"));
    }
}

/// Check rule 10: whoever unmaps a range around what another thread marks, while a third forks and has the lock, waits for
/// that first: it would be unmapped under the one who writes there. And does not wait where nobody marks.
#[test]
fn rule_10_unmaps_while_marking() {
    for marking in [true, false] {
        let shim = leaked(pages(16));
        let at = apart(shim, 1, 6)[0];
        keep(shim, at, 4);
        let begun = std::cell::Cell::new(false);
        let unmap = move || {
            if begun.replace(true) {
                return;
            }
            as_thread(shim, 1, || shim.before_fork());
            as_thread(shim, 2, || {
                // The first call finds out that the fork takes long.
                // SAFETY: the model's memory.
                unsafe { shim.mmap(&Map { prot: 7, ..ANON }) }.unwrap();
                shim.kernel().slept.set(false);
                // SAFETY: the model's memory.
                unsafe { shim.munmap(at, 6 * PAGE) }.unwrap();
                assert_eq!(shim.kernel().slept.get(), marking);
            });
        };
        if marking {
            at_calls(shim, unmap);
            // It looks for pinned pages, finds none, and marks.
            // SAFETY: the model's memory.
            let _ = unsafe { shim.mmap(&of_pages(4)) };
        } else {
            unmap();
        }
        *shim.kernel().hook.borrow_mut() = None;
        as_thread(shim, 1, || shim.after_fork(false));
        shim.check().unwrap();
    }
}

/// Check rule 10: what is mapped over something that is being marked, and can't be shown to be plain, is left alone.
#[test]
fn rule_10_lost_while_marked() {
    let shim = leaked(pages(16));
    let all = apart(shim, 2, 4);
    all.iter().for_each(|at| keep(shim, *at, 4));
    let (at, begun) = (all[0], std::cell::Cell::new(false));
    at_calls(shim, move || {
        if begun.replace(true) {
            return;
        }
        as_thread(shim, 1, || {
            // Past the library it is unmapped, and the kernel gives it to a mapping that is seen.
            // SAFETY: the model's memory.
            unsafe {
                shim.kernel().munmap(at, 4 * PAGE).unwrap();
                let hint = Map {
                    addr: at,
                    prot: 7,
                    ..of_pages(4)
                };
                let _ = shim.mmap(&hint);
            }
        });
    });
    // SAFETY: the model's memory.
    let _ = unsafe { shim.mmap(&of_pages(4)) };
    *shim.kernel().hook.borrow_mut() = None;
    shim.check().unwrap();
    shim.stop_keeping();
    shim.check().unwrap();
}

/// Check rule 10: in the child of a handler that forks while the thread below it gives back or marks, what that has taken
/// serves nobody, and what is mapped there instead keeps what is in it when the handler has returned.
#[test]
fn rule_10_forks_below() {
    for (marking, calls) in [(false, 3_usize), (true, 1)]
        .into_iter()
        .flat_map(|(marking, most)| (0..most).map(move |n| (marking, n)))
    {
        let shim = leaked(pages(8));
        let all = apart(shim, 2, 4);
        all.iter().for_each(|at| keep(shim, *at, 4));
        let before = std::cell::Cell::new(calls);
        let mine: &'static std::cell::Cell<usize> = Box::leak(Box::default());
        at_calls(shim, move || {
            let left = before.replace(before.get().wrapping_sub(1));
            if left != 0 {
                return;
            }
            shim.before_fork();
            shim.after_fork(true);
            // SAFETY: the model's memory.
            mine.set(unsafe { shim.mmap(&of_pages(4)) }.unwrap());
            (0..4).for_each(|n| shim.kernel().write(mine.get() + n * PAGE, 9));
        });
        if marking {
            // SAFETY: the model's memory.
            let _ = unsafe { shim.mmap(&of_pages(4)) };
        } else {
            shim.with_limit_set(|| ());
        }
        *shim.kernel().hook.borrow_mut() = None;
        assert!(
            (0..4).all(|n| value(shim, mine.get() + n * PAGE) == 9),
            "{marking} {calls}"
        );
        shim.check().unwrap();
    }
}

/// Check rule 3: while a thread zeroes in place of MADV_DONTNEED, and does not come to an end, another's mprotect(2) of it
/// fails and does nothing, and so it waits for the end where the library is off meanwhile.
#[test]
fn rule_03_zeroing_is_not_cut_short() {
    for off in [false, true] {
        let shim = leaked(pages(16));
        let at = apart(shim, 1, 4)[0];
        // Looks for pinned pages, and makes the anchor.
        // SAFETY: the model's memory.
        unsafe { shim.madvise(at, 4 * PAGE, MADV_DONTNEED) }.unwrap();
        (0..4).for_each(|n| shim.kernel().write(at + n * PAGE, 7));
        let done: &'static std::cell::Cell<u32> = Box::leak(Box::default());
        at_calls(shim, move || {
            if value(shim, at) != 0 || done.replace(done.get() + 1) > 0 {
                return;
            }
            if off {
                shim.turn_off();
            }
            shim.kernel().slept.set(false);
            as_thread(shim, 1, || {
                // SAFETY: the model's memory.
                let protected = unsafe { shim.mprotect(at, PAGE, PROT_READ) };
                let refused = Err(quell_shim::Errno::ENOMEM);
                assert_eq!(protected, if off { Ok(()) } else { refused });
                assert!(shim.kernel().slept.get(), "nobody waited");
            });
        });
        // SAFETY: the model's memory.
        unsafe { shim.madvise(at, 4 * PAGE, MADV_DONTNEED) }.unwrap();
        *shim.kernel().hook.borrow_mut() = None;
        assert!(done.get() > 0, "it was zeroed in place");
        shim.check().unwrap();
    }
}

/// Check rule 12: to give back what is kept comes to an end, also where another thread adds to it faster, and the kernel
/// takes it one by one only.
#[test]
fn rule_12_trimming_ends() {
    let shim = leaked(Settings {
        batch: false,
        ..pages(16)
    });
    let all = apart(shim, 4, 2);
    keep(shim, all[0], 2);
    let (inside, calls) = (std::cell::Cell::new(false), std::cell::Cell::new(0));
    at_calls(shim, move || {
        if inside.replace(true) {
            return;
        }
        calls.set(calls.get() + 1);
        assert!(calls.get() < 500, "it does not end");
        let fixed = Map {
            addr: all[calls.get() % 4],
            flags: ANON.flags | MAP_FIXED,
            ..of_pages(2)
        };
        as_thread(shim, 1, || {
            // SAFETY: the model's memory.
            unsafe {
                if let Ok(at) = shim.mmap(&fixed) {
                    (0..2).for_each(|n| shim.kernel().write(at + n * PAGE, 7));
                    shim.munmap(at, 2 * PAGE).unwrap();
                }
            }
        });
        inside.set(false);
    });
    shim.before_fork();
    *shim.kernel().hook.borrow_mut() = None;
    shim.after_fork(false);
    shim.check().unwrap();
}

/// Check rule 2: what is mapped past the library over something kept, after the first of what is given back has gone, is
/// seen and left alone, as no more than 64 are looked at before they are given back.
#[test]
fn rule_02_few_at_a_time() {
    let counters = Box::leak(Box::new(Counters::new()));
    let places = Box::leak(vec![Node::EMPTY; 256].into_boxed_slice());
    let scratch = Box::leak(Box::new(Scratch::EMPTY));
    let shim: &'static Shim<Fake> = Box::leak(Box::new(Shim::new(
        Fake::default(),
        pages(90),
        counters,
        places,
        scratch,
    )));
    // All in one mapping, and each a region of its own, as it is not marked yet.
    let at = apart(shim, 1, 90)[0];
    (0..90).for_each(|n| keep(shim, at + n * PAGE, 1));
    let (first, last) = (at, at + 89 * PAGE);
    let done = std::cell::Cell::new(false);
    at_calls(shim, move || {
        let gone = shim
            .kernel()
            .pages
            .borrow()
            .get(&(first / PAGE))
            .is_none_or(|p| !p.present);
        if gone && !done.replace(true) {
            map_over(shim, last);
        }
    });
    shim.with_limit_set(|| ());
    *shim.kernel().hook.borrow_mut() = None;
    assert_eq!(value(shim, last), 9);
    shim.check().unwrap();
}

/// Maps one page there past the library, and writes it.
fn map_over(shim: &Shim<Fake>, at: usize) {
    let map = Map {
        addr: at,
        flags: ANON.flags | MAP_FIXED,
        ..ANON
    };
    // SAFETY: the model's memory.
    unsafe { shim.kernel().mmap(&map) }.unwrap();
    shim.kernel().write(at, 9);
}

fn value(shim: &Shim<Fake>, at: usize) -> u8 {
    shim.kernel().pages.borrow()[&(at / PAGE)].value
}

/// Check rule 10: what is about to be given back and is found to be somebody else's, while another thread's fork(2) has the
/// lock for long, is left alone, and the library goes on with the rest.
#[test]
fn rule_10_foreign_while_forking() {
    let shim = leaked(pages(8));
    let all = apart(shim, 2, 4);
    all.iter().for_each(|at| keep(shim, *at, 4));
    let (over, forks) = (all[0], std::cell::Cell::new(false));
    at_calls(shim, move || {
        if !forks.replace(true) {
            as_thread(shim, 1, || shim.before_fork());
            map_over(shim, over);
        }
    });
    shim.with_limit_set(|| ());
    as_thread(shim, 1, || shim.after_fork(false));
    *shim.kernel().hook.borrow_mut() = None;
    assert_eq!(value(shim, over), 9);
    churn(shim, 2);
    churn(shim, 2);
    assert_ne!(kept_and_mapped(shim, &[], 0), (0, 0), "it is not off");
    shim.check().unwrap();
    shim.each_region(|_, held| assert_ne!(held, RangeUse::Leaving));
}

/// Check rule 10: while a thread forks, and no file is opened, pages may be pinned, but not for good.
#[test]
fn rule_10_pins_while_forking() {
    let linux = quell_shim::os::Linux::new();
    linux.fork_begins();
    assert_eq!(linux.pinned_pages(), quell_shim::Pins::PerhapsNow);
    linux.fork_is_over(false);
}

/// Check rule 10: of two threads that fork at once, where the first takes long, the second leaves the lock to it, and the
/// library goes on afterwards; its child, which can't know whether the tables are whole, does not use them, also where the
/// first is over by then.
#[test]
fn rule_10_two_forks() {
    let (block, half) = (of_pages(8), of_pages(4));
    enum Where {
        Parent,
        ChildWhileTheFirstForks,
        ChildAfterIt,
    }
    for place in [
        Where::Parent,
        Where::ChildWhileTheFirstForks,
        Where::ChildAfterIt,
    ] {
        let shim = over_the_model(pages(16));
        let before = |thread| as_thread(&shim, thread, || shim.before_fork());
        let after = |thread, child| as_thread(&shim, thread, || shim.after_fork(child));
        // SAFETY: the model's memory.
        unsafe {
            // Two mappings to the kernel, and one to the program; and one that is kept.
            let halves = [shim.mmap(&half).unwrap(), shim.mmap(&half).unwrap()];
            for at in halves {
                keep(&shim, at, 4);
            }
            let at = shim.mmap(&block).unwrap();
            assert_eq!(at, halves[1]);
            (0..8).for_each(|n| shim.kernel().write(at + n * PAGE, 7));
            let kept = shim.mmap(&half).unwrap();
            keep(&shim, kept, 4);
            before(1);
            before(2);
            if matches!(place, Where::Parent) {
                after(1, false);
                after(2, false);
                shim.munmap(at, block.len).unwrap();
                assert!(is_there(&shim, at));
                assert_eq!(shim.mmap(&block), Ok(at));
                shim.check().unwrap();
                continue;
            }
            if matches!(place, Where::ChildAfterIt) {
                after(1, false);
            }
            after(2, true);
            shim.kernel().thread.set(2);
            shim.kernel().slept.set(false);
            shim.munmap(at + 7 * PAGE, PAGE).unwrap();
            assert!(!is_there(&shim, at + 7 * PAGE), "nothing more is kept");
            // What is moved is one mapping to the program still.
            let moved = shim.mremap(at, 7 * PAGE, 12 * PAGE, MREMAP_MAYMOVE, 0);
            let moved = moved.unwrap();
            assert_ne!(moved, at);
            assert!((0..7).all(|n| shim.kernel().pages.borrow()[&(moved / PAGE + n)].value == 7));
            // Where there is no room left, what is kept stays, since the program may have mapped over it.
            while shim.mmap(&ANON).is_ok() {}
            let more = shim.mremap(moved, 12 * PAGE, 13 * PAGE, MREMAP_MAYMOVE, 0);
            assert_eq!(more, Err(quell_shim::Errno::ENOMEM));
            let over_it = Map {
                addr: kept,
                flags: ANON.flags | MAP_FIXED,
                ..ANON
            };
            assert!(is_there(&shim, kept));
            assert_eq!(shim.mmap(&over_it), Ok(kept));
            shim.stop_keeping();
            assert!(is_there(&shim, kept + PAGE));
            assert!(!shim.kernel().slept.get(), "nobody waits for who is gone");
        }
    }
}

/// Check rule 10: whoever maps over what another thread is unmapping, while a third forks and has the lock, waits for that
/// first; and does not wait where nobody unmaps.
#[test]
fn rule_10_maps_while_forking() {
    for unmapping in [false, true] {
        let shim = leaked(pages(8));
        // SAFETY: the model's memory.
        unsafe {
            let at = shim.mmap(&ANON).unwrap();
            keep(shim, at, 1);
            let fixed = move || {
                as_thread(shim, 1, || shim.before_fork());
                // The first call finds out that the fork takes long.
                as_thread(shim, 2, || {
                    shim.mprotect(at, 0, 3).unwrap();
                    let other = shim.mmap(&Map { prot: 7, ..ANON }).unwrap();
                    shim.kernel().slept.set(false);
                    let map = Map {
                        addr: if unmapping { at } else { other },
                        flags: ANON.flags | MAP_FIXED,
                        ..ANON
                    };
                    shim.mmap(&map).unwrap();
                    assert_eq!(shim.kernel().slept.get(), unmapping);
                });
                as_thread(shim, 1, || shim.after_fork(false));
            };
            if unmapping {
                let once = std::cell::Cell::new(false);
                at_calls(shim, move || {
                    if !once.replace(true) {
                        fixed();
                    }
                });
                shim.change_unfollowed(at, PAGE, || Ok(())).unwrap();
            } else {
                fixed();
            }
        }
        shim.check().unwrap();
    }
}

/// Check rule 7: what a thread is just unmapping is left to it by another that unmaps a range around it, so that nobody is
/// given these addresses before they are free for good.
#[test]
fn rule_07_unmapped_twice() {
    let shim = leaked(pages(8));
    let three = of_pages(3);
    // SAFETY: the model's memory.
    unsafe {
        let at = shim.mmap(&three).unwrap();
        keep(shim, at + PAGE, 1);
        let done = std::cell::Cell::new(false);
        at_calls(shim, move || {
            if done.replace(true) {
                return;
            }
            as_thread(shim, 1, || {
                shim.munmap(at, three.len).unwrap();
                let there = is_there(shim, at + PAGE);
                assert!(there, "it is the other thread's to unmap");
                let mine = shim.mmap(&Map { prot: 7, ..three }).unwrap();
                shim.kernel().write(mine, 7);
            });
        });
        shim.change_unfollowed(at + PAGE, PAGE, || Ok(())).unwrap();
        let all = shim.kernel().pages.borrow();
        assert_eq!(all.values().filter(|page| page.attr.prot == 7).count(), 3);
        assert_eq!(all.values().filter(|page| page.value == 7).count(), 1);
    }
    shim.check().unwrap();
}

/// Check rule 10: children of fork find the tables whole, from threads and handlers, and pages that are
/// shared with them are given back and not copied.
#[test]
fn rule_10_fork() {
    must(&build!("forks"), "cache=2M");
    must(&build!("waits"), "");
    must(&build!("forklock"), "");
    must(&build!("orphans"), "cache=32M,zero=16M,keep=64M");
    let shim = over_the_model(pages(40));
    // SAFETY: the model's memory.
    unsafe {
        let map = Map {
            len: 4 * PAGE,
            ..ANON
        };
        let at = shim.mmap(&map).unwrap();
        (0..4).for_each(|n| shim.kernel().write(at + n * PAGE, 1));
        shim.before_fork();
        shim.kernel()
            .pages
            .borrow_mut()
            .values_mut()
            .for_each(|p| p.shared = p.present);
        shim.after_fork(false);
        shim.munmap(at, map.len).unwrap();
        assert_eq!(shim.mmap(&map), Ok(at));
        let all = shim.kernel().pages.borrow();
        assert!((0..4).all(|n| !all[&(at / PAGE + n)].present && all[&(at / PAGE + n)].value == 0));
    }
}

/// Check rule 10: in a copy of the process that the library is not told of it is off, and nobody waits.
#[test]
fn rule_10_unseen_copies() {
    must(&build!("copies"), "cache=2M");
}

/// Check rule 2: what is mapped is executable where the program has asked for that of all that it maps.
#[test]
fn rule_02_implied_rights() {
    must(&build!("implied"), "lifetimes=0");
}

/// Check rule 11: the library calls nothing of libc but the place of errno, functions on memory, the
/// one to register for fork, and the one that lists what is loaded, for a malloc_trim(3) that is passed on.
#[test]
fn rule_11_no_malloc() {
    let output = Command::new("nm")
        .args(["-D", "--undefined-only"])
        .arg(preload::library())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|l| l.split_whitespace().last())
        .collect();
    const ALLOWED: &[&str] = &[
        "__errno_location",
        "__register_atfork",
        "dl_iterate_phdr",
        "pthread_atfork",
        "environ",
        "memcpy",
        "memmove",
        "memset",
        "memcmp",
        "bcmp",
        "strlen",
    ];
    assert!(names.contains(&"__errno_location"), "{text}");
    assert!(names.iter().all(|n| ALLOWED.contains(n)), "{text}");
}

/// Check rule 11: descriptors of the library's are the program's to close, to replace and to need.
#[test]
fn rule_11_replaced_descriptors() {
    let exe = build!("replaced");
    must(&exe, "");
    let output = run(Command::new(&exe).arg("few"), "", LONGEST);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "few: {text}");
}

/// Check rule 12: it works before constructors and in signal handlers, also such as never return.
#[test]
fn rule_12_handlers() {
    must(&build!("early"), "cache=256K");
    for settings in ["", "rss=1G"] {
        must(&build!("small"), settings);
        must(&build!("small"), &format!("{settings},lifetimes=1"));
    }
}

/// Check rule 12: a signal handler that is given addresses which the thread below it has just unmapped, and has not said so
/// yet, can use them as any others.
#[test]
fn rule_12_given_out_again() {
    let shim = leaked(pages(8));
    let block = of_pages(4);
    // SAFETY: the model's memory.
    unsafe {
        let at = shim.mmap(&block).unwrap();
        keep(shim, at, 4);
        let calls: &'static std::cell::Cell<u32> = Box::leak(Box::default());
        at_calls(shim, move || {
            // Before munmap(2) it is there still, and after it no more.
            if !is_there(shim, at) && calls.replace(calls.get() + 1) == 0 {
                let special = Map { prot: 7, ..block };
                assert_eq!(shim.mmap(&special), Ok(at));
                shim.madvise(at, block.len, MADV_PAGEOUT).unwrap();
                shim.mprotect(at, block.len, 3).unwrap();
                shim.munmap(at, block.len).unwrap();
            }
        });
        let fixed = Map {
            addr: at,
            flags: ANON.flags | MAP_FIXED,
            ..block
        };
        assert_eq!(shim.mmap(&fixed), Ok(at));
        *shim.kernel().hook.borrow_mut() = None;
        assert!(calls.get() > 0, "the handler came");
        shim.munmap(at, block.len).unwrap();
        assert_eq!(shim.mmap(&block), Ok(at));
    }
    assert!(!shim.kernel().slept.get());
    shim.check().unwrap();
}

/// Check rule 13: the budgets hold, and nothing is kept while memory is short.
#[test]
fn rule_13_budget() {
    must(&build!("budget"), "cache=1M,keep=1M,zero=1M");
    must(&build!("bound"), "cache=256M,rss=64M");
    must(&build!("limits"), "cache=64M");
    let shim = over_the_model(pages(40));
    churn(&shim, 20);
    let kept = |shim: &Shim<Fake>| {
        let mut pages = 0;
        shim.each_region(|range, held| {
            if held == RangeUse::Dirty {
                pages += range.len() / PAGE;
            }
        });
        pages
    };
    assert_eq!(kept(&shim), 20);
    shim.kernel().short.set(true);
    assert_eq!(shim.kernel().memory_pressure(), Some(Pressure::Some));
    for _ in 0..70 {
        churn(&shim, 1);
    }
    assert_eq!(kept(&shim), 0);
    shim.kernel().short.set(false);
    for _ in 0..70 {
        churn(&shim, 2);
    }
    assert_eq!(kept(&shim), 2);
}

/// Check rule 13: the control group is that in which the process is now.
#[test]
fn rule_13_groups_that_change() {
    eprint!("{}", must(&build!("moved"), "cache=64M"));
}

/// Check rule 13: what is kept beyond a few megabytes the kernel can take.
#[test]
fn rule_13_offered() {
    must(&build!("offered"), "lifetimes=0,firm=4M");
    must(&build!("offered"), "lifetimes=0,firm=4M,trim=each");
}

/// Check rule 13: what MADV_FREE is dropped for stays within the budgets, though its old content looks like use.
#[test]
fn rule_13_freed() {
    let exe = build!("freed");
    for (settings, kb) in [("keep=1M,zero=off", "1024"), ("rss=24M", "24576")] {
        let mut command = Command::new(&exe);
        let output = run(command.arg(kb), settings, LONGEST);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{settings}: {text}");
    }
}

/// Check rule 13: under a bound of resident memory, too, no more stays of what was freed than a part of what memory is
/// free, since the kernel can't take it; and what the program has given back does not count.
#[test]
fn rule_13_freed_where_memory_is_short() {
    const LEN: usize = 16 * PAGE;
    let bounded = Settings {
        resident: 1 << 30,
        ..pages(8)
    };
    let shim = over_the_model(bounded);
    // A sixteenth of it is two blocks of 64 KB.
    shim.kernel().free.set(Some(16 * 2 * LEN));
    apart(&shim, 1, 90);
    let block = |n: usize| BASE + n * LEN;
    // SAFETY: the model's memory.
    let dropped = |at: usize| unsafe {
        shim.madvise(at, LEN, MADV_FREE).unwrap();
        let page = shim.kernel().pages.borrow()[&(at / PAGE)];
        // Where the kernel was asked, it has taken it, or may.
        page.present && !page.lazy
    };
    let all = [1, 2, 3, 4].map(|n| dropped(block(n)));
    assert_eq!(all, [true, true, false, false]);
    // SAFETY: the model's memory.
    unsafe { shim.kernel().madvise(block(1), LEN, MADV_DONTNEED) }.unwrap();
    // It may be some calls before it looks again.
    let again = |n: usize| {
        shim.kernel().write(block(n), 7);
        dropped(block(n))
    };
    assert!((0..8).any(|_| again(3)));
    assert!(!(0..8).any(|_| again(4)));
}

/// Check rule 13: what a size was used for before is no reason to zero memory for long that is not used any more.
#[test]
fn rule_13_thin_use() {
    must(&build!("thin"), "least=64K,lifetimes=2");
}

/// Check rule 13: what costs more time than it saves is left to the kernel.
#[test]
fn rule_13_worth_its_time() {
    // Up to which size zeroing pays is measured otherwise, and on a busy machine it may be less than the program gives back.
    must(&build!("worth"), "lifetimes=2,zero=64M");
}

/// Check rule 13: a limit that the program sets is no limit for the library to fill.
#[test]
fn rule_13_limits_that_come() {
    must(&build!("drains"), "");
}

/// Check rule 13: what is not needed does not stay.
#[test]
fn rule_13_spare() {
    for settings in ["", "rss=1G"] {
        must(&build!("spare"), settings);
    }
}

/// Check rule 14: mmap64 is mmap, and errno is as the kernel leaves it.
#[test]
fn rule_14_names_and_errno() {
    must(&build!("names"), "");
}

/// Runs a program of `trims.c` in one of its modes; what there is to say of it.
fn trims(exe: &std::path::Path, mode: &str, settings: &str) -> String {
    const SKIPPED: i32 = 77;
    let output = run(Command::new(exe).arg(mode), settings, LONGEST);
    let (out, status) = (String::from_utf8_lossy(&output.stdout), output.status);
    let text = String::from_utf8_lossy(&output.stderr);
    if status.code() == Some(SKIPPED) {
        return format!("SKIPPED trims.c, {mode}: memory is short here\n");
    }
    assert!(status.success(), "{mode}, {settings}: {status}: {text}");
    out.into_owned()
}

/// Check that malloc_trim(3) gives memory back where nothing else was asked for, where the library is off, where the process
/// has more in memory than it may, and where it can't be told whether memory is short.
#[test]
fn heap_trims_that_are_done() {
    let exe = build!("trims");
    for settings in [
        "",
        "malloc_trim=pass",
        "malloc_trim=drop,off",
        "malloc_trim=drop,rss=8M",
    ] {
        eprint!("{}", trims(&exe, "passes", settings));
    }
    eprint!("{}", trims(&exe, "filtered", "malloc_trim=drop"));
}

/// Check that it gives nothing back where that was asked for, in a child too, until memory is short.
#[test]
fn heap_trims_that_are_dropped() {
    let header = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests/rules");
    // of its own: another test builds it meanwhile
    let source = include_str!("rules/trims.c");
    let exe = program("trims_dropped", source, &[header]);
    eprint!("{}", trims(&exe, "drops", "malloc_trim=drop"));
    eprint!("{}", trims(&exe, "drops", "malloc_trim=drop,rss=1G"));
    eprint!("{}", trims(&exe, "short", "malloc_trim=drop"));
}

/// Check that a program which has a malloc_trim of its own calls that, whatever is asked for, and that one of a library of its
/// is called where nothing is asked for.
#[test]
fn heap_trims_of_others() {
    let header = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests/rules");
    let source = include_str!("rules/trims.c");
    // named to the loader, so that libraries would find it too
    let own = program("trims_own", source, &[header, "-DOWN", "-rdynamic"]);
    for settings in ["", "malloc_trim=drop"] {
        eprint!("{}", trims(&own, "own", settings));
    }
    let library = include_str!("rules/trims_library.c");
    let library = program("libtrims.so", library, &["-shared", "-fPIC"]);
    let library = library.display().to_string();
    let exe = program("trims_other", source, &[header, &library]);
    eprint!("{}", trims(&exe, "other", ""));
}
