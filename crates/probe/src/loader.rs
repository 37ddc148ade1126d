//! Loads the probe, attaches it, and takes it away.

mod counts;
mod detach;
mod interrupt_counters;
mod process_tree;

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use libbpf_rs::{
    Link, MapCore as _, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject,
};

use crate::backend::{Backend, BackendProgram, ProgramNeed};
use crate::bpf_maps::{ProbeMaps, fitting_ring_bytes, missing_from_object, open_map};
use crate::causes::Causes;
use crate::error::{Error, Result};
use crate::ipi::{self, IpiWatch};
use crate::kernel::{self, FlushFunctions, KernelSymbols};
use crate::layout::{self, ProbeConfig, ProbePhase};
use crate::options::{KeptDetail, ProbeOptions, Scope, StackShare, TimedShare};
use crate::unwind::StackPieces;
use interrupt_counters::InterruptCounters;

/// The probe, counting from [`Probe::attach`] until [`Probe::detach`] or drop.
pub struct Probe {
    object: Object,
    links: Vec<Link>,
    /// The programs of all function calls, where these are watched.
    ipi: Option<IpiWatch>,
    pub(crate) maps: Rc<ProbeMaps>,
    pub(crate) causes: Rc<RefCell<Causes>>,
    /// The pieces of user stacks, where records have stacks that are unwound.
    pieces: Option<Rc<StackPieces>>,
    /// Whether the account beside it is to unwind stacks.
    unwind: bool,
    cpus: u32,
    backend: Backend,
    interrupts_by_cpu: InterruptCounters,
    recording: bool,
    /// The phase that the programs of every CPU were told last.
    counting: ProbePhase,
    by_cgroup: bool,
    /// How many culprits and victims can be told apart.
    keys: u32,
    started: Instant,
    ended: Option<Instant>,
    /// `TLB:` of /proc/interrupts when counting began.
    interrupts: Option<u64>,
    interrupts_ended: Option<u64>,
}

/// The program that is attached to nothing: the loader runs it to pass settings to the others, and before it reads the counts.
const SETTLE_PROGRAM: &str = "settle_rest";

/// How long a CPU must not have timed a shootdown before the loader counts its last rounds, so that the two don't
/// meet: a thousand times longer than a round lasts, and less than a person sees.
const MIN_QUIET_TIME: Duration = Duration::from_millis(20);

/// How many cells of 4 bytes two cache lines have. The cells of two CPUs must not share a line, nor lie in neighbouring lines,
/// because the neighbour is fetched too.
const TWO_LINES_OF_CELLS: u32 = 32;

/// How many rounds a CPU keeps until they are counted. They wait so that culprit and victim work on different cache lines;
/// and since Linux 7.3 rounds of one CPU overlap. Each place takes 32 bytes for every pair of CPUs, so that large machines
/// have fewer: 16 MiB, or 64 at 1,024 CPUs.
fn places_per_cpu(pairs: u32) -> u32 {
    const MAX_REQUESTS_BYTES: u32 = 16 << 20;
    let fit =
        (MAX_REQUESTS_BYTES / layout::REQUEST_BYTES / pairs.max(1)).clamp(2, layout::MAX_PLACES);
    // the largest power of two that fits
    1 << fit.ilog2()
}

/// How far apart the timed shootdowns of a CPU are where it makes more, ns; 0 to time all. All are timed with records, which
/// have times, and in a scope of CPUs, which a victim's times decide.
fn timed_apart_ns(options: &ProbeOptions, backend: Backend) -> u32 {
    let all = options.keep == KeptDetail::Records
        || backend != Backend::RawTp
        || matches!(options.scope, Scope::Cpus(_));
    match options.timed {
        TimedShare::AtMost(rate) if !all => 1_000_000_000 / rate,
        _ => 0,
    }
}

/// After how many ticks of the kernel without a timed shootdown a CPU has become slow, and times all. A CPU that leaves some
/// untimed times one in `timed_apart_ns`, or in three times that. The bound is 125 of the former, more than 40 of the latter,
/// and chance alone leaves such a gap once in e^40. A tick is 1 ms at least.
fn slow_ticks(timed_apart_ns: u32) -> u32 {
    const TICK_NS: u32 = 1_000_000;
    timed_apart_ns / (TICK_NS / 125)
}

/// The most culprits, by process, call and kernel stack, that can be told apart, and the most victims. Each takes 96 bytes for
/// every CPU. There are fewer cgroups than processes, and a probe that counts by cgroup runs for days.
fn max_keys(options: &ProbeOptions) -> u32 {
    if options.by_cgroup { 4096 } else { 8192 }
}

/// How many cells an array has for one CPU and all others.
fn row_cells(cpus: u32) -> u32 {
    cpus.next_multiple_of(TWO_LINES_OF_CELLS)
}

/// Whether pieces of user stacks are taken: only records have user stacks that are kept.
fn takes_pieces(options: &ProbeOptions) -> bool {
    options.unwind && options.keep == KeptDetail::Records && options.stacks != StackShare::None
}

/// The memory that the maps take, bytes; a value that is kept for each CPU counts as often.
fn maps_memory_bytes(object: &OpenObject, cpus: u32) -> u64 {
    let maps = object.maps();
    maps.map(|map| {
        let value = u64::from(map.value_size()).next_multiple_of(8);
        let copies = match map.map_type() {
            MapType::PercpuArray => u64::from(cpus),
            _ => 1,
        };
        (u64::from(map.key_size()) + value * copies) * u64::from(map.max_entries())
    })
    .sum()
}

/// Tells the programs what to do, and sizes their maps.
fn configure_programs(
    open: &mut OpenObject,
    options: &ProbeOptions,
    backend: Backend,
    flushes: FlushFunctions,
    cpus: u32,
) -> Result<()> {
    let pairs = cpus.saturating_mul(cpus);
    let recording = options.keep == KeptDetail::Records;
    let timed_apart_ns = timed_apart_ns(options, backend);
    let config = ProbeConfig {
        fn_flush_tlb_func: flushes.flush_tlb_func,
        fn_flush_all: flushes.flush_all,
        fn_flush_kernel: flushes.flush_kernel,
        ncpu: cpus,
        scope: options.scope.scope_kind(),
        self_tgid: std::process::id(),
        stack_every: match options.stacks {
            StackShare::None => 0,
            StackShare::OneIn(n) => n.get(),
        },
        recording: recording.into(),
        places: places_per_cpu(pairs),
        row: row_cells(cpus),
        sampling: (options.keep == KeptDetail::Samples).into(),
        timed_apart_ns,
        by_cgroup: options.by_cgroup.into(),
        keys: max_keys(options),
        slow_ticks: slow_ticks(timed_apart_ns),
        unwinds: takes_pieces(options).into(),
        zero: 0,
    };
    let requests = pairs.saturating_mul(config.places);
    let rows = cpus.saturating_mul(config.row);
    for mut map in open.maps_mut() {
        if StackPieces::size_map(&mut map, takes_pieces(options))
            .map_err(Error::load("size a map"))?
        {
            continue;
        }
        let name = map.name().to_string_lossy().into_owned();
        let entries = match name.as_str() {
            "cpu_states" | "scope_cpus" => cpus,
            "cpu_pairs" | "told_counts" | "interrupts" | "arrivals" => rows,
            "flush_requests" => requests,
            "culprit_index" | "culprit_infos" | "culprit_tallies" => config.keys,
            "victim_index" | "victim_infos" | "victim_tallies" => config.keys,
            "scope_tgids" if options.scope != Scope::Tree => 1,
            // Each pair has room twice, for CPUs that went and came back.
            "csd_culprit" => pairs.saturating_mul(2).max(65536),
            "hit_threads" if !recording => 1,
            "hit_threads" if backend == Backend::Fentry => rows,
            "hit_threads" => requests,
            "records" if options.keep != KeptDetail::Counts => {
                fitting_ring_bytes(options.ring_bytes, quell_host::memory::available_bytes())
            }
            ".rodata.config" => {
                map.set_initial_value(layout::bytes_of(&config))
                    .map_err(Error::load("configure the eBPF programs"))?;
                continue;
            }
            _ => continue,
        };
        map.set_max_entries(entries)
            .map_err(Error::load("size a map"))?;
    }
    Ok(())
}

/// The programs of a backend that this scope and this kernel need.
fn needed_programs(
    backend: Backend,
    scope: &Scope,
    symbols: &KernelSymbols,
) -> Vec<&'static BackendProgram> {
    let programs = backend.bpf_object().programs.iter();
    programs
        .filter(|p| match p.need {
            ProgramNeed::Always => true,
            ProgramNeed::Tree => *scope == Scope::Tree,
            ProgramNeed::Present => symbols.has_function(p.target),
            ProgramNeed::Traced => symbols.has_tracepoint(p.target),
        })
        .collect()
}

impl Probe {
    /// How the probe sees shootdowns.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Loads the programs and starts to count.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] says what this kernel or this user lacks, and what helps.
    pub fn attach(options: &ProbeOptions) -> Result<Self> {
        let (symbols, flushes) = kernel::find_flush_functions()?;
        let backend = Backend::choose_allowed(options.backend, &symbols)?;
        let programs = needed_programs(backend, &options.scope, &symbols);
        if options.scope == Scope::Tree {
            kernel::require_host_pids()?;
        }
        if options.ipi {
            ipi::require_ipi_tracepoints(&symbols)?;
        }
        let cpus = libbpf_rs::num_possible_cpus().map_err(Error::load("count the CPUs"))?;
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);

        let mut open = ObjectBuilder::default()
            .open_memory(backend.bpf_object().bytes)
            .map_err(Error::load("open the eBPF object"))?;
        configure_programs(&mut open, options, backend, flushes, cpus)?;
        for mut program in open.progs_mut() {
            let name = program.name().to_owned();
            let wanted = programs.iter().any(|p| name == p.name) || name == SETTLE_PROGRAM;
            program.set_autoload(wanted);
        }
        let bytes = maps_memory_bytes(&open, cpus);
        let object = open
            .load()
            .map_err(|err| Error::from_probe_load(bytes, err))?;

        let handle = |name| open_map(&object, name);
        let scope_cpus = handle("scope_cpus")?;
        if let Scope::Cpus(list) = &options.scope {
            for cpu in list {
                scope_cpus
                    .update(&cpu.to_ne_bytes(), &[1], MapFlags::ANY)
                    .map_err(Error::load("name a CPU to the probe"))?;
            }
        }
        let interrupts_by_cpu =
            InterruptCounters::map_counters(&handle("interrupts")?, cpus, row_cells(cpus))?;
        let maps = Rc::new(ProbeMaps {
            culprit_infos: handle("culprit_infos")?,
            stacks: handle("stacks")?,
            records: handle("records")?,
            culprit_tallies: handle("culprit_tallies")?,
            victim_infos: handle("victim_infos")?,
            victim_tallies: handle("victim_tallies")?,
            hists: handle("hists")?,
            healths: handle("healths")?,
            scope_tgids: handle("scope_tgids")?,
            scope_cpus,
            watches_processes: options.scope == Scope::Tree,
            state: handle(".data.state")?,
            sample_every: handle(".data.sample_every")?,
        });
        let pieces = takes_pieces(options)
            .then(|| StackPieces::new(&object))
            .transpose()?;
        let mut probe = Self {
            object,
            links: Vec::new(),
            ipi: None,
            causes: Rc::new(RefCell::new(Causes::new(Rc::clone(&maps)))),
            maps,
            pieces: pieces.map(Rc::new),
            unwind: options.unwind,
            cpus,
            backend,
            interrupts_by_cpu,
            recording: options.keep == KeptDetail::Records,
            counting: ProbePhase::Not,
            by_cgroup: options.by_cgroup,
            keys: max_keys(options),
            started: Instant::now(),
            ended: None,
            interrupts: None,
            interrupts_ended: None,
        };
        if probe.recording {
            // The first name takes all of /proc/kallsyms, some 100 ms. A short program would be over by
            // then, and with it its memory map, which the names of its own code need.
            probe
                .causes
                .borrow()
                .kernel_names(&[flushes.flush_tlb_func])?;
        }
        // This run tells the programs which memory is the loader's, and where a thread's registers lie.
        probe.settle_rounds(Duration::ZERO)?;
        probe.attach_programs(&programs)?;
        if options.ipi {
            let (tgids, scope_cpus) = probe.scope_maps();
            let ipi = IpiWatch::attach(&options.scope, tgids, scope_cpus, cpus)?;
            probe.ipi = Some(ipi);
        }
        Ok(probe)
    }

    fn attach_programs(&mut self, programs: &[&'static BackendProgram]) -> Result<()> {
        for wanted in programs {
            // Counting starts with the last program, which begins shootdowns.
            self.started = Instant::now();
            let program = self.object.progs_mut().find(|p| p.name() == wanted.name);
            let program = program.ok_or_else(|| missing_from_object("program", wanted.name))?;
            // Its section says to what it attaches: a raw tracepoint, or a function's entry or exit.
            let link = program
                .attach()
                .map_err(|err| kernel::explain_attach(wanted.target, &err))?;
            self.links.push(link);
        }
        self.interrupts = tlb_interrupts();
        self.set_counting(ProbePhase::All)
    }

    /// From now on one in so many shootdowns of each CPU, up to 2^30, is a sample, where the probe
    /// keeps [`KeptDetail::Samples`].
    ///
    /// # Errors
    ///
    /// If the programs can't be told.
    pub fn sample_one_in(&self, every: NonZeroU32) -> Result<()> {
        const MAX_SAMPLE_EVERY: u32 = 1 << 30;
        set_variable(&self.maps.sample_every, every.get().min(MAX_SAMPLE_EVERY))
            .map_err(Error::load("tell the eBPF programs how much to sample"))
    }

    /// The maps of the processes and the CPUs in scope, which the other programs of quell's share, so that they count the same.
    pub(crate) fn scope_maps(&self) -> (&MapHandle, &MapHandle) {
        (&self.maps.scope_tgids, &self.maps.scope_cpus)
    }

    /// The pieces of user stacks, where they are taken.
    pub(crate) fn stack_pieces(&self) -> Option<Rc<StackPieces>> {
        self.pieces.clone()
    }

    /// Whether stacks of programs are to be unwound.
    pub(crate) fn unwinds_stacks(&self) -> bool {
        self.unwind
    }

    /// How long the probe has counted, ns.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        let end = self.ended.unwrap_or_else(Instant::now);
        u64::try_from((end - self.started).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Sets a variable of the programs.
fn set_variable(variable: &MapHandle, value: u32) -> libbpf_rs::Result<()> {
    let only = layout::ONLY_KEY.to_ne_bytes();
    variable.update(&only, &value.to_ne_bytes(), MapFlags::ANY)
}

fn tlb_interrupts() -> Option<u64> {
    quell_host::interrupts::read_flush_interrupts(Path::new("/"))
        .ok()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that on every size of machine there is a power of two of places that the programs have room for, and that
    /// the requests stay within their bound where they can.
    #[test]
    fn places_fit() {
        for cpus in 0..=8192_u32 {
            let pairs = cpus * cpus;
            let places = places_per_cpu(pairs);
            assert!(places.is_power_of_two(), "{cpus} CPUs: {places}");
            assert!(
                (2..=layout::MAX_PLACES).contains(&places),
                "{cpus} CPUs: {places}"
            );
            let bytes = u64::from(pairs) * u64::from(places * layout::REQUEST_BYTES);
            assert!(
                places == 2 || bytes <= 16 << 20,
                "{cpus} CPUs: {bytes} bytes"
            );
        }
    }
}
