//! Go's runtime and scheduler.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Scene, SeenCost};

/// Go 1.21's runtime, which had huge pages made.
pub(super) const GO_COLLAPSE: AdviceEntry = AdviceEntry {
    id: "go.collapse",
    what: "Go's runtime has huge pages made by madvise(MADV_COLLAPSE), with the lock of its heap held",
    seen_by: "madvise(MADV_COLLAPSE), with the reclaim and compaction in it, below Go's runtime",
    mechanisms: &[
        Mechanism::Collapse,
        Mechanism::CompactDirect,
        Mechanism::ReclaimDirect,
    ],
    switch: "build with Go 1.21.4 or later, whose runtime no longer asks for it",
    why: "such a call may reclaim and compact memory before it returns, and every goroutine that allocates waits: seen in \
          production with Go 1.21",
    source: "https://github.com/golang/go/issues/63334",
    instead_of: &[],
    look: |entry, scene| {
        entry.costs(scene, |cost| {
            cost.calls_any(&[
                "runtime.sysHugePageCollapse",
                "runtime.sysHugePageCollapseOS",
            ])
        })
    },
};

/// A goroutine's own read: C code runs on another stack, and the runtime gives its processor away meanwhile.
fn is_goroutine(cost: &SeenCost) -> bool {
    cost.calls_any(&["runtime.goexit"]) && !cost.calls_any(&["runtime.asmcgocall"])
}

fn reads_a_mapping(scene: &Scene, cost: &SeenCost) -> bool {
    is_goroutine(cost) && scene.has_mapped(cost.pid, |_| true)
}

/// Go, whose scheduler does not see that a goroutine waits for a page.
pub(super) const GO_MAPPED_FILE: AdviceEntry = AdviceEntry {
    id: "go.mapped-file",
    what: "goroutines wait for pages of a mapped file, and keep their processors meanwhile",
    seen_by: "major faults in goroutines, in a process that has a file mapped which holds no code",
    mechanisms: &[Mechanism::FaultMajor],
    switch: "read the file by pread (ReadAt) in place of the mapping; where it fits into memory: MAP_POPULATE or mlock; else \
             touch it from C, or more GOMAXPROCS",
    why: "a fault is no system call to Go's runtime: GOMAXPROCS of them at once stop every goroutine; the same reads from C, \
          which give the processor away, were 1.9 to 2.1 times as many",
    source: "https://github.com/erigontech/erigon/pull/23815 https://github.com/grafana/mimir/issues/3465",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, |cost| reads_a_mapping(scene, cost)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{
        asleep, fires, fires_by_evidence, is_quiet, recorded, scene, with_file,
    };

    /// Check that it goes by the runtime's call.
    #[test]
    fn go_collapse_goes_by_evidence() {
        let stack = "runtime.madvise.abi0 (api) < runtime.sysHugePageCollapseOS (api) < runtime.sysHugePageCollapse (api)";
        fires_by_evidence(&GO_COLLAPSE, &scene(&[(Mechanism::Collapse, stack)]), "api");
    }

    /// Check that goroutines that read a cold file through a mapping fire it.
    #[test]
    fn fires_on_a_cold_file() {
        let advised = fires(&GO_MAPPED_FILE, &recorded("07-go-mmap-fault"));
        assert_eq!(advised.place, "gommap: main.main.func1 (gommap)");
        assert!(advised.blocked_ns > 1_000_000_000, "{advised:?}");
    }

    /// Check that it goes by goroutines and a mapped file: a program's own pages are read at its start, and C code may wait.
    #[test]
    fn go_mapped_file_goes_by_evidence() {
        let made = |stack| asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        let stack = "main.read (store) < runtime.goexit.abi0 (store)";
        let reader = with_file(made(stack), "/data/index");
        fires_by_evidence(&GO_MAPPED_FILE, &reader, "store");
        is_quiet(&GO_MAPPED_FILE, &made(stack));
        let c = "touch (store) < runtime.asmcgocall.abi0 (store) < runtime.goexit.abi0 (store)";
        is_quiet(&GO_MAPPED_FILE, &with_file(made(c), "/data/index"));
    }
}
