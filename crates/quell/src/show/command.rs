//! A command as people read it.

use quell_event::Text;
use quell_remedy::quote;

/// More of a command than so many bytes is not shown, and more characters of it are in no title.
const LONGEST_COMMAND: usize = 4096;
pub(crate) const LONGEST_TITLE: usize = 200;

/// A command as a shell reads it back. Of one that is too long to be read, the words that are left out are shown by `…`.
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
        if out.len() + word.len() > LONGEST_COMMAND {
            return out + "…";
        }
        out.push_str(&word);
    }
    out
}

/// A command in a title.
pub(crate) fn command_title(command: &str) -> Text {
    Text::from(command).cut(LONGEST_TITLE)
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

    /// Check that a command which nobody reads to its end is cut between words, and in a title within bounds.
    #[test]
    fn long_commands() {
        let long = "x".repeat(1 << 20);
        assert_eq!(shell_words(&["a", &long, "b"]), "a …");
        let words = shell_words(&vec!["word"; 10_000]);
        assert!(words.len() <= LONGEST_COMMAND + 4 && words.ends_with("word …"));
        assert_eq!(command_title(&words).chars().count(), LONGEST_TITLE);
    }
}
