//! Changes: shown, asked about, made, and taken back.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use quell_doctor::apply::{self, RestoreOutcome, SettingChange};
use quell_doctor::{Finding, FindingStatus, Severity};

use super::text::clean;
use crate::show::style::BOLD;
use crate::show::units::plural;
use crate::usage::usage;

/// Shows what would change, asks, and makes the changes. Nothing is changed where nobody says yes.
///
/// # Errors
///
/// Bad usage, or a change that is refused: all is then as it was.
pub(crate) fn make(
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
    say_on!("{}{}", passed_over(&below, least), left(&wanted, &changes));
    if changes.is_empty() {
        say!("quell: nothing to change: no hazard here has a setting that can be taken back whole");
        return Ok(());
    }
    apply::check_undo_path(undo).map_err(|err| usage(format!("{err:#}")))?;
    say_on!("{}", shown(&changes));
    if !yes && !asked(changes.len())? {
        say!("quell: nothing was changed");
        return Ok(());
    }
    // the answer may have taken its time
    anyhow::ensure!(
        apply::plan_changes(root, &wanted)? == changes,
        "the settings have changed meanwhile: nothing was changed; run it again"
    );
    apply::save_undo(&changes, undo)?;
    // said before, for who ends quell half-way; what it is good for is promised when there is something to take back
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

/// The hazards that are not of the severity that is asked for.
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

/// The hazards that no change mends, with what would.
fn left(hazards: &[Finding], changes: &[SettingChange]) -> String {
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
                clean(line)
            );
        }
    }
    out
}

/// The changes, a line each.
fn shown(changes: &[SettingChange]) -> String {
    let mut out = format!("{BOLD}{}{BOLD:#}\n", plural(changes.len() as u64, "change"));
    for c in changes {
        // writing to a String does not fail
        let _ = writeln!(
            out,
            "  {:<18}{}: {} -> {}",
            c.rule,
            clean(&c.path),
            clean(&c.before),
            clean(&c.after)
        );
    }
    out
}

fn asked(n: usize) -> anyhow::Result<bool> {
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

/// Takes the changes of an undo file back.
///
/// # Errors
///
/// It is none, or not all could be restored.
pub(crate) fn undo(file: &Path) -> anyhow::Result<()> {
    apply::check_undo_file(file).map_err(|err| usage(format!("{err:#}")))?;
    for restored in apply::undo_changes(Path::new("/"), file)? {
        match restored {
            RestoreOutcome::AsBefore(c) => {
                say!("quell: {} is {} again", c.path, clean(&c.before));
            }
            RestoreOutcome::ChangedAgain(c, now) => {
                let (before, after, now) = (clean(&c.before), clean(&c.after), clean(&now));
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
                    clean(&c.before)
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
        let found = super::super::text_tests::finding("SYS-KSM", FindingStatus::Hazard);
        let text = left(std::slice::from_ref(&found), &[]);
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
        assert_eq!(left(&[found], &[change]), "");
    }

    /// Check that hazards below the severity that is asked for are named.
    #[test]
    fn what_is_below() {
        let found = super::super::text_tests::finding("SYS-KSM", FindingStatus::Hazard);
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
        let text = anstream::adapter::strip_str(&shown(&[change])).to_string();
        assert_eq!(
            text,
            "1 change\n  SYS-STAT          /proc/sys/vm/stat_interval: 1 -> 120\n"
        );
    }
}
