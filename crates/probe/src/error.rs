//! The errors of the probe.

use std::fmt;
use std::sync::Mutex;

use libbpf_rs::PrintLevel;

/// Why the probe can't be used.
#[derive(Debug)]
pub enum Error {
    /// Something that this kernel or this user lacks.
    Missing {
        /// The missing thing, in one sentence.
        what: String,
        /// The command or the change that helps.
        help: String,
    },
    /// libbpf or the kernel refused.
    Load {
        /// The action that failed.
        doing: &'static str,
        /// The error that libbpf returned.
        source: libbpf_rs::Error,
        /// The text that libbpf printed meanwhile: the verifier's log ends in its reason.
        printed: String,
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
            printed: last_lines(&take_libbpf_output()),
        }
    }

    /// An error of loading programs, which the verifier may refuse. EPERM comes from a policy, because rights were checked
    /// before ([`crate::kernel::find_flush_functions`]); the verifier refuses by EACCES, EINVAL or E2BIG.
    pub(crate) fn from_program_load(doing: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::classify_load_error(doing, source, &take_libbpf_output())
    }

    /// An error of loading the probe, with which tables of so many bytes are made.
    pub(crate) fn from_probe_load(bytes: u64, source: libbpf_rs::Error) -> Self {
        if !format!("{source:#}").ends_with("(os error 12)") {
            return Self::from_program_load("load the eBPF programs")(source);
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

    fn classify_load_error(doing: &'static str, source: libbpf_rs::Error, heard: &str) -> Self {
        if heard.contains(REFUSED_READ_HELPER) {
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
            printed: last_lines(heard),
        }
    }
}

/// The function that the verifier names where the kernel lets no program read its memory (bpf_tracing_func_proto() in
/// kernel/trace/bpf_trace.c): libbpf falls back to this older function where bpf_probe_read_kernel() is refused. On other
/// kernels that have the newer one, no program calls the older.
const REFUSED_READ_HELPER: &str = "bpf_probe_read#4";

/// Whether the error is EPERM. Its kind is the same as that of EACCES, so the text decides.
fn is_eperm(err: &libbpf_rs::Error) -> bool {
    format!("{err:#}").ends_with("(os error 1)")
}

/// The end of the text that libbpf printed. It prints through a function without context, hence the static.
static LIBBPF_OUTPUT: Mutex<String> = Mutex::new(String::new());

/// Bytes of output that are kept, which are enough for the verifier's last lines.
const MAX_OUTPUT_BYTES: usize = 2000;

/// Keeps the text that libbpf would print to stderr.
pub(crate) fn capture_libbpf_output() {
    libbpf_rs::set_print(Some((PrintLevel::Info, |_, text| {
        if let Ok(mut printed) = LIBBPF_OUTPUT.lock() {
            printed.push_str(&text);
            let cut = printed.len().saturating_sub(MAX_OUTPUT_BYTES);
            if let Some(at) = (cut..=printed.len()).find(|&i| printed.is_char_boundary(i)) {
                printed.drain(..at);
            }
        }
    })));
}

/// The text that libbpf has printed since the last call.
fn take_libbpf_output() -> String {
    let text = LIBBPF_OUTPUT.lock().map(|mut s| std::mem::take(&mut *s));
    text.unwrap_or_default()
}

/// The last lines, where the verifier gives its reason.
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
                printed,
            } if printed.is_empty() => {
                write!(f, "can't {doing}: {source}")
            }
            Self::Load {
                doing,
                source,
                printed,
            } => write!(f, "can't {doing}: {source} ({printed})"),
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

    fn classify_load_error(errno: i32, heard: &str) -> Error {
        let source = libbpf_rs::Error::from_raw_os_error(errno);
        Error::classify_load_error("load the eBPF programs", source, heard)
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
            let told = classify_load_error(libc::EINVAL, &heard).to_string();
            assert!(told.contains("lockdown=integrity"), "{told}");
        }
    }

    /// Check that only EPERM is told as a policy's, with what to look at, and that what the verifier refuses
    /// keeps its words.
    #[test]
    fn a_policy_is_told_from_the_verifier() {
        let policy = classify_load_error(libc::EPERM, "").to_string();
        assert!(policy.contains("lockdown"), "{policy}");
        for errno in [libc::EACCES, libc::EINVAL, libc::E2BIG] {
            let told = classify_load_error(errno, "R1 is no pointer\n").to_string();
            assert!(told.contains("R1 is no pointer"), "{told}");
        }
    }
}
