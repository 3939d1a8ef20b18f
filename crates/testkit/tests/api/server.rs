//! A service that answers at an address of this machine, with a clock that the test sets.

use evertally_declare::steps::Instant;
use evertally_server::clock::{Clock, ManualClock};
use evertally_server::config::Config;
use evertally_server::engine::Service;
use evertally_server::http::Side;
use evertally_server::serving::Running;
use evertally_server::syslog::SyslogProgress;
use evertally_testkit::service::{Answer, Client};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const HOUR: i64 = 3_600_000_000;
/// 2026-01-01.
pub(crate) const START: i64 = 1_767_225_600_000_000;

/// The streams of most tests: `open` is public, `closed` is not, and `hand` is closed by its operator.
pub(crate) const STREAMS: &str = r#"
[[stream]]
stream = "open"
public = true
start = "2026-01-01"
every = "1h"
steps = 100
group-by = ["group"]
groups = ["a", "b/c", "ü \"x\""]
rho = 1

[[stream]]
stream = "closed"
start = "2026-01-01"
every = "1h"
unbounded = true
epsilon = 1

[[stream]]
stream = "hand"
public = true
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 10
person = "person"
max-events = 3
max-events-per-step = 2
epsilon = 1
"#;

pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) clock: Arc<ManualClock>,
    runtime: tokio::runtime::Runtime,
    running: Option<Running>,
    pub(crate) public: Client,
    pub(crate) private: Client,
    pub(crate) operate: String,
    pub(crate) more: String,
    adopts_key: bool,
    pub(crate) forgets_witness: bool,
}

/// The head of a configuration.
fn head(more: &str) -> String {
    format!(
        "folder = \"data\"\nkey = \"keys/serve.key\"\n{more}\n[public]\nlisten = \"127.0.0.1:0\"\n[private]\nlisten = \
         \"127.0.0.1:0\"\n\
         [steps]\ngrace = \"60s\"\ndelay = \"30s\"\nahead = \"60s\"\ncatch-up = \"0s\"\n"
    )
}

impl Server {
    /// A server with the streams above.
    pub(crate) fn new() -> Self {
        Self::with("", STREAMS)
    }

    /// A server with settings for the top of the configuration, and with tables and streams.
    pub(crate) fn with(top: &str, rest: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("elsewhere")).unwrap();
        let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
        let mut server = Self::on(folder, clock, top, rest).unwrap_or_else(|error| panic!("{error}"));
        server.operate = server.token("operate");
        server
    }

    /// A server in a new folder, with an existing key.
    pub(crate) fn adopting(folder: TempDir, clock: Arc<ManualClock>, rest: &str) -> Result<Self, String> {
        let mut server = Self::made(folder, clock, "", rest);
        server.adopt()?;
        Ok(server)
    }

    /// Starts with an existing key, whatever the state of the folder.
    pub(crate) fn adopt(&mut self) -> Result<(), String> {
        self.adopts_key = true;
        let started = self.start();
        self.adopts_key = false;
        started
    }

    pub(crate) fn on(folder: TempDir, clock: Arc<ManualClock>, top: &str, rest: &str) -> Result<Self, String> {
        let mut server = Self::made(folder, clock, top, rest);
        server.start()?;
        Ok(server)
    }

    fn made(folder: TempDir, clock: Arc<ManualClock>, top: &str, rest: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let nobody = || Client::new("");
        let more = format!("{}{rest}", head(top));
        let (public, private, operate) = (nobody(), nobody(), String::new());
        Self {
            folder,
            clock,
            runtime,
            running: None,
            public,
            private,
            operate,
            more,
            adopts_key: false,
            forgets_witness: false,
        }
    }

    /// A copy of the folder and the key in another place; the server must be stopped.
    pub(crate) fn copied(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["data", "keys"] {
            copy(&self.path(name), &folder.path().join(name));
        }
        folder
    }

    /// A service on such a copy.
    pub(crate) fn from_copy(folder: TempDir, rest: &str) -> Result<Self, String> {
        let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
        let mut server = Self::on(folder, clock, "", rest)?;
        server.operate = server.token("operate");
        Ok(server)
    }

    /// Saves a copy of the folder, and continues.
    pub(crate) fn save_copy(&mut self) {
        self.stop();
        copy(&self.path("data"), &self.path("old"));
        self.start().unwrap();
    }

    /// Continues with the saved copy instead of the current folder.
    pub(crate) fn restore_copy(&mut self) {
        self.stop();
        std::fs::remove_dir_all(self.path("data")).unwrap();
        copy(&self.path("old"), &self.path("data"));
        self.start().unwrap();
    }

    pub(crate) fn config(&self) -> Config {
        self.try_config().unwrap()
    }

    pub(crate) fn try_config(&self) -> Result<Config, String> {
        let file = self.folder.path().join("serve.toml");
        std::fs::write(&file, &self.more).unwrap();
        Config::read(&file).map_err(|error| error.to_string())
    }

    pub(crate) fn start(&mut self) -> Result<(), String> {
        let config = Config { adopts_key: self.adopts_key, forgets_witness: self.forgets_witness, ..self.config() };
        let (config, clock) = (config, Arc::clone(&self.clock) as Arc<dyn Clock>);
        let running = self.runtime.block_on(Running::by(&config, clock)).map_err(|error| error.to_string())?;
        self.public = Client::new(running.url(Side::Public).unwrap());
        self.private = Client::new(running.url(Side::Private).unwrap());
        self.running = Some(running);
        Ok(())
    }

    pub(crate) fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.stop());
        }
    }

    /// Changes the configuration for the next start.
    pub(crate) fn change(&mut self, from: &str, to: &str) {
        assert!(self.more.contains(from));
        self.more = self.more.replace(from, to);
    }

    /// Changes the configuration, and reads it again while the service runs.
    pub(crate) fn reload(&mut self, from: &str, to: &str) -> Result<(), String> {
        self.change(from, to);
        let reloaded = self.running.as_ref().unwrap().reload(&self.config());
        reloaded.map_err(|error| error.to_string())
    }

    /// The URL of a side, also of a path.
    pub(crate) fn url(&self, side: Side) -> &str {
        self.running.as_ref().unwrap().url(side).unwrap()
    }

    /// The first listener for syslog.
    pub(crate) fn syslog(&self) -> Arc<SyslogProgress> {
        self.running.as_ref().unwrap().app.syslog.progress().remove(0)
    }

    /// The streams, without HTTP.
    pub(crate) fn service(&self) -> Arc<Service> {
        Arc::clone(&self.running.as_ref().unwrap().service)
    }

    pub(crate) fn token(&self, role: &str) -> String {
        let running = self.running.as_ref().unwrap();
        let (_, token) = running.app.tokens.make(&role.parse().unwrap(), "test").unwrap();
        (*token).clone()
    }

    pub(crate) fn revoke(&self, token: &str) {
        let id = token.split('_').nth(1).unwrap();
        self.running.as_ref().unwrap().app.tokens.revoke(id).unwrap();
    }

    /// Sets the clock to this time after the start.
    pub(crate) fn at(&self, hours: i64, seconds: i64) {
        self.clock.set(Instant::from_micros(START + hours * HOUR + seconds * 1_000_000));
    }

    /// Lets this number of hours pass, until the steps of the stream are shown.
    pub(crate) fn publish(&self, stream: &str, hours: i64) {
        // Steps are closed a minute after their end, and shown half a minute later.
        self.at(hours, 65);
        for _ in 0..2000 {
            if self.view(stream)["open_step"].as_i64().unwrap() > hours {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.at(hours, 95);
        self.wait(stream, hours as u64);
    }

    /// The operator's view of a stream.
    pub(crate) fn view(&self, stream: &str) -> serde_json::Value {
        let all = self.get("/v1/operator").json();
        all["streams"].as_array().unwrap().iter().find(|own| own["name"] == stream).unwrap().clone()
    }

    /// Waits until this number of publications of a stream is shown.
    pub(crate) fn wait(&self, stream: &str, published: u64) {
        for _ in 0..2000 {
            if self.published(stream) >= published {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{stream} is at {} and not at {published}", self.published(stream));
    }

    pub(crate) fn published(&self, stream: &str) -> u64 {
        self.get(&format!("/v1/streams/{stream}")).json()["published"].as_u64().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.private.get(path, &self.operate).unwrap()
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.private.post(path, &self.operate, &[("content-type", "application/json")], body.as_bytes()).unwrap()
    }

    /// Sends a batch of JSON lines with a new token.
    pub(crate) fn send(&self, stream: &str, id: &str, body: &str) -> Answer {
        self.send_as(stream, id, "application/x-ndjson", body.as_bytes(), &[])
    }

    pub(crate) fn send_as(&self, stream: &str, id: &str, kind: &str, body: &[u8], more: &[(&str, &str)]) -> Answer {
        let token = self.token(&format!("write:{stream}"));
        let headers = [&[("content-type", kind), ("idempotency-key", id)], more].concat();
        self.private.post(&format!("/v1/streams/{stream}/events"), &token, &headers, body).unwrap()
    }

    /// The number of events in the operator's view.
    pub(crate) fn events(&self, stream: &str) -> u64 {
        self.view(stream)["events"].as_u64().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

/// A witness in a file.
pub(crate) const WITNESS: &str = "[witness]\nfile = \"elsewhere/witness.json\"\n";

/// Sends the events of a step of `hand`, and closes it.
pub(crate) fn hand(server: &Server, step: u64) {
    let body = format!("{{\"time\":\"2026-01-01T{:02}:30:00Z\",\"person\":\"p{step}\"}}\n", step - 1).repeat(2);
    assert_eq!(server.send("hand", &format!("s{step}"), &body).status, 200);
    let closed = server.post("/v1/streams/hand/close", &format!("{{\"through\":{step}}}"));
    assert_eq!(closed.status, 200, "{}", closed.text);
}

/// All rows that a stream has published, as CSV.
pub(crate) fn rows(server: &Server, stream: &str) -> String {
    server.get(&format!("/v1/streams/{stream}/releases?from=1&to=100&format=csv")).text
}

/// A request at a socket: the first line, headers with names in lower case, and the body.
pub(crate) fn request_of(socket: &TcpStream) -> (String, Vec<(String, String)>, Vec<u8>) {
    let mut from = BufReader::new(socket);
    let (mut first, mut headers) = (String::new(), Vec::new());
    from.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).unwrap() == 0 {
            break;
        }
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, length)| length.parse().unwrap());
    let mut body = vec![0; length];
    from.read_exact(&mut body).unwrap();
    (first, headers, body)
}

/// Copies a folder with its contents.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            let _ = std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
