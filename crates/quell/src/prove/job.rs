//! A job that is run again and again: a command, or a server with a load.

use std::cell::Cell;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use quell_event::Text;

use super::failed::{FailedRun, FailureKind, Interrupted, short_seconds};
use super::progress::RunProgress;
use super::watch::RunWatcher;
use crate::launch::{self, Ended, Output, Running, Setup, Spec, Usage, Whose, signals};
use crate::show::command::shell_words;
use crate::usage::usage;

/// The interval at which a starting server is tested for readiness.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The time for a server to end after SIGTERM, since it may have data to write.
const SERVER_STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A run with the plan is taken to hang if it lasts this many times as long as the longest run without it, and also longer
/// by `MIN_HANG_EXCESS`. The bound is generous: a slow plan should not be ended, because the pairs judge it better.
const HANG_FACTOR: u32 = 20;
const MIN_HANG_EXCESS: Duration = Duration::from_secs(60);

/// A server's load, and the port by which the server is known to be ready for it.
pub(crate) struct ServerLoad {
    /// The command of the load, for `sh -c`.
    pub(crate) command: String,
    /// The TCP port of the loopback address that the server will accept at.
    pub(crate) port: u16,
}

/// A command to be run many times in the same way.
pub(crate) struct ProveJob<'a> {
    pub(crate) argv: &'a [OsString],
    pub(crate) load: Option<ServerLoad>,
    /// The longest that one run may take.
    pub(crate) timeout: Duration,
    /// The longest run without the plan so far, from its start to its end.
    pub(crate) longest_plain: Cell<Option<Duration>>,
    pub(crate) progress: &'a RunProgress,
    /// The number of runs so far, of any kind.
    pub(crate) runs: Cell<usize>,
    /// Whether a line was printed that the command leaves processes behind.
    pub(crate) said_leftovers: Cell<bool>,
}

/// The figures and the output of a run that worked.
pub(crate) struct CompletedRun {
    /// Of the command, or of the server from its start to its end.
    pub(crate) usage: Usage,
    /// Of the command, or of the load.
    pub(crate) wall_ns: u64,
    /// Of the command, or of the load.
    pub(crate) output: Vec<u8>,
}

/// The longest that a run with the plan may take, given the longest run without it.
fn max_time_with_plan(longest_plain: Duration) -> Duration {
    let times = longest_plain.saturating_mul(HANG_FACTOR);
    times.max(longest_plain.saturating_add(MIN_HANG_EXCESS))
}

fn accepts_connections(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

fn check_interrupted() -> anyhow::Result<()> {
    signals::first_signal().map_or(Ok(()), |signal| Err(Interrupted(signal).into()))
}

/// A process that a run waits for, and its deadline.
struct AwaitedProcess<'a> {
    /// Its part in the run, such as "the server".
    who: &'static str,
    /// Its part with its command.
    name: &'a str,
    /// The run that it belongs to, in words.
    when: &'a str,
    deadline: Instant,
    /// The time limit that the deadline follows from.
    limit: Duration,
}

impl AwaitedProcess<'_> {
    /// The error that says how it failed.
    fn failure(&self, line: String, running: &Running, how: FailureKind) -> anyhow::Error {
        FailedRun::of_program(line, running.output(), self.who, how)
    }
}

impl ProveJob<'_> {
    /// The command as one would type it, in quotes, cut where it is long.
    pub(crate) fn quoted_command(&self) -> String {
        let words: Vec<_> = self.argv.iter().map(|w| w.to_string_lossy()).collect();
        format!("'{}'", Text::from(shell_words(&words)).cut_to(60))
    }

    /// The part of the run whose output is read.
    pub(crate) fn who_prints(&self) -> &'static str {
        match self.load {
            None => "the program",
            Some(_) => "the load",
        }
    }

    /// Runs it once under a watcher. `when` names the run in messages.
    ///
    /// # Errors
    ///
    /// [`FailedRun`] where the run failed, [`Interrupted`] after a signal to quell, and any other where a process can't be
    /// started, watched or stopped.
    pub(crate) fn run(
        &self,
        watcher: &mut dyn RunWatcher,
        setup: &Setup,
        when: &str,
    ) -> anyhow::Result<CompletedRun> {
        check_interrupted()?;
        self.runs.set(self.runs.get() + 1);
        let began = Instant::now();
        let ran = match &self.load {
            None => self.run_command(watcher, setup, when),
            Some(load) => self.run_server(load, watcher, setup, when),
        }?;
        if setup == Setup::NONE {
            let longest = self.longest_plain.get().max(Some(began.elapsed()));
            self.longest_plain.set(longest);
        }
        Ok(ran)
    }

    /// The longest that a run may take: the user's own bound, and with a plan no longer than a run that clearly doesn't hang.
    fn time_limit(&self, setup: &Setup) -> Duration {
        match self.longest_plain.get() {
            Some(longest) if setup != Setup::NONE => self.timeout.min(max_time_with_plan(longest)),
            _ => self.timeout,
        }
    }

    /// The advice for a run that was stopped after this time.
    fn more_time(&self, limit: Duration) -> String {
        match self.longest_plain.get() {
            Some(longest) if limit < self.timeout => format!(
                "without the plan it took {} s at most",
                short_seconds(longest)
            ),
            _ => "--timeout gives it more".to_owned(),
        }
    }

    /// Runs the command to its end, and stops the processes that it leaves running.
    fn run_command(
        &self,
        watcher: &mut dyn RunWatcher,
        setup: &Setup,
        when: &str,
    ) -> anyhow::Result<CompletedRun> {
        let mut command = start_command(self.argv, setup, Some(watcher))?;
        let limit = self.time_limit(setup);
        let waited = AwaitedProcess {
            who: "the program",
            name: &self.quoted_command(),
            when,
            deadline: Instant::now() + limit,
            limit,
        };
        let ended = self.wait_for_end(&mut command, watcher, &waited)?;
        watcher.end()?;
        self.stop_leftovers(&mut command)?;
        if !ended.status.is_success() {
            let line = format!("{} {} in {when}", self.quoted_command(), ended.status);
            return Err(waited.failure(line, &command, FailureKind::Ended(ended.status)));
        }
        Ok(CompletedRun {
            usage: ended.usage,
            wall_ns: ended.usage.wall_ns,
            output: command.output(),
        })
    }

    /// Starts the server, runs the load when it is ready, and stops the server. Counts begin with the load, because the start of
    /// a server is no part of its work. Start and load share one time limit. After an error the server is stopped where it is
    /// dropped.
    fn run_server(
        &self,
        load: &ServerLoad,
        watcher: &mut dyn RunWatcher,
        setup: &Setup,
        when: &str,
    ) -> anyhow::Result<CompletedRun> {
        if accepts_connections(load.port) {
            return Err(usage(format!(
                "--ready {}: something accepts connections there before the server was started: stop it, or choose another port",
                load.port
            )));
        }
        let mut server = start_command(self.argv, setup, Some(watcher))?;
        let limit = self.time_limit(setup);
        let deadline = Instant::now() + limit;
        let waited = AwaitedProcess {
            who: "the server",
            name: &self.quoted_command(),
            when,
            deadline,
            limit,
        };
        self.wait_ready(&mut server, watcher, load.port, &waited)?;
        watcher.begin()?;
        let shell = ["sh".into(), "-c".into(), load.command.clone().into()];
        // The plan is for the server, so the load runs without it.
        let mut client = start_command(&shell, Setup::NONE, None)?;
        let name = format!("the load '{}'", load.command);
        let load_waited = AwaitedProcess {
            who: "the load",
            name: &name,
            ..waited
        };
        let ended = self.wait_for_end(&mut client, watcher, &load_waited)?;
        // It is asked for first: if the server died, the load failed for that.
        let died = server.try_wait()?;
        watcher.end()?;
        check_interrupted()?;
        if let Some(died) = died {
            let line = format!(
                "the server {} {} under the load in {when}",
                self.quoted_command(),
                died.status
            );
            return Err(waited.failure(line, &server, FailureKind::Ended(died.status)));
        }
        self.stop_leftovers(&mut client)?;
        if !ended.status.is_success() {
            let line = format!("{name} {} in {when}", ended.status);
            return Err(load_waited.failure(line, &client, FailureKind::Ended(ended.status)));
        }
        let stopped = server.stop_within(SERVER_STOP_TIMEOUT)?;
        self.wait_for_free_port(load.port)?;
        Ok(CompletedRun {
            usage: stopped.usage,
            wall_ns: ended.usage.wall_ns,
            output: client.output(),
        })
    }

    /// Waits until a command ends, with whatever status. One that is still there at its deadline is stopped, and that is a
    /// [`FailedRun`].
    fn wait_for_end(
        &self,
        running: &mut Running,
        watcher: &mut dyn RunWatcher,
        waited: &AwaitedProcess<'_>,
    ) -> anyhow::Result<Ended> {
        loop {
            let nap = watcher.step()?;
            let left = waited.deadline.saturating_duration_since(Instant::now());
            self.progress.tick();
            if let Some(ended) = running.wait_timeout(nap.min(left))? {
                check_interrupted()?;
                return Ok(ended);
            }
            if left.is_zero() {
                running.stop()?;
                let line = format!(
                    "{} took longer than {} s in {} and was stopped; {}",
                    waited.name,
                    short_seconds(waited.limit),
                    waited.when,
                    self.more_time(waited.limit)
                );
                return Err(waited.failure(line, running, FailureKind::NotEnded(waited.limit)));
            }
        }
    }

    /// Waits until the server accepts connections, or fails with the reason why it won't.
    fn wait_ready(
        &self,
        server: &mut Running,
        watcher: &mut dyn RunWatcher,
        port: u16,
        waited: &AwaitedProcess<'_>,
    ) -> anyhow::Result<()> {
        let when = waited.when;
        loop {
            watcher.step()?;
            let ended = server.wait_timeout(READY_POLL_INTERVAL)?;
            check_interrupted()?;
            if let Some(ended) = ended {
                let hint = if server.leftovers().is_empty() {
                    ""
                } else {
                    "; it went to the background: start it so that it stays"
                };
                server.stop()?;
                let how = FailureKind::Ended(ended.status);
                let line = format!(
                    "the server {} {} before port {port} accepted, in {when}{hint}",
                    self.quoted_command(),
                    ended.status
                );
                return Err(waited.failure(line, server, how));
            }
            if accepts_connections(port) {
                return Ok(());
            }
            self.progress.tick();
            if Instant::now() >= waited.deadline {
                server.stop()?;
                let line = format!(
                    "the server {} did not accept at port {port} within {} s in {when}; {}",
                    self.quoted_command(),
                    short_seconds(waited.limit),
                    self.more_time(waited.limit)
                );
                return Err(waited.failure(line, server, FailureKind::NotReady(waited.limit)));
            }
        }
    }

    /// Waits until the port is free for the next server. A child that the server left may hold it for a while. It is no
    /// failure of the program, so that no remedy is blamed.
    fn wait_for_free_port(&self, port: u16) -> anyhow::Result<()> {
        let deadline = Instant::now() + SERVER_STOP_TIMEOUT;
        while accepts_connections(port) {
            if Instant::now() >= deadline {
                return Err(FailedRun::outside_program(
                    format!(
                        "port {port} still accepts after the server {} was stopped",
                        self.quoted_command()
                    ),
                    Vec::new(),
                ));
            }
            signals::poll_until_signal(None, READY_POLL_INTERVAL)?;
            check_interrupted()?;
        }
        Ok(())
    }

    /// Stops the processes that the command left running, which would disturb the next run, and says so once.
    fn stop_leftovers(&self, command: &mut Running) -> anyhow::Result<()> {
        let left = command.leftovers();
        if left.is_empty() {
            return Ok(());
        }
        command.stop()?;
        if !self.said_leftovers.replace(true) {
            let list: Vec<_> = left
                .iter()
                .map(|(pid, comm)| format!("{comm} ({pid})"))
                .collect();
            self.progress.say(&format!(
                "{} ended and left running: {}; stopped after each run, because quell started it",
                self.quoted_command(),
                list.join(", ")
            ));
        }
        Ok(())
    }
}

/// Starts a command with its output captured, and hands it to the watcher before its first instruction.
fn start_command(
    argv: &[OsString],
    setup: &Setup,
    watcher: Option<&mut dyn RunWatcher>,
) -> anyhow::Result<Running> {
    let held = launch::hold_command(&Spec {
        argv,
        setup,
        output: Output::Capture,
        whose: Whose::Quells,
    })?;
    if let Some(watcher) = watcher {
        watcher.add(held.pid())?;
    }
    held.release()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a run with a plan may take 20 times as long as the longest without, and a minute more in any case.
    #[test]
    fn patience_with_a_plan() {
        let seconds = Duration::from_secs;
        for (plain, limit) in [(0, 60), (1, 61), (3, 63), (4, 80), (30, 600)] {
            assert_eq!(
                max_time_with_plan(seconds(plain)),
                seconds(limit),
                "{plain}"
            );
        }
    }
}
