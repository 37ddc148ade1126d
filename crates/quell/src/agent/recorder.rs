//! Records a trace when a rule fires: one at a time, by `quell record` in a process of its own, so that its memory is gone with
//! it and its end is not the agent's.
//!
//! A recording is bounded by its duration, by a share of the ring's limit, and by the space that has to stay free on the file
//! system.
//! When the agent is killed its recording ends too, in order.

use std::collections::BTreeMap;
use std::fmt;
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
use quell_agent::config::TraceConfig;
use quell_agent::look_back::LookBackLine;
use quell_agent::trace_ring::{self, RoomMade, TraceRing};
use rustix::fs::Mode;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal, umask};
use serde::{Deserialize, Serialize};

use crate::agent::look_back;
use crate::clock::wall_ns;
use crate::host_name::HOST_NAME_VARIABLE;

/// The file in a trace's folder that says why it was recorded.
pub(crate) const TRIGGER_FILE: &str = "trigger.json";
/// Pause between two checks whether a recording is over, or too large.
const RECORDING_CHECK_PAUSE: Duration = Duration::from_millis(100);
/// A recording that is asked to end has so long to name its stacks; then it is killed, and can be read still.
const MAX_NAMING_TIME: Duration = Duration::from_secs(60);
/// When the agent itself ends it waits no longer than this.
const MAX_END_TIME: Duration = Duration::from_secs(5);

/// Contents of [`TRIGGER_FILE`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TriggerNote {
    pub(crate) rule: String,
    pub(crate) why: String,
}

const RECORDING_RESULTS: [&str; 4] = ["busy", "failed", "kept", "no_room"];

/// Outcomes of recordings.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordingCounts {
    /// Number of recordings by rule and result, one of [`RECORDING_RESULTS`]; `busy`: another was under way.
    pub(crate) results: BTreeMap<(String, &'static str), u64>,
    /// Number of old traces that gave way.
    pub(crate) removed: u64,
    /// Size of all traces, bytes.
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
struct RecorderState {
    counts: RecordingCounts,
    messages: Vec<String>,
}

impl RecorderState {
    fn add_room(&mut self, room: RoomMade) {
        self.counts.removed += room.removed;
        self.counts.bytes = room.kept;
    }

    fn count_result(&mut self, rule: &str, result: &'static str) {
        *self
            .counts
            .results
            .entry((rule.to_owned(), result))
            .or_default() += 1;
    }

    fn count_failure(&mut self, rule: &str, why: &str, err: impl fmt::Display) {
        self.count_result(rule, "failed");
        self.messages.push(format!("{why}: no trace: {err:#}"));
    }
}

pub(crate) struct Recorder {
    ring: TraceRing,
    /// The host's name, for the traces.
    host: String,
    duration: Duration,
    max_bytes: u64,
    state: Arc<Mutex<RecorderState>>,
    stop: Arc<AtomicBool>,
    running: Option<thread::JoinHandle<()>>,
}

const MIB_BYTES: u64 = 1 << 20;

/// Size that one trace may have, bytes: half of the limit, so that as much of older traces may stay beside it.
fn max_trace_bytes(traces: &TraceConfig) -> u64 {
    traces.limit_mb.saturating_mul(MIB_BYTES) / 2
}

/// Space that stays free on the file system, bytes.
fn reserve_bytes(traces: &TraceConfig) -> u64 {
    traces.reserve_mb.saturating_mul(MIB_BYTES)
}

/// The room that a trace needs, in words.
fn needed_room(most: u64, reserve: u64) -> String {
    format!(
        "the file system has to have {} MB free: {} MB for the trace, half of limit_mb, and {} MB, reserve_mb, that stay free",
        most.saturating_add(reserve) / MIB_BYTES,
        most / MIB_BYTES,
        reserve / MIB_BYTES
    )
}

/// Why there is no room where traces are to go, if there is none. That may come right, so the agent starts all the same.
pub(crate) fn lacks_room(traces: &TraceConfig) -> Option<String> {
    let (most, reserve) = (max_trace_bytes(traces), reserve_bytes(traces));
    (!TraceRing::could_hold(&traces.dir, reserve, most)).then(|| {
        format!(
            "there is no room for a trace: {}",
            needed_room(most, reserve)
        )
    })
}

impl Recorder {
    /// Opens the ring, and makes its folder.
    ///
    /// # Errors
    ///
    /// The folder can't be written to, or another agent keeps its traces there.
    pub(crate) fn new(traces: &TraceConfig, host: &str) -> anyhow::Result<Self> {
        let limit = traces.limit_mb.saturating_mul(MIB_BYTES);
        let recorder = Self {
            ring: TraceRing::open(&traces.dir, limit, reserve_bytes(traces))?,
            host: host.to_owned(),
            duration: Duration::from_secs(traces.seconds),
            max_bytes: max_trace_bytes(traces),
            state: Arc::default(),
            stop: Arc::default(),
            running: None,
        };
        let mut state = recorder.lock_state();
        state.counts.bytes = recorder.ring.kept_bytes();
        // All results are there from the start: to a server the first value of a new counter is no growth.
        for rule in &traces.rules {
            let none = RECORDING_RESULTS.map(|result| ((rule.name.clone(), result), 0));
            state.counts.results.extend(none);
        }
        state.messages.extend(lacks_room(traces));
        drop(state);
        Ok(recorder)
    }

    fn lock_state(&self) -> std::sync::MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcomes so far, and the messages since the last call.
    pub(crate) fn outcomes_and_messages(&self) -> (RecordingCounts, Vec<String>) {
        let mut state = self.lock_state();
        (state.counts.clone(), std::mem::take(&mut state.messages))
    }

    /// Asks the recording that is under way to end.
    pub(crate) fn ask_to_end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Removes old traces where the limit is overrun, or the file system has filled up. A failure is not told here: the next
    /// trace that begins meets it too, and tells it.
    pub(crate) fn keep_within(&self) {
        if let Ok(room) = self.ring.make_room(0) {
            self.lock_state().add_room(room);
        }
    }

    /// Begins a trace, with the counts of `before` beside it, unless there is no room. False: another one is under way, and the
    /// rule is to be judged again. True in all other cases, also where there is no room or it fails, so that the rule then rests;
    /// the outcome is counted and told by [`Self::outcomes_and_messages`].
    pub(crate) fn begin_trace(
        &mut self,
        rule: &str,
        why: &str,
        before: impl FnOnce() -> Vec<LookBackLine>,
    ) -> bool {
        let running = self.running.as_ref();
        if running.is_some_and(|thread| !thread.is_finished()) {
            self.lock_state().count_result(rule, "busy");
            return false;
        }
        let room = match self.ring.make_room(self.max_bytes) {
            Ok(room) => room,
            Err(err) => {
                self.lock_state().count_failure(rule, why, err);
                return true;
            }
        };
        let mut state = self.lock_state();
        state.add_room(room);
        if !room.fits {
            state.count_result(rule, "no_room");
            state.messages.push(format!(
                "{why}: no trace, for want of room: {}",
                needed_room(self.max_bytes, self.ring.reserve_bytes())
            ));
            return true;
        }
        drop(state);
        let one = TriggeredRecording {
            rule: rule.to_owned(),
            why: why.to_owned(),
            before: before(),
            host: self.host.clone(),
            dir: self.ring.next_trace_path(wall_ns(), rule),
            ring: self.ring.clone(),
            duration: self.duration,
            max_bytes: self.max_bytes,
            stop: Arc::clone(&self.stop),
        };
        let shared = Arc::clone(&self.state);
        let record = move || {
            let done = one.record_trace();
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            state.counts.bytes = one.ring.kept_bytes();
            match done {
                Ok((result, note)) => {
                    state.count_result(&one.rule, result);
                    state.messages.push(format!(
                        "{}: recorded {}{note}",
                        one.why,
                        one.dir.display()
                    ));
                }
                Err(err) => state.count_failure(&one.rule, &one.why, err),
            }
        };
        match thread::Builder::new()
            .name("record".to_owned())
            .stack_size(128 << 10)
            .spawn(record)
        {
            Ok(thread) => self.running = Some(thread),
            Err(err) => {
                let err = format!("start a thread: {err}");
                self.lock_state().count_failure(rule, why, err);
            }
        }
        true
    }
}

impl Drop for Recorder {
    /// Ends the recording that is under way.
    fn drop(&mut self) {
        self.ask_to_end();
        if let Some(thread) = self.running.take() {
            let _ = thread.join();
        }
    }
}

/// A command that runs this program once more; its process ends with this one, in order.
fn own_command() -> Command {
    let mut command = Command::new(Path::new("/proc/self/exe"));
    command.arg0("quell").args(["--color", "never"]);
    // SAFETY: two system calls, which is all that may be done between fork and exec; the thread that starts it, whose end
    // the signal is for, waits for the child.
    unsafe {
        command.pre_exec(|| {
            // Traces contain command lines, which are nobody else's business.
            umask(Mode::RWXG | Mode::RWXO);
            set_parent_process_death_signal(Some(Signal::INT)).map_err(std::io::Error::from)
        });
    }
    command
}

/// One recording.
struct TriggeredRecording {
    rule: String,
    why: String,
    /// The counts until then.
    before: Vec<LookBackLine>,
    host: String,
    dir: PathBuf,
    ring: TraceRing,
    duration: Duration,
    max_bytes: u64,
    stop: Arc<AtomicBool>,
}

impl TriggeredRecording {
    /// Records it. Returns the result that it counts under, and a note on how it ended; empty where it ended as it should.
    ///
    /// # Errors
    ///
    /// There is no trace, or its recording could not be waited for.
    fn record_trace(&self) -> anyhow::Result<(&'static str, String)> {
        let mut command = own_command();
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
        // Names are looked up at once, since code of processes that have ended has none.
        let naming = self.name_before();
        let waited = self.wait_for_end(&mut child);
        let named = naming.and_then(|child| self.wait_for_naming(child));
        let mut said = String::new();
        if let Some(stderr) = child.stderr.take() {
            // The recording is over, so nothing more comes.
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
        self.write_note();
        // The agent asked for the end, so the recording's exit status tells nothing more.
        let ended = !note.is_empty();
        if let Err(err) = named {
            note = format!("{note}, without what was before it: {err:#}");
        }
        if status.success() || ended {
            return Ok(("kept", note));
        }
        // A recording ends with 1 of itself where the disk is full before that is seen here; any other end is a failure.
        let result = if status.code() == Some(1) {
            "kept"
        } else {
            "failed"
        };
        let note = format!("{note}, which was cut short: quell record: {last}");
        Ok((result, note))
    }

    /// Starts the process that names the counts from before the trace, and sends them to it. None: there are none.
    fn name_before(&self) -> anyhow::Result<Option<Child>> {
        if self.before.is_empty() {
            return Ok(None);
        }
        let mut command = own_command();
        command
            .args(["agent", "look-back"])
            .arg(&self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().context("start quell agent look-back")?;
        if let Some(stdin) = child.stdin.take()
            && let Err(err) = look_back::write_lines(&self.before, stdin)
        {
            let _ = child.kill();
            let _ = child.wait();
            return Err(err).context("tell quell agent look-back");
        }
        Ok(Some(child))
    }

    /// Waits for the naming process, which only has to write once the trace exists.
    fn wait_for_naming(&self, child: Option<Child>) -> anyhow::Result<()> {
        let Some(mut child) = child else {
            return Ok(());
        };
        let until = Instant::now() + MAX_END_TIME;
        loop {
            if let Some(status) = child.try_wait().context("wait for quell agent look-back")? {
                anyhow::ensure!(status.success(), "quell agent look-back: {status}");
                return Ok(());
            }
            // Without a trace it would wait for one in vain.
            if Instant::now() > until || !self.dir.join("meta.json").exists() {
                let _ = child.kill();
                child.wait().context("wait for quell agent look-back")?;
                anyhow::bail!("quell agent look-back did not end");
            }
            thread::sleep(RECORDING_CHECK_PAUSE);
        }
    }

    /// Writes down why the trace was begun. A failure is not told, since the trace's name has the rule too.
    fn write_note(&self) {
        let why = TriggerNote {
            rule: self.rule.clone(),
            why: self.why.clone(),
        };
        let _ = serde_json::to_vec(&why).map(|text| fs::write(self.dir.join(TRIGGER_FILE), text));
    }

    /// Waits for the end of the recording, which it asks for once where there is a reason. The text is that reason, or that it
    /// had to be killed; it is empty where the recording ended by itself.
    fn wait_for_end(&self, child: &mut Child) -> anyhow::Result<(ExitStatus, String)> {
        let pid = Pid::from_child(child);
        let mut until = Instant::now() + self.duration + MAX_NAMING_TIME;
        let mut note = String::new();
        let mut noted = false;
        loop {
            if !noted && self.dir.join("meta.json").exists() {
                // The note is written early, as the agent may be killed.
                self.write_note();
                noted = true;
            }
            if let Some(status) = child.try_wait().context("wait for quell record")? {
                return Ok((status, note));
            }
            let stop = self.stop.load(Ordering::Relaxed);
            let reason = if stop {
                ", ended with the agent"
            } else if trace_ring::trace_bytes(&self.dir).unwrap_or(0) > self.max_bytes {
                ", ended early: it took half of limit_mb"
            } else if !self.ring.has_reserve(0) {
                ", ended early: the file system has no more room"
            } else {
                ""
            };
            if note.is_empty() && !reason.is_empty() {
                note = reason.to_owned();
                let _ = kill_process(pid, Signal::INT);
                until = until.min(Instant::now() + MAX_NAMING_TIME);
            }
            // Also where the recording was told to end before: who stops the agent waits for it.
            if stop {
                until = until.min(Instant::now() + MAX_END_TIME);
            }
            if Instant::now() > until {
                let _ = child.kill();
                let status = child.wait().context("wait for quell record")?;
                return Ok((status, note + ", which was cut short, as it did not end"));
            }
            thread::sleep(RECORDING_CHECK_PAUSE);
        }
    }
}
