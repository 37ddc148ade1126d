//! mmap(2), by the bytes.

use quell_shim::linux::*;
use quell_shim::{Errno, Map, PAGE, Range};

use super::World;
use super::fake::{Attr, BASE, END, lasting};
use super::ops::PLAIN;
use super::promise::numbers;

impl World {
    /// After mmap(2): `expected` says whether it should be there.
    pub(super) fn mapped(
        &self,
        map: &Map,
        done: Result<usize, Errno>,
        expected: Result<(), Errno>,
    ) {
        match (done, expected) {
            (Ok(at), Ok(())) => {
                let len = map.len.next_multiple_of(PAGE);
                let range = Range {
                    start: at,
                    end: at + len,
                };
                let fixed = map.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
                if fixed && at != map.addr {
                    self.fail("it is not where it should be");
                }
                let free = self.promise.borrow().none_live(range);
                if !free && map.flags & MAP_FIXED == 0 && !self.is_busy(range) {
                    self.fail("it lies over something that the program has");
                }
                let attr = Attr {
                    prot: map.prot,
                    flags: lasting(map.flags),
                    advice: 0,
                    locked: false,
                    name: 0,
                };
                self.promise.borrow_mut().map(range, attr);
                self.set_unseen(range, false);
            }
            (Err(found), Err(wanted)) if found == wanted => {}
            (Err(Errno::ENOMEM), Ok(())) if self.loose.get() => {}
            // Another thread has taken the last room, or made some.
            (Err(Errno::EEXIST), Ok(()))
                if self.loose.get() && map.flags & MAP_FIXED_NOREPLACE != 0 => {}
            (Ok(_), Err(_)) if self.loose.get() => self.mapped(map, done, Ok(())),
            (Err(_), Err(_)) if self.loose.get() => {}
            (done, expected) => self.fail(&format!("mmap: {done:x?} instead of {expected:?}")),
        }
    }

    pub(super) fn map_anywhere(&self) {
        let (prot, flags) = self.prot_and_flags();
        let pages = self.pages().max(1);
        let map = Map {
            addr: 0,
            len: pages * PAGE - self.byte() % 3,
            prot,
            flags,
            fd: -1,
            offset: 0,
        };
        let room = self.has_gap(pages);
        self.note(format!("mmap {pages} pages, {prot}, {flags:#x}"));
        // SAFETY: the model's memory.
        let done = self.call(None, false, || unsafe { self.shim.mmap(&map) });
        self.note(format!("= {done:x?}"));
        self.mapped_in_gap(&map, done, room);
    }

    /// After mmap(2) of no fixed address: `room` says whether there was a gap for it before.
    fn mapped_in_gap(&self, map: &Map, done: Result<usize, Errno>, room: bool) {
        // What it has leaked on its way takes room.
        let room = room && (done.is_ok() || self.has_gap(map.len.div_ceil(PAGE)));
        let expected = if room { Ok(()) } else { Err(Errno::ENOMEM) };
        self.mapped(map, done, expected);
    }

    pub(super) fn map_hint(&self) {
        let (prot, flags) = self.prot_and_flags();
        let range = self.any_range();
        let addr = range.start + self.byte() % 2;
        let map = Map {
            addr,
            len: range.len(),
            prot,
            flags,
            fd: -1,
            offset: 0,
        };
        let pages = self.free();
        let free = numbers(range).all(|n| pages[n]);
        let room = self.has_gap(range.len() / PAGE);
        self.note(format!(
            "mmap at best {addr:#x}, {} pages, {prot}, {flags:#x}",
            range.len() / PAGE
        ));
        // SAFETY: the model's memory.
        let done = self.call(None, false, || unsafe { self.shim.mmap(&map) });
        self.note(format!("= {done:x?}"));
        let aligned = |at: usize| self.setup.hint > 0 && at.is_multiple_of(self.setup.hint * PAGE);
        let taken = done.is_ok_and(|at| at == range.start || aligned(at));
        // What the call has leaked on its way is in the way there, and what it has just mapped is no leak.
        let is_new = |n: usize| {
            let at = BASE + n * PAGE;
            done.is_ok_and(|new| (new..new + range.len()).contains(&at))
        };
        let leaked = self.leaked();
        let in_the_way = numbers(range).any(|n| leaked[n] && !is_new(n));
        if free && !in_the_way && !self.loose.get() && !taken {
            self.fail("the hint is free, and not taken");
        }
        self.mapped_in_gap(&map, done, room);
    }

    pub(super) fn map_at(&self, how: i32) {
        let (prot, flags) = self.prot_and_flags();
        let range = self.mixed_range();
        if self.keeps_off(range) {
            return;
        }
        let map = Map {
            addr: range.start,
            len: range.len(),
            prot,
            flags: flags | how,
            fd: -1,
            offset: 0,
        };
        let (whole, free) = {
            let promise = self.promise.borrow();
            (promise.all_live(range), promise.none_live(range))
        };
        let replace = how == MAP_FIXED;
        self.note(format!("mmap at {range:x?}, {prot}, {:#x}", flags | how));
        // SAFETY: the model's memory.
        let done = self.call(
            Some(range).filter(|_| whole || replace),
            replace && !whole,
            || unsafe { self.shim.mmap(&map) },
        );
        self.note(format!("= {done:x?}"));
        let free = free && (done.is_ok() || !self.has_leak(range));
        let expected = if replace || free {
            Ok(())
        } else {
            Err(Errno::EEXIST)
        };
        self.mapped(&map, done, expected);
    }

    /// What the kernel refuses must be refused.
    pub(super) fn map_bad(&self) {
        let good = Map {
            addr: 0,
            len: PAGE,
            prot: 3,
            flags: PLAIN,
            fd: -1,
            offset: 0,
        };
        let (map, expected) = match self.byte() % 7 {
            0 => (Map { len: 0, ..good }, Errno::EINVAL),
            1 => (Map { offset: 1, ..good }, Errno::EINVAL),
            2 => (
                Map {
                    len: usize::MAX,
                    ..good
                },
                Errno::ENOMEM,
            ),
            3 => (
                Map {
                    addr: BASE + 1,
                    flags: PLAIN | MAP_FIXED,
                    ..good
                },
                Errno::EINVAL,
            ),
            4 => (
                Map {
                    flags: MAP_ANONYMOUS,
                    ..good
                },
                Errno::EINVAL,
            ),
            5 => (
                Map {
                    addr: END,
                    flags: PLAIN | MAP_FIXED,
                    ..good
                },
                Errno::ENOMEM,
            ),
            _ => (
                Map {
                    addr: usize::MAX - PAGE + 1,
                    len: 2 * PAGE,
                    flags: PLAIN | MAP_FIXED,
                    ..good
                },
                Errno::ENOMEM,
            ),
        };
        self.note(format!("{map:x?}"));
        // SAFETY: the model's memory.
        let done = self.call(None, true, || unsafe { self.shim.mmap(&map) });
        if done != Err(expected) && !(self.loose.get() && done == Err(Errno::ENOMEM)) {
            self.fail(&format!("mmap: {done:x?} instead of {expected:?}"));
        }
    }
}
