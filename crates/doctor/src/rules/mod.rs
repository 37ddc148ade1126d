//! One rule a file: what is read, when it is a hazard, why, and the fix.

#[cfg(test)]
mod fixture;
mod machine;
mod memory;
mod process;

use crate::look::Look;
use crate::rule::Rule;

/// Huge pages for all, for those who ask, or for nobody.
const THP_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Said where a counter must grow to tell, and nobody looked twice.
fn unseen(look: &Look<'_>) -> &'static str {
    match look.evidence().causes {
        Some(_) => "a trace has no counters, and nobody looked twice",
        None => "nobody looked twice: use --duration",
    }
}

pub(crate) use machine::{MEMORY_LIMIT, last_set, memory_limit};

/// Every rule, in the order of the documentation.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    memory::ALL.iter().chain(machine::ALL).chain(process::ALL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Check that the documentation has a line for every rule, with its severity and title.
    #[test]
    fn rules_are_documented() {
        let docs = include_str!("../../../../docs/doctor.md");
        for rule in all() {
            let line = format!("| `{}` | {} | {} |", rule.id, rule.severity, rule.title);
            assert!(docs.contains(&line), "docs/doctor.md lacks: {line}");
        }
    }

    /// Check that ids are unique and of one form, and that every rule says why, at what cost, and who says so.
    #[test]
    fn rules_are_whole() {
        let mut ids = HashSet::new();
        for rule in all() {
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
