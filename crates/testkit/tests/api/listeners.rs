//! How connections arrive: through a Unix socket, a proxy that names its client, or with a certificate.

use crate::server::{STREAMS, Server};
use evertally_feeds::{CancellationToken, FileOptions, FollowOptions, Observer, Remote, RemoteTls, open_files, run};
use evertally_server::http::Side;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const EVENT: &str = "{\"time\":\"2026-01-01T00:10:00Z\",\"group\":\"a\"}";

/// Runs openssl in a folder.
pub(crate) fn openssl(folder: &Path, arguments: &str) {
    let done = Command::new("openssl").current_dir(folder).args(arguments.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "{arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Writes an authority, and a certificate with its key: `NAME.pem`, `NAME.key`. `days` may be 0 for one that expired.
pub(crate) fn authority(folder: &Path, name: &str) {
    openssl(
        folder,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.pem -days 2 \
             -subj /CN={name}"
        ),
    );
}

pub(crate) fn certificate(folder: &Path, authority: &str, name: &str, alternative: &str) {
    openssl(
        folder,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.pem -days 2 \
             -subj /CN={name} -addext subjectAltName={alternative} -addext basicConstraints=critical,CA:FALSE \
             -CA {authority}.pem -CAkey {authority}.key"
        ),
    );
}

/// Connects with bytes, and returns everything that is answered; empty if the connection is closed.
fn raw(address: &str, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let _ = socket.write_all(bytes);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[cfg(unix)]
#[test]
fn a_unix_socket_replaces_only_one_that_nobody_listens_at() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    let listen = "[private]\nlisten = \"127.0.0.1:0\"";
    let unix = "[private]\nlisten = \"unix:private.sock\"\nsocket-mode = \"0600\"";
    let mut server = Server::with("", STREAMS);
    server.stop();
    server.change(listen, unix);
    let path = server.path("private.sock");
    drop(UnixListener::bind(&path).unwrap()); // as after a kill
    server.start().unwrap();
    assert_eq!(server.url(Side::Private), format!("unix:{}", path.display()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |head: &str| {
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.write_all(format!("{head}\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    let operate = server.token("operate");
    let answer = ask(&format!("GET /v1/operator HTTP/1.1\r\nauthorization: Bearer {operate}"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(ask("GET /v1/operator HTTP/1.1").starts_with("HTTP/1.1 401"));
    // The program finds it, too.
    assert_eq!(evertally_server::program::health(&server.path("serve.toml")).unwrap(), "ok");
    // Another service does not take it away.
    let mut other = Server::with("", "");
    other.stop();
    other.change(listen, &format!("[private]\nlisten = \"unix:{}\"", path.display()));
    let refused = other.start().unwrap_err();
    assert!(refused.contains("another process listens there"), "{refused}");
    server.stop();
    assert!(!path.exists(), "it is removed at the end");
    other.start().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    other.stop();
    std::fs::write(&path, "x").unwrap();
    assert!(other.start().unwrap_err().contains("is not a socket"));
}

#[test]
fn a_proxy_names_the_client_and_nobody_else_does() {
    let mut server = Server::with("", STREAMS);
    server.stop();
    let listen = "[private]\nlisten = \"127.0.0.1:0\"";
    let proxied = format!("{listen}\ntrusted-proxies = [\"127.0.0.1\"]\nproxy-protocol = true");
    server.change(listen, &proxied);
    server.start().unwrap();
    let operate = server.token("operate");
    let made = "{\"role\":\"read:open\",\"label\":\"made\"}";
    let request = format!(
        "POST /v1/tokens HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {operate}\r\ncontent-type: \
         application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{made}",
        made.len()
    );
    let address = server.private.address().to_owned();
    let last_address = || {
        let audit = std::fs::read_to_string(server.path("data/audit.jsonl")).unwrap();
        let last: serde_json::Value = serde_json::from_str(audit.lines().last().unwrap()).unwrap();
        last["address"].as_str().unwrap().to_owned()
    };
    let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc6\x33\x64\x09\x7f\0\0\x01\0\x01\0\x02";
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    for (header, client) in [
        (&b"PROXY TCP4 203.0.113.7 127.0.0.1 4711 443\r\n"[..], "203.0.113.7"),
        (binary, "198.51.100.9"),
        (local, "127.0.0.1"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
    ] {
        let answer = raw(&address, &[header, request.as_bytes()].concat());
        assert!(answer.starts_with("HTTP/1.1 201") || answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(last_address(), client);
    }
    let file = server.path("health.toml");
    let listening = proxied.replace("127.0.0.1:0", &address);
    std::fs::write(&file, format!("folder = \"data\"\nkey = \"keys/serve.key\"\n{listening}\n")).unwrap();
    assert_eq!(evertally_server::program::health(&file).unwrap(), "ok");
    // A proxy that forgets the header, or sends another one.
    assert_eq!(raw(&address, request.as_bytes()), "");
    assert_eq!(raw(&address, &[b"PROXY TCP9 1 2 3 4\r\n", request.as_bytes()].concat()), "");
    // From an address of anything but a proxy, the header is only an invalid request.
    server.stop();
    server.change("[\"127.0.0.1\"]", "[\"203.0.113.1\"]");
    server.start().unwrap();
    let address = server.private.address().to_owned();
    let answer = raw(&address, &[b"PROXY TCP4 203.0.113.7 127.0.0.1 4711 443\r\n", request.as_bytes()].concat());
    assert!(!answer.contains("HTTP/1.1 2"), "{answer}");
    assert!(raw(&address, request.as_bytes()).contains("HTTP/1.1 2"), "a program on this machine needs none");
}

struct Silent;

impl Observer for Silent {
    fn message(&mut self, _: &str) {}
}

/// The status that curl receives, with further arguments; 0 if there is no answer.
fn curl(server: &Server, path: &str, arguments: &[&str]) -> u16 {
    let url = format!("{}{path}", server.url(Side::Private).replace("127.0.0.1", "localhost"));
    let done = Command::new("curl")
        .current_dir(server.folder.path())
        .args(["-s", "-o", "answer.txt", "-w", "%{http_code}", "--max-time", "10", "--cacert", "server.pem"])
        .args(arguments)
        .arg(url)
        .output()
        .unwrap();
    String::from_utf8_lossy(&done.stdout).parse().unwrap()
}

#[test]
fn a_certificate_stands_for_a_machine() {
    let listen = "[private]\nlisten = \"127.0.0.1:0\"";
    let encrypted = format!(
        "{listen}\ncertificate = \"server.pem\"\ncertificate-key = \"server.key\"\nclient-authority = \"ca.pem\"\n\
         [[client]]\nname = \"shop.example\"\nroles = [\"write:open\", \"read:closed\"]\n[[client]]\nname = \
         \"spiffe://example/robot\"\nroles = [\"operate\"]"
    );
    let mut server = Server::with("", STREAMS);
    server.stop();
    let folder = server.folder.path().to_owned();
    authority(&folder, "ca");
    authority(&folder, "strange");
    openssl(
        &folder,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key -out server.pem -days 2 -subj \
         /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE",
    );
    certificate(&folder, "ca", "shop", "DNS:Shop.Example");
    certificate(&folder, "ca", "robot", "URI:spiffe://example/robot");
    certificate(&folder, "ca", "other", "DNS:other.example");
    certificate(&folder, "ca", "uri", "URI:shop.example");
    certificate(&folder, "strange", "forged", "DNS:shop.example");
    server.change(listen, &encrypted);
    server.start().unwrap();
    let with = |name: &str| ["--cert".to_owned(), format!("{name}.pem"), "--key".to_owned(), format!("{name}.key")];
    let ask = |server: &Server, name: &str, path: &str, more: &[&str]| {
        let own = with(name);
        let arguments: Vec<&str> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
        curl(server, path, if name.is_empty() { more } else { &arguments })
    };
    let events = "/v1/streams/open/events";
    let event = ["--data-binary", EVENT, "-H", "content-type: application/x-ndjson", "-H", "idempotency-key: 1"];
    assert_eq!(ask(&server, "shop", events, &event), 200);
    assert_eq!(ask(&server, "shop", "/v1/streams/closed", &[]), 200);
    let answer = || std::fs::read_to_string(folder.join("answer.txt")).unwrap();
    assert_eq!(ask(&server, "shop", "/v1/operator", &[]), 403);
    assert!(answer().contains("your certificate is valid, but the roles of its [[client]]"), "{}", answer());
    assert_eq!(ask(&server, "robot", events, &event), 403, "operators send no events");
    assert_eq!(ask(&server, "other", events, &event), 401, "it has no role");
    assert!(answer().contains("no [[client]] of the service names it"), "{}", answer());
    assert_eq!(ask(&server, "uri", events, &event), 401, "a URI does not count as a DNS name");
    assert_eq!(ask(&server, "", events, &event), 401);
    assert_eq!(ask(&server, "forged", events, &event), 0, "another authority");
    // A token in the request counts alone, whether it allows less or more.
    let reads = format!("authorization: Bearer {}", server.token("read:open"));
    assert_eq!(ask(&server, "shop", events, &[&event[..], &["-H", &reads]].concat()), 403);
    assert_eq!(ask(&server, "shop", events, &[&event[..], &["-H", "authorization: Bearer x"]].concat()), 401);
    // Other sites can make browsers send requests with a certificate.
    for mark in ["sec-fetch-site: cross-site", "origin: https://evil.example"] {
        assert_eq!(ask(&server, "shop", events, &[&event[..], &["-H", mark]].concat()), 401, "{mark}");
    }
    // Its actions are in the audit log.
    let token = ["--data-binary", "{\"role\":\"read:open\"}", "-H", "content-type: application/json"];
    assert!([200, 201].contains(&ask(&server, "robot", "/v1/tokens", &token)));
    let audit = std::fs::read_to_string(server.path("data/audit.jsonl")).unwrap();
    assert!(audit.contains("\"token\":null,\"by\":\"certificate spiffe://example/robot\""), "{audit}");
    // The feeder has one, too.
    std::fs::write(server.path("visits.jsonl"), format!("{EVENT}\n{EVENT}\n")).unwrap();
    let url = server.url(Side::Private).replace("127.0.0.1", "localhost");
    let paths = ["server.pem", "shop.pem", "shop.key"].map(|name| server.path(name));
    let tls = RemoteTls { authority: Some(&paths[0]), client: Some((&paths[1], &paths[2])) };
    let remote = Remote::new(&url, "open", None, tls).unwrap();
    let files = FileOptions { path: server.path("visits.jsonl"), is_folder: false, format: None, is_complete: false };
    let options =
        FollowOptions { name: None, rows: 10, is_once: true, aside: None, aside_by_day: false, hides_values: false };
    let mut source = open_files(&files).unwrap();
    assert_eq!(run(&mut *source, &remote, &options, &CancellationToken::new(), &mut Silent).unwrap().rows, 2);
    // A client that is not configured any more has no role, without a restart.
    server.reload("\"shop.example\"", "\"closed.example\"").unwrap();
    assert_eq!(ask(&server, "shop", events, &event), 401);
    // Without a certificate there is no answer at all.
    server.stop();
    server.change("client-authority = \"ca.pem\"", "client-authority = \"ca.pem\"\nrequire-client-certificate = true");
    server.start().unwrap();
    assert_eq!(ask(&server, "", "/healthz", &[]), 0);
    assert_eq!(ask(&server, "other", "/healthz", &[]), 200);
}
