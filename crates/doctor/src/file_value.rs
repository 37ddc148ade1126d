//! The content of a file of settings, or why there is none.

/// No setting is longer. A longer file, such as /proc/vmstat, is cut in the report only.
const MAX_SHOWN_CHARACTERS: usize = 200;

/// The content of a file, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileValue {
    /// Its text, without the end of the last line.
    Text(String),
    /// This kernel, or this machine, has no such file.
    Absent,
    /// It is there, or may be, and could not be read: why.
    Refused(String),
}

impl FileValue {
    /// The text, if there is any.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Absent | Self::Refused(_) => None,
        }
    }

    /// The text as a number.
    pub(crate) fn number(&self) -> Option<i64> {
        self.text()?.trim().parse().ok()
    }

    /// The word in brackets, of a file that lists its choices: `always [madvise] never`.
    pub(crate) fn chosen_word(&self) -> Option<&str> {
        let text = self.text()?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0)
    }

    /// The rest of the line that begins with this name, as /proc and cgroups have such: `Threads:` and blanks, or a blank alone.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.text()?.lines();
        let rest = lines.find_map(|l| l.strip_prefix(name)?.strip_prefix([':', ' ']))?;
        Some(rest.trim())
    }

    /// The text that goes into the finding where only a part of the file was looked for.
    pub(crate) fn shown_part(&self, found: Option<String>) -> String {
        match (found, self) {
            (Some(found), _) => found,
            (None, Self::Refused(why)) => format!("({why})"),
            (None, _) => "(absent)".to_owned(),
        }
    }

    pub(crate) fn shortened(&self) -> String {
        match self {
            Self::Text(text) => {
                let mut shown: String = text.chars().take(MAX_SHOWN_CHARACTERS).collect();
                if shown.len() < text.len() {
                    shown.push('…');
                }
                shown
            }
            Self::Absent => "(absent)".to_owned(),
            Self::Refused(why) => format!("({why})"),
        }
    }
}
