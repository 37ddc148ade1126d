//! Java: a heap of fixed size, touched at the start, whichever collector works in it.

use quell_event::Mechanism;

use super::{
    HEAP_CALLS, MANY_FAULTS, MemoryGrowth, Offer, Remedy, RemedyAnswer, RemedyCase, one_variable,
};
use crate::{SoftwareKind, Touches};

/// The collectors that give memory back by themselves, or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Collector {
    /// Nothing says: G1 on a server, Serial on a small machine.
    Default,
    G1,
    Z,
    Shenandoah,
    /// Parallel and Serial.
    Other,
}

/// Makes the first heap size the largest, where the user has stated that.
pub(super) const FIXED_HEAP: Remedy = Remedy {
    id: "jvm.fixed-heap",
    stops: "growing and shrinking of the heap, and first touches beside running threads",
    worse: "without a stated maximum it would make a quarter of the machine's memory resident",
    source: "docs/remedies-measured.md: runtimes, Java 17: G1 2,687 shootdowns to 29, ZGC 51 to 9; man java(1), AlwaysPreTouch, ZUncommit, ShenandoahUncommit",
    touches: Touches::keeping(
        HEAP_CALLS,
        "the heap neither grows nor shrinks, and with AlwaysPreTouch its pages are there before it is used; the collector's own time is no part of it",
    ),
    everywhere_with: Some((
        "AlwaysPreTouch",
        &[
            Mechanism::FaultAnon,
            Mechanism::FaultHuge,
            Mechanism::FaultEntry,
            Mechanism::Zeroing,
        ],
    )),
    consider: consider_fixed_heap,
    wins_beyond_account: true,
    ..Remedy::BY_SETTING
};

fn consider_fixed_heap(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    case.allocator_of_kind(SoftwareKind::Jvm)?;
    let all = all_options(case);
    let collector = chosen_collector(&all);
    let keep = match collector {
        Collector::Z => " -XX:-ZUncommit",
        Collector::Shenandoah => " -XX:-ShenandoahUncommit",
        Collector::Default | Collector::G1 | Collector::Other => "",
    };
    let maximum = all
        .split_ascii_whitespace()
        .rev()
        .find_map(|w| w.strip_prefix("-Xmx"));
    let Some(size) = maximum else {
        let unsaid = if collector == Collector::Default {
            "; which collector works is not said there: with ZGC add -XX:-ZUncommit, with Shenandoah -XX:-ShenandoahUncommit"
        } else {
            ""
        };
        return Some(RemedyAnswer::Refuse(format!(
            "a heap of fixed size, touched at the start, stopped 99 % on Java 17 G1, but its size must be known: \
             put -Xmx… on the command line or in JAVA_TOOL_OPTIONS, or start java with -Xms and -Xmx equal and -XX:+AlwaysPreTouch{keep}{unsaid}"
        )));
    };
    // 2,687 to 29, and 51 to 9; of the others nothing was measured, so the lesser of the two.
    let (stops, measured) = match collector {
        Collector::Default | Collector::G1 => (0.95, ""),
        Collector::Z => (0.82, ""),
        Collector::Shenandoah | Collector::Other => {
            (0.82, "; on this collector it was not measured")
        }
    };
    let Some(maximum) = parse_size(size) else {
        return Some(RemedyAnswer::refuse(format!(
            "-Xmx{size} is no size that java takes"
        )));
    };
    let offer = |options: String, stops: f64, grows: u64, what: &str| Offer {
        sets: one_variable("JAVA_TOOL_OPTIONS", options),
        stops,
        memory: MemoryGrowth::UpTo(grows),
        // by -Xmx, and a program that runs for long may come to it by itself
        allowed: true,
        cost: format!(
            "{what} the heap of {size} that -Xmx allows, which may be up to {} MB more{measured}",
            grows >> 20
        ),
        ..Offer::default()
    };
    let grows = maximum.saturating_sub(case.evidence.max_rss.unwrap_or(0));
    let touch = format!("-Xms{size} -XX:+AlwaysPreTouch{keep}");
    Some(RemedyAnswer::Offer(vec![
        offer(touch, stops, grows, "resident from the start is"),
        // The heap is not grown step by step, and memory that is never used is not touched.
        offer(
            format!("-Xms{size}{keep}"),
            0.5 * stops,
            grows,
            "resident as it is used is",
        ),
    ]))
}

/// The options in two variables and on the command line, in the order in which HotSpot reads them: a later one overrides.
/// `_JAVA_OPTIONS`, which it reads last, is not looked at, and every word of the command that begins with `-X` counts as Java's.
fn all_options(case: &RemedyCase<'_>) -> String {
    let set = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"];
    let set = set.iter().filter_map(|v| (case.env)(v));
    let words = case.evidence.command.iter();
    let words = words.filter(|w| w.starts_with("-X")).cloned();
    set.chain(words).collect::<Vec<_>>().join(" ")
}

/// One option to try.
fn to_try(option: &str, cost: &str) -> RemedyAnswer {
    RemedyAnswer::to_try(one_variable("JAVA_TOOL_OPTIONS", option), cost)
}

/// Asks for huge pages under the heap.
pub(super) const JAVA_HUGE_PAGES: Remedy = Remedy {
    id: "jvm.huge-pages",
    stops: "no shootdown: page faults of 4 KB in the heap, each 512 of which become one",
    worse: "a huge page is zeroed whole, and found dearly where memory is fragmented; pages of the heap that are used thinly are resident whole",
    source: "man java(1), UseTransparentHugePages; docs/remedies-measured.md: what huge pages win differs by the hour, so that only runs tell",
    touches: Touches::everywhere(
        &[Mechanism::FaultAnon, Mechanism::FaultEntry],
        "one fault brings 2 MB of the heap where there were 512; what is zeroed stays the same",
    ),
    consider: |case| {
        case.allocator_of_kind(SoftwareKind::Jvm)?;
        let faults = case.evidence.page_faults.unwrap_or(0);
        let set = all_options(case);
        if faults < MANY_FAULTS || set.contains("TransparentHugePages") {
            return None;
        }
        Some(to_try(
            "-XX:+UseTransparentHugePages",
            "what is touched of the heap is resident by 2 MB; not measured how much more that is",
        ))
    },
    ..Remedy::BY_SETTING
};

/// Another collector, where none is named.
pub(super) const PARALLEL_COLLECTOR: Remedy = Remedy {
    id: "jvm.parallel",
    stops: "what G1 gives back and faults in again, and its threads beside the program's",
    worse: "longer pauses: each collection stops the program; a service that answers by a deadline should keep its collector",
    source: "man java(1), UseParallelGC; docs/remedies-measured.md",
    touches: Touches::keeping(
        HEAP_CALLS,
        "the young generation is used again in place; the collector's own time is no part of it",
    ),
    consider: |case| {
        case.allocator_of_kind(SoftwareKind::Jvm)?;
        // A user who names a collector has chosen its pauses.
        let is_free = chosen_collector(&all_options(case)) == Collector::Default
            && !all_options(case).contains("GC");
        let faults = case.evidence.page_faults.unwrap_or(0);
        (is_free && faults >= MANY_FAULTS).then(|| {
            to_try(
                "-XX:+UseParallelGC",
                "pauses are longer, and memory may grow to -Xmx before it is collected; neither was measured",
            )
        })
    },
    wins_beyond_account: true,
    ..Remedy::BY_SETTING
};

/// The collector of the last option that names one.
fn chosen_collector(options: &str) -> Collector {
    let named = |word: &str| match word {
        "-XX:+UseZGC" => Some(Collector::Z),
        "-XX:+UseShenandoahGC" => Some(Collector::Shenandoah),
        "-XX:+UseG1GC" => Some(Collector::G1),
        "-XX:+UseParallelGC" | "-XX:+UseSerialGC" => Some(Collector::Other),
        _ => None,
    };
    let mut words = options.split_ascii_whitespace().rev();
    words.find_map(named).unwrap_or(Collector::Default)
}

/// A size as java takes it: `512m`, `2G`, `1073741824`.
fn parse_size(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &size[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that sizes are read as java reads them.
    #[test]
    fn sizes() {
        assert_eq!(parse_size("512m"), Some(512 << 20));
        assert_eq!(parse_size("2G"), Some(2 << 30));
        assert_eq!(parse_size("4096"), Some(4096));
        assert_eq!(parse_size("99999999999999t"), None);
        assert_eq!((parse_size("1x"), parse_size("")), (None, None));
    }
}
