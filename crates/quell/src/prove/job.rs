//! What is run again and again: a command, or a server with a load.

use std::cell::Cell;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::failed::{Failed, Interrupted};
use super::plan_text::shell_words;
use super::progress::Progress;
use super::watch::Watcher;
use crate::cmd::usage;
use crate::launch::{self, Ended, Output, Running, Setup, Spec, Usage, signals};

/// How often a server that starts is asked whether it is ready.
const KNOCK: Duration = Duration::from_millis(20);
/// How long a server may take to end by SIGTERM: it may have data to write.
const GRACE: Duration = Duration::from_secs(10);

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
    pub(crate) progress: &'a Progress,
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

fn accepts(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

fn interrupted() -> anyhow::Result<()> {
    signals::interrupted().map_or(Ok(()), |signal| Err(Interrupted(signal).into()))
}

impl Job<'_> {
    /// The command, as one would type it, but not for pages.
    pub(crate) fn name(&self) -> String {
        let words: Vec<_> = self.argv.iter().map(|w| w.to_string_lossy()).collect();
        let text = shell_words(&words);
        match text.char_indices().nth(60) {
            Some((at, _)) => format!("'{}…'", &text[..at]),
            None => format!("'{text}'"),
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
        match &self.load {
            None => self.run_command(watcher, setup, when),
            Some(load) => self.run_server(load, watcher, setup, when),
        }
    }

    fn run_command(
        &self,
        watcher: &mut dyn Watcher,
        setup: &Setup,
        when: &str,
    ) -> anyhow::Result<Ran> {
        let mut command = start(self.argv, setup, Some(watcher))?;
        let deadline = Instant::now() + self.timeout;
        let ended = self.wait(&mut command, watcher, deadline, &self.name(), when)?;
        watcher.end()?;
        self.stop_leftovers(&mut command)?;
        if !ended.status.is_success() {
            let line = format!("{} {} in {when}", self.name(), ended.status);
            return Err(Failed::error(line, command.output()));
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
        let deadline = Instant::now() + self.timeout;
        self.wait_ready(&mut server, watcher, load.port, deadline, when)?;
        watcher.begin()?;
        let shell = ["sh".into(), "-c".into(), load.command.clone().into()];
        // Without the plan: it is for the server.
        let mut client = start(&shell, Setup::NONE, None)?;
        let name = format!("the load '{}'", load.command);
        let ended = self.wait(&mut client, watcher, deadline, &name, when)?;
        let died = server.try_wait()?;
        watcher.end()?;
        interrupted()?;
        if let Some(died) = died {
            let line = format!(
                "the server {} {} under the load in {when}",
                self.name(),
                died.status
            );
            return Err(Failed::error(line, server.output()));
        }
        self.stop_leftovers(&mut client)?;
        if !ended.status.is_success() {
            let line = format!("{name} {} in {when}", ended.status);
            return Err(Failed::error(line, client.output()));
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
        deadline: Instant,
        name: &str,
        when: &str,
    ) -> anyhow::Result<Ended> {
        loop {
            let nap = watcher.step()?;
            let left = deadline.saturating_duration_since(Instant::now());
            self.progress.tick();
            if let Some(ended) = running.wait_timeout(nap.min(left))? {
                interrupted()?;
                return Ok(ended);
            }
            if left.is_zero() {
                running.stop()?;
                let seconds = self.timeout.as_secs_f64();
                let line = format!(
                    "{name} took longer than {seconds} s in {when} and was stopped; --timeout gives it more"
                );
                return Err(Failed::error(line, running.output()));
            }
        }
    }

    fn wait_ready(
        &self,
        server: &mut Running,
        watcher: &mut dyn Watcher,
        port: u16,
        deadline: Instant,
        when: &str,
    ) -> anyhow::Result<()> {
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
                let line = format!(
                    "the server {} {} before port {port} accepted, in {when}{hint}",
                    self.name(),
                    ended.status
                );
                return Err(Failed::error(line, server.output()));
            }
            if accepts(port) {
                return Ok(());
            }
            self.progress.tick();
            if Instant::now() >= deadline {
                server.stop()?;
                let seconds = self.timeout.as_secs_f64();
                let line = format!(
                    "the server {} did not accept at port {port} within {seconds} s in {when}",
                    self.name()
                );
                return Err(Failed::error(line, server.output()));
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
    })?;
    if let Some(watcher) = watcher {
        watcher.add(held.pid())?;
    }
    held.release()
}
