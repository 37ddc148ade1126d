//! Programs that lock all of their memory at once.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Populate,
    Mechanism::FaultAnon,
    Mechanism::FaultFile,
    Mechanism::FaultMajor,
    Mechanism::Zeroing,
    Mechanism::ReclaimDirect,
];

fn is_locking(cost: &SeenCost) -> bool {
    cost.calls_any(&["mlockall"])
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "mlockall.onfault",
    what: "mlockall(2) brings in every page that is mapped, used or not",
    seen_by: "time below mlockall",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "MCL_ONFAULT (Linux 4.4): pages are locked when they are first touched; or mlock(2) on what must never wait",
    why: "stacks, arenas and files are brought in whole, most of which is never used; Android's low memory killer locks so for \
          that reason",
    source: "https://man7.org/linux/man-pages/man2/mlock.2.html",
    instead_of: &[],
    look: |scene| Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, is_locking)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that a program which locks 1 GB that it does not touch fires it.
    #[test]
    fn fires_on_a_program() {
        let advised = fires(&ADVICE_ENTRY, &recorded("mlockall"));
        assert!(advised.place.contains("main (lockall)"), "{advised:?}");
    }

    /// Check that it goes by the call.
    #[test]
    fn goes_by_evidence() {
        let stack = "mlockall (libc.so.6) < main (corosync)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Populate, stack)]),
            "corosync",
        );
    }
}
