//! Go, whose scheduler does not see that a goroutine waits for a page.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Scene, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultMajor];

/// A goroutine's own read: C code runs on another stack, and the runtime gives its processor away meanwhile.
pub(super) fn is_goroutine(cost: &SeenCost) -> bool {
    cost.calls_any(&["runtime.goexit"]) && !cost.calls_any(&["runtime.asmcgocall"])
}

fn reads_a_mapping(scene: &Scene, cost: &SeenCost) -> bool {
    is_goroutine(cost) && scene.has_mapped(cost.pid, |_| true)
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "go.mapped-file",
    what: "goroutines wait for pages of a mapped file, and keep their processors meanwhile",
    seen_by: "major faults in goroutines, in a process that has a file mapped which holds no code",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "read the file by pread (ReadAt) in place of the mapping; where it fits into memory: MAP_POPULATE or mlock; else \
             touch it from C, or more GOMAXPROCS",
    why: "a fault is no system call to Go's runtime: GOMAXPROCS of them at once stop every goroutine; the same reads from C, \
          which give the processor away, were 1.9 to 2.1 times as many",
    source: "https://github.com/erigontech/erigon/pull/23815 https://github.com/grafana/mimir/issues/3465",
    instead_of: &[],
    look: |scene| {
        Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, |cost| reads_a_mapping(scene, cost)))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{
        asleep, fires, fires_by_evidence, is_quiet, recorded, scene, with_file,
    };

    /// Check that goroutines that read a cold file through a mapping fire it.
    #[test]
    fn fires_on_a_cold_file() {
        let advised = fires(&ADVICE_ENTRY, &recorded("07-go-mmap-fault"));
        assert_eq!(advised.place, "gommap: main.main.func1 (gommap)");
        assert!(advised.blocked_ns > 1_000_000_000, "{advised:?}");
    }

    /// Check that it goes by goroutines and a mapped file: a program's own pages are read at its start, and C code may wait.
    #[test]
    fn goes_by_evidence() {
        let made = |stack| asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        let stack = "main.read (store) < runtime.goexit.abi0 (store)";
        let reader = with_file(made(stack), "/data/index");
        fires_by_evidence(&ADVICE_ENTRY, &reader, "store");
        is_quiet(&ADVICE_ENTRY, &made(stack));
        let c = "touch (store) < runtime.asmcgocall.abi0 (store) < runtime.goexit.abi0 (store)";
        is_quiet(&ADVICE_ENTRY, &with_file(made(c), "/data/index"));
    }
}
