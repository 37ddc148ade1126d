//! Redis and Valkey, which save by a child.

use quell_event::Mechanism;

use super::fork_spawn::of_forks;
use crate::advice::AdviceEntry;

const FORKING_FUNCTIONS: &[&str] = &[
    "redisFork",
    "serverFork",
    "rdbSaveBackground",
    "rdbSaveToSlavesSockets",
    "rdbSaveToReplicasSockets",
    "rewriteAppendOnlyFileBackground",
];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "redis.fork",
    what: "each background save forks, and copies the page tables while no command is served",
    seen_by: "forks of a millisecond or more below redisFork, rdbSaveBackground or rewriteAppendOnlyFileBackground",
    mechanisms: &[Mechanism::Fork, Mechanism::LockMmap],
    switch: "fewer saves (`save`, `auto-aof-rewrite-percentage`), or saves by a replica alone; several small instances in \
             place of a large one",
    why: "a fork takes 9 to 13 ms for each GB of memory on physical machines, and 23 ms under KVM",
    source: "https://redis.io/topics/latency (fork time in different systems)",
    instead_of: &["fork.spawn"],
    look: |scene| of_forks(scene, |cost| cost.calls_any(FORKING_FUNCTIONS)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that a Redis that saves fires it, with the time of one fork.
    #[test]
    fn fires_on_a_save() {
        let advised = fires(&ADVICE_ENTRY, &recorded("redis-bgsave"));
        assert!(advised.because.contains(" each, "), "{advised:?}");
        assert!(advised.place.starts_with("redis-server"), "{advised:?}");
    }

    /// Check that it goes by the save.
    #[test]
    fn goes_by_evidence() {
        let stack = "_Fork (libc.so.6) < fork (libc.so.6) < redisFork (redis-server) < rdbSaveBackground (redis-server)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Fork, stack)]),
            "redis-server",
        );
    }
}
