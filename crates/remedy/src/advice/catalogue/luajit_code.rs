//! LuaJIT, whose machine code is filled, thrown away and made anew.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Protect,
    Mechanism::LockMmap,
    Mechanism::ShootdownWait,
];

pub(super) fn is_luajit(cost: &SeenCost) -> bool {
    let mut frames = cost.stack.iter();
    frames.any(|f| f.file.contains("luajit") || f.function.starts_with("lj_"))
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "luajit.machine-code",
    what: "LuaJIT makes its code writable and executable again for each trace that it compiles",
    seen_by: "mprotect by LuaJIT's code",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "larger limits, so that traces are not flushed and compiled again: \
             require(\"jit.opt\").start(\"maxtrace=20000\", \"maxmcode=65536\", \"sizemcode=1024\") first of all; or jit.off() \
             where traces never settle",
    why: "at either limit all traces are thrown away and compiled again: a case of a thousand loops did 130 times the work with \
          larger limits; an emulator lost \"any trace of lag\"",
    source: "https://github.com/zeta0134/LuaGB/pull/13",
    instead_of: &[],
    look: |scene| Sight::if_any_of(&[Mechanism::Protect], scene, TOUCHED_MECHANISMS, is_luajit),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that the protection of code which is compiled again and again fires it, also in a library without symbols.
    #[test]
    fn fires_on_traces() {
        let advised = fires(&ADVICE_ENTRY, &recorded("13-luajit-churn"));
        assert!(advised.place.contains("luajit21"), "{advised:?}");
        assert!(advised.cpu_ns > 1_000_000_000, "{advised:?}");
    }

    /// Check that it goes by LuaJIT's mprotect, where it is linked statically too.
    #[test]
    fn goes_by_evidence() {
        let stack = "mprotect (libc.so.6) < lj_mcode_reserve (nvim) < lj_asm_trace (nvim)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Protect, stack)]),
            "luajit",
        );
    }
}
