//! Forks of large processes.

use std::collections::BTreeSet;

use quell_event::Mechanism;

use crate::advice::sight::time_text;
use crate::advice::{AdviceEntry, Scene, SeenCost, Sight};

/// A fork that takes less is of a small process.
const LARGE_NS: u64 = 1_000_000;

/// Any large process that forks.
pub(super) const FORK_SPAWN: AdviceEntry = AdviceEntry {
    id: "fork.spawn",
    what: "fork copies the page tables of a large process",
    seen_by: "forks of a millisecond or more each, and waits for the lock that they hold",
    mechanisms: &[Mechanism::Fork, Mechanism::LockMmap],
    switch: "posix_spawn(3) or vfork(2) where the child executes another program; where it does not, a fork server that is \
             started while the process is small; madvise(MADV_DONTFORK) on what no child needs",
    why: "a fork takes as long as the parent is large, and its threads wait for it at their next page fault; posix_spawn takes \
          0.2 ms whatever the size",
    source: "https://github.com/Kludex/zuvloop/pull/41 https://github.com/libuv/libuv/issues/1715",
    instead_of: &[],
    look: |_, scene| of_forks(scene, |_| true),
};

/// The forks from such stacks, of processes whose forks take [`LARGE_NS`] each on average; none where there is no such process.
/// The time asleep includes that in which threads of these processes waited for the lock while one of them forked.
fn of_forks(scene: &Scene, is_such: impl Fn(&SeenCost) -> bool) -> Option<Sight> {
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
    let mut sight = Sight::of_costs(costs.iter().copied())?;
    sight.because = format!("{} each, {times} times", time_text(each));
    let pids: BTreeSet<u32> = costs.iter().map(|c| c.pid).collect();
    let held = scene.holders.iter();
    let held = held.filter(|h| h.doing.as_str() == "fork" && pids.contains(&h.pid));
    sight.blocked_ns += held.map(|h| h.blocked_ns).sum::<u64>();
    Some(sight)
}

/// libuv's functions that fork.
const LIBUV_FORKING_FUNCTIONS: &[&str] = &["uv_spawn", "uv__spawn_and_init_child_fork"];

/// libuv's children: it forks on Linux, where its posix_spawn path is for other systems only.
pub(super) const FORK_LIBUV: AdviceEntry = AdviceEntry {
    id: "fork.libuv",
    what: "each child that libuv starts copies the parent's page tables, and its event loop stands still",
    seen_by: "forks of a millisecond or more below uv_spawn (Node.js, uvloop, Julia, Neovim)",
    mechanisms: &[Mechanism::Fork, Mechanism::LockMmap],
    switch: "start children by posix_spawn or vfork: asyncio's own loop in place of uvloop's for them, a small helper process that \
             spawns, or in the program itself madvise(MADV_DONTFORK) on its large blocks",
    why: "uv_spawn forks: 16 ms a spawn from a parent of 800 MB, posix_spawn 0.2 ms whatever its size; Node with 20 GB stood \
          still for up to 2 s",
    source: "https://github.com/Kludex/zuvloop/pull/41 https://github.com/nodejs/node/issues/14917",
    instead_of: &["fork.spawn"],
    look: |_, scene| of_forks(scene, |cost| cost.calls_any(LIBUV_FORKING_FUNCTIONS)),
};

const REDIS_FORKING_FUNCTIONS: &[&str] = &[
    "redisFork",
    "serverFork",
    "rdbSaveBackground",
    "rdbSaveToSlavesSockets",
    "rdbSaveToReplicasSockets",
    "rewriteAppendOnlyFileBackground",
];

/// Redis and Valkey, which save by a child.
pub(super) const REDIS_FORK: AdviceEntry = AdviceEntry {
    id: "redis.fork",
    what: "each background save forks, and copies the page tables while no command is served",
    seen_by: "forks of a millisecond or more below redisFork, rdbSaveBackground or rewriteAppendOnlyFileBackground",
    mechanisms: &[Mechanism::Fork, Mechanism::LockMmap],
    switch: "fewer saves (`save`, `auto-aof-rewrite-percentage`), or saves by a replica alone; several small instances in \
             place of a large one",
    why: "a fork takes 9 to 13 ms for each GB of memory on physical machines, and 23 ms under KVM",
    source: "https://redis.io/topics/latency (fork time in different systems)",
    instead_of: &["fork.spawn"],
    look: |_, scene| of_forks(scene, |cost| cost.calls_any(REDIS_FORKING_FUNCTIONS)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, is_quiet, recorded, scene};
    use crate::advice::{Advised, advise};

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
        is_quiet(&FORK_SPAWN, &small);
        // Any stack will do, because the fork itself is the evidence.
        let mut other = scene.clone();
        other.costs[0].mechanism = Mechanism::Exec;
        is_quiet(&FORK_SPAWN, &other);
        let mut named = scene.clone();
        named.costs[0].comm = "server".into();
        fires(&FORK_SPAWN, &named)
    }

    /// Check that a shell's many small forks are none.
    #[test]
    fn small_forks_are_none() {
        let mut shell = scene(&[(Mechanism::Fork, "_Fork (libc.so.6) < forkshell (dash)")]);
        shell.forks[0].forks = 300;
        is_quiet(&FORK_SPAWN, &shell);
    }

    /// Check that uvloop's spawns from a process of 600 MB fire it with the time of one, and that it replaces the entry of any fork.
    #[test]
    fn fires_on_uvloop() {
        let advised = fires(&FORK_LIBUV, &recorded("03-spawn-fork"));
        assert!(advised.place.contains("uv_spawn"), "{advised:?}");
        assert!(
            advised.because.contains("ms each, 101 times"),
            "{advised:?}"
        );
        let all = advise(&recorded("03-spawn-fork"));
        assert!(all.iter().all(|a| a.id != "fork.spawn"), "{all:?}");
    }

    /// Check that it goes by uv_spawn.
    #[test]
    fn fork_libuv_goes_by_evidence() {
        let stack = "fork (libc.so.6) < uv_spawn (node) < node::ProcessWrap::Spawn(x) (node)";
        fires_by_evidence(&FORK_LIBUV, &scene(&[(Mechanism::Fork, stack)]), "node");
    }

    /// Check that a Redis that saves fires it, with the time of one fork.
    #[test]
    fn fires_on_a_save() {
        let advised = fires(&REDIS_FORK, &recorded("redis-bgsave"));
        assert!(advised.because.contains(" each, "), "{advised:?}");
        assert!(advised.place.starts_with("redis-server"), "{advised:?}");
    }

    /// Check that it goes by the save.
    #[test]
    fn redis_fork_goes_by_evidence() {
        let stack = "_Fork (libc.so.6) < fork (libc.so.6) < redisFork (redis-server) < rdbSaveBackground (redis-server)";
        fires_by_evidence(
            &REDIS_FORK,
            &scene(&[(Mechanism::Fork, stack)]),
            "redis-server",
        );
    }
}
