//! Loads the probe, attaches it, and takes it away.

mod counts;
mod ending;
mod matrix;
mod options;
mod tree;

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use libbpf_rs::{
    Link, MapCore as _, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject,
};

use crate::backend::{Backend, Need, Program};
use crate::causes::Causes;
use crate::error::{Error, Result};
use crate::ipi::{self, Ipi};
use crate::kernel::{self, Flushes, Symbols};
use crate::layout::{self, Config, ProbePhase};
use crate::unwind::Pieces;
pub use options::{Keep, Options, Scope, Stacks, Timed};

/// The maps that are read while the probe runs, each by its own descriptor.
pub(crate) struct Maps {
    pub(crate) culprit_infos: MapHandle,
    pub(crate) stacks: MapHandle,
    pub(crate) records: MapHandle,
    culprit_tallies: MapHandle,
    victim_infos: MapHandle,
    victim_tallies: MapHandle,
    hists: MapHandle,
    healths: MapHandle,
    scope_tgids: MapHandle,
    scope_cpus: MapHandle,
    /// Only the processes in that are watched.
    tree: bool,
    state: MapHandle,
    sample_every: MapHandle,
}

/// The probe, counting from [`Probe::attach`] until [`Probe::detach`] or drop.
pub struct Probe {
    object: Object,
    links: Vec<Link>,
    /// All function calls, where they are watched.
    ipi: Option<Ipi>,
    pub(crate) maps: Rc<Maps>,
    pub(crate) causes: Rc<RefCell<Causes>>,
    /// Of user stacks, where they are unwound.
    pieces: Option<Rc<Pieces>>,
    /// Whoever keeps the account beside it is to unwind stacks.
    unwind: bool,
    cpus: u32,
    backend: Backend,
    interrupts_by_cpu: matrix::Interrupts,
    recording: bool,
    /// What the programs of every CPU were told last.
    counting: ProbePhase,
    by_cgroup: bool,
    /// How many culprits and victims can be told apart.
    keys: u32,
    started: Instant,
    ended: Option<Instant>,
    /// `TLB:` of /proc/interrupts when it began.
    interrupts: Option<u64>,
    interrupts_ended: Option<u64>,
}

/// Attached to nothing: the loader runs it to tell the others what they are to know, and before it reads the counts.
const SETTLE: &str = "settle_rest";

/// How long a CPU must not have shot before the loader counts its last rounds, so that the two don't
/// meet: a thousand times longer than a round lasts, and less than a person sees.
const QUIET: Duration = Duration::from_millis(20);

/// Cells of 4 bytes in two lines: those of two CPUs are not to share any, nor a line's neighbour,
/// which is fetched with it.
const ROW: u32 = 32;

/// How many rounds a CPU keeps until they are counted. They may wait, so that culprit and victim work on different lines;
/// and since Linux 7.3 rounds of one CPU overlap. Each place takes 32 bytes for every pair of CPUs, so that large machines
/// have fewer: 16 MiB, or 64 at 1,024 CPUs.
fn places(pairs: u32) -> u32 {
    const BYTES: u32 = 16 << 20;
    let fit = (BYTES / layout::REQUEST_BYTES / pairs.max(1)).clamp(2, layout::MAX_PLACES);
    // the largest power of two that fits
    1 << fit.ilog2()
}

/// How far apart, ns, those are that are timed where there are more; 0 to time all. A record has times; and the scope of
/// CPUs is decided by a victim's.
fn timed_apart_ns(options: &Options, backend: Backend) -> u32 {
    let all = options.keep == Keep::Records
        || backend != Backend::RawTp
        || matches!(options.scope, Scope::Cpus(_));
    match options.timed {
        Timed::AtMost(rate) if !all => 1_000_000_000 / rate,
        _ => 0,
    }
}

/// A CPU that leaves some untimed times one in `timed_apart_ns`, or three times that. One that has timed none for so many
/// ticks of the kernel has become slow, and times all: 125 of the former are more than 40 of the latter, and chance alone
/// leaves such a gap once in e^40. A tick is 1 ms at least.
fn slow_ticks(timed_apart_ns: u32) -> u32 {
    const TICK_NS: u32 = 1_000_000;
    timed_apart_ns / (TICK_NS / 125)
}

/// So many culprits, by process, call and kernel stack, can be told apart, and so many victims. Each takes 96 bytes for
/// every CPU. Of cgroups there are fewer than of processes, and whoever counts by them is there for days.
fn keys(options: &Options) -> u32 {
    if options.by_cgroup { 4096 } else { 8192 }
}

/// Cells of the arrays for one CPU and all others.
fn row(cpus: u32) -> u32 {
    cpus.next_multiple_of(ROW)
}

/// Whether pieces of user stacks are taken: records alone have user stacks that are kept.
fn unwinds(options: &Options) -> bool {
    options.unwind && options.keep == Keep::Records && options.stacks != Stacks::None
}

/// The ring takes an eighth of the memory that there is at most, as in a small container: what finds it full is counted as
/// lost, and a quell that takes it all is killed. A power of two of pages.
pub(crate) fn ring_bytes(asked: u32, available: Option<u64>) -> u32 {
    const LEAST: u32 = 256 << 10;
    let most = available.map_or(u64::MAX, |bytes| bytes / 8);
    let mut bytes = asked;
    while u64::from(bytes) > most && bytes > LEAST {
        bytes /= 2;
    }
    bytes
}

/// What the maps take, bytes: what is kept for each CPU, as often.
fn needs(object: &OpenObject, cpus: u32) -> u64 {
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
fn configure(
    open: &mut OpenObject,
    options: &Options,
    backend: Backend,
    flushes: Flushes,
    cpus: u32,
) -> Result<()> {
    let pairs = cpus.saturating_mul(cpus);
    let recording = options.keep == Keep::Records;
    let timed_apart_ns = timed_apart_ns(options, backend);
    let config = Config {
        fn_flush_tlb_func: flushes.flush_tlb_func,
        fn_flush_all: flushes.flush_all,
        fn_flush_kernel: flushes.flush_kernel,
        ncpu: cpus,
        scope: options.scope.number(),
        self_tgid: std::process::id(),
        stack_every: match options.stacks {
            Stacks::None => 0,
            Stacks::OneIn(n) => n.get(),
        },
        recording: recording.into(),
        places: places(pairs),
        row: row(cpus),
        sampling: (options.keep == Keep::Samples).into(),
        timed_apart_ns,
        by_cgroup: options.by_cgroup.into(),
        keys: keys(options),
        slow_ticks: slow_ticks(timed_apart_ns),
        unwinds: unwinds(options).into(),
        zero: 0,
    };
    let requests = pairs.saturating_mul(config.places);
    let rows = cpus.saturating_mul(config.row);
    for mut map in open.maps_mut() {
        if Pieces::size(&mut map, unwinds(options)).map_err(Error::load("size a map"))? {
            continue;
        }
        let name = map.name().to_string_lossy().into_owned();
        let entries = match name.as_str() {
            "owns" | "scope_cpus" => cpus,
            "pairs" | "told" | "interrupts" | "arrivals" => rows,
            "requests" => requests,
            "culprit_index" | "culprit_infos" | "culprit_tallies" => config.keys,
            "victim_index" | "victim_infos" | "victim_tallies" => config.keys,
            "scope_tgids" if options.scope != Scope::Tree => 1,
            // twice, for CPUs that went and came back
            "csd_culprit" => pairs.saturating_mul(2).max(65536),
            "hit_threads" if !recording => 1,
            "hit_threads" if backend == Backend::Fentry => rows,
            "hit_threads" => requests,
            "records" if options.keep != Keep::Counts => {
                ring_bytes(options.ring_bytes, quell_host::memory::available())
            }
            ".rodata.config" => {
                map.set_initial_value(layout::bytes(&config))
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
fn needed(backend: Backend, scope: &Scope, symbols: &Symbols) -> Vec<&'static Program> {
    let programs = backend.object().programs.iter();
    programs
        .filter(|p| match p.need {
            Need::Always => true,
            Need::Tree => *scope == Scope::Tree,
            Need::Present => symbols.has(p.target),
            Need::Traced => symbols.has_tracepoint(p.target),
        })
        .collect()
}

impl Probe {
    /// How it sees shootdowns.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Loads the programs and starts to count.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] says what this kernel or this user lacks, and what helps.
    pub fn attach(options: &Options) -> Result<Self> {
        let (symbols, flushes) = kernel::prepare()?;
        let backend = Backend::choose(options.backend, &symbols)?;
        let programs = needed(backend, &options.scope, &symbols);
        if options.scope == Scope::Tree {
            kernel::require_host_pids()?;
        }
        if options.ipi {
            ipi::require(&symbols)?;
        }
        let cpus = libbpf_rs::num_possible_cpus().map_err(Error::load("count the CPUs"))?;
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);

        let mut open = ObjectBuilder::default()
            .open_memory(backend.object().bytes)
            .map_err(Error::load("open the eBPF object"))?;
        configure(&mut open, options, backend, flushes, cpus)?;
        for mut program in open.progs_mut() {
            let name = program.name().to_owned();
            let wanted = programs.iter().any(|p| name == p.name) || name == SETTLE;
            program.set_autoload(wanted);
        }
        let needs = needs(&open, cpus);
        let object = open.load().map_err(|err| Error::no_memory(needs, err))?;

        let handle = |name| map(&object, name);
        let scope_cpus = handle("scope_cpus")?;
        if let Scope::Cpus(list) = &options.scope {
            for cpu in list {
                scope_cpus
                    .update(&cpu.to_ne_bytes(), &[1], MapFlags::ANY)
                    .map_err(Error::load("name a CPU to the probe"))?;
            }
        }
        let interrupts_by_cpu = matrix::Interrupts::map(&handle("interrupts")?, cpus, row(cpus))?;
        let maps = Rc::new(Maps {
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
            tree: options.scope == Scope::Tree,
            state: handle(".data.state")?,
            sample_every: handle(".data.sample_every")?,
        });
        let pieces = unwinds(options).then(|| Pieces::new(&object)).transpose()?;
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
            recording: options.keep == Keep::Records,
            counting: ProbePhase::Not,
            by_cgroup: options.by_cgroup,
            keys: keys(options),
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
        // lets the programs know the loader's memory, and where a thread's registers lie
        probe.settle(Duration::ZERO)?;
        probe.attach_programs(&programs)?;
        if options.ipi {
            let (tgids, scope_cpus) = probe.scope_maps();
            let ipi = Ipi::attach(&options.scope, tgids, scope_cpus, cpus)?;
            probe.ipi = Some(ipi);
        }
        Ok(probe)
    }

    fn attach_programs(&mut self, programs: &[&'static Program]) -> Result<()> {
        for wanted in programs {
            // the last one begins shootdowns
            self.started = Instant::now();
            let program = self.object.progs_mut().find(|p| p.name() == wanted.name);
            let program = program.ok_or_else(|| missing("program", wanted.name))?;
            // as its section says: a raw tracepoint, or a function's entry or exit
            let link = program
                .attach()
                .map_err(|err| kernel::explain_attach(wanted.target, &err))?;
            self.links.push(link);
        }
        self.interrupts = interrupts();
        self.set_counting(ProbePhase::All)
    }

    /// From now on one in so many shootdowns of each CPU, up to 2^30, is a sample, where the probe
    /// keeps [`Keep::Samples`].
    ///
    /// # Errors
    ///
    /// If the programs can't be told.
    pub fn sample_one_in(&self, every: NonZeroU32) -> Result<()> {
        const MOST: u32 = 1 << 30;
        set(&self.maps.sample_every, every.get().min(MOST))
            .map_err(Error::load("tell the eBPF programs how much to sample"))
    }

    /// The processes and the CPUs in scope: other programs of quell's count the same.
    pub(crate) fn scope_maps(&self) -> (&MapHandle, &MapHandle) {
        (&self.maps.scope_tgids, &self.maps.scope_cpus)
    }

    /// The pieces of user stacks, where they are taken.
    pub(crate) fn pieces(&self) -> Option<Rc<Pieces>> {
        self.pieces.clone()
    }

    /// Whether stacks of programs are to be unwound.
    pub(crate) fn unwinds(&self) -> bool {
        self.unwind
    }

    /// The names of the kernel's functions, looked up once for all.
    pub(crate) fn causes(&self) -> Rc<RefCell<Causes>> {
        Rc::clone(&self.causes)
    }

    /// How long it has counted, ns.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        let end = self.ended.unwrap_or_else(Instant::now);
        u64::try_from((end - self.started).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A map of a loaded object, by a descriptor of its own.
pub(crate) fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let found = object.maps().find(|m| m.name() == name);
    let map = found.ok_or_else(|| missing("map", name))?;
    MapHandle::try_from(&map).map_err(Error::load("keep a map open"))
}

/// The object and this file are of different builds.
pub(crate) fn missing(what: &str, name: &str) -> Error {
    Error::Missing {
        what: format!("the eBPF object has no {what} '{name}'"),
        help: "rebuild quell with 'make build'".to_owned(),
    }
}

/// Sets a variable of the programs.
fn set(variable: &MapHandle, value: u32) -> libbpf_rs::Result<()> {
    let only = layout::ONLY.to_ne_bytes();
    variable.update(&only, &value.to_ne_bytes(), MapFlags::ANY)
}

fn interrupts() -> Option<u64> {
    quell_host::interrupts::tlb(Path::new("/")).ok().flatten()
}

pub(crate) fn lookup(map: &MapHandle, key: u32) -> Result<Vec<u8>> {
    Ok(map
        .lookup(&key.to_ne_bytes(), MapFlags::ANY)
        .map_err(Error::load("read a map"))?
        .unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the ring leaves most of a small memory to others, is as large as asked where there is enough, and is
    /// always one that the kernel takes.
    #[test]
    fn ring_fits_the_memory() {
        assert_eq!(ring_bytes(64 << 20, None), 64 << 20);
        assert_eq!(ring_bytes(64 << 20, Some(4 << 30)), 64 << 20);
        assert_eq!(ring_bytes(64 << 20, Some(64 << 20)), 8 << 20);
        for mib in 0..600 {
            let bytes = ring_bytes(64 << 20, Some(mib << 20));
            assert!(bytes.is_power_of_two() && bytes >= 4096, "{mib}: {bytes}");
            assert!(
                u64::from(bytes) <= (mib << 17).max(256 << 10),
                "{mib}: {bytes}"
            );
        }
    }

    /// Check that on every size of machine there is a power of two of places that the programs have room for, and that
    /// the requests stay within their bound where they can.
    #[test]
    fn places_fit() {
        for cpus in 0..=8192_u32 {
            let pairs = cpus * cpus;
            let places = places(pairs);
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
