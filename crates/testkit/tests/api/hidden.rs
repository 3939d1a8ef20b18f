//! Streams that a caller may not read leave no trace in the caller's answers: these are the same bytes before the
//! stream is opened, and after it has accepted events, published, been watched and spent a budget.

use crate::server::{START, Server};
use evertally_declare::steps::Instant;
use evertally_ledger::disk::RealDisk;
use evertally_ledger::ledger::Protects;
use evertally_ledger::source::{Approval, SourceBudget, Total};
use evertally_server::clock::ManualClock;
use evertally_testkit::service::{Answer, Client};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;

const STREAMS: &str = r#"
[limits]
watchers = 1
requests-per-second = 10000

[sources]
shop = "shop.budget"
bank = "bank.budget"

[[stream]]
stream = "seen"
public = true
source = "shop"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 4
person = "person"
max-events = 2
rho = 0.2

[[stream]]
stream = "mine"
source = "shop"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 4
person = "person"
max-events = 2
rho = 0.1
"#;

fn server() -> Server {
    let folder = tempfile::tempdir().unwrap();
    for name in ["shop", "bank"] {
        let protects = Protects { persons: true, period: None, replaced: false };
        let budget = evertally::privacy::Budget::Zcdp(evertally::privacy::Rho::new(1.0).unwrap());
        let total = Total { budget, is_basic: false, protects };
        let path = folder.path().join(format!("{name}.budget"));
        SourceBudget::create(Arc::new(RealDisk), &path, name, total, Approval::default()).unwrap();
    }
    let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
    let mut server = Server::on(folder, clock, "", STREAMS).unwrap();
    server.operate = server.token("operate");
    server
}

/// Sends events of the first two steps of a stream, and publishes these steps.
fn publish(server: &Server, stream: &str) {
    let body: String =
        (0..50).map(|n| format!("{{\"time\":\"2026-01-01T0{}:10:00Z\",\"person\":\"p{n}\"}}\n", n % 2)).collect();
    server.at(2, 0);
    let sent = server.send(stream, "batch", &body);
    assert_eq!(sent.status, 200, "{}", sent.text);
    let closed = server.post(&format!("/v1/streams/{stream}/close"), "{\"through\":2}");
    assert_eq!(closed.status, 200, "{}", closed.text);
    server.wait(stream, 2);
}

/// Opens a private stream that spends from a source, and publishes steps of it.
fn open_private(server: &Server, name: &str, source: &str) {
    let wanted = format!(
        "{{\"declaration\":{{\"stream\":\"{name}\",\"start\":\"2026-01-01\",\"every\":\"1h\",\"steps\":4,\
         \"person\":\"person\",\"max-events\":2,\"rho\":0.3}},\"source\":\"{source}\",\"closing\":\"operator\"}}"
    );
    let opened = server.post("/v1/streams", &wanted);
    assert_eq!(opened.status, 201, "{}", opened.text);
    publish(server, name);
}

/// A request, and the status, headers and body of its answer.
type Answered = (String, u16, Vec<(String, String)>, Vec<u8>);

/// The answers to all possible requests with one token at one listener that change nothing.
fn answers(server: &Server, client: &Client, token: &str) -> Vec<Answered> {
    let document = server.get("/openapi.json").json();
    let mut all = Vec::new();
    let mut add = |method: &str, target: &str| {
        let Answer { status, headers, bytes, .. } = client.ask(method, target, token, &[], b"{]").unwrap();
        let mut headers: Vec<_> = headers.into_iter().filter(|(name, _)| name != "date").collect();
        headers.sort();
        all.push((format!("{method} {target}"), status, headers, bytes));
    };
    for page in ["/", "/assets/app.js", "/openapi.json", "/metrics", "/nothing", "/v1/streams/secret/nothing"] {
        add("GET", page);
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            for stream in ["seen", "mine", "secret", "aside", "nothing"] {
                let target = path.replace("{stream}", stream).replace("{id}", "ffffffff");
                if !path.ends_with("/watch") {
                    add(&method.to_uppercase(), &target);
                }
            }
        }
    }
    for stream in ["seen", "mine", "secret", "nothing"] {
        for query in ["from=1&to=2", "format=csv", "format=parquet", "group=x", "from=9&to=1", "every=0"] {
            add("GET", &format!("/v1/streams/{stream}/releases?{query}"));
        }
    }
    all
}

/// Starts to watch a stream; returns the status and the connection.
fn watch(client: &Client, stream: &str, token: &str) -> (String, TcpStream) {
    let mut socket = TcpStream::connect(client.address()).unwrap();
    let authorization = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    write!(socket, "GET /v1/streams/{stream}/watch HTTP/1.1\r\nhost: x\r\n{authorization}\r\n").unwrap();
    let mut first = String::new();
    BufReader::new(&socket).read_line(&mut first).unwrap();
    (first, socket)
}

#[test]
fn private_streams_leave_no_trace_in_what_others_are_answered() {
    let server = server();
    publish(&server, "seen");
    publish(&server, "mine");
    let reader = server.token("read:mine");
    let writer = server.token("write:seen");
    let snapshot = || {
        [(&server.public, ""), (&server.private, ""), (&server.private, &*reader), (&server.private, &*writer)]
            .map(|(client, token)| answers(&server, client, token))
    };
    let before = snapshot();
    assert_eq!(before, snapshot(), "asking changes nothing");
    // Two share a source with the readable streams, with names before and after theirs; one has a separate source.
    for (name, source) in [("secret", "shop"), ("aside", "shop"), ("zebra", "bank")] {
        open_private(&server, name, source);
    }
    let (watched, _open) = watch(&server.private, "secret", &server.operate);
    assert!(watched.contains("200"), "{watched}");
    for (before, after) in before.iter().flatten().zip(snapshot().iter().flatten()) {
        assert_eq!(before, after);
    }
    let (watched, _also) = watch(&server.public, "seen", "");
    assert!(watched.contains("200"), "a watcher of a private stream does not count for another: {watched}");
    let (refused, _) = watch(&server.public, "seen", "");
    assert!(refused.contains("503"), "the limit applies to each stream: {refused}");
}

#[test]
fn sources_say_what_streams_have_spent_that_the_caller_may_read() {
    let server = server();
    open_private(&server, "secret", "shop");
    let shop = |answer: Answer| {
        let sources = answer.json()["sources"].clone();
        sources.as_array().unwrap().iter().find(|source| source["name"] == "shop").unwrap().clone()
    };
    let reader = server.token("read:mine");
    let nobody = shop(server.public.get("/v1/sources", "").unwrap());
    assert_eq!(nobody["spent"], "ρ = 0.2");
    assert_eq!(
        (&nobody["total"], nobody["left"].is_null(), nobody["spent_share"].is_null()),
        (&"ρ = 1".into(), true, true)
    );
    let mine = shop(server.private.get("/v1/sources", &reader).unwrap());
    assert_eq!((&mine["spent"], &mine["streams"]), (&"ρ = 0.3".into(), &serde_json::json!(["mine", "seen"])));
    let all = server.token("read:*");
    let all = shop(server.private.get("/v1/sources", &all).unwrap());
    assert_eq!((&all["spent"], all["left"].is_null()), (&"ρ = 0.6".into(), true), "other programs spend from it too");
    let operator = shop(server.get("/v1/sources"));
    assert_eq!((&operator["spent"], &operator["left"]), (&"ρ = 0.6".into(), &"ρ = 0.4".into()));
    assert!((operator["spent_share"].as_f64().unwrap() - 0.6).abs() < 1e-12);
    // The path of the budget is only for operators.
    std::fs::write(server.path("shop.budget"), "damaged").unwrap();
    let answer = server.public.get("/v1/sources", "").unwrap();
    assert_eq!(answer.status, 500);
    assert!(!answer.text.contains("shop.budget"), "{}", answer.text);
}

#[test]
fn a_report_before_the_first_publication_counts_none() {
    let server = server();
    let report = server.public.get("/v1/streams/seen/report", "").unwrap().text;
    assert!(report.contains("0 of 4 steps") && report.contains("interval at the first step"), "{report}");
    publish(&server, "seen");
    let report = server.public.get("/v1/streams/seen/report", "").unwrap().text;
    assert!(report.contains("2 of 4 steps") && report.contains("interval at the last step"), "{report}");
    // The description and the report state the same guarantee.
    let guarantee = server.public.get("/v1/streams/seen", "").unwrap().json()["guarantee"].clone();
    assert!(report.contains(guarantee["words"].as_str().unwrap()), "{guarantee}");
    assert!(guarantee["rho"].as_f64().unwrap() >= 0.2, "{guarantee}");
}

/// A source keeps its file: another one under the same name would let its streams spend the total again.
#[test]
fn the_file_of_a_source_cannot_be_swapped() {
    let mut server = server();
    for broken in ["shop = \"bank.budget\"", "shop = \"gone.budget\""] {
        let refused = server.reload("shop = \"shop.budget\"", broken).unwrap_err();
        assert!(refused.contains("shop"), "{refused}");
        server.stop();
        let refused = server.start().unwrap_err();
        assert!(refused.contains("shop"), "{refused}");
        server.change(broken, "shop = \"shop.budget\"");
        server.start().unwrap();
    }
}

/// A protected window is part of the plan and of the report, and the same events are kept as without it.
#[test]
fn a_window_is_protected_across_periods() {
    let stream = |name: &str, more: &str| {
        format!(
            "[[stream]]\nstream = \"{name}\"\npublic = true\nclosing = \"operator\"\nstart = \"2026-01-01\"\n\
             every = \"1h\"\nsteps = 48\nperson = \"person\"\nmax-events = 1\nper = \"day\"\nrho = 1000000\n\
             allow-weak-budget = true\n{more}\n"
        )
    };
    let server = Server::with("", &[stream("days", ""), stream("windows", "protect-window = \"24h\"")].concat());
    let values = |name: &str| {
        publish(&server, name);
        let rows = server.public.get(&format!("/v1/streams/{name}/releases?from=1&to=2"), "").unwrap().json();
        let value = |row: &serde_json::Value| row["value"].as_f64().unwrap().round();
        rows["rows"].as_array().unwrap().iter().map(value).collect::<Vec<_>>()
    };
    assert_eq!((values("days"), values("windows")), (vec![25.0, 50.0], vec![25.0, 50.0]));
    let page = |page: &str| server.public.get(&format!("/v1/streams/windows{page}"), "").unwrap().text;
    let report = page("/report");
    assert!(
        report.contains("does in any window of 24 hours (at most 1 events kept, in each calendar day)"),
        "{report}"
    );
    assert!(report.contains("it touches up to 2 periods"), "{report}");
    assert!(page("/plan").contains("[unit.person.window]"), "{}", page("/plan"));
    let whole = stream("whole", "protect-window = \"24h\"").replace("per = \"day\"\n", "");
    let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
    let refused = Server::on(tempfile::tempdir().unwrap(), clock, "", &whole).err().unwrap();
    assert!(refused.contains("protect-window"), "{refused}");
}
