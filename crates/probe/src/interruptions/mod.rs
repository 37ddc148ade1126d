//! All that interrupts one thread on one CPU, for the lab.

mod layout;
mod ways;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use libbpf_rs::{Link, MapHandle, Object, ObjectBuilder};
use quell_event::{Backtraces, Interruption, InterruptionKind};

use crate::bpf_maps;
use crate::causes::Causes;
use crate::error::{Error, Result};
use crate::kernel::{self, KernelSymbols, kernel_release};
use crate::layout as shared;
use crate::record_ring::RecordRing;
use layout::{InterruptionRecord, InterruptionsConfig, LostCounts};
use ways::{WayCounts, Ways};

const INTERRUPTIONS_OBJECT: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/interruptions.bpf.o"));

/// The most records that one call reads.
const MAX_INTERRUPTIONS_AT_ONCE: usize = 1 << 16;

/// The ring has room for half a second of the worst case, at 40 bytes a record with the ring's header.
const INTERRUPTION_RING_BYTES: u32 = 8 << 20;

/// The tracepoints that the lab can't do without. Linux has them since 6.5.
const NEEDED_TRACEPOINTS: &[&str] = &[
    "csd_queue_cpu",
    "csd_function_entry",
    "csd_function_exit",
    "sched_switch",
    // Without this one a fault's gap would have no cause, and mechanisms that fault would seem to do less than they do.
    "page_fault_user",
];

/// The interruptions that the ring's reader has taken, until they are asked for.
#[derive(Default)]
struct SeenInterruptions {
    taken: Vec<Interruption>,
    /// The ways of shootdowns, by the culprit's process.
    ways: HashMap<u32, Ways>,
}

/// A watch of one thread on one CPU.
pub struct Interruptions {
    // Fields are dropped in this order: the links go first.
    links: Vec<Link>,
    ring: RecordRing,
    seen: Rc<RefCell<SeenInterruptions>>,
    stacks: MapHandle,
    losses: MapHandle,
    object: Object,
}

impl Interruptions {
    /// Loads the programs for this CPU and this thread on it, and attaches them; with `stacks`, the stacks of both sides of
    /// every shootdown are kept too, which takes microseconds each.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] says what this kernel or this user lacks, and what helps.
    pub fn attach(cpu: u32, tid: u32, stacks: bool) -> Result<Self> {
        Self::attach_without(cpu, tid, process_of(tid)?, stacks, &[])
    }

    /// Attaches all programs but those of the tracepoints in `left_out`, which only tests name.
    fn attach_without(
        cpu: u32,
        tid: u32,
        tgid: u32,
        stacks: bool,
        left_out: &[&str],
    ) -> Result<Self> {
        let (symbols, flushes) = kernel::find_flush_functions()?;
        kernel::require_host_pids()?;
        require_lab_tracepoints(&symbols)?;
        let mut open = ObjectBuilder::default()
            .open_memory(INTERRUPTIONS_OBJECT)
            .map_err(Error::load("open the eBPF object of interruptions"))?;
        let config = InterruptionsConfig {
            fn_flush_tlb_func: flushes.flush_tlb_func,
            cpu,
            tid,
            stacks: stacks.into(),
            tgid,
        };
        for mut map in open.maps_mut() {
            match map.name().to_string_lossy().as_ref() {
                ".rodata.watch" => map.set_initial_value(shared::bytes_of(&config)),
                "interruptions" => map.set_max_entries(INTERRUPTION_RING_BYTES),
                _ => Ok(()),
            }
            .map_err(Error::load("configure the eBPF programs of interruptions"))?;
        }
        // A vector whose tracepoint this kernel lacks is one that it was built without, so it can't interrupt.
        for mut program in open.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let tracepoint = section.trim_start_matches("raw_tp/");
            let wanted = !left_out.contains(&tracepoint);
            program.set_autoload(wanted && symbols.has_tracepoint(tracepoint));
        }
        let object = open.load().map_err(Error::from_program_load(
            "load the eBPF programs of interruptions",
        ))?;
        let seen = Rc::new(RefCell::new(SeenInterruptions::default()));
        let records = bpf_maps::open_map(&object, "interruptions")?;
        let ring =
            RecordRing::with_receiver(&records, &seen, |seen: &mut SeenInterruptions, bytes| {
                if let Some(record) = shared::read_pod(bytes) {
                    seen.add_record(&record);
                }
            })?;
        let mut watch = Self {
            links: Vec::new(),
            ring,
            seen,
            stacks: bpf_maps::open_map(&object, "watch_stacks")?,
            losses: bpf_maps::open_map(&object, "losses")?,
            object,
        };
        watch.resume()?;
        Ok(watch)
    }

    /// Attaches the programs, if they are not.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn resume(&mut self) -> Result<()> {
        if !self.links.is_empty() {
            return Ok(());
        }
        let mut links = Vec::new();
        for program in self.object.progs_mut() {
            if !program.autoload() {
                continue;
            }
            let name = program.name().to_string_lossy().into_owned();
            links.push(
                program
                    .attach()
                    .map_err(|err| kernel::explain_attach(&name, &err))?,
            );
        }
        self.links = links;
        Ok(())
    }

    /// Takes the programs away for a while: a run without them shows the cost of watching.
    pub fn pause(&mut self) {
        self.links.clear();
    }

    /// The interruptions since the last call, in the order in which they ended.
    ///
    /// # Errors
    ///
    /// If libbpf fails to read.
    pub fn take(&self) -> Result<Vec<Interruption>> {
        while self.ring.read_records(MAX_INTERRUPTIONS_AT_ONCE)? {}
        Ok(std::mem::take(&mut self.seen.borrow_mut().taken))
    }

    /// Both sides of the shootdowns of a process so far.
    ///
    /// # Errors
    ///
    /// If the stacks can't be read, or the kernel's functions not be named.
    pub fn backtraces(&self, tgid: u32) -> Result<Option<Backtraces>> {
        let seen = self.seen.borrow();
        let Some(ways) = seen.ways.get(&tgid) else {
            return Ok(None);
        };
        let causes = Causes::unattached();
        let named = |id| causes.kernel_names(&bpf_maps::stack_addresses(&self.stacks, id)?);
        ways::name_ways(ways, named)
    }

    /// How many records were lost so far, and how many shootdowns have no known culprit.
    ///
    /// # Errors
    ///
    /// If the counts can't be read.
    pub fn lost(&self) -> Result<u64> {
        let only_key = shared::ONLY_KEY.to_ne_bytes();
        let doing = "read what was lost of interruptions";
        let cpus: Vec<LostCounts> = bpf_maps::read_per_cpu_values(&self.losses, &only_key, doing)?;
        Ok(cpus.iter().map(|lost| lost.records + lost.askers).sum())
    }
}

impl SeenInterruptions {
    fn add_record(&mut self, record: &InterruptionRecord) {
        // A kind that only a newer object would write is left out.
        let Some(interruption) = to_interruption(record) else {
            return;
        };
        self.taken.push(interruption);
        if record.culprit_stack >= 0 && record.victim_stack >= 0 {
            let sides = (record.culprit_stack, record.victim_stack);
            let ways = self.ways.entry(record.tgid).or_default();
            ways.entry(sides).or_default().add(&WayCounts {
                shootdowns: 1,
                stall_ns: record.end_ns.saturating_sub(record.begin_ns),
            });
        }
    }
}

/// The process that the thread belongs to.
fn process_of(tid: u32) -> Result<u32> {
    let path = format!("/proc/{tid}/status");
    let text = std::fs::read(&path).map_err(|err| Error::Missing {
        what: format!("can't read {path}: {err}"),
        help: "the thread that is to be watched has ended, or /proc is another namespace's"
            .to_owned(),
    })?;
    let status = quell_host::status::parse_status(&text);
    status.map(|s| s.tgid).ok_or_else(|| Error::Missing {
        what: format!("{path} does not say whose thread it is"),
        help: "mount the kernel's own /proc there".to_owned(),
    })
}

/// Fails with the name of the first needed tracepoint that this kernel lacks.
fn require_lab_tracepoints(symbols: &KernelSymbols) -> Result<()> {
    match NEEDED_TRACEPOINTS
        .iter()
        .find(|name| !symbols.has_tracepoint(name))
    {
        None => Ok(()),
        Some(name) => Err(Error::Missing {
            what: format!(
                "the lab needs the tracepoint '{name}' (Linux 6.5), and this kernel ({}) has none",
                kernel_release()
            ),
            help: "boot a newer kernel; 'quell stat' counts shootdowns on this one".to_owned(),
        }),
    }
}

/// The interruption of a record; `None` for a kind that only a newer object would write.
fn to_interruption(record: &InterruptionRecord) -> Option<Interruption> {
    Some(Interruption {
        kind: InterruptionKind::from_number(record.kind)?,
        begin_ns: record.begin_ns,
        end_ns: record.end_ns,
        tgid: record.tgid,
        tid: record.tid,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use quell_event::InterruptionKind;
    use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

    use super::*;

    fn pin(cpu: usize) {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).unwrap();
    }

    /// So many shootdowns are enough to tell by.
    const ENOUGH: usize = 50;

    /// On a machine that is busy with other work the watched thread runs seldom, and who does not run is not interrupted.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Frees a page again and again beside a thread on another CPU that is watched, without seeing the requests, until there
    /// were enough shootdowns: what was recorded of them, and how many were lost.
    fn unseen_requests(cpus: [usize; 2], tgid: impl Fn(u32) -> u32) -> (Vec<Interruption>, u64) {
        let (over, watched) = (AtomicBool::new(false), AtomicBool::new(false));
        let (say, tid) = std::sync::mpsc::channel();
        let [culprit, victim] = cpus;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(victim);
                let tid = gettid().as_raw_nonzero().get().cast_unsigned();
                say.send(tid).unwrap();
                while !over.load(Ordering::Relaxed) {
                    watched.store(true, Ordering::Relaxed);
                }
            });
            pin(culprit);
            let tid = tid.recv().unwrap();
            let cpu = u32::try_from(victim).unwrap();
            let own = std::process::id();
            let left_out = ["csd_queue_cpu"];
            let probe = Interruptions::attach_without(cpu, tid, tgid(own), false, &left_out);
            let seen = probe.and_then(|probe| {
                let mut page = vec![0_u8; 1 << 20];
                let mut seen = Vec::new();
                let began = Instant::now();
                loop {
                    for _ in 0..20 {
                        page[1 << 19] = 1;
                        let at = page[1 << 19..].as_mut_ptr().map_addr(|at| at & !4095);
                        // SAFETY: within the vector, of which the page only holds what is written above.
                        unsafe { libc::madvise(at.cast(), 4096, libc::MADV_DONTNEED) };
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    seen.extend(probe.take()?);
                    seen.retain(|i| i.kind == InterruptionKind::Tlb);
                    let lost = probe.lost()?;
                    // what belongs to nobody else is in both: in the records, as nobody's, and among the lost; others' storms
                    // are told as theirs, and are not waited for
                    let told = seen.iter().filter(|i| i.tgid == own).count();
                    let enough = told >= ENOUGH || lost >= ENOUGH as u64;
                    if enough || began.elapsed() > PATIENCE {
                        return Ok((seen, lost));
                    }
                }
            });
            over.store(true, Ordering::Relaxed);
            seen.unwrap()
        })
    }

    /// Check that a shootdown whose request was not seen is laid to whom the memory belongs, but in the watched process,
    /// where nobody knows whether the culprit asked: there it counts as lost.
    #[test]
    fn unseen_requests_go_by_memory() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED unseen_requests_go_by_memory: needs root, for the probe");
            return;
        }
        let before = sched_getaffinity(None).unwrap();
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| before.is_set(*cpu));
        let (Some(first), Some(second)) = (cpus.next(), cpus.next()) else {
            eprintln!("SKIPPED unseen_requests_go_by_memory: needs two CPUs");
            return;
        };
        let own = std::process::id();
        let (seen, lost) = unseen_requests([first, second], |own| own);
        let told = seen.iter().filter(|i| i.tgid == own).count();
        assert!(
            told == 0 && lost >= ENOUGH as u64,
            "{lost} lost, {told} told"
        );
        // the same, as if the memory were another process's
        let (seen, lost) = unseen_requests([first, second], |own| own + 1);
        let told = seen.iter().filter(|i| i.tgid == own).count();
        // some of others' may be anybody's
        let few = lost < ENOUGH as u64;
        assert!(told >= ENOUGH && few, "{lost} lost, {told} told");
        sched_setaffinity(None, &before).unwrap();
    }
}
