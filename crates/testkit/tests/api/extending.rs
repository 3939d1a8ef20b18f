//! Streams that are extended without a request, each time once, as long as there is budget.

use crate::server::{START, Server};
use evertally::privacy::{Budget, Rho};
use evertally_declare::steps::Instant;
use evertally_ledger::disk::RealDisk;
use evertally_ledger::ledger::Protects;
use evertally_ledger::source::{Approval, SourceBudget, Total};
use evertally_server::clock::ManualClock;
use evertally_server::serving;
use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

/// A stream of persons, closed by its operator.
fn stream(more: &str) -> String {
    format!(
        "[[stream]]\nstream = \"year\"\npublic = true\nclosing = \"operator\"\nstart = \"2026-01-01\"\nevery = \
         \"1h\"\nsteps = 2\nperson = \"person\"\nmax-events = 2\nrho = 0.3\n{more}\n"
    )
}

#[track_caller]
fn wait_until(server: &Server, what: &str, mut holds: impl FnMut() -> bool) {
    let until = Monotonic::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Monotonic::now() < until, "{what}: {}", server.get("/v1/operator").json()["problems"]);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_open(server: &Server, name: &str) -> bool {
    server.service().stream(name).is_some()
}

fn close(server: &Server, name: &str) {
    let closed = server.post(&format!("/v1/streams/{name}/close"), "{\"through\":2}");
    assert_eq!(closed.status, 200, "{}", closed.text);
}

#[test]
fn a_source_ends_the_extensions_of_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.budget");
    let protects = Protects { persons: true, period: None, replaced: false };
    let total = Total { budget: Budget::Zcdp(Rho::new(1.0).unwrap()), is_basic: false, protects };
    let budget = SourceBudget::create(Arc::new(RealDisk), &path, "shop", total, Approval::default()).unwrap();
    let settings =
        format!("[sources]\nshop = \"shop.budget\"\n{}", stream("source = \"shop\"\nextend = \"automatic\""));
    let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
    let mut server = Server::on(folder, clock, "", &settings).unwrap();
    server.operate = server.token("operate");
    let checked = serving::check(&server.config()).unwrap().join("\n");
    assert!(checked.contains("extended automatically by 2 steps") && checked.contains("source `shop`"), "{checked}");
    let left = |server: &Server, last: &str, left: u32| {
        let line = format!("evertally_extensions_left{{stream=\"year\",last=\"{last}\"}} {left}\n");
        wait_until(server, &line, || server.get("/metrics").text.contains(&line));
    };
    left(&server, "year", 2);
    server.save_copy();
    close(&server, "year");
    wait_until(&server, "year #2", || is_open(&server, "year #2"));
    // As after a crash between the reservation of the cost and the opening: it counts once.
    server.restore_copy();
    assert!(!is_open(&server, "year #2"));
    close(&server, "year");
    wait_until(&server, "year #2", || is_open(&server, "year #2"));
    left(&server, "year #2", 1);
    server.stop();
    server.start().unwrap();
    close(&server, "year%20%232");
    wait_until(&server, "year #3", || is_open(&server, "year #3"));
    // The last one is open for its whole horizon, and its operator knows already.
    left(&server, "year #3", 0);
    let problem = "evertally_problems{kind=\"extension\"} 1\n";
    wait_until(&server, problem, || server.get("/metrics").text.contains(problem));
    let problems = server.get("/v1/operator").json()["problems"].to_string();
    assert!(problems.contains("`year #3` ends at") && problems.contains("does not fit the budget"), "{problems}");
    close(&server, "year%20%233");
    assert_eq!(server.get("/v1/streams/year%20%233").json()["state"], "ended");
    let costs: Vec<String> = budget.state().unwrap().costs.into_iter().map(|cost| cost.stream).collect();
    assert_eq!(costs, ["year", "year #2", "year #3"]);
    let audit = server.get("/v1/audit").text;
    assert_eq!(audit.matches("\"action\":\"extend\"").count(), 2, "{audit}");
    assert!(!is_open(&server, "year #4"));
}

#[test]
fn a_stream_is_extended_as_often_as_declared_also_after_a_long_stop() {
    let times = stream("extend = { times = 2 }").replace("closing = \"operator\"\n", "");
    let mut server = Server::with("", &times);
    server.stop();
    server.at(50, 0);
    server.start().unwrap();
    wait_until(&server, "year #3", || is_open(&server, "year #3"));
    server.wait("year%20%233", 2);
    let line = "evertally_extensions_left{stream=\"year\",last=\"year #3\"} 0\n";
    wait_until(&server, line, || server.get("/metrics").text.contains(line));
    assert!(!is_open(&server, "year #4"));
    assert!(!server.get("/metrics").text.contains("evertally_problems{kind=\"extension\"} 1"));
    // A reload takes up another number, and retiring ends the extensions.
    server.reload("times = 2", "times = 3").unwrap();
    wait_until(&server, "year #4", || is_open(&server, "year #4"));
    // Who may read is declared for all parts.
    server.reload("public = true", "public = false").unwrap();
    for name in ["year", "year #4"] {
        assert!(!server.service().stream(name).unwrap().is_public(), "{name}");
    }
    for (more, problem) in [
        ("extend = \"automatic\"", "spends the budget again"),
        ("extend = { times = 0 }", "never extends"),
        ("extend = \"sometimes\"", "extend"),
    ] {
        let settings = server.more.replace("extend = { times = 3 }", more);
        let before = std::mem::replace(&mut server.more, settings);
        let refused = server.try_config().unwrap_err();
        assert!(refused.contains(problem), "{refused}");
        server.more = before;
    }
    // An event is in one part only, so nothing is spent without end.
    let events =
        server.more.replace("person = \"person\"\nmax-events = 2\n", "").replace("{ times = 3 }", "\"automatic\"");
    server.more = events;
    server.try_config().unwrap();
}
