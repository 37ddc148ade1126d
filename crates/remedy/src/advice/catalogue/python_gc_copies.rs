//! CPython's collector, which writes into each object that it looks at.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Sight};

/// In versions from 3.7 to 3.14.
const COLLECTOR_FUNCTIONS: &[&str] = &[
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

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultCow, Mechanism::FaultEntry];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "python.gc-copies",
    what: "Python's garbage collector writes into objects that processes share since a fork, and each page is copied",
    seen_by: "copies at a first write (fault.cow) below CPython's collector",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "gc.disable() in the parent, gc.freeze() right before it forks, gc.enable() in the child; with Gunicorn: \
             preload_app and a hook that calls gc.freeze()",
    why: "a collection writes two words before every object that it visits; with gc.freeze() 24 workers took 31 % less memory \
          (PSS)",
    source: "https://github.com/frappe/frappe/pull/21474 https://github.com/python/cpython/issues/75739",
    instead_of: &["python.object-copies"],
    look: |scene| {
        Sight::if_any_of(&[Mechanism::FaultCow], scene, TOUCHED_MECHANISMS, |cost| {
            cost.calls_any(COLLECTOR_FUNCTIONS)
        })
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that workers which collect the objects of their parent fire it.
    #[test]
    fn fires_on_workers() {
        let advised = fires(&ADVICE_ENTRY, &recorded("python-gc-fork"));
        assert!(advised.place.contains("python"), "{advised:?}");
    }

    /// Check that it goes by the collector.
    #[test]
    fn goes_by_evidence() {
        let stack = "update_refs (libpython3.11.so.1.0) < gc_collect_main (libpython3.11.so.1.0)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::FaultCow, stack)]),
            "gunicorn",
        );
    }
}
