//! A rule of the audit, and how it is asked.

use quell_event::Cause;

use crate::finding::{FileReading, Finding, FindingStatus, Severity};
use crate::fix::Fix;
use crate::judged_allocators::JudgedAllocators;
use crate::process::AuditedProcess;
use crate::system_view::SystemView;

/// The target of a rule, with the function that checks it.
#[derive(Clone, Copy)]
pub enum RuleCheck {
    /// The machine.
    System(fn(&SystemView<'_>) -> CheckResult),
    /// One process.
    Process(fn(&SystemView<'_>, &AuditedProcess) -> CheckResult),
}

/// One rule.
pub struct AuditRule {
    /// Its id, which never changes: scripts ask for it.
    pub id: &'static str,
    /// Its subject, in a few words.
    pub title: &'static str,
    /// How bad it is where the rule itself doesn't know better, for low latency.
    pub severity: Severity,
    /// Why it stalls.
    pub why: &'static str,
    /// The cost of the fixes.
    pub risk: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// Shootdowns of these causes are its harm.
    pub causes: &'static [Cause],
    /// Its target, with the function that checks it.
    pub check: RuleCheck,
}

/// The answer of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckResult {
    pub(crate) status: Option<FindingStatus>,
    pub(crate) severity: Option<Severity>,
    pub(crate) read: Vec<FileReading>,
    pub(crate) said: String,
    pub(crate) fixes: Vec<Fix>,
    pub(crate) notes: Vec<String>,
    /// Counters whose growth is its harm.
    pub(crate) counters: Vec<&'static str>,
    /// The allocator that the rule is about, where it is about one: shootdowns that other code called for are not its harm.
    pub(crate) callers: Option<JudgedAllocators>,
}

impl CheckResult {
    fn new(status: FindingStatus, said: String) -> Self {
        Self {
            status: Some(status),
            said,
            ..Self::default()
        }
    }

    /// Nothing is amiss.
    pub(crate) fn ok(said: impl Into<String>) -> Self {
        Self::new(FindingStatus::Ok, said.into())
    }

    /// Something is.
    pub(crate) fn hazard(said: impl Into<String>) -> Self {
        Self::new(FindingStatus::Hazard, said.into())
    }

    /// It can't be told, and why.
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self::new(FindingStatus::Unknown, why.into())
    }

    /// Adds files that were read.
    pub(crate) fn with_reads(mut self, read: impl IntoIterator<Item = FileReading>) -> Self {
        self.read.extend(read);
        self
    }

    /// Adds a change that helps.
    pub(crate) fn with_fix(self, fix: Fix) -> Self {
        self.with_fixes([fix])
    }

    /// Adds changes that help.
    pub(crate) fn with_fixes(mut self, fixes: impl IntoIterator<Item = Fix>) -> Self {
        self.fixes.extend(fixes);
        self
    }

    /// Adds advice, where no setting helps.
    pub(crate) fn with_advice(self, text: impl Into<String>) -> Self {
        self.with_fix(Fix::Advice(text.into()))
    }

    /// As bad as this, and not as the rule says.
    pub(crate) fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// Something to know besides.
    pub(crate) fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Counters of /proc/vmstat, or others of the evidence, whose growth is its harm.
    pub(crate) fn with_harm_counters(mut self, counters: &[&'static str]) -> Self {
        self.counters.extend(counters);
        self
    }
}

impl AuditRule {
    /// Asks the rule, if its target is there. [`crate::harm::attribute_harm`] adds the harm.
    pub(crate) fn ask_rule(&self, look: &SystemView<'_>) -> Option<UnattributedFinding<'_>> {
        let checked = match self.check {
            RuleCheck::System(check) => check(look),
            RuleCheck::Process(check) => {
                let process = look.process()?;
                if process.has_ended() {
                    CheckResult::unknown("the process ended")
                } else {
                    check(look, process)
                }
            }
        };
        let status = checked.status.unwrap_or(FindingStatus::Unknown);
        let severity = checked.severity.unwrap_or(self.severity);
        let mut notes = checked.notes;
        if status == FindingStatus::Hazard {
            notes.extend(look.revert_warnings(&checked.fixes));
        }
        let finding = Finding {
            rule: self.id,
            title: self.title,
            status,
            severity: look.profile.weigh_severity(self.id, severity),
            read: checked.read,
            said: checked.said,
            why: self.why,
            harm: None,
            fixes: if status == FindingStatus::Hazard {
                checked.fixes
            } else {
                Vec::new()
            },
            risk: self.risk,
            source: self.source,
            notes,
        };
        Some(UnattributedFinding {
            rule: self,
            finding,
            counters: checked.counters,
            callers: checked.callers,
        })
    }
}

/// A finding whose harm is not told yet.
pub(crate) struct UnattributedFinding<'r> {
    pub(crate) rule: &'r AuditRule,
    pub(crate) finding: Finding,
    /// Counters whose growth is its harm.
    pub(crate) counters: Vec<&'static str>,
    pub(crate) callers: Option<JudgedAllocators>,
}

impl UnattributedFinding<'_> {
    pub(crate) fn is_hazard(&self) -> bool {
        self.finding.status == FindingStatus::Hazard
    }

    pub(crate) fn is_of_process(&self) -> bool {
        matches!(self.rule.check, RuleCheck::Process(_))
    }
}
