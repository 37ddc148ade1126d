//! A command as people read it.

use quell_event::Text;
use quell_remedy::quote;

/// The bounds of a shown command in bytes, and of one in a title in characters.
const MAX_COMMAND_BYTES: usize = 4096;
pub(crate) const LONGEST_TITLE: usize = 200;

/// A command as a shell reads it back. One that is too long for people ends with `…` for the words that are left out.
pub(crate) fn shell_words<S: AsRef<str>>(argv: &[S]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-+=:,@%^".contains(c);
    let word = |w: &S| match w.as_ref() {
        w if !w.is_empty() && w.chars().all(plain) => w.to_owned(),
        w => quote::shell_word(w),
    };
    let mut out = String::new();
    for word in argv.iter().map(word) {
        if !out.is_empty() {
            out.push(' ');
        }
        if out.len() + word.len() > MAX_COMMAND_BYTES {
            return out + "…";
        }
        out.push_str(&word);
    }
    out
}

/// A command in a title.
pub(crate) fn command_title(command: &str) -> Text {
    Text::from(command).cut_to(LONGEST_TITLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that words which a shell reads otherwise are quoted, and others are not.
    #[test]
    fn shell_quotes() {
        let argv = ["sh", "-c", "echo 'x'", "a.b=c", ""];
        assert_eq!(shell_words(&argv), r"sh -c 'echo '\''x'\''' a.b=c ''");
    }

    /// Check that a very long command is cut between words, and kept within bounds in a title.
    #[test]
    fn long_commands() {
        let long = "x".repeat(1 << 20);
        assert_eq!(shell_words(&["a", &long, "b"]), "a …");
        let words = shell_words(&vec!["word"; 10_000]);
        assert!(words.len() <= MAX_COMMAND_BYTES + 4 && words.ends_with("word …"));
        assert_eq!(command_title(&words).chars().count(), LONGEST_TITLE);
    }
}
