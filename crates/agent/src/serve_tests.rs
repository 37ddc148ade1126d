use proptest::prelude::*;

use super::*;

fn ask(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("a connection");
    stream.write_all(request.as_bytes()).expect("asked");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    said
}

fn secret(token: &str) -> TokenFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), token).expect("written");
    TokenFile::read(file.path()).expect("a token")
}

fn get(at: SocketAddr, path: &str, more: &str) -> String {
    ask(at, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n"))
}

/// Check what each path answers before and after there are figures, and with and without the token.
#[test]
fn paths_answer() {
    let page = Arc::new(ScrapePage::default());
    let at = start_server(
        ([127, 0, 0, 1], 0).into(),
        Some(secret("abc")),
        None,
        Arc::clone(&page),
    )
    .expect("it listens");
    let token = "Authorization: Bearer abc\r\n";
    assert!(get(at, "/healthz", "").starts_with("HTTP/1.1 503"));
    assert!(get(at, "/metrics", token).starts_with("HTTP/1.1 503"));
    page.set_metrics("# EOF\n".to_owned(), Duration::from_secs(60));
    let said = get(at, "/metrics?a=b", token);
    assert!(
        said.starts_with("HTTP/1.1 200") && said.ends_with("\r\n\r\n# EOF\n"),
        "{said}"
    );
    assert!(said.contains("openmetrics-text; version=1.0.0"));
    assert!(get(at, "/healthz", "").starts_with("HTTP/1.1 200"));
    for wrong in [
        "",
        "Authorization: Bearer abd\r\n",
        "Authorization: Bearer ab\r\n",
        "Authorization: Basic abc\r\n",
    ] {
        assert!(
            get(at, "/metrics", wrong).starts_with("HTTP/1.1 401"),
            "{wrong}"
        );
    }
    assert!(get(at, "/other", token).starts_with("HTTP/1.1 404"));
    assert!(ask(at, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(ask(at, "\x00\x01\x02\r\n\r\n").starts_with("HTTP/1.1 400"));
    let head = ask(at, &format!("HEAD /metrics HTTP/1.1\r\n{token}\r\n"));
    assert!(
        head.contains("Content-Length: 6") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    page.set_metrics("# EOF\n".to_owned(), Duration::ZERO);
    assert!(get(at, "/healthz", "").contains("too long"));
}

/// Check that a request without an end is answered or dropped, and that who connects and says nothing keeps others waiting a
/// few seconds at most.
#[test]
fn nobody_holds_it_up() {
    let page = Arc::new(ScrapePage::default());
    page.set_metrics("# EOF\n".to_owned(), Duration::from_secs(60));
    let at = start_server(([127, 0, 0, 1], 0).into(), None, None, page).expect("it listens");
    let _silent: Vec<_> = (0..3 * SERVER_THREADS)
        .map(|_| TcpStream::connect(at).expect("a connection"))
        .collect();
    let long = format!(
        "GET /metrics HTTP/1.1\r\nA: {}\r\n",
        "a".repeat(2 * MAX_REQUEST_BYTES)
    );
    let mut stream = TcpStream::connect(at).expect("a connection");
    // it may hang up before it has read all
    let _ = stream.write_all(long.as_bytes());
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(get(at, "/metrics", "").starts_with("HTTP/1.1 200"));
}

/// Check that with many who connect and say nothing, again and again and more a second than all threads could wait for,
/// every scrape is answered at once.
#[test]
fn silence_keeps_nobody_out() {
    let page = Arc::new(ScrapePage::default());
    page.set_metrics("# EOF\n".to_owned(), Duration::from_secs(60));
    let at = start_server(([127, 0, 0, 1], 0).into(), None, None, Arc::clone(&page))
        .expect("it listens");
    let mut silent = VecDeque::new();
    let mut late = 0;
    for _ in 0..500 {
        // 100 a second, which 16 threads that wait 2 s for each would not even begin to serve
        silent.push_back(TcpStream::connect(at).expect("a connection"));
        if silent.len() > 400 {
            silent.pop_front();
        }
        thread::sleep(Duration::from_millis(10));
        let began = Instant::now();
        assert!(get(at, "/metrics", "").starts_with("HTTP/1.1 200"));
        // long before one that says nothing would have had its time; but now and then a machine is busy
        late += u32::from(began.elapsed() >= REQUEST_TIMEOUT);
        assert!(
            late < 20,
            "{late} scrapes took longer than {REQUEST_TIMEOUT:?}"
        );
    }
    assert!(page.request_counts().1 > 0);
}

/// Check that with a certificate scrapes are answered by TLS alone, and that whoever speaks none is counted.
#[test]
fn tls_is_spoken() {
    let dir = tempfile::tempdir().expect("a directory");
    let [cert, key] = crate::tls::tests::pair(dir.path(), "a");
    let page = Arc::new(ScrapePage::default());
    page.set_metrics("# EOF\n".to_owned(), Duration::from_secs(60));
    let tls = TlsFiles::read(&cert, &key).expect("a pair");
    let at = start_server(
        ([127, 0, 0, 1], 0).into(),
        None,
        Some(tls),
        Arc::clone(&page),
    )
    .expect("it listens");
    let pem = std::fs::read(&cert).expect("it is there");
    let root = ureq::tls::Certificate::from_pem(&pem).expect("a certificate");
    let get = |roots| {
        let tls = ureq::tls::TlsConfig::builder().root_certs(roots).build();
        let agent = ureq::Agent::config_builder()
            .tls_config(tls)
            .build()
            .new_agent();
        agent
            .get(format!("https://localhost:{}/metrics", at.port()))
            .call()
    };
    let trusted = ureq::tls::RootCerts::from(vec![root]);
    let said = get(trusted)
        .expect("an answer")
        .body_mut()
        .read_to_string()
        .expect("text");
    assert_eq!(said, "# EOF\n");
    assert!(get(ureq::tls::RootCerts::WebPki).is_err());
    let mut stream = TcpStream::connect(at).expect("a connection");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        .expect("asked");
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
    let until = Instant::now() + Duration::from_secs(300);
    while page.request_counts() != (1, 2) {
        assert!(Instant::now() < until, "{:?}", page.request_counts());
        thread::sleep(Duration::from_millis(10));
    }
}

proptest! {
    /// Check that whatever bytes come, they are a request, none, or unfinished.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let asked = parse_request(&bytes);
        if let Some(asked) = asked && !asked.path.is_empty() {
            prop_assert!(bytes.windows(2).any(|w| w == b"\n\n" || w == b"\r\n"));
        }
    }
}
