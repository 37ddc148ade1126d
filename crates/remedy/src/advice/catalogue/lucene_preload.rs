//! Lucene, whose index is mapped and not in memory yet.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

const TOUCHED_MECHANISMS: &[Mechanism] = &[Mechanism::FaultMajor];

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

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "lucene.preload",
    what: "searches wait for pages of Lucene's index",
    seen_by: "major faults of Java's own code in a process that has files of a Lucene index mapped",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "Elasticsearch and OpenSearch: index.store.preload: [\"nvd\", \"dvd\", \"tim\", \"doc\", \"dim\"] where these fit into \
             memory; more memory for the page cache (a smaller heap) where they do not",
    why: "after a start the index is read page by page as searches touch it; with the setting files are read as the index is \
          opened. It harms where they are larger than memory",
    source: "https://www.elastic.co/docs/reference/elasticsearch/index-settings/preloading-data-into-file-system-cache",
    instead_of: &[],
    look: |scene| {
        Sight::of_costs(scene.costs_of(TOUCHED_MECHANISMS, |c| {
            is_java(c) && scene.has_mapped(c.pid, is_of_index)
        }))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{asleep, fires, is_quiet, scene, with_file};

    /// Check that waits of Java for a mapped index fire it, and its other waits don't.
    #[test]
    fn goes_by_evidence() {
        let waiting = asleep(scene(&[(
            Mechanism::FaultMajor,
            "? < ? < JavaMain (libjli.so)",
        )]));
        is_quiet(&ADVICE_ENTRY, &waiting);
        is_quiet(
            &ADVICE_ENTRY,
            &with_file(waiting.clone(), "/usr/lib/jvm/lib/modules"),
        );
        is_quiet(
            &ADVICE_ENTRY,
            &with_file(waiting.clone(), "/tmp/_notes.txt"),
        );
        fires(
            &ADVICE_ENTRY,
            &with_file(
                waiting.clone(),
                "/data/indices/x/0/index/_6f_Lucene84_0.doc",
            ),
        );
        let at_start = "ClassFileParser::parse_stream(ClassFileStream const*) (libjvm.so) < ? < ?";
        let at_start = asleep(scene(&[(Mechanism::FaultMajor, at_start)]));
        is_quiet(&ADVICE_ENTRY, &with_file(at_start, "/data/_6q.cfs"));
        let mut faults = with_file(waiting, "/data/_6q.cfs");
        faults.costs[0].mechanism = Mechanism::FaultFile;
        is_quiet(&ADVICE_ENTRY, &faults);
    }
}
