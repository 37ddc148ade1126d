//! Pushes figures to a server that may be down, slow or full, from a thread of its own.
//!
//! There is room for the newest figures and no more. While a server is away they replace each other: counters only grow, so
//! what comes later has what was before, and only the times between are lost. How often is counted.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::config::shown;
use crate::renewed::Renewed;
use crate::secret::Secret;
use crate::small;

/// A server is to have answered by then.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a failure, and twice as long after each more, up to the last.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// When the agent ends, what waits is to be sent by then.
const HASTE: Duration = Duration::from_secs(3);
/// Of an answer no more is read.
const ANSWER: u64 = 4096;

/// Where it goes.
#[derive(Clone, Debug)]
pub struct To {
    /// `influx` or `otlp`, as it is told.
    pub name: &'static str,
    /// A URL, or `-` for stdout.
    pub url: String,
    /// What is before the token in `Authorization`, and the token.
    pub token: Option<(&'static str, Arc<Secret>)>,
    /// Who may have signed the server's certificate.
    pub ca: Option<Arc<Ca>>,
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
    /// The thread has ended.
    over: bool,
}

/// Pushes.
#[derive(Debug)]
pub struct Pusher {
    /// Where.
    pub to: To,
    state: Arc<(Mutex<State>, Condvar)>,
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
        thread::Builder::new()
            .name(format!("push-{}", to.name))
            .stack_size(512 << 10)
            .spawn(move || {
                run(&target, &mine);
                lock(&mine.0).over = true;
                mine.1.notify_all();
            })
            .context("start a thread that pushes")?;
        Ok(Self { to, state })
    }

    /// To be sent next, instead of what still waits.
    pub fn push(&self, body: Vec<u8>) {
        let (state, changed) = &*self.state;
        let mut state = lock(state);
        if state.next.replace(body).is_some() {
            state.counts.dropped += 1;
        }
        changed.notify_all();
    }

    /// What was done so far, and what went wrong since the last call, if something did for the first time in a row.
    pub fn look(&self) -> (Counts, Option<String>) {
        let mut state = lock(&self.state.0);
        (state.counts.clone(), state.wrong.take())
    }

    /// Whether nobody will ever take more: who reads stdout has gone.
    pub fn is_over(&self) -> bool {
        lock(&self.state.0).over
    }

    /// Has it send what waits and end.
    pub fn close(&self) {
        lock(&self.state.0).closed = true;
        self.state.1.notify_all();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // each change is whole before it can fail
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who may have signed a server's certificate, from a file that may be renewed.
#[derive(Debug)]
pub struct Ca(Renewed<Arc<RootCerts>>);

impl Ca {
    /// Reads the file: certificates as PEM.
    ///
    /// # Errors
    ///
    /// It can't be read, or has none.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Ok(Self(Renewed::read(vec![path.to_owned()], |paths| {
            let path = &paths[0];
            small::check(path)?;
            let pem = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
            certificates(&pem).map(Arc::new)
        })?))
    }

    fn get(&self) -> Arc<RootCerts> {
        self.0.get()
    }
}

fn certificates(pem: &[u8]) -> anyhow::Result<RootCerts> {
    let all = parse_pem(pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(cert)) => Some(Ok(cert)),
        Ok(_) => None,
        Err(err) => Some(Err(err)),
    });
    let all: Vec<_> = all.collect::<Result<_, _>>().context("read ca_file")?;
    anyhow::ensure!(
        !all.is_empty(),
        "ca_file: there is no certificate in it (PEM)"
    );
    Ok(RootCerts::from(all))
}

impl Drop for Pusher {
    /// Sends what waits, if it is taken soon. Whoever does not take it, as a pipe that is full, is not waited for: the thread
    /// ends with the process.
    fn drop(&mut self) {
        self.close();
        let until = Instant::now() + HASTE;
        let mut state = lock(&self.state.0);
        while !state.over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.state.1.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What speaks HTTP, and trusts these.
fn client(roots: Option<&RootCerts>) -> ureq::Agent {
    let tls = roots.map_or_else(TlsConfig::default, |roots| {
        TlsConfig::builder().root_certs(roots.clone()).build()
    });
    ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(PATIENCE))
        .user_agent("quell")
        // an answer of 500 is one of those that fail
        .http_status_as_error(false)
        .max_redirects(0)
        .build()
        .new_agent()
}

fn run(to: &To, shared: &(Mutex<State>, Condvar)) {
    let (state, changed) = shared;
    let mut roots = to.ca.as_ref().map(|ca| ca.get());
    let mut agent = client(roots.as_deref());
    let mut pause = Duration::ZERO;
    let mut failing = false;
    loop {
        let mut now = lock(state);
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
        let now = to.ca.as_ref().map(|ca| ca.get());
        if now.as_ref().map(Arc::as_ptr) != roots.as_ref().map(Arc::as_ptr) {
            agent = client(now.as_deref());
            roots = now;
        }
        let done = send(&agent, to, &body);
        let mut now = lock(state);
        match done {
            Ok(()) => {
                now.counts.pushed += 1;
                pause = Duration::ZERO;
                failing = false;
            }
            Err(err) => {
                now.counts.failed += 1;
                let kind = err.downcast_ref::<io::Error>().map(io::Error::kind);
                if kind == Some(io::ErrorKind::BrokenPipe) && to.url == "-" {
                    return;
                }
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
    if let Some((scheme, token)) = &to.token {
        request = request.header("Authorization", format!("{scheme} {}", token.get()));
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

#[cfg(test)]
#[path = "push_tests.rs"]
mod tests;
