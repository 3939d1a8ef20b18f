//! Silent clients and slow requests: other clients are answered, and the service still reacts to its service manager.

use super::tokens;
use crate::common::Bench;
use evertally_testkit::service::{Child, Client};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// A service whose stream is published every second; `limits` are lines of its configuration before the stream.
fn prepared(limits: &str) -> (Bench, u16) {
    let bench = Bench::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap() + Duration::from_secs(20);
    bench.write(
        "serve.toml",
        format!(
            "folder = \"data\"\nkey = \"keys/serve.key\"\n[public]\nlisten = \"127.0.0.1:{port}\"\n\
             [private]\nlisten = \"127.0.0.1:0\"\n[witness]\nfile = \"elsewhere/witness.json\"\n\
             [steps]\ngrace = \"0s\"\ndelay = \"0s\"\nahead = \"1d\"\ncatch-up = \"0s\"\n{limits}\n\
             [[stream]]\nstream = \"visits\"\npublic = true\nstart = \"{start}\"\nevery = \"1s\"\nsteps = 5000\nrho = \
             0.1\n"
        ),
    );
    std::fs::create_dir_all(bench.path("elsewhere")).unwrap();
    (bench, port)
}

/// Starts it in a shell, after these words.
fn started(bench: &Bench, before: &str) -> Child {
    let line = format!("{before} exec \"$0\" serve --config serve.toml --log error");
    Child::start("sh", bench.folder(), &["-c", &line, env!("CARGO_BIN_EXE_evertally")])
}

fn published(client: &Client) -> u64 {
    client.get("/v1/streams/visits", "").unwrap().json()["published"].as_u64().unwrap()
}

/// The number of writes to the witness.
fn witnessed(bench: &Bench) -> u64 {
    let text = std::fs::read_to_string(bench.path("elsewhere/witness.json")).unwrap_or_default();
    serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|message| message["counter"].as_u64()).unwrap_or(0)
}

#[test]
fn silent_connections_stop_neither_writers_nor_readers_nor_publications() {
    assert!(evertally_server::descriptors::raise().is_none_or(|limit| limit > 4000), "this test opens many sockets");
    let (bench, port) = prepared("");
    let [write] = tokens(&bench, ["write:visits"]);
    let child = started(&bench, "ulimit -n 1024;");
    let (private, public) = (Client::new(&child.url), Client::new(&format!("http://127.0.0.1:{port}")));
    let mut silent: Vec<TcpStream> = Vec::new();
    let mut batch = 0;
    for address in [private.address(), public.address()] {
        silent.extend((0..1100).map(|_| TcpStream::connect(address).unwrap()));
        // The first step ends twenty seconds after the start.
        let until = Instant::now() + Duration::from_secs(60);
        let (shown, witnessed_before) = (published(&public), witnessed(&bench));
        while published(&public) < shown + 3 || witnessed(&bench) < witnessed_before + 3 {
            assert!(Instant::now() < until, "nothing is published: {} of {shown}", published(&public));
            batch += 1;
            let id = format!("batch-{batch}");
            let time = jiff::Timestamp::now() + Duration::from_secs(25);
            let row = format!("{{\"time\":\"{time}\"}}\n");
            let headers = [("content-type", "application/x-ndjson"), ("idempotency-key", id.as_str())];
            let sent = private.post("/v1/streams/visits/events", &write, &headers, row.as_bytes()).unwrap();
            assert_eq!(sent.status, 200, "{}", sent.text);
            assert_eq!(private.get("/v1/streams/visits/report", "").unwrap().status, 200);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    drop(silent);
    child.end(true);
}

/// Whether the service closes a connection within some seconds. Earlier responses do not matter.
fn is_closed(mut socket: TcpStream) -> bool {
    socket.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let mut bytes = [0; 4096];
    loop {
        match socket.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn connections_without_a_request_are_closed_whatever_they_have_said() {
    let (bench, port) = prepared("[limits]\nidle = \"500ms\"");
    let child = started(&bench, "");
    let beginnings: [&[u8]; 7] = [
        b"",
        b"G",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
        b"PRI * HT",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        // The settings of a client that sends no request.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ];
    for beginning in beginnings {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.write_all(beginning).unwrap();
        assert!(is_closed(socket), "{:?} keeps a connection open", String::from_utf8_lossy(beginning));
    }
    child.end(true);
}

#[test]
fn a_request_that_takes_minutes_stops_nothing_not_even_the_end() {
    let (bench, _) = prepared("");
    let [operate] = tokens(&bench, ["operate"]);
    let child = started(&bench, "");
    let client = Client::new(&child.url);
    let declaration = serde_json::json!({
        "stream": "slow", "start": "2099-01-01", "every": "1h", "steps": 512, "epsilon": 1, "mechanism": "dense-pure",
    });
    let body = serde_json::json!({ "declaration": declaration }).to_string();
    let head = format!(
        "POST /v1/streams?dry-run=true HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {operate}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut slow: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(client.address()).unwrap()).collect();
    slow.iter_mut().for_each(|socket| socket.write_all(head.as_bytes()).unwrap());
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..5 {
        let began = Instant::now();
        assert_eq!(client.get("/healthz", "").unwrap().text, "ok\n");
        assert_eq!(client.get("/v1/tokens", &operate).unwrap().status, 200);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
    slow[0].set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    assert!(slow[0].read(&mut [0; 16]).is_err(), "it is still under way");
    let began = Instant::now();
    child.end(true);
    assert!(began.elapsed() < Duration::from_secs(20), "it ends after {:?}", began.elapsed());
}

#[test]
fn the_service_manager_hears_of_it() {
    let (bench, _) = prepared("");
    let path = bench.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let heard = || {
        let mut bytes = [0; 64];
        let count = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    };
    // The heartbeat must be faster than the interval at which an idle engine checks its clock.
    let before = format!("NOTIFY_SOCKET='{}' WATCHDOG_USEC=1500000", path.display());
    let child = started(&bench, &before);
    assert_eq!(heard(), "READY=1");
    (0..3).for_each(|_| assert_eq!(heard(), "WATCHDOG=1"));
    child.end(true);
    let mut last = heard();
    while last == "WATCHDOG=1" {
        last = heard();
    }
    assert_eq!(last, "STOPPING=1");
}

/// A request that is refused before its body has arrived is answered, and the connection can be used for the next one.
#[test]
fn early_refusals_leave_the_connection_as_it_was() {
    let (bench, port) = prepared("");
    let child = started(&bench, "");
    let address = child.url.trim_start_matches("http://").to_owned();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for size in [10, 1200, 70_000, 3_000_000] {
        let head = format!(
            "POST /v1/streams/visits/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer evt_wrong\r\n\
             content-length: {size}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        socket.write_all(&vec![b'x'; size]).unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"}") {
            let mut bytes = [0; 4096];
            let count = socket.read(&mut bytes).unwrap();
            assert!(count > 0, "the connection ends after {size} bytes");
            seen.extend(&bytes[..count]);
        }
        assert!(seen.starts_with(b"HTTP/1.1 401"), "{}", String::from_utf8_lossy(&seen));
    }
    assert_eq!(Client::new(&format!("http://127.0.0.1:{port}")).get("/healthz", "").unwrap().status, 200);
    child.end(true);
}

/// A signal to reload that comes while the configuration is still read, for the first time, does not end the service.
#[test]
fn a_reload_during_the_start_ends_nothing() {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};
    let bench = Bench::new();
    // Reading it blocks until somebody writes.
    assert!(Command::new("mkfifo").arg(bench.path("serve.toml")).status().unwrap().success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_evertally"))
        .args(["serve", "--config", "serve.toml"])
        .current_dir(bench.folder())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let until = Instant::now() + Duration::from_secs(20);
    let catches = |status: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1 // SIGHUP is the first signal
    };
    while !catches(&std::fs::read_to_string(&status).unwrap()) {
        assert!(Instant::now() < until, "no handler before the configuration is read");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap().success());
    std::fs::write(bench.path("serve.toml"), "nothing = true\n").unwrap();
    let ended = child.wait().unwrap();
    assert!(ended.signal().is_none() && !ended.success(), "{ended}");
}
