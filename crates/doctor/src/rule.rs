//! A rule: what it is about, and how it is asked.

use quell_event::Cause;

use crate::finding::{Finding, Read, Severity, Status};
use crate::fix::Fix;
use crate::harm::{Asked, Callers};
use crate::look::Look;
use crate::process::Process;

/// What a rule looks at, and how it is asked.
#[derive(Clone, Copy)]
pub enum Check {
    /// The machine.
    System(fn(&Look<'_>) -> Checked),
    /// One process.
    Process(fn(&Look<'_>, &Process) -> Checked),
}

/// One rule.
pub struct Rule {
    /// Its id, which never changes: scripts ask for it.
    pub id: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// How bad it is where the rule itself doesn't know better, for low latency.
    pub severity: Severity,
    /// Why it stalls.
    pub why: &'static str,
    /// What the fixes cost.
    pub risk: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// Shootdowns of these causes are its harm.
    pub causes: &'static [Cause],
    /// What it looks at, and how it is asked.
    pub check: Check,
}

/// What a rule says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub(crate) status: Option<Status>,
    pub(crate) severity: Option<Severity>,
    pub(crate) read: Vec<Read>,
    pub(crate) said: String,
    pub(crate) fixes: Vec<Fix>,
    pub(crate) notes: Vec<String>,
    /// Counters whose growth is its harm.
    pub(crate) counters: Vec<&'static str>,
    /// Where it is an allocator's rule: what others called for is not its harm.
    pub(crate) callers: Option<Callers>,
}

impl Checked {
    fn new(status: Status, said: String) -> Self {
        Self {
            status: Some(status),
            said,
            ..Self::default()
        }
    }

    /// Nothing is amiss.
    pub(crate) fn ok(said: impl Into<String>) -> Self {
        Self::new(Status::Ok, said.into())
    }

    /// Something is.
    pub(crate) fn hazard(said: impl Into<String>) -> Self {
        Self::new(Status::Hazard, said.into())
    }

    /// It can't be told, and why.
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self::new(Status::Unknown, why.into())
    }

    /// What was read.
    pub(crate) fn read(mut self, read: impl IntoIterator<Item = Read>) -> Self {
        self.read.extend(read);
        self
    }

    /// What helps.
    pub(crate) fn fix(mut self, fix: Fix) -> Self {
        self.fixes.push(fix);
        self
    }

    /// As bad as this, and not as the rule says.
    pub(crate) fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// Something to know besides.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Counters of /proc/vmstat, or others of the evidence, whose growth is its harm.
    pub(crate) fn grows(mut self, counters: &[&'static str]) -> Self {
        self.counters.extend(counters);
        self
    }
}

impl Rule {
    /// Asks the rule, if there is what it looks at. The harm is for [`crate::harm::told`] to tell.
    pub(crate) fn ask(&self, look: &Look<'_>) -> Option<Asked<'_>> {
        let checked = match self.check {
            Check::System(check) => check(look),
            Check::Process(check) => {
                let process = look.process()?;
                if process.ended() {
                    Checked::unknown("the process ended")
                } else {
                    check(look, process)
                }
            }
        };
        let status = checked.status.unwrap_or(Status::Unknown);
        let severity = checked.severity.unwrap_or(self.severity);
        let mut notes = checked.notes;
        if status == Status::Hazard {
            notes.extend(look.managers(&checked.fixes));
        }
        let finding = Finding {
            rule: self.id,
            title: self.title,
            status,
            severity: look.profile().weigh(self.id, severity),
            read: checked.read,
            said: checked.said,
            why: self.why,
            harm: None,
            fixes: if status == Status::Hazard {
                checked.fixes
            } else {
                Vec::new()
            },
            risk: self.risk,
            source: self.source,
            notes,
        };
        Some(Asked {
            rule: self,
            finding,
            counters: checked.counters,
            callers: checked.callers,
        })
    }
}
