//! The ways by which shootdowns came from one process: a pair of stacks each, by their numbers first and by name in the
//! end.

use std::cmp::Reverse;
use std::collections::HashMap;

use quell_event::{Backtraces, ShootdownPath};

use crate::error::Result;
use crate::resolver::is_probe_function;

/// The most ways that are named. One operation comes by a handful; more would only be those of a machine that is busy with
/// something else.
const MAX_NAMED_WAYS: usize = 32;

/// Ways by the numbers of the culprit's and the victim's stack.
pub(super) type Ways = HashMap<(i32, i32), WayCounts>;

/// The shootdowns that came by one way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WayCounts {
    pub(super) shootdowns: u64,
    /// How long the victim was in their handlers.
    pub(super) stall_ns: u64,
}

impl WayCounts {
    pub(super) fn add(&mut self, more: &Self) {
        self.shootdowns += more.shootdowns;
        self.stall_ns += more.stall_ns;
    }
}

/// The ways with the functions that `named` returns for a stack; `None` if there are no ways.
pub(super) fn name_ways(
    ways: &Ways,
    named: impl Fn(i32) -> Result<Vec<String>>,
) -> Result<Option<Backtraces>> {
    let mut all: Vec<_> = ways.iter().collect();
    // The number decides between equal ones, so that the choice of those that are kept is no accident.
    all.sort_by_key(|(sides, came)| (Reverse(came.shootdowns), **sides));
    let rare = all.split_off(all.len().min(MAX_NAMED_WAYS));
    // Two places in one function are two stacks, but one way.
    let mut told: Vec<ShootdownPath> = Vec::new();
    for (&(culprit, victim), came) in all {
        let (culprit, victim) = (
            without_probe_functions(named(culprit)?),
            without_probe_functions(named(victim)?),
        );
        let same = told
            .iter_mut()
            .find(|way| way.culprit == culprit && way.victim == victim);
        if let Some(way) = same {
            way.shootdowns += came.shootdowns;
            way.stall_ns += came.stall_ns;
        } else {
            told.push(ShootdownPath {
                culprit,
                victim,
                shootdowns: came.shootdowns,
                stall_ns: came.stall_ns,
            });
        }
    }
    told.sort_by_key(|way| Reverse(way.shootdowns));
    Ok(told.first().cloned().map(|first| Backtraces {
        culprit: first.culprit,
        victim: first.victim,
        shootdowns: first.shootdowns,
        others: rare.iter().map(|(_, came)| came.shootdowns).sum(),
        ways: told,
    }))
}

/// The functions of a stack without the probe's own, which come first.
fn without_probe_functions(names: Vec<String>) -> Vec<String> {
    let names = names.into_iter();
    names.skip_while(|name| is_probe_function(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(all: &[((i32, i32), u64)]) -> Ways {
        let came = |n: u64| WayCounts {
            shootdowns: n,
            stall_ns: n * 100,
        };
        all.iter().map(|(sides, n)| (*sides, came(*n))).collect()
    }

    fn named(id: i32) -> Result<Vec<String>> {
        let names = [
            "bpf_prog_1_watch",
            "bpf_trace_run4",
            &format!("f{}", id / 10),
            "entry",
        ];
        Ok(names.map(str::to_owned).to_vec())
    }

    /// Check that stacks of the same names are one way, without the probe's own, that the most frequent comes first and is told
    /// apart, and that no shootdown is lost: those of ways beyond the most are counted.
    #[test]
    fn all_shootdowns_are_told() {
        let told = name_ways(&ways(&[((10, 20), 3), ((11, 25), 4), ((30, 20), 5)]), named);
        let told = told.unwrap().unwrap();
        assert_eq!((told.shootdowns, told.others), (7, 0));
        assert_eq!(told.culprit, ["f1", "entry"]);
        assert_eq!(told.victim, ["f2", "entry"]);
        let all: Vec<_> = told
            .ways
            .iter()
            .map(|w| (w.shootdowns, w.stall_ns))
            .collect();
        assert_eq!(all, [(7, 700), (5, 500)]);
        let many: Vec<_> = (0_i32..40)
            .map(|i| ((i * 10, 0), 100 - u64::from(i.unsigned_abs())))
            .collect();
        let told = name_ways(&ways(&many), named).unwrap().unwrap();
        assert_eq!(told.ways.len(), MAX_NAMED_WAYS);
        let kept: u64 = told.ways.iter().map(|w| w.shootdowns).sum();
        assert_eq!(kept + told.others, many.iter().map(|(_, n)| n).sum::<u64>());
        assert_eq!(told.shootdowns, 100);
        assert!(name_ways(&Ways::new(), named).unwrap().is_none());
    }
}
