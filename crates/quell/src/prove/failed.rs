//! Why a run says nothing: it failed, or somebody interrupted.

use std::fmt;

/// How much of the output's end is shown.
const LINES: usize = 12;
const BYTES: usize = 4096;

/// A run that failed: one line, and the end of the output.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) line: String,
    pub(crate) output: Vec<u8>,
}

impl Failed {
    pub(crate) fn error(line: impl Into<String>, output: Vec<u8>) -> anyhow::Error {
        Self {
            line: line.into(),
            output,
        }
        .into()
    }

    /// The last lines of the output, indented, with nothing in it that a terminal would obey.
    pub(crate) fn tail(&self) -> String {
        let from = self.output.len().saturating_sub(BYTES);
        let text = String::from_utf8_lossy(&self.output[from..]);
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LINES)..];
        let clean = |line: &&str| {
            let visible = line.chars().filter(|c| !c.is_control() || *c == '\t');
            format!("  | {}\n", visible.collect::<String>())
        };
        shown.iter().map(clean).collect()
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)?;
        let what = if self.output.is_empty() {
            "it wrote nothing"
        } else {
            "the end of its output:"
        };
        write!(f, "; {what}")
    }
}

impl std::error::Error for Failed {}

/// Somebody asked quell to stop, by this signal.
#[derive(Debug)]
pub(crate) struct Interrupted(pub(crate) i32);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted by {}", crate::launch::signals::name(self.0))
    }
}

impl std::error::Error for Interrupted {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the tail is the end, and can't move a terminal's cursor.
    #[test]
    fn tail() {
        let lines: String = (0..50).map(|i| format!("line {i}\x1b[2J\n")).collect();
        let failed = Failed {
            line: "it failed".into(),
            output: lines.into_bytes(),
        };
        let tail = failed.tail();
        assert_eq!(tail.lines().count(), LINES);
        assert!(tail.ends_with("  | line 49[2J\n") && !tail.contains('\x1b'));
        let silent = Failed {
            line: "it failed".into(),
            output: vec![],
        };
        assert_eq!(
            (silent.tail().as_str(), silent.to_string().as_str()),
            ("", "it failed; it wrote nothing")
        );
    }
}
