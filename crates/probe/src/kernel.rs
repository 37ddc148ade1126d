//! What the running kernel and this user's rights allow, said before anything is loaded.

use std::fs;

use libbpf_rs::ErrorKind;

use crate::error::{self, Error, Result};

/// The addresses of the functions that flush, as `csd_*` tracepoints name them. 0 matches nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flushes {
    /// `flush_tlb_func`: user memory.
    pub(crate) flush_tlb_func: u64,
    /// `do_flush_tlb_all`: everything, for the kernel's own mappings.
    pub(crate) flush_all: u64,
    /// `do_kernel_range_flush`: a range of the kernel's own mappings.
    pub(crate) flush_kernel: u64,
}

/// Capability numbers of include/uapi/linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYSLOG: u32 = 34;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

const AS_ROOT: &str = "run it as root ('sudo quell …'), or give the program the rights once: \
                       'sudo setcap cap_bpf,cap_perfmon,cap_syslog+ep \"$(command -v quell)\"'";

/// Checks the rights, reads the symbols, and finds the functions.
pub(crate) fn prepare() -> Result<(Symbols, Flushes)> {
    error::listen();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing_capabilities(&status);
    if !missing.is_empty() {
        return Err(Error::Missing {
            what: format!(
                "no right to load the probe: {} missing",
                missing.join(" and ")
            ),
            help: AS_ROOT.to_owned(),
        });
    }
    let symbols = Symbols::read();
    let flushes = Flushes {
        flush_tlb_func: symbols.address_of("flush_tlb_func"),
        flush_all: symbols.address_of("do_flush_tlb_all"),
        flush_kernel: symbols.address_of("do_kernel_range_flush"),
    };
    if flushes.flush_tlb_func != 0 {
        return Ok((symbols, flushes));
    }
    Err(if cfg!(not(target_arch = "x86_64")) {
        Error::Missing {
            what: "this is not an x86-64 machine, so TLB flushes send no interrupts".to_owned(),
            help: "there is nothing to trace here".to_owned(),
        }
    } else {
        Error::Missing {
            what: "the addresses of kernel functions can't be read from /proc/kallsyms".to_owned(),
            help: "give quell CAP_SYSLOG as well, or run 'sudo sysctl kernel.kptr_restrict=0'"
                .to_owned(),
        }
    })
}

/// The kernel's functions: the text of /proc/kallsyms, `ADDRESS TYPE NAME[\t[MODULE]]` a line.
pub(crate) struct Symbols(Vec<u8>);

impl Symbols {
    #[cfg(test)]
    pub(crate) fn new(text: Vec<u8>) -> Self {
        Self(text)
    }

    /// The running kernel's. Without rights, names are there and addresses are zero.
    pub(crate) fn read() -> Self {
        Self(fs::read("/proc/kallsyms").unwrap_or_default())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        find(&self.0, name).is_some()
    }

    /// Every tracepoint has a function that calls its probes (include/linux/tracepoint.h).
    pub(crate) fn has_tracepoint(&self, name: &str) -> bool {
        self.has(&format!("__traceiter_{name}"))
    }

    /// 0 if there is no such function, or no right to know.
    fn address_of(&self, name: &str) -> u64 {
        find(&self.0, name).unwrap_or(0)
    }
}

/// Of the running kernel, such as 6.12.57.
pub(crate) fn release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

/// The number of the first PID namespace (include/linux/proc_ns.h: PROC_PID_INIT_INO).
const HOST_PIDS: &str = "pid:[4026531836]";

/// The probe sees the numbers of the host: in another PID namespace those of `-p` and of a command
/// mean somebody else there.
pub(crate) fn require_host_pids() -> Result<()> {
    match fs::read_link("/proc/self/ns/pid") {
        Ok(name) if name.as_os_str() != HOST_PIDS => Err(Error::Missing {
            what: "quell runs in a container with process numbers of its own".to_owned(),
            help: "share the host's (docker run --pid=host), or watch everything with -a"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Names what a process with this `/proc/PID/status` lacks.
fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    // unreadable: let the kernel decide
    let Some(effective) = effective else {
        return Vec::new();
    };
    let has = |cap: u32| effective >> cap & 1 == 1;
    if has(CAP_SYS_ADMIN) {
        return Vec::new();
    }
    [
        (CAP_BPF, "CAP_BPF"),
        (CAP_PERFMON, "CAP_PERFMON"),
        (CAP_SYSLOG, "CAP_SYSLOG"),
    ]
    .into_iter()
    .filter(|&(cap, _)| !has(cap))
    .map(|(_, name)| name)
    .collect()
}

/// Finds the address of a function. A compiler may have put a suffix to a static one (`.isra.0`,
/// `.constprop.0`).
fn find(symbols: &[u8], name: &str) -> Option<u64> {
    let mut with_suffix = None;
    for line in symbols.split(|&b| b == b'\n') {
        // 16 digits, a space, the type, a space
        let (Some(digits), Some(rest)) = (line.get(..16), line.get(19..)) else {
            continue;
        };
        let Some(tail) = rest.strip_prefix(name.as_bytes()) else {
            continue;
        };
        if !matches!(line[17], b't' | b'T') {
            continue;
        }
        let address = std::str::from_utf8(digits)
            .ok()
            .and_then(|d| u64::from_str_radix(d, 16).ok())
            .unwrap_or(0);
        match tail.first() {
            None | Some(b'\t') => return Some(address),
            Some(b'.') => with_suffix = Some(address),
            Some(_) => {}
        }
    }
    with_suffix
}

/// Says why a program can't be attached to its tracepoint or function.
pub(crate) fn explain_attach(target: &str, err: &libbpf_rs::Error) -> Error {
    if err.kind() == ErrorKind::NotFound {
        return Error::Missing {
            what: format!("this kernel ({}) has no '{target}'", release()),
            help: "quell's probe needs Linux 6.4 or later, or 5.17 with ftrace".to_owned(),
        };
    }
    Error::Missing {
        what: format!("the kernel refused to attach to '{target}': {err}"),
        help: "look at 'sysctl kernel.perf_event_paranoid' and at /sys/kernel/security/lockdown"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &[u8] = b"ffffffff81342490 t __pfx_flush_tlb_func\n\
        ffffffff813424a0 t flush_tlb_func\n\
        ffffffff81341e40 t do_flush_tlb_all.isra.0\n\
        ffffffff81341e50 D do_kernel_range_flush\n\
        short\n\n";

    /// Check that a function is found by its whole name, with a compiler's suffix, and only as code.
    #[test]
    fn functions_are_found() {
        let find = |name| find(SYMBOLS, name);
        assert_eq!(find("flush_tlb_func"), Some(0xffff_ffff_8134_24a0));
        assert_eq!(find("do_flush_tlb_all"), Some(0xffff_ffff_8134_1e40));
        assert_eq!(find("do_kernel_range_flush"), None);
        assert_eq!(find("flush_tlb"), None);
    }

    /// Check that every missing capability is named, and none where the process is all-powerful.
    #[test]
    fn missing_capabilities_are_named() {
        assert_eq!(
            missing_capabilities("Name:\tquell\nCapEff:\t0000000000000000\n"),
            ["CAP_BPF", "CAP_PERFMON", "CAP_SYSLOG"]
        );
        assert_eq!(
            missing_capabilities("CapEff:\t0000008000000000\n"),
            ["CAP_PERFMON", "CAP_SYSLOG"]
        );
        assert!(missing_capabilities("CapEff:\t000001ffffffffff\n").is_empty());
        assert!(missing_capabilities("").is_empty());
    }

    proptest::proptest! {
        /// Check that no bytes in place of kallsyms make the search fail.
        #[test]
        fn any_bytes_are_searched(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            find(&bytes, "flush_tlb_func");
        }
    }
}
