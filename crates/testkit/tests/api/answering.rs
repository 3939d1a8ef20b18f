//! Every route of every kind of stream, on a runtime with one thread: no computation blocks that thread for long.
//!
//! A task reads the clocks of that thread at each of its turns. Between two turns, the thread has either computed (its
//! own processor time) or slept on a lock or a disk (the remaining wall time, without the time spent waiting for a
//! processor). Neither depends on how busy the machine is.

use crate::server::START;
use evertally_declare::steps::Instant;
use evertally_server::clock::{Clock, ManualClock};
use evertally_server::config::Config;
use evertally_server::http::{App, Side, document};
use evertally_server::serving::Running;
use evertally_testkit::service::Client;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// The longest time that the thread may compute without a break.
const COMPUTING: Duration = Duration::from_millis(100);
/// The longest time that it may sleep where it must not: disks of test machines are slow.
const SLEEPING: Duration = Duration::from_secs(1);

/// Declarations of every kind: of publications, privacy units and horizons.
const KINDS: &[(&str, &str)] = &[
    ("groups", "steps = 100\ngroup-by = [\"group\"]\ngroups = [\"a\", \"b/c\"]\nrho = 1"),
    ("days", "unbounded = true\nperson = \"member\"\nmax-events = 5\nper = \"day\"\nrho = 0.1"),
    (
        "many",
        "unbounded = true\nperson = \"member\"\nmax-events = 500\nmax-events-per-step = 30\nper = \"month\"\nepsilon = \
         1\ndelta = 1e-6",
    ),
    (
        "gaps",
        "unbounded = true\nperson = \"member\"\nmax-events = 12\nmax-events-per-step = 1\nmin-gap = 2\nper = \
         \"day\"\nrho = 0.1",
    ),
    (
        "grouped",
        "unbounded = true\nperson = \"member\"\nmax-events = 30\nmax-groups = 2\nper = \"week\"\ngroup-by = \
         [\"group\"]\ngroups = [\"a\", \"b\"]\nrho = 0.1",
    ),
    ("pure", "unbounded = true\nperson = \"member\"\nmax-events = 5\nper = \"day\"\nepsilon = 1"),
    ("history", "unbounded = true\nperson = \"member\"\nmax-events = 20\nepsilon = 1\ndelta = 1e-6"),
    ("windows", "unbounded = true\nworkload = \"window(7d)\"\nrho = 0.5"),
    (
        "decays",
        "unbounded = true\nperson = \"member\"\nmax-events = 5\nper = \"day\"\nworkload = \"decay(7d)\"\nrho = 0.5",
    ),
    ("several", "steps = 200\nworkload = [\"sum\", \"window(24h)\"]\nrho = 0.5"),
    ("measures", "steps = 48\nvalue = \"amount\"\nbounds = [0, 100]\nmeasure = [\"count\", \"mean\"]\nrho = 0.5"),
    (
        "banded",
        "steps = 300\nperson = \"member\"\nmax-events = 3\nper = \"day\"\nband = \"simultaneous\"\nview = \
         [\"non-decreasing\"]\nrho = 0.5",
    ),
    ("rare", "steps = 240\npublish = \"1d\"\nperson = \"member\"\nmax-events = 5\nper = \"day\"\nrho = 0.1"),
    (
        "found",
        "steps = 200\ngroup-by = [\"group\"]\ndiscover-groups = true\nselect-every = 10\nselection-delta = \
         1e-6\nperson = \"member\"\nmax-events = 3\nmax-events-per-step = 1\nper = \"week\"\nepsilon = 1\ndelta = 1e-6",
    ),
    ("hand", "closing = \"operator\"\nsteps = 10\nperson = \"member\"\nmax-events = 3\nepsilon = 1"),
    ("sums", "closing = \"sums\"\nsteps = 1000\nrho = 1"),
];

/// A service whose runtime has one thread.
struct OneThread {
    folder: TempDir,
    clock: Arc<ManualClock>,
    urls: [String; 2],
    app: Arc<App>,
    longest: Arc<Longest>,
    stop: tokio::sync::oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// The longest times, in nanoseconds.
#[derive(Default)]
struct Longest {
    computing: AtomicU64,
    sleeping: AtomicU64,
}

impl Longest {
    /// The maxima since the last call.
    fn take(&self) -> (Duration, Duration) {
        let of = |nanos: &AtomicU64| Duration::from_nanos(nanos.swap(0, Ordering::Relaxed));
        (of(&self.computing), of(&self.sleeping))
    }
}

/// How long this thread has computed, and how long it has waited for a processor.
fn of_this_thread() -> (Duration, Duration) {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel tells");
    let mut nanos = text.split_whitespace().map(|number| Duration::from_nanos(number.parse().expect("a number")));
    (nanos.next().expect("time on a processor"), nanos.next().expect("time waiting for one"))
}

async fn look(longest: Arc<Longest>) {
    const PAUSE: Duration = Duration::from_millis(2);
    let now = || (std::time::Instant::now(), of_this_thread());
    let mut before = now();
    loop {
        tokio::time::sleep(PAUSE).await;
        let after = now();
        let (computed, waited) = (after.1.0 - before.1.0, after.1.1 - before.1.1);
        let slept = (after.0 - before.0).saturating_sub(computed + waited + PAUSE);
        longest.computing.fetch_max(computed.as_nanos() as u64, Ordering::Relaxed);
        longest.sleeping.fetch_max(slept.as_nanos() as u64, Ordering::Relaxed);
        before = after;
    }
}

impl OneThread {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["elsewhere", "copies"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let mut text = "folder = \"data\"\nkey = \"keys/serve.key\"\nbackups = \"copies\"\n\
                        [public]\nlisten = \"127.0.0.1:0\"\n[private]\nlisten = \"127.0.0.1:0\"\n\
                        [witness]\nfile = \"elsewhere/w.json\"\n\
                        [steps]\ngrace = \"0s\"\ndelay = \"0s\"\nahead = \"60s\"\ncatch-up = \"0s\"\n"
            .to_owned();
        for (name, declared) in KINDS {
            let head =
                format!("[[stream]]\nstream = \"{name}\"\npublic = true\nstart = \"2026-01-01\"\nevery = \"1h\"\n");
            text += &format!("{head}{declared}\n");
        }
        let file = folder.path().join("serve.toml");
        std::fs::write(&file, text).unwrap();
        let config = Config::read(&file).unwrap();
        let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
        let by = Arc::clone(&clock) as Arc<dyn Clock>;
        let (started, is_up) = mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let longest = Arc::<Longest>::default();
        let looking = Arc::clone(&longest);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                tokio::spawn(look(looking));
                let running = Running::by(&config, by).await.unwrap_or_else(|error| panic!("{error}"));
                let urls = [Side::Public, Side::Private].map(|side| running.url(side).unwrap().to_owned());
                started.send((urls, Arc::clone(&running.app))).unwrap();
                let _ = stopped.await;
                running.stop().await;
            });
        });
        let (urls, app) = is_up.recv().expect("it starts");
        Self { folder, clock, urls, app, longest, stop, thread }
    }

    fn token(&self, role: &str) -> String {
        self.app.tokens.make(&role.parse().unwrap(), "test").unwrap().1.to_string()
    }

    /// Runs a request, and checks its effect on the single thread.
    fn asked<T>(&self, what: &str, ask: impl FnOnce() -> T) -> T {
        self.longest.take();
        let answer = ask();
        // One more turn, which measures the end of the request.
        std::thread::sleep(Duration::from_millis(10));
        let (computing, sleeping) = self.longest.take();
        assert!(computing < COMPUTING, "{what}: the answering thread computed for {computing:?} without a break");
        assert!(sleeping < SLEEPING, "{what}: the answering thread slept for {sleeping:?}");
        answer
    }

    fn stop(self) {
        let _ = self.stop.send(());
        self.thread.join().unwrap();
        drop(self.folder);
    }
}

/// The routes of the document: path and method.
fn routes() -> Vec<(String, String)> {
    let document = serde_json::to_value(document()).unwrap();
    let paths = document["paths"].as_object().unwrap().clone();
    let of = |(path, methods): (String, serde_json::Value)| -> Vec<(String, String)> {
        methods.as_object().unwrap().keys().map(|method| (path.clone(), method.to_uppercase())).collect()
    };
    let mut routes: Vec<_> = paths.into_iter().flat_map(of).collect();
    routes.extend(["/", "/openapi.json", "/assets/app.js"].map(|path| (path.to_owned(), "GET".to_owned())));
    // Routes that end a stream or create tokens come last.
    routes.sort_by_key(|(path, method)| (path.ends_with("/retire"), method != "GET", path.clone()));
    routes
}

/// The body of a route, and its headers.
fn body(path: &str, stream: &str) -> (String, Vec<(&'static str, &'static str)>) {
    let json = vec![("content-type", "application/json")];
    let rows =
        |text: &str| (text.to_owned(), vec![("content-type", "application/x-ndjson"), ("idempotency-key", "one")]);
    let declared = KINDS.iter().find(|(name, _)| *name == stream).map(|(_, declared)| *declared);
    match path.rsplit('/').next().unwrap_or("") {
        "events" => rows("{\"time\":\"2026-01-01T09:00:00Z\",\"member\":\"m\",\"group\":\"a\",\"amount\":3}\n"),
        "logs" => ("{\"resourceLogs\":[]}".to_owned(), json),
        "push" => ("{\"streams\":[]}".to_owned(), json),
        "sums" => rows("{\"step\":1,\"sum\":5}\n"),
        "close" => ("{\"through\":2}".to_owned(), json),
        "groups" => ("{\"groups\":[\"zz\"]}".to_owned(), json),
        "tokens" => ("{\"role\":\"read:*\"}".to_owned(), json),
        "streams" => {
            let mut declared: toml::Table = declared.unwrap_or("steps = 9\nrho = 1").parse().unwrap();
            declared.remove("closing");
            declared.entry("every").or_insert("1h".into());
            declared.insert("start".into(), "2026-02-01".into());
            declared.insert("stream".into(), format!("{stream} again").into());
            (serde_json::json!({ "declaration": declared }).to_string(), json)
        }
        _ => (String::new(), vec![]),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_route_of_any_stream_keeps_the_thread_that_answers() {
    let service = OneThread::start();
    let [public, private] = service.urls.each_ref().map(|url| Client::new(url));
    let operate = service.token("operate");
    let writers: BTreeMap<&str, String> =
        KINDS.iter().map(|(name, _)| (*name, service.token(&format!("write:{name}")))).collect();
    // Every stream has a watcher.
    let watchers: Vec<TcpStream> = KINDS
        .iter()
        .map(|(name, _)| {
            let mut socket = TcpStream::connect(public.address()).unwrap();
            write!(socket, "GET /v1/streams/{name}/watch HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            socket
        })
        .collect();
    let mut asked = 0;
    for hours in [0, 3, 27] {
        service.clock.set(Instant::from_micros(START + hours * crate::server::HOUR + 1_000_000));
        service.asked("publication", || std::thread::sleep(Duration::from_millis(500)));
        for (path, method) in routes() {
            for (name, _) in KINDS {
                if !path.contains("{stream}") && *name != "groups" && path != "/v1/streams" {
                    continue; // once is enough
                }
                // The last round ends streams.
                if (path.ends_with("/retire") && hours < 27) || path.ends_with("/watch") {
                    continue;
                }
                let (text, headers) = body(&path, name);
                let mut target = path.replace("{stream}", name).replace("{id}", "none").replace("{name}", "app.js");
                target += match (path.rsplit('/').next().unwrap_or(""), method.as_str()) {
                    ("sums", _) => "?from=1&through=1",
                    ("positions", _) => "?source=x",
                    ("streams", "POST") => "?dry-run=true",
                    _ => "",
                };
                let of_writers = ["/events", "/positions", "/logs", "/push", "/sums", "/declaration"];
                let token = if of_writers.iter().any(|end| path.ends_with(end)) {
                    writers[name].as_str()
                } else {
                    operate.as_str()
                };
                let what = format!("{method} {target} of `{name}` after {hours} hours");
                let answer =
                    service.asked(&what, || private.ask(&method, &target, token, &headers, text.as_bytes())).unwrap();
                assert!(answer.status < 500, "{what}: {} {}", answer.status, answer.text);
                assert!(!answer.text.contains("\"no-page\""), "{what}: there is no such route");
                if method == "GET"
                    && path.contains("{stream}")
                    && !path.ends_with("/late")
                    && !path.ends_with("/declaration")
                    && !path.ends_with("/positions")
                {
                    service.asked(&what, || public.get(&target, "")).unwrap();
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 400, "{asked}");
    for (mut socket, (name, _)) in watchers.into_iter().zip(KINDS) {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut seen = [0; 16];
        assert!(socket.read(&mut seen).unwrap() > 0, "the watcher of `{name}` receives nothing");
    }
    service.stop();
}

/// A test of the measurement above: it detects a task that computes, and one that sleeps.
#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_is_kept_is_noticed() {
    let longest = Arc::<Longest>::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let looking = tokio::spawn(look(Arc::clone(&longest)));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (computing, sleeping) = longest.take();
        assert!(computing < COMPUTING && sleeping < SLEEPING, "{computing:?} {sleeping:?}");
        tokio::spawn(async { std::thread::sleep(Duration::from_millis(1300)) });
        // At the second sleep, the measuring task has had its turn.
        tokio::time::sleep(Duration::from_millis(50)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(longest.take().1 > SLEEPING);
        tokio::spawn(async {
            let began = of_this_thread().0;
            while of_this_thread().0 - began < Duration::from_millis(150) {}
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(longest.take().0 > COMPUTING);
        looking.abort();
    });
}
