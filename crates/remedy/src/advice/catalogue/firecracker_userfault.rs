//! Firecracker, whose guests' pages come from a handler after a snapshot.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::Userfault];

fn is_vmm(cost: &SeenCost) -> bool {
    cost.is_in("firecracker") || cost.is_within("kvm_ioctls::") || cost.is_within("vmm::")
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "firecracker.userfault",
    what: "a guest that was resumed from a snapshot waits for each of its pages",
    seen_by: "faults that userfaultfd hands on, below Firecracker's code",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "huge_pages: \"2M\" in /machine-config before the snapshot is made (512 times fewer faults; restored by userfaultfd \
             alone), and a handler that fills a whole region, or what the last run touched, at the first fault",
    why: "each 4 KB that the guest touches is a message to another process and back; Firecracker's own tests start up to 50 % \
          faster with 2 MB pages",
    source: "https://github.com/firecracker-microvm/firecracker/blob/main/docs/hugepages.md",
    instead_of: &[],
    look: |scene| Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, is_vmm)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{asleep, fires_by_evidence, scene};

    /// Check that it goes by the guest's faults.
    #[test]
    fn goes_by_evidence() {
        let stack = "ioctl (firecracker) < kvm_ioctls::ioctls::vcpu::VcpuFd::run (firecracker)";
        let waiting = asleep(scene(&[(Mechanism::Userfault, stack)]));
        fires_by_evidence(&ADVICE_ENTRY, &waiting, "firecracker");
    }
}
