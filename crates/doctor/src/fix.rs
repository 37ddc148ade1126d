//! The changes that help: for now, and so that they last.

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// A file of /proc/sys, by its sysctl name.
    Sysctl {
        /// Such as `vm.compaction_proactiveness`.
        name: &'static str,
        /// Such as `0`.
        value: String,
    },
    /// A file of /sys that takes a value.
    Write {
        /// The file.
        path: String,
        /// The text that is written.
        value: String,
    },
    /// A parameter of the kernel's command line; it takes a restart.
    Cmdline(String),
    /// A directive of a systemd service, such as `LimitMEMLOCK=infinity`.
    Directive(String),
    /// A variable of the program's environment.
    Env {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// A unit of systemd that must not run.
    Mask(&'static str),
    /// A command for now, which nothing here runs.
    Command(String),
    /// Advice in words, where no setting helps: a change of the program, a question to the host.
    Advice(String),
}

impl Fix {
    /// A file of /sys that takes a value.
    pub(crate) fn set_file(path: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Write {
            path: path.into(),
            value: value.into(),
        }
    }

    /// A sysctl.
    pub(crate) fn set_sysctl(name: &'static str, value: impl Into<String>) -> Self {
        Self::Sysctl {
            name,
            value: value.into(),
        }
    }

    /// A variable.
    pub(crate) fn set_variable(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Env {
            name: name.into(),
            value: value.into(),
        }
    }

    /// The command that makes the change now, as root.
    pub(crate) fn command_now(&self) -> Option<String> {
        Some(match self {
            Self::Sysctl { name, value } => format!("sysctl -w {name}={}", shell_argument(value)),
            Self::Write { path, value } => format!("echo {} > {path}", shell_argument(value)),
            Self::Mask(unit) => format!("systemctl mask --now {unit}"),
            Self::Command(text) => text.clone(),
            Self::Cmdline(_) | Self::Directive(_) | Self::Env { .. } | Self::Advice(_) => {
                return None;
            }
        })
    }

    /// Where the change goes so that it lasts, with the line that stands there.
    pub(crate) fn lasting_text(&self) -> Option<String> {
        Some(match self {
            Self::Sysctl { name, value } => format!("sysctl.d: {name} = {value}"),
            Self::Write { path, value } => format!("tmpfiles.d: w {path} - - - - {value}"),
            Self::Cmdline(parameter) => format!("kernel command line: {parameter}"),
            Self::Directive(text) => format!("systemd service: {text}"),
            Self::Env { name, value } => format!("environment: {name}={value}"),
            Self::Mask(unit) => format!("systemctl mask {unit}"),
            Self::Advice(text) => text.clone(),
            Self::Command(_) => return None,
        })
    }

    /// The file that is written and its new value, where the change is one of a file.
    pub(crate) fn file_and_value(&self) -> Option<(String, &str)> {
        match self {
            Self::Sysctl { name, value } => Some((sysctl_path(name), value)),
            Self::Write { path, value } => Some((path.clone(), value)),
            _ => None,
        }
    }
}

/// The file of a sysctl.
pub(crate) fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// For a shell: as it is where that is safe.
pub(crate) fn shell_argument(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    quell_remedy::quote::shell_word(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each kind of change has its command, its lasting place, and its file.
    #[test]
    fn changes_have_their_places() {
        let sysctl = Fix::set_sysctl("vm.stat_interval", "120");
        assert_eq!(
            sysctl.command_now().unwrap(),
            "sysctl -w vm.stat_interval=120"
        );
        assert_eq!(
            sysctl.lasting_text().unwrap(),
            "sysctl.d: vm.stat_interval = 120"
        );
        assert_eq!(
            sysctl.file_and_value().unwrap(),
            ("/proc/sys/vm/stat_interval".to_owned(), "120")
        );
        let write = Fix::set_file("/sys/a", "never");
        assert_eq!(write.command_now().unwrap(), "echo never > /sys/a");
        assert_eq!(
            write.lasting_text().unwrap(),
            "tmpfiles.d: w /sys/a - - - - never"
        );
        assert_eq!(
            write.file_and_value().unwrap(),
            ("/sys/a".to_owned(), "never")
        );
        let cmdline = Fix::Cmdline("no5lvl".to_owned());
        assert_eq!(
            (cmdline.command_now(), cmdline.file_and_value()),
            (None, None)
        );
    }

    /// Check that nothing in a value is a command of the shell.
    #[test]
    fn values_are_quoted() {
        assert_eq!(shell_argument("a b"), "'a b'");
        assert_eq!(shell_argument("$(x)'"), r"'$(x)'\'''");
        assert_eq!(shell_argument(""), "''");
    }
}
