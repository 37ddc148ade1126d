use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Instant;

use super::*;

/// A server that answers each request with the next of these, and tells what it was asked.
fn server(answers: &'static [&'static str]) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("an address");
    let at = listener.local_addr().expect("an address");
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().expect("a connection");
            let _ = tell.send(read(&stream));
            let text =
                format!("HTTP/1.1 {answer}\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n");
            (&stream).write_all(text.as_bytes()).expect("answered");
        }
    });
    (at, told)
}

fn read(mut stream: &TcpStream) -> String {
    let mut all = Vec::new();
    let mut part = [0; 4096];
    loop {
        let n = stream.read(&mut part).expect("a request");
        all.extend_from_slice(&part[..n]);
        let text = String::from_utf8_lossy(&all);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_ascii_lowercase();
            let length = length
                .split("content-length: ")
                .nth(1)
                .and_then(|l| l.lines().next()?.parse::<usize>().ok());
            if body.len() >= length.unwrap_or(0) {
                return text.into_owned();
            }
        }
    }
}

fn token() -> TokenFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "t\n").expect("written");
    TokenFile::read(file.path()).expect("a token")
}

fn to(at: SocketAddr) -> PushTarget {
    PushTarget {
        name: "influx",
        url: format!("http://{at}/write?db=a&p=secret"),
        token: Some(("Token", Arc::new(token()))),
        ca: None,
        content_type: "text/plain; charset=utf-8",
    }
}

fn wait_for(pusher: &Pusher, wanted: impl Fn(&PushCounts) -> bool) -> (PushCounts, Option<String>) {
    let until = Instant::now() + Duration::from_secs(300);
    let mut wrong = None;
    loop {
        let (counts, now) = pusher.counts_and_failure();
        wrong = wrong.or(now);
        if wanted(&counts) || Instant::now() > until {
            return (counts, wrong);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Check that what is pushed arrives whole with its headers, and that a server that fails first gets the newest figures
/// later, the failure told once and without the password.
#[test]
fn the_newest_arrives() {
    let (at, told) = server(&["500 Oh", "204 Ok"]);
    let pusher = Pusher::start(to(at)).expect("a thread");
    pusher.push(b"first".to_vec());
    let (counts, wrong) = wait_for(&pusher, |c| c.failed == 1);
    assert_eq!(counts.failed, 1);
    let wrong = wrong.expect("told");
    assert!(
        wrong.contains("500") && !wrong.contains("secret"),
        "{wrong}"
    );
    pusher.push(b"second".to_vec());
    pusher.push(b"third".to_vec());
    let (counts, wrong) = wait_for(&pusher, |c| c.pushed == 1);
    assert_eq!((counts.pushed, counts.failed, counts.dropped), (1, 1, 1));
    assert_eq!(wrong, None);
    let first = told.recv().expect("a request");
    assert!(
        first.ends_with("first") && first.contains("Token t"),
        "{first}"
    );
    assert!(told.recv().expect("a request").ends_with("third"));
}

/// Check that a server that isn't there costs neither room nor time: all but the newest are dropped, and counted.
#[test]
fn a_server_that_is_down() {
    let at = TcpListener::bind(("127.0.0.1", 0))
        .expect("an address")
        .local_addr()
        .expect("an address");
    let pusher = Pusher::start(to(at)).expect("a thread");
    // were each of them waited for, it would be a quarter of an hour
    for _ in 0..1000 {
        pusher.push(vec![0; 1000]);
    }
    let (counts, _) = wait_for(&pusher, |c| c.failed > 0);
    assert!(counts.dropped >= 990 && counts.pushed == 0, "{counts:?}");
}

/// Check that a server that accepts and never answers does not keep the agent from ending.
#[test]
fn a_server_that_hangs() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("an address");
    let pusher = Pusher::start(to(listener.local_addr().expect("an address"))).expect("a thread");
    pusher.push(b"first".to_vec());
    let (_stream, _) = listener.accept().expect("it connects");
    pusher.push(b"second".to_vec());
    let began = Instant::now();
    drop(pusher);
    assert!(
        began.elapsed() < CLOSE_TIMEOUT + Duration::from_secs(300),
        "{:?}",
        began.elapsed()
    );
}

/// Check that certificates are read of PEM, and that a file without any is refused.
#[test]
fn certificates_are_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let [cert, key] = crate::tls::tests::pair(dir.path(), "a");
    assert!(parse_certificates(&std::fs::read(cert).expect("it is there")).is_ok());
    assert!(parse_certificates(&std::fs::read(key).expect("it is there")).is_err());
    assert!(parse_certificates(b"").is_err());
}

/// A server that speaks TLS with this pair, and takes what it is sent.
fn takes_by_tls([cert, key]: &[std::path::PathBuf; 2]) -> SocketAddr {
    let tls = crate::tls::TlsFiles::read(cert, key).expect("a pair");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("an address");
    let at = listener.local_addr().expect("an address");
    thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut tls = rustls::ServerConnection::new(tls.get()).expect("a connection");
            let mut both = rustls::Stream::new(&mut tls, &mut stream);
            // whoever does not trust us hangs up
            if both.read(&mut [0; 4096]).is_ok() {
                let _ = both.write_all(b"HTTP/1.1 204 Ok\r\nConnection: close\r\n\r\n");
            }
        }
    });
    at
}

/// Check that a server is trusted by the authority that stands in the file now, not by the one that stood there at the start.
#[test]
fn an_authority_is_renewed() {
    let dir = tempfile::tempdir().expect("a directory");
    let pairs = ["a", "b"].map(|name| crate::tls::tests::pair(dir.path(), name));
    let at = takes_by_tls(&pairs[1]);
    let file = dir.path().join("ca");
    std::fs::copy(&pairs[0][0], &file).expect("copied");
    let pusher = Pusher::start(PushTarget {
        url: format!("https://localhost:{}/", at.port()),
        ca: Some(Arc::new(
            CertificateAuthorities::read(&file).expect("a certificate"),
        )),
        ..to(at)
    });
    let pusher = pusher.expect("a thread");
    pusher.push(b"x".to_vec());
    let (counts, _) = wait_for(&pusher, |c| c.failed == 1);
    assert_eq!((counts.pushed, counts.failed), (0, 1));
    // the time of a file has a step of its own
    thread::sleep(Duration::from_millis(20));
    std::fs::copy(&pairs[1][0], &file).expect("copied");
    pusher.push(b"x".to_vec());
    let (counts, _) = wait_for(&pusher, |c| c.pushed == 1);
    assert_eq!((counts.pushed, counts.failed), (1, 1));
}
