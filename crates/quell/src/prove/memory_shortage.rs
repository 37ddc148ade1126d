//! Counts the runs with a plan in which memory was short, because libquell.so keeps nothing then.

use std::collections::BTreeMap;

use quell_remedy::SHIM_LIBRARY;

use crate::preload::memory_is_short;

/// The runs with the plan, and those of them that began or ended while memory was short.
pub(super) struct MemoryShortage {
    /// Whether the plan has the library.
    asked: bool,
    runs: u32,
    short: u32,
}

impl MemoryShortage {
    pub(super) fn of_environment(environment: &BTreeMap<String, String>) -> Self {
        let list = environment.get("LD_PRELOAD");
        Self {
            asked: list.is_some_and(|list| list.contains(SHIM_LIBRARY)),
            runs: 0,
            short: 0,
        }
    }

    /// Makes a run, and looks for a shortage before and after it.
    pub(super) fn watch_run<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let before = self.asked && memory_is_short();
        let ran = run();
        self.runs += 1;
        self.short += u32::from(before || (self.asked && memory_is_short()));
        ran
    }

    /// The note for the user, where memory was short.
    pub(super) fn shortage_note(&self) -> Option<String> {
        (self.short > 0).then(|| {
            format!(
                "memory was short in {} of {} runs with the plan, and {SHIM_LIBRARY} keeps nothing while it is (the limit of the control group, or /proc/pressure/memory above 1 %): with more of it the plan stops more",
                self.short, self.runs
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a plan without the library has no note, and that one with it names the number of runs in which memory was
    /// short.
    #[test]
    fn notes() {
        let none = BTreeMap::from([("LD_PRELOAD".to_owned(), "/a/libother.so".to_owned())]);
        let ours = BTreeMap::from([("LD_PRELOAD".to_owned(), "/a/libquell.so".to_owned())]);
        assert!(
            !MemoryShortage::of_environment(&none).asked
                && !MemoryShortage::of_environment(&BTreeMap::new()).asked
        );
        let mut short = MemoryShortage::of_environment(&ours);
        assert!(short.asked && short.shortage_note().is_none());
        assert_eq!(short.watch_run(|| 7), 7);
        assert_eq!(short.runs, 1);
        (short.runs, short.short) = (20, 3);
        let note = short.shortage_note().unwrap();
        assert!(
            note.starts_with("memory was short in 3 of 20 runs"),
            "{note}"
        );
    }
}
