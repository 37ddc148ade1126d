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

/// The variable that names another file, for labs that share CPUs but not folders, such as those in containers. Where it is empty
/// there is no lock, for tests that run beside each other on purpose.
const LOCK_VARIABLE: &str = "QUELL_LAB_LOCK";

/// The lock that quell holds until it ends.
static HELD_LOCK: OnceLock<File> = OnceLock::new();

/// The other labs that one bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabSharing {
    /// It bears none.
    Alone,
    /// It bears others that only watch, on other CPUs perhaps.
    BesideWatchers,
}

/// Says that a lab is at work, unless another is.
pub(crate) fn lock_lab(sharing: LabSharing) -> anyhow::Result<()> {
    let places = lock_files();
    if places.is_empty() {
        return Ok(());
    }
    let opened = places
        .iter()
        .find_map(|place| Some((open_lock_file(place)?, place)));
    let Some((file, place)) = opened else {
        let tried: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
        say!(
            "quell: can't open {}: a second lab would not know of this one, so start none ({LOCK_VARIABLE} names another file)",
            tried.join(" nor ")
        );
        return Ok(());
    };
    match hold_lock(file, sharing) {
        Ok(file) => {
            let _ = HELD_LOCK.set(file);
            Ok(())
        }
        Err(by) => Err(usage(format!(
            "another lab is at work ({by}): two are each other's noise, so wait for it (the lock is {})",
            place.display()
        ))),
    }
}

/// Has the command hold the lock too.
pub(super) fn share_lock(command: &mut Command) {
    let Some(file) = HELD_LOCK.get() else { return };
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

/// The files that may be the lock, the best first. In a folder that everybody writes to each user has one of his own, which nobody
/// else can hold.
fn lock_files() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(LOCK_VARIABLE) {
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

fn open_lock_file(place: &Path) -> Option<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // Somebody may have put a link there.
        .custom_flags(libc::O_NOFOLLOW)
        .open(place)
        .ok()
}

/// Holds the lock and writes down who does, or says who does.
fn hold_lock(mut file: File, sharing: LabSharing) -> Result<File, String> {
    let taken = match sharing {
        LabSharing::Alone => file.try_lock(),
        LabSharing::BesideWatchers => file.try_lock_shared(),
    };
    match taken {
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // A file that can't be read names nobody.
            let _ = file.read_to_string(&mut pid);
            Err(describe_holder(pid.trim(), Path::new("/proc")))
        }
        // A file system that can't lock is no reason to refuse.
        Err(TryLockError::Error(_)) => Ok(file),
        Ok(()) => {
            let written = file
                .set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| writeln!(file, "{}", std::process::id()));
            // Only the name of the holder would be missing.
            drop(written);
            Ok(file)
        }
    }
}

fn describe_holder(pid: &str, proc: &Path) -> String {
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
        let take = |beside| hold_lock(open_lock_file(&place).expect("it opens"), beside);
        let pid = format!("pid {}", std::process::id());
        let first = take(LabSharing::Alone).expect("it is free");
        assert_eq!(take(LabSharing::Alone).expect_err("held"), pid);
        assert_eq!(take(LabSharing::BesideWatchers).expect_err("held"), pid);
        drop(first);
        let watchers = [
            take(LabSharing::BesideWatchers),
            take(LabSharing::BesideWatchers),
        ];
        assert!(watchers.iter().all(Result::is_ok));
        assert_eq!(take(LabSharing::Alone).expect_err("held"), pid);
        drop(watchers);
        take(LabSharing::Alone).expect("it is free again");
    }

    /// Check that of a lab that has ended this is said, and that a link is not followed.
    #[test]
    fn ended_labs_and_links() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(describe_holder("7", dir.path()).contains("taken back"));
        assert!(describe_holder("", dir.path()).contains("not known"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("file"), &link).expect("a link");
        assert!(open_lock_file(&link).is_none());
        assert!(!dir.path().join("file").exists());
    }
}
