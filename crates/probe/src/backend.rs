//! The ways to see a shootdown, and which of them this kernel allows.

use quell_event::named_enum;

use crate::error::{Error, Result};
use crate::kernel::{KernelSymbols, kernel_release};
use ProgramNeed::{Always, Present, Traced, Tree};

named_enum! {
    /// Where the probe hooks in. All see the same shootdowns, with the same victims and causes. They are tried in this order:
    /// the first that this kernel allows is taken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Backend {
        /// The raw tracepoints `csd_*`, Linux 6.5 and later.
        RawTp = "raw_tp",
        /// Entry and exit of the functions that send and that flush, Linux 5.15 and later, where the
        /// kernel is built with ftrace. A delay is counted from when the function is entered, not from
        /// when that victim's request is queued.
        Fentry = "fentry",
    }
}

/// A compiled object, and the targets that its programs attach to.
pub(crate) struct BackendObject {
    pub(crate) bytes: &'static [u8],
    /// The programs in the order in which they are attached: those that leave times must be there before
    /// those that look for them. The last one begins shootdowns, and is detached first.
    pub(crate) programs: &'static [BackendProgram],
}

/// An eBPF program.
pub(crate) struct BackendProgram {
    pub(crate) name: &'static str,
    /// The tracepoint or the kernel's function.
    pub(crate) target: &'static str,
    pub(crate) need: ProgramNeed,
}

/// When a program is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramNeed {
    Always,
    /// To follow processes.
    Tree,
    /// If the kernel has that function.
    Present,
    /// If the kernel has that tracepoint.
    Traced,
}

const fn backend_program(
    name: &'static str,
    target: &'static str,
    need: ProgramNeed,
) -> BackendProgram {
    BackendProgram { name, target, need }
}

const FORK_PROGRAM: BackendProgram =
    backend_program("sched_process_fork", "sched_process_fork", Tree);
const FREE_PROGRAM: BackendProgram =
    backend_program("sched_process_free", "sched_process_free", Tree);

const RENAME_PROGRAM: BackendProgram = backend_program("task_rename", "task_rename", Traced);

static RAW_TP_OBJECT: BackendObject = BackendObject {
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/shootdown.bpf.o")),
    programs: &[
        FORK_PROGRAM,
        FREE_PROGRAM,
        RENAME_PROGRAM,
        backend_program("csd_function_exit", "csd_function_exit", Always),
        backend_program("csd_function_entry", "csd_function_entry", Always),
        backend_program("csd_queue_cpu", "csd_queue_cpu", Always),
    ],
};

const SEND_FUNCTION: &str = "smp_call_function_many_cond";
const FLUSH_FUNCTION: &str = "flush_tlb_func";
const FLUSH_RANGE_FUNCTION: &str = "do_kernel_range_flush";
const FLUSH_ALL_FUNCTION: &str = "do_flush_tlb_all";

static FENTRY_OBJECT: BackendObject = BackendObject {
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/fentry.bpf.o")),
    programs: &[
        FORK_PROGRAM,
        FREE_PROGRAM,
        RENAME_PROGRAM,
        backend_program("flush_ends", FLUSH_FUNCTION, Always),
        backend_program("flush_begins", FLUSH_FUNCTION, Always),
        backend_program("kernel_range_ends", FLUSH_RANGE_FUNCTION, Present),
        backend_program("kernel_range_begins", FLUSH_RANGE_FUNCTION, Present),
        backend_program("all_ends", FLUSH_ALL_FUNCTION, Present),
        backend_program("all_begins", FLUSH_ALL_FUNCTION, Present),
        backend_program("many_ends", SEND_FUNCTION, Always),
        backend_program("many_begins", SEND_FUNCTION, Always),
    ],
};

/// Whether a culprit may be preempted, and its CPU get another one, while it waits: since Linux 7.3, and in kernels that took
/// the change over. The arguments of a flush then lie on its stack ("x86/mm: Move flush_tlb_info back to the stack"), and no
/// longer in a variable of each CPU. The symbols have variables only with `CONFIG_KALLSYMS_ALL`; that they do is seen by
/// `cpu_tlbstate`, which every kernel has.
fn may_preempt_waiting(symbols: &KernelSymbols) -> bool {
    symbols.has_variable("cpu_tlbstate") && !symbols.has_variable("flush_tlb_info")
}

impl Backend {
    pub(crate) fn bpf_object(self) -> &'static BackendObject {
        match self {
            Self::RawTp => &RAW_TP_OBJECT,
            Self::Fentry => &FENTRY_OBJECT,
        }
    }

    /// The sentence that names the feature which this kernel lacks for it, if it lacks one.
    pub(crate) fn missing_support(self, symbols: &KernelSymbols) -> Option<String> {
        if let Some(unknown) = symbols.why_unknown() {
            return Some(unknown);
        }
        let needed = self.bpf_object().programs.iter();
        let needed = needed.filter(|p| p.need == Always);
        match self {
            Self::RawTp => needed
                .map(|p| p.target)
                .find(|name| !symbols.has_tracepoint(name))
                .map(|name| {
                    format!(
                        "this kernel ({}) has no tracepoint '{name}'",
                        kernel_release()
                    )
                }),
            Self::Fentry if !symbols.has_function("__fentry__") => Some(format!(
                "this kernel ({}) is built without ftrace (CONFIG_FUNCTION_TRACER)",
                kernel_release()
            )),
            Self::Fentry if may_preempt_waiting(symbols) => Some(format!(
                "on this kernel ({}) the functions that flush can be preempted while they wait, and don't tell then whose \
                 victims are done",
                kernel_release()
            )),
            Self::Fentry => needed
                .map(|p| p.target)
                .find(|name| !symbols.has_function(name))
                .map(|name| {
                    format!(
                        "this kernel ({}) has no function '{name}'",
                        kernel_release()
                    )
                }),
        }
    }

    /// Whether this kernel allows each, whoever asks; if it doesn't, the missing feature in one sentence.
    pub fn check_all() -> [(Self, std::result::Result<(), String>); 2] {
        let symbols = KernelSymbols::read();
        Self::ALL.map(|backend| {
            (
                backend,
                backend.missing_support(&symbols).map_or(Ok(()), Err),
            )
        })
    }

    /// The way that was asked for, or the first that this kernel allows.
    pub(crate) fn choose_allowed(asked: Option<Self>, symbols: &KernelSymbols) -> Result<Self> {
        let candidates = asked.map_or_else(|| Self::ALL.to_vec(), |one| vec![one]);
        let mut reasons = Vec::new();
        for backend in candidates {
            match backend.missing_support(symbols) {
                None => return Ok(backend),
                Some(reason) => reasons.push(reason),
            }
        }
        Err(Error::Missing {
            what: join_reasons(reasons),
            help: match asked {
                Some(Self::Fentry) => "leave --backend out: quell takes what works".to_owned(),
                _ => "quell's probe needs Linux 6.5 or later, or 5.15 with ftrace".to_owned(),
            },
        })
    }
}

/// Joins the reasons; one that all ways share is said once.
fn join_reasons(mut reasons: Vec<String>) -> String {
    reasons.dedup();
    reasons.join(", and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(names: &[&str]) -> KernelSymbols {
        let kind = |name: &str| if VARIABLES.contains(&name) { 'd' } else { 't' };
        let lines = names
            .iter()
            .map(|n| format!("ffffffff81000010 {} {n}\n", kind(n)));
        KernelSymbols::new(lines.collect::<String>().into_bytes())
    }

    const VARIABLES: [&str; 2] = ["cpu_tlbstate", "flush_tlb_info"];
    const TRACEPOINTS: [&str; 3] = [
        "__traceiter_csd_queue_cpu",
        "__traceiter_csd_function_entry",
        "__traceiter_csd_function_exit",
    ];
    const FUNCTIONS: [&str; 3] = ["__fentry__", SEND_FUNCTION, FLUSH_FUNCTION];

    /// Check that tracepoints are taken where they are, functions where they are not, and that where neither is, both reasons
    /// are given.
    #[test]
    fn the_first_that_works_is_taken() {
        let both = [TRACEPOINTS, FUNCTIONS].concat();
        assert_eq!(
            Backend::choose_allowed(None, &symbols(&both)).ok(),
            Some(Backend::RawTp)
        );
        assert_eq!(
            Backend::choose_allowed(None, &symbols(&FUNCTIONS)).ok(),
            Some(Backend::Fentry)
        );
        let none = Backend::choose_allowed(None, &symbols(&["schedule"])).err();
        let none = none.map(|e| e.to_string()).unwrap_or_default();
        assert!(none.contains("no tracepoint 'csd_"), "{none}");
        assert!(none.contains("without ftrace"), "{none}");
    }

    /// Check that what was asked for is taken or refused, and never replaced.
    #[test]
    fn what_is_asked_for_is_not_replaced() {
        let functions = symbols(&FUNCTIONS);
        assert!(Backend::choose_allowed(Some(Backend::RawTp), &functions).is_err());
        let both = symbols(&[TRACEPOINTS, FUNCTIONS].concat());
        let fentry = Backend::choose_allowed(Some(Backend::Fentry), &both);
        assert_eq!(fentry.ok(), Some(Backend::Fentry));
    }

    /// Check that functions are refused where a culprit may be preempted while it waits, and that tracepoints are not.
    #[test]
    fn functions_of_preemptible_culprits_are_refused() {
        let since_7_3 = [&TRACEPOINTS[..], &FUNCTIONS, &VARIABLES[..1]].concat();
        let refused = Backend::choose_allowed(Some(Backend::Fentry), &symbols(&since_7_3));
        assert!(refused.is_err_and(|err| err.to_string().contains("preempted")));
        let chosen = Backend::choose_allowed(None, &symbols(&since_7_3));
        assert_eq!(chosen.ok(), Some(Backend::RawTp));
        let before = [&since_7_3[..], &VARIABLES[1..]].concat();
        let chosen = Backend::choose_allowed(Some(Backend::Fentry), &symbols(&before));
        assert_eq!(chosen.ok(), Some(Backend::Fentry));
    }

    /// Check that where nothing can be read of the kernel, /proc is named and not the kernel.
    #[test]
    fn no_proc_is_told() {
        let told = Backend::choose_allowed(None, &symbols(&[])).err();
        let told = told.map(|err| err.to_string()).unwrap_or_default();
        assert!(
            told.contains("/proc can't be read") && !told.contains("tracepoint"),
            "{told}"
        );
    }

    /// Check that names are read as they are written.
    #[test]
    fn names_are_read_back() {
        for backend in Backend::ALL {
            assert_eq!(backend.name().parse(), Ok(backend));
        }
        assert!("kprobe".parse::<Backend>().is_err());
    }
}
