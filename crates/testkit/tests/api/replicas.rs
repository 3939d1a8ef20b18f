//! Replicas: machines without key and events answer readers with the same bytes as the service, also while it is down.

use crate::server::{STREAMS, Server, hand};
use evertally_ledger::disk::RealDisk;
use evertally_ledger::ledger::Protects;
use evertally_ledger::source::{Approval, SourceBudget, Total};
use evertally_server::config::ReplicaConfig;
use evertally_server::serving::ReplicaRunning;
use evertally_testkit::service::{Answer, Client};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Streams of other kinds: several steps in a publication, discovered groups, views, several measures.
const MORE: &str = r#"
[limits]
requests-per-second = 10000

[sources]
people = "people.budget"

[[stream]]
stream = "daily"
public = true
closing = "operator"
start = "2026-01-01"
every = "1h"
publish = "2h"
steps = 10
epsilon = 1
source = "people"

[[stream]]
stream = "found"
public = true
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 6
person = "person"
max-events = 4
group-by = ["group"]
discover-groups = true
selection-delta = 0.01
rho = 40
select-every = 2
allow-weak-budget = true

[[stream]]
stream = "viewed"
public = true
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 6
group-by = ["group"]
groups = ["a", "b"]
view = ["whole-number", "non-decreasing"]
band = "simultaneous"
rho = 1

[[stream]]
stream = "measured"
public = true
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 6
person = "person"
max-events = 3
group-by = ["group"]
groups = ["a", "b"]
measure = ["count", "distinct"]
epsilon = 1
"#;

/// Queries in addition to the documented paths.
const QUERIES: [&str; 12] = [
    "/releases?from=1&to=100&format=csv",
    "/releases?from=1&to=2&format=jsonl",
    "/releases?last=1&format=json",
    "/releases?from=1&format=parquet",
    "/releases?from=1&format=arrow",
    "/releases?from=2026-01-01T01:00:00Z&limit=1",
    "/releases?every=2&from=1",
    "/releases?group=a&from=1",
    "/releases?group=no",
    "/releases?measure=distinct&from=1",
    "/picture.png?last=2",
    "/report?x=1",
];

struct Replica {
    folder: TempDir,
    runtime: tokio::runtime::Runtime,
    running: Option<ReplicaRunning>,
    client: Client,
}

impl Replica {
    fn new(from: &Client) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "folder = \"copies\"\nfrom = \"http://{}\"\nevery = \"50ms\"\n[public]\nlisten = \"127.0.0.1:0\"\n\
             [limits]\nrequests-per-second = 10000\n",
            from.address()
        );
        std::fs::write(folder.path().join("replica.toml"), config).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut replica = Self { folder, runtime, running: None, client: Client::new("") };
        replica.start();
        replica
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&mut self) {
        let config = ReplicaConfig::read(&self.path("replica.toml")).unwrap();
        let running = self.runtime.block_on(ReplicaRunning::start(&config)).unwrap();
        self.client = Client::new(&running.url);
        self.running = Some(running);
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.stop());
        }
    }

    fn get(&self, path: &str) -> Answer {
        self.client.get(path, "").unwrap()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stop();
    }
}

/// All that readers can ask for: the documented paths of every stream, public or not, and more queries.
fn paths(server: &Server) -> BTreeSet<String> {
    let document = server.public.get("/openapi.json", "").unwrap().json();
    let mut paths = BTreeSet::from(["/", "/openapi.json", "/nothing"].map(str::to_owned));
    for (path, methods) in document["paths"].as_object().unwrap() {
        // A watch does not end.
        if methods.get("get").is_none() || path.ends_with("/watch") {
            continue;
        }
        for stream in ["open", "closed", "hand", "hand%20%232", "daily", "found", "viewed", "measured", "no"] {
            paths.insert(path.replace("{stream}", stream));
            paths.extend(QUERIES.iter().map(|query| format!("/v1/streams/{stream}{query}")));
        }
    }
    paths
}

/// An answer without the parts that depend on the time and the machine.
fn comparable(answer: Answer, path: &str) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let Answer { status, mut headers, mut bytes, text } = answer;
    headers.retain(|(name, _)| name != "date");
    if path == "/metrics" {
        let own = |line: &&str| !line.contains("evertally_replica_");
        bytes = text.lines().filter(own).collect::<Vec<_>>().join("\n").into_bytes();
        headers.retain(|(name, _)| name != "content-length");
    }
    (status, headers, bytes)
}

type Answers = Vec<(String, (u16, Vec<(String, String)>, Vec<u8>))>;

/// The answers of the service.
fn answers(server: &Server) -> Answers {
    let ask = |path: String| {
        let answer = comparable(server.public.get(&path, "").unwrap(), &path);
        (path, answer)
    };
    paths(server).into_iter().map(ask).collect()
}

/// Compares all answers of a replica, as soon as it has the news.
fn assert_same(expected: &Answers, replica: &Replica) {
    let end = Instant::now() + Duration::from_secs(20);
    let list = expected.iter().find(|(path, _)| path == "/v1/streams").unwrap();
    while comparable(replica.get("/v1/streams"), "").2 != list.1.2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut published = 0;
    for (path, (status, headers, bytes)) in expected {
        let (own_status, own_headers, own_bytes) = comparable(replica.get(path), path);
        let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(3000)]).into_owned();
        assert!(
            own_status == *status && own_bytes == *bytes,
            "{path}: {status} {own_status}\n{}\n{}",
            shown(bytes),
            shown(&own_bytes)
        );
        assert_eq!(own_headers, *headers, "{path}");
        published += usize::from(path.contains("/releases") && *status == 200 && bytes.len() > 200);
    }
    assert!(published > 5, "{published} answers have rows");
}

/// The first `most` events of a watch after publication 0.
fn watched(client: &Client, stream: &str, most: usize) -> String {
    let mut socket = TcpStream::connect(client.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!("GET /v1/streams/{stream}/watch HTTP/1.1\r\nhost: x\r\nlast-event-id: 0\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let (mut text, mut events) = (String::new(), 0);
    for line in BufReader::new(socket).lines() {
        let line = line.unwrap();
        if line.starts_with("event:") || line.starts_with("id:") || line.starts_with("data:") {
            text += &line;
            text.push('\n');
            events += usize::from(line.starts_with("data:"));
        }
        if events == most {
            return text;
        }
    }
    panic!("the watch has ended:\n{text}");
}

/// Sends some events of a step to the streams that an operator closes, and closes it.
fn step(server: &Server, step: u64) {
    for stream in ["daily", "found", "viewed", "measured"] {
        let row = |person: usize| {
            let group = ["a", "b"][person % 2];
            format!(
                "{{\"time\":\"2026-01-01T{:02}:30:00Z\",\"group\":\"{group}\",\"person\":\"p{step}-{person}\"}}\n",
                step - 1
            )
        };
        let body: String = (0..60).map(row).collect();
        assert_eq!(server.send(stream, &format!("s{step}"), &body).status, 200);
        let closed = server.post(&format!("/v1/streams/{stream}/close"), &format!("{{\"through\":{step}}}"));
        assert_eq!(closed.status, 200, "{}", closed.text);
    }
    hand(server, step);
}

#[test]
fn a_replica_answers_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.budget");
    let budget = evertally::privacy::Budget::Zcdp(evertally::privacy::Rho::new(9.0).unwrap());
    let protects = Protects { persons: false, period: None, replaced: false };
    let total = Total { budget, is_basic: false, protects };
    let file = SourceBudget::create(Arc::new(RealDisk), &path, "people", total, Approval::default()).unwrap();
    drop(file);
    let more = MORE.replace("people.budget", path.to_str().unwrap());
    let mut server = Server::with("", &format!("{STREAMS}{more}"));
    step(&server, 1);
    let mut replica = Replica::new(&server.public);
    assert_same(&answers(&server), &replica);
    step(&server, 2);
    step(&server, 3);
    server.publish("open", 2);
    assert_same(&answers(&server), &replica);
    assert_eq!(watched(&server.public, "hand", 3), watched(&replica.client, "hand", 3));
    // Groups join, a stream gets another title, one is retired, one ends and is extended, and one is not public now.
    let joined = server.post("/v1/streams/viewed/groups", "{\"groups\":[\"c\"]}");
    assert_eq!(joined.status, 200, "{}", joined.text);
    (4..=6).for_each(|number| step(&server, number));
    assert_eq!(server.post("/v1/streams/daily/retire", "").status, 200);
    let closed = server.post("/v1/streams/hand/close", "{\"through\":10}");
    assert_eq!(closed.status, 200, "{}", closed.text);
    let extended = server.post("/v1/streams/hand/extend", "");
    assert_eq!(extended.status, 201, "{}", extended.text);
    server.reload("stream = \"measured\"\npublic = true", "stream = \"measured\"\npublic = false").unwrap();
    let expected = answers(&server);
    assert_same(&expected, &replica);
    // Other methods and private paths are those of a listener for readers.
    for (method, path) in [("POST", "/v1/streams/open/events"), ("GET", "/v1/operator"), ("POST", "/v1/streams")] {
        let [own, other] = [&server.public, &replica.client].map(|client| {
            let answer = client.ask(method, path, &server.operate, &[], b"").unwrap();
            answer.status
        });
        assert!(other >= 400 && (other == own || other == 401), "{method} {path}: {own} {other}");
    }
    // The service is down, and the replica starts again.
    server.stop();
    replica.stop();
    replica.start();
    assert_same(&expected, &replica);
    let metrics = replica.get("/metrics").text;
    assert!(metrics.contains("evertally_replica_lag_seconds "), "{metrics}");
    // Nothing exact, and no name, is on its machine.
    let stored = std::fs::read(replica.path("copies/store.redb")).unwrap();
    assert!(!stored.windows(4).any(|bytes| bytes == b"p1-1"), "the name of a person");
}

#[test]
fn a_replica_shows_what_it_has_shown() {
    let mut server = Server::with("", STREAMS);
    hand(&server, 1);
    server.save_copy();
    let mut replica = Replica::new(&server.public);
    let address = server.public.address().to_owned();
    hand(&server, 2);
    let wait = |replica: &Replica, published: u64| {
        let end = Instant::now() + Duration::from_secs(20);
        while replica.get("/v1/streams/hand").json()["published"] != published {
            assert!(Instant::now() < end, "{}", replica.get("/v1/streams/hand").text);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(&replica, 2);
    let shown = replica.get("/v1/streams/hand/releases?from=1").text;
    // An old copy of the folder, without a witness, publishes the step again from other events.
    server.restore_copy();
    replica.stop();
    let config = std::fs::read_to_string(replica.path("replica.toml")).unwrap();
    let config = config.replace(&address, server.public.address()).replace("every", "max-lag = \"1s\"\nevery");
    std::fs::write(replica.path("replica.toml"), config).unwrap();
    replica.start();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(replica.get("/v1/streams/hand/releases?from=1").text, shown);
    let other = "{\"time\":\"2026-01-01T01:30:00Z\",\"person\":\"other\"}\n";
    assert_eq!(server.send("hand", "other", other).status, 200);
    assert_eq!(server.post("/v1/streams/hand/close", "{\"through\":3}").status, 200);
    let end = Instant::now() + Duration::from_secs(10);
    while replica.get("/readyz").status == 200 {
        assert!(Instant::now() < end, "it is ready, though it cannot follow");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(replica.get("/v1/streams/hand/releases?from=1").text, shown);
}
