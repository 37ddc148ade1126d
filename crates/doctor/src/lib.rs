//! The audit: the settings of this system or process that will stall a program, why, and the fix.
//!
//! An [`AuditRule`] reads settings through a [`SystemView`]; each rule has a file under `rules`.
//! A [`Finding`] names the files that were read, and a file that can't be read makes it unknown, never a pass.
//! [`HarmEvidence`] of harm done (a trace, or counters before and after) ranks a finding above one that
//! might. [`emit`] writes the lasting fixes in the form of other tools; [`apply`] makes the changes and
//! takes them back.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod apply;
mod cgroup;
pub mod emit;
#[cfg(test)]
mod emit_tests;
mod evidence;
mod file_value;
mod finding;
mod fix;
mod harm;
mod judged_allocators;
mod memory_limits;
mod process;
mod profile;
mod rule;
mod rules;
pub mod sarif;
mod sysctl_files;
mod system_files;
mod system_view;

pub use evidence::{HarmEvidence, read_counters};
pub use file_value::FileValue;
pub use finding::{FileReading, Finding, FindingStatus, Harm, Severity};
pub use fix::Fix;
pub use process::AuditedProcess;
pub use profile::WorkloadProfile;
pub use rule::{AuditRule, CheckResult, RuleCheck};
pub use system_files::SystemFiles;
pub use system_view::SystemView;

/// Every rule, in the order of the documentation.
#[must_use]
pub fn all_rules() -> Vec<&'static AuditRule> {
    rules::all_rules().collect()
}

/// Asks the rules that are wanted and apply: of the system, and with a process of that too. Those that did harm
/// come first, then hazards by severity, then unknown findings, then those that are fine.
#[must_use]
pub fn audit_system(look: &SystemView<'_>, wanted: impl Fn(&AuditRule) -> bool) -> Vec<Finding> {
    let rules = rules::all_rules().filter(|rule| wanted(rule));
    let asked = rules.filter_map(|rule| rule.ask_rule(look)).collect();
    let mut findings = harm::attribute_harm(asked, look.evidence);
    findings.sort_by(|a, b| b.sort_key().cmp(&a.sort_key()).then(a.rule.cmp(b.rule)));
    findings
}
