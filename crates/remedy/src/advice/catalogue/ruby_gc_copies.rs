//! Ruby's collector, which writes marks and ages into the pages of objects.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultCow];

/// As they are called in gc.c of Ruby 2.7 to 3.4.
const COLLECTOR_FUNCTIONS: &[&str] = &[
    "gc_start",
    "garbage_collect",
    "gc_marks",
    "gc_marks_rest",
    "gc_marks_continue",
    "gc_mark_children",
    "gc_mark_stacked_objects",
    "gc_sweep",
    "gc_sweep_step",
    "gc_sweep_page",
    "gc_sweep_plane",
    "rb_gc_start",
];

fn is_collector(cost: &SeenCost) -> bool {
    (cost.is_in("libruby") || cost.is_in("ruby")) && cost.calls_any(COLLECTOR_FUNCTIONS)
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "ruby.gc-copies",
    what: "Ruby's garbage collector writes into objects that processes share since a fork, and each page is copied",
    seen_by: "copies at a first write (fault.cow) below Ruby's collector",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "Process.warmup (Ruby 3.3) in the parent before the first fork; before that version GC.compact and several \
             GC.start; Puma: preload_app! and fork_worker",
    why: "Process.warmup makes all objects old and compacts them, so that collections of children leave them alone: a Rails \
          application's workers took 33 % less memory with it",
    source: "https://github.com/ruby/ruby/pull/7346 https://github.com/soutaro/steep/pull/1665",
    instead_of: &[],
    look: |scene| Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, is_collector)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by the collector.
    #[test]
    fn goes_by_evidence() {
        let stack = "gc_mark_children (libruby.so.3.2) < gc_marks_rest (libruby.so.3.2) < gc_start (libruby.so.3.2)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::FaultCow, stack)]),
            "puma",
        );
    }
}
