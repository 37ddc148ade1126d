//! Whether the running kernel and this user's rights allow the probe, decided before anything is loaded.

use std::fs;

use libbpf_rs::ErrorKind;
use quell_host::kallsyms;

use crate::error::{self, Error, Result};

/// The addresses of the functions that flush, by which `csd_*` tracepoints name them. 0 stands for a function that this kernel
/// lacks, and matches nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlushFunctions {
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

const HELP_AS_ROOT: &str = "run it as root ('sudo quell …'), or give the program the rights once: \
                       'sudo setcap cap_bpf,cap_perfmon,cap_syslog+ep \"$(command -v quell)\"'";

/// Checks the rights, reads the symbols, and finds the functions that flush in them.
pub(crate) fn find_flush_functions() -> Result<(KernelSymbols, FlushFunctions)> {
    error::capture_libbpf_output();
    let status = fs::read_to_string("/proc/self/status").map_err(|_| unreadable_proc())?;
    let missing = missing_capabilities(&status);
    if !missing.is_empty() {
        return Err(Error::Missing {
            what: format!(
                "no right to load the probe: {} missing",
                missing.join(" and ")
            ),
            help: HELP_AS_ROOT.to_owned(),
        });
    }
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(few) = too_few_files(files) {
        return Err(few);
    }
    let symbols = KernelSymbols::read();
    let flushes = FlushFunctions {
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
        let restrict = fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default();
        no_addresses(symbols.are_hidden(), restrict.trim())
    })
}

/// Why nothing is known of the kernel in a chroot or a container without /proc, not even whether it lacks something.
const PROC_UNREADABLE: &str = "/proc can't be read: it is not mounted here";

fn unreadable_proc() -> Error {
    Error::Missing {
        what: PROC_UNREADABLE.to_owned(),
        help: "mount it first: 'mount -t proc proc /proc'".to_owned(),
    }
}

/// How many files a process must be allowed to open. A probe has about 80 descriptors, of maps and programs, and `top` has up
/// to three probes; five for a moment when it renews them, which it can do without. With too few, libbpf fails with another
/// error each time, so the limit is checked first.
pub(crate) const MIN_OPEN_FILES: u64 = 256;

/// The error for a process that may open too few files; `None` where the limit is enough.
fn too_few_files(limit: Option<u64>) -> Option<Error> {
    let few = limit.filter(|&n| n < MIN_OPEN_FILES)?;
    Some(Error::Missing {
        what: format!(
            "quell may open {few} files only, and the probe needs up to {MIN_OPEN_FILES}"
        ),
        help: format!("run 'ulimit -n {MIN_OPEN_FILES}' first"),
    })
}

/// The error where the function that flushes has no address: without addresses no function's name would be right.
fn no_addresses(hidden: bool, restrict: &str) -> Error {
    let (what, help) = match (hidden, restrict) {
        (true, "2") => (
            "the kernel hides the addresses of its functions from everybody (kernel.kptr_restrict is 2)",
            "run 'sudo sysctl kernel.kptr_restrict=1': then root alone sees them",
        ),
        (true, _) => (
            "the kernel hides the addresses of its functions from this user",
            "give quell CAP_SYSLOG as well, or run it as root",
        ),
        (false, _) => (
            "/proc/kallsyms has no function 'flush_tlb_func'",
            "quell needs a kernel with CONFIG_KALLSYMS and SMP, and /proc as the kernel shows it",
        ),
    };
    Error::Missing {
        what: what.to_owned(),
        help: help.to_owned(),
    }
}

/// The kernel's functions: the text of /proc/kallsyms.
pub(crate) struct KernelSymbols(Vec<u8>);

impl KernelSymbols {
    #[cfg(test)]
    pub(crate) fn new(text: Vec<u8>) -> Self {
        Self(text)
    }

    /// The running kernel's functions. Without rights, names are there and addresses are zero.
    pub(crate) fn read() -> Self {
        Self(fs::read("/proc/kallsyms").unwrap_or_default())
    }

    pub(crate) fn has_function(&self, name: &str) -> bool {
        kallsyms::address_of(&self.0, name).is_some()
    }

    pub(crate) fn has_variable(&self, name: &str) -> bool {
        kallsyms::has_variable(&self.0, name)
    }

    /// Why no function is known, if none is.
    pub(crate) fn why_unknown(&self) -> Option<String> {
        self.0.is_empty().then(|| PROC_UNREADABLE.to_owned())
    }

    /// Whether names are there, but their addresses are not shown to this user.
    fn are_hidden(&self) -> bool {
        kallsyms::is_hidden(&self.0)
    }

    /// Whether this kernel was built with the tracepoint of this name, which has no group before it (`sched_switch`): each has a
    /// function that calls its probes, `__traceiter_NAME` (include/linux/tracepoint.h). It says nothing of the right to attach to
    /// it; and without a readable list of symbols none is there, which [`Self::why_unknown`] tells apart.
    pub(crate) fn has_tracepoint(&self, name: &str) -> bool {
        self.has_function(&format!("__traceiter_{name}"))
    }

    /// The address of a function; 0 if there is no such function, or no right to know.
    fn address_of(&self, name: &str) -> u64 {
        kallsyms::address_of(&self.0, name).unwrap_or(0)
    }
}

/// The release of the running kernel, such as 6.12.57.
pub(crate) fn kernel_release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

/// The link to the first PID namespace, which has a fixed number (include/linux/proc_ns.h: PROC_PID_INIT_INO).
const HOST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Fails in any PID namespace but the host's: the probe sees the host's numbers, so those of `-p` and of a command would mean
/// other processes.
pub(crate) fn require_host_pids() -> Result<()> {
    match fs::read_link("/proc/self/ns/pid") {
        Ok(name) if name.as_os_str() != HOST_PID_NAMESPACE => Err(Error::Missing {
            what: "quell runs in a container with process numbers of its own".to_owned(),
            help: "share the host's (docker run --pid=host), or watch everything with -a"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The capabilities that a process with this `/proc/PID/status` lacks.
fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    // Where they can't be read the kernel is left to decide.
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

/// Says why a program can't be attached to its tracepoint or function.
pub(crate) fn explain_attach(target: &str, err: &libbpf_rs::Error) -> Error {
    if err.kind() == ErrorKind::NotFound {
        return Error::Missing {
            what: format!("this kernel ({}) has no '{target}'", kernel_release()),
            help: "quell's probe needs Linux 6.5 or later, or 5.15 with ftrace".to_owned(),
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

    /// Check that hidden addresses are said to be hidden, with what helps in each case.
    #[test]
    fn hidden_addresses_are_explained() {
        assert!(
            no_addresses(true, "2")
                .to_string()
                .contains("kptr_restrict=1")
        );
        assert!(no_addresses(true, "1").to_string().contains("CAP_SYSLOG"));
        assert!(no_addresses(false, "0").to_string().contains("no function"));
    }

    /// Check that too low a limit of open files is said with what helps, and that usual ones are not.
    #[test]
    fn few_files_are_told() {
        let said = too_few_files(Some(32)).map(|e| e.to_string());
        assert!(
            said.as_ref()
                .is_some_and(|s| s.contains("32 files") && s.contains("ulimit -n 256")),
            "{said:?}"
        );
        for enough in [Some(256), Some(1024), None] {
            assert!(too_few_files(enough).is_none(), "{enough:?}");
        }
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
}
