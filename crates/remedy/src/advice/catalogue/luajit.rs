//! LuaJIT's machine code.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost};

fn is_luajit(cost: &SeenCost) -> bool {
    let mut frames = cost.stack.iter();
    frames.any(|f| f.file.contains("luajit") || f.function.starts_with("lj_"))
}

/// LuaJIT, whose machine code is filled, thrown away and made anew.
pub(super) const LUAJIT_CODE: AdviceEntry = AdviceEntry {
    id: "luajit.machine-code",
    what: "LuaJIT makes its code writable and executable again for each trace that it compiles",
    seen_by: "mprotect by LuaJIT's code",
    mechanisms: &[
        Mechanism::Protect,
        Mechanism::LockMmap,
        Mechanism::ShootdownWait,
    ],
    switch: "larger limits, so that traces are not flushed and compiled again: \
             require(\"jit.opt\").start(\"maxtrace=20000\", \"maxmcode=65536\", \"sizemcode=1024\") first of all; or jit.off() \
             where traces never settle",
    why: "at either limit all traces are thrown away and compiled again: a case of a thousand loops did 130 times the work with \
          larger limits; an emulator lost \"any trace of lag\"",
    source: "https://github.com/zeta0134/LuaGB/pull/13",
    instead_of: &[],
    look: |entry, scene| entry.costs_if_any(&[Mechanism::Protect], scene, is_luajit),
};

const SEARCH_FUNCTIONS: &[&str] = &["mcode_alloc", "mcode_alloc_at", "lj_mcode_reserve"];

/// LuaJIT, which finds no room for code within its jumps' reach.
pub(super) const LUAJIT_ROOM: AdviceEntry = AdviceEntry {
    id: "luajit.no-room",
    what: "LuaJIT searches for room for its code: it maps, looks where that is, and unmaps",
    seen_by: "mmap and munmap below LuaJIT's mcode_alloc",
    mechanisms: &[Mechanism::Map, Mechanism::Unmap, Mechanism::LockMmap],
    switch: "a LuaJIT 2.1 of March 2017 or later, which searches less; one large reserve early (sizemcode as large as maxmcode) \
             before the program maps much; jit.off() where it never finds any",
    why: "code has to lie within 2 GB (on arm64 128 MB) of the library: where that is taken, up to 32 mmaps and munmaps are made \
          for nothing at each trace, and all threads wait for the lock",
    source: "https://github.com/LuaJIT/LuaJIT/issues/283 https://github.com/LuaJIT/LuaJIT/issues/285",
    instead_of: &[],
    look: |entry, scene| {
        entry.costs_if_any(&[Mechanism::Unmap], scene, |cost| {
            cost.calls_any(SEARCH_FUNCTIONS)
        })
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that the protection of code which is compiled again and again fires it, also in a library without symbols.
    #[test]
    fn fires_on_traces() {
        let advised = fires(&LUAJIT_CODE, &recorded("13-luajit-churn"));
        assert!(advised.place.contains("luajit21"), "{advised:?}");
        assert!(advised.cpu_ns > 1_000_000_000, "{advised:?}");
    }

    /// Check that it goes by LuaJIT's mprotect, where it is linked statically too.
    #[test]
    fn luajit_code_goes_by_evidence() {
        let stack = "mprotect (libc.so.6) < lj_mcode_reserve (nvim) < lj_asm_trace (nvim)";
        fires_by_evidence(
            &LUAJIT_CODE,
            &scene(&[(Mechanism::Protect, stack)]),
            "luajit",
        );
    }

    /// Check that it goes by the search.
    #[test]
    fn luajit_room_goes_by_evidence() {
        let stack = "munmap (libc.so.6) < mcode_alloc (libluajit-5.1.so.2) < lj_asm_trace (libluajit-5.1.so.2)";
        fires_by_evidence(
            &LUAJIT_ROOM,
            &scene(&[(Mechanism::Unmap, stack)]),
            "traffic_server",
        );
    }
}
