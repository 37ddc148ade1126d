//! Advice where no setting reaches. An entry recognises something in a program's time, and names the program's own switch, or the
//! change in the program, that is known to cure it.
//!
//! To add an entry, add it to a file under `advice/catalogue/` and name it in `catalogue::ALL_ENTRIES`. An entry rests on evidence (a
//! function on a stack, a holder of a lock, an advice that was given) and never on a program's name alone; it says a source that
//! its author has read; and it has a test of its own.

mod catalogue;
mod scene;
mod sight;
#[cfg(test)]
mod testing;
#[cfg(test)]
#[path = "advice/tests.rs"]
mod tests;

use quell_event::Mechanism;
use serde::Serialize;

pub use scene::{MappedFile, Scene, SeenCost, SeenForks, SeenFrame, mapped_files};
pub use sight::Sight;

/// An entry is advised only if it could touch this share of CPU time, or of the time that passed.
const MIN_TIME_SHARE: f64 = 0.01;

/// And so long: less may be a few samples that fell there by chance.
const MIN_TIME_NS: u64 = 10_000_000;

/// One entry of the catalogue.
pub struct AdviceEntry {
    /// Its stable name.
    pub id: &'static str,
    /// The observation; a line of the report begins with it.
    pub what: &'static str,
    /// The evidence that it needs, for documentation.
    pub seen_by: &'static str,
    /// Whose time it can touch.
    pub mechanisms: &'static [Mechanism],
    /// The program's own switch, or the change.
    pub switch: &'static str,
    /// The reason why that costs time, with the figure that was measured or reported.
    pub why: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// More general entries that cover the same time: they are not shown beside this one.
    pub instead_of: &'static [&'static str],
    /// Finds it; none where it is not seen.
    pub look: fn(&AdviceEntry, &Scene) -> Option<Sight>,
}

impl AdviceEntry {
    /// The sum of such costs of the entry's mechanisms; none where there are none.
    fn costs(&self, scene: &Scene, is_such: impl Fn(&SeenCost) -> bool) -> Option<Sight> {
        Sight::of_costs(scene.costs_of(self.mechanisms, is_such))
    }

    /// The same, where at least one is of the first few mechanisms: these prove that the entry applies, and the others come with
    /// it.
    fn costs_if_any(
        &self,
        first: &[Mechanism],
        scene: &Scene,
        is_such: impl Fn(&SeenCost) -> bool + Copy,
    ) -> Option<Sight> {
        scene.costs_of(first, is_such).next()?;
        self.costs(scene, is_such)
    }
}

/// An entry that fits, with the time that it can touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advised {
    /// The entry's name.
    pub id: &'static str,
    /// The observation.
    pub what: &'static str,
    /// The program's own switch, or the change.
    pub switch: &'static str,
    /// The process and the function that had it done, the dearest.
    #[serde(rename = "where")]
    pub place: String,
    /// Evidence beside the time: the length of one call, the number of calls, or who held the lock. Empty where there is none.
    pub because: String,
    /// The reason why that costs time, with the figure that was measured or reported.
    pub why: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// CPU time that it can touch.
    pub cpu_ns: u64,
    /// Time asleep that it can touch.
    pub blocked_ns: u64,
}

/// Whether so long of a time is worth a word.
fn is_enough_time(ns: u64, of: u64) -> bool {
    ns >= MIN_TIME_NS && ns as f64 >= MIN_TIME_SHARE * of as f64
}

/// Whether an entry's time is long enough to be advised.
fn is_worth(scene: &Scene, sight: &Sight) -> bool {
    scene.is_much(sight.cpu_ns) || is_enough_time(sight.blocked_ns, scene.wall_ns)
}

/// Every entry that fits and touches enough time, the one with most CPU time and sleep together first. An entry is left out where
/// another one that was seen stands for it ([`AdviceEntry::instead_of`]), also where that other one is left out itself.
#[must_use]
pub fn advise(scene: &Scene) -> Vec<Advised> {
    let seen = |entry: &&'static AdviceEntry| {
        let sight = (entry.look)(entry, scene)?;
        is_worth(scene, &sight).then_some((*entry, sight))
    };
    let seen: Vec<(&AdviceEntry, Sight)> = catalogue::ALL_ENTRIES.iter().filter_map(seen).collect();
    let is_said = |id: &str| seen.iter().any(|(other, _)| other.instead_of.contains(&id));
    let mut advised: Vec<Advised> = seen
        .iter()
        .filter(|(entry, _)| !is_said(entry.id))
        .map(|(entry, sight)| Advised {
            id: entry.id,
            what: entry.what,
            switch: entry.switch,
            place: sight.place.clone(),
            because: sight.because.clone(),
            why: entry.why,
            source: entry.source,
            cpu_ns: sight.cpu_ns,
            blocked_ns: sight.blocked_ns,
        })
        .collect();
    advised.sort_by_key(|a| std::cmp::Reverse(a.cpu_ns + a.blocked_ns));
    advised
}
