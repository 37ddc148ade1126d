//! The JVM's counters, which lie in a mapped file on a disk.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Scene, SeenCost, Sight};

/// Not that the JVM reads its archives and libraries at its start: these are major faults.
const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::Writeback];

/// A write by the JVM's own code into its memory: one to a file would be a call of the C library.
fn writes_counters(scene: &Scene, cost: &SeenCost) -> bool {
    let first = cost.stack.first();
    first.is_some_and(|f| f.file.starts_with("libjvm.so"))
        && cost.blocked_ns > 0
        && scene.has_mapped(cost.pid, |path| path.contains("/hsperfdata_"))
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "jvm.hsperfdata",
    what: "the JVM waits for a disk as it updates its counters, mostly while all of its threads are stopped",
    seen_by: "sleeps for write-back in the JVM's own code, in a process that has /tmp/hsperfdata_* mapped",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "-XX:+PerfDisableSharedMem (jstat and jps no longer see the process), or /tmp as tmpfs",
    why: "a write into a mapped file waits while the page is written, and the counters are written in each pause of the \
          collector: hundreds of milliseconds, seen at Twitter, and gone with the flag",
    source: "https://www.evanjones.ca/jvm-mmap-pause.html",
    instead_of: &[],
    look: |scene| {
        Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, |cost| writes_counters(scene, cost)))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{asleep, fires_by_evidence, is_quiet, scene, with_file};

    /// Check that it goes by the JVM's own write with such a file mapped.
    #[test]
    fn goes_by_evidence() {
        let stack =
            "PerfLongVariant::sample() (libjvm.so) < StatSampler::collect_sample() (libjvm.so)";
        let waiting = asleep(scene(&[(Mechanism::Writeback, stack)]));
        is_quiet(&ADVICE_ENTRY, &waiting);
        let waiting = with_file(waiting, "/tmp/hsperfdata_root/71");
        fires_by_evidence(&ADVICE_ENTRY, &waiting, "java");
        let file = "write (libc.so.6) < os::write(int, void const*, unsigned long) (libjvm.so)";
        let log = asleep(scene(&[(Mechanism::Writeback, file)]));
        is_quiet(&ADVICE_ENTRY, &with_file(log, "/tmp/hsperfdata_root/71"));
    }
}
