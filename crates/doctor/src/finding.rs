//! The findings of rules.

use quell_event::named_enum;
use serde::Serialize;

use crate::fix::Fix;

/// Whether something is amiss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingStatus {
    /// It can't stall anybody.
    Ok,
    /// It could not be read.
    Unknown,
    /// It stalls, or may.
    Hazard,
}

named_enum! {
    /// How bad it is for the profile that was asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    pub enum Severity with serde {
        /// Worth knowing, and not to be changed for this alone.
        Info = "info",
        /// Some µs, now and then.
        Low = "low",
        /// Some tens of µs, or rarely more.
        Medium = "medium",
        /// Stalls that every user of a hot thread sees.
        High = "high",
        /// ms, such as a wait for a disk.
        Critical = "critical",
    }
}

/// A file that was read and its value, or why it could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReading {
    /// The file, or another source such as CPUID.
    pub path: String,
    /// Its value, without the end of the line.
    pub value: String,
}

impl FileReading {
    /// A source and its value.
    pub fn new(path: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            value: value.into(),
        }
    }
}

/// Harm that was seen to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Harm {
    /// How much, in words: `1,234 shootdowns in 5.00 s`.
    #[serde(rename = "what")]
    pub description: String,
    /// The number in it, to rank by.
    pub count: u64,
}

/// The finding of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's id, which never changes.
    pub rule: &'static str,
    /// The subject of the rule, in a few words.
    pub title: &'static str,
    /// Whether something is amiss.
    pub status: FindingStatus,
    /// How bad it is.
    pub severity: Severity,
    /// The files that were read.
    pub read: Vec<FileReading>,
    /// The fault here, or why it could not be told, in a sentence.
    pub said: String,
    /// Why it stalls.
    pub why: &'static str,
    /// Harm that was seen to be done.
    pub harm: Option<Harm>,
    /// The changes that help.
    pub fixes: Vec<Fix>,
    /// The cost of the fixes.
    pub risk: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// Programs that want it otherwise, managers that will take it back.
    pub notes: Vec<String>,
}

impl Finding {
    /// The fixes for now, each a command, a line each; empty where there is none.
    #[must_use]
    pub fn fix_now(&self) -> String {
        joined_lines(self.fixes.iter().filter_map(Fix::command_now))
    }

    /// The fixes that last, each in the words of where it goes, a line each.
    #[must_use]
    pub fn fix_lasting(&self) -> String {
        joined_lines(self.fixes.iter().filter_map(Fix::lasting_text))
    }

    /// The order of findings: harm done, then hazards by severity, then what is unknown.
    pub(crate) fn sort_key(&self) -> (FindingStatus, bool, Severity, u64) {
        let hazard = self.status == FindingStatus::Hazard;
        let harm = self.harm.as_ref().filter(|_| hazard);
        (
            self.status,
            harm.is_some(),
            self.severity,
            harm.map_or(0, |h| h.count),
        )
    }
}

fn joined_lines(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

/// As one object of the contract.
impl Serialize for Finding {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut object = s.serialize_struct("Finding", 13)?;
        object.serialize_field("rule", self.rule)?;
        object.serialize_field("title", self.title)?;
        object.serialize_field("status", &self.status)?;
        object.serialize_field("severity", &self.severity)?;
        object.serialize_field("read", &self.read)?;
        object.serialize_field("said", &self.said)?;
        object.serialize_field("why", self.why)?;
        object.serialize_field("harm", &self.harm)?;
        object.serialize_field("fix_now", &self.fix_now())?;
        object.serialize_field("fix_lasting", &self.fix_lasting())?;
        object.serialize_field("risk", self.risk)?;
        object.serialize_field("source", self.source)?;
        object.serialize_field("notes", &self.notes)?;
        object.end()
    }
}
