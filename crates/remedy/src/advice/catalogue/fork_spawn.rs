//! Any large process that forks.

use std::collections::BTreeSet;

use quell_event::Mechanism;

use crate::advice::sight::time_text;
use crate::advice::{AdviceEntry, Scene, SeenCost, Sight};

/// A fork that takes less is of a small process.
const LARGE_NS: u64 = 1_000_000;

pub(super) const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::Fork, Mechanism::LockMmap];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "fork.spawn",
    what: "fork copies the page tables of a large process",
    seen_by: "forks of a millisecond or more each, and waits for the lock that they hold",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "posix_spawn(3) or vfork(2) where the child executes another program; where it does not, a fork server that is \
             started while the process is small; madvise(MADV_DONTFORK) on what no child needs",
    why: "a fork takes as long as the parent is large, and its threads wait for it at their next page fault; posix_spawn takes \
          0.2 ms whatever the size",
    source: "https://github.com/Kludex/zuvloop/pull/41 https://github.com/libuv/libuv/issues/1715",
    instead_of: &[],
    look: |scene| of_forks(scene, |_| true),
};

/// The forks from such stacks, if one of them is large, with the time that other threads waited for them.
pub(super) fn of_forks(scene: &Scene, is_such: impl Fn(&SeenCost) -> bool) -> Option<Sight> {
    let is_large = |cost: &&SeenCost| {
        scene
            .each_fork_ns(cost.pid)
            .is_some_and(|ns| ns >= LARGE_NS)
    };
    let costs: Vec<&SeenCost> = scene
        .costs
        .iter()
        .filter(|c| c.mechanism == Mechanism::Fork && is_such(c))
        .filter(is_large)
        .collect();
    let dearest = costs.iter().max_by_key(|c| c.cpu_ns)?;
    let each = scene.each_fork_ns(dearest.pid)?;
    let times = scene.forks.iter().find(|f| f.pid == dearest.pid)?.forks;
    let mut sight = Sight::of_costs(costs.iter().copied())?
        .with_reason(format!("{} each, {times} times", time_text(each)));
    let pids: BTreeSet<u32> = costs.iter().map(|c| c.pid).collect();
    let held = scene.holders.iter();
    let held = held.filter(|h| h.doing.as_str() == "fork" && pids.contains(&h.pid));
    sight.blocked_ns += held.map(|h| h.blocked_ns).sum::<u64>();
    Some(sight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::Advised;
    use crate::advice::testing::{fires, is_quiet, scene};

    /// Check that large forks of any program fire it, with the time of one.
    #[test]
    fn goes_by_the_size_of_forks() {
        let large = scene(&[(Mechanism::Fork, "_Fork (libc.so.6) < run (server)")]);
        let advised = fires_by_size(&large);
        assert_eq!(advised.because, "5.00 ms each, 10 times");
        assert_eq!(advised.place, "server: run (server)");
    }

    fn fires_by_size(scene: &Scene) -> Advised {
        let mut small = scene.clone();
        small.forks[0].forks = 1_000;
        is_quiet(&ADVICE_ENTRY, &small);
        // Any stack will do, because the fork itself is the evidence.
        let mut other = scene.clone();
        other.costs[0].mechanism = Mechanism::Exec;
        is_quiet(&ADVICE_ENTRY, &other);
        let mut named = scene.clone();
        named.costs[0].comm = "server".into();
        fires(&ADVICE_ENTRY, &named)
    }

    /// Check that a shell's many small forks are none.
    #[test]
    fn small_forks_are_none() {
        let mut shell = scene(&[(Mechanism::Fork, "_Fork (libc.so.6) < forkshell (dash)")]);
        shell.forks[0].forks = 300;
        is_quiet(&ADVICE_ENTRY, &shell);
    }
}
