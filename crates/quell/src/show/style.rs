//! The styles that make text stand out, where the terminal shows them.

use std::fmt::Write as _;

use anstyle::Style;

/// For text that should be read first.
pub(crate) const BOLD: Style = Style::new().bold();
/// For text that can be read last.
pub(crate) const DIM: Style = Style::new().dimmed();

/// Writes the title of a part, after an empty line.
pub(crate) fn heading(out: &mut String, text: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "\n{BOLD}{text}{BOLD:#}");
}
