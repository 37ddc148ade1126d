//! mmap(2): served from kept memory where that can be.

use crate::kernel::{Errno, Kernel, Map};
use crate::linux::*;
use crate::region::Kind;
use crate::shim::{Locked, Shim};
use crate::sync::Ordering;
use crate::table::HabitOf;
use crate::{PAGE, Range};

/// The sources from which a mapping may be served.
enum ServeSource {
    /// This is the program's from now on; and whether it was offered to the kernel before.
    Served(Range, bool),
    /// There is something, perhaps, and it pays to look whether its pages are pinned.
    NotLookedAt,
    Nothing,
}

impl<K: Kernel> Shim<K> {
    /// mmap(2).
    ///
    /// # Safety
    ///
    /// As mmap(2): with MAP_FIXED, whatever is there is gone.
    ///
    /// # Errors
    ///
    /// Those of mmap(2), and ENOMEM where a fixed address could not be made free.
    pub unsafe fn mmap(&self, map: &Map) -> Result<usize, Errno> {
        self.counters.mmap.count_one();
        if self.is_off() {
            // SAFETY: the caller's own call.
            return unsafe { self.kernel.mmap(map) };
        }
        let replaces = map.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == MAP_FIXED;
        // SAFETY: the caller's own call.
        let call = || unsafe { self.map_unobstructed(map) };
        match Range::from_addr_len(map.addr, map.len) {
            Some(range) if replaces => self.replace_range(range, call),
            Some(range) if map.flags & MAP_FIXED_NOREPLACE != 0 => {
                self.keep_others_away(range, || {
                    // An anchor may be on its way there.
                    self.wait_for_others(range)?;
                    self.unmap_kept_in(range)?;
                    call()
                })
            }
            _ => call(),
        }
    }

    /// The same; where the address is fixed, once nothing is in the way there.
    unsafe fn map_unobstructed(&self, map: &Map) -> Result<usize, Errno> {
        let fixed = map.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
        let Some(kind) = self.keepable_kind(map) else {
            if map.flags & MAP_GROWSDOWN != 0 {
                // Kept memory below it would be in its way, now or later.
                self.stop_keeping();
            }
            // SAFETY: the caller's own call.
            let at = unsafe { self.map_anew(map) }?;
            self.forget_new(at, map.len);
            return Ok(at);
        };
        let Some(range) = Range::from_addr_len(map.addr & !(PAGE - 1), map.len) else {
            // SAFETY: the caller's own call; the kernel refuses it.
            return unsafe { self.kernel.mmap(map) };
        };
        let prefault = map.len <= self.settings().prefault && kind.is_read_write();
        let fill = prefault || map.flags & MAP_POPULATE != 0;
        if !fixed
            && kind.is_read_write()
            && let Some(at) = self.serve_zeroed(range, kind)
        {
            if fill {
                // SAFETY: the program's new mapping. If it can't be filled now, it is when it is used.
                let _ = unsafe { self.kernel.madvise(at, range.len(), MADV_POPULATE_WRITE) };
            }
            return Ok(at);
        }
        let mut map = *map;
        if fill {
            map.flags |= MAP_POPULATE;
        }
        let mut with_anchor = !fixed && map.addr == 0 && self.brings_anchor(range.len(), kind);
        if with_anchor {
            map.len = range.len() + PAGE;
        }
        // SAFETY: the caller's own call, but for MAP_POPULATE, which only fills pages, and a page more at its end.
        let mut done = unsafe { self.map_anew(&map) };
        if with_anchor && done.is_err() {
            // There is room for the program's own mapping, perhaps, and not for more.
            with_anchor = false;
            map.len = range.len();
            // SAFETY: as above.
            done = unsafe { self.map_anew(&map) };
        }
        let at = done?;
        let new = Range::of_len(at, range.len());
        // SAFETY: the new mapping is nobody's yet, and the advice changes no content.
        let huge = kind.huge && unsafe { self.kernel.madvise(at, map.len, MADV_HUGEPAGE) }.is_ok();
        self.note_mapped(new, |table| {
            if self.is_retired() {
                table.note_mapped_anew(new);
            } else {
                table.note_live(new, Kind { huge, ..kind });
                table.habit_of(HabitOf::Mappings, new.len()).note_begin();
            }
        });
        if with_anchor {
            let page = Range::page_at(new.end);
            self.bring_anchor(page, Kind { huge, ..kind });
        }
        Ok(at)
    }

    /// Whether a new mapping of this length gets a page more for an anchor. Not where its length is of whole huge pages:
    /// the kernel puts such mappings where they can have some, and one of another length elsewhere.
    fn brings_anchor(&self, len: usize, kind: Kind) -> bool {
        const HUGE_PAGE_BYTES: usize = 2 << 20;
        let settings = self.settings();
        if !kind.is_read_write()
            || settings.cache < len
            || len < settings.least
            || len.is_multiple_of(HUGE_PAGE_BYTES)
            || !self.anchors_are_wanted.load(Ordering::Relaxed)
        {
            return false;
        }
        let brings = self.try_locked(|table| {
            // One is enough where others lie beside it.
            let habit = table.habit_of(HabitOf::Mappings, len);
            let brings = core::mem::take(&mut habit.brings_anchor);
            brings && !table.anchors.are_full()
        });
        matches!(brings, Locked::Done(true))
    }

    /// Whatever is known of addresses that the kernel has just given out is out of date: they were
    /// unmapped by a raw system call.
    pub(super) fn forget_new(&self, at: usize, len: usize) {
        if let Some(new) = Range::from_addr_len(at, len) {
            self.note_mapped(new, |table| {
                table.note_mapped_anew(new);
            });
        }
    }

    /// The kind of a mapping, if it is one that the table is to know, as it may be kept later; so is one that can't be read or
    /// written, for mprotect(2) may allow that. None with any other flag, such as MAP_STACK, and once nothing is to be kept any
    /// more.
    fn keepable_kind(&self, map: &Map) -> Option<Kind> {
        const KNOWN_FLAGS: i32 = MAP_PRIVATE
            | MAP_ANONYMOUS
            | MAP_NORESERVE
            | MAP_POPULATE
            | MAP_FIXED
            | MAP_FIXED_NOREPLACE;
        let plain = map.flags & !KNOWN_FLAGS == 0
            && map.flags & (MAP_PRIVATE | MAP_ANONYMOUS) == MAP_PRIVATE | MAP_ANONYMOUS;
        let prot = map.prot & !(PROT_READ | PROT_WRITE) == 0;
        let offset = map.offset % PAGE as i64 == 0;
        (plain && prot && offset && !self.is_retired()).then_some(Kind {
            prot: map.prot as u8,
            noreserve: map.flags & MAP_NORESERVE != 0,
            huge: self.settings().huge > 0 && map.len >= self.settings().huge,
            advised: false,
            named: false,
        })
    }

    /// A mapping of the kernel's. Where it has no room, kept memory is unmapped, and it is asked again.
    pub(super) unsafe fn map_anew(&self, map: &Map) -> Result<usize, Errno> {
        // The kernel takes a hint if nothing is there, so nothing must be.
        if map.addr != 0
            && map.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == 0
            && let Some(hint) = Range::from_addr_len(map.addr & !(PAGE - 1), map.len)
        {
            let _ = self.unmap_kept_in(hint);
        }
        // SAFETY: the caller's own call.
        self.with_room(|| unsafe { self.kernel.mmap(map) })
    }

    /// Something kept, zeroed. A hint of an address is taken if just that is kept, or as the settings say.
    fn serve_zeroed(&self, range: Range, kind: Kind) -> Option<usize> {
        let settings = self.settings();
        let len = range.len();
        if len < settings.least || self.counters.dirty_bytes.get() == 0 || self.is_crowded() {
            return None;
        }
        self.look_for_bytes(len);
        // A hint that is no multiple of the set alignment is meant as it is, and so is one of 32 bits: LuaJIT asks for
        // an address near its code, or low.
        let hint = settings.hint;
        let low = range.start <= u32::MAX as usize;
        let meant = hint > 0 && (low || !range.start.is_multiple_of(hint));
        let hint = if meant { 0 } else { hint };
        let find = |looked: bool| {
            self.try_locked(|table| {
                if !table.is_trusted(HabitOf::Mappings, len, settings.lifetimes) {
                    return ServeSource::Nothing;
                }
                // Before a large region is cut where a fresh one would fit, and mappings of its size find none. Where
                // the look would cost more than it saves, fresh ones wait for more of them.
                if !looked && self.pays_to_look(len, table.fresh.bytes) {
                    return ServeSource::NotLookedAt;
                }
                let Some((at, offered)) = table.serve_kept(len, kind, range.start, hint) else {
                    if range.start != 0 && table.is_fresh_at(range.start) {
                        // It is in the way of this mapping, and goes: it was kept for nothing.
                        table.habit_of(HabitOf::Mappings, len).was_mistaken();
                    }
                    return ServeSource::Nothing;
                };
                table.habit_of(HabitOf::Mappings, len).note_begin();
                ServeSource::Served(at, offered)
            })
        };
        let mut found = find(false);
        if matches!(found, Locked::Done(ServeSource::NotLookedAt)) {
            self.look_for_pins();
            found = find(true);
            // Memory that it has found free of pins was marked, and is not offered any more.
            self.offer_if_too_firm();
        }
        let Locked::Done(ServeSource::Served(at, offered)) = found else {
            return None;
        };
        if self.is_off() {
            return None;
        }
        // SAFETY: it was taken from kept memory, so it is nobody's until we return.
        if !unsafe { self.clear_kept(at, kind) } {
            self.hand_over(at, kind, offered);
            return None;
        }
        self.counters.mmap_served.count_one();
        Some(at.start)
    }
}
