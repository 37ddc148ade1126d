//! The text that selects which culprits, victims and causes are shown.

use quell_event::{CulpritTally, Tally, VictimTally};

/// A text to find in names, process numbers and causes. An empty one shows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowFilter {
    text: String,
}

impl RowFilter {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.to_lowercase(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Does a culprit pass, by its name, its number, or its cause?
    pub(crate) fn passes_culprit(&self, c: &CulpritTally) -> bool {
        self.passes_named(&c.comm, c.pid) || self.passes_cause(c)
    }

    /// Does a victim pass, by its name or its number? Its causes are not counted, so they can't select it.
    pub(crate) fn passes_victim(&self, v: &VictimTally) -> bool {
        self.passes_named(&v.comm, v.pid)
    }

    /// Does a cause of one process pass?
    pub(crate) fn passes_cause(&self, c: &CulpritTally) -> bool {
        let detail = c.detail.as_deref();
        self.passes_text(c.cause.name()) || detail.is_some_and(|d| self.passes_text(d))
    }

    /// Does a named process or thread pass, by its name or its number?
    pub(crate) fn passes_named(&self, comm: &str, id: u32) -> bool {
        self.passes_text(comm) || self.passes_text(&id.to_string())
    }

    /// Does any other text pass?
    pub(crate) fn passes_text(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.text)
    }

    /// The counts that pass. Culprits and causes are both sums over these, so that they agree.
    pub(crate) fn passing_tally(&self, tally: &Tally) -> Tally {
        if self.is_empty() {
            return tally.clone();
        }
        let culprits = tally.culprits.iter().filter(|c| self.passes_culprit(c));
        let victims = tally.victims.iter().filter(|v| self.passes_victim(v));
        Tally {
            duration_ns: tally.duration_ns,
            culprits: culprits.cloned().collect(),
            victims: victims.cloned().collect(),
            ..Tally::default()
        }
    }
}
