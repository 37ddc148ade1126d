//! PostgreSQL's shared buffers and compiler.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost};

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

/// PostgreSQL's shared buffers, which each connection maps page by page.
pub(super) const POSTGRESQL_HUGE: AdviceEntry = AdviceEntry {
    id: "postgresql.huge-pages",
    what: "each connection of PostgreSQL maps the shared buffers anew, a fault for every 4 KB",
    seen_by: "faults of shared memory below PostgreSQL's reading of buffers",
    mechanisms: &[Mechanism::FaultFile],
    switch: "huge_pages=on with vm.nr_hugepages for shared_buffers (postgres -C shared_memory_size_in_huge_pages says how many); \
             a pooler, so that connections live longer",
    why: "page tables are each process's own, and small pages are mapped one by one: the manual says smaller page tables and \
          less CPU time in memory management",
    source: "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-HUGE-PAGES",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, is_first_buffer_touch),
};

/// PostgreSQL, which compiles expressions of queries.
pub(super) const POSTGRESQL_JIT: AdviceEntry = AdviceEntry {
    id: "postgresql.jit",
    what: "PostgreSQL compiles parts of queries, and maps and protects memory for the code",
    seen_by: "mappings, protection and page faults below llvmjit.so",
    mechanisms: &[
        Mechanism::Map,
        Mechanism::Unmap,
        Mechanism::Protect,
        Mechanism::Brk,
        Mechanism::FaultAnon,
        Mechanism::FaultFile,
        Mechanism::FaultEntry,
        Mechanism::Zeroing,
    ],
    switch: "jit=off, or a higher jit_above_cost, for short queries; fewer connections that each load the compiler",
    why: "compilation pays for long queries only: the manual says that for short ones it often costs more than it saves",
    source: "https://www.postgresql.org/docs/current/jit-decision.html",
    instead_of: &[],
    look: |entry, scene| {
        let first = [Mechanism::Map, Mechanism::Unmap, Mechanism::Protect];
        entry.costs_if_any(&first, scene, |cost| cost.is_in("llvmjit.so"))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by the touch of buffers.
    #[test]
    fn postgresql_huge_goes_by_evidence() {
        let stack = "heapgetpage (postgres) < heap_getnextslot (postgres) < SeqNext (postgres) < ExecScan (postgres)";
        fires_by_evidence(
            &POSTGRESQL_HUGE,
            &scene(&[(Mechanism::FaultFile, stack)]),
            "postgres",
        );
    }

    /// Check that it goes by the compiler's memory.
    #[test]
    fn postgresql_jit_goes_by_evidence() {
        let stack = "mprotect (libc.so.6) < llvm::sys::Memory::protectMappedMemory() (libLLVM-14.so.1) < \
                     llvm_compile_expr (llvmjit.so) < ExecReadyExpr (postgres)";
        fires_by_evidence(
            &POSTGRESQL_JIT,
            &scene(&[(Mechanism::Protect, stack)]),
            "postgres",
        );
    }
}
