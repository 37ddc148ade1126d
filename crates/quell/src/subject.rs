//! The subject of a watch in words, for the title of a summary and for a trace's own description.

use std::ffi::OsString;

use quell_event::Text;

use crate::cli::Target;
use crate::show::command::LONGEST_TITLE;

/// The scope that was watched, and the command that ran meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// `of everything`, `of process 12` or `at CPU 3`; empty where the command alone was watched.
    pub(crate) scope: Text,
    /// Empty where no command was run.
    pub(crate) command: Vec<Text>,
}

impl Subject {
    /// The subject of a command line.
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

    /// The subject for a command and all that it starts.
    pub(crate) fn command(argv: &[OsString]) -> Self {
        Self {
            scope: Text::default(),
            command: argv.iter().map(Text::from_os_str).collect(),
        }
    }

    /// The title of its summary.
    pub(crate) fn title(&self) -> String {
        let words: Vec<&str> = self.command.iter().map(Text::as_str).collect();
        // In a trace the scope is worded for the middle of a sentence.
        let scope = self.scope.as_str();
        let scope = scope.trim_start_matches("of ").trim_start_matches("at ");
        let (scope, command) = (
            Text::from(scope).cut_to(LONGEST_TITLE),
            Text::from(words.join(" ")).cut_to(LONGEST_TITLE),
        );
        match (scope.as_str(), command.as_str()) {
            // A trace of an older quell has neither.
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

    /// Check that a title names the watched scope, and not only the command.
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
