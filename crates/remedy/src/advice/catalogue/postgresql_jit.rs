//! PostgreSQL, which compiles expressions of queries.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Map,
    Mechanism::Unmap,
    Mechanism::Protect,
    Mechanism::Brk,
    Mechanism::FaultAnon,
    Mechanism::FaultFile,
    Mechanism::FaultEntry,
    Mechanism::Zeroing,
];

fn is_compilation(cost: &SeenCost) -> bool {
    cost.is_in("llvmjit.so")
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "postgresql.jit",
    what: "PostgreSQL compiles parts of queries, and maps and protects memory for the code",
    seen_by: "mappings, protection and page faults below llvmjit.so",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "jit=off, or a higher jit_above_cost, for short queries; fewer connections that each load the compiler",
    why: "compilation pays for long queries only: the manual says that for short ones it often costs more than it saves",
    source: "https://www.postgresql.org/docs/current/jit-decision.html",
    instead_of: &[],
    look: |scene| {
        Sight::if_any_of(
            &[Mechanism::Map, Mechanism::Unmap, Mechanism::Protect],
            scene,
            TOUCHED_MECHANISMS,
            is_compilation,
        )
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, scene};

    /// Check that it goes by the compiler's memory.
    #[test]
    fn goes_by_evidence() {
        let stack = "mprotect (libc.so.6) < llvm::sys::Memory::protectMappedMemory() (libLLVM-14.so.1) < \
                     llvm_compile_expr (llvmjit.so) < ExecReadyExpr (postgres)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Protect, stack)]),
            "postgres",
        );
    }
}
