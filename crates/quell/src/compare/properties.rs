//! Properties that hold for any two traces.

use proptest::prelude::*;

use super::change::{ComparedRow, Presence};
use super::fixture::MadeSide;
use super::{Comparison, comparison_text};

const ROW_NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const STACK_FRAMES: [&[&str]; 3] = [&["f", "main"], &["g", "main"], &["f"]];

fn any_named_counts() -> impl Strategy<Value = Vec<(&'static str, u64)>> {
    let one = (prop::sample::select(&ROW_NAMES[..]), 0u64..1_000_000);
    prop::collection::vec(one, 0..6)
}

fn any_made_side() -> impl Strategy<Value = MadeSide> {
    let stacks = prop::collection::vec(
        (prop::sample::select(&STACK_FRAMES[..]), 0u64..1_000_000),
        0..4,
    );
    let parts = (
        0u64..100_000_000_000,
        any_named_counts(),
        any_named_counts(),
        any_named_counts(),
        any_named_counts(),
        stacks,
    );
    parts.prop_map(
        |(duration_ns, causes, culprits, threads, regions, stacks)| MadeSide {
            duration_ns,
            causes,
            culprits,
            threads,
            regions,
            stacks,
        },
    )
}

/// The same row, seen from the other side.
fn mirrored_rows<K: Clone>(rows: &[ComparedRow<K>]) -> Vec<ComparedRow<K>> {
    let mirror = |r: &ComparedRow<K>| ComparedRow {
        key: r.key.clone(),
        a: r.b,
        b: r.a,
        state: match r.state {
            Presence::Both => Presence::Both,
            Presence::Gone => Presence::New,
            Presence::New => Presence::Gone,
        },
    };
    rows.iter().map(mirror).collect()
}

proptest! {
    /// Check that a trace compared with itself has not changed in anything.
    #[test]
    fn same_traces_have_no_change(made in any_made_side()) {
        let c = Comparison::of_sides(made.to_trace_side(), made.to_trace_side());
        let tables = [&c.causes, &c.culprits, &c.threads, &c.regions];
        for row in tables.into_iter().flatten() {
            prop_assert_eq!(row.a, row.b);
            prop_assert_eq!(row.state, Presence::Both);
        }
        prop_assert!(c.stacks.iter().all(|r| r.a == r.b && r.state == Presence::Both));
        prop_assert!(c.notes.is_empty());
        let text = comparison_text(&c, 10);
        for word in ["gone", "new", "+", "−", "×"] {
            prop_assert!(!text.split_whitespace().any(|w| w.starts_with(word)), "{}: {}", word, text);
        }
    }

    /// Check that swapping the sides mirrors every row, in the same order, and that sums over rows stay.
    #[test]
    fn swapped_sides_mirror_rows(a in any_made_side(), b in any_made_side()) {
        let there = Comparison::of_sides(a.to_trace_side(), b.to_trace_side());
        let back = Comparison::of_sides(b.to_trace_side(), a.to_trace_side());
        prop_assert_eq!(mirrored_rows(&there.causes), back.causes.clone());
        prop_assert_eq!(mirrored_rows(&there.culprits), back.culprits);
        prop_assert_eq!(mirrored_rows(&there.threads), back.threads);
        prop_assert_eq!(mirrored_rows(&there.regions), back.regions);
        prop_assert_eq!(mirrored_rows(&there.stacks), back.stacks);
        let sum: u64 = there.causes.iter().map(|r| r.a.shootdowns).sum();
        prop_assert_eq!(sum, there.total.a.shootdowns);
    }
}
