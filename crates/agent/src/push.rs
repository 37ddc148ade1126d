//! Pushes figures to a server that may be down, slow or full, from a thread of its own.
//!
//! There is room for the newest figures and no more. While a server is away they replace each other: counters only grow, so
//! a later body includes an earlier one, and only the times between are lost. Each replacement is counted.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::config::url_without_secrets;
use crate::reloaded_files::ReloadedFiles;
use crate::small_file;
use crate::token_file::TokenFile;

/// A server has to answer within this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failure; it doubles with each further one, up to the maximum.
const MIN_RETRY_PAUSE: Duration = Duration::from_secs(1);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);
/// When the agent ends, the waiting body has to be sent within this time.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// An answer is read up to this size, enough for its message.
const MAX_ANSWER_BYTES: u64 = 4096;

/// A server, and how to speak to it.
#[derive(Clone, Debug)]
pub struct PushTarget {
    /// `influx` or `otlp`: its name in figures and messages.
    pub name: &'static str,
    /// A URL, or `-` for stdout.
    pub url: String,
    /// The scheme in `Authorization`, and the token's file.
    pub token: Option<(&'static str, Arc<TokenFile>)>,
    /// The authorities that may have signed the server's certificate.
    pub ca: Option<Arc<CertificateAuthorities>>,
    /// The content type of bodies.
    pub content_type: &'static str,
}

/// The number of bodies by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Taken by the server.
    pub pushed: u64,
    /// Refused, or without an answer.
    pub failed: u64,
    /// Replaced by newer ones before they could be sent.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct PushState {
    next: Option<Vec<u8>>,
    counts: PushCounts,
    /// A failure that was not reported yet.
    failure: Option<String>,
    closed: bool,
    /// The thread has ended.
    over: bool,
}

/// Sends bodies to one server from a thread of its own.
#[derive(Debug)]
pub struct Pusher {
    /// The server.
    pub to: PushTarget,
    state: Arc<(Mutex<PushState>, Condvar)>,
}

impl Pusher {
    /// Starts the thread that sends.
    ///
    /// # Errors
    ///
    /// The thread can't be started.
    pub fn start(to: PushTarget) -> anyhow::Result<Self> {
        let state = Arc::new((Mutex::new(PushState::default()), Condvar::new()));
        let (mine, target) = (Arc::clone(&state), to.clone());
        thread::Builder::new()
            .name(format!("push-{}", to.name))
            .stack_size(512 << 10)
            .spawn(move || {
                push_until_closed(&target, &mine);
                lock_state(&mine.0).over = true;
                mine.1.notify_all();
            })
            .context("start a thread that pushes")?;
        Ok(Self { to, state })
    }

    /// Sends this body next, instead of the one that still waits.
    pub fn push(&self, body: Vec<u8>) {
        let (state, changed) = &*self.state;
        let mut state = lock_state(state);
        if state.next.replace(body).is_some() {
            state.counts.dropped += 1;
        }
        changed.notify_all();
    }

    /// The counts so far, and the first failure in a row if it was not reported yet.
    pub fn counts_and_failure(&self) -> (PushCounts, Option<String>) {
        let mut state = lock_state(&self.state.0);
        (state.counts.clone(), state.failure.take())
    }

    /// Whether no body will be taken any more, as the reader of stdout has gone.
    pub fn is_over(&self) -> bool {
        lock_state(&self.state.0).over
    }

    /// Has the thread send the waiting body and end.
    pub fn close(&self) {
        lock_state(&self.state.0).closed = true;
        self.state.1.notify_all();
    }
}

fn lock_state(state: &Mutex<PushState>) -> MutexGuard<'_, PushState> {
    // Each change is whole before it can fail, so a poisoned lock is still right.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The authorities that may have signed a server's certificate, from a file that may be renewed.
pub type CertificateAuthorities = ReloadedFiles<Arc<RootCerts>>;

impl CertificateAuthorities {
    /// Reads the file, which has certificates as PEM.
    ///
    /// # Errors
    ///
    /// The file can't be read, or has no certificate.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::read_by(vec![path.to_owned()], |paths| {
            let path = &paths[0];
            small_file::ensure_small_file(path)?;
            let pem = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
            parse_certificates(&pem).map(Arc::new)
        })
    }
}

fn parse_certificates(pem: &[u8]) -> anyhow::Result<RootCerts> {
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
    /// Sends the waiting body if the server takes it soon. A receiver that doesn't, such as a full pipe, is not waited for: the
    /// thread ends with the process.
    fn drop(&mut self) {
        self.close();
        let until = Instant::now() + CLOSE_TIMEOUT;
        let mut state = lock_state(&self.state.0);
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

/// An HTTP client that trusts these roots, and without any those that browsers trust.
fn http_client(roots: Option<&RootCerts>) -> ureq::Agent {
    let tls = roots.map_or_else(TlsConfig::default, |roots| {
        TlsConfig::builder().root_certs(roots.clone()).build()
    });
    ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(ANSWER_TIMEOUT))
        .user_agent("quell")
        // An answer of 500 counts as a failure here, with its own message; so does a redirect, which is not followed.
        .http_status_as_error(false)
        .max_redirects(0)
        .build()
        .new_agent()
}

/// Sends bodies one after the other until [`Pusher::close`], or until the reader of stdout has gone. A body that fails is not
/// sent again: after the pause a newer one, which includes it, takes its place.
fn push_until_closed(to: &PushTarget, shared: &(Mutex<PushState>, Condvar)) {
    let (state, changed) = shared;
    let mut roots = to.ca.as_ref().map(|ca| ca.get());
    let mut agent = http_client(roots.as_deref());
    let mut pause = Duration::ZERO;
    let mut failing = false;
    loop {
        let mut now = lock_state(state);
        if !pause.is_zero() {
            // Newer figures come meanwhile, and replace each other.
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
        // A pointer to another place means that the file was read again.
        if now.as_ref().map(Arc::as_ptr) != roots.as_ref().map(Arc::as_ptr) {
            agent = http_client(now.as_deref());
            roots = now;
        }
        let done = send_body(&agent, to, &body);
        let mut now = lock_state(state);
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
                    now.failure = Some(format!("{err:#}"));
                }
                pause = (pause * 2).clamp(MIN_RETRY_PAUSE, MAX_RETRY_PAUSE);
            }
        }
        if last {
            return;
        }
    }
}

/// Sends one body. Any status but 2xx is an error, with the beginning of the server's answer.
fn send_body(agent: &ureq::Agent, to: &PushTarget, body: &[u8]) -> anyhow::Result<()> {
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
        .with_context(|| format!("push to {}", url_without_secrets(&to.url)))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let said = answer
        .body_mut()
        .with_config()
        .limit(MAX_ANSWER_BYTES)
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
        url_without_secrets(&to.url)
    )
}

#[cfg(test)]
#[path = "push_tests.rs"]
mod tests;
