//! Columns of text: numbers to the right, names to the left, no lines.

use std::borrow::Cow;
use std::fmt::Write as _;

use quell_event::text::{self, is_plain};

use super::style::DIM;
use super::units::count;

/// A line of ours without control characters. Texts of other programs in it were cleaned where they came in; this catches
/// those that were forgotten. Colours (ESC, `[`, digits and semicolons, `m`) stay, because cells have some of our own.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    replace_controls(text, "")
}

/// The same for several lines.
pub(crate) fn clean_lines(text: &str) -> Cow<'_, str> {
    replace_controls(text, "\n\t")
}

/// Replaces control characters by question marks, but for colours and the characters in `more`.
fn replace_controls<'a>(text: &'a str, more: &str) -> Cow<'a, str> {
    let is_colour = |rest: &str| {
        rest.strip_prefix('[').is_some_and(|rest| {
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
                .starts_with('m')
        })
    };
    let stays = |(at, c): (usize, char)| {
        is_plain(c) || more.contains(c) || c == '\u{1b}' && is_colour(&text[at + 1..])
    };
    if text.char_indices().all(stays) {
        return Cow::Borrowed(text);
    }
    let chars = text.char_indices();
    Cow::Owned(chars.map(|at| if stays(at) { at.1 } else { '?' }).collect())
}

/// A text from another program's file, which may have no colours either.
pub(crate) fn plain(text: &str) -> String {
    text::clean_text(text).into_owned()
}

/// A table that is aligned when printed.
pub(crate) struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings; one that begins with `>` is for a column of numbers.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self {
            right: headings.iter().map(|h| h.starts_with('>')).collect(),
            rows: vec![
                headings
                    .iter()
                    .map(|h| h.trim_start_matches('>').to_owned())
                    .collect(),
            ],
        }
    }

    /// Adds a row, with at most as many cells as there are headings. Its names come from other programs, so each cell is passed
    /// through [`clean`]. Only the last cell may have colours, because their characters count for the width.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows
            .push(cells.iter().map(|c| clean(c).into_owned()).collect());
    }

    /// The lines, each indented by two spaces, without spaces at their ends.
    pub(crate) fn text(&self) -> String {
        let width = |col: usize| {
            self.rows
                .iter()
                .filter_map(|r| r.get(col))
                .map(|c| c.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (col, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[col].saturating_sub(cell.chars().count()));
                line.push_str("  ");
                if self.right[col] {
                    line.push_str(&pad);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&pad);
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Says how many rows a table leaves out.
pub(crate) fn say_how_many_more(out: &mut String, all: usize, top: usize) {
    if all > top {
        let _ = writeln!(out, "  {DIM}and {} more{DIM:#}", count((all - top) as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that no name of a process moves the cursor.
    #[test]
    fn names_stay_text() {
        let mut t = Table::new(&["name"]);
        t.row(vec!["a\u{1b}[2J\n\u{9b}b é".into()]);
        t.row(vec!["\u{1b}[1;32mgreen\u{1b}[0m".into()]);
        assert_eq!(
            t.text(),
            "  name\n  a?[2J??b é\n  \u{1b}[1;32mgreen\u{1b}[0m\n"
        );
    }

    /// Check that a foreign text has nothing left that a terminal acts on, colours among it, and stays readable.
    #[test]
    fn foreign_text_is_plain() {
        let hostile = "a\u{1b}[31mb\r\n\u{9b}2J\u{7}\u{202e}c\u{2028} é";
        assert_eq!(plain(hostile), "a?[31mb???2J??c? é");
    }

    /// Check that columns line up, with wide characters counted as characters.
    #[test]
    fn columns_line_up() {
        let mut t = Table::new(&["name", ">wait", "note"]);
        t.row(vec!["a".into(), "2.8 µs".into(), String::new()]);
        t.row(vec!["longer".into(), "12 ms".into(), "x".into()]);
        assert_eq!(
            t.text(),
            "  name      wait  note\n  a       2.8 µs\n  longer   12 ms  x\n"
        );
    }
}
