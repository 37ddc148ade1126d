//! What is run again and again: a command, or a server with a load.

use std::cell::Cell;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use quell_event::Text;

use super::failed::{Failed, How, Interrupted, short_seconds};
use super::progress::Progress;
use super::watch::Watcher;
use crate::launch::{self, Ended, Output, Running, Setup, Spec, Usage, Whose, signals};
use crate::show::command::shell_words;
use crate::usage::usage;

/// How often a server that starts is asked whether it is ready.
const KNOCK: Duration = Duration::from_millis(20);
/// How long a server may take to end by SIGTERM: it may have data to write.
const GRACE: Duration = Duration::from_secs(10);

/// A run with the plan hangs if it takes so many times as long as the longest without, and so much longer. Generous: what
/// is ended by mistake is a plan that is only slow, which the pairs would have told better.
const HANGS_FACTOR: u32 = 20;
const HANGS_MORE: Duration = Duration::from_secs(60);

/// A server's load, and how to know that the server is ready for it.
pub(crate) struct Load {
    /// For `sh -c`.
    pub(crate) command: String,
    /// The TCP port of the loopback address that the server will accept at.
    pub(crate) port: u16,
}

/// One run, to be repeated.
pub(crate) struct Job<'a> {
    pub(crate) argv: &'a [OsString],
    pub(crate) load: Option<Load>,
    /// Of one run.
    pub(crate) timeout: Duration,
    /// The longest run without the plan so far, from its start to its end.
    pub(crate) longest_plain: Cell<Option<Duration>>,
    pub(crate) progress: &'a Progress,
    /// Runs that were made, of any kind.
    pub(crate) runs: Cell<usize>,
    /// Whether it was said that the command leaves processes behind.
    pub(crate) said_leftovers: Cell<bool>,
}

/// How a run went.
pub(crate) struct Ran {
    /// Of the command, or of the server from its start to its end.
    pub(crate) usage: Usage,
    /// Of the command, or of the load.
    pub(crate) wall_ns: u64,
    /// Of the command, or of the load.
    pub(crate) output: Vec<u8>,
}

/// How long a run with the plan may take, where the longest without took so long.
fn patience(longest_plain: Duration) -> Duration {
    let times = longest_plain.saturating_mul(HANGS_FACTOR);
    times.max(longest_plain.saturating_add(HANGS_MORE))
}

fn accepts(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

fn interrupted() -> anyhow::Result<()> {
    signals::interrupted().map_or(Ok(()), |signal| Err(Interrupted(signal).into()))
}

/// What is waited for, and for how long.
struct Waited<'a> {
    /// In words, such as "the server".
    who: &'static str,
    /// With its command.
    name: &'a str,
    /// Which run it is.
    when: &'a str,
    deadline: Instant,
    /// The same from the start of the run.
    limit: Duration,
}

impl Waited<'_> {
    /// That it failed.
    fn failed(&self, line: String, running: &Running, how: How) -> anyhow::Error {
        Failed::of_program(line, running.output(), self.who, how)
    }
}

impl Job<'_> {
    /// The command, as one would type it, but not for pages.
    pub(crate) fn name(&self) -> String {
        let words: Vec<_> = self.argv.iter().map(|w| w.to_string_lossy()).collect();
        format!("'{}'", Text::from(shell_words(&words)).cut(60))
    }

    /// Whose output is read, in words.
    pub(crate) fn who_prints(&self) -> &'static str {
        match self.load {
            None => "the program",
            Some(_) => "the load",
        }
    }

    /// Runs it once, watched. `when` says which run it is, for messages.
    pub(crate) fn run(
        &self,
        watcher: &mut dyn Watcher,
        setup: &Setup,
        when: &str,
    ) -> anyhow::Result<Ran> {
        interrupted()?;
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

    /// How long a run may take: what the user allows, and with a plan no longer than what is told from one that
    /// hangs.
    fn limit(&self, setup: &Setup) -> Duration {
        match self.longest_plain.get() {
            Some(longest) if setup != Setup::NONE => self.timeout.min(patience(longest)),
            _ => self.timeout,
        }
    }

    /// What to do about a run that was stopped after this time.
    fn more_time(&self, limit: Duration) -> String {
        match self.longest_plain.get() {
            Some(longest) if limit < self.timeout => format!(
                "without the plan it took {} s at most",
                short_seconds(longest)
            ),
            _ => "--timeout gives it more".to_owned(),
        }
    }

    fn run_command(
        &self,
        watcher: &mut dyn Watcher,
        setup: &Setup,
        when: &str,
    ) -> anyhow::Result<Ran> {
        let mut command = start(self.argv, setup, Some(watcher))?;
        let limit = self.limit(setup);
        let waited = Waited {
            who: "the program",
            name: &self.name(),
            when,
            deadline: Instant::now() + limit,
            limit,
        };
        let ended = self.wait(&mut command, watcher, &waited)?;
        watcher.end()?;
        self.stop_leftovers(&mut command)?;
        if !ended.status.is_success() {
            let line = format!("{} {} in {when}", self.name(), ended.status);
            return Err(waited.failed(line, &command, How::Ended(ended.status)));
        }
        Ok(Ran {
            usage: ended.usage,
            wall_ns: ended.usage.wall_ns,
            output: command.output(),
        })
    }

    fn run_server(
        &self,
        load: &Load,
        watcher: &mut dyn Watcher,
        setup: &Setup,
        when: &str,
    ) -> anyhow::Result<Ran> {
        if accepts(load.port) {
            return Err(usage(format!(
                "--ready {}: something accepts connections there before the server was started: stop it, or choose another port",
                load.port
            )));
        }
        let mut server = start(self.argv, setup, Some(watcher))?;
        let limit = self.limit(setup);
        let deadline = Instant::now() + limit;
        let waited = Waited {
            who: "the server",
            name: &self.name(),
            when,
            deadline,
            limit,
        };
        self.wait_ready(&mut server, watcher, load.port, &waited)?;
        watcher.begin()?;
        let shell = ["sh".into(), "-c".into(), load.command.clone().into()];
        // Without the plan: it is for the server.
        let mut client = start(&shell, Setup::NONE, None)?;
        let name = format!("the load '{}'", load.command);
        let load_waited = Waited {
            who: "the load",
            name: &name,
            ..waited
        };
        let ended = self.wait(&mut client, watcher, &load_waited)?;
        let died = server.try_wait()?;
        watcher.end()?;
        interrupted()?;
        if let Some(died) = died {
            let line = format!(
                "the server {} {} under the load in {when}",
                self.name(),
                died.status
            );
            return Err(waited.failed(line, &server, How::Ended(died.status)));
        }
        self.stop_leftovers(&mut client)?;
        if !ended.status.is_success() {
            let line = format!("{name} {} in {when}", ended.status);
            return Err(load_waited.failed(line, &client, How::Ended(ended.status)));
        }
        let stopped = server.stop_within(GRACE)?;
        self.wait_free(load.port)?;
        Ok(Ran {
            usage: stopped.usage,
            wall_ns: ended.usage.wall_ns,
            output: client.output(),
        })
    }

    /// Waits for the end of a command, and for no longer than it may take.
    fn wait(
        &self,
        running: &mut Running,
        watcher: &mut dyn Watcher,
        waited: &Waited<'_>,
    ) -> anyhow::Result<Ended> {
        loop {
            let nap = watcher.step()?;
            let left = waited.deadline.saturating_duration_since(Instant::now());
            self.progress.tick();
            if let Some(ended) = running.wait_timeout(nap.min(left))? {
                interrupted()?;
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
                return Err(waited.failed(line, running, How::NotEnded(waited.limit)));
            }
        }
    }

    fn wait_ready(
        &self,
        server: &mut Running,
        watcher: &mut dyn Watcher,
        port: u16,
        waited: &Waited<'_>,
    ) -> anyhow::Result<()> {
        let when = waited.when;
        loop {
            watcher.step()?;
            let ended = server.wait_timeout(KNOCK)?;
            interrupted()?;
            if let Some(ended) = ended {
                let hint = if server.leftovers().is_empty() {
                    ""
                } else {
                    "; it went to the background: start it so that it stays"
                };
                server.stop()?;
                let how = How::Ended(ended.status);
                let line = format!(
                    "the server {} {} before port {port} accepted, in {when}{hint}",
                    self.name(),
                    ended.status
                );
                return Err(waited.failed(line, server, how));
            }
            if accepts(port) {
                return Ok(());
            }
            self.progress.tick();
            if Instant::now() >= waited.deadline {
                server.stop()?;
                let line = format!(
                    "the server {} did not accept at port {port} within {} s in {when}; {}",
                    self.name(),
                    short_seconds(waited.limit),
                    self.more_time(waited.limit)
                );
                return Err(waited.failed(line, server, How::NotReady(waited.limit)));
            }
        }
    }

    /// Waits until the next server can have the port.
    fn wait_free(&self, port: u16) -> anyhow::Result<()> {
        let deadline = Instant::now() + GRACE;
        while accepts(port) {
            if Instant::now() >= deadline {
                return Err(Failed::error(
                    format!(
                        "port {port} still accepts after the server {} was stopped",
                        self.name()
                    ),
                    Vec::new(),
                ));
            }
            signals::poll(None, KNOCK)?;
            interrupted()?;
        }
        Ok(())
    }

    /// What the command left running would disturb the next run: it is stopped, and that is said.
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
                self.name(),
                list.join(", ")
            ));
        }
        Ok(())
    }
}

/// Starts a command with its output captured, and tells the watcher of it before it begins.
fn start(
    argv: &[OsString],
    setup: &Setup,
    watcher: Option<&mut dyn Watcher>,
) -> anyhow::Result<Running> {
    let held = launch::hold(&Spec {
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
            assert_eq!(patience(seconds(plain)), seconds(limit), "{plain}");
        }
    }
}
