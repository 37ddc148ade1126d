//! What a watch is about, in words: the title of a summary, and what a trace says of itself.

use std::ffi::OsString;

use quell_event::Text;

use crate::cli::Target;
use crate::show::command::LONGEST_TITLE;

/// What was watched, and the command that was run meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// `of everything`, `of process 12` or `at CPU 3`; empty where the command alone was watched.
    pub(crate) scope: Text,
    /// Empty where none was run.
    pub(crate) command: Vec<Text>,
}

impl Subject {
    /// What was asked for on the command line.
    pub(crate) fn of(target: &Target) -> Self {
        let scope = match (&target.cpu, target.pid.as_slice()) {
            (Some(list), _) => format!("at CPU {list}"),
            (None, []) if target.all => "of everything".to_owned(),
            (None, []) => String::new(),
            (None, pids) => {
                let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
                format!("of process {}", pids.join(", "))
            }
        };
        Self {
            scope: scope.into(),
            ..Self::command(&target.command)
        }
    }

    /// A command and all that it starts.
    pub(crate) fn command(argv: &[OsString]) -> Self {
        Self {
            scope: Text::default(),
            command: argv.iter().map(Text::of).collect(),
        }
    }

    /// The title of its summary: of what the time is told.
    pub(crate) fn title(&self) -> String {
        let words: Vec<&str> = self.command.iter().map(Text::as_str).collect();
        // traces say what it is within a sentence
        let scope = self.scope.as_str();
        let scope = scope.trim_start_matches("of ").trim_start_matches("at ");
        let (scope, command) = (
            Text::from(scope).cut(LONGEST_TITLE),
            Text::from(words.join(" ")).cut(LONGEST_TITLE),
        );
        match (scope.as_str(), command.as_str()) {
            // a trace of a quell that did not say
            ("", "") => "Where the time goes".to_owned(),
            ("", command) => format!("'{command}': where its time goes"),
            (scope, "") => format!("{scope}: where the time goes"),
            (scope, command) => format!("{scope} while '{command}' ran: where the time goes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a terminal has nothing to obey in a title.
    #[test]
    fn titles_are_text() {
        let subject = Subject::command(&["sh".into(), "\u{1b}[31mX\n\u{1b}]0;y\u{7}".into()]);
        assert_eq!(subject.title(), "'sh ?[31mX??]0;y?': where its time goes");
        let subject = Subject::command(&["sh".into(), "x".repeat(1 << 20).into()]);
        let title = subject.title();
        assert!(title.contains("xxx…': ") && title.len() < 240, "{title}");
    }

    /// Check that a title says what was watched, and not only what was run.
    #[test]
    fn titles() {
        let target = |all, pid: &[u32], cpu: Option<&str>, command: &[&str]| Target {
            all,
            pid: pid.to_vec(),
            cpu: cpu.map(str::to_owned),
            command: command.iter().map(OsString::from).collect(),
            ..Target::default()
        };
        let title = |t: Target| Subject::of(&t).title();
        assert_eq!(
            title(target(true, &[], None, &[])),
            "everything: where the time goes"
        );
        assert_eq!(
            title(target(false, &[3, 4], None, &[])),
            "process 3, 4: where the time goes"
        );
        assert_eq!(
            title(target(false, &[], None, &["a", "b"])),
            "'a b': where its time goes"
        );
        assert_eq!(
            title(target(true, &[], None, &["a"])),
            "everything while 'a' ran: where the time goes"
        );
        assert_eq!(
            title(target(false, &[], Some("2-3"), &["a"])),
            "CPU 2-3 while 'a' ran: where the time goes"
        );
        assert_eq!(Subject::default().title(), "Where the time goes");
    }
}
