//! The rules, a file each: the files that it reads, when they are a hazard, why, and the fix.

#[cfg(test)]
mod fixture;
mod machine;
mod memory;
mod prelude;
mod process;

use crate::rule::AuditRule;
use crate::system_view::SystemView;

/// Huge pages for all, for those who ask, or for nobody.
const THP_ENABLED_FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Said where a counter must grow to tell, and nobody looked twice.
fn why_no_growth(look: &SystemView<'_>) -> &'static str {
    match look.evidence.shootdowns_by_cause {
        Some(_) => "a trace has no counters, and nobody looked twice",
        None => "nobody looked twice: use --duration",
    }
}

/// Every rule, in the order of the documentation.
pub(crate) fn all_rules() -> impl Iterator<Item = &'static AuditRule> {
    memory::MEMORY_RULES
        .iter()
        .chain(machine::MACHINE_RULES)
        .chain(process::PROCESS_RULES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Check that the documentation has a line for every rule, with its severity and title.
    #[test]
    fn rules_are_documented() {
        let docs = include_str!("../../../../docs/doctor.md");
        for rule in all_rules() {
            let line = format!("| `{}` | {} | {} |", rule.id, rule.severity, rule.title);
            assert!(docs.contains(&line), "docs/doctor.md lacks: {line}");
        }
    }

    /// Check that ids are unique and of one form, and that every rule says why, at what cost, and who says so.
    #[test]
    fn rules_are_whole() {
        let mut ids = HashSet::new();
        for rule in all_rules() {
            assert!(ids.insert(rule.id), "{} twice", rule.id);
            let form = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-';
            assert!(rule.id.chars().all(form), "{}", rule.id);
            for text in [rule.title, rule.why, rule.risk, rule.source] {
                assert!(text.len() > 3, "{}: '{text}'", rule.id);
            }
            assert!(rule.why.ends_with('.'), "{}: {}", rule.id, rule.why);
        }
    }
}
