//! Lines reach who listens, and nobody who does not costs more than a moment.

use std::io::BufRead as _;
use std::net::TcpListener;
use std::thread;

use super::*;

/// Check every way to write an address, and that other texts are refused in one line.
#[test]
fn addresses() {
    let http = |server: &str, path: &str| {
        Ok(SinkTarget::Http {
            server: server.to_owned(),
            path: path.to_owned(),
        })
    };
    assert_eq!(SinkTarget::parse("a/b"), Ok(SinkTarget::File("a/b".into())));
    assert_eq!(
        SinkTarget::parse("udp://h:8089"),
        Ok(SinkTarget::Udp("h:8089".into()))
    );
    assert_eq!(
        SinkTarget::parse("http://h:1/write?db=x"),
        http("h:1", "/write?db=x")
    );
    assert_eq!(
        SinkTarget::parse("http://h/write?db=x"),
        http("h:8086", "/write?db=x")
    );
    assert_eq!(
        SinkTarget::parse("http://[::1]/w"),
        http("[::1]:8086", "/w")
    );
    for wrong in [
        "-",
        "",
        "udp://h",
        "udp://",
        "udp://h:x",
        "http://h:1",
        "http://",
        "http:///write",
        "http://u:p@h:1/write",
        "http://h:1/write?db=a b",
        "http://h:1/w\r\nX: y",
        "https://h:1/write",
        "ftp://h",
    ] {
        let why = SinkTarget::parse(wrong).unwrap_err();
        assert_eq!(why.lines().count(), 1, "{wrong}");
    }
    let shown = SinkTarget::parse("http://h:1/write?db=x&p=secret")
        .unwrap()
        .shown_text();
    assert_eq!(shown, "http://h:1");
}

/// A server that takes one request and gives this answer; returns the request.
fn server(answer: &'static str) -> (SinkTarget, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let target = SinkTarget::parse(&format!("http://{at}/write?db=x")).unwrap();
    let taken = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = io::BufReader::new(stream.try_clone().unwrap());
        let mut all = String::new();
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            // Names of headers may be in any case.
            if let Some(n) = line.to_lowercase().strip_prefix("content-length: ") {
                length = n.trim().parse().unwrap();
            }
            all += &line;
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        all + std::str::from_utf8(&body).unwrap()
    });
    (target, taken)
}

/// Check that a server gets one request with all lines and the token, and that its success counts as one.
#[test]
fn http_takes_lines() {
    let (target, taken) = server("HTTP/1.1 204 No Content\r\n\r\n");
    let mut sink = Sink::open(&target, Some("t0".to_owned())).unwrap();
    assert_eq!(sink.send_lines("a n=1i 1\nb n=2i 2\n"), None);
    assert_eq!(sink.lost_lines(), 0);
    let sent = taken.join().unwrap();
    assert!(sent.starts_with("POST /write?db=x HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("authorization: Token t0\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\na n=1i 1\nb n=2i 2\n"), "{sent}");
}

/// Check that refused lines are counted, with the server's words said once and without control characters.
#[test]
fn refusals_are_counted() {
    let (target, taken) = server("HTTP/1.1 404 Not Found\r\n\r\n{\"error\":\"no \x1b[31mdb\"}\n");
    let mut sink = Sink::open(&target, None).unwrap();
    let why = sink.send_lines("a n=1i 1\nb n=2i 2\n").unwrap();
    assert_eq!(why, "the server answers 404: {\"error\":\"no  [31mdb\"}");
    taken.join().unwrap();
    // Nothing is sent for a while.
    assert_eq!(sink.send_lines("c n=1i 3\n"), None);
    assert_eq!(sink.lost_lines(), 3);
}

/// Check that a server that ends without an answer, and one that speaks of something else, are failures with their reason.
#[test]
fn other_answers_are_failures() {
    for (answer, why) in [
        ("", "the server does not answer"),
        (
            "SSH-2.0-OpenSSH_9.2\r\n",
            "what answers there is no HTTP server",
        ),
        ("HTTP/1.1 500\r\n\r\n", "the server answers 500: "),
        (
            "HTTP/1.1 503 Busy\r\nContent-Length: 99\r\n\r\ncut",
            "the server answers 503: cut",
        ),
    ] {
        let (target, taken) = server(answer);
        let mut sink = Sink::open(&target, None).unwrap();
        assert_eq!(sink.send_lines("a n=1i 1\n").as_deref(), Some(why));
        taken.join().unwrap();
    }
}

/// Check that a server that takes a connection and never answers costs a moment, and that it is not waited for again at
/// once.
#[test]
fn silence_costs_a_moment() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let target = SinkTarget::parse(&format!("http://{at}/write")).unwrap();
    let mut sink = Sink::open(&target, None).unwrap();
    assert_eq!(
        sink.send_lines("a n=1i 1\n").unwrap(),
        "the server does not answer"
    );
    let begun = Instant::now();
    let said: Vec<_> = (0..100)
        .filter_map(|_| sink.send_lines("a n=1i 1\n"))
        .collect();
    assert_eq!(sink.lost_lines(), 101);
    // were it waited for each time, these would take minutes
    let most = begun.elapsed().as_secs() / RETRY_PAUSE.as_secs();
    assert!(said.len() as u64 <= most, "{said:?}");
}

/// Check that nobody who listens is said once, by HTTP and UDP, and lines are counted.
#[test]
fn nobody_listens() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = tcp.local_addr().unwrap();
    drop(tcp);
    let target = SinkTarget::parse(&format!("http://{at}/write")).unwrap();
    let mut sink = Sink::open(&target, None).unwrap();
    assert!(sink.send_lines("a n=1i 1\n").is_some());
    assert_eq!(sink.lost_lines(), 1);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = udp.local_addr().unwrap();
    drop(udp);
    let mut sink = Sink::open(&SinkTarget::Udp(at.to_string()), None).unwrap();
    // The kernel reports the first failure when the second datagram is sent.
    let said: Vec<_> = (0..10)
        .filter_map(|_| sink.send_lines("a n=1i 1\n"))
        .collect();
    assert_eq!(said.len(), 1);
    assert!((1..=10).contains(&sink.lost_lines()));
}

/// Check that datagrams hold whole lines, all of them in order, and no more than fit.
#[test]
fn datagrams_hold_whole_lines() {
    let lines: String = (0..200)
        .map(|n| format!("m,tag=value n={n}i {n}\n"))
        .collect();
    let taker = UdpSocket::bind("127.0.0.1:0").unwrap();
    taker
        .set_read_timeout(Some(Duration::from_secs(300)))
        .unwrap();
    let target = SinkTarget::Udp(taker.local_addr().unwrap().to_string());
    let mut sink = Sink::open(&target, None).unwrap();
    assert_eq!(sink.send_lines(&lines), None);
    let mut got = String::new();
    let mut part = [0; 65536];
    while got.len() < lines.len() {
        let n = taker.recv(&mut part).unwrap();
        assert!(n <= MAX_DATAGRAM_BYTES && part[..n].ends_with(b"\n"));
        got += std::str::from_utf8(&part[..n]).unwrap();
    }
    assert_eq!(got, lines);
    let long = format!(
        "a n=1i 1\n{}\nb n=2i 2\n",
        "x".repeat(2 * MAX_DATAGRAM_BYTES)
    );
    assert_eq!(split_datagrams(&long).len(), 3);
}

/// Check that a file is added to, and that one that can't be opened is an error before anything is measured.
#[test]
fn files_are_added_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    for line in ["a n=1i 1\n", "b n=2i 2\n"] {
        let mut sink = Sink::open(&SinkTarget::File(path.clone()), None).unwrap();
        assert_eq!(sink.send_lines(line), None);
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "a n=1i 1\nb n=2i 2\n"
    );
    assert!(Sink::open(&SinkTarget::File(dir.path().join("no/file")), None).is_err());
}
