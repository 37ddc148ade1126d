//! Answers scrapes: `GET /metrics` and `GET /healthz`, HTTP/1.1, one request a connection.
//!
//! A scrape costs a copy of a text that is there already. Some threads answer, each one connection at a time and no longer
//! than [`PATIENCE`]; more connections wait in the kernel's queue, and are refused by it when that is full. So nobody who
//! scrapes often, slowly or without end makes the agent grow. And whoever connects and asks for nothing keeps nobody out: the
//! oldest of them gives way while a few threads are still free.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::openmetrics::CONTENT_TYPE;
use crate::secret::Secret;
use crate::tls::Tls;

/// Whoever connects is to have asked by then,
const ASKED: Duration = Duration::from_secs(2);
/// and taken the answer by then.
const PATIENCE: Duration = Duration::from_secs(5);
/// One that asks slowly keeps one of so many busy. They sleep in accept(2), and have touched a page or two of their stacks.
const THREADS: usize = 16;
/// So many stay free for who asks: one more that has not asked yet, and the oldest of those is hung up on.
const FREE: usize = 4;
/// A request is a line and some headers.
const MOST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;

/// What is answered.
#[derive(Debug, Default)]
pub struct Page {
    now: Mutex<Now>,
    /// Connections that have not asked yet, the oldest first.
    silent: Mutex<VecDeque<Arc<TcpStream>>>,
}

#[derive(Debug, Default)]
struct Now {
    metrics: Arc<str>,
    /// When that is too old: whoever counts has hung.
    until: Option<Instant>,
    scrapes: u64,
    refused: u64,
}

impl Page {
    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        // what another thread was doing when it failed is not half done: each change is one assignment
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<TcpStream>>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn came(&self, stream: &Arc<TcpStream>) {
        let mut silent = self.silent();
        silent.push_back(Arc::clone(stream));
        if silent.len() > THREADS - FREE
            && let Some(oldest) = silent.pop_front()
        {
            // its thread reads the end
            let _ = oldest.shutdown(Shutdown::Both);
        }
    }

    /// It has asked, or its end has come.
    fn heard(&self, stream: &Arc<TcpStream>) {
        self.silent().retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// From now on this is what is answered; the agent is well for so long.
    pub fn set(&self, metrics: String, good_for: Duration) {
        let mut now = self.now();
        now.metrics = metrics.into();
        now.until = Some(Instant::now() + good_for);
    }

    /// How often `/metrics` was answered, and how many connections were refused, not understood or late.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let now = self.now();
        (now.scrapes, now.refused)
    }
}

/// Answers from now on, until the process ends.
///
/// # Errors
///
/// The address can't be listened at.
pub fn start(
    listen: SocketAddr,
    token: Option<Secret>,
    tls: Option<Tls>,
    page: Arc<Page>,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(listen).with_context(|| format!("listen at {listen}"))?;
    let at = listener.local_addr().context("listen")?;
    let token = token.map(Arc::new);
    let tls = tls.map(Arc::new);
    for n in 0..THREADS {
        let listener = listener.try_clone().context("listen")?;
        let (token, tls, page) = (token.clone(), tls.clone(), Arc::clone(&page));
        let answer = move || {
            loop {
                match listener.accept() {
                    // whoever hangs up in the middle has only itself to blame
                    Ok((stream, _)) => {
                        connected(&Arc::new(stream), tls.as_deref(), token.as_deref(), &page);
                    }
                    // out of descriptors: others may close theirs
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        };
        let builder = thread::Builder::new()
            .name(format!("serve-{n}"))
            .stack_size(128 << 10);
        builder
            .spawn(answer)
            .context("start a thread that answers")?;
    }
    Ok(at)
}

fn connected(stream: &Arc<TcpStream>, tls: Option<&Tls>, token: Option<&Secret>, page: &Page) {
    page.came(stream);
    let answered = conversation(stream, tls, token, page);
    page.heard(stream);
    let mut now = page.now();
    match answered {
        Ok(Outcome::Metrics) => now.scrapes += 1,
        Ok(Outcome::Other) => {}
        // whoever asks for nothing in time, speaks no TLS, trusts another certificate, or hangs up in the middle
        Ok(Outcome::Refused) | Err(_) => now.refused += 1,
    }
}

enum Outcome {
    Metrics,
    Other,
    Refused,
}

fn conversation(
    stream: &Arc<TcpStream>,
    tls: Option<&Tls>,
    token: Option<&Secret>,
    page: &Page,
) -> io::Result<Outcome> {
    let now = Instant::now();
    let heard = || page.heard(stream);
    let mut stream = Hurried {
        stream,
        asked_by: now + ASKED,
        until: now + PATIENCE,
    };
    let Some(tls) = tls else {
        return answer(&mut stream, token, page, heard);
    };
    let mut connection = rustls::ServerConnection::new(tls.config()).map_err(io::Error::other)?;
    let answered = answer(
        &mut rustls::Stream::new(&mut connection, &mut stream),
        token,
        page,
        heard,
    )?;
    connection.send_close_notify();
    connection.complete_io(&mut stream)?;
    Ok(answered)
}

fn answer(
    stream: &mut (impl Read + Write),
    token: Option<&Secret>,
    page: &Page,
    heard: impl FnOnce(),
) -> io::Result<Outcome> {
    let asked = read_request(stream)?;
    heard();
    let (status, kind, body) = reply(&asked, token, page);
    let authenticate = if status.starts_with("401") {
        "WWW-Authenticate: Bearer\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{authenticate}Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if !asked.head {
        stream.write_all(body.as_bytes())?;
    }
    Ok(match (status, asked.path.as_str()) {
        ("200 OK", "/metrics") => Outcome::Metrics,
        ("200 OK", _) | (_, "/healthz") => Outcome::Other,
        _ => Outcome::Refused,
    })
}

/// A connection with one deadline for all that is read from it, and one for all that is done on it.
struct Hurried<'a> {
    stream: &'a TcpStream,
    asked_by: Instant,
    until: Instant,
}

fn left(until: Instant) -> io::Result<Option<Duration>> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(Some(left))
}

impl Read for Hurried<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(left(self.asked_by)?)?;
        self.stream.read(to)
    }
}

impl Write for Hurried<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(left(self.until)?)?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    /// Empty: nothing that was understood.
    path: String,
    head: bool,
    allowed_method: bool,
    bearer: Option<String>,
}

fn read_request(stream: &mut impl Read) -> io::Result<Asked> {
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    loop {
        let n = stream.read(&mut part)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..n]);
        match parse(&bytes) {
            Some(asked) => return Ok(asked),
            None if bytes.len() > MOST_BYTES => return Ok(Asked::default()),
            None => {}
        }
    }
}

/// `None`: there is more to come.
fn parse(bytes: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Asked::default()),
    }
    let bearer = request
        .headers
        .iter()
        .find(|h| h.name.eq_ignore_ascii_case("authorization"));
    let bearer = bearer.and_then(|h| std::str::from_utf8(h.value).ok());
    let bearer = bearer.and_then(|text| text.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let path = request.path.unwrap_or_default();
    let method = request.method.unwrap_or_default();
    Some(Asked {
        path: path.split('?').next().unwrap_or_default().to_owned(),
        head: method == "HEAD",
        allowed_method: matches!(method, "GET" | "HEAD"),
        bearer: bearer.map(|(_, token)| token.trim().to_owned()),
    })
}

fn reply(
    asked: &Asked,
    token: Option<&Secret>,
    page: &Page,
) -> (&'static str, &'static str, Arc<str>) {
    const TEXT: &str = "text/plain; charset=utf-8";
    let say = |status, text: &str| (status, TEXT, Arc::from(text));
    if asked.path.is_empty() {
        return say("400 Bad Request", "that is no request of HTTP\n");
    }
    if !asked.allowed_method {
        return say("405 Method Not Allowed", "GET is all that there is\n");
    }
    match asked.path.as_str() {
        // says nothing of the host, so it needs no token: a kubelet has none
        "/healthz" => {
            let until = page.now().until;
            match until {
                Some(until) if Instant::now() < until => say("200 OK", "ok\n"),
                Some(_) => say(
                    "503 Service Unavailable",
                    "nothing was counted for too long\n",
                ),
                None => say("503 Service Unavailable", "nothing is counted yet\n"),
            }
        }
        "/metrics" => {
            let given = asked.bearer.as_deref().unwrap_or_default();
            if token.is_some_and(|token| !same(token.get().as_bytes(), given.as_bytes())) {
                return say(
                    "401 Unauthorized",
                    "Authorization: Bearer TOKEN is needed\n",
                );
            }
            let metrics = Arc::clone(&page.now().metrics);
            if metrics.is_empty() {
                return say("503 Service Unavailable", "nothing is counted yet\n");
            }
            ("200 OK", CONTENT_TYPE, metrics)
        }
        "/" => say("200 OK", "quell agent: /metrics, /healthz\n"),
        _ => say("404 Not Found", "there are /metrics and /healthz\n"),
    }
}

/// Takes as long whichever byte differs.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && differ == 0
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
