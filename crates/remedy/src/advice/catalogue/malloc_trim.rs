//! Programs that call malloc_trim(3) themselves.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, Sight};

pub(super) const TOUCHED_MECHANISMS: &[Mechanism] = &[
    Mechanism::Advise,
    Mechanism::LockMmap,
    Mechanism::ShootdownWait,
];

pub(super) const ADVICE_ENTRY: AdviceEntry = AdviceEntry {
    id: "malloc.trim",
    what: "the program has malloc_trim(3) give freed pages back, and faults them in again",
    seen_by: "madvise below malloc_trim",
    mechanisms: TOUCHED_MECHANISMS,
    switch: "call it after rare large peaks, and not by a timer or after each request (Java: no -XX:TrimNativeHeapInterval); \
             no tunable of glibc stops it, and quell prove tries to drop the calls",
    why: "it looks at each free block of every arena and gives whole pages back whatever M_TRIM_THRESHOLD says: 7 to 11 ms a call \
          in aMule, page faults from 20 a minute to 1,600, and the peak of memory stayed",
    source: "https://github.com/amule-org/amule/pull/1156 https://github.com/s3fs-fuse/s3fs-fuse/issues/936",
    instead_of: &[],
    look: |scene| {
        Sight::if_any_of(&[Mechanism::Advise], scene, TOUCHED_MECHANISMS, |cost| {
            cost.calls_any(&["malloc_trim"])
        })
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::{fires, fires_by_evidence, recorded, scene};

    /// Check that a timer's trims fire it, with the thread that calls them.
    #[test]
    fn fires_on_a_timer() {
        let advised = fires(&ADVICE_ENTRY, &recorded("02-malloc-trim-timer"));
        assert_eq!(advised.place, "trim: trimmer (trim)");
    }

    /// Check that it goes by the trim.
    #[test]
    fn goes_by_evidence() {
        let stack = "madvise (libc.so.6) < malloc_trim (libc.so.6) < sweep (rippled)";
        fires_by_evidence(
            &ADVICE_ENTRY,
            &scene(&[(Mechanism::Advise, stack)]),
            "rippled",
        );
    }
}
