//! PostgreSQL's shared buffers, which each connection maps page by page.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultFile];

/// Its first touch of a buffer, from PostgreSQL 10 to 18.
const BUFFER_TOUCH_FUNCTIONS: &[&str] = &[
    "ReadBuffer_common",
    "ReadBufferExtended",
    "StartReadBuffer",
    "StartReadBuffersImpl",
    "WaitReadBuffers",
    "BufferAlloc",
    "PinBuffer",
    "GetVictimBuffer",
    "heapgetpage",
    "heap_prepare_pagescan",
    "heap_getnextslot",
    "heap_hot_search_buffer",
    "heap_page_prune_opt",
    "_bt_getbuf",
    "_bt_relandgetbuf",
    "_bt_search",
];

fn is_first_buffer_touch(cost: &SeenCost) -> bool {
    cost.is_in("postgres") && cost.calls_any(BUFFER_TOUCH_FUNCTIONS)
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "postgresql.huge-pages",
    what: "each connection of PostgreSQL maps the shared buffers anew, a fault for every 4 KB",
    seen_by: "faults of shared memory below PostgreSQL's reading of buffers",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "huge_pages=on with vm.nr_hugepages for shared_buffers (postgres -C shared_memory_size_in_huge_pages says how many); \
             a pooler, so that connections live longer",
    why: "page tables are each process's own, and small pages are mapped one by one: the manual says smaller page tables and \
          less CPU time in memory management",
    source: "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-HUGE-PAGES",
    instead_of: &[],
    look: |scene| Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, is_first_buffer_touch)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by the touch of buffers.
    #[test]
    fn goes_by_evidence() {
        let stack = "heapgetpage (postgres) < heap_getnextslot (postgres) < SeqNext (postgres) < ExecScan (postgres)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::FaultFile, stack)]),
            "postgres",
        );
    }
}
