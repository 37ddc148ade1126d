//! Changes: shown, asked about, made, and taken back.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use quell_doctor::apply::{self, Change, Restored};
use quell_doctor::{Finding, Severity, Status};

use super::text::clean;
use crate::cmd::usage;
use crate::show::style::BOLD;
use crate::show::units::plural;

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
    let unknown = findings.iter().filter(|f| f.status == Status::Unknown);
    let unknown: Vec<&str> = unknown.map(|f| f.rule).collect();
    if !unknown.is_empty() {
        anstream::eprintln!("quell: could not be told: {}", unknown.join(", "));
    }
    let wanted: Vec<Finding> = findings
        .iter()
        .filter(|f| f.status == Status::Hazard && f.severity >= least)
        .cloned()
        .collect();
    let changes = apply::plan(root, &wanted)?;
    if changes.is_empty() {
        anstream::eprintln!(
            "quell: nothing to change: no hazard here has a setting that can be written"
        );
        return Ok(());
    }
    apply::is_free(undo).map_err(|err| usage(format!("{err:#}")))?;
    anstream::eprint!("{}", shown(&changes));
    if !yes && !asked(changes.len())? {
        anstream::eprintln!("quell: nothing was changed");
        return Ok(());
    }
    apply::apply(root, &changes, undo)?;
    anstream::eprintln!(
        "quell: {} made; 'quell doctor --undo {}' takes them back, until a restart does",
        plural(changes.len() as u64, "change"),
        undo.display()
    );
    Ok(())
}

/// The changes, a line each.
fn shown(changes: &[Change]) -> String {
    let mut out = format!("{BOLD}{}{BOLD:#}\n", plural(changes.len() as u64, "change"));
    for c in changes {
        // writing to a String does not fail
        let _ = writeln!(
            out,
            "  {:<18}{}: {} -> {}",
            c.rule,
            c.path,
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
    anstream::eprint!("Make {}? [y/N] ", if n == 1 { "it" } else { "them" });
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
    apply::is_undo(file).map_err(|err| usage(format!("{err:#}")))?;
    for restored in apply::undo(Path::new("/"), file)? {
        match restored {
            Restored::Is(c) => {
                anstream::eprintln!("quell: {} is {} again", c.path, clean(&c.before));
            }
            Restored::Gone(c) => {
                anstream::eprintln!("quell: {} is gone, and its change with it", c.path);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each change is shown with its file, what it says and what it will say.
    #[test]
    fn changes_are_shown() {
        let change = Change {
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
