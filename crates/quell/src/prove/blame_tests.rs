//! Tests of the search on made-up programs that fail with known remedies.

use proptest::prelude::*;

use super::*;
use crate::launch::Status;
use crate::prove::failed::FailureKind;

fn failure() -> FailedRun {
    FailedRun {
        line: "it failed".into(),
        output: vec![],
        end: Some(BadEnd {
            who: "the program",
            how: FailureKind::Ended(Status::Signal(libc::SIGSEGV)),
        }),
    }
}

/// Searches a plan with a number of remedies, for a program that fails where `breaks` says so for the remedies and for the
/// number of the run; and the sets that were run.
fn search(
    remedies: usize,
    mut breaks: impl FnMut(&[usize], usize) -> bool,
) -> (BlameResult, Vec<Vec<usize>>) {
    let order: Vec<usize> = (0..remedies).collect();
    let mut ran = Vec::new();
    let mut run = |with: &[usize]| {
        ran.push(with.to_vec());
        Ok(breaks(with, ran.len()).then(failure))
    };
    let found = find_blame(&order, 0, failure().end.unwrap(), &mut run).unwrap();
    (found, ran)
}

fn names(found: &BlameResult) -> Vec<usize> {
    match found {
        BlameResult::Remedies(guilty) => guilty.iter().map(|g| g.remedy).collect(),
        BlameResult::ByItself(_) => panic!("by itself"),
    }
}

fn first(found: BlameResult) -> BlamedRemedy {
    match found {
        BlameResult::Remedies(guilty) => guilty.into_iter().next().unwrap(),
        BlameResult::ByItself(_) => panic!("by itself"),
    }
}

/// Check that the only remedy is blamed after it failed twice, and the program worked twice without it.
#[test]
fn the_only_one() {
    let (found, ran) = search(1, |with, _| !with.is_empty());
    assert_eq!(ran, [vec![], vec![0], vec![]]);
    let guilty = first(found);
    assert!(guilty.singled_out);
    assert_eq!(guilty.with, FailureCount { runs: 2, failed: 2 });
    assert_eq!(guilty.without, FailureCount { runs: 2, failed: 0 });
}

/// Check that one of three is found, whichever it is, and that no other is blamed.
#[test]
fn one_of_three() {
    for bad in 0..3 {
        let (found, ran) = search(3, |with, _| with.contains(&bad));
        assert_eq!(names(&found), [bad]);
        assert!(ran.len() <= 7, "{ran:?}");
        let guilty = first(found);
        assert_eq!(
            (guilty.with.failed, guilty.without.failed),
            (guilty.with.runs, 0)
        );
    }
}

/// Check that both are blamed of two that each break the program, and that a harmless third is kept.
#[test]
fn several() {
    let (found, _) = search(2, |with, _| !with.is_empty());
    assert_eq!(names(&found), [0, 1]);
    let (found, _) = search(3, |with, _| with.contains(&0) || with.contains(&2));
    assert_eq!(names(&found), [0, 2]);
    let guilty = first(found);
    assert!(guilty.singled_out && guilty.without.failed > 0);
}

/// Check that where any two together break the program, no breaking set is kept, at the price of one remedy too many.
#[test]
fn only_together() {
    let (found, _) = search(2, |with, _| with.len() == 2);
    assert_eq!(names(&found).len(), 1);
    let (found, _) = search(3, |with, _| with.len() >= 2);
    assert_eq!(names(&found), [0, 1, 2]);
    assert!(!first(found).singled_out);
}

/// Check that a program which fails without the plan too is not blamed on it, at once or later in the search.
#[test]
fn by_itself() {
    let (found, ran) = search(2, |_, _| true);
    assert!(matches!(found, BlameResult::ByItself(_)) && ran.len() == 1);
    let mut plain = 0;
    let (found, _) = search(2, |with, _| {
        plain += usize::from(with.is_empty());
        !with.is_empty() || plain == 2
    });
    assert!(matches!(found, BlameResult::ByItself(_)));
}

/// Check that a failure that does not come again singles no remedy out, and the whole plan is left out.
#[test]
fn not_seen_again() {
    let (found, ran) = search(2, |_, _| false);
    assert_eq!(names(&found), [0, 1]);
    let guilty = first(found);
    assert!(!guilty.singled_out);
    assert_eq!(guilty.with, FailureCount { runs: 4, failed: 1 });
    assert_eq!(guilty.without, FailureCount { runs: 3, failed: 0 });
    assert_eq!(ran.len(), 6);
}

/// Check that a remedy which fails every second time is found, by more runs than one that always does.
#[test]
fn now_and_then() {
    let mut with_it = 0;
    let (found, _) = search(2, |with, _| {
        with_it += usize::from(with.contains(&1));
        with.contains(&1) && with_it % 2 == 0
    });
    assert_eq!(names(&found), [1]);
}

proptest! {
    /// Check that a kept remedy never breaks the program, whichever sets of remedies do, and that the search ends soon:
    /// of a program that always does the same.
    #[test]
    fn keeps_nothing_that_breaks(remedies in 1_usize..6, bad in proptest::collection::vec(1_u32..32, 1..4)) {
        let breaks = |with: &[usize]| {
            let bits: u32 = with.iter().map(|w| 1 << w).sum();
            bad.iter().any(|b| {
                let b = b & ((1 << remedies) - 1);
                b != 0 && bits & b == b
            })
        };
        let mut kept: Vec<usize> = (0..remedies).collect();
        let mut rounds = 0;
        // Like prove, this runs the rest of the plan, and searches again if it fails.
        while breaks(&kept) {
            let (found, ran) = {
                let order = kept.clone();
                let mut ran = 0;
                let mut run = |with: &[usize]| {
                    ran += 1;
                    Ok(breaks(with).then(failure))
                };
                let found = find_blame(&order, 0, failure().end.unwrap(), &mut run).unwrap();
                (found, ran)
            };
            let guilty = names(&found);
            prop_assert!(!guilty.is_empty() && ran <= 4 + 4 * remedies);
            kept.retain(|k| !guilty.contains(k));
            rounds += 1;
        }
        prop_assert!(rounds <= remedies);
    }
}
