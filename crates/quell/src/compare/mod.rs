//! Two traces side by side: what vanished, what is new, and by how much the rest changed.

mod change;
mod json;
mod side;
pub(crate) mod spent;
mod text;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod text_tests;

use std::path::Path;

use change::{Amount, Row, rows};
pub(crate) use json::json;
pub(crate) use side::Side;
pub(crate) use text::text;

/// What two traces tell apart, side by side.
pub(crate) struct Comparison {
    pub(crate) a: Side,
    pub(crate) b: Side,
    /// All shootdowns.
    total: Row<()>,
    causes: Vec<Row<String>>,
    /// By the process's name: its number is another in each run.
    culprits: Vec<Row<String>>,
    /// By the thread's name.
    threads: Vec<Row<String>>,
    regions: Vec<Row<String>>,
    /// By the frames as they read, innermost first: addresses are others in each run.
    stacks: Vec<Row<Vec<String>>>,
    /// What keeps the two from being compared as they are.
    pub(crate) notes: Vec<String>,
}

impl Comparison {
    /// Reads two traces.
    ///
    /// # Errors
    ///
    /// One of them is none, or can't be read.
    pub(crate) fn open(a: &Path, b: &Path) -> anyhow::Result<Self> {
        Ok(Self::of(Side::open(a)?, Side::open(b)?))
    }

    pub(crate) fn of(a: Side, b: Side) -> Self {
        let durations = (a.summary.duration_ns, b.summary.duration_ns);
        Self {
            total: Row::new((), Some(a.total()), Some(b.total())),
            causes: rows(a.causes(), b.causes(), durations),
            culprits: rows(a.culprits(), b.culprits(), durations),
            threads: rows(a.threads(), b.threads(), durations),
            regions: rows(a.regions(), b.regions(), durations),
            stacks: rows(a.stacks.clone(), b.stacks.clone(), durations),
            notes: notes(&a, &b),
            a,
            b,
        }
    }
}

/// Differences that are not the program's, and what either side lacks.
fn notes(a: &Side, b: &Side) -> Vec<String> {
    let mut notes = Vec::new();
    for (what, a, b) in [
        ("backend", &a.summary.backend, &b.summary.backend),
        ("scope", &a.scope, &b.scope),
        ("kernel", &a.kernel, &b.kernel),
        ("host", &a.host, &b.host),
        ("which stacks were taken", &a.sampled, &b.sampled),
    ] {
        if a != b {
            notes.push(format!(
                "A and B differ in {what} ({a}, {b}): not all that changed need be the program's."
            ));
        }
    }
    match (&a.summary.account, &b.summary.account) {
        (Some(_), None) => notes.push("B has no account of the time.".to_owned()),
        (None, Some(_)) => notes.push("A has no account of the time.".to_owned()),
        _ => {}
    }
    for (name, side) in [("A", a), ("B", b)] {
        notes.extend(side.notes.iter().map(|note| format!("{name}: {note}")));
    }
    notes
}
