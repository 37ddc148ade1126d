//! What nearly every rule is made of, so that a rule's file begins with the rule.

pub(crate) use quell_event::Cause;
pub(crate) use quell_host::cpus;
pub(crate) use quell_remedy::{FoundSoftware, SoftwareKind};

pub(crate) use crate::file_value::FileValue;
pub(crate) use crate::finding::{FileReading, Severity};
pub(crate) use crate::fix::Fix;
pub(crate) use crate::process::AuditedProcess;
pub(crate) use crate::rule::{AuditRule, CheckResult, RuleCheck};
pub(crate) use crate::system_view::SystemView;
