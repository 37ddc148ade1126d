//! libuv's children: it forks on Linux, where its posix_spawn path is for other systems only.

use super::fork_spawn::{TOUCHED_MECHANISMS, of_forks};
use crate::advice::AdviceEntry;

/// libuv's functions that fork.
const FORKING_FUNCTIONS: &[&str] = &["uv_spawn", "uv__spawn_and_init_child_fork"];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "fork.libuv",
    what: "each child that libuv starts copies the parent's page tables, and its event loop stands still",
    seen_by: "forks of a millisecond or more below uv_spawn (Node.js, uvloop, Julia, Neovim)",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "start children by posix_spawn or vfork: asyncio's own loop in place of uvloop's for them, a small helper process that \
             spawns, or in the program itself madvise(MADV_DONTFORK) on its large blocks",
    why: "uv_spawn forks: 16 ms a spawn from a parent of 800 MB, posix_spawn 0.2 ms whatever its size; Node with 20 GB stood \
          still for up to 2 s",
    source: "https://github.com/Kludex/zuvloop/pull/41 https://github.com/nodejs/node/issues/14917",
    instead_of: &["fork.spawn"],
    look: |scene| of_forks(scene, |cost| cost.calls_any(FORKING_FUNCTIONS)),
};

#[cfg(test)]
mod tests {
    use quell_event::Mechanism;

    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that uvloop's spawns from a process of 600 MB fire it with the time of one, and that it replaces the entry of any fork.
    #[test]
    fn fires_on_uvloop() {
        let advised = fires(&ADVICE_ENTRY, &recorded("03-spawn-fork"));
        assert!(advised.place.contains("uv_spawn"), "{advised:?}");
        assert!(
            advised.because.contains("ms each, 101 times"),
            "{advised:?}"
        );
        let all = crate::advice::advise(&recorded("03-spawn-fork"));
        assert!(all.iter().all(|a| a.id != "fork.spawn"), "{all:?}");
    }

    /// Check that it goes by uv_spawn.
    #[test]
    fn goes_by_evidence() {
        let stack = "fork (libc.so.6) < uv_spawn (node) < node::ProcessWrap::Spawn(x) (node)";
        fires_by_evidence(&ADVICE_ENTRY, &scene(&[(Mechanism::Fork, stack)]), "node");
    }
}
