use proptest::prelude::*;
use quell_event::trace::{EventRow, UNSEEN_CPU};
use quell_event::{Cause, TallySummary};

use super::{AnyNames, about};
use crate::{Binner, PageLimits};

/// Small, so that a few hundred rows reach every bound.
const TIGHT: PageLimits = PageLimits {
    bins: 16,
    steps: 4,
    entries: 20,
    cells: 60,
    cell_bytes: 1_500,
    name_bytes: 600,
    shots: 30,
};

/// Rows of shootdowns with up to three victims, of few kinds or of any.
fn rows() -> impl Strategy<Value = Vec<EventRow>> {
    let moment = prop_oneof![5 => 1_000_000u64..9_000_000, 1 => any::<u64>()];
    let number = || prop_oneof![4 => 0u32..6, 1 => any::<u32>()];
    let cpu = || prop_oneof![6 => 0u16..8, 1 => any::<u16>()];
    let stack = prop_oneof![3 => -1i32..40, 1 => any::<i32>()];
    let victim = (cpu(), number(), any::<bool>(), any::<u32>(), any::<u32>());
    let shootdown = (
        moment,
        0usize..Cause::ALL.len(),
        number(),
        cpu(),
        stack,
        any::<u32>(),
        proptest::collection::vec(victim, 1..4),
    );
    proptest::collection::vec(shootdown, 0..300).prop_map(|shootdowns| {
        let mut rows = Vec::new();
        for (id, (t_ns, cause, pid, cpu, user_stack, wait, victims)) in (0u64..).zip(shootdowns) {
            for (index, (at, whose, bystander, delay_ns, stall_ns)) in (0u16..).zip(victims) {
                let seen = at != UNSEEN_CPU;
                rows.push(EventRow {
                    id,
                    victim_index: index,
                    t_ns,
                    wait_ns: u64::from(wait),
                    cause: Cause::ALL[cause],
                    pid,
                    cpu,
                    user_stack,
                    victim_cpu: at,
                    victim_pid: if seen { whose } else { 0 },
                    bystander: seen && bystander,
                    delay_ns: if seen { delay_ns } else { 0 },
                    stall_ns: if seen { stall_ns } else { 0 },
                    ..EventRow::default()
                });
            }
        }
        rows
    })
}

fn binned(rows: &[EventRow], limits: PageLimits) -> Binner {
    let mut binner = Binner::new(limits);
    rows.iter().for_each(|r| binner.take(r, r.pid % 5));
    binner
}

/// Shootdowns, victims, wait and stall of some rows.
fn amounts<'a>(rows: impl Iterator<Item = &'a EventRow>) -> [u64; 4] {
    rows.fold([0; 4], |mut sum, r| {
        let first = u64::from(r.is_first());
        sum[0] += first;
        sum[1] += 1;
        sum[2] += first * r.wait_ns;
        sum[3] += u64::from(r.stall_ns);
        sum
    })
}

fn add<const N: usize>(cells: &[(u64, [u64; N])], sum: &mut [u64; N]) {
    cells
        .iter()
        .for_each(|(_, n)| sum.iter_mut().zip(n).for_each(|(s, n)| *s += n));
}

proptest! {
    /// Check that sums over bins and over steps are those of the rows, for each cause, whatever was folded.
    #[test]
    fn causes_are_exact(rows in rows()) {
        let mut b = binned(&rows, TIGHT);
        b.fit_limits(&AnyNames);
        for cause in Cause::ALL {
            let exact = amounts(rows.iter().filter(|r| r.cause == cause));
            let (mut bins, mut steps) = ([0; 4], [0; 4]);
            add(b.timeline[cause as usize].cells(), &mut bins);
            for e in b.sites.live_entries().filter(|e| e.key.cause == cause) {
                prop_assert_eq!(e.total, { let mut t = [0; 4]; add(e.series.cells(), &mut t); t });
                add(e.series.cells(), &mut steps);
            }
            prop_assert_eq!(bins, exact);
            prop_assert_eq!(steps, exact);
        }
    }

    /// Check that where nothing had to be folded, each culprit, each pair and each pair of CPUs has its rows.
    #[test]
    fn everyone_is_exact(rows in rows()) {
        let mut b = binned(&rows, PageLimits::default());
        b.fit_limits(&AnyNames);
        prop_assert_eq!(b.sites.folded_count() + b.pairs.folded_count(), 0);
        let culprits: std::collections::BTreeSet<u32> = rows.iter().map(|r| r.pid).collect();
        for pid in culprits {
            let mut sum = [0; 4];
            b.sites.live_entries().filter(|e| e.key.culprit == Some(pid)).for_each(|e| add(e.series.cells(), &mut sum));
            prop_assert_eq!(sum, amounts(rows.iter().filter(|r| r.pid == pid)));
        }
        let seen = || rows.iter().filter(|r| !r.is_unseen());
        for e in b.pairs.live_entries() {
            let of = seen().filter(|r| Some(r.pid) == e.key.culprit && Some(r.victim_pid) == e.key.victim && r.bystander == e.key.bystander);
            prop_assert_eq!(e.total[0], of.count() as u64);
        }
        let group = b.matrix.cpus_per_group();
        for e in b.matrix.pairs().live_entries() {
            let of = seen().filter(|r| u32::from(r.cpu) / group == u32::from(e.key.from) && u32::from(r.victim_cpu) / group == u32::from(e.key.at));
            let (hits, stall) = of.fold((0, 0), |s, r| (s.0 + 1, s.1 + u64::from(r.stall_ns)));
            prop_assert_eq!(e.total, [hits, stall]);
            prop_assert!(e.key.from < 64 && e.key.at < 64);
        }
        let hits: u64 = b.matrix.pairs().live_entries().map(|e| e.total[0]).sum();
        prop_assert_eq!(hits, seen().count() as u64);
        prop_assert_eq!(b.unseen, rows.len() as u64 - hits);
    }

    /// Check that each step has the rows of its time, so that a brush shows its own rows.
    #[test]
    fn steps_are_times(rows in rows(), at in any::<prop::sample::Index>()) {
        prop_assume!(!rows.is_empty());
        let mut b = binned(&rows, TIGHT);
        b.fit_limits(&AnyNames);
        let step = at.get(&rows).t_ns >> b.step_log2;
        let mut sum = [0; 4];
        for e in b.sites.live_entries() {
            e.series.cells().iter().filter(|c| c.0 == step).for_each(|c| add(&[*c], &mut sum));
        }
        let then = || rows.iter().filter(|r| r.t_ns >> b.step_log2 == step);
        prop_assert_eq!(sum, amounts(then()));
        let spread = b.spread.cells().iter().find(|s| s.0 == step).map_or(0, |s| s.1.counts[0].iter().sum());
        prop_assert_eq!(spread, then().filter(|r| r.is_first()).count() as u64);
        prop_assert!(b.step_log2 >= b.bin_log2);
    }

    /// Check that bounds hold for any rows: bins, entries, bytes of amounts and of names.
    #[test]
    fn bounds_hold(rows in rows()) {
        let mut b = binned(&rows, TIGHT);
        for series in &b.timeline {
            prop_assert!(series.cells().len() as u64 <= TIGHT.bins);
        }
        let causes = Cause::ALL.len();
        prop_assert!(b.sites.live_count() <= 2 * TIGHT.entries.max(causes));
        let (packed, named) = b.fit_limits(&AnyNames);
        // Entries can't be fewer than the causes, nor steps fewer than one.
        prop_assert!(b.sites.live_count() <= TIGHT.entries.max(causes));
        prop_assert!(packed.len() <= TIGHT.cell_bytes || b.step_count() <= 2);
        prop_assert!(named.len() <= TIGHT.name_bytes || b.sites.live_entries().all(|e| e.key.region.is_none()));
        prop_assert!(b.shots.kept().is_none_or(|s| s.len() <= TIGHT.shots));
    }

    /// Check that any rows make a page.
    #[test]
    fn any_rows_make_a_page(rows in rows()) {
        let mut page = Vec::new();
        binned(&rows, TIGHT).write(&about(&TallySummary::default(), "any"), &AnyNames, &mut page).unwrap();
        prop_assert!(String::from_utf8(page).unwrap().ends_with("</html>\n"));
    }
}
