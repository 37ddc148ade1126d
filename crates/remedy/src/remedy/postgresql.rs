//! PostgreSQL: shared memory in huge pages, mapped once.

use quell_event::Cause;

use super::{Offer, Remedy, RemedyAnswer, RemedyCase};
use crate::{SoftwareKind, Touches};

/// Huge pages of the pool, which nobody moves, splits or merges.
pub(super) struct PostgreSql;

/// Work of the kernel on ordinary pages, which it does not do to those of hugetlbfs.
const MOVING_CAUSES: [Cause; 7] = [
    Cause::Reclaim,
    Cause::MigrateNuma,
    Cause::MigrateOther,
    Cause::Compaction,
    Cause::Ksm,
    Cause::ThpCollapse,
    Cause::ThpSplit,
];

impl Remedy for PostgreSql {
    fn id(&self) -> &'static str {
        "postgresql.conf"
    }

    fn stops(&self) -> &'static str {
        "reclaim, compaction and migration of shared_buffers, and the mapping of shared memory anew for each parallel query"
    }

    fn worse(&self) -> &'static str {
        "huge_pages = on without enough vm.nr_hugepages: the server does not start (try, the default, goes on without)"
    }

    fn source(&self) -> &'static str {
        "postgresql.org/docs, Resource Consumption: huge_pages, min_dynamic_shared_memory (14 on); Managing Kernel Resources: Linux Huge Pages. Not measured here"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::NOTHING
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
        let found = case.program_of_kinds(&[SoftwareKind::PostgreSql])?;
        let mut settings = Vec::new();
        let mut why = Vec::new();
        let moved = case.part_of_causes(&MOVING_CAUSES);
        if moved >= 0.05 {
            settings.push("huge_pages = on");
            why.push(format!(
                "{:.0} % of the shootdowns are by what the kernel does to pages, and it leaves those of the pool alone \
                 (vm.nr_hugepages must hold shared_buffers: postgres -C shared_memory_size_in_huge_pages says how many)",
                moved * 100.0
            ));
        }
        let mapped = case.part_of_causes(&[Cause::Munmap, Cause::Truncate]);
        if mapped >= 0.05 && !found.is_below(14, 0, 0) {
            settings.push("min_dynamic_shared_memory = 256MB");
            why.push(
                "parallel queries take their shared memory from it instead of mapping their own (14 on)"
                    .to_owned(),
            );
        }
        if settings.is_empty() {
            return None;
        }
        Some(RemedyAnswer::advise(
            &settings,
            format!("in postgresql.conf: {}. Not measured here", why.join("; ")),
        ))
    }
}
