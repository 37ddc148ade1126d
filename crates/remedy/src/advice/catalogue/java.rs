//! Java's own files and mappings.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Scene, SeenCost};

/// Java's own mapping and unmapping of a file.
fn of_files(cost: &SeenCost) -> bool {
    cost.is_within("_unmap0") || cost.is_within("_map0")
}

/// Shared arenas of Java that are closed one by one.
pub(super) const JAVA_ARENA: AdviceEntry = AdviceEntry {
    id: "java.arena-close",
    what: "Java unmaps files one by one",
    seen_by: "unmaps below unmap0 of libnio.so, with the maps of map0",
    mechanisms: &[
        Mechanism::Unmap,
        Mechanism::Map,
        Mechanism::LockMmap,
        Mechanism::ShootdownWait,
    ],
    switch: "one shared Arena for all files that live equally long (a segment's), closed once (Lucene does so since July 2024); or \
             Arena.ofAuto, which the collector unmaps",
    why: "closing a shared arena also stops every thread for a handshake and deoptimizes its topmost frame, which is in no \
          figure of the kernel: with one arena for 16 files a case's readers did 1.4 times the work, without closing 2.1 times",
    source: "https://github.com/apache/lucene/pull/13570 https://github.com/dacapobench/dacapobench/issues/264",
    instead_of: &[],
    look: |entry, scene| {
        let mut unmaps = scene.costs_of(&[Mechanism::Unmap], |cost| cost.is_within("_unmap0"));
        unmaps.next()?;
        entry.costs(scene, of_files)
    },
};

/// A write by the JVM's own code into its memory: one to a file would be a call of the C library.
fn writes_counters(scene: &Scene, cost: &SeenCost) -> bool {
    let first = cost.stack.first();
    first.is_some_and(|f| f.file.starts_with("libjvm.so"))
        && cost.blocked_ns > 0
        && scene.has_mapped(cost.pid, |path| path.contains("/hsperfdata_"))
}

/// The JVM's counters, which lie in a mapped file on a disk.
pub(super) const JVM_HSPERFDATA: AdviceEntry = AdviceEntry {
    id: "jvm.hsperfdata",
    what: "the JVM waits for a disk as it updates its counters, mostly while all of its threads are stopped",
    seen_by: "sleeps for write-back in the JVM's own code, in a process that has /tmp/hsperfdata_* mapped",
    // Not that the JVM reads its archives and libraries at its start: these are major faults.
    mechanisms: &[Mechanism::Writeback],
    switch: "-XX:+PerfDisableSharedMem (jstat and jps no longer see the process), or /tmp as tmpfs",
    why: "a write into a mapped file waits while the page is written, and the counters are written in each pause of the \
          collector: hundreds of milliseconds, seen at Twitter, and gone with the flag",
    source: "https://www.evanjones.ca/jvm-mmap-pause.html",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, |cost| writes_counters(scene, cost)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{
        asleep, fires, fires_by_evidence, is_quiet, recorded, scene, with_file,
    };

    /// Check that the code that unmaps closed arenas fires it.
    #[test]
    fn fires_on_arenas() {
        let advised = fires(&JAVA_ARENA, &recorded("19-java-arena-close"));
        assert!(advised.place.contains("unmap0 (libnio.so)"), "{advised:?}");
    }

    /// Check that it goes by Java's unmapping of files.
    #[test]
    fn java_arena_goes_by_evidence() {
        let stack =
            "munmap (libc.so.6) < Java_sun_nio_ch_UnixFileDispatcherImpl_unmap0 (libnio.so) < ?";
        fires_by_evidence(&JAVA_ARENA, &scene(&[(Mechanism::Unmap, stack)]), "java");
    }

    /// Check that it goes by the JVM's own write with such a file mapped.
    #[test]
    fn jvm_hsperfdata_goes_by_evidence() {
        let stack =
            "PerfLongVariant::sample() (libjvm.so) < StatSampler::collect_sample() (libjvm.so)";
        let waiting = asleep(scene(&[(Mechanism::Writeback, stack)]));
        is_quiet(&JVM_HSPERFDATA, &waiting);
        let waiting = with_file(waiting, "/tmp/hsperfdata_root/71");
        fires_by_evidence(&JVM_HSPERFDATA, &waiting, "java");
        let file = "write (libc.so.6) < os::write(int, void const*, unsigned long) (libjvm.so)";
        let log = asleep(scene(&[(Mechanism::Writeback, file)]));
        is_quiet(&JVM_HSPERFDATA, &with_file(log, "/tmp/hsperfdata_root/71"));
    }
}
