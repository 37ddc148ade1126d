//! A shootdown by the number of its victims: the culprit waits until the last has answered (kernel/smp.c:
//! smp_call_function_many_cond()). A CPU whose thread of the address space sleeps is not interrupted unless page
//! tables were freed (arch/x86/mm/tlb.c: should_flush_tlb()).

use super::flush_threshold::MadviseBench;
use super::peers::PeerActivity;
use super::{Curve, CurvePart, SampleKind};

pub(super) const TARGETS_CURVE: Curve = Curve {
    name: "targets",
    about: "madvise(MADV_DONTNEED) of one page, by the CPUs on which threads of the address space spin, or sleep with and without another process since",
    x: "CPUs",
    wants: &[],
    parts: |place| {
        let others = place.others.len();
        // Every point has a process, or the kernel would still note a CPU for the address space that has slept since another
        // point.
        target_counts(others)
            .into_iter()
            .flat_map(|n| {
                [
                    target_part("spinning", n, PeerActivity::Spin),
                    target_part("asleep, lazy", n, PeerActivity::Sleep),
                    target_part("asleep, another ran", n, PeerActivity::SleepAway),
                ]
            })
            .collect()
    },
    notes: &[
        "0 CPUs is the control: nobody else runs in the address space",
        "lazy: nothing else ran there since, so that an idle CPU still has the address space loaded, and looks \
         when it goes on whether it must flush; another ran: a process of another address space, which is \
         loaded there now",
    ],
    place_note: Some(|place| {
        let there = match place.others.len() {
            1 => "is 1 CPU".to_owned(),
            n => format!("are {n} CPUs"),
        };
        format!("there {there} besides the culprit's: this says nothing of more")
    }),
};

fn target_part(series: &'static str, cpus: usize, does: PeerActivity) -> CurvePart {
    CurvePart {
        series,
        per: "call",
        sample: SampleKind::Operation,
        xs: vec![u64::try_from(cpus).unwrap_or(u64::MAX)],
        prepare: Box::new(move |place| {
            let cpus = &place.others[..cpus.min(place.others.len())];
            let bench = MadviseBench::new(libc::MADV_DONTNEED, Some(1), cpus, Some(does))?;
            Ok(Box::new(bench))
        }),
    }
}

/// All numbers up to 8, then powers of two, and the last: every point is a process with as many threads.
fn target_counts(others: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..=others.min(8)).collect();
    let doubled = std::iter::successors(Some(16_usize), |n| n.checked_mul(2));
    all.extend(doubled.take_while(|n| *n < others));
    if others > 8 {
        all.push(others);
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Check that the points begin with the control and end with all CPUs, rise, and stay few.
        #[test]
        fn steps_reach_all(others in 0_usize..5000) {
            let all = target_counts(others);
            prop_assert_eq!(all[0], 0);
            prop_assert_eq!(all[all.len() - 1], others);
            prop_assert!(all.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(all.len() <= 9 + 11);
        }
    }
}
