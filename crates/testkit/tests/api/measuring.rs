//! The metrics of the private listener.

use crate::server::{HOUR, START, STREAMS, Server, WITNESS};
use evertally_declare::steps::Instant as EventTime;
use evertally_server::clock::ManualClock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The value of each sample, by its name and labels.
fn samples(server: &Server) -> BTreeMap<String, f64> {
    let text = server.get("/metrics").text;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

/// Waits until a sample has a value that fits.
fn wait_for(server: &Server, name: &str, fits: impl Fn(f64) -> bool) {
    let since = Instant::now();
    loop {
        let found = samples(server).get(name).copied();
        if found.is_some_and(&fits) {
            return;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{name}: {found:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_operator_sees_the_process_its_disk_and_its_requests() {
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let server = Server::with("backups = \"copies\"", &format!("{WITNESS}{STREAMS}"));
    std::fs::create_dir_all(server.path("copies")).unwrap();
    server.publish("open", 2);
    assert_eq!(server.public.get("/v1/streams/open/releases", "").unwrap().status, 200);
    for _ in 0..3 {
        assert_eq!(server.public.get("/v1/streams/open/releases?from=0", "").unwrap().status, 400);
    }
    assert_eq!(server.private.get("/v1/operator", "wrong").unwrap().status, 401);
    assert_eq!(server.send("open", "a", "{\"time\":\"never\",\"group\":\"a\"}\n").status, 422);
    let now = samples(&server);
    let value = |name: &str| *now.get(name).unwrap_or_else(|| panic!("no {name} in {now:#?}"));
    assert!(value("process_start_time_seconds") >= started - 1.0);
    assert!(value("process_open_fds") > 3.0 && value("process_max_fds") >= value("process_open_fds"));
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("evertally_store_bytes") > 0.0 && value("evertally_disk_free_bytes") > 0.0);
    assert_eq!(value("evertally_disk_reserved_bytes"), f64::from(256 << 20));
    assert_eq!(value("evertally_horizon_steps{stream=\"open\"}"), 100.0);
    assert!(!now.contains_key("evertally_horizon_steps{stream=\"closed\"}"), "it has no end");
    // Commits are on disk: each takes some time.
    let commits = value("evertally_commit_duration_seconds_count");
    assert!(commits >= 3.0 && value("evertally_commit_duration_seconds_sum") > 0.0);
    assert_eq!(value("evertally_commit_duration_seconds_bucket{le=\"+Inf\"}"), commits);
    let route = "method=\"GET\",route=\"/v1/streams/{stream}/releases\"";
    assert_eq!(value(&format!("evertally_requests_total{{{route},status=\"200\"}}")), 1.0);
    assert_eq!(value(&format!("evertally_requests_total{{{route},status=\"400\"}}")), 3.0);
    assert_eq!(value(&format!("evertally_requests_refused_total{{{route},kind=\"bad-request\"}}")), 3.0);
    assert_eq!(value(&format!("evertally_request_duration_seconds_count{{{route}}}")), 4.0);
    assert_eq!(value(&format!("evertally_request_duration_seconds_bucket{{{route},le=\"+Inf\"}}")), 4.0);
    let refused = |method: &str, route: &str, kind: &str| {
        let labels = format!("method=\"{method}\",route=\"{route}\",kind=\"{kind}\"");
        value(&format!("evertally_requests_refused_total{{{labels}}}"))
    };
    assert_eq!(refused("GET", "/v1/operator", "unauthorized"), 1.0);
    assert_eq!(refused("POST", "/v1/streams/{stream}/events", "bad-rows"), 1.0);
    assert!(value("evertally_witness_updates_total") > 0.0);
    assert_eq!(value("evertally_witness_failing"), 0.0);
    assert!(!now.contains_key("evertally_backup_age_seconds"), "there is no backup yet");
    assert_eq!(server.post("/v1/backup", "").status, 201);
    wait_for(&server, "evertally_backup_age_seconds", |age| (0.0..60.0).contains(&age));
    std::fs::remove_dir_all(server.path("elsewhere")).unwrap();
    server.at(3, 95);
    wait_for(&server, "evertally_witness_failing", |failing| failing == 1.0);
    wait_for(&server, "evertally_witness_lag_seconds", |lag| lag > 0.0);
    wait_for(&server, "evertally_problems{kind=\"witness\"}", |problems| problems == 1.0);
    std::fs::create_dir_all(server.path("elsewhere")).unwrap();
}

#[test]
fn each_webhook_has_its_lag() {
    let hook = "[[webhook]]\nurl = \"http://user:secret@127.0.0.1:1/in?token=secret\"\n";
    let server = Server::with("", &format!("{STREAMS}{hook}"));
    let name = |stream: &str| {
        format!("evertally_webhook_lag_publications{{webhook=\"http://127.0.0.1:1/in\",stream=\"{stream}\"}}")
    };
    wait_for(&server, &name("open"), |lag| lag == 0.0);
    server.publish("open", 2);
    wait_for(&server, &name("open"), |lag| lag == 2.0);
    wait_for(&server, "evertally_problems{kind=\"webhook\"}", |problems| problems == 1.0);
    let now = samples(&server);
    assert!(!now.contains_key(&name("closed")), "only public streams are sent");
    assert!(now.keys().all(|name| !name.contains("secret")));
}

#[test]
fn a_slow_clock_is_a_lag() {
    let mut server = Server::new();
    server.publish("open", 3);
    let lag = "evertally_lag_seconds{stream=\"open\"}";
    assert_eq!(samples(&server)[lag], 0.0);
    // Step 3 ended at 3:00.
    server.stop();
    server.clock = Arc::new(ManualClock::at(EventTime::from_micros(START + HOUR)));
    server.start().unwrap();
    assert_eq!(samples(&server)[lag], 7200.0);
    server.at(3, 0);
    assert_eq!(samples(&server)[lag], 0.0);
    assert!(!samples(&server).contains_key("evertally_lag_seconds"), "each stream has its own");
}
