//! Which culprits, victims and causes are shown.

use quell_event::{CulpritTally, Tally, VictimTally};

/// A text that names, process numbers and causes are looked through for; empty shows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    text: String,
}

impl Filter {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.to_lowercase(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn has(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.text)
    }

    /// Of one culprit and one cause: its name, its number, the cause.
    pub(crate) fn culprit(&self, c: &CulpritTally) -> bool {
        self.is_empty()
            || self.has(&c.comm)
            || self.has(&c.pid.to_string())
            || self.has(c.cause.name())
            || c.detail.as_deref().is_some_and(|d| self.has(d))
    }

    /// Of a victim: its name, its number. Which cause it was hit for is not counted.
    pub(crate) fn victim(&self, v: &VictimTally) -> bool {
        self.is_empty() || self.has(&v.comm) || self.has(&v.pid.to_string())
    }

    /// Of a cause of one process.
    pub(crate) fn cause(&self, c: &CulpritTally) -> bool {
        self.text(c.cause.name()) || c.detail.as_deref().is_some_and(|d| self.has(d))
    }

    /// Of a thread.
    pub(crate) fn name(&self, comm: &str, id: u32) -> bool {
        self.text(comm) || self.has(&id.to_string())
    }

    /// Of any text.
    pub(crate) fn text(&self, text: &str) -> bool {
        self.is_empty() || self.has(text)
    }

    /// What passes. Both culprits and causes are sums over this, so that they agree.
    pub(crate) fn tally(&self, tally: &Tally) -> Tally {
        if self.is_empty() {
            return tally.clone();
        }
        let culprits = tally.culprits.iter().filter(|c| self.culprit(c));
        let victims = tally.victims.iter().filter(|v| self.victim(v));
        Tally {
            duration_ns: tally.duration_ns,
            culprits: culprits.cloned().collect(),
            victims: victims.cloned().collect(),
            ..Tally::default()
        }
    }
}
