//! cAdvisor and others that clear the accessed bits of a process.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Scene, SeenHolder, Sight};

/// Writes to /proc/PID/clear_refs.
fn clears_refs(holder: &SeenHolder) -> bool {
    holder.doing.starts_with("write /proc/") && holder.doing.ends_with("/clear_refs")
}

/// The processes that do, which mostly read smaps after it.
pub(super) fn clearing_pids(scene: &Scene) -> Vec<u32> {
    let holders = scene.holders.iter().filter(|h| clears_refs(h));
    holders.map(|h| h.pid).collect()
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "proc.clear-refs",
    what: "another process clears the accessed bits of this one's pages, and holds its lock meanwhile",
    seen_by: "waits for the lock of an address space that who writes /proc/PID/clear_refs holds",
    mechanisms: &[Mechanism::LockMmap],
    switch: "cAdvisor: --disable_metrics=referenced_memory (container_referenced_bytes is on by default); of another monitor \
             the same metric",
    why: "it walks all page tables with the lock held for writing, so that mmap, munmap and first touches wait: worst requests \
          went from 60 ms to 5 s on 5,000 instances of 100 GB, and back without the metric",
    source: "https://github.com/google/cadvisor/issues/3679 https://github.com/google/cadvisor/issues/3670",
    instead_of: &[],
    look: |scene| {
        let clearers = clearing_pids(scene);
        let theirs = scene.holders.iter().filter(|h| {
            h.mechanism == Mechanism::LockMmap
                && clearers.contains(&h.pid)
                && h.doing.contains(" /proc/")
        });
        let clearing = scene.holders.iter().filter(|h| clears_refs(h));
        let place = Sight::of_holders(clearing)?.place;
        Some(Sight {
            place,
            ..Sight::of_holders(theirs)?
        })
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::advise;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, waits_for};

    /// Check that the monitor is named with its call, and that its reading of smaps is no advice of its own.
    #[test]
    fn fires_on_a_monitor() {
        let scene = recorded("04-cadvisor-clear-refs");
        let advised = fires(&ADVICE_ENTRY, &scene);
        assert!(
            advised.place.starts_with("python3: write /proc/"),
            "{advised:?}"
        );
        assert!(advised.because.contains("the longest"), "{advised:?}");
        assert_eq!(advise(&scene).len(), 1);
    }

    /// Check that the holder's call fires it.
    #[test]
    fn goes_by_evidence() {
        let scene = waits_for("cadvisor", "write /proc/12/clear_refs");
        fires_by_evidence(&ADVICE_ENTRY, &scene, "victim");
    }
}
