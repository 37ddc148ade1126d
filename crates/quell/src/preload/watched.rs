//! What libquell.so says of itself in the processes that are watched.

use std::time::Duration;

use serde_json::Value;

use super::counters::{self, Seen};

/// As last seen: with a command goes its memory.
#[derive(Default)]
pub(crate) struct Library {
    pub(crate) seen: Vec<Seen>,
    /// Why it could not be read, with what helps.
    pub(crate) unread: Option<String>,
    pub(crate) looks: u32,
}

impl Library {
    /// Until it is looked at again: soon at first, for commands that are short; and not too long before
    /// the end of one that has it.
    pub(crate) fn nap(&self) -> Duration {
        let grown = Duration::from_millis(10 << self.looks.min(6));
        let most = if self.seen.is_empty() { 500 } else { 100 };
        grown.min(Duration::from_millis(most))
    }

    pub(crate) fn look(&mut self, pids: &[u32]) {
        self.looks += 1;
        match counters::of(pids) {
            Ok(seen) if seen.is_empty() => {}
            Ok(seen) => self.seen = seen,
            Err(error) => self.unread = Some(format!("{error:#}")),
        }
    }

    /// Adds the key `shim`, if a process has it.
    ///
    /// # Errors
    ///
    /// What serialising says.
    pub(crate) fn add_to(&self, summary: &mut Value) -> serde_json::Result<()> {
        if let Some(summary) = summary.as_object_mut()
            && !self.seen.is_empty()
        {
            summary.insert("shim".into(), serde_json::to_value(&self.seen)?);
        }
        Ok(())
    }
}
