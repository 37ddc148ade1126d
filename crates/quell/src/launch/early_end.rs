//! Says what to try if a command that quell has become is ended by a signal soon after it started.
//!
//! quell is the command by then, and stays no parent of it: its status, signals, terminal and process id are the command's
//! own, as a supervisor and a shell expect. So a small process beside it looks, which is no child of it either. It holds
//! nothing but quell's standard error, and ends with the command, or after [`MAX_WATCHED_TIME`].
//!
//! ```text
//! quell ──fork──> middle ──fork──> watcher: polls the command's pidfd
//!   │               └ ends, so that the watcher belongs to init or a subreaper
//!   └ execve: the command
//! ```

use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::ended::Status;
use super::signals;
use crate::prove::failed::short_seconds;

/// The watcher ends after this time. A library that breaks a program mostly does so at its start; later there are more likely
/// reasons.
const MAX_WATCHED_TIME: Duration = Duration::from_secs(10);
/// How long to wait for the status, which may only be known once the command's parent has asked for it.
const MAX_STATUS_WAIT: Duration = Duration::from_secs(1);
/// The watcher's name in lists of processes (15 bytes at most, PR_SET_NAME(2const)).
pub(super) const WATCHER_NAME: &str = "quell-watch";

/// The signals by which a program ends by a fault of its own. By others somebody else ends it, or nobody reads its output.
const FAULT_SIGNALS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGABRT,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Starts the watcher of this process. If that fails, quell says nothing about it, because only the command matters.
pub(super) fn start_watcher(advice: &str) {
    // The watcher would become a child of the command, which may not expect one.
    let adopts = rustix::process::child_subreaper().is_ok_and(|s| s.is_some());
    if getpid().is_init() || adopts {
        return;
    }
    let Ok(command) = pidfd_open(getpid(), PidfdFlags::empty()) else {
        return;
    };
    let pid = std::process::id();
    let began = Instant::now();
    // SAFETY: quell has one thread here; and if it had more, the C libraries make allocation work after a fork.
    match unsafe { libc::fork() } {
        0 => {
            // The watcher inherits it, so that it has no other name where it is seen.
            set_name(WATCHER_NAME);
            // SAFETY: as above; the middle process only ends.
            if unsafe { libc::fork() } == 0 {
                watch_from_beside(command, pid, began, advice);
            }
            // SAFETY: _exit(2) runs nothing of quell's.
            unsafe { libc::_exit(0) }
        }
        -1 => {}
        middle => {
            // SAFETY: waitpid(2) for our own child. A signal that interrupts it comes from who wants quell to end.
            while unsafe { libc::waitpid(middle, std::ptr::null_mut(), 0) } == -1
                && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
            {
            }
        }
    }
}

/// Names this process in lists of processes.
pub(super) fn set_name(name: &str) {
    if let Ok(name) = std::ffi::CString::new(name) {
        // SAFETY: prctl(2) that reads a string, which ends with a NUL.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}

/// Runs the watcher: waits for the command's end, and gives the advice if it ended early by a fault.
fn watch_from_beside(command: OwnedFd, pid: u32, began: Instant, advice: &str) {
    let Some(command) = hold_only(command) else {
        return;
    };
    if !wait_readable(command, MAX_WATCHED_TIME) {
        return;
    }
    let ran = began.elapsed();
    if let Some(Status::Signal(signal)) = status_of(command, pid)
        && FAULT_SIGNALS.contains(&signal)
    {
        say!(
            "quell: the program ended by {} after {} s {advice}",
            signals::signal_name(signal),
            short_seconds(ran)
        );
    }
}

/// Gives back all that a process has from quell, except this descriptor and standard error: a pipe that it held open would
/// keep its reader waiting, a folder its file system from being unmounted.
fn hold_only(command: OwnedFd) -> Option<BorrowedFd<'static>> {
    // Closed by the range below, and not once more.
    let command = command.into_raw_fd();
    // SAFETY: system calls on descriptors and dispositions of this process alone.
    unsafe {
        for signal in signals::STOP_SIGNALS {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::chdir(c"/".as_ptr());
        // As standard input, for the rest can be closed by a range then (close_range(2), Linux 5.9).
        if libc::dup2(command, 0) < 0 {
            return None;
        }
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        // This is closed last: a reader that sees it closed knows that all are.
        libc::close(1);
    }
    // SAFETY: nobody closes it in this process.
    Some(unsafe { BorrowedFd::borrow_raw(0) })
}

fn wait_readable(command: BorrowedFd<'_>, time: Duration) -> bool {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        let mut fds = [PollFd::new(&command, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// How a process ended that has: as long as its parent has not asked, /proc says it, and afterwards the descriptor does, from
/// Linux 6.15 on. None where it was missed between.
fn status_of(command: BorrowedFd<'_>, pid: u32) -> Option<Status> {
    let end = Instant::now() + MAX_STATUS_WAIT;
    loop {
        let word = word_by_descriptor(command).or_else(|| word_of_zombie(pid));
        if word.is_some() || Instant::now() >= end {
            return word.map(Status::from_wait);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `struct pidfd_info` in its first size (linux/pidfd.h, Linux 6.13).
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    /// Ids of the process and of its users.
    ids: [u32; 11],
    exit_code: i32,
}

/// The status word that a descriptor has of a process that was waited for: PIDFD_GET_INFO with PIDFD_INFO_EXIT.
fn word_by_descriptor(command: BorrowedFd<'_>) -> Option<i32> {
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    // _IOWR(0xFF, 11, struct pidfd_info)
    const PIDFD_GET_INFO: libc::Ioctl =
        (3 << 30 | size_of::<PidfdInfo>() << 16 | 0xFF << 8 | 11) as libc::Ioctl;
    let mut info = PidfdInfo {
        mask: PIDFD_INFO_EXIT,
        ..PidfdInfo::default()
    };
    // SAFETY: the kernel fills in as much as the number of the call says, which is the struct's size.
    let done = unsafe { libc::ioctl(command.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (done == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// The status word of a process that has ended, and was not waited for: the last field of its `stat`
/// (proc_pid_stat(5)).
fn word_of_zombie(pid: u32) -> Option<i32> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may have anything in it.
    let behind = text.iter().rposition(|b| *b == b')')? + 1;
    let fields = std::str::from_utf8(text.get(behind..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    (state == "Z" || state == "X").then(|| fields.next_back()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::super::tests::alone;
    use super::*;

    /// Check that the status of a process is known between its end and when it is waited for, and afterwards where the kernel
    /// keeps it.
    #[test]
    fn status_before_and_after_the_wait() {
        let _one = alone();
        let mut child = Command::new("sh")
            .args(["-c", "kill -ABRT $$"])
            .spawn()
            .unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let fd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let fd = fd.as_fd();
        while !wait_readable(fd, MAX_WATCHED_TIME) {}
        let word = word_of_zombie(child.id()).unwrap();
        assert_eq!(Status::from_wait(word), Status::Signal(libc::SIGABRT));
        assert_eq!(
            status_of(fd, child.id()),
            Some(Status::Signal(libc::SIGABRT))
        );
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGABRT));
        match word_by_descriptor(fd) {
            Some(word) => assert_eq!(Status::from_wait(word), Status::Signal(libc::SIGABRT)),
            None => eprintln!(
                "SKIPPED status_before_and_after_the_wait: afterwards only Linux 6.15 knows it"
            ),
        }
        assert_eq!(word_of_zombie(child.id()), None);
    }

    /// Check that a process that runs has no status.
    #[test]
    fn none_of_one_that_runs() {
        assert_eq!(word_of_zombie(std::process::id()), None);
        let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        assert_eq!(word_by_descriptor(own.as_fd()), None);
        assert!(!wait_readable(own.as_fd(), Duration::ZERO));
    }
}
