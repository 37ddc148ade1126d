//! Advice on read-ahead that is given again and again.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenHolder, Sight};

/// These change the mapping, and take the lock of the address space for writing.
const CHANGING_ADVICE: &[&str] = &["MADV_NORMAL", "MADV_RANDOM", "MADV_SEQUENTIAL"];

fn changes_read_advice(holder: &SeenHolder) -> bool {
    let Some(advice) = holder.doing.strip_prefix("madvise(") else {
        return false;
    };
    CHANGING_ADVICE
        .iter()
        .any(|name| advice.starts_with(&format!("{name})")))
}

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "mmap.read-advice",
    what: "threads change the read-ahead advice of mappings as they work, and all others wait for the lock",
    seen_by: "waits for the lock of an address space that its own madvise(MADV_NORMAL, MADV_RANDOM or MADV_SEQUENTIAL) holds",
    mechanisms: &[Mechanism::LockMmap, Mechanism::Advise],
    switch: "give the advice once, when the file is mapped, and not for each query; Lucene, Elasticsearch and OpenSearch: \
             -Dorg.apache.lucene.store.defaultReadAdvice=NORMAL",
    why: "such advice takes the lock for writing though it moves no page: 40 search threads stood in mincore behind 6 in \
          madvise, queues full at half the CPU; the case as a small program does 3 times the work with the advice given once",
    source: "https://github.com/opensearch-project/OpenSearch/issues/20933",
    instead_of: &["lucene.prefetch"],
    look: |scene| {
        let own = scene.holders.iter().filter(|h| {
            h.mechanism == Mechanism::LockMmap && h.pid == h.waiter && changes_read_advice(h)
        });
        let mut sight = Sight::of_holders(own)?;
        let given = scene
            .given
            .iter()
            .filter(|c| CHANGING_ADVICE.contains(&c.advice.as_str()));
        sight.cpu_ns = given.map(|c| c.cpu_ns).sum();
        Some(sight)
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, is_quiet, recorded, waits_for};

    /// Check that it names the threads that change the advice, and not the many that wait in mincore.
    #[test]
    fn fires_on_a_convoy() {
        let advised = fires(&ADVICE_ENTRY, &recorded("06-madvise-convoy"));
        assert!(
            advised.place.contains("convoy: madvise(MADV_"),
            "{advised:?}"
        );
        assert!(advised.blocked_ns > 1_000_000_000, "{advised:?}");
    }

    /// Check that advice that frees pages is another matter, and so is another process.
    #[test]
    fn goes_by_evidence() {
        let mut own = waits_for("search", "madvise(MADV_RANDOM) of 16 pages");
        is_quiet(&ADVICE_ENTRY, &own);
        own.holders[0].pid = own.holders[0].waiter;
        fires(&ADVICE_ENTRY, &own);
        own.holders[0].doing = "madvise(MADV_DONTNEED) of 16 pages".into();
        is_quiet(&ADVICE_ENTRY, &own);
    }
}
