//! Running text in lines, and lists of remarks.

use std::fmt::Write as _;

use quell_event::text::clean_text;

use super::style::heading;

/// The width of running text, in characters.
const MAX_LINE_CHARS: usize = 98;

/// Breaks text between words into lines, each indented. It may hold names from other programs, so it is cleaned.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    let (mut out, mut line) = (String::new(), String::new());
    let margin = " ".repeat(indent);
    for word in text.split_whitespace().map(clean_text) {
        if !line.is_empty()
            && indent + line.chars().count() + 1 + word.chars().count() > MAX_LINE_CHARS
        {
            let _ = writeln!(out, "{margin}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    if !line.is_empty() {
        let _ = writeln!(out, "{margin}{line}");
    }
    out
}

/// A list of remarks under a heading; nothing if there are none.
pub(crate) fn bullet_list(title: &str, notes: &[String]) -> String {
    let mut out = String::new();
    if notes.is_empty() {
        return out;
    }
    heading(&mut out, title);
    for note in notes {
        let text = wrap(note, 4);
        out.push_str("  · ");
        out.push_str(text.trim_start());
    }
    out
}

/// Adds the frames of a stack, a line each. A function that calls itself is one line.
pub(crate) fn write_frames<'a>(out: &mut String, frames: impl Iterator<Item = &'a str>) {
    let frames: Vec<&str> = frames.collect();
    for same in frames.chunk_by(|a, b| a == b) {
        let times = match same.len() {
            1 => String::new(),
            n => format!("  {n} times"),
        };
        let _ = writeln!(out, "      {}{times}", clean_text(same[0]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that lines end between words and no word is lost, however long.
    #[test]
    fn lines_end_between_words() {
        let long = "x".repeat(200);
        let text = format!("{} {long} end", "word ".repeat(40));
        let wrapped = wrap(&text, 4);
        assert!(
            wrapped
                .lines()
                .all(|l| l.chars().count() <= MAX_LINE_CHARS || l.contains(&long))
        );
        let words = |t: &str| t.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&wrapped), words(&text));
        assert_eq!(wrap("", 4), "");
    }
}
