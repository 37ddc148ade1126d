//! What an experiment needs of the system, set up by a process of its own that takes it back when its stdin ends:
//! after the experiment, after Ctrl-C, and after the lab was killed.

mod setting;
mod swap;

pub use setting::turn_numa_balancing;

use std::fs;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::mechanism::Need;

/// A system that is set up, until it is dropped.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Guarded {
    /// Has it set up by this command, which must call [`guard`] with the words of `needs`; nothing where nothing is
    /// needed.
    ///
    /// # Errors
    ///
    /// What could not be set up, in words; then nothing is left of it.
    pub fn set_up(command: &mut Command, needs: &[Need]) -> io::Result<Option<Self>> {
        let missing: Vec<&Need> = needs.iter().filter(|n| !n.is_there()).collect();
        if missing.is_empty() {
            return Ok(None);
        }
        let mut child = command
            .args(missing.iter().map(|n| n.name()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let mut answer = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut answer)?;
        }
        let guarded = Self { child, stdin };
        match answer.trim_end() {
            "ready" => Ok(Some(guarded)),
            "" => Err(io::Error::other("what sets up the system has ended")),
            why => Err(io::Error::other(why.to_owned())),
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // the end of its stdin is what it waits for; then it takes all back, which takes as long as it takes
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// Sets up what the words name, says "ready" or why not, waits for the end of stdin, and takes it back.
///
/// # Errors
///
/// What could not be taken back, in words.
pub fn guard(words: &[String]) -> io::Result<()> {
    // Ctrl-C goes to every process of the terminal: this one must outlive it
    rustix::process::setsid()?;
    let mut undo: Vec<Undo> = Vec::new();
    let mut failed = None;
    for word in words {
        let made = match Need::named(word) {
            Some(Need::Swap) => swap::on(&mut undo),
            Some(Need::Ksm) => setting::ksm_on(&mut undo),
            Some(Need::Khugepaged) => setting::khugepaged_on(&mut undo),
            Some(Need::NumaBalancing) => setting::keep_numa_balancing(&mut undo),
            None => Err(io::Error::other(format!("nobody knows '{word}'"))),
        };
        if let Err(err) = made {
            failed = Some(err);
            break;
        }
    }
    let mut out = io::stdout();
    // a lab that has gone reads nothing, and then stdin has ended too
    let _ = match &failed {
        None => writeln!(out, "ready"),
        Some(why) => writeln!(out, "{why}"),
    };
    let _ = out.flush();
    if failed.is_none() {
        let _ = io::stdin().read_to_end(&mut Vec::new());
    }
    let mut last = Ok(());
    for step in undo.into_iter().rev() {
        if let Err(err) = step.take_back() {
            last = Err(err);
        }
    }
    last
}

impl Need {
    const ALL: [Self; 4] = [Self::Swap, Self::Ksm, Self::Khugepaged, Self::NumaBalancing];

    fn name(self) -> &'static str {
        match self {
            Self::Swap => "swap",
            Self::Ksm => "ksm",
            Self::Khugepaged => "khugepaged",
            Self::NumaBalancing => "numa-balancing",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|need| need.name() == name)
    }

    pub(crate) fn is_there(self) -> bool {
        match self {
            Self::Swap => {
                let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
                swaps.lines().count() > 1
            }
            Self::Ksm => setting::ksm_is_on(),
            Self::Khugepaged => setting::khugepaged_is_on(),
            // it is turned on and off again and again, so that somebody must know what it was
            Self::NumaBalancing => false,
        }
    }
}

/// What takes back one step.
#[derive(Debug)]
enum Undo {
    RemoveZram(u32),
    SwapOff(PathBuf),
    /// Writes what a file said before.
    Restore(PathBuf, String),
}

impl Undo {
    fn take_back(self) -> io::Result<()> {
        match self {
            Self::SwapOff(device) => swap::off(&device),
            Self::RemoveZram(number) => swap::remove(number),
            Self::Restore(path, old) => write(&path, &old),
        }
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|err| told("write to", path, &err))
}

/// A device that somebody looks at is busy, and udev looks at each that has changed: it lets go soon.
fn write_when_free(path: &Path, text: &str) -> io::Result<()> {
    const TRIES: u32 = 40;
    for _ in 0..TRIES {
        match write(path, text) {
            Err(err) if err.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
    write(path, text)
}

fn told(doing: &str, path: &Path, err: &io::Error) -> io::Error {
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
        for need in Need::ALL {
            assert_eq!(Need::named(need.name()), Some(need));
        }
        assert_eq!(Need::named("peace"), None);
    }
}
