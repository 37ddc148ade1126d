//! The questions: SQL, a file each, whose first comment says which question it answers.

use serde::Serialize;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    /// Its name on the command line.
    pub name: &'static str,
    /// The answer's title.
    pub title: &'static str,
    /// Its SQL.
    pub sql: &'static str,
}

macro_rules! questions {
    ($($name:literal = $title:literal,)+) => {
        impl Question {
            /// Every question.
            pub const ALL: &'static [Question] = &[$(Question {
                name: $name,
                title: $title,
                sql: include_str!(concat!("../sql/", $name, ".sql")),
            },)+];
        }
    };
}

questions! {
    "time" = "What costs the most CPU time",
    "wins" = "Remedies by the CPU time that they could win at most",
    "time-hosts" = "Hosts by CPU time in memory management per traced second",
    "causes" = "Causes that cost the most",
    "binaries" = "Binaries that cost the most",
    "stacks" = "Code that asks for the most",
    "hosts" = "Hosts by shootdowns per traced second",
    "changes" = "What changed: the last period against the one before",
    "remedies" = "Remedies by what they would stop, as predicted",
    "victims" = "Who is hit",
}

/// The questions that are answered where none is named.
pub const SUMMARY_QUESTIONS: [&str; 6] =
    ["time", "wins", "causes", "binaries", "changes", "remedies"];

impl Question {
    /// The question of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|q| q.name == name).copied()
    }

    /// The sentence that says which question it answers: the first one of its comment.
    #[must_use]
    pub fn summary_sentence(self) -> String {
        let comment: Vec<&str> = self
            .sql
            .lines()
            .map_while(|line| line.strip_prefix("-- "))
            .collect();
        let comment = comment.join(" ");
        match comment.find(". ") {
            Some(end) => comment[..=end].to_owned(),
            None => comment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that every question has a sentence that explains it, is one statement, and reads only columns of the views.
    #[test]
    fn questions_are_complete() {
        assert_eq!(Question::ALL.len(), 10);
        for question in Question::ALL {
            assert!(
                question.summary_sentence().ends_with('.'),
                "{}",
                question.summary_sentence()
            );
            assert!(
                question.summary_sentence().len() < 160,
                "{}",
                question.summary_sentence()
            );
            assert!(!question.sql.contains(';'), "{}", question.name);
            assert!(question.sql.contains("order by"), "{}", question.name);
            assert_eq!(Question::by_name(question.name), Some(*question));
        }
        assert_eq!(Question::by_name("weather"), None);
        assert!(
            SUMMARY_QUESTIONS
                .iter()
                .all(|name| Question::by_name(name).is_some())
        );
    }
}
