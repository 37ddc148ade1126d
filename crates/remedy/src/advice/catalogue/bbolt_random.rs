//! bbolt, whose advice makes newer kernels drop pages that are in use.

use quell_event::Mechanism;

use super::bbolt_populate::{is_bbolt, is_database_open};
use crate::advice::{AdviceEntry, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultMajor];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "bbolt.random-advice",
    what: "bbolt waits for pages of its file that had been in memory",
    seen_by: "major faults below bbolt's code, after the file is open",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "a bbolt without madvise(MADV_RANDOM) (etcd-io/bbolt#940 takes it out), more memory for the page cache of its cgroup, \
             or reading the file now and then, which marks pages as used",
    why: "from Linux 6.4 on reclaim does not look whether pages with that advice are in use: a compaction that took 0.9 s took \
          20 s, with 600 major faults a second in place of none",
    source: "https://github.com/etcd-io/bbolt/issues/939 https://github.com/etcd-io/bbolt/pull/940",
    instead_of: &["go.mapped-file"],
    look: |scene| {
        Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, |cost| {
            is_bbolt(cost) && !is_database_open(cost)
        }))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{asleep, fires_by_evidence, is_quiet, scene};

    /// Check that it goes by bbolt's reads, and not by those as it opens the file.
    #[test]
    fn goes_by_evidence() {
        let made = |stack| asleep(scene(&[(Mechanism::FaultMajor, stack)]));
        let stack = "go.etcd.io/bbolt.(*Cursor).search (etcd) < go.etcd.io/bbolt.(*DB).View (etcd) < runtime.goexit (etcd)";
        fires_by_evidence(&ADVICE_ENTRY, &made(stack), "etcd");
        is_quiet(
            &ADVICE_ENTRY,
            &made("go.etcd.io/bbolt.(*DB).freepages (etcd) < go.etcd.io/bbolt.Open (etcd)"),
        );
    }
}
