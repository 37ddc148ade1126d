//! What can go wrong with the probe.

use std::fmt;
use std::sync::Mutex;

use libbpf_rs::PrintLevel;

/// Why the probe can't be used.
#[derive(Debug)]
pub enum Error {
    /// Something that this kernel or this user lacks.
    Missing {
        /// What is missing, in one sentence.
        what: String,
        /// The command or the change that helps.
        help: String,
    },
    /// libbpf or the kernel refused.
    Load {
        /// What was being done.
        doing: &'static str,
        /// What libbpf returned.
        source: libbpf_rs::Error,
        /// What libbpf printed meanwhile: the verifier's log ends in its reason.
        said: String,
    },
    /// A symbol lookup failed.
    Symbols(blazesym::Error),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn load(doing: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Load {
            doing,
            source,
            said: last_lines(&heard()),
        }
    }

    /// The same, where the kernel judges the programs. EPERM is a policy's, for rights were looked at before
    /// ([`crate::kernel::prepare`]); what the verifier refuses is EACCES, EINVAL or E2BIG.
    pub(crate) fn judge(doing: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::judged(doing, source, &heard())
    }

    /// The same, where tables of so many bytes are made as well.
    pub(crate) fn no_memory(bytes: u64, source: libbpf_rs::Error) -> Self {
        if !format!("{source:#}").ends_with("(os error 12)") {
            return Self::judge("load the eBPF programs")(source);
        }
        Self::Missing {
            what: format!(
                "there is no memory for the probe's tables, of about {} MB",
                bytes.div_ceil(1 << 20)
            ),
            help: "raise the limit of the control group that quell runs in (memory.max), or run quell outside it"
                .to_owned(),
        }
    }

    fn judged(doing: &'static str, source: libbpf_rs::Error, heard: &str) -> Self {
        if heard.contains(NO_READING) {
            return Self::Missing {
                what: "the kernel lets no program read its memory: it is locked down for confidentiality \
                       (lockdown(7))"
                    .to_owned(),
                help: "boot with 'lockdown=integrity', with which quell works, or without"
                    .to_owned(),
            };
        }
        if is_eperm(&source) {
            // libbpf's advice of a higher 'ulimit -l' is for kernels before 5.11
            return Self::Missing {
                what: format!("the kernel does not let root {doing} (EPERM)"),
                help: "a security module or lockdown forbids it: see /sys/kernel/security/lockdown"
                    .to_owned(),
            };
        }
        Self::Load {
            doing,
            source,
            said: last_lines(heard),
        }
    }
}

/// What the verifier names where the kernel keeps its memory to itself (bpf_tracing_func_proto() in
/// kernel/trace/bpf_trace.c): libbpf tries this, the older function, where it sees bpf_probe_read_kernel()
/// refused. The programs call neither on a kernel that has the newer one.
const NO_READING: &str = "bpf_probe_read#4";

/// The kind of an error is the same for EPERM and EACCES.
fn is_eperm(err: &libbpf_rs::Error) -> bool {
    format!("{err:#}").ends_with("(os error 1)")
}

/// The end of what libbpf printed. It prints through a function without context, hence the static.
static SAID: Mutex<String> = Mutex::new(String::new());

/// Enough for the verifier's last lines.
const SAID_BYTES: usize = 2000;

/// Keeps what libbpf would print to stderr.
pub(crate) fn listen() {
    libbpf_rs::set_print(Some((PrintLevel::Info, |_, text| {
        if let Ok(mut said) = SAID.lock() {
            said.push_str(&text);
            let cut = said.len().saturating_sub(SAID_BYTES);
            if let Some(at) = (cut..=said.len()).find(|&i| said.is_char_boundary(i)) {
                said.drain(..at);
            }
        }
    })));
}

/// What libbpf has printed since the last call.
fn heard() -> String {
    let text = SAID.lock().map(|mut s| std::mem::take(&mut *s));
    text.unwrap_or_default()
}

/// The verifier's reason comes last.
fn last_lines(heard: &str) -> String {
    let lines: Vec<&str> = heard.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(6)..].join("; ")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { what, help } => write!(f, "{what}; {help}"),
            Self::Load {
                doing,
                source,
                said,
            } if said.is_empty() => {
                write!(f, "can't {doing}: {source}")
            }
            Self::Load {
                doing,
                source,
                said,
            } => write!(f, "can't {doing}: {source} ({said})"),
            Self::Symbols(source) => write!(f, "can't look up symbols: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Missing { .. } => None,
            Self::Load { source, .. } => Some(source),
            Self::Symbols(source) => Some(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(errno: i32, heard: &str) -> Error {
        let source = libbpf_rs::Error::from_raw_os_error(errno);
        Error::judged("load the eBPF programs", source, heard)
    }

    /// Check that a lockdown for confidentiality is told by what the verifier says of it (Linux 5.15, 6.12), whatever
    /// libbpf adds.
    #[test]
    fn confidentiality_is_told() {
        for line in [
            "8: (85) call bpf_probe_read#4\nunknown func bpf_probe_read#4\n",
            "2118: (85) call bpf_probe_read#4\nprogram of this type cannot use helper bpf_probe_read#4\n",
        ] {
            let heard = format!("{line}{}", "libbpf: more\n".repeat(8));
            let told = judged(libc::EINVAL, &heard).to_string();
            assert!(told.contains("lockdown=integrity"), "{told}");
        }
    }

    /// Check that only EPERM is told as a policy's, with what to look at, and that what the verifier refuses
    /// keeps its words.
    #[test]
    fn a_policy_is_told_from_the_verifier() {
        let policy = judged(libc::EPERM, "").to_string();
        assert!(policy.contains("lockdown"), "{policy}");
        for errno in [libc::EACCES, libc::EINVAL, libc::E2BIG] {
            let told = judged(errno, "R1 is no pointer\n").to_string();
            assert!(told.contains("R1 is no pointer"), "{told}");
        }
    }
}
