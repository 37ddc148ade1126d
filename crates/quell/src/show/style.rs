//! How text stands out, where the terminal shows it.

use std::fmt::Write as _;

use anstyle::Style;

/// What is read first.
pub(crate) const BOLD: Style = Style::new().bold();
/// What is read last.
pub(crate) const DIM: Style = Style::new().dimmed();

/// The title of a part, after an empty line.
pub(crate) fn heading(out: &mut String, text: &str) {
    // writing to a String does not fail
    let _ = writeln!(out, "\n{BOLD}{text}{BOLD:#}");
}
