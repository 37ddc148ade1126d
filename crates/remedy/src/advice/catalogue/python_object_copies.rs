//! CPython's reference counts, which make a write of each read.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultCow];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "python.object-copies",
    what: "processes read Python objects that they share since a fork; the reference counts are written, and each page is copied",
    seen_by: "copies at a first write (fault.cow) below CPython's interpreter, after a fork by a process of that name",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "keep what workers share in arrays (NumPy, Arrow, torch tensors, shared memory) and not in lists, dicts or data \
             frames of objects; or fork before it is loaded",
    why: "a dataset of Python objects is copied page by page into each DataLoader worker, as it is read; the same data as one \
          array stays shared",
    source: "https://github.com/pytorch/pytorch/issues/5902 https://github.com/pytorch/pytorch/issues/20433",
    instead_of: &[],
    look: |scene| {
        let forkers = scene.forks.iter().map(|f| f.pid);
        let forkers: Vec<u32> = forkers.collect();
        let names = scene.costs.iter().filter(|c| forkers.contains(&c.pid));
        let names: Vec<&str> = names.map(|c| c.comm.as_str()).collect();
        Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, |cost| {
            cost.is_within("_PyEval_") && names.contains(&cost.comm.as_str())
        }))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, is_quiet, recorded, scene};

    /// Check that workers which read a large list of their parent's fire it.
    #[test]
    fn fires_on_workers() {
        fires(&ADVICE_ENTRY, &recorded("python-list-fork"));
    }

    /// Check that it goes by the interpreter, and takes a fork.
    #[test]
    fn goes_by_evidence() {
        let stack =
            "list_item (libpython3.11.so.1.0) < _PyEval_EvalFrameDefault (libpython3.11.so.1.0)";
        let mut workers = scene(&[(Mechanism::FaultCow, stack)]);
        fires_by_evidence(&ADVICE_ENTRY, &workers, "python3");
        workers.forks.clear();
        is_quiet(&ADVICE_ENTRY, &workers);
    }
}
