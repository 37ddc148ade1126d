//! HAProxy, which trims its memory at a reload.

use quell_event::Mechanism;

use super::malloc_trim::TOUCHED_MECHANISMS;
use crate::advice::{AdviceEntry, SeenCost, Sight};

fn is_haproxy_trim(cost: &SeenCost) -> bool {
    cost.calls_any(&["trim_all_pools"])
        || (cost.calls_any(&["malloc_trim"]) && cost.is_in("haproxy"))
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "haproxy.trim",
    what: "HAProxy gives freed memory back by malloc_trim",
    seen_by: "madvise below trim_all_pools, or below malloc_trim that HAProxy calls",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "`no-memory-trimming` in the global section (2.4.15, 2.5 and later)",
    why: "a trim looks at every arena and can take long enough to stop a worker: threads of 128 stood still for 203 ms; without \
          it old and new processes take more memory together during a reload",
    source: "https://github.com/haproxy/haproxy/issues/1884 https://github.com/haproxy/haproxy/issues/3083",
    instead_of: &["malloc.trim"],
    look: |scene| {
        Sight::if_any_of(
            &[Mechanism::Advise],
            scene,
            TOUCHED_MECHANISMS,
            is_haproxy_trim,
        )
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::advise;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that the trim fires it, and that it replaces the entry for any program.
    #[test]
    fn goes_by_evidence() {
        let stack = "madvise (libc.so.6) < malloc_trim (libc.so.6) < trim_all_pools (haproxy) < run_poll_loop (haproxy)";
        let trim = scene(&[(Mechanism::Advise, stack)]);
        fires_by_evidence(&ADVICE_ENTRY, &trim, "haproxy");
        assert_eq!(advise(&trim).len(), 1);
    }
}
