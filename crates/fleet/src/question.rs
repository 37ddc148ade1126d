//! The questions: SQL, a file each, which says in its first comment what it answers.

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// What it is asked by.
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

/// What is told where no question is asked.
pub const SUMMARY: [&str; 6] = ["time", "wins", "causes", "binaries", "changes", "remedies"];

impl Question {
    /// The question of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|q| q.name == name).copied()
    }

    /// What it answers, in a sentence: the first one of its comment.
    #[must_use]
    pub fn about(self) -> String {
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

    /// Check that every question says what it answers, is one statement, and reads only what the views have.
    #[test]
    fn questions_are_complete() {
        assert_eq!(Question::ALL.len(), 10);
        for question in Question::ALL {
            assert!(question.about().ends_with('.'), "{}", question.about());
            assert!(question.about().len() < 160, "{}", question.about());
            assert!(!question.sql.contains(';'), "{}", question.name);
            assert!(question.sql.contains("order by"), "{}", question.name);
            assert_eq!(Question::named(question.name), Some(*question));
        }
        assert_eq!(Question::named("weather"), None);
        assert!(SUMMARY.iter().all(|name| Question::named(name).is_some()));
    }
}
