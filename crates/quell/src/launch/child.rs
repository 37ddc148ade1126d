//! The child between fork and exec, which does nothing that is unsafe there.
//!
//! After fork(2) in a program that may have threads, only functions that signal-safety(7) lists may be called:
//! no allocation, no locks. So everything that the child needs is laid out by [`Prepared::new`]
//! before, and [`Prepared::run_child`] only makes system calls.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::setup::{Action, Setup};
use super::signals;
use crate::cmd::usage;

/// The exit status of a child that could not become the command; nobody sees it, because the error
/// is reported by the pipe.
const GAVE_UP: i32 = 127;

/// A command, ready to be executed.
pub(super) struct Prepared {
    /// Where the program may be, in the order of PATH.
    candidates: Vec<CString>,
    /// For a script without `#!`, which the shell runs (execvp(3) does this on ENOEXEC): the shell's
    /// arguments for each candidate.
    shells: Vec<Pointers>,
    argv: Pointers,
    envp: Pointers,
    ignore: [(i32, bool); 3],
    actions: Vec<Action>,
}

/// Why it did not become the command, as it goes through a pipe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    pub(super) errno: i32,
    /// Which of the plan's starts was refused; below zero, execve(2) was.
    pub(super) start: i32,
}

impl Failed {
    pub(super) fn of_exec(errno: i32) -> Self {
        Failed { errno, start: -1 }
    }

    pub(super) fn from_bytes(bytes: [u8; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Failed {
            errno: i32::from_ne_bytes([a, b, c, d]),
            start: i32::from_ne_bytes([e, f, g, h]),
        }
    }

    fn to_bytes(self) -> [u8; 8] {
        let ([a, b, c, d], [e, f, g, h]) = (self.errno.to_ne_bytes(), self.start.to_ne_bytes());
        [a, b, c, d, e, f, g, h]
    }
}

/// C strings and the array of pointers to them that execve(2) wants, ended by a null.
struct Pointers {
    _strings: Vec<CString>,
    array: Vec<*const libc::c_char>,
}

impl Pointers {
    fn new(strings: Vec<CString>) -> Self {
        // A CString's bytes stay where they are when the vector moves.
        let mut array: Vec<_> = strings.iter().map(|s| s.as_ptr()).collect();
        array.push(std::ptr::null());
        Self {
            _strings: strings,
            array,
        }
    }
}

/// The descriptors that the child starts with.
pub(super) struct Descriptors {
    /// The child goes on when it reads one byte here, and ends at the end of the file.
    pub(super) go: RawFd,
    /// The child writes the reason here if it can't become the command.
    pub(super) failed: RawFd,
    /// Standard input, output and error, where they are not quell's.
    pub(super) stdio: [Option<RawFd>; 3],
    /// quell's end of `go`: while the child has it too, it can't see that quell is gone.
    pub(super) other_end: RawFd,
    /// A quell that is killed takes it along: nobody is left who wants its output.
    pub(super) ends_with_quell: bool,
}

fn c_string(text: &OsStr) -> anyhow::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| usage("an argument of the command has a NUL in it"))
}

impl Prepared {
    pub(super) fn new(argv: &[OsString], setup: &Setup) -> anyhow::Result<Self> {
        let Some(program) = argv.first().filter(|p| !p.is_empty()) else {
            return Err(usage("no command: name one behind --"));
        };
        let environment = merged_environment(&setup.env);
        let path = environment.iter().find(|(name, _)| name == "PATH");
        let candidates = program_candidates(program, path.map(|(_, value)| value.as_os_str()))?;
        let args = argv
            .iter()
            .map(|a| c_string(a))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let shells = candidates.iter().map(|file| {
            let mut shell = vec![c"/bin/sh".to_owned(), file.clone()];
            shell.extend(args.iter().skip(1).cloned());
            Pointers::new(shell)
        });
        let mut variables = Vec::with_capacity(environment.len());
        for (name, value) in &environment {
            let mut text = name.clone();
            text.push("=");
            text.push(value);
            variables.push(c_string(&text)?);
        }
        Ok(Self {
            shells: shells.collect(),
            candidates,
            argv: Pointers::new(args),
            envp: Pointers::new(variables),
            actions: setup.starts.iter().map(Action::from_start).collect(),
            ignore: signals::STOP_SIGNALS.map(|signal| (signal, signals::was_ignored(signal))),
        })
    }

    /// Whether one of the files can be executed, as far as can be known before. Errno if not.
    pub(super) fn find_executable(&self) -> Result<(), i32> {
        let mut found = libc::ENOENT;
        for file in &self.candidates {
            let path = Path::new(OsStr::from_bytes(file.as_bytes()));
            let Ok(meta) = path.metadata() else { continue };
            if meta.is_file() && meta.permissions().mode() & 0o111 != 0 {
                return Ok(());
            }
            found = libc::EACCES;
        }
        Err(found)
    }

    /// Applies the plan's settings to this process, and becomes the command. Returns only the reason if that can't be.
    ///
    /// # Safety
    ///
    /// Async-signal-safe, for a child between fork and exec.
    pub(super) unsafe fn become_it(&self) -> Failed {
        for (start, action) in (0..).zip(&self.actions) {
            // SAFETY: as promised to us.
            if let Err(errno) = unsafe { action.do_to_self() } {
                return Failed { errno, start };
            }
        }
        // SAFETY: as promised to us.
        Failed::of_exec(unsafe { self.exec_candidates() })
    }

    /// Becomes the command. Returns errno if that can't be.
    ///
    /// # Safety
    ///
    /// Async-signal-safe, for a child between fork and exec.
    unsafe fn exec_candidates(&self) -> i32 {
        let mut found = libc::ENOENT;
        for (file, shell) in self.candidates.iter().zip(&self.shells) {
            let (argv, envp) = (self.argv.array.as_ptr(), self.envp.array.as_ptr());
            // SAFETY: all strings and arrays live in `self` and end with a null.
            let errno = unsafe {
                libc::execve(file.as_ptr(), argv, envp);
                *libc::__errno_location()
            };
            match errno {
                // As in execvp(3) the next folder is tried, and the better reason is remembered.
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => found = libc::EACCES,
                libc::ENOEXEC => {
                    // SAFETY: as above.
                    unsafe { libc::execve(c"/bin/sh".as_ptr(), shell.array.as_ptr(), envp) };
                    return libc::ENOEXEC;
                }
                errno => return errno,
            }
        }
        found
    }

    /// Gives INT, TERM, HUP and PIPE the actions back that they had when quell was started, and clears the mask.
    ///
    /// # Safety
    ///
    /// Async-signal-safe, for a child between fork and exec.
    pub(super) unsafe fn reset_signals(&self) {
        // SAFETY: sigaction(2) and sigprocmask(2) with structs on the stack.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            for (signal, ignored) in self.ignore {
                action.sa_sigaction = if ignored {
                    libc::SIG_IGN
                } else {
                    libc::SIG_DFL
                };
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
            // Rust's runtime ignores it in quell, and an ignored signal outlives execve(2).
            action.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(libc::SIGPIPE, &raw const action, std::ptr::null_mut());
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        }
    }

    /// Everything that the child does: waits to be released, and becomes the command.
    ///
    /// # Safety
    ///
    /// To be called in the child of a fork(2), with the signals in [`signals::STOP_SIGNALS`] blocked.
    pub(super) unsafe fn run_child(&self, fds: &Descriptors) -> ! {
        // SAFETY: system calls only, on descriptors that are open and memory that is ours.
        unsafe {
            libc::close(fds.other_end);
            if fds.ends_with_quell {
                // Before the read below, which ends where quell is gone already. Of the thread that
                // forked, which is quell's first (PR_SET_PDEATHSIG(2const)).
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            }
            self.reset_signals();
            let mut byte = 0_u8;
            let got = loop {
                let got = libc::read(fds.go, (&raw mut byte).cast(), 1);
                if got >= 0 || *libc::__errno_location() != libc::EINTR {
                    break got;
                }
            };
            if got != 1 {
                // quell is gone, or has changed its mind.
                libc::_exit(GAVE_UP);
            }
            for (number, fd) in (0..).zip(fds.stdio) {
                let Some(fd) = fd else { continue };
                if libc::dup2(fd, number) < 0 {
                    give_up(fds.failed, Failed::of_exec(*libc::__errno_location()));
                }
            }
            give_up(fds.failed, self.become_it())
        }
    }
}

/// Tells quell the reason, and ends.
///
/// # Safety
///
/// For a child between fork and exec.
unsafe fn give_up(failed: RawFd, why: Failed) -> ! {
    let bytes = why.to_bytes();
    // SAFETY: write(2) of a buffer on the stack, and _exit(2).
    unsafe {
        libc::write(failed, bytes.as_ptr().cast(), bytes.len());
        libc::_exit(GAVE_UP)
    }
}

/// quell's environment with `added` over it.
fn merged_environment(added: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let mut all: Vec<_> = std::env::vars_os().collect();
    for (name, value) in added {
        all.retain(|(known, _)| known != name);
        all.push((name.clone(), value.clone()));
    }
    all
}

/// The files that a command's name may mean.
fn program_candidates(program: &OsStr, path: Option<&OsStr>) -> anyhow::Result<Vec<CString>> {
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![c_string(program)?]);
    }
    // These are the folders of execvp(3) where PATH is not set.
    let path = path.unwrap_or(OsStr::new("/bin:/usr/bin"));
    let folders = path.as_bytes().split(|b| *b == b':');
    folders
        .map(|folder| {
            // An empty entry is the current folder.
            let folder = if folder.is_empty() { b"." } else { folder };
            let file = [folder, b"/", program.as_bytes()].concat();
            c_string(OsStr::from_bytes(&file))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a name is looked for in PATH, in order, and a path is taken as it is.
    #[test]
    fn looks_in_path() {
        let path = Some(OsStr::new("/a::/b/"));
        let found = program_candidates(OsStr::new("x"), path).unwrap();
        assert_eq!(
            found,
            [c"/a/x".into(), c"./x".into(), c"/b//x".into()] as [CString; 3]
        );
        assert_eq!(
            program_candidates(OsStr::new("./x"), path).unwrap(),
            [CString::from(c"./x")]
        );
        assert_eq!(program_candidates(OsStr::new("x"), None).unwrap().len(), 2);
    }

    /// Check that what is added replaces what was there, once.
    #[test]
    fn adds_to_the_environment() {
        let all = merged_environment(&[
            ("PATH".into(), "/x".into()),
            ("QUELL_NEW".into(), "1".into()),
        ]);
        let paths: Vec<_> = all.iter().filter(|(n, _)| n == "PATH").collect();
        assert_eq!(paths, [&("PATH".into(), "/x".into())]);
        assert!(all.contains(&("QUELL_NEW".into(), "1".into())));
    }

    /// Check that no command, an empty one, and one with a NUL are refused.
    #[test]
    fn refuses() {
        assert!(Prepared::new(&[], Setup::NONE).is_err());
        assert!(Prepared::new(&["".into()], Setup::NONE).is_err());
        assert!(Prepared::new(&["a\0b".into()], Setup::NONE).is_err());
    }
}
