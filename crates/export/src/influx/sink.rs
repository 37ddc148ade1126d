//! Where lines go while something is measured: a file, UDP datagrams, or POST requests of HTTP/1.1 (without TLS).
//!
//! Whoever measures calls this between two measurements, so it may take a moment, and a bounded one: a server that is gone
//! costs lines, which are counted, never the measurement.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A server may take this long to accept a connection, and as long again to answer.
const SERVER_TIMEOUT: Duration = Duration::from_secs(1);

/// After a failure nothing is tried for this long, because each try would wait for the server again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Bytes of a datagram: an Ethernet frame holds this many beside the headers of IPv6.
const MAX_DATAGRAM_BYTES: usize = 1432;

/// Of an answer no more is read; its reason stands in its first lines.
const MAX_ANSWER_BYTES: u64 = 4096;

/// The destination of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkTarget {
    /// A file, which is added to, or a pipe.
    File(PathBuf),
    /// A server that listens for datagrams: host and port.
    Udp(String),
    /// A server's path for writing: host and port, path and query.
    Http {
        /// `HOST:PORT`.
        server: String,
        /// `/write?db=NAME`.
        path: String,
    },
}

impl SinkTarget {
    /// `FILE`, `udp://HOST:PORT` or `http://HOST:PORT/write?db=NAME`.
    ///
    /// # Errors
    ///
    /// A line that says how it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let known = "write FILE, udp://HOST:PORT or http://HOST:PORT/write?db=NAME";
        let with_port = |server: &str, default: &str| match server.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => Ok(server.to_owned()),
            // An address of IPv6 without a port ends with a bracket.
            Some((_, port)) if !port.ends_with(']') => Err(format!("'{port}' is no port: {known}")),
            _ if default.is_empty() || server.is_empty() => {
                Err(format!("there is no port: {known}"))
            }
            _ => Ok(format!("{server}:{default}")),
        };
        if text.chars().any(|c| c.is_control()) || text.is_empty() {
            return Err(format!("that is no address: {known}"));
        }
        if let Some(server) = text.strip_prefix("udp://") {
            return Ok(Self::Udp(with_port(server.trim_end_matches('/'), "")?));
        }
        if let Some(rest) = text.strip_prefix("http://") {
            let (server, path) = match rest.find('/') {
                Some(at) => rest.split_at(at),
                None => return Err(format!("there is no path: {known}")),
            };
            if server.contains('@') {
                return Err(
                    "a name and a password go after the path: ...&u=NAME&p=PASSWORD".to_owned(),
                );
            }
            if path.contains([' ', '#']) {
                return Err(format!(
                    "spaces and # are written %20 and %23 there: {known}"
                ));
            }
            return Ok(Self::Http {
                server: with_port(server, "8086")?,
                path: path.to_owned(),
            });
        }
        if text == "-" {
            return Err(
                "stdout has the result; for the lines there too, write /dev/stdout".to_owned(),
            );
        }
        match text.split_once("://") {
            Some(("https", _)) => {
                Err("there is no TLS here: write to a local server or proxy by http://".to_owned())
            }
            Some((scheme, _)) => Err(format!("'{scheme}' is not known: {known}")),
            None => Ok(Self::File(text.into())),
        }
    }

    /// The destination as it may be shown: the query after the path may hold a password.
    #[must_use]
    pub fn shown_text(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Udp(server) => format!("udp://{server}"),
            Self::Http { server, .. } => format!("http://{server}"),
        }
    }
}

#[derive(Debug)]
enum SinkChannel {
    File(File),
    Udp(UdpSocket),
    Http {
        agent: ureq::Agent,
        url: String,
        token: Option<String>,
    },
}

/// The open destination of lines.
#[derive(Debug)]
pub struct Sink {
    way: SinkChannel,
    lost: u64,
    told: bool,
    not_before: Option<Instant>,
}

impl Sink {
    /// Opens it; `token` is the token that InfluxDB from 2.0 on needs.
    ///
    /// # Errors
    ///
    /// The file can't be opened, or the name of a server for datagrams not be resolved.
    pub fn open(target: &SinkTarget, token: Option<String>) -> io::Result<Self> {
        let way = match target {
            SinkTarget::File(path) => {
                SinkChannel::File(OpenOptions::new().create(true).append(true).open(path)?)
            }
            SinkTarget::Udp(server) => {
                let at: Vec<SocketAddr> = server.to_socket_addrs()?.collect();
                let any = match at.first() {
                    Some(first) if first.is_ipv4() => "0.0.0.0:0",
                    Some(_) => "[::]:0",
                    None => return Err(io::Error::other("the name has no address")),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(&at[..])?;
                // With a full buffer it loses lines rather than time.
                socket.set_nonblocking(true)?;
                SinkChannel::Udp(socket)
            }
            SinkTarget::Http { server, path } => SinkChannel::Http {
                agent: http_client(),
                url: format!("http://{server}{path}"),
                token,
            },
        };
        Ok(Self {
            way,
            lost: 0,
            told: false,
            not_before: None,
        })
    }

    /// Lines that nobody took, as far as this side knows: a datagram may be lost in silence.
    #[must_use]
    pub fn lost_lines(&self) -> u64 {
        self.lost
    }

    /// Sends whole lines. Lines that fail are counted; the first failure of all also returns its reason. After a server has
    /// failed, lines are lost for `RETRY_PAUSE` without a try.
    pub fn send_lines(&mut self, lines: &str) -> Option<String> {
        if lines.is_empty() {
            return None;
        }
        let n = lines.lines().count() as u64;
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            self.lost += n;
            return None;
        }
        match self.try_send(lines) {
            Ok(()) => {
                self.not_before = None;
                None
            }
            Err((lost, err)) => {
                self.lost += lost.min(n);
                if matches!(self.way, SinkChannel::Http { .. }) {
                    self.not_before = Some(Instant::now() + RETRY_PAUSE);
                }
                let first = !std::mem::replace(&mut self.told, true);
                first.then(|| err.to_string())
            }
        }
    }

    /// On failure, how many lines were lost, and why. Of a file and of a server all count as lost, though some may have arrived.
    fn try_send(&mut self, lines: &str) -> Result<(), (u64, io::Error)> {
        let all = lines.lines().count() as u64;
        match &mut self.way {
            SinkChannel::File(file) => file.write_all(lines.as_bytes()).map_err(|err| (all, err)),
            SinkChannel::Udp(socket) => {
                let mut failed: Option<(u64, io::Error)> = None;
                for datagram in split_datagrams(lines) {
                    if let Err(err) = socket.send(datagram.as_bytes()) {
                        let lost = datagram.lines().count() as u64;
                        let before = failed.map_or(0, |(n, _)| n);
                        failed = Some((before + lost, err));
                    }
                }
                failed.map_or(Ok(()), Err)
            }
            SinkChannel::Http { agent, url, token } => {
                post_lines(agent, url, token.as_deref(), lines).map_err(|err| (all, err))
            }
        }
    }
}

/// Whole lines, as many as a datagram holds; a line that is longer goes alone.
fn split_datagrams(lines: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut begin = 0;
    let mut end = 0;
    for line in lines.split_inclusive('\n') {
        if end > begin && end - begin + line.len() > MAX_DATAGRAM_BYTES {
            out.push(&lines[begin..end]);
            begin = end;
        }
        end += line.len();
    }
    if end > begin {
        out.push(&lines[begin..end]);
    }
    out
}

/// A client that waits for no server longer than a moment.
fn http_client() -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_connect(Some(SERVER_TIMEOUT))
        .timeout_recv_response(Some(SERVER_TIMEOUT))
        .timeout_global(Some(2 * SERVER_TIMEOUT))
        .user_agent("quell")
        // By default ureq takes a proxy from the environment.
        .proxy(None)
        // Any status but 2xx is a failure here, with the server's words.
        .http_status_as_error(false)
        .max_redirects(0)
        .build()
        .new_agent()
}

/// One request on a connection of its own. Anything but 2xx is a failure, with the server's words.
fn post_lines(agent: &ureq::Agent, url: &str, token: Option<&str>, lines: &str) -> io::Result<()> {
    let mut request = agent
        .post(url)
        .content_type("text/plain; charset=utf-8")
        .header("Connection", "close");
    if let Some(token) = token {
        request = request.header("Authorization", format!("Token {token}"));
    }
    let no_answer = || io::Error::other("the server does not answer");
    let mut answer = request.send(lines).map_err(|err| match err {
        ureq::Error::Timeout(_) => no_answer(),
        ureq::Error::Protocol(_) => io::Error::other("what answers there is no HTTP server"),
        err => match err.into_io() {
            err if err.kind() == io::ErrorKind::UnexpectedEof => no_answer(),
            err => err,
        },
    })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let mut said = Vec::new();
    let body = answer.body_mut().as_reader();
    // The words that came count, even if the rest does not come.
    let _ = body.take(MAX_ANSWER_BYTES).read_to_end(&mut said);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let said = String::from_utf8_lossy(&said);
    let said: String = said.trim().chars().take(200).map(plain).collect();
    Err(io::Error::other(format!(
        "the server answers {}: {said}",
        status.as_u16()
    )))
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
