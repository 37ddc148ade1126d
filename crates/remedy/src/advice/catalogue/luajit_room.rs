//! LuaJIT, which finds no room for code within its jumps' reach.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::Map, Mechanism::Unmap, Mechanism::LockMmap];
const SEARCH_FUNCTIONS: &[&str] = &["mcode_alloc", "mcode_alloc_at", "lj_mcode_reserve"];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "luajit.no-room",
    what: "LuaJIT searches for room for its code: it maps, looks where that is, and unmaps",
    seen_by: "mmap and munmap below LuaJIT's mcode_alloc",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "a LuaJIT 2.1 of March 2017 or later, which searches less; one large reserve early (sizemcode as large as maxmcode) \
             before the program maps much; jit.off() where it never finds any",
    why: "code has to lie within 2 GB (on arm64 128 MB) of the library: where that is taken, up to 32 mmaps and munmaps are made \
          for nothing at each trace, and all threads wait for the lock",
    source: "https://github.com/LuaJIT/LuaJIT/issues/283 https://github.com/LuaJIT/LuaJIT/issues/285",
    instead_of: &[],
    look: |scene| {
        Sight::if_any_of(&[Mechanism::Unmap], scene, TOUCHED_MECHANISMS, |cost| {
            cost.calls_any(SEARCH_FUNCTIONS)
        })
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by the search.
    #[test]
    fn goes_by_evidence() {
        let stack = "munmap (libc.so.6) < mcode_alloc (libluajit-5.1.so.2) < lj_asm_trace (libluajit-5.1.so.2)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Unmap, stack)]),
            "traffic_server",
        );
    }
}
