//! Changes of settings, which are shown, confirmed, made, and undone.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use quell_doctor::apply::{self, RestoreOutcome, SettingChange};
use quell_doctor::{Finding, FindingStatus, Severity};

use super::text::printable_text;
use crate::show::style::BOLD;
use crate::show::units::plural;
use crate::usage::usage;

/// Shows the changes, asks, and makes them. Nothing is changed without a yes.
///
/// # Errors
///
/// If the usage is bad, or a change is refused: then all is as it was.
pub(crate) fn apply_with_consent(
    findings: &[Finding],
    least: Severity,
    yes: bool,
    undo: &Path,
) -> anyhow::Result<()> {
    let root = Path::new("/");
    let unknown = findings
        .iter()
        .filter(|f| f.status == FindingStatus::Unknown);
    let unknown: Vec<&str> = unknown.map(|f| f.rule).collect();
    if !unknown.is_empty() {
        say!("quell: could not be told: {}", unknown.join(", "));
    }
    let hazards = findings
        .iter()
        .filter(|f| f.status == FindingStatus::Hazard);
    let (wanted, below): (Vec<Finding>, Vec<Finding>) =
        hazards.cloned().partition(|f| f.severity >= least);
    let changes = apply::plan_changes(root, &wanted)?;
    say_on!(
        "{}{}",
        passed_over(&below, least),
        left_to_user(&wanted, &changes)
    );
    if changes.is_empty() {
        say!("quell: nothing to change: no hazard here has a setting that can be taken back whole");
        return Ok(());
    }
    apply::check_undo_path(undo).map_err(|err| usage(format!("{err:#}")))?;
    say_on!("{}", changes_text(&changes));
    if !yes && !ask_consent(changes.len())? {
        say!("quell: nothing was changed");
        return Ok(());
    }
    // the answer may have taken its time
    anyhow::ensure!(
        apply::plan_changes(root, &wanted)? == changes,
        "the settings have changed meanwhile: nothing was changed; run it again"
    );
    apply::save_undo(&changes, undo)?;
    // the file is named before the changes, for a user who ends quell half-way; its use is promised when there is something to
    // undo
    say!("quell: {} keeps what was", undo.display());
    apply::make_changes(root, &changes, undo)?;
    say!(
        "quell: {} made: 'quell doctor --undo {}' takes {} back, until a restart does",
        plural(changes.len() as u64, "change"),
        undo.display(),
        if changes.len() == 1 { "it" } else { "them" }
    );
    Ok(())
}

/// Names the hazards that are below the severity that was asked for.
fn passed_over(below: &[Finding], least: Severity) -> String {
    if below.is_empty() {
        return String::new();
    }
    let rules: Vec<&str> = below.iter().map(|f| f.rule).collect();
    format!(
        "quell: below {least}, and left alone: {}; --fail-on names the severity\n",
        rules.join(", ")
    )
}

/// Names the hazards that no change mends, each with a command that would.
fn left_to_user(hazards: &[Finding], changes: &[SettingChange]) -> String {
    let mut out = String::new();
    for hazard in hazards {
        if changes.iter().any(|c| c.rule == hazard.rule) {
            continue;
        }
        let (now, lasting) = (hazard.fix_now(), hazard.fix_lasting());
        let fix = if now.is_empty() { lasting } else { now };
        for line in fix.lines() {
            // writing to a String does not fail
            let _ = writeln!(
                out,
                "quell: left to you: {:<18}{}",
                hazard.rule,
                printable_text(line)
            );
        }
    }
    out
}

/// Shows the changes, a line each.
fn changes_text(changes: &[SettingChange]) -> String {
    let mut out = format!("{BOLD}{}{BOLD:#}\n", plural(changes.len() as u64, "change"));
    for c in changes {
        // writing to a String does not fail
        let _ = writeln!(
            out,
            "  {:<18}{}: {} -> {}",
            c.rule,
            printable_text(&c.path),
            printable_text(&c.before),
            printable_text(&c.after)
        );
    }
    out
}

fn ask_consent(n: usize) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(usage(
            "--apply asks, and nobody is there to answer: add --yes",
        ));
    }
    say_on!("Make {}? [y/N] ", if n == 1 { "it" } else { "them" });
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Undoes the changes of an undo file.
///
/// # Errors
///
/// If the file is no undo file, or not all could be restored.
pub(crate) fn undo_changes_of(file: &Path) -> anyhow::Result<()> {
    apply::check_undo_file(file).map_err(|err| usage(format!("{err:#}")))?;
    for restored in apply::undo_changes(Path::new("/"), file)? {
        match restored {
            RestoreOutcome::AsBefore(c) => {
                say!("quell: {} is {} again", c.path, printable_text(&c.before));
            }
            RestoreOutcome::ChangedAgain(c, now) => {
                let (before, after, now) = (
                    printable_text(&c.before),
                    printable_text(&c.after),
                    printable_text(&now),
                );
                say!(
                    "quell: {} is {before} again; somebody had made {now} of the {after} that quell wrote",
                    c.path
                );
            }
            RestoreOutcome::Gone(c) => {
                say!(
                    "quell: {} is not there: {} keeps what it said ({}), for when it is back",
                    c.path,
                    file.display(),
                    printable_text(&c.before)
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a hazard without a change is left to the user with its command, and one with a change is not.
    #[test]
    fn what_is_left() {
        let found = super::super::text_tests::finding_fixture("SYS-KSM", FindingStatus::Hazard);
        let text = left_to_user(std::slice::from_ref(&found), &[]);
        assert_eq!(
            text.lines().next(),
            Some("quell: left to you: SYS-KSM           echo 2 > /sys/kernel/mm/ksm/run")
        );
        let change = SettingChange {
            rule: found.rule.to_owned(),
            path: String::new(),
            before: String::new(),
            after: String::new(),
        };
        assert_eq!(left_to_user(&[found], &[change]), "");
    }

    /// Check that hazards below the severity that is asked for are named.
    #[test]
    fn what_is_below() {
        let found = super::super::text_tests::finding_fixture("SYS-KSM", FindingStatus::Hazard);
        assert_eq!(
            passed_over(&[found.clone(), found], Severity::High),
            "quell: below high, and left alone: SYS-KSM, SYS-KSM; --fail-on names the severity\n"
        );
        assert_eq!(passed_over(&[], Severity::High), "");
    }

    /// Check that each change is shown with its file, what it says and what it will say.
    #[test]
    fn changes_are_shown() {
        let change = SettingChange {
            rule: "SYS-STAT".to_owned(),
            path: "/proc/sys/vm/stat_interval".to_owned(),
            before: "1".to_owned(),
            after: "120".to_owned(),
        };
        let text = anstream::adapter::strip_str(&changes_text(&[change])).to_string();
        assert_eq!(
            text,
            "1 change\n  SYS-STAT          /proc/sys/vm/stat_interval: 1 -> 120\n"
        );
    }
}
