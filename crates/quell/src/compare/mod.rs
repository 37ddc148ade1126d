//! Compares two traces: names that vanished, new names, and the change of all others.

pub(crate) mod accounts;
mod change;
mod json;
mod side;
mod text;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod text_tests;

use std::path::Path;

use change::{Amount, ComparedRow, compared_rows};
pub(crate) use json::comparison_json;
pub(crate) use side::TraceSide;
pub(crate) use text::comparison_text;

/// Two traces, row by row.
pub(crate) struct Comparison {
    pub(crate) a: TraceSide,
    pub(crate) b: TraceSide,
    /// All shootdowns.
    total: ComparedRow<()>,
    causes: Vec<ComparedRow<String>>,
    /// By the process's name, because its number is another in each run.
    culprits: Vec<ComparedRow<String>>,
    /// By the thread's name.
    threads: Vec<ComparedRow<String>>,
    regions: Vec<ComparedRow<String>>,
    /// By the text of the frames, innermost first, because addresses are others in each run.
    stacks: Vec<ComparedRow<Vec<String>>>,
    /// Notes on differences between the traces that a reader must allow for.
    pub(crate) notes: Vec<String>,
}

impl Comparison {
    /// Reads two traces.
    ///
    /// # Errors
    ///
    /// One of the folders has no trace, or it can't be read.
    pub(crate) fn open(a: &Path, b: &Path) -> anyhow::Result<Self> {
        Ok(Self::of_sides(TraceSide::open(a)?, TraceSide::open(b)?))
    }

    pub(crate) fn of_sides(a: TraceSide, b: TraceSide) -> Self {
        let durations = (a.summary.duration_ns, b.summary.duration_ns);
        Self {
            total: ComparedRow::new((), Some(a.total_amount()), Some(b.total_amount())),
            causes: compared_rows(a.amounts_by_cause(), b.amounts_by_cause(), durations),
            culprits: compared_rows(a.amounts_by_comm(), b.amounts_by_comm(), durations),
            threads: compared_rows(a.amounts_by_thread(), b.amounts_by_thread(), durations),
            regions: compared_rows(a.amounts_by_region(), b.amounts_by_region(), durations),
            stacks: compared_rows(a.stacks.clone(), b.stacks.clone(), durations),
            notes: comparison_notes(&a, &b),
            a,
            b,
        }
    }
}

/// Notes on differences that are not the program's, on data that a side lacks, and each side's own notes with its letter.
fn comparison_notes(a: &TraceSide, b: &TraceSide) -> Vec<String> {
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
