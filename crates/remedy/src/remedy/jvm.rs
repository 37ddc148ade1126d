//! Java: a heap of fixed size, touched at the start.

use super::{Case, Remedy, Verdict, one};
use crate::Kind;

/// Makes the first heap size the largest, where the user has stated that.
pub(super) struct FixedHeap;

impl Remedy for FixedHeap {
    fn id(&self) -> &'static str {
        "jvm.fixed-heap"
    }

    fn kind(&self) -> Kind {
        Kind::Jvm
    }

    fn stops(&self) -> &'static str {
        "growing and shrinking of the heap, and first touches beside running threads"
    }

    fn worse(&self) -> &'static str {
        "without a stated maximum it would make a quarter of the machine's memory resident"
    }

    fn source(&self) -> &'static str {
        "docs/remedies.md: runtimes, Java 17 G1, 2,687 shootdowns to 29"
    }

    fn consider(&self, case: &Case<'_>) -> Verdict {
        let set = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"]
            .iter()
            .filter_map(|v| (case.env)(v));
        let all = set.collect::<Vec<_>>().join(" ");
        let maximum = all
            .split_ascii_whitespace()
            .rev()
            .find_map(|w| w.strip_prefix("-Xmx"));
        match maximum {
            Some(size) => Verdict::Set {
                sets: one("JAVA_TOOL_OPTIONS", format!("-Xms{size} -XX:+AlwaysPreTouch")),
                stops: 0.95,
                cost: format!("the whole heap of {size} is resident from the start"),
            },
            None => Verdict::Refuse(
                "a heap of fixed size, touched at the start, stopped 99 % on Java 17 G1, but its size must be known: \
                 put -Xmx… in JAVA_TOOL_OPTIONS, or start java with -Xms and -Xmx equal and -XX:+AlwaysPreTouch"
                    .to_owned(),
            ),
        }
    }
}
