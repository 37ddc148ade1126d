//! Interpreters that write into objects which processes share since a fork.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost};

/// In versions from 3.7 to 3.14.
const PYTHON_COLLECTOR_FUNCTIONS: &[&str] = &[
    "gc_collect_main",
    "gc_collect_generations",
    "gc_collect_region",
    "deduce_unreachable",
    "update_refs",
    "subtract_refs",
    "visit_decref",
    "move_unreachable",
    "visit_reachable",
];

/// CPython's collector, which writes into each object that it looks at.
pub(super) const PYTHON_GC_COPIES: AdviceEntry = AdviceEntry {
    id: "python.gc-copies",
    what: "Python's garbage collector writes into objects that processes share since a fork, and each page is copied",
    seen_by: "copies at a first write (fault.cow) below CPython's collector",
    mechanisms: &[Mechanism::FaultCow, Mechanism::FaultEntry],
    switch: "gc.disable() in the parent, gc.freeze() right before it forks, gc.enable() in the child; with Gunicorn: \
             preload_app and a hook that calls gc.freeze()",
    why: "a collection writes two words before every object that it visits; with gc.freeze() 24 workers took 31 % less memory \
          (PSS)",
    source: "https://github.com/frappe/frappe/pull/21474 https://github.com/python/cpython/issues/75739",
    instead_of: &["python.object-copies"],
    look: |entry, scene| {
        entry.costs_if_any(&[Mechanism::FaultCow], scene, |cost| {
            cost.calls_any(PYTHON_COLLECTOR_FUNCTIONS)
        })
    },
};

/// CPython's reference counts, which make a write of each read.
pub(super) const PYTHON_OBJECT_COPIES: AdviceEntry = AdviceEntry {
    id: "python.object-copies",
    what: "processes read Python objects that they share since a fork; the reference counts are written, and each page is copied",
    seen_by: "copies at a first write (fault.cow) below CPython's interpreter, after a fork by a process of that name",
    mechanisms: &[Mechanism::FaultCow],
    switch: "keep what workers share in arrays (NumPy, Arrow, torch tensors, shared memory) and not in lists, dicts or data \
             frames of objects; or fork before it is loaded",
    why: "a dataset of Python objects is copied page by page into each DataLoader worker, as it is read; the same data as one \
          array stays shared",
    source: "https://github.com/pytorch/pytorch/issues/5902 https://github.com/pytorch/pytorch/issues/20433",
    instead_of: &[],
    look: |entry, scene| {
        // The pages are copied in the children, which have other pids than the process that forked, and its name.
        let forkers = scene.forks.iter().map(|f| f.pid);
        let forkers: Vec<u32> = forkers.collect();
        let names = scene.costs.iter().filter(|c| forkers.contains(&c.pid));
        let names: Vec<&str> = names.map(|c| c.comm.as_str()).collect();
        entry.costs(scene, |cost| {
            cost.is_within("_PyEval_") && names.contains(&cost.comm.as_str())
        })
    },
};

/// As they are called in gc.c of Ruby 2.7 to 3.4.
const RUBY_COLLECTOR_FUNCTIONS: &[&str] = &[
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

fn is_ruby_collector(cost: &SeenCost) -> bool {
    (cost.is_in("libruby") || cost.is_in("ruby")) && cost.calls_any(RUBY_COLLECTOR_FUNCTIONS)
}

/// Ruby's collector, which writes marks and ages into the pages of objects.
pub(super) const RUBY_GC_COPIES: AdviceEntry = AdviceEntry {
    id: "ruby.gc-copies",
    what: "Ruby's garbage collector writes into objects that processes share since a fork, and each page is copied",
    seen_by: "copies at a first write (fault.cow) below Ruby's collector",
    mechanisms: &[Mechanism::FaultCow],
    switch: "Process.warmup (Ruby 3.3) in the parent before the first fork; before that version GC.compact and several \
             GC.start; Puma: preload_app! and fork_worker",
    why: "Process.warmup makes all objects old and compacts them, so that collections of children leave them alone: a Rails \
          application's workers took 33 % less memory with it",
    source: "https://github.com/ruby/ruby/pull/7346 https://github.com/soutaro/steep/pull/1665",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, is_ruby_collector),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, is_quiet, recorded, scene};

    /// Check that workers which collect the objects of their parent fire it.
    #[test]
    fn fires_on_workers() {
        let advised = fires(&PYTHON_GC_COPIES, &recorded("python-gc-fork"));
        assert!(advised.place.contains("python"), "{advised:?}");
    }

    /// Check that it goes by the collector.
    #[test]
    fn python_gc_copies_goes_by_evidence() {
        let stack = "update_refs (libpython3.11.so.1.0) < gc_collect_main (libpython3.11.so.1.0)";
        fires_by_evidence(
            &PYTHON_GC_COPIES,
            &scene(&[(Mechanism::FaultCow, stack)]),
            "gunicorn",
        );
    }

    /// Check that workers which read a large list of their parent's fire it.
    #[test]
    fn python_object_copies_fires_on_workers() {
        fires(&PYTHON_OBJECT_COPIES, &recorded("python-list-fork"));
    }

    /// Check that it goes by the interpreter, and takes a fork.
    #[test]
    fn python_object_copies_goes_by_evidence() {
        let stack =
            "list_item (libpython3.11.so.1.0) < _PyEval_EvalFrameDefault (libpython3.11.so.1.0)";
        let mut workers = scene(&[(Mechanism::FaultCow, stack)]);
        fires_by_evidence(&PYTHON_OBJECT_COPIES, &workers, "python3");
        workers.forks.clear();
        is_quiet(&PYTHON_OBJECT_COPIES, &workers);
    }

    /// Check that it goes by the collector.
    #[test]
    fn ruby_gc_copies_goes_by_evidence() {
        let stack = "gc_mark_children (libruby.so.3.2) < gc_marks_rest (libruby.so.3.2) < gc_start (libruby.so.3.2)";
        fires_by_evidence(
            &RUBY_GC_COPIES,
            &scene(&[(Mechanism::FaultCow, stack)]),
            "puma",
        );
    }
}
