//! The account of the whole machine for an agent that watches for months: by cgroup and mechanism, from one look to the next.

mod layout;
mod sums;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder};
use quell_event::WatchInterval;

use super::clock_events::ClockEvents;
use super::{MAX_ACCOUNT_RECORDS_AT_ONCE, has_prev_state};
use crate::bpf_maps;
use crate::error::{Error, Result};
use crate::kernel;
use crate::layout as shared;
use crate::loader::Probe;
use crate::record_ring::RecordRing;
use layout::{MAX_SLEEPS, SleepKey, SleepTally, WatchConfig, WatchHealth};
use sums::WatchSums;

const WATCH_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));

/// The ring has room for ten seconds of 49 samples each: those in the kernel alone are sent, of some 300 bytes. It is kept
/// small, because pages of the ring that were read count as the reader's memory, and twice, for they are mapped twice.
fn ring_bytes() -> u32 {
    const BYTES_PER_CPU: u32 = 256 << 10;
    const MAX_RING_BYTES: u32 = 16 << 20;
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX).next_power_of_two();
    let asked = BYTES_PER_CPU.saturating_mul(cpus).min(MAX_RING_BYTES);
    bpf_maps::fitting_ring_bytes(asked, quell_host::memory::available_bytes())
}

/// The programs that watch the machine; they count until this is dropped.
pub struct MachineWatch {
    // Fields are dropped in this order: the links go first, then the events.
    sleeps_link: Option<Link>,
    clock_events: ClockEvents,
    ring: RecordRing,
    sums: Rc<RefCell<WatchSums>>,
    sleeps: MapHandle,
    stacks: MapHandle,
    healths: MapHandle,
    /// The tallies of the last look.
    earlier_tallies: HashMap<SleepKey, SleepTally>,
    earlier_health: WatchHealth,
    period_ns: u64,
    object: Object,
}

impl MachineWatch {
    /// Loads the programs and starts to count. Samples of a CPU are `period_ns` apart; With `sleeps` the sleeps of
    /// threads are counted too; with `code` samples have the stack of the program.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] says what this kernel or this user lacks, and what helps.
    pub fn attach(probe: &Probe, period_ns: u64, sleeps: bool, code: bool) -> Result<Self> {
        let mut open = ObjectBuilder::default()
            .open_memory(WATCH_OBJECT)
            .map_err(Error::load("open the eBPF object of the account"))?;
        let config = WatchConfig {
            self_tgid: std::process::id(),
            has_prev_state: has_prev_state().into(),
            has_code: code.into(),
            zero: 0,
        };
        for mut map in open.maps_mut() {
            match map.name().to_string_lossy().as_ref() {
                ".rodata.watch_config" => map.set_initial_value(shared::bytes_of(&config)),
                "watch_samples" => map.set_max_entries(ring_bytes()),
                "sleepers" | "sleeps" | "sleep_stacks" if !sleeps => map.set_max_entries(1),
                _ => Ok(()),
            }
            .map_err(Error::load("configure the eBPF programs of the account"))?;
        }
        for mut program in open.progs_mut() {
            if program.name() == "watch_switch" {
                program.set_autoload(sleeps);
            }
        }
        let mut object = open.load().map_err(Error::from_program_load(
            "load the eBPF programs of the account",
        ))?;
        let sums = Rc::new(RefCell::new(WatchSums::new(Rc::clone(&probe.causes))));
        let samples = bpf_maps::open_map(&object, "watch_samples")?;
        let ring = RecordRing::with_receiver(&samples, &sums, WatchSums::add_sample)?;
        let mut sleeps_link = None;
        if sleeps {
            let found = object.progs_mut().find(|p| p.name() == "watch_switch");
            let program =
                found.ok_or_else(|| bpf_maps::missing_from_object("program", "watch_switch"))?;
            let link = program.attach();
            sleeps_link = Some(link.map_err(|err| kernel::explain_attach("sched_switch", &err))?);
        }
        Ok(Self {
            sleeps_link,
            clock_events: ClockEvents::start(&mut object, "watch_sample", period_ns)?,
            ring,
            sums,
            sleeps: bpf_maps::open_map(&object, "sleeps")?,
            stacks: bpf_maps::open_map(&object, "sleep_stacks")?,
            healths: bpf_maps::open_map(&object, "watch_healths")?,
            earlier_tallies: HashMap::new(),
            earlier_health: WatchHealth::default(),
            period_ns,
            object,
        })
    }

    /// Takes samples on these CPUs, which are online now: some may have come, and some gone, since the last call.
    pub fn sample_on(&mut self, online: &[u32]) {
        self.clock_events.follow_cpus(&mut self.object, online);
    }

    /// Reads the samples that came. Call it at least every ten seconds, or some are lost.
    ///
    /// # Errors
    ///
    /// If the ring can't be read.
    pub fn read_samples(&self) -> Result<()> {
        while self.ring.read_records(MAX_ACCOUNT_RECORDS_AT_ONCE)? {}
        Ok(())
    }

    /// The sums of everything that came since the last look.
    ///
    /// # Errors
    ///
    /// If a map can't be read.
    pub fn take_watched(&mut self) -> Result<WatchInterval> {
        self.read_samples()?;
        if self.sleeps_link.is_some() {
            self.read_sleeps()?;
        }
        let mut watched = self.sums.borrow_mut().take_watched();
        watched.period_ns = self.period_ns;
        watched.sees_sleeps = self.sleeps_link.is_some();
        let only_key = shared::ONLY_KEY.to_ne_bytes();
        let doing = "read what the account lost";
        let cpus: Vec<WatchHealth> =
            bpf_maps::read_per_cpu_values(&self.healths, &only_key, doing)?;
        let mut health = WatchHealth::default();
        for cpu in cpus {
            health.lost_samples += cpu.lost_samples;
            health.lost_sleeps += cpu.lost_sleeps;
        }
        watched.lost_samples = health.lost_samples - self.earlier_health.lost_samples;
        watched.lost_sleeps = health.lost_sleeps - self.earlier_health.lost_sleeps;
        self.earlier_health = health;
        Ok(watched)
    }

    /// Adds to the sums the sleeps since the last call. The maps count from the beginning, so each is compared with what it was.
    fn read_sleeps(&mut self) -> Result<()> {
        let mut sums = self.sums.borrow_mut();
        let read = |map: &MapHandle, key: &[u8]| {
            map.lookup(key, MapFlags::ANY)
                .map_err(Error::load("read the sleeps of the account"))
        };
        // Sleeps are read before stacks, because a stack is in its map before the first sleep with it is counted.
        let mut now = Vec::new();
        for key in self.sleeps.keys() {
            let tally = read(&self.sleeps, &key)?;
            let tally = tally.and_then(|bytes| shared::read_pod::<SleepTally>(&bytes));
            if let (Some(key), Some(tally)) = (shared::read_pod::<SleepKey>(&key), tally) {
                now.push((key, tally));
            }
        }
        for key in self.stacks.keys().collect::<Vec<_>>() {
            let Some(stack) = read(&self.stacks, &key)? else {
                continue;
            };
            let mut words = shared::words_of(&stack);
            let depth = usize::try_from(words.next().unwrap_or(0)).unwrap_or(0);
            if let Some(name) = key.first_chunk().copied().map(u64::from_ne_bytes) {
                sums.learn_stack(name, words.take(depth).collect());
            }
            // A stack that is known makes room for another.
            let _ = self.stacks.delete(&key);
        }
        // A cgroup that is gone sleeps no more. One that sleeps at this very moment is counted anew from there on.
        let is_crowded = now.len() > MAX_SLEEPS / 2;
        for (key, tally) in now {
            let earlier = self.earlier_tallies.get(&key).copied().unwrap_or_default();
            let more = SleepTally {
                sleeps: tally.sleeps.saturating_sub(earlier.sleeps),
                ns: tally.ns.saturating_sub(earlier.ns),
            };
            if more.sleeps > 0 {
                sums.add_sleep_tally(&key, &more);
                self.earlier_tallies.insert(key, tally);
            } else if is_crowded {
                let _ = self.sleeps.delete(shared::bytes_of(&key));
                self.earlier_tallies.remove(&key);
            }
        }
        Ok(())
    }
}
