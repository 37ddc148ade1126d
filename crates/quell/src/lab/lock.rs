//! One lab at a time: two are each other's noise, and one would take the settings of the other for the system's own.
//!
//! The lock is a file's (flock(2)), so that it goes with its holder, however that ends. The process that sets up the system holds
//! it too: a lab that was killed is over when all is taken back.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::usage::usage;

/// Names another file, for labs that share CPUs but not folders, such as those in containers. Empty, there is no lock:
/// tests run beside each other on purpose.
const NAMED: &str = "QUELL_LAB_LOCK";

/// Held until quell ends.
static HELD: OnceLock<File> = OnceLock::new();

/// Whom else the lab bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Nobody.
    Nobody,
    /// Others that only watch, on other CPUs perhaps.
    Watchers,
}

/// Says that a lab is at work, unless another is.
pub(crate) fn lock(beside: Beside) -> anyhow::Result<()> {
    let places = places();
    if places.is_empty() {
        return Ok(());
    }
    let opened = places.iter().find_map(|place| Some((open(place)?, place)));
    let Some((file, place)) = opened else {
        let tried: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
        say!(
            "quell: can't open {}: a second lab would not know of this one, so start none ({NAMED} names another file)",
            tried.join(" nor ")
        );
        return Ok(());
    };
    match hold(file, beside) {
        Ok(file) => {
            let _ = HELD.set(file);
            Ok(())
        }
        Err(by) => Err(usage(format!(
            "another lab is at work ({by}): two are each other's noise, so wait for it (the lock is {})",
            place.display()
        ))),
    }
}

/// Has the command hold the lock too.
pub(super) fn hand_on(command: &mut Command) {
    let Some(file) = HELD.get() else { return };
    let fd = file.as_raw_fd();
    // SAFETY: between fork and exec only fcntl(2) is called, which signal-safety(7) allows; the file is never closed.
    unsafe {
        command.pre_exec(move || {
            if libc::fcntl(fd, libc::F_SETFD, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// Where it may lie, the best first. In a folder that everybody writes to each user has one of his own, which nobody
/// else can hold.
fn places() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(NAMED) {
        return (!named.is_empty())
            .then(|| named.into())
            .into_iter()
            .collect();
    }
    let user = rustix::process::geteuid().as_raw();
    vec![
        "/run/quell-lab.lock".into(),
        std::env::temp_dir().join(format!("quell-lab-{user}.lock")),
    ]
}

fn open(place: &Path) -> Option<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // somebody may have put a link there
        .custom_flags(libc::O_NOFOLLOW)
        .open(place)
        .ok()
}

/// Holds it and writes down who does, or says who does.
fn hold(mut file: File, beside: Beside) -> Result<File, String> {
    let taken = match beside {
        Beside::Nobody => file.try_lock(),
        Beside::Watchers => file.try_lock_shared(),
    };
    match taken {
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // A file that can't be read names nobody.
            let _ = file.read_to_string(&mut pid);
            Err(by(pid.trim(), Path::new("/proc")))
        }
        // a file system that can't lock: no reason to refuse
        Err(TryLockError::Error(_)) => Ok(file),
        Ok(()) => {
            let written = file
                .set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| writeln!(file, "{}", std::process::id()));
            // only the name would be missing
            drop(written);
            Ok(file)
        }
    }
}

fn by(pid: &str, proc: &Path) -> String {
    match pid.parse::<u32>() {
        Ok(pid) if proc.join(pid.to_string()).exists() => format!("pid {pid}"),
        Ok(pid) => format!("pid {pid} has ended, and what it has set up is being taken back"),
        Err(_) => "who is not known".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the second is refused by the first one's pid, that those who only watch bear each other, and that the
    /// lock goes with whoever holds it.
    #[test]
    fn the_second_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let place = dir.path().join("lock");
        let take = |beside| hold(open(&place).expect("it opens"), beside);
        let pid = format!("pid {}", std::process::id());
        let first = take(Beside::Nobody).expect("it is free");
        assert_eq!(take(Beside::Nobody).expect_err("held"), pid);
        assert_eq!(take(Beside::Watchers).expect_err("held"), pid);
        drop(first);
        let watchers = [take(Beside::Watchers), take(Beside::Watchers)];
        assert!(watchers.iter().all(Result::is_ok));
        assert_eq!(take(Beside::Nobody).expect_err("held"), pid);
        drop(watchers);
        take(Beside::Nobody).expect("it is free again");
    }

    /// Check that of a lab that has ended this is said, and that a link is not followed.
    #[test]
    fn ended_labs_and_links() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(by("7", dir.path()).contains("taken back"));
        assert!(by("", dir.path()).contains("not known"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("file"), &link).expect("a link");
        assert!(open(&link).is_none());
        assert!(!dir.path().join("file").exists());
    }
}
