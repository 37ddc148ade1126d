//! Records a trace when a rule says so: one at a time, by `quell record` in a process of its own, so that its memory is gone
//! with it and its end is not the agent's.
//!
//! A recording is bounded by its duration, by a share of the ring's limit, and by what has to stay free of the file system.
//! When the agent is killed its recording ends too, in order.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_agent::config::Traces;
use quell_agent::look_back::Line;
use quell_agent::ring::{self, Ring, Room};
use rustix::fs::Mode;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal, umask};
use serde::{Deserialize, Serialize};

use crate::agent::look_back;
use crate::clock::wall_ns;
use crate::host_name::HOST_NAME_VARIABLE;

/// Why a trace was recorded: a file beside its others.
pub(crate) const WHY: &str = "trigger.json";
/// How often is looked whether a recording is over, or too large.
const STEP: Duration = Duration::from_millis(100);
/// One that is asked to end has to name its stacks, and has so long for it; then it is killed, and readable still.
const PATIENCE: Duration = Duration::from_secs(60);
/// When the agent itself ends it waits no longer.
const HASTE: Duration = Duration::from_secs(5);

/// What stands in [`WHY`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Why {
    pub(crate) rule: String,
    pub(crate) why: String,
}

const RESULTS: [&str; 4] = ["busy", "failed", "kept", "no_room"];

/// What came of recordings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// By rule and result, one of [`RESULTS`]; `busy`: another was under way.
    pub(crate) results: BTreeMap<(String, &'static str), u64>,
    /// Old traces that gave way.
    pub(crate) removed: u64,
    /// What is kept, bytes.
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    said: Vec<String>,
}

impl State {
    fn made(&mut self, room: Room) {
        self.counts.removed += room.removed;
        self.counts.bytes = room.kept;
    }

    fn count(&mut self, rule: &str, result: &'static str) {
        *self
            .counts
            .results
            .entry((rule.to_owned(), result))
            .or_default() += 1;
    }
}

pub(crate) struct Recorder {
    ring: Ring,
    /// What this host is called.
    host: String,
    duration: Duration,
    most: u64,
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    running: Option<thread::JoinHandle<()>>,
}

const MB: u64 = 1 << 20;

/// What one trace may take, bytes.
fn most(traces: &Traces) -> u64 {
    traces.limit_mb.saturating_mul(MB) / 2
}

/// What stays free, bytes.
fn reserve(traces: &Traces) -> u64 {
    traces.reserve_mb.saturating_mul(MB)
}

/// What room a trace takes.
fn needs(most: u64, reserve: u64) -> String {
    format!(
        "the file system has to have {} MB free: {} MB for the trace, half of limit_mb, and {} MB, reserve_mb, that stay free",
        most.saturating_add(reserve) / MB,
        most / MB,
        reserve / MB
    )
}

/// What is wrong with the file system where traces are to go, which may come right: the agent starts all the same.
pub(crate) fn lacks_room(traces: &Traces) -> Option<String> {
    let (most, reserve) = (most(traces), reserve(traces));
    (!Ring::could_have(&traces.dir, reserve, most))
        .then(|| format!("there is no room for a trace: {}", needs(most, reserve)))
}

impl Recorder {
    /// Makes the directory.
    ///
    /// # Errors
    ///
    /// It can't be written to.
    pub(crate) fn new(traces: &Traces, host: &str) -> anyhow::Result<Self> {
        let limit = traces.limit_mb.saturating_mul(MB);
        let recorder = Self {
            ring: Ring::open(&traces.dir, limit, reserve(traces))?,
            host: host.to_owned(),
            duration: Duration::from_secs(traces.seconds),
            most: most(traces),
            state: Arc::default(),
            stop: Arc::default(),
            running: None,
        };
        let mut state = recorder.state();
        state.counts.bytes = recorder.ring.bytes();
        // all of them from the start: what a counter that appears had before is no growth to a server
        for rule in &traces.rules {
            let none = RESULTS.map(|result| ((rule.name.clone(), result), 0));
            state.counts.results.extend(none);
        }
        state.said.extend(lacks_room(traces));
        drop(state);
        Ok(recorder)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What came of it so far, and what is to be said.
    pub(crate) fn look(&self) -> (Counts, Vec<String>) {
        let mut state = self.state();
        (state.counts.clone(), std::mem::take(&mut state.said))
    }

    /// Asks what is under way to end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Old traces give way where the limit is overrun, or the file system has filled up.
    pub(crate) fn keep_within(&self) {
        if let Ok(room) = self.ring.make_room(0) {
            self.state().made(room);
        }
    }

    /// Begins a trace, with what was `before` beside it, unless there is no room. False: another one is under way.
    pub(crate) fn begin(
        &mut self,
        rule: &str,
        why: &str,
        before: impl FnOnce() -> Vec<Line>,
    ) -> bool {
        let running = self.running.as_ref();
        if running.is_some_and(|thread| !thread.is_finished()) {
            self.state().count(rule, "busy");
            return false;
        }
        let room = match self.ring.make_room(self.most) {
            Ok(room) => room,
            Err(err) => {
                let mut state = self.state();
                state.count(rule, "failed");
                state.said.push(format!("{why}: no trace: {err:#}"));
                return true;
            }
        };
        let mut state = self.state();
        state.made(room);
        if !room.fits {
            state.count(rule, "no_room");
            state.said.push(format!(
                "{why}: no trace, for want of room: {}",
                needs(self.most, self.ring.reserve())
            ));
            return true;
        }
        drop(state);
        let one = One {
            rule: rule.to_owned(),
            why: why.to_owned(),
            before: before(),
            host: self.host.clone(),
            dir: self.ring.place(wall_ns(), rule),
            ring: self.ring.clone(),
            duration: self.duration,
            most: self.most,
            stop: Arc::clone(&self.stop),
        };
        let shared = Arc::clone(&self.state);
        let record = move || {
            let done = one.record();
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            state.counts.bytes = one.ring.bytes();
            match done {
                Ok(Done { result, note }) => {
                    state.count(&one.rule, result);
                    state
                        .said
                        .push(format!("{}: recorded {}{note}", one.why, one.dir.display()));
                }
                Err(err) => {
                    state.count(&one.rule, "failed");
                    state.said.push(format!("{}: no trace: {err:#}", one.why));
                }
            }
        };
        match thread::Builder::new()
            .name("record".to_owned())
            .stack_size(128 << 10)
            .spawn(record)
        {
            Ok(thread) => self.running = Some(thread),
            Err(err) => {
                let mut state = self.state();
                state.count(rule, "failed");
                state
                    .said
                    .push(format!("{why}: no trace: start a thread: {err}"));
            }
        }
        true
    }
}

impl Drop for Recorder {
    /// What is under way ends now.
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.running.take() {
            let _ = thread.join();
        }
    }
}

/// A trace that is there: how it counts, and what is to be noted of it.
struct Done {
    result: &'static str,
    note: String,
}

/// Another process of this program, which ends with this one, in order.
fn quell() -> Command {
    let mut command = Command::new(Path::new("/proc/self/exe"));
    command.arg0("quell").args(["--color", "never"]);
    // SAFETY: two system calls, which is all that may be done between fork and exec; the thread that starts it, whose end
    // the signal is for, waits for the child.
    unsafe {
        command.pre_exec(|| {
            // command lines are nobody else's business
            umask(Mode::RWXG | Mode::RWXO);
            set_parent_process_death_signal(Some(Signal::INT)).map_err(std::io::Error::from)
        });
    }
    command
}

/// One recording.
struct One {
    rule: String,
    why: String,
    /// What was counted until then.
    before: Vec<Line>,
    host: String,
    dir: PathBuf,
    ring: Ring,
    duration: Duration,
    most: u64,
    stop: Arc<AtomicBool>,
}

impl One {
    fn record(&self) -> anyhow::Result<Done> {
        let mut command = quell();
        command
            .args(["record", "-a", "-d"])
            .arg(self.duration.as_secs().to_string())
            .arg("-o")
            .arg(&self.dir)
            .env(HOST_NAME_VARIABLE, &self.host)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("start quell record")?;
        // processes end, and their code has no names then
        let naming = self.name_before();
        let waited = self.wait(&mut child);
        let named = naming.and_then(|child| self.named(child));
        let mut said = String::new();
        if let Some(stderr) = child.stderr.take() {
            // it is over, so nothing more comes
            let _ = stderr.take(4096).read_to_string(&mut said);
        }
        let (status, mut note) = waited?;
        let last = match (said.lines().last(), status.signal()) {
            (_, Some(signal)) => format!("killed by signal {signal}"),
            (Some(line), None) => line.trim_start_matches("quell: ").to_owned(),
            (None, None) => format!("it says nothing, and ended with {status}"),
        };
        if !self.dir.join("meta.json").exists() {
            anyhow::bail!("quell record: {last}{note}");
        }
        self.note();
        let ended = !note.is_empty();
        if let Err(err) = named {
            note = format!("{note}, without what was before it: {err:#}");
        }
        if status.success() || ended {
            let result = "kept";
            return Ok(Done { result, note });
        }
        // of itself it ends so where the disk is full, before that is seen here; else it broke, or was killed by somebody
        let result = if status.code() == Some(1) {
            "kept"
        } else {
            "failed"
        };
        Ok(Done {
            result,
            note: format!("{note}, which was cut short: quell record: {last}"),
        })
    }

    /// Starts who names what was before the trace and puts it there, and tells it. None: there is nothing.
    fn name_before(&self) -> anyhow::Result<Option<Child>> {
        if self.before.is_empty() {
            return Ok(None);
        }
        let mut command = quell();
        command
            .args(["agent", "look-back"])
            .arg(&self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().context("start quell agent look-back")?;
        if let Some(stdin) = child.stdin.take()
            && let Err(err) = look_back::tell(&self.before, stdin)
        {
            let _ = child.kill();
            let _ = child.wait();
            return Err(err).context("tell quell agent look-back");
        }
        Ok(Some(child))
    }

    /// Waits for it: as long as there is a trace it only has to write.
    fn named(&self, child: Option<Child>) -> anyhow::Result<()> {
        let Some(mut child) = child else {
            return Ok(());
        };
        let until = Instant::now() + HASTE;
        loop {
            if let Some(status) = child.try_wait().context("wait for quell agent look-back")? {
                anyhow::ensure!(status.success(), "quell agent look-back: {status}");
                return Ok(());
            }
            if Instant::now() > until || !self.dir.join("meta.json").exists() {
                let _ = child.kill();
                child.wait().context("wait for quell agent look-back")?;
                anyhow::bail!("quell agent look-back did not end");
            }
            thread::sleep(STEP);
        }
    }

    /// Why it was begun.
    fn note(&self) {
        let why = Why {
            rule: self.rule.clone(),
            why: self.why.clone(),
        };
        let _ = serde_json::to_vec(&why).map(|text| fs::write(self.dir.join(WHY), text));
    }

    /// How it ended, and what the agent did to that.
    fn wait(&self, child: &mut Child) -> anyhow::Result<(ExitStatus, String)> {
        let pid = Pid::from_child(child);
        let mut until = Instant::now() + self.duration + PATIENCE;
        let mut note = String::new();
        let mut noted = false;
        loop {
            if !noted && self.dir.join("meta.json").exists() {
                // now, as the agent may be killed
                self.note();
                noted = true;
            }
            if let Some(status) = child.try_wait().context("wait for quell record")? {
                return Ok((status, note));
            }
            let stop = self.stop.load(Ordering::Relaxed);
            let reason = if stop {
                ", ended with the agent"
            } else if ring::size(&self.dir).unwrap_or(0) > self.most {
                ", ended early: it took half of limit_mb"
            } else if !self.ring.has_reserve(0) {
                ", ended early: the file system has no more room"
            } else {
                ""
            };
            if note.is_empty() && !reason.is_empty() {
                note = reason.to_owned();
                let _ = kill_process(pid, Signal::INT);
                until = until.min(Instant::now() + if stop { HASTE } else { PATIENCE });
            }
            if Instant::now() > until {
                let _ = child.kill();
                let status = child.wait().context("wait for quell record")?;
                return Ok((status, note + ", which was cut short, as it did not end"));
            }
            thread::sleep(STEP);
        }
    }
}
