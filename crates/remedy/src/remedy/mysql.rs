//! MySQL and MariaDB: the buffer pool in large pages.

use quell_event::Cause;

use super::{Offer, Remedy, RemedyAnswer, RemedyCase};
use crate::{SoftwareKind, Touches};

/// Large pages for the pool, which nobody moves, splits or merges.
pub(super) struct MySql;

const MOVING_CAUSES: [Cause; 6] = [
    Cause::Reclaim,
    Cause::MigrateOther,
    Cause::Compaction,
    Cause::Ksm,
    Cause::ThpCollapse,
    Cause::ThpSplit,
];

impl Remedy for MySql {
    fn id(&self) -> &'static str {
        "mysql.cnf"
    }

    fn stops(&self) -> &'static str {
        "reclaim, compaction and migration of the buffer pool"
    }

    fn worse(&self) -> &'static str {
        "large-pages without enough vm.nr_hugepages, or without the right to lock memory: the server warns, and takes small ones"
    }

    fn source(&self) -> &'static str {
        "dev.mysql.com/doc/refman, Enabling Large Page Support; innodb_numa_interleave. Not measured here"
    }

    fn touches(&self, _offer: &Offer) -> Touches {
        Touches::NOTHING
    }

    fn consider(&self, case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
        case.program_of_kinds(&[SoftwareKind::MySql])?;
        let mut settings = Vec::new();
        let (moved, numa) = (
            case.part_of_causes(&MOVING_CAUSES),
            case.part_of_causes(&[Cause::MigrateNuma]),
        );
        if moved >= 0.05 {
            settings.push("large-pages");
        }
        if numa >= 0.05 {
            settings.push("innodb_numa_interleave = ON");
        }
        if settings.is_empty() {
            return None;
        }
        let sum = (moved + numa) * 100.0;
        Some(RemedyAnswer::advise(
            &settings,
            format!(
                "under [mysqld] of my.cnf: {sum:.0} % of the shootdowns are by what the kernel does to pages. Those of \
                 the huge page pool stay where they are, and memory with a policy of its own is not balanced (MariaDB \
                 has no innodb_numa_interleave from 10.4 on). Not measured here"
            ),
        ))
    }
}
