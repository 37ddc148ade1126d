//! The account of the whole machine for who watches for months: by cgroup and mechanism, from one look to the next.

mod layout;
mod sums;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder};
use quell_event::Watched;

use super::{AT_ONCE, has_prev_state, ticks};
use crate::error::{Error, Result};
use crate::kernel;
use crate::layout as shared;
use crate::loader::{self, Probe};
use crate::ring::Ring;
use layout::{MAX_SLEEPS, SleepKey, SleepTally, WatchConfig, WatchHealth};
use sums::Sums;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));

/// Room for the samples of ten seconds, of 49 a second: those in the kernel, of some 300 bytes each. What was read of the
/// ring counts as the reader's memory, and twice, for it is mapped so.
fn ring_bytes() -> u32 {
    const EACH_CPU: u32 = 256 << 10;
    const MOST: u32 = 16 << 20;
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX).next_power_of_two();
    let asked = EACH_CPU.saturating_mul(cpus).min(MOST);
    loader::ring_bytes(asked, quell_host::memory::available())
}

/// The programs, counting until dropped.
pub struct Watch {
    // the links go first, then the events
    sleeps_link: Option<Link>,
    ticks: ticks::Ticks,
    ring: Ring,
    sums: Rc<RefCell<Sums>>,
    sleeps: MapHandle,
    stacks: MapHandle,
    healths: MapHandle,
    /// At the last look.
    before: HashMap<SleepKey, SleepTally>,
    health: WatchHealth,
    period_ns: u64,
    object: Object,
}

impl Watch {
    /// Loads the programs and starts to count. Samples of a CPU are `period_ns` apart; `sleeps`: those of threads are looked
    /// at; `code`: samples have the stack of the program.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] says what this kernel or this user lacks, and what helps.
    pub fn attach(probe: &Probe, period_ns: u64, sleeps: bool, code: bool) -> Result<Self> {
        let mut open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(Error::load("open the eBPF object of the account"))?;
        let config = WatchConfig {
            self_tgid: std::process::id(),
            has_prev_state: has_prev_state().into(),
            has_code: code.into(),
            zero: 0,
        };
        for mut map in open.maps_mut() {
            match map.name().to_string_lossy().as_ref() {
                ".rodata.watch_config" => map.set_initial_value(shared::bytes(&config)),
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
        let mut object = open
            .load()
            .map_err(Error::judge("load the eBPF programs of the account"))?;
        let sums = Rc::new(RefCell::new(Sums::new(probe.causes())));
        let theirs = Rc::clone(&sums);
        let ring = Ring::new(&loader::map(&object, "watch_samples")?, move |bytes| {
            // never borrowed while the ring is read
            if let Ok(mut sums) = theirs.try_borrow_mut() {
                sums.sample(bytes);
            }
        })?;
        let mut sleeps_link = None;
        if sleeps {
            let found = object.progs_mut().find(|p| p.name() == "watch_switch");
            let program = found.ok_or_else(|| loader::missing("program", "watch_switch"))?;
            let link = program.attach();
            sleeps_link = Some(link.map_err(|err| kernel::explain_attach("sched_switch", &err))?);
        }
        Ok(Self {
            sleeps_link,
            ticks: ticks::Ticks::start(&mut object, "watch_sample", period_ns)?,
            ring,
            sums,
            sleeps: loader::map(&object, "sleeps")?,
            stacks: loader::map(&object, "sleep_stacks")?,
            healths: loader::map(&object, "watch_healths")?,
            before: HashMap::new(),
            health: WatchHealth::default(),
            period_ns,
            object,
        })
    }

    /// Samples on these CPUs, which are online now: some may have come, and some gone.
    pub fn sample_on(&mut self, online: &[u32]) {
        self.ticks.follow(&mut self.object, online);
    }

    /// Reads the samples that came: at least every ten seconds, or some are lost.
    ///
    /// # Errors
    ///
    /// If the ring can't be read.
    pub fn drain(&self) -> Result<()> {
        while self.ring.read(AT_ONCE)? {}
        Ok(())
    }

    /// What came since the last look.
    ///
    /// # Errors
    ///
    /// If a map can't be read.
    pub fn look(&mut self) -> Result<Watched> {
        self.drain()?;
        if self.sleeps_link.is_some() {
            self.look_at_sleeps()?;
        }
        let mut watched = self.sums.borrow_mut().take();
        watched.period_ns = self.period_ns;
        watched.sees_sleeps = self.sleeps_link.is_some();
        let healths = self
            .healths
            .lookup_percpu(&shared::ONLY.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::load("read what the account lost"))?;
        let mut health = WatchHealth::default();
        for cpu in healths.unwrap_or_default() {
            let cpu: WatchHealth = shared::read(&cpu).unwrap_or_default();
            health.lost_samples += cpu.lost_samples;
            health.lost_sleeps += cpu.lost_sleeps;
        }
        watched.lost_samples = health.lost_samples - self.health.lost_samples;
        watched.lost_sleeps = health.lost_sleeps - self.health.lost_sleeps;
        self.health = health;
        Ok(watched)
    }

    fn look_at_sleeps(&mut self) -> Result<()> {
        let mut sums = self.sums.borrow_mut();
        let read = |map: &MapHandle, key: &[u8]| {
            map.lookup(key, MapFlags::ANY)
                .map_err(Error::load("read the sleeps of the account"))
        };
        // the sleeps first: a stack is there before the sleep of it is counted
        let mut now = Vec::new();
        for key in self.sleeps.keys() {
            let tally = read(&self.sleeps, &key)?;
            let tally = tally.and_then(|bytes| shared::read::<SleepTally>(&bytes));
            if let (Some(key), Some(tally)) = (shared::read::<SleepKey>(&key), tally) {
                now.push((key, tally));
            }
        }
        for key in self.stacks.keys().collect::<Vec<_>>() {
            let Some(stack) = read(&self.stacks, &key)? else {
                continue;
            };
            let mut words = stack
                .chunks_exact(8)
                .filter_map(|b| b.try_into().ok().map(u64::from_ne_bytes));
            let depth = usize::try_from(words.next().unwrap_or(0)).unwrap_or(0);
            if let Some(name) = key.first_chunk().copied().map(u64::from_ne_bytes) {
                sums.stack(name, words.take(depth).collect());
            }
            // what is learnt makes room
            let _ = self.stacks.delete(&key);
        }
        // a cgroup that is gone sleeps no more; one that does, just now, is told again from there on
        let is_crowded = now.len() > MAX_SLEEPS / 2;
        for (key, tally) in now {
            let before = self.before.get(&key).copied().unwrap_or_default();
            let more = SleepTally {
                sleeps: tally.sleeps.saturating_sub(before.sleeps),
                ns: tally.ns.saturating_sub(before.ns),
            };
            if more.sleeps > 0 {
                sums.sleeps(&key, &more);
                self.before.insert(key, tally);
            } else if is_crowded {
                let _ = self.sleeps.delete(shared::bytes(&key));
                self.before.remove(&key);
            }
        }
        Ok(())
    }
}
