//! The target of a watch and its length: everything, processes, CPUs, or a command.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use quell_host::cpus::OnlineTime;
use quell_host::proc::Proc;
use quell_probe::{Backend, Error, Probe, Scope};

use crate::cli::{Target, Way};
use crate::cmd::{complain, usage};
use crate::launch::{self, Ended, Held, Output, Running, Spec, Whose, signals};
use crate::outcome;

/// The time of one step for a caller that only waits for the end.
const LONG_STEP: Duration = Duration::from_secs(3600);

/// The scope that was asked for: all processes, those on some CPUs, or [`Scope::Tree`] for the processes of `-p` or the command,
/// with those that they start. The scope doesn't say which processes these are; the probe is told by [`Watch::start`].
///
/// # Errors
///
/// Bad usage: nothing or too much was asked for, or a process or CPU that isn't there.
pub(crate) fn scope_of_target(target: &Target) -> anyhow::Result<Scope> {
    let asked = [target.all, !target.pid.is_empty(), target.cpu.is_some()];
    let asked = asked.iter().filter(|&&a| a).count();
    if asked > 1 {
        return Err(usage("-a, -p and --cpu exclude each other: choose one"));
    }
    if asked == 0 && target.command.is_empty() {
        return Err(usage(
            "say what to watch: '-a' (everything), '-p PID', '--cpu LIST', or '-- COMMAND'",
        ));
    }
    if !target.pid.is_empty() && !target.command.is_empty() {
        return Err(usage("-p PID and a command exclude each other: choose one"));
    }
    for &pid in &target.pid {
        process("-p", pid)?;
    }
    Ok(match &target.cpu {
        Some(list) => Scope::Cpus(cpu_list(list)?),
        None if target.all => Scope::All,
        None => Scope::Tree,
    })
}

/// The backend that was asked for, for a verb that can't do without the probe; `refusal` says so.
///
/// # Errors
///
/// Bad usage: another way than the probe was asked for.
pub(crate) fn backend(target: &Target, refusal: &str) -> anyhow::Result<Option<Backend>> {
    match target.backend {
        Some(Way::Proc) => Err(usage(refusal)),
        way => Ok(way.and_then(Way::probe)),
    }
}

/// Adds what can be had without the probe to an error that says why there is none. `--ipi` and a
/// backend that was named have nothing in their place.
pub(crate) fn or_stat(err: anyhow::Error, target: &Target) -> anyhow::Error {
    match err.downcast_ref() {
        Some(Error::Missing { .. }) if !target.ipi && target.backend.is_none() => usage(format!(
            "{err}; 'quell stat' counts what /proc tells anybody"
        )),
        _ => err,
    }
}

/// Checks that a process that an option names is there.
///
/// # Errors
///
/// Bad usage: it isn't, or is a thread, which has a folder in /proc too, though it is not listed there.
pub(crate) fn process(option: &str, pid: u32) -> anyhow::Result<()> {
    if pid == 0 || !Proc::new("/").exists(pid) {
        return Err(usage(format!("no such process: {pid}")));
    }
    match thread_of(pid) {
        Some(process) => Err(usage(format!(
            "{pid} is a thread of process {process}: use {option} {process}"
        ))),
        None => Ok(()),
    }
}

/// As [`process`], for a purpose that needs a program.
///
/// # Errors
///
/// Bad usage: as there, or the kernel's own thread.
pub(crate) fn program(option: &str, pid: u32) -> anyhow::Result<()> {
    process(option, pid)?;
    match Proc::new("/").stat(pid) {
        Ok(stat) if stat.is_kernels() => Err(usage(format!(
            "{option} {pid} is the kernel's own thread {}: it has no program",
            stat.comm
        ))),
        _ => Ok(()),
    }
}

/// The process that a thread belongs to, if it is not the first.
fn thread_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().filter(|&tgid| tgid != pid)
}

fn online() -> anyhow::Result<Vec<u32>> {
    quell_host::cpus::read_online_cpus(Path::new("/"))
}

/// How many CPUs are online.
pub(crate) fn cpu_count() -> u32 {
    online().map_or(1, |list| u32::try_from(list.len()).unwrap_or(u32::MAX))
}

/// A CPU that comes or goes is seen after this time at the latest, if somebody asks.
const LATE_NS: u64 = 100_000_000;

/// Looks how many CPUs are online, if that was not known a moment ago.
pub(crate) fn look_at_cpus(online: &mut OnlineTime, probe: &Probe) {
    let now = probe.duration_ns();
    if online.is_older(now, LATE_NS) {
        online.add_look(now, cpu_count());
    }
}

/// The CPUs of a list that was given on the command line.
///
/// # Errors
///
/// Bad usage: it is no list, or names a CPU that isn't there.
pub(crate) fn cpu_list(text: &str) -> anyhow::Result<Vec<u32>> {
    cpus(text, &online()?)
}

fn cpus(text: &str, online: &[u32]) -> anyhow::Result<Vec<u32>> {
    let list = quell_host::cpus::parse_cpu_list(text)
        .ok_or_else(|| usage(format!("'{text}' is no list of CPUs; write it like 2,4-7")))?;
    if let Some(cpu) = list.iter().find(|c| !online.contains(c)) {
        return Err(usage(format!("CPU {cpu} is not online on this machine")));
    }
    Ok(list)
}

/// Why watching ended.
pub(crate) enum End {
    /// The command ended.
    Command(Ended),
    /// A signal ends quell; the command runs on.
    Left(i32),
    /// All processes of `-p` are gone, or the time is over, or somebody interrupted.
    Over,
}

/// The command, the processes and the time that keep the watch going.
pub(crate) struct Watch {
    held: Option<Held>,
    running: Option<Running>,
    pids: Vec<(u32, u64)>,
    duration: Option<Duration>,
    deadline: Option<Instant>,
}

impl Watch {
    /// Forks the command, if there is one, and holds it back. The scope can then be told its pid.
    ///
    /// # Errors
    ///
    /// Bad usage, or a fork that fails.
    pub(crate) fn prepare(target: &Target, duration: Option<f64>) -> anyhow::Result<Self> {
        Self::prepare_to(target, duration, Output::Inherit)
    }

    /// As [`Self::prepare`], with the command's output elsewhere.
    ///
    /// # Errors
    ///
    /// Bad usage, or a fork that fails.
    pub(crate) fn prepare_to(
        target: &Target,
        duration: Option<f64>,
        output: Output,
    ) -> anyhow::Result<Self> {
        signals::install_handlers()?;
        let duration = match duration {
            Some(s) => Some(seconds("--duration", s)?),
            None => None,
        };
        let held = if target.command.is_empty() {
            None
        } else {
            launch::check_command(&target.command)?;
            let spec = Spec {
                argv: &target.command,
                setup: launch::Setup::NONE,
                output,
                // Only output that quell itself wants to read is captured.
                whose: if output == Output::Capture {
                    Whose::Quells
                } else {
                    Whose::Users
                },
            };
            Some(launch::hold_command(&spec)?)
        };
        let proc = Proc::new("/");
        let pids = target
            .pid
            .iter()
            .filter_map(|&pid| Some((pid, proc.stat(pid).ok()?.start)))
            .collect();
        Ok(Self {
            held,
            running: None,
            pids,
            duration,
            deadline: None,
        })
    }

    /// The processes that are watched: those of `-p`, or the command.
    pub(crate) fn roots(&self) -> Vec<u32> {
        let running = self.running.as_ref().map(Running::pid);
        let command = self.held.as_ref().map(Held::pid).or(running);
        self.pids
            .iter()
            .map(|&(pid, _)| pid)
            .chain(command)
            .collect()
    }

    /// The processes that are watched, and all that they have started so far.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let proc = Proc::new("/");
        let tree = |root: u32| proc.process_tree(root).unwrap_or_else(|_| vec![root]);
        self.roots().into_iter().flat_map(tree).collect()
    }

    /// Names the processes to the probe, if there is one, and lets the command go.
    ///
    /// # Errors
    ///
    /// If the command can't be started.
    pub(crate) fn start(&mut self, probe: Option<&Probe>, scope: &Scope) -> anyhow::Result<()> {
        self.deadline = self.duration.map(|d| Instant::now() + d);
        if let (Some(probe), Scope::Tree) = (probe, scope) {
            let proc = Proc::new("/");
            for &(pid, _) in &self.pids {
                probe.add_process(pid)?;
                // The children that it forked before the probe was there are added twice, because they may fork meanwhile.
                for _ in 0..2 {
                    for child in proc.process_tree(pid).unwrap_or_default() {
                        probe.add_process(child)?;
                    }
                }
            }
            if let Some(held) = &self.held {
                probe.add_process(held.pid())?;
            }
        }
        if let Some(held) = self.held.take() {
            self.running = Some(held.release()?);
        } else if std::io::stderr().is_terminal() {
            let end = if self.deadline.is_some() {
                ""
            } else {
                "; Ctrl-C ends it"
            };
            say!("quell: watching{end}");
        }
        Ok(())
    }

    /// Waits for at most `timeout`; says if the watch is over.
    ///
    /// # Errors
    ///
    /// If the command can't be waited for.
    pub(crate) fn step(&mut self, timeout: Duration) -> anyhow::Result<Option<End>> {
        let left = self
            .deadline
            .map(|d| d.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(timeout, |l| l.min(timeout));
        if let Some(running) = &mut self.running {
            // Running looks after Ctrl-C: the command gets it too, and ends by it or not.
            if let Some(ended) = running.wait_timeout(timeout)? {
                return Ok(Some(End::Command(ended)));
            }
            if let Some(signal) = running.leave_signal() {
                return Ok(Some(End::Left(signal)));
            }
            if self.deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(Some(End::Command(running.stop()?)));
            }
            return Ok(None);
        }
        if signals::sleep_until_signal(timeout)?.is_some()
            || self.deadline.is_some_and(|d| Instant::now() >= d)
        {
            return Ok(Some(End::Over));
        }
        let proc = Proc::new("/");
        let alive = |&(pid, start): &(u32, u64)| {
            proc.stat(pid)
                .is_ok_and(|s| s.start == start && !s.has_ended())
        };
        if !self.pids.is_empty() && !self.pids.iter().any(alive) {
            return Ok(Some(End::Over));
        }
        Ok(None)
    }

    /// quell's exit status, by how the watch ended: None where nobody reads what it says any more, or an error, which is
    /// said. A command that runs then is waited for: it is the user's, and its status is passed on.
    ///
    /// # Errors
    ///
    /// The one that ended the watch, if there is no command.
    pub(crate) fn see_through(
        &mut self,
        command: &[OsString],
        watched: anyhow::Result<Option<End>>,
    ) -> anyhow::Result<ExitCode> {
        let end = match watched {
            Ok(Some(end)) => end,
            Ok(None) if self.running.is_none() => End::Over,
            Err(err) if self.running.is_none() => return Err(err),
            other => {
                if let Err(err) = other {
                    let runs = self.running.as_ref().is_some_and(Running::is_running);
                    complain(&if runs {
                        err.context("the watch has ended, and the command runs on")
                    } else {
                        err
                    });
                }
                loop {
                    if let Some(end) = self.step(LONG_STEP)? {
                        break end;
                    }
                }
            }
        };
        Ok(match end {
            End::Over => ExitCode::SUCCESS,
            End::Command(ended) => outcome::finish(command, &ended, &self.leftovers()),
            End::Left(signal) => outcome::left(command, &self.roots(), signal),
        })
    }

    /// Stops the command: the user wants it.
    ///
    /// # Errors
    ///
    /// If it does not end.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        match &mut self.running {
            Some(running) if running.is_running() => running.stop().map(drop),
            _ => Ok(()),
        }
    }

    /// The command's output, where it is captured.
    pub(crate) fn output(&self) -> Vec<u8> {
        self.running
            .as_ref()
            .map(Running::output)
            .unwrap_or_default()
    }

    /// Has the command's output printed, where it was kept.
    pub(crate) fn print_output(&mut self) {
        if let Some(running) = &mut self.running {
            running.print_output();
        }
    }

    /// Processes that the command started and that outlive it.
    pub(crate) fn leftovers(&self) -> Vec<(u32, String)> {
        self.running
            .as_ref()
            .map(Running::leftovers)
            .unwrap_or_default()
    }
}

/// A time that was given on the command line.
///
/// # Errors
///
/// Bad usage: not a positive number, or more than a year.
pub(crate) fn seconds(option: &str, value: f64) -> anyhow::Result<Duration> {
    if value > 0.0 && value < 3.2e7 {
        return Ok(Duration::from_secs_f64(value));
    }
    let bound = if value >= 3.2e7 {
        ", a year at most"
    } else {
        " above 0"
    };
    Err(usage(format!(
        "{option} {value}: give a time in seconds{bound}"
    )))
}
