//! How a command ended, and the resources that it used.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use super::signals;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// By itself, with this status.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Status {
    /// From the status word of wait(2).
    pub(super) fn from_wait(word: i32) -> Self {
        if libc::WIFSIGNALED(word) {
            Self::Signal(libc::WTERMSIG(word))
        } else {
            Self::Code(libc::WEXITSTATUS(word))
        }
    }

    /// The status for a shell: 128 and the number of the signal for a death by signal.
    pub(crate) fn code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }

    /// The same, to return from main.
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// Whether it ended well.
    pub(crate) fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with status {code}"),
            Self::Signal(signal) => write!(f, "was ended by {}", signals::signal_name(*signal)),
        }
    }
}

/// The resources that a command used, by wait4(2) of the command itself.
///
/// That covers the command, its threads, and those of its descendants that were waited for by their
/// parents. It leaves out children that were still running when it ended, and orphans, which quell
/// itself reaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Time on a CPU in its own code, ns.
    pub(crate) user_ns: u64,
    /// Time on a CPU in the kernel, ns.
    pub(crate) system_ns: u64,
    /// From its release to its end, ns.
    pub(crate) wall_ns: u64,
    /// Page faults that needed no disk.
    pub(crate) minor_faults: u64,
    /// Page faults that did.
    pub(crate) major_faults: u64,
    /// The largest resident size of any one of the processes, bytes: not their sum.
    pub(crate) max_rss: u64,
}

impl Usage {
    pub(super) fn new(usage: &libc::rusage, wall: Duration) -> Self {
        let number = |n: i64| u64::try_from(n).unwrap_or(0);
        let time = |t: libc::timeval| {
            number(t.tv_sec).saturating_mul(1_000_000_000) + number(t.tv_usec) * 1_000
        };
        Self {
            user_ns: time(usage.ru_utime),
            system_ns: time(usage.ru_stime),
            wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
            minor_faults: number(usage.ru_minflt),
            major_faults: number(usage.ru_majflt),
            // Linux has it in KiB (getrusage(2)).
            max_rss: number(usage.ru_maxrss).saturating_mul(1024),
        }
    }

    /// All page faults.
    pub(crate) fn page_faults(&self) -> u64 {
        self.minor_faults + self.major_faults
    }
}

/// A command that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) status: Status,
    pub(crate) usage: Usage,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a death by signal is named and becomes 128 and its number.
    #[test]
    fn statuses() {
        // The layout of the word is wait(2)'s: the signal in the low 7 bits, the status above 8.
        assert_eq!(Status::from_wait(3 << 8), Status::Code(3));
        let died = Status::from_wait(libc::SIGSEGV);
        assert_eq!((died.code(), died.is_success()), (139, false));
        assert_eq!(died.to_string(), "was ended by SIGSEGV");
        assert_eq!(Status::Code(0).to_string(), "ended with status 0");
    }
}
