//! Two machines as processes: one is killed, the other takes over.

mod common;

use common::Bench;
use evertally_testkit::service::{Child, Client};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SERVE: &str = r#"
folder = "data"
key = "keys/serve.key"
[private]
listen = "127.0.0.1:0"
[witness]
file = "../elsewhere/witness.json"
[standby]
folder = "../between"
every = "200ms"
takeover = "3s"
[[stream]]
stream = "visits"
closing = "operator"
time = "time"
start = "2026-01-01"
every = "1h"
steps = 100
rho = 0.5
"#;

const RELEASES: &str = "/v1/streams/visits/releases?from=1&to=100&format=csv";

/// Two machines with one configuration, one key, and folders that both reach.
fn machines() -> Bench {
    let bench = Bench::new();
    for name in ["a", "b", "elsewhere", "between"] {
        std::fs::create_dir(bench.path(name)).unwrap();
    }
    for machine in ["a", "b"] {
        bench.write(&format!("{machine}/serve.toml"), SERVE);
    }
    bench
}

fn start(folder: &Path, more: &[&str]) -> Child {
    let arguments = [&["serve", "--config", "serve.toml", "--log", "error"], more].concat();
    Child::start(env!("CARGO_BIN_EXE_evertally"), folder, &arguments)
}

/// A machine that follows; it is returned once it answers.
fn following(folder: &Path) -> JoinHandle<Child> {
    let folder = folder.to_owned();
    std::thread::spawn(move || start(&folder, &["--follow"]))
}

/// A service, the operator's token, and a writer's.
struct Operator(Client, [String; 2]);

impl Operator {
    fn new(child: &Child, tokens: &[String; 2]) -> Self {
        Self(Client::new(&child.url), tokens.clone())
    }
}

impl Operator {
    fn send(&self, id: &str, step: u64) -> serde_json::Value {
        let body = format!("{{\"time\":\"2026-01-{:02}T{:02}:30:00Z\"}}\n", 1 + step / 24, step % 24);
        let headers = [("content-type", "application/x-ndjson"), ("idempotency-key", id)];
        let answer = self.0.post("/v1/streams/visits/events", &self.1[1], &headers, body.repeat(3).as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    }

    fn close(&self, step: u64) {
        let body = format!("{{\"through\":{step}}}");
        let headers = [("content-type", "application/json")];
        let answer = self.0.post("/v1/streams/visits/close", &self.1[0], &headers, body.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text);
    }

    fn rows(&self) -> String {
        self.0.get(RELEASES, &self.1[0]).unwrap().text
    }
}

/// Waits until a follower has a whole copy.
fn wait_for_copy(bench: &Bench, machine: &str) {
    let path = bench.path(&format!("{machine}/data/standby/memory.json"));
    let end = Instant::now() + Duration::from_secs(30);
    while !std::fs::read_to_string(&path).is_ok_and(|text| text.contains("\"is_whole\":true")) {
        assert!(Instant::now() < end, "machine {machine} has no whole copy");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn tokens(bench: &Bench) -> [String; 2] {
    ["operate", "write:visits"].map(|role| {
        let made = bench.run_as_is(&["token", "make", "--config", "a/serve.toml", "--role", role], b"");
        let word = made.stdout.split_whitespace().find(|word| word.starts_with("evt_"));
        word.expect("the token is printed").to_owned()
    })
}

#[test]
fn a_follower_takes_over_and_the_old_primary_becomes_one() {
    let bench = machines();
    let a = start(&bench.path("a"), &[]);
    let tokens = tokens(&bench);
    std::fs::create_dir(bench.path("b/keys")).unwrap();
    std::fs::copy(bench.path("a/keys/serve.key"), bench.path("b/keys/serve.key")).unwrap();
    let operator = Operator::new(&a, &tokens);
    operator.send("b1", 0);
    operator.close(1);
    let b = following(&bench.path("b"));
    wait_for_copy(&bench, "b");
    operator.send("b2", 1);
    operator.close(2);
    operator.send("b3", 2);
    let published = operator.rows();
    assert!(published.lines().count() == 3, "{published}");
    std::thread::sleep(Duration::from_secs(1));
    assert!(!b.is_finished(), "the primary is alive");

    let killed = Instant::now();
    a.end(false);
    let b = b.join().unwrap();
    let lasted = killed.elapsed();
    eprintln!("the other machine answers {lasted:?} after the kill");
    assert!(lasted < Duration::from_secs(10), "{lasted:?}");
    let operator = Operator::new(&b, &tokens);
    assert_eq!(operator.rows(), published);
    // Senders repeat their batches: shipped ones are known, and the rest is new.
    assert_eq!(operator.send("b3", 2)["repeated"], true);
    operator.close(3);
    let published = operator.rows();
    assert_eq!(published.lines().count(), 4, "{published}");

    // The old primary does not come back as one.
    let refused = bench.run_as_is(&["serve", "--config", "a/serve.toml"], b"");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let a = following(&bench.path("a"));
    wait_for_copy(&bench, "a");
    assert!(bench.path("a/data/store.replaced.redb").exists());
    // A time before the takeover is restored for the machine that is the primary now.
    let taken = bench.run_as_is(&["restore", "--from", "between", "--to", "restored.redb"], b"");
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    let primary = evertally_server::store::Store::open(&bench.path("restored.redb")).unwrap().primary().unwrap();
    assert_eq!(primary.len(), 32, "{primary:?}");
    operator.send("b4", 3);
    operator.close(4);
    let published = operator.rows();
    // A planned switch: all accepted batches are shipped.
    operator.send("b5", 4);
    b.end(true);
    let a = a.join().unwrap();
    let operator = Operator::new(&a, &tokens);
    assert_eq!(operator.rows(), published);
    assert_eq!(operator.send("b5", 4)["repeated"], true);
    operator.close(5);
    a.end(true);
}

/// An object store, which ends with the test: PyPI's moto.
struct ObjectStore {
    process: std::process::Child,
    port: u16,
}

impl ObjectStore {
    /// Starts it with the bucket `bucket`.
    fn start() -> Self {
        let python = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/python");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(python);
        command.args(["-m", "moto.server", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("target/python has moto: run checks/setup, which installs it");
        let store = Self { process, port };
        let end = Instant::now() + Duration::from_secs(30);
        let mut socket = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(socket) => break socket,
                Err(error) => assert!(Instant::now() < end, "moto does not listen: {error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let signature = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, \
                         Signature=0";
        let head = "PUT /bucket HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n";
        socket.write_all(format!("{head}Authorization: {signature}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        store
    }

    /// The variables with which programs reach it.
    fn variables(&self) -> [String; 5] {
        [
            format!("AWS_ENDPOINT=http://127.0.0.1:{}", self.port),
            "AWS_ACCESS_KEY_ID=key".to_owned(),
            "AWS_SECRET_ACCESS_KEY=secret".to_owned(),
            "AWS_REGION=us-east-1".to_owned(),
            "AWS_ALLOW_HTTP=true".to_owned(),
        ]
    }

    /// Starts a service that reaches it.
    fn serve(&self, folder: &Path, more: &[&str]) -> Child {
        let variables = self.variables();
        let program = [env!("CARGO_BIN_EXE_evertally"), "serve", "--config", "serve.toml", "--log", "error"];
        let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
        Child::start("/usr/bin/env", folder, &[&variables, &program[..], more].concat())
    }
}

impl Drop for ObjectStore {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn an_object_store_lies_between_two_machines() {
    let (bench, store) = (machines(), ObjectStore::start());
    for machine in ["a", "b"] {
        bench.write(&format!("{machine}/serve.toml"), SERVE.replace("../between", "s3://bucket/be/tween"));
    }
    let a = store.serve(&bench.path("a"), &[]);
    let tokens = tokens(&bench);
    std::fs::create_dir(bench.path("b/keys")).unwrap();
    std::fs::copy(bench.path("a/keys/serve.key"), bench.path("b/keys/serve.key")).unwrap();
    let operator = Operator::new(&a, &tokens);
    operator.send("b1", 0);
    operator.close(1);
    let restore = |to: &str, more: &[&str]| {
        let mut command = Command::new("/usr/bin/env");
        command.args(store.variables()).arg(env!("CARGO_BIN_EXE_evertally")).current_dir(bench.folder());
        command.args(["restore", "--from", "s3://bucket/be/tween", "--to", to]).args(more).output().unwrap()
    };
    std::thread::scope(|scope| {
        let b = scope.spawn(|| store.serve(&bench.path("b"), &["--follow"]));
        wait_for_copy(&bench, "b");
        operator.send("b2", 1);
        operator.close(2);
        let published = operator.rows();
        a.end(false);
        let b = b.join().unwrap();
        let operator = Operator::new(&b, &tokens);
        assert_eq!(operator.rows(), published);
        assert_eq!(operator.send("b2", 1)["repeated"], true);
        operator.send("b3", 2);
        operator.close(3);
        b.end(true);
    });
    let restored = restore("restored.redb", &[]);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let primary = evertally_server::store::Store::open(&bench.path("restored.redb")).unwrap().primary().unwrap();
    assert_eq!(primary.len(), 32, "{primary:?}");
    let early = restore("early.redb", &["--at", "2020-01-01T00:00:00Z"]);
    let why = String::from_utf8_lossy(&early.stderr);
    assert!(why.contains("s3://bucket/be/tween has no whole database of that time"), "{why}");
}

#[test]
fn the_database_is_restored_as_it_was_at_a_time() {
    let bench = machines();
    let a = start(&bench.path("a"), &[]);
    let operator = Operator::new(&a, &tokens(&bench));
    operator.send("b1", 0);
    operator.close(1);
    std::thread::sleep(Duration::from_secs(1));
    let (then, before) = (jiff::Timestamp::now().to_string(), operator.rows());
    std::thread::sleep(Duration::from_millis(500));
    operator.send("b2", 1);
    operator.close(2);
    let after = operator.rows();
    a.end(true);
    // What the witness has seen since is named.
    let compared =
        bench.run_as_is(&["restore", "--config", "a/serve.toml", "--at", &then, "--to", "compared.redb"], b"");
    let found = "stream `visits` is restored through step 1, and was published through step 2";
    assert!(compared.code == 0 && compared.stderr.contains(found), "{}", compared.stderr);
    // Another machine was lost right after it had taken over.
    let witness = bench.path("elsewhere/witness.json");
    let mut record: serde_json::Value = serde_json::from_slice(&std::fs::read(&witness).unwrap()).unwrap();
    record["primary"] = "lost".into();
    std::fs::write(&witness, record.to_string()).unwrap();
    let claimed = bench.run_as_is(&["restore", "--config", "a/serve.toml", "--to", "claimed.redb"], b"");
    assert!(claimed.code == 0 && claimed.stderr.contains("no service starts with"), "{}", claimed.stderr);
    std::fs::remove_file(&witness).unwrap();
    let restored = |at: &[&str]| {
        let to = bench.path("a/data/store.redb");
        std::fs::remove_file(&to).unwrap();
        let to = to.to_str().unwrap().to_owned();
        let ran = bench.run_as_is(&[&["restore", "--from", "between", "--to", &to], at].concat(), b"");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let again = bench.run_as_is(&[&["restore", "--from", "between", "--to", &to], at].concat(), b"");
        assert!(again.code == 2 && again.stderr.contains("exists already"), "{}", again.stderr);
        let a = start(&bench.path("a"), &["--forget-witness"]);
        // They are shown once they are shipped, and the new witness has them.
        let (own, end) = (Operator::new(&a, &operator.1), Instant::now() + Duration::from_secs(20));
        while own.rows().lines().count() < before.lines().count() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        let rows = own.rows();
        a.end(true);
        rows
    };
    assert_eq!(restored(&["--at", &then]), before);
    // The restored service ships too, but the newest segments of the first one are older.
    let early =
        bench.run_as_is(&["restore", "--from", "between", "--at", "2020-01-01T00:00:00Z", "--to", "early.redb"], b"");
    assert!(early.code == 2 && early.stderr.contains("no whole database of that time"), "{}", early.stderr);
    assert_ne!(before, after);
    // A damaged segment is found.
    let between = std::fs::read_dir(bench.path("between")).unwrap().map(|entry| entry.unwrap().path());
    let epoch = between.filter(|path| path.join("000000000001.segment").exists()).max().unwrap();
    let path = epoch.join("000000000001.segment");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let damaged = bench.run_as_is(&["restore", "--from", "between", "--to", "damaged.redb"], b"");
    assert!(damaged.code == 2 && damaged.stderr.contains("is damaged"), "{}", damaged.stderr);
    assert!(!bench.path("damaged.redb").exists());
    // An earlier chain, which begins before that one, is whole.
    let began = epoch.file_name().unwrap().to_str().unwrap()[..22].to_owned();
    assert!(damaged.stderr.contains("choose a time before its chain began"), "{}", damaged.stderr);
    assert!(damaged.stderr.contains(&began), "{}", damaged.stderr);
    let ran = bench.run_as_is(&["restore", "--from", "between", "--at", &then, "--to", "damaged.redb"], b"");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

/// Events per second with and without shipping, and shipped bytes per event: `cargo test --release -- --ignored`.
#[test]
#[ignore = "measures"]
fn the_cost_of_shipping() {
    const BATCHES: usize = 60;
    const ROWS: usize = 20_000;
    for (word, ships) in [("without", false), ("with", true), ("without", false), ("with", true)] {
        let bench = machines();
        let (head, rest) = SERVE.split_once("[standby]").unwrap();
        let (standby, stream) = rest.split_once("[[stream]]").unwrap();
        let standby = if ships { format!("[standby]{standby}") } else { String::new() };
        let persons = "person = \"person\"\nmax-events = 5\ngroup-by = [\"group\"]\ngroups = [\"north\", \"south\"]\n";
        bench.write("a/serve.toml", format!("{head}{standby}[[stream]]{stream}{persons}"));
        let a = start(&bench.path("a"), &[]);
        let operator = Operator::new(&a, &tokens(&bench));
        let row = |row: usize| {
            let (person, group) = (row * 7919 % 5003, ["north", "south"][row * 31 % 7 % 2]);
            format!("2026-01-01T00:{:02}:{:02}Z,p{person},{group}\n", row / 60 % 60, row % 60)
        };
        let body = format!("time,person,group\n{}", (0..ROWS).map(row).collect::<String>());
        let began = Instant::now();
        std::thread::scope(|scope| {
            for client in 0..4 {
                let (operator, body) = (&operator, &body);
                scope.spawn(move || {
                    for batch in 0..BATCHES / 4 {
                        let id = format!("{client}-{batch}");
                        let headers = [("content-type", "text/csv"), ("idempotency-key", &*id)];
                        let own = &operator.1[1];
                        let sent = operator.0.post("/v1/streams/visits/events", own, &headers, body.as_bytes());
                        assert_eq!(sent.unwrap().status, 200);
                    }
                });
            }
        });
        let (events, lasted) = ((BATCHES * ROWS) as f64, began.elapsed());
        std::thread::sleep(Duration::from_secs(2));
        let metrics = operator.0.get("/metrics", &operator.1[0]).unwrap().text;
        let line = metrics.lines().find(|line| line.starts_with("evertally_standby_shipped_bytes_total"));
        let bytes: f64 = line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0);
        let store = std::fs::metadata(bench.path("a/data/store.redb")).unwrap().len() as f64;
        eprintln!(
            "{word} shipping: {:.0} events/s, {:.2} bytes shipped and {:.1} stored per event",
            events / lasted.as_secs_f64(),
            bytes / events,
            store / events
        );
        a.end(true);
    }
}
