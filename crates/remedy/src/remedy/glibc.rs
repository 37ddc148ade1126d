//! glibc: take memory from the heap, and keep it there.

use super::{Case, Remedy, Verdict, one};
use crate::Kind;

/// Never map a block of its own, never trim the heap.
pub(super) struct Keep;

/// Larger than any block or heap that matters.
const HUGE: &str = "4294967296";

impl Remedy for Keep {
    fn id(&self) -> &'static str {
        "glibc.keep"
    }

    fn kind(&self) -> Kind {
        Kind::Glibc
    }

    fn stops(&self) -> &'static str {
        "munmap of large blocks, and brk and madvise(MADV_DONTNEED) where heaps are trimmed"
    }

    fn worse(&self) -> &'static str {
        "mmap_threshold without trim_threshold: 692 shootdowns per 1,000 operations where the default makes 8"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: allocation churn, measured on glibc 2.36, Linux 6.18"
    }

    fn consider(&self, case: &Case<'_>) -> Verdict {
        if case.found.below(2, 26, 0)
            || (case.found.version.is_none() && case.found.conf_env.is_none())
        {
            return Verdict::Refuse(
                "this glibc is older than 2.26 or of unknown age, and has no or other tunables"
                    .to_owned(),
            );
        }
        // Setting any of these turns the dynamic threshold off, which alone is much worse: so the
        // limits go up together. Up to 2.34 an mmap_threshold over 32 MB is ignored; mmap_max=0 isn't.
        let direct = if case.found.at_least(2, 35, 0) {
            format!("glibc.malloc.mmap_threshold={HUGE}")
        } else {
            "glibc.malloc.mmap_max=0".to_owned()
        };
        // The larger step by which heaps grow keeps blocks over a heap's end from being mapped.
        let value =
            format!("{direct}:glibc.malloc.trim_threshold={HUGE}:glibc.malloc.top_pad=67108864");
        Verdict::Set {
            sets: one("GLIBC_TUNABLES", value),
            stops: 0.95,
            cost: "freed memory stays resident: 19 % more under churn (133 to 158 MB), 54 % with blocks of 1 to 64 MB, measured".to_owned(),
        }
    }
}
