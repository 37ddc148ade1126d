//! Lucene, whose index is mapped.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost};

/// Lucene, which calls mincore(2) to see whether pages are there before it has them read.
pub(super) const LUCENE_PREFETCH: AdviceEntry = AdviceEntry {
    id: "lucene.prefetch",
    what: "each prefetch asks by mincore(2) whether the pages are in memory",
    seen_by: "time in mincore and in waits for the lock below isLoaded0 of libnio.so",
    mechanisms: &[Mechanism::Inspect, Mechanism::LockMmap],
    switch: "a Lucene that has apache/lucene#15585 (merged in January 2026: one counter for all clones of an input, after which \
             it no longer asks), or a Directory whose prefetch does nothing",
    why: "the check costs as much as the madvise it would spare, and many thousand cycles each time: it showed in profiles of \
          Elasticsearch where all was in memory",
    source: "https://github.com/apache/lucene/pull/14156 https://github.com/apache/lucene/pull/15585",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, |cost| cost.is_within("_isLoaded0")),
};

/// Endings of Lucene's file names: a segment's number follows an underscore, and then one of these.
const INDEX_SUFFIXES: &[&str] = &[
    "cfs", "doc", "pos", "pay", "tim", "tip", "tmd", "dvd", "nvd", "kdd", "kdi", "dim", "fdt",
    "vec", "vem", "vex", "veq",
];

fn is_of_index(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let segment = name.strip_prefix('_').unwrap_or_default();
    let ending = segment.rsplit('.').next().unwrap_or_default();
    segment.starts_with(|c: char| c.is_ascii_alphanumeric()) && INDEX_SUFFIXES.contains(&ending)
}

/// Whether it is Java's code, which lies in no file. Waits of the JVM's own libraries belong to its start.
fn is_java(cost: &SeenCost) -> bool {
    cost.stack.first().is_some_and(|f| f.file.is_empty())
}

/// Lucene, whose index is mapped and not in memory yet.
pub(super) const LUCENE_PRELOAD: AdviceEntry = AdviceEntry {
    id: "lucene.preload",
    what: "searches wait for pages of Lucene's index",
    seen_by: "major faults of Java's own code in a process that has files of a Lucene index mapped",
    mechanisms: &[Mechanism::FaultMajor],
    switch: "Elasticsearch and OpenSearch: index.store.preload: [\"nvd\", \"dvd\", \"tim\", \"doc\", \"dim\"] where these fit into \
             memory; more memory for the page cache (a smaller heap) where they do not",
    why: "after a start the index is read page by page as searches touch it; with the setting files are read as the index is \
          opened. It harms where they are larger than memory",
    source: "https://www.elastic.co/docs/reference/elasticsearch/index-settings/preloading-data-into-file-system-cache",
    instead_of: &[],
    look: |entry, scene| {
        entry.costs(scene, |c| {
            is_java(c) && scene.has_mapped(c.pid, is_of_index)
        })
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{asleep, fires, fires_by_evidence, is_quiet, scene, with_file};

    /// Check that it goes by Java's isLoaded.
    #[test]
    fn lucene_prefetch_goes_by_evidence() {
        let stack =
            "mincore (libc.so.6) < Java_java_nio_MappedMemoryUtils_isLoaded0 (libnio.so) < ? < ?";
        fires_by_evidence(
            &LUCENE_PREFETCH,
            &scene(&[(Mechanism::Inspect, stack)]),
            "java",
        );
    }

    /// Check that waits of Java for a mapped index fire it, and its other waits don't.
    #[test]
    fn lucene_preload_goes_by_evidence() {
        let waiting = asleep(scene(&[(
            Mechanism::FaultMajor,
            "? < ? < JavaMain (libjli.so)",
        )]));
        is_quiet(&LUCENE_PRELOAD, &waiting);
        is_quiet(
            &LUCENE_PRELOAD,
            &with_file(waiting.clone(), "/usr/lib/jvm/lib/modules"),
        );
        is_quiet(
            &LUCENE_PRELOAD,
            &with_file(waiting.clone(), "/tmp/_notes.txt"),
        );
        fires(
            &LUCENE_PRELOAD,
            &with_file(
                waiting.clone(),
                "/data/indices/x/0/index/_6f_Lucene84_0.doc",
            ),
        );
        let at_start = "ClassFileParser::parse_stream(ClassFileStream const*) (libjvm.so) < ? < ?";
        let at_start = asleep(scene(&[(Mechanism::FaultMajor, at_start)]));
        is_quiet(&LUCENE_PRELOAD, &with_file(at_start, "/data/_6q.cfs"));
        let mut faults = with_file(waiting, "/data/_6q.cfs");
        faults.costs[0].mechanism = Mechanism::FaultFile;
        is_quiet(&LUCENE_PRELOAD, &faults);
    }
}
