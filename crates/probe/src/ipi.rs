//! Watches all function calls between CPUs beside the shootdowns, for `--ipi`.

mod layout;

use std::collections::HashMap;
use std::os::fd::{AsFd as _, AsRawFd as _};

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, Program};
use quell_event::{CallKind, CallTally, CallVictim, Comm, FunctionCalls};

use crate::bpf_maps;
use crate::causes::Causes;
use crate::error::{Error, Result};
use crate::kernel::{self, KernelSymbols, kernel_release};
use crate::layout::{self as shared, Pod};
use crate::options::Scope;
use layout::{CallCounts, CallHealth, CallKey, CallVictimCounts, CallVictimKey, IpiConfig};

const IPI_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ipi.bpf.o"));

/// The programs and their tracepoints, in the order in which they are attached: the program that takes a request out of
/// the table of those under way must be there before the one that puts it in.
const IPI_PROGRAMS: &[(&str, &str)] = &[
    ("ipi_exit", "csd_function_exit"),
    ("ipi_entry", "csd_function_entry"),
    ("ipi_queue", "csd_queue_cpu"),
];

/// The programs that watch function calls, while they count.
pub(crate) struct IpiWatch {
    // Fields are dropped in this order: the links go first.
    links: Vec<Link>,
    /// The link of the program that begins requests, which is taken away first.
    queue: Option<Link>,
    calls: MapHandle,
    names: MapHandle,
    victims: MapHandle,
    healths: MapHandle,
    object: Object,
}

/// Fails with the name of the tracepoint that this kernel lacks for it, if it lacks one.
pub(crate) fn require_ipi_tracepoints(symbols: &KernelSymbols) -> Result<()> {
    let missing = IPI_PROGRAMS
        .iter()
        .find(|(_, tracepoint)| !symbols.has_tracepoint(tracepoint));
    match missing {
        None => Ok(()),
        Some((_, tracepoint)) => Err(Error::Missing {
            what: format!(
                "--ipi needs the tracepoint '{tracepoint}' (Linux 6.5), and this kernel ({}) has none",
                kernel_release()
            ),
            help: "leave --ipi out: shootdowns alone are seen on this kernel".to_owned(),
        }),
    }
}

impl IpiWatch {
    /// Loads and attaches the programs. The processes and CPUs in scope are the probe's own maps.
    pub(crate) fn attach(
        scope: &Scope,
        scope_tgids: &MapHandle,
        scope_cpus: &MapHandle,
        cpus: u32,
    ) -> Result<Self> {
        let mut open = ObjectBuilder::default()
            .open_memory(IPI_OBJECT)
            .map_err(Error::load("open the eBPF object of function calls"))?;
        let config = IpiConfig {
            scope: scope.scope_kind(),
            self_tgid: std::process::id(),
        };
        for mut map in open.maps_mut() {
            match map.name().to_string_lossy().as_ref() {
                ".rodata.ipi_config" => map.set_initial_value(shared::bytes_of(&config)),
                "calls" => map.set_max_entries(map.max_entries().saturating_mul(cpus)),
                "scope_tgids" => map.reuse_fd(scope_tgids.as_fd()),
                "scope_cpus" => map.reuse_fd(scope_cpus.as_fd()),
                _ => Ok(()),
            }
            .map_err(Error::load("configure the eBPF programs of function calls"))?;
        }
        let object = open.load().map_err(Error::from_program_load(
            "load the eBPF programs of function calls",
        ))?;
        let handle = |name| bpf_maps::open_map(&object, name);
        let mut ipi = Self {
            links: Vec::new(),
            queue: None,
            calls: handle("calls")?,
            names: handle("call_names")?,
            victims: handle("call_victims")?,
            healths: handle("call_healths")?,
            object,
        };
        for (name, tracepoint) in IPI_PROGRAMS {
            let found = ipi.object.progs_mut().find(|p| p.name() == *name);
            let program = found.ok_or_else(|| bpf_maps::missing_from_object("program", name))?;
            let link = program
                .attach()
                .map_err(|err| kernel::explain_attach(tracepoint, &err))?;
            ipi.links.push(link);
        }
        ipi.queue = ipi.links.pop();
        Ok(ipi)
    }

    /// Takes away the program that begins requests; those under way are still seen to their end.
    pub(crate) fn stop(&mut self) {
        self.queue = None;
    }

    /// Takes the other programs away; the counts stay.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// Everything that was counted so far.
    pub(crate) fn counted_calls(&self, causes: &Causes) -> Result<FunctionCalls> {
        let mut names = CallNames {
            causes,
            functions: HashMap::new(),
            processes: HashMap::new(),
        };
        let mut calls = FunctionCalls::default();
        for (key, counts) in read_entries::<CallKey, CallCounts>(&self.calls)? {
            let irq_work = key.flags & layout::CALL_IRQ_WORK != 0;
            let function = names.function_name(key.func)?;
            calls.by.push(CallTally {
                kind: CallKind::of_function(&function, irq_work),
                function,
                pid: key.tgid,
                comm: names.process_name(key.tgid, &self.names)?,
                cpu: key.cpu.into(),
                calls: counts.calls,
                timed: counts.timed,
                delay_ns: counts.delay_ns,
                delay_max_ns: counts.delay_max_ns,
                stall_ns: counts.stall_ns,
                stall_max_ns: counts.stall_max_ns,
            });
        }
        // A request whose victim is not in scope has a row of its culprit without a count.
        calls.by.retain(|c| c.calls > 0);
        for (key, counts) in read_entries::<CallVictimKey, CallVictimCounts>(&self.victims)? {
            let function = names.function_name(key.func)?;
            calls.at.push(CallVictim {
                kind: CallKind::of_function(&function, false),
                function,
                pid: key.tgid,
                comm: names.process_name(key.tgid, &self.names)?,
                hits: counts.hits,
                stall_ns: counts.stall_ns,
            });
        }
        let only_key = shared::ONLY_KEY.to_ne_bytes();
        let doing = "read the counts of function calls";
        let healths: Vec<CallHealth> =
            bpf_maps::read_per_cpu_values(&self.healths, &only_key, doing)?;
        for health in healths {
            calls.lost += health.lost;
            calls.own += health.own;
        }
        for program in self.object.progs() {
            calls.lost += passed_over_runs(&program)?;
        }
        calls.merge_and_sort();
        Ok(calls)
    }
}

/// So many entries are read by one system call.
const CALL_ENTRIES_PER_READ: u32 = 1024;

/// The entries of a hash map, of which none is ever deleted.
fn read_entries<K: Pod, V: Pod>(map: &MapHandle) -> Result<Vec<(K, V)>> {
    let read = map
        .lookup_batch(CALL_ENTRIES_PER_READ, MapFlags::ANY, MapFlags::ANY)
        .map_err(Error::load("read the counts of function calls"))?;
    let pair = |(key, value): (Vec<u8>, Vec<u8>)| {
        Some((shared::read_pod(&key)?, shared::read_pod(&value)?))
    };
    Ok(read.filter_map(pair).collect())
}

/// How often the kernel passed a program over, because an interrupt came while the same program ran on that
/// CPU (kernel/trace/bpf_trace.c: __bpf_trace_run()).
fn passed_over_runs(program: &Program<'_>) -> Result<u64> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = u32::try_from(size_of_val(&info)).unwrap_or(0);
    // SAFETY: the descriptor is open as long as the program; the kernel writes at most `size` bytes to
    // `info`, of which every pattern is a value.
    let ret = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(
            program.as_fd().as_raw_fd(),
            &raw mut info,
            &raw mut size,
        )
    };
    if ret != 0 {
        let err = libbpf_rs::Error::from_raw_os_error(-ret);
        return Err(Error::load("read how often a program was passed over")(err));
    }
    Ok(info.recursion_misses)
}

/// The names of kernel functions and of processes, each looked up once.
struct CallNames<'a> {
    causes: &'a Causes,
    functions: HashMap<u64, String>,
    processes: HashMap<u32, String>,
}

impl CallNames<'_> {
    fn function_name(&mut self, address: u64) -> Result<String> {
        if let Some(name) = self.functions.get(&address) {
            return Ok(name.clone());
        }
        let names = self.causes.kernel_names(&[address])?;
        let name = names
            .into_iter()
            .next()
            .unwrap_or_else(|| format!("{address:#x}"));
        self.functions.insert(address, name.clone());
        Ok(name)
    }

    /// A process's name; a question mark where so many processes came since that its name was dropped.
    fn process_name(&mut self, tgid: u32, names: &MapHandle) -> Result<String> {
        if tgid == 0 {
            return Ok("(idle)".to_owned());
        }
        if let Some(name) = self.processes.get(&tgid) {
            return Ok(name.clone());
        }
        let found = names
            .lookup(&tgid.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::load("read who called functions of other CPUs"))?;
        let comm: Option<[u8; 16]> = found.and_then(|bytes| bytes.try_into().ok());
        let name = comm.map_or_else(|| "?".to_owned(), |c| Comm(c).as_text().into_owned());
        self.processes.insert(tgid, name.clone());
        Ok(name)
    }
}
