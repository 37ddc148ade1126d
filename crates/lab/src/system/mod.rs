//! The system settings that an experiment needs, set up by a process of its own that takes them back when its stdin ends: after
//! the experiment, after Ctrl-C, and after the lab was killed. Should that process be killed, the lab takes them back by the
//! steps that it was sent.

mod setting;
mod swap;

pub use setting::turn_numa_balancing;

use std::fs;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use quell_event::UnknownName;
use serde::{Deserialize, Serialize};

use crate::mechanism::SystemNeed;

/// Settings that are set up, until they are taken back.
#[derive(Debug)]
pub struct GuardedSettings {
    child: Child,
    stdin: Option<ChildStdin>,
    told: BufReader<ChildStdout>,
    /// The steps that take the settings back, should the child not live to do it.
    undo: Vec<UndoStep>,
}

impl GuardedSettings {
    /// Has them set up by this command, which must call [`guard_settings`] with the words of `needs`; none where nothing is
    /// needed.
    ///
    /// # Errors
    ///
    /// The setting that failed, in words, and the settings that are left, if any are.
    pub fn set_up(command: &mut Command, needs: &[SystemNeed]) -> io::Result<Option<Self>> {
        let missing: Vec<&SystemNeed> = needs.iter().filter(|n| !n.is_there()).collect();
        if missing.is_empty() {
            return Ok(None);
        }
        let mut child = command
            .args(missing.iter().map(|n| n.name()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let mut guarded = Self {
            child,
            stdin,
            told: BufReader::new(stdout.ok_or_else(|| io::Error::other("no pipe"))?),
            undo: Vec::new(),
        };
        let mut answer = String::new();
        guarded.told.read_line(&mut answer)?;
        if let Ok(undo) = serde_json::from_str(&answer) {
            guarded.undo = undo;
            return Ok(Some(guarded));
        }
        match answer.trim_end() {
            "" => Err(io::Error::other("what sets up the system has ended")),
            why => Err(match guarded.take_back() {
                Ok(()) => io::Error::other(why.to_owned()),
                Err(left) => io::Error::other(format!("{why}; {left}")),
            }),
        }
    }

    /// Has them taken back, and waits for that without a bound.
    ///
    /// # Errors
    ///
    /// The settings that could not be taken back, with the commands that do it.
    pub fn take_back(mut self) -> io::Result<()> {
        self.end_guard()
    }

    fn end_guard(&mut self) -> io::Result<()> {
        // The child waits for the end of its stdin.
        if self.stdin.take().is_none() {
            return Ok(());
        }
        let mut said = String::new();
        self.told.read_to_string(&mut said)?;
        let status = self.child.wait()?;
        match said.trim_end() {
            "" if status.success() => Ok(()),
            // The child was killed, or failed without a word. A setting that it has taken back already is written a second time; a
            // device that it has removed already is told as one that could not be.
            "" => take_all_back(std::mem::take(&mut self.undo)),
            left => Err(io::Error::other(left.to_owned())),
        }
    }
}

impl Drop for GuardedSettings {
    fn drop(&mut self) {
        // It is dropped only where another error came first, which says more.
        let _ = self.end_guard();
    }
}

/// Sets up the needs that the words name, prints the steps that take them back or why it failed, waits for the end of stdin, and
/// takes them back. Settings that could not be taken back are printed on stdout, and it returns false.
///
/// # Errors
///
/// The same where nobody reads stdout.
pub fn guard_settings(words: &[String]) -> io::Result<bool> {
    // Ctrl-C goes to every process of the terminal: this one must outlive it.
    rustix::process::setsid()?;
    let mut undo: Vec<UndoStep> = Vec::new();
    let mut failed = None;
    for word in words {
        let made = match word.parse() {
            Ok(SystemNeed::Swap) => swap::turn_zram_swap_on(&mut undo),
            Ok(SystemNeed::Ksm) => setting::ksm_on(&mut undo),
            Ok(SystemNeed::Khugepaged) => setting::khugepaged_on(&mut undo),
            Ok(SystemNeed::NumaBalancing) => setting::keep_numa_balancing(&mut undo),
            Err(UnknownName { .. }) => Err(io::Error::other(format!("nobody knows '{word}'"))),
        };
        if let Err(err) = made {
            failed = Some(err);
            break;
        }
    }
    let mut out = io::stdout();
    // A lab that has gone reads nothing, and then stdin has ended too.
    let _ = match &failed {
        None => writeln!(out, "{}", serde_json::to_string(&undo)?),
        Some(why) => writeln!(out, "{why}"),
    };
    let _ = out.flush();
    if failed.is_none() {
        let _ = io::stdin().read_to_end(&mut Vec::new());
    }
    let Err(left) = take_all_back(undo) else {
        return Ok(true);
    };
    match writeln!(out, "{left}").and_then(|()| out.flush()) {
        Ok(()) => Ok(false),
        Err(_) => Err(left),
    }
}

/// Takes all steps back, the last first; the error has the reason and the command for each that failed.
fn take_all_back(undo: Vec<UndoStep>) -> io::Result<()> {
    let (mut whys, mut commands) = (Vec::new(), Vec::new());
    for step in undo.into_iter().rev() {
        if let Err(err) = step.take_back() {
            whys.push(err.to_string());
            commands.push(step.shell_command());
        }
    }
    if whys.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the system is not as it was: {}; this undoes it: {}",
        whys.join(", "),
        commands.join("; ")
    )))
}

impl SystemNeed {
    pub(crate) fn is_there(self) -> bool {
        match self {
            Self::Swap => {
                let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
                swaps.lines().count() > 1
            }
            Self::Ksm => setting::ksm_is_on(),
            Self::Khugepaged => setting::khugepaged_is_on(),
            // It is turned on and off again and again, so its old value must be kept in any case.
            Self::NumaBalancing => false,
        }
    }
}

/// A step that takes back one setting.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum UndoStep {
    RemoveZram(u32),
    SwapOff(PathBuf),
    /// Writes these to a file, one after the other; the last is its old value.
    Write(PathBuf, Vec<String>),
}

impl UndoStep {
    fn take_back(&self) -> io::Result<()> {
        match self {
            Self::SwapOff(device) => swap::turn_swap_off(device),
            Self::RemoveZram(number) => swap::remove_zram(*number),
            // Each is written, even if the one before failed.
            Self::Write(path, texts) => texts
                .iter()
                .map(|text| write_system_file(path, text))
                .fold(Ok(()), Result::and),
        }
    }

    /// The same as a command for a shell.
    fn shell_command(&self) -> String {
        match self {
            Self::SwapOff(device) => format!("swapoff {}", device.display()),
            Self::RemoveZram(number) => format!(
                "echo 1 > {}; echo {number} > {}",
                swap::reset_file(*number).display(),
                swap::HOT_REMOVE_FILE
            ),
            Self::Write(path, texts) => {
                let all: Vec<_> = texts
                    .iter()
                    .map(|text| format!("echo {text} > {}", path.display()))
                    .collect();
                all.join("; ")
            }
        }
    }
}

fn write_system_file(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|err| file_error("write to", path, &err))
}

/// Writes to a device that may be busy for a moment: udev opens each that has changed, and lets go soon.
fn write_when_free(path: &Path, text: &str) -> io::Result<()> {
    const MAX_WRITE_TRIES: u32 = 40;
    for _ in 0..MAX_WRITE_TRIES {
        match write_system_file(path, text) {
            Err(err) if err.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
    write_system_file(path, text)
}

fn file_error(doing: &str, path: &Path, err: &io::Error) -> io::Error {
    io::Error::new(
        err.kind(),
        format!("can't {doing} {}: {err}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what is not named is refused, and that each need has a name of its own.
    #[test]
    fn needs_have_names() {
        for need in SystemNeed::ALL {
            assert_eq!(need.name().parse(), Ok(need));
        }
        assert!("peace".parse::<SystemNeed>().is_err());
    }

    /// Check that all that could not be taken back is said, with the commands that do it in the order in which they
    /// must be given, and that what comes behind a failure is taken back all the same.
    #[test]
    fn what_is_left_is_said() {
        let folder = std::env::temp_dir().join(format!("quell-lab-left-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let there = folder.join("there");
        let nowhere = folder.join("none/run");
        let undo = vec![
            UndoStep::Write(there.clone(), vec!["2".into(), "0".into()]),
            UndoStep::SwapOff(folder.join("none/zram7")),
            UndoStep::Write(nowhere.clone(), vec!["2".into(), "0".into()]),
        ];
        let left = take_all_back(undo).unwrap_err().to_string();
        let run = nowhere.display();
        let commands = format!(
            "undoes it: echo 2 > {run}; echo 0 > {run}; swapoff {}/none/zram7",
            folder.display()
        );
        assert!(left.ends_with(&commands), "{left}");
        assert_eq!(fs::read_to_string(&there).unwrap(), "0");
        assert!(take_all_back(Vec::new()).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }
}
