//! Messages of syslog become events: from raw connections, with and without TLS.

use crate::listeners::{authority, certificate};
use crate::server::{STREAMS, Server};
use evertally_server::syslog::SyslogRefusal::{self, Incomplete, Malformed, NotAccepted, TooLong};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

const LISTENER: &str = r#"
[[syslog]]
listen = "127.0.0.1:0"
stream = "logs"
message-bytes = 1000

[[stream]]
stream = "logs"
time = "_time"
start = "2026-01-01"
every = "1h"
steps = 100
group-by = ["app"]
groups = ["shop", "bank"]
rho = 1
"#;

fn message(app: &str, minute: u32) -> String {
    format!("<14>1 2026-01-01T00:{minute:02}:00Z host {app} - - - text")
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.syslog().address).unwrap()
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}");
}

fn refused(server: &Server) -> [u64; 4] {
    [Malformed, TooLong, Incomplete, NotAccepted].map(|reason: SyslogRefusal| server.syslog().refused(reason))
}

#[test]
fn messages_are_counted_and_refused_ones_do_not_stop_them() {
    let mut server = Server::with("", &format!("{LISTENER}{STREAMS}"));
    server.at(0, 1800);
    let mut socket = connect(&server);
    let lines = format!("{}\n{}\r\n", message("shop", 1), message("bank", 2));
    let counted = message("shop", 3);
    let traditional = "<14>Jan  1 00:04:00 host shop[1]: text\n";
    let all = format!("{lines}{} {counted}{traditional}", counted.len());
    for part in all.as_bytes().chunks(7) {
        socket.write_all(part).unwrap();
    }
    wait_for("4 messages are committed", || server.syslog().rows() == 4);
    assert_eq!((server.events("logs"), refused(&server)), (4, [0; 4]));
    // Unknown programs, the future, junk, and a message that is too long; those around them count.
    let mixed = [
        message("stranger", 5),
        message("shop", 6),
        "<14>1 2026-01-01T05:00:00Z host shop - - - future".to_owned(),
        "GET / HTTP/1.1".to_owned(),
        format!("<14>1 - host shop - - - {}", "x".repeat(2000)),
        message("bank", 7),
    ];
    socket.write_all(format!("{}\n", mixed.join("\n")).as_bytes()).unwrap();
    wait_for("2 more", || server.syslog().rows() == 6);
    assert_eq!((server.events("logs"), refused(&server)), (6, [1, 1, 0, 2]));
    socket.write_all(message("shop", 8).as_bytes()).unwrap();
    drop(socket);
    wait_for("the last one is incomplete", || refused(&server)[2] == 1);
    // An invalid length ends the connection, after everything before it.
    let mut socket = connect(&server);
    socket.write_all(format!("{}\n99x{}\n", message("shop", 9), message("shop", 9)).as_bytes()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(matches!(socket.read(&mut [0; 10]), Ok(0) | Err(_)));
    wait_for("the first counts", || server.events("logs") == 7);
    assert!(server.get("/metrics").text.contains("reason=\"malformed\"} 2"));
    // Everything that was read before a stop is committed, and the position continues.
    let mut socket = connect(&server);
    socket.write_all(format!("{}\n", message("bank", 10)).repeat(3000).as_bytes()).unwrap();
    wait_for("it is committed", || server.syslog().rows() == 3007);
    let position = |server: &Server| {
        server.service().ask(|core| core.positions("logs", "syslog:127.0.0.1:0")).unwrap()[""].parse::<u64>().unwrap()
    };
    let before = position(&server);
    server.stop();
    server.start().unwrap();
    let mut socket = connect(&server);
    socket.write_all(format!("{}\n", message("shop", 11)).as_bytes()).unwrap();
    wait_for("one more", || server.events("logs") == 1);
    assert_eq!(position(&server), before + 1);
}

#[test]
fn a_stop_commits_what_was_read_and_a_stream_that_accepts_nothing_stops_the_senders() {
    let rest = LISTENER.replace("message-bytes = 1000", "aside = \"refused.jsonl\"");
    let mut server = Server::with("", &format!("{rest}{STREAMS}"));
    server.at(0, 1800);
    // Rows that are refused are set aside, for nobody else to read.
    let mut socket = connect(&server);
    socket.write_all(format!("{}\n{}\n", message("stranger", 1), message("shop", 1)).as_bytes()).unwrap();
    wait_for("one is committed", || server.syslog().rows() == 1);
    let aside = std::fs::read_to_string(server.path("refused.jsonl")).unwrap();
    let aside: serde_json::Value = serde_json::from_str(&aside).unwrap();
    assert_eq!(aside["field"], "app");
    assert!(aside["row"].as_str().unwrap().contains("stranger"));
    // Messages that were read wait for others; a stop commits them first.
    socket.write_all(format!("{}\n", message("shop", 2)).repeat(2000).as_bytes()).unwrap();
    let progress = server.syslog();
    wait_for("they were read", || progress.rows() + progress.waiting() == 2001);
    server.stop();
    assert_eq!((progress.rows(), progress.waiting()), (2001, 0));
    server.start().unwrap();
    // A file that cannot be written does not stop the good ones.
    let aside = server.path("refused.jsonl");
    std::fs::remove_file(&aside).unwrap();
    std::fs::create_dir(&aside).unwrap();
    let mut socket = connect(&server);
    socket.write_all(format!("{}\n{}\n", message("stranger", 2), message("shop", 2)).as_bytes()).unwrap();
    wait_for("the good one is committed", || server.syslog().rows() == 1);
    assert_eq!((refused(&server), server.syslog().problem()), ([0, 0, 0, 1], None));
    assert!(server.get("/v1/operator").text.contains("refused messages are only counted"));
    std::fs::remove_dir(&aside).unwrap();
    // A retired stream accepts nothing: the operator learns why, and senders are not read.
    let retired = server.post("/v1/streams/logs/retire", "{}");
    assert_eq!(retired.status, 200, "{}", retired.text);
    let mut socket = connect(&server);
    socket.set_nonblocking(true).unwrap();
    let lines = format!("{}\n", message("shop", 3)).repeat(1000);
    let mut sent = 0;
    for _ in 0..400 {
        match socket.write(lines.as_bytes()) {
            Ok(bytes) => sent += bytes,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    assert!(sent < 60 << 20, "{sent} bytes were taken");
    wait_for("the problem is shown", || server.syslog().problem().is_some());
    let problems = server.get("/v1/operator").text;
    assert!(problems.contains("syslog at 127.0.0.1") && !problems.contains("text"), "{problems}");
}

#[test]
fn only_named_senders_may_connect() {
    let open = LISTENER.replace("127.0.0.1:0", "0.0.0.0:0");
    let mut server = Server::with("", LISTENER);
    let started = |server: &mut Server, from: &str, to: &str| {
        server.stop();
        server.change(from, to);
        server.start()
    };
    let refused = {
        server.change(LISTENER, &open);
        server.try_config().unwrap_err()
    };
    assert!(refused.contains("from = [\"10.0.0.0/8\"]"), "{refused}");
    started(&mut server, "0.0.0.0:0\"", "127.0.0.1:0\"\nfrom = [\"10.0.0.0/8\"]").unwrap();
    server.at(0, 1800);
    assert!(matches!(connect(&server).read(&mut [0; 10]), Ok(0) | Err(_)));
    wait_for("it was refused", || server.syslog().connections() == (0, 1));
    // With an authority, its clients may connect, by their names.
    let folder = server.folder.path().to_owned();
    authority(&folder, "ca");
    certificate(&folder, "ca", "server", "DNS:localhost");
    certificate(&folder, "ca", "sender", "DNS:sender.example");
    certificate(&folder, "ca", "other", "DNS:other.example");
    let tls = "certificate = \"server.pem\"\ncertificate-key = \"server.key\"\nclient-authority = \"ca.pem\"\nclients \
               = [\"sender.example\"]";
    started(&mut server, "from = [\"10.0.0.0/8\"]", tls).unwrap();
    let send = |address: SocketAddr, name: &str| {
        let mut arguments = format!("s_client -quiet -connect {address} -CAfile ca.pem");
        if !name.is_empty() {
            arguments += &format!(" -cert {name}.pem -key {name}.key");
        }
        let mut client = Command::new("openssl")
            .current_dir(&folder)
            .args(arguments.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let counted = message("shop", 1);
        let _ = client.stdin.take().unwrap().write_all(format!("{} {counted}", counted.len()).as_bytes());
        client
    };
    let address = server.syslog().address;
    let mut clients = [send(address, ""), send(address, "other"), send(address, "sender")];
    wait_for("one message is committed", || server.syslog().rows() == 1);
    wait_for("two were refused", || server.syslog().connections().1 == 2);
    for client in &mut clients {
        let _ = client.kill();
        let _ = client.wait();
    }
    assert_eq!(server.events("logs"), 1);
    let expiry = format!("evertally_certificate_expiry_seconds{{listener=\"{address}\"}} 1");
    assert!(server.get("/metrics").text.contains(&expiry), "when the certificate expires");
}
