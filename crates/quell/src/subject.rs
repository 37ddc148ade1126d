//! What a watch is about, in words: the title of a summary, and what a trace says of itself.

use std::ffi::OsString;

use quell_event::Text;

use crate::cli::Target;
use crate::prove::plan_text::LONGEST_TITLE;

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

    /// The title of its summary.
    pub(crate) fn title(&self) -> String {
        let words: Vec<&str> = self.command.iter().map(Text::as_str).collect();
        let (scope, command) = (
            self.scope.cut(LONGEST_TITLE),
            Text::from(words.join(" ")).cut(LONGEST_TITLE),
        );
        match (scope.as_str(), command.as_str()) {
            // a trace of a quell that did not say
            ("", "") => "Shootdowns".to_owned(),
            ("", command) => format!("Shootdowns of '{command}'"),
            (scope, "") => format!("Shootdowns {scope}"),
            (scope, command) => format!("Shootdowns {scope} while '{command}' ran"),
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
        assert_eq!(subject.title(), "Shootdowns of 'sh ?[31mX??]0;y?'");
        let subject = Subject::command(&["sh".into(), "x".repeat(1 << 20).into()]);
        let title = subject.title();
        assert!(title.ends_with("xxx…'") && title.len() < 230, "{title}");
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
            "Shootdowns of everything"
        );
        assert_eq!(
            title(target(false, &[3, 4], None, &[])),
            "Shootdowns of process 3, 4"
        );
        assert_eq!(
            title(target(false, &[], None, &["a", "b"])),
            "Shootdowns of 'a b'"
        );
        assert_eq!(
            title(target(true, &[], None, &["a"])),
            "Shootdowns of everything while 'a' ran"
        );
        assert_eq!(
            title(target(false, &[], Some("2-3"), &["a"])),
            "Shootdowns at CPU 2-3 while 'a' ran"
        );
        assert_eq!(Subject::default().title(), "Shootdowns");
    }
}
