//! Answers scrapes: `GET /metrics` and `GET /healthz`, HTTP/1.1, one request a connection.
//!
//! A scrape costs a copy of a text that exists already. Some threads answer, each one connection at a time and no longer than
//! [`CONNECTION_TIMEOUT`]; more connections wait in the kernel's queue, and are refused by it when that is full. So nobody who
//! scrapes often, slowly or without end makes the agent grow. And a connection that sends no request keeps nobody out: the oldest
//! such connection gives way while a few threads are still free.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::openmetrics::OPENMETRICS_CONTENT_TYPE;
use crate::tls::TlsFiles;
use crate::token_file::TokenFile;

/// A request has to be complete within this time,
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// and the whole connection, answer included, has to end within this one.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// A slow client occupies one of these threads. They sleep in accept(2), and have touched a page or two of their stacks.
const SERVER_THREADS: usize = 16;
/// So many threads stay free for clients that do ask: when one more connects, the oldest silent connection is closed.
const MIN_FREE_THREADS: usize = 4;
/// A request is a line and some headers, so it is small.
const MAX_REQUEST_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 64;

/// The answers to scrapes, and the counts of them.
#[derive(Debug, Default)]
pub struct ScrapePage {
    served: Mutex<ServedText>,
    /// Connections that have sent no request yet, the oldest first.
    silent: Mutex<VecDeque<Arc<TcpStream>>>,
}

#[derive(Debug, Default)]
struct ServedText {
    metrics: Arc<str>,
    /// After this time the text is too old, since the counting must have hung: `/healthz` says so, while `/metrics` still answers
    /// with it.
    until: Option<Instant>,
    scrapes: u64,
    refused: u64,
}

impl ScrapePage {
    fn lock_served(&self) -> std::sync::MutexGuard<'_, ServedText> {
        // A thread that failed leaves nothing half done: each change is one assignment.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_silent(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<TcpStream>>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection to those that have sent no request yet. Where it would leave fewer than [`MIN_FREE_THREADS`] for others,
    /// the oldest of them is closed.
    fn add_silent(&self, stream: &Arc<TcpStream>) {
        let mut silent = self.lock_silent();
        silent.push_back(Arc::clone(stream));
        if silent.len() > SERVER_THREADS - MIN_FREE_THREADS
            && let Some(oldest) = silent.pop_front()
        {
            // The thread that serves it reads the end.
            let _ = oldest.shutdown(Shutdown::Both);
        }
    }

    /// Called when its request is complete, or its end has come.
    fn remove_silent(&self, stream: &Arc<TcpStream>) {
        self.lock_silent()
            .retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// Sets the text that is served from now on; for so long `/healthz` says that all is well.
    pub fn set_metrics(&self, metrics: String, good_for: Duration) {
        let mut now = self.lock_served();
        now.metrics = metrics.into();
        now.until = Some(Instant::now() + good_for);
    }

    /// Number of scrapes of `/metrics`, and of connections that were refused, not understood or late. A scrape before the first
    /// figures counts as refused.
    #[must_use]
    pub fn request_counts(&self) -> (u64, u64) {
        let now = self.lock_served();
        (now.scrapes, now.refused)
    }
}

/// Serves scrapes from threads of its own, until the process ends. Returns the address, with the port that the kernel chose where
/// 0 was asked for.
///
/// # Errors
///
/// The address can't be listened at, or a thread can't be started.
pub fn start_server(
    listen: SocketAddr,
    token: Option<TokenFile>,
    tls: Option<TlsFiles>,
    page: Arc<ScrapePage>,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(listen).with_context(|| format!("listen at {listen}"))?;
    let at = listener.local_addr().context("listen")?;
    let server = Arc::new(ScrapeServer { token, tls, page });
    for n in 0..SERVER_THREADS {
        let listener = listener.try_clone().context("listen")?;
        let server = Arc::clone(&server);
        let answer = move || {
            loop {
                match listener.accept() {
                    // A client that hangs up in the middle is no error of the agent's.
                    Ok((stream, _)) => server.serve_connection(&Arc::new(stream)),
                    // The process is out of descriptors: others may close theirs.
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

/// What a connection is answered by.
struct ScrapeServer {
    token: Option<TokenFile>,
    tls: Option<TlsFiles>,
    page: Arc<ScrapePage>,
}

impl ScrapeServer {
    fn serve_connection(&self, stream: &Arc<TcpStream>) {
        self.page.add_silent(stream);
        let answered = self.answer_before_deadline(stream);
        self.page.remove_silent(stream);
        let mut now = self.page.lock_served();
        match answered {
            Ok(RequestKind::Metrics) => now.scrapes += 1,
            Ok(RequestKind::Other) => {}
            // The client sent no request in time, speaks no TLS, trusts another certificate, or hung up in the middle.
            Ok(RequestKind::Refused) | Err(_) => now.refused += 1,
        }
    }

    /// Answers the request of a connection, by TLS where there is a certificate. The deadlines hold for the handshake of TLS too.
    fn answer_before_deadline(&self, stream: &Arc<TcpStream>) -> io::Result<RequestKind> {
        let now = Instant::now();
        let heard = || self.page.remove_silent(stream);
        let mut stream = DeadlineStream {
            stream,
            asked_by: now + REQUEST_TIMEOUT,
            until: now + CONNECTION_TIMEOUT,
        };
        let Some(tls) = &self.tls else {
            return self.answer_request(&mut stream, heard);
        };
        let mut connection = rustls::ServerConnection::new(tls.get()).map_err(io::Error::other)?;
        let mut secured = rustls::Stream::new(&mut connection, &mut stream);
        let answered = self.answer_request(&mut secured, heard)?;
        connection.send_close_notify();
        connection.complete_io(&mut stream)?;
        Ok(answered)
    }

    /// Reads a request and answers it. `heard` is called in between: from then on the connection is not silent any more.
    fn answer_request(
        &self,
        stream: &mut (impl Read + Write),
        heard: impl FnOnce(),
    ) -> io::Result<RequestKind> {
        let asked = read_request(stream)?;
        heard();
        let (status, kind, body) = self.compose_reply(&asked);
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
        if !asked.is_head {
            stream.write_all(body.as_bytes())?;
        }
        // A 503 of /healthz is an answer, and no refusal.
        Ok(match (status, asked.path.as_str()) {
            ("200 OK", "/metrics") => RequestKind::Metrics,
            ("200 OK", _) | (_, "/healthz") => RequestKind::Other,
            _ => RequestKind::Refused,
        })
    }

    /// The status, the content type and the body of the answer.
    fn compose_reply(&self, asked: &ScrapeRequest) -> (&'static str, &'static str, Arc<str>) {
        const PLAIN_TEXT_TYPE: &str = "text/plain; charset=utf-8";
        let say = |status, text: &str| (status, PLAIN_TEXT_TYPE, Arc::from(text));
        if asked.path.is_empty() {
            return say("400 Bad Request", "that is no request of HTTP\n");
        }
        if !asked.is_allowed_method {
            return say("405 Method Not Allowed", "GET is all that there is\n");
        }
        match asked.path.as_str() {
            // Health says nothing of the host and needs no token: a kubelet has none.
            "/healthz" => {
                let until = self.page.lock_served().until;
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
                if self.token.as_ref().is_some_and(|token| {
                    !is_equal_in_constant_time(token.get().as_bytes(), given.as_bytes())
                }) {
                    return say(
                        "401 Unauthorized",
                        "Authorization: Bearer TOKEN is needed\n",
                    );
                }
                let metrics = Arc::clone(&self.page.lock_served().metrics);
                if metrics.is_empty() {
                    return say("503 Service Unavailable", "nothing is counted yet\n");
                }
                ("200 OK", OPENMETRICS_CONTENT_TYPE, metrics)
            }
            "/" => say("200 OK", "quell agent: /metrics, /healthz\n"),
            _ => say("404 Not Found", "there are /metrics and /healthz\n"),
        }
    }
}

enum RequestKind {
    Metrics,
    Other,
    Refused,
}

/// A connection with one deadline for all reads, and one for everything else.
struct DeadlineStream<'a> {
    stream: &'a TcpStream,
    asked_by: Instant,
    until: Instant,
}

/// The time until then, as sockets take it for a timeout. They refuse a time of zero ([`TcpStream::set_read_timeout`]), which is
/// told as an error here.
fn time_left(until: Instant) -> io::Result<Option<Duration>> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(Some(left))
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(time_left(self.asked_by)?)?;
        self.stream.read(to)
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(time_left(self.until)?)?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct ScrapeRequest {
    /// Empty where the request was not understood.
    path: String,
    is_head: bool,
    is_allowed_method: bool,
    bearer: Option<String>,
}

/// Reads until a request is complete. One that grows too large counts as not understood.
fn read_request(stream: &mut impl Read) -> io::Result<ScrapeRequest> {
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    loop {
        let n = stream.read(&mut part)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..n]);
        match parse_request(&bytes) {
            Some(asked) => return Ok(asked),
            None if bytes.len() > MAX_REQUEST_BYTES => return Ok(ScrapeRequest::default()),
            None => {}
        }
    }
}

/// `None` means that the request is not complete. One that can't be understood, or has more than [`MAX_HEADERS`], has an empty
/// path.
fn parse_request(bytes: &[u8]) -> Option<ScrapeRequest> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(ScrapeRequest::default()),
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
    Some(ScrapeRequest {
        path: path.split('?').next().unwrap_or_default().to_owned(),
        is_head: method == "HEAD",
        is_allowed_method: matches!(method, "GET" | "HEAD"),
        bearer: bearer.map(|(_, token)| token.trim().to_owned()),
    })
}

/// Compares in a time that does not depend on which byte differs, so that a client can't guess the token byte by byte.
fn is_equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && differ == 0
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
