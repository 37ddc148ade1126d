//! From a running probe to a trace on disk.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_event::trace::{StackCost, TraceMeta, TraceWriter, TracedStack};
use quell_event::{FunctionCalls, Shootdown, Tally};
use quell_host::cpus::OnlineTime;
use quell_probe::{
    KeptDetail, Probe, ProbeOptions, Scope, ShootdownRecords, StackResolver, StackShare,
};

use crate::accountant::Accountant;
use crate::clock::{monotonic_ns, own_cpu_ns};
use crate::host_name::host_name;
use crate::launch::{self, Ended, Output, Setup, Spec, Whose, signals};
use crate::little_memory;
use crate::prove::failed::Interrupted;
use crate::subject::Subject;
use crate::target;

/// How often the ring is emptied where nothing is urgent.
pub(crate) const STEP: Duration = Duration::from_millis(20);

/// How often the counts are saved, so that a killed recording keeps them.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// One in so many of these saves has the function calls, and the account by stacks, which are many rows on a large machine.
const SAVES_BETWEEN_CALLS: u64 = 10;

/// How old the mappings of a culprit may get before they are read again.
const MAPS_AGE: Duration = Duration::from_secs(5);

/// A recording under way.
pub(crate) struct Recording {
    pub(crate) probe: Probe,
    records: ShootdownRecords,
    accountant: Option<Accountant>,
    resolver: StackResolver,
    shared: Rc<RefCell<SinkState>>,
    stacks: Vec<TracedStack>,
    /// The stacks of the account, which are not those of the records.
    account_stacks: Vec<TracedStack>,
    /// When the counts were saved; the first step does, so that a trace has some from the beginning.
    saved: Option<Instant>,
    saves: u64,
    /// The function calls as they were last saved.
    calls: Option<FunctionCalls>,
    began: Instant,
    own_before: u64,
    online: OnlineTime,
    /// The last step left records in the ring.
    more: bool,
    dir: PathBuf,
}

/// A program may be over within this time. Its memory map can be read only while it lives, and without it no
/// user stack has names, so quell looks more often in the beginning.
const EARLY_TIME: Duration = Duration::from_secs(1);
/// How often quell looks in the beginning.
const EARLY_STEP: Duration = Duration::from_millis(2);

/// The state that the sink of the records writes to.
struct SinkState {
    writer: Option<TraceWriter>,
    culprits: HashSet<u32>,
    last: u32,
}

impl SinkState {
    fn take_shootdown(&mut self, s: &Shootdown) {
        if let Some(writer) = &mut self.writer {
            writer.push_shootdown(s);
        }
        if s.pid != self.last {
            self.last = s.pid;
            self.culprits.insert(s.pid);
        }
    }
}

impl Recording {
    /// Makes the trace and starts to record.
    ///
    /// # Errors
    ///
    /// If the trace can't be made or the probe can't be loaded.
    pub(crate) fn start(
        dir: &Path,
        force: bool,
        options: ProbeOptions,
        subject: &Subject,
    ) -> anyhow::Result<Self> {
        let stacks_text = match options.stacks {
            StackShare::None => "none".to_owned(),
            StackShare::ALL => "all".to_owned(),
            StackShare::OneIn(n) => n.to_string(),
        };
        let own_before = own_cpu_ns();
        little_memory::room_for_recording()?;
        let scope = options.scope.clone();
        // The probe is attached first: if it can't be loaded, no trace is replaced.
        let probe = Probe::attach(&ProbeOptions {
            keep: KeptDetail::Records,
            unwind: little_memory::may_unwind(options.unwind),
            ..options
        })?;
        let accountant = Accountant::start(&probe, &scope);
        if let Some(accountant) = &accountant {
            accountant.keep_singles();
        }
        let meta = describe_recording(stacks_text, &probe, subject);
        let writer = TraceWriter::create(dir, &meta, force)?;
        let shared = Rc::new(RefCell::new(SinkState {
            writer: Some(writer),
            culprits: HashSet::new(),
            last: 0,
        }));
        let sink = Rc::clone(&shared);
        let records = ShootdownRecords::new(
            &probe,
            Box::new(move |s| sink.borrow_mut().take_shootdown(s)),
        )?;
        Ok(Self {
            resolver: StackResolver::new(&probe),
            probe,
            records,
            accountant,
            shared,
            stacks: Vec::new(),
            account_stacks: Vec::new(),
            saved: None,
            saves: 0,
            calls: None,
            began: Instant::now(),
            own_before,
            online: OnlineTime::new(meta.cpus),
            more: false,
            dir: dir.to_owned(),
        })
    }

    /// Counts TLB misses of these processes too, and of all that they start from now on.
    pub(crate) fn count_misses_of(&mut self, pids: &[u32]) {
        if let Some(accountant) = &mut self.accountant {
            accountant.count_misses_of(pids);
        }
    }

    /// Empties the ring and writes the records that came. Waits for records up to `timeout`.
    ///
    /// # Errors
    ///
    /// If the trace can't be written.
    pub(crate) fn step(&mut self, timeout: Duration) -> anyhow::Result<()> {
        if !self.more {
            // It goes on after a signal, because a command of the user's decides itself when it ends by it.
            signals::poll_until_signal(
                None,
                if self.is_early() {
                    timeout.min(EARLY_STEP)
                } else {
                    timeout
                },
            )?;
        }
        self.more = self.records.read_records()?;
        if let Some(accountant) = &mut self.accountant {
            accountant.step(&mut self.resolver)?;
        }
        self.write_mappings();
        self.resolver.follow_records()?;
        target::look_at_cpus(&mut self.online, &self.probe);
        // Offsets are found in mappings that were read already, and files are opened for that, so it can wait.
        if !self.is_early() {
            self.resolve_stacks();
        }
        self.with_writer(TraceWriter::write_due)?;
        if self.saved.is_none_or(|t| t.elapsed() >= SAVE_INTERVAL) {
            self.saved = Some(Instant::now());
            let seldom = self.saves.is_multiple_of(SAVES_BETWEEN_CALLS);
            let tally = self.whole_tally(seldom)?;
            self.saves += 1;
            self.with_writer(|w| {
                w.set_tally(&tally);
                if seldom {
                    w.set_account(&self.stack_costs(&tally));
                }
                w.write_due()
            })?;
        }
        Ok(())
    }

    fn is_early(&self) -> bool {
        self.began.elapsed() < EARLY_TIME
    }

    /// Reads the memory maps of the processes that shot, and writes them.
    fn write_mappings(&mut self) {
        let culprits: Vec<u32> = {
            let mut shared = self.shared.borrow_mut();
            shared.last = 0;
            shared.culprits.drain().collect()
        };
        // A program's maps change most when it starts: by exec, and then by its libraries.
        let age = if self.is_early() {
            EARLY_STEP
        } else {
            MAPS_AGE
        };
        for pid in culprits {
            self.resolver.read_mappings(pid, age);
        }
        if let Some(writer) = &mut self.shared.borrow_mut().writer {
            for process in self.resolver.take_changed_processes() {
                writer.push_process(&process);
            }
        }
    }

    fn resolve_stacks(&mut self) {
        let new = self.records.new_stacks();
        let stacks = self.resolver.resolve_stacks(&new);
        let mut shared = self.shared.borrow_mut();
        if let Some(writer) = &mut shared.writer {
            for stack in &stacks {
                writer.push_stack(stack);
            }
        }
        self.stacks.extend(stacks);
        if let Some(accountant) = &self.accountant {
            let stacks = accountant.take_stacks();
            if let Some(writer) = &mut shared.writer {
                for stack in &stacks {
                    writer.push_stack(stack);
                }
                let singles = accountant.take_singles();
                singles.waits.iter().for_each(|wait| writer.push_wait(wait));
                singles.samples.iter().for_each(|s| writer.push_sample(s));
                writer.add_left_out(singles.left_out);
            }
            self.account_stacks.extend(stacks);
        }
    }

    /// The tally of everything; without `calls` it has the function calls as they were last.
    fn whole_tally(&mut self, calls: bool) -> anyhow::Result<Tally> {
        let mut tally = if calls {
            self.probe.tally()?
        } else {
            self.probe.tally_without_calls()?
        };
        if calls {
            self.calls.clone_from(&tally.calls);
        } else {
            tally.calls.clone_from(&self.calls);
        }
        tally.self_ns = own_cpu_ns() - self.own_before;
        tally.online_ns = Some(self.online.add_look(tally.duration_ns, target::cpu_count()));
        tally.account = self
            .accountant
            .as_ref()
            .map(Accountant::account)
            .transpose()?;
        Ok(tally)
    }

    fn stack_costs(&self, tally: &Tally) -> Vec<StackCost> {
        let accountant = self.accountant.as_ref().zip(tally.account.as_ref());
        let costs = accountant.map(|(accountant, account)| accountant.stack_costs(account));
        costs.unwrap_or_default()
    }

    fn with_writer(
        &self,
        f: impl FnOnce(&mut TraceWriter) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match &mut self.shared.borrow_mut().writer {
            Some(writer) => f(writer),
            None => Ok(()),
        }
    }

    /// Stops, names the code, and closes the trace. Returns the counts.
    ///
    /// # Errors
    ///
    /// If the trace can't be written.
    pub(crate) fn finish(mut self) -> anyhow::Result<Tally> {
        if let Some(accountant) = &mut self.accountant {
            accountant.stop(&mut self.resolver)?;
        }
        self.probe.detach()?;
        self.records.finish()?;
        self.write_mappings();
        self.resolver.follow_records()?;
        self.resolve_stacks();
        self.resolver.name_stacks(&mut self.stacks);
        if self.resolver.not_held() > 0 {
            say!(
                "quell: {} more files and perf maps than quell keeps open at once: code of theirs that had ended by \
                 now may lack names; record less at once, or raise 'ulimit -n' first",
                self.resolver.not_held(),
            );
        }
        self.resolver.name_stacks(&mut self.account_stacks);
        let mut tally = self.whole_tally(true)?;
        if let Some(accountant) = &self.accountant {
            accountant.learn(&self.account_stacks);
            let hits = tally.victims.iter().map(|v| v.hits).sum();
            tally.account = Some(accountant.last_account(&mut self.resolver, hits)?);
        }
        let writer = self.shared.borrow_mut().writer.take();
        let Some(mut writer) = writer else {
            return Ok(tally);
        };
        writer.set_account(&self.stack_costs(&tally));
        self.stacks.append(&mut self.account_stacks);
        writer.replace_stacks(&self.stacks);
        tally.lost.records += writer.dropped_shootdowns();
        writer.set_tally(&tally);
        writer
            .finish(monotonic_ns(), |_| {})
            .with_context(|| format!("can't close the trace {}", self.dir.display()))?;
        Ok(tally)
    }
}

fn describe_recording(stacks: String, probe: &Probe, subject: &Subject) -> TraceMeta {
    let uname = rustix::system::uname();
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let monotonic = monotonic_ns();
    let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    // The clocks are read before this, so that no count lies before the start, even if a busy machine did other work in between.
    let counted = probe.duration_ns();
    TraceMeta {
        quell: env!("CARGO_PKG_VERSION").into(),
        kernel: uname.release().to_string_lossy().into(),
        host: host_name().into(),
        start_wall_ns: since_1970.map(ns).unwrap_or(0).saturating_sub(counted),
        start_monotonic_ns: monotonic.saturating_sub(counted),
        scope: subject.scope.clone(),
        command: subject.command.clone(),
        cpus: target::cpu_count(),
        stacks: stacks.into(),
        backend: probe.backend().name().into(),
        ..TraceMeta::default()
    }
}

/// How a recorded command ended, and what it left running.
pub(crate) struct Recorded {
    pub(crate) ended: Ended,
    pub(crate) leftovers: Vec<(u32, String)>,
}

/// Runs a command once and records it into `dir`.
///
/// # Errors
///
/// If it can't be started, or the trace can't be written.
pub(crate) fn record_command(
    argv: &[OsString],
    dir: &Path,
    output: Output,
) -> anyhow::Result<Recorded> {
    let held = launch::hold_command(&Spec {
        argv,
        setup: Setup::NONE,
        output,
        whose: Whose::Users,
    })?;
    let options = ProbeOptions {
        scope: Scope::Tree,
        unwind: true,
        ..ProbeOptions::default()
    };
    let mut recording = Recording::start(dir, true, options, &Subject::command(argv))?;
    recording.probe.add_process(held.pid())?;
    recording.count_misses_of(&[held.pid()]);
    let mut running = held.release()?;
    let ended = loop {
        recording.step(STEP)?;
        if let Some(ended) = running.wait_timeout(Duration::ZERO)? {
            break ended;
        }
        if let Some(signal) = running.leave_signal() {
            return Err(Interrupted(signal).into());
        }
    };
    let leftovers = running.leftovers();
    recording.finish()?;
    Ok(Recorded { ended, leftovers })
}
