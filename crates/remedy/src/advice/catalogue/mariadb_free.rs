//! MariaDB's buffer pool, which gave each freed page back.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

fn is_pool(cost: &SeenCost) -> bool {
    let frames = || cost.stack.iter();
    let is_server =
        frames().any(|f| f.file.starts_with("mariadbd") || f.file.starts_with("mysqld"));
    is_server && frames().any(|f| f.function.starts_with("buf_"))
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "mariadb.free",
    what: "MariaDB gives each free page of its buffer pool back by madvise(MADV_FREE)",
    seen_by: "madvise(MADV_FREE) below functions of InnoDB's buffer pool (buf_…)",
    mechanisms: &[Mechanism::Advise],
    switch: "a MariaDB that has the fix of MDEV-31953: pages are given back under memory pressure only",
    why: "pages of the pool are freed and used again all the time, and each advice clears page table entries: reported as a loss \
          of performance, and taken out",
    source: "https://github.com/MariaDB/server/pull/2805 https://github.com/MariaDB/server/pull/2234",
    instead_of: &[],
    look: |scene| {
        let given = scene.given.iter();
        Sight::of_costs(given.filter(|c| {
            c.mechanism == Mechanism::Advise && c.advice.as_str() == "MADV_FREE" && is_pool(c)
        }))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires_by_evidence, gives, is_quiet};

    /// Check that it goes by the pool's advice.
    #[test]
    fn goes_by_evidence() {
        let stack = "buf_LRU_block_free_non_file_page(buf_block_t*) (mariadbd)";
        fires_by_evidence(&ADVICE_ENTRY, &gives("MADV_FREE", stack), "mariadbd");
        is_quiet(&ADVICE_ENTRY, &gives("MADV_DONTNEED", stack));
        is_quiet(
            &ADVICE_ENTRY,
            &gives("MADV_FREE", "je_pages_purge_lazy (mariadbd)"),
        );
    }
}
