//! jemalloc: keep freed memory instead of giving it back.

use super::{Case, MANY_FAULTS, Remedy, Verdict, one};
use crate::Kind;

/// Turns the timed return of freed pages off, and stops what is left: see the comments inside.
pub(super) struct Decay;

impl Remedy for Decay {
    fn id(&self) -> &'static str {
        "jemalloc.decay"
    }

    fn kind(&self) -> Kind {
        Kind::Jemalloc
    }

    fn stops(&self) -> &'static str {
        "madvise(MADV_DONTNEED and MADV_FREE) and munmap of freed pages, and with huge pages the one for a large calloc"
    }

    fn worse(&self) -> &'static str {
        "memory is never given back, so a program that peaks once keeps its peak; thp:always without the rest raised shootdowns to 4 times; on many cores the one arena for large blocks may be contended (seen on two only)"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: Polars and churn, measured on Linux 6.18"
    }

    fn consider(&self, case: &Case<'_>) -> Verdict {
        let found = case.found;
        let Some(variable) = &found.conf_env else {
            return Verdict::Refuse(
                "the name of its environment variable was not found".to_owned(),
            );
        };
        if found.below(5, 0, 0) {
            return old(case, variable);
        }
        if !found.at_least(5, 0, 0) {
            return Verdict::Refuse("its version is not known, and a key that it does not know is only an error message".to_owned());
        }
        let mut keys = vec!["dirty_decay_ms:-1", "muzzy_decay_ms:-1"];
        let mut cost =
            "freed memory stays resident; not measured how much on this version".to_owned();
        // What keeps memory from growing for it. One arena for all blocks from 64 KB on (an option
        // since 5.2), so that what one thread freed serves another; and free extents may be cut up for
        // blocks up to 2^16 times smaller, not 2^6, instead of mapping more beside them.
        if found.at_least(5, 2, 0) {
            keys.extend(["oversize_threshold:65536", "lg_extent_max_active_fit:16"]);
            "freed memory stays resident: 5 to 17 % more at the peak for Polars, measured (over 40 % without oversize_threshold and lg_extent_max_active_fit)".clone_into(&mut cost);
        }
        // thp:always (a word since 5.1) takes away page faults, and the zeroing of a large calloc by
        // MADV_DONTNEED, which no decay setting stops up to 5.3.0. metadata_thp would take away what
        // is left (jemalloc's own metadata is read before it is written, and each of its pages then
        // costs a shootdown to replace the zero page): 3 % of the shootdowns for 3 % of the memory.
        // Where the program forks as it works, a write would copy 2 MB and not 4 KB: no huge pages.
        let faults = case.page_faults.is_none_or(|n| n >= MANY_FAULTS) && case.copies < 0.05;
        if found.at_least(5, 1, 0) && faults {
            keys.extend(["thp:always"]);
            cost.push_str(", of which huge pages are 6 to 7 %; after a fork a write copies 2 MB (take thp out for a Redis that saves)");
        }
        Verdict::Set {
            sets: one(variable.clone(), keys.join(",")),
            stops: 0.95,
            cost,
        }
    }
}

/// jemalloc 3 and 4 return pages when dirty ones exceed a ratio of active ones; -1 never does.
/// From 4.1 they can decay instead, where the user (or the program) asked for it.
fn old(case: &Case<'_>, variable: &str) -> Verdict {
    let set = (case.env)(variable)
        .or_else(|| case.found.built_in.clone())
        .unwrap_or_default();
    let decays = case.found.at_least(4, 1, 0) && set.contains("purge:decay");
    let keys = if decays {
        "purge:decay,decay_time:-1"
    } else {
        "lg_dirty_mult:-1"
    };
    Verdict::Set {
        sets: one(variable, keys),
        stops: 0.95,
        cost: "freed memory stays resident; not measured how much (jemalloc 4.5.0: 770 shootdowns per 1,000 operations to 0)".to_owned(),
    }
}
