//! Pushes figures to a server that may be down, slow or full, from a thread of its own.
//!
//! There is room for the newest figures and no more. While a server is away they replace each other: counters only grow, so
//! what comes later has what was before, and only the times between are lost. How often is counted.

use std::io::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

/// A server is to have answered by then.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a failure, and twice as long after each more, up to the last.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Of an answer no more is read.
const ANSWER: u64 = 4096;

/// Where it goes.
#[derive(Clone, Debug)]
pub struct To {
    /// `influx` or `otlp`, as it is told.
    pub name: &'static str,
    /// A URL, or `-` for stdout.
    pub url: String,
    /// The whole value of `Authorization`.
    pub authorization: Option<String>,
    /// The kind of content.
    pub content_type: &'static str,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken by the server.
    pub pushed: u64,
    /// Refused, or without an answer.
    pub failed: u64,
    /// Replaced by newer ones before they could be sent.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct State {
    next: Option<Vec<u8>>,
    counts: Counts,
    /// What went wrong, and was not told yet.
    wrong: Option<String>,
    closed: bool,
}

/// Pushes.
#[derive(Debug)]
pub struct Pusher {
    /// Where.
    pub to: To,
    state: Arc<(Mutex<State>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Pusher {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// It can't be started.
    pub fn start(to: To) -> anyhow::Result<Self> {
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let (mine, target) = (Arc::clone(&state), to.clone());
        let thread = thread::Builder::new()
            .name(format!("push-{}", to.name))
            .stack_size(512 << 10)
            .spawn(move || run(&target, &mine))
            .context("start a thread that pushes")?;
        Ok(Self {
            to,
            state,
            thread: Some(thread),
        })
    }

    /// To be sent next, instead of what still waits.
    pub fn push(&self, body: Vec<u8>) {
        let (state, changed) = &*self.state;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.next.replace(body).is_some() {
            state.counts.dropped += 1;
        }
        changed.notify_one();
    }

    /// What was done so far, and what went wrong since the last call, if something did for the first time in a row.
    pub fn look(&self) -> (Counts, Option<String>) {
        let mut state = self.state.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.counts.clone(), state.wrong.take())
    }
}

impl Drop for Pusher {
    /// Sends what waits, if the server takes it at once.
    fn drop(&mut self) {
        let (state, changed) = &*self.state;
        state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(to: &To, shared: &(Mutex<State>, Condvar)) {
    let (state, changed) = shared;
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .user_agent("quell")
        // an answer of 500 is one of those that fail
        .http_status_as_error(false)
        .max_redirects(0)
        .build()
        .new_agent();
    let mut pause = Duration::ZERO;
    let mut failing = false;
    loop {
        let mut now = state.lock().unwrap_or_else(PoisonError::into_inner);
        if !pause.is_zero() {
            // newer figures come meanwhile, and replace each other
            let waited = changed.wait_timeout_while(now, pause, |s| !s.closed);
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        while now.next.is_none() && !now.closed {
            now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        let Some(body) = now.next.take() else {
            return;
        };
        let last = now.closed;
        drop(now);
        let done = send(&agent, to, &body);
        let mut now = state.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(()) => {
                now.counts.pushed += 1;
                pause = Duration::ZERO;
                failing = false;
            }
            Err(err) => {
                now.counts.failed += 1;
                if !std::mem::replace(&mut failing, true) {
                    now.wrong = Some(format!("{err:#}"));
                }
                pause = (pause * 2).clamp(PAUSE, LONGEST);
            }
        }
        if last {
            return;
        }
    }
}

fn send(agent: &ureq::Agent, to: &To, body: &[u8]) -> anyhow::Result<()> {
    if to.url == "-" {
        let mut out = io::stdout().lock();
        return out
            .write_all(body)
            .and_then(|()| out.flush())
            .context("write to stdout");
    }
    let mut request = agent.post(&to.url).content_type(to.content_type);
    if let Some(authorization) = &to.authorization {
        request = request.header("Authorization", authorization);
    }
    let mut answer = request
        .send(body)
        .with_context(|| format!("push to {}", shown(&to.url)))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let said = answer
        .body_mut()
        .with_config()
        .limit(ANSWER)
        .read_to_string()
        .unwrap_or_default();
    let said: String = said
        .trim()
        .chars()
        .take(200)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    anyhow::bail!(
        "push to {}: the server answers {status}: {said}",
        shown(&to.url)
    )
}

/// As it may be shown: what comes after the path may be a password.
fn shown(url: &str) -> &str {
    let url = url.split('?').next().unwrap_or_default();
    match url.rsplit_once('@') {
        Some((_, server)) => server,
        None => url,
    }
}

#[cfg(test)]
#[path = "push_tests.rs"]
mod tests;
