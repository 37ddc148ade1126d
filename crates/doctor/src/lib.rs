//! The audit: what in this system or process will stall a program, why, and the fix.
//!
//! A [`Rule`] reads settings through a [`Look`] and says what it found; one file a rule, under `rules`.
//! What was read goes into the [`Finding`], and what could not be read makes it unknown, never a pass.
//! [`Evidence`] of harm done (a trace, or counters before and after) ranks a finding above one that
//! might. [`emit`] writes the lasting fixes in the form of other tools; [`apply`] makes the changes and
//! takes them back.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod apply;
pub mod emit;
#[cfg(test)]
mod emit_tests;
mod evidence;
mod finding;
mod fix;
mod harm;
mod look;
mod process;
mod profile;
mod rule;
mod rules;
pub mod sarif;

pub use evidence::{Counters, Evidence};
pub use finding::{Finding, Harm, Read, Severity, Status};
pub use fix::Fix;
pub use look::{Look, Value};
pub use process::{ForeignMap, Process};
pub use profile::Profile;
pub use rule::{Check, Checked, Rule};

/// Every rule, in the order of the documentation.
#[must_use]
pub fn rules() -> Vec<&'static Rule> {
    rules::all().collect()
}

/// Asks the rules that are wanted and apply: of the system, and with a process of that too. Those that did harm
/// come first, then hazards by severity, then what is unknown, then what is fine.
#[must_use]
pub fn audit(look: &Look<'_>, wanted: impl Fn(&Rule) -> bool) -> Vec<Finding> {
    let rules = rules::all().filter(|rule| wanted(rule));
    let asked = rules.filter_map(|rule| rule.ask(look)).collect();
    let mut findings = harm::told(asked, look.evidence());
    findings.sort_by(|a, b| b.rank().cmp(&a.rank()).then(a.rule.cmp(b.rule)));
    findings
}
