//! Streams that are extended without a request, each time once, as long as there is budget.

use crate::server::{START, Server};
use evertally::privacy::{Budget, Rho};
use evertally_declare::steps::Instant;
use evertally_ledger::disk::RealDisk;
use evertally_ledger::ledger::Protects;
use evertally_ledger::source::{Approval, SourceBudget, Total};
use evertally_server::clock::ManualClock;
use evertally_server::serving;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::TcpStream;
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

/// What may change is declared once, for all parts, and readers find the next one.
#[test]
fn the_parts_of_a_stream_have_one_configuration() {
    let groups = "group-by = [\"group\"]\ngroups = [\"a\"]\nextend = { times = 1 }";
    let mut server = Server::with("", &stream(groups).replace("person = \"person\"\nmax-events = 2\n", ""));
    let page = |server: &Server, query: &str| server.get(&format!("/v1/streams/year/releases?{query}"));
    close(&server, "year");
    wait_until(&server, "year #2", || is_open(&server, "year #2"));
    let next = |answer: &evertally_testkit::service::Answer| answer.header("link").unwrap_or_default().to_owned();
    let whole = page(&server, "from=1&to=2026-02-01&format=csv");
    assert_eq!(next(&whole), "<../year%20%232/releases?to=2026-02-01&format=csv>; rel=\"next-part\"");
    assert!(!next(&page(&server, "from=1&to=1")).contains("next-part"), "it is not the end");
    server.reload("groups = [\"a\"]", "title = \"Gates\"\nlate = \"next-step\"\ngroups = [\"a\", \"b\"]").unwrap();
    let of_part = |server: &Server, name: &str| server.service().stream(name).unwrap();
    for name in ["year", "year #2"] {
        let info = of_part(&server, name);
        assert_eq!(info.stream.title, "Gates", "{name}");
        assert!(info.record().declaration.contains("next-step"), "{name}");
    }
    assert_eq!((of_part(&server, "year").line_count(), of_part(&server, "year #2").line_count()), (1, 2));
    close(&server, "year%20%232");
    // Steps have one number in rows and metrics.
    let rows = server.get("/v1/streams/year%20%232/releases?from=1&to=2&format=csv").text;
    assert!(rows.lines().any(|row| row.contains(",4,b,") || row.contains(",b,4,")), "{rows}");
    let step = "evertally_released_step{stream=\"year #2\"} 4\n";
    wait_until(&server, step, || server.get("/metrics").text.contains(step));
    server.stop();
    server.start().unwrap();
    assert_eq!(of_part(&server, "year #2").line_count(), 2);
    // A check finds groups that the first part could take up, and the last one could not.
    server.stop();
    let checked = |server: &Server| serving::check(&server.config()).map_err(|error| error.to_string());
    checked(&server).unwrap();
    server.change("groups = [\"a\", \"b\"]", "groups = [\"a\", \"c\"]");
    let refused = checked(&server).unwrap_err();
    assert!(refused.contains("stream `year #2`, which continues this one, in `groups`"), "{refused}");
}

/// Writers keep the name of the stream: the part whose steps are open accepts their events, each batch once.
#[test]
fn events_sent_to_a_stream_reach_the_part_that_is_open() {
    let server = Server::with("", &stream("extend = { times = 1 }\nlate = \"next-step\""));
    let row =
        |hour: u32, person: &str| format!("{{\"time\":\"2026-01-01T{hour:02}:30:00Z\",\"person\":\"{person}\"}}\n");
    let send = |id: &str, body: &str| server.send("year", id, body);
    assert_eq!(send("1", &row(0, "a")).json()["stream"], "year");
    close(&server, "year");
    wait_until(&server, "year #2", || is_open(&server, "year #2"));
    let second = send("2", &row(2, "b"));
    assert_eq!((second.status, &second.json()["stream"]), (200, &"year #2".into()), "{}", second.text);
    // A batch of the first part that is sent again, and one of the second.
    for (id, hour, person, part) in [("1", 0, "a", "year"), ("2", 2, "b", "year #2")] {
        let again = send(id, &row(hour, person)).json();
        assert_eq!((&again["repeated"], &again["stream"]), (&true.into(), &part.into()), "{again}");
    }
    assert_eq!(send("1", &row(0, "c")).status, 409, "other rows under a known id");
    // Events before the part are in the steps of another one, and are not late.
    assert_eq!(send("3", &row(1, "d")).status, 422);
    assert_eq!(server.events("year #2"), 1);
    let direct = server.send_as("year", "", "application/x-ndjson", row(2, "e").as_bytes(), &[]);
    assert_eq!(direct.status, 400, "a batch needs an id in every part");
}

/// Events of the next part are not lost: they are refused until it is open, also where others outside are skipped.
#[test]
fn events_of_the_next_part_wait_until_it_is_open() {
    let server = Server::with("", &by_clock("outside = \"skip\""));
    let (own, later) = (row("01:59:40"), row("02:00:10"));
    let post = |path: &str, kind: &str, body: &str| {
        let (path, token) = (format!("/v1/streams/year/{path}"), server.token("write:year"));
        server.private.post(&path, &token, &[("content-type", kind)], body.as_bytes()).unwrap()
    };
    let known_by_content = |repeated: bool| {
        let accepted = post("events?batch-id=content", "application/x-ndjson", &own).json();
        assert_eq!((&accepted["stream"], &accepted["repeated"]), (&"year".into(), &repeated.into()), "{accepted}");
    };
    let waits = |id: &str, body: &str| {
        let refused = server.send("year", id, body);
        assert_eq!(refused.status, 503, "{}", refused.text);
        assert!(refused.header("retry-after").is_some() && refused.text.contains("`year #2`"), "{}", refused.text);
    };
    server.at(1, 3590);
    waits("later", &later);
    waits("both", &format!("{own}{later}"));
    assert_eq!(server.events("year"), 0);
    known_by_content(false);
    // All steps are closed, but the last one is not published, so the next part is not open.
    server.at(2, 65);
    wait_until(&server, "the end", || server.get("/v1/streams/year").json()["state"] == "ended");
    waits("later", &later);
    known_by_content(true);
    open_next(&server);
    let accepted = server.send("year", "later", &later).json();
    assert_eq!((&accepted["stream"], &accepted["repeated"]), (&"year #2".into(), &false.into()), "{accepted}");
    known_by_content(true);
    // 02:00:20.
    let record = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1767232820000000000"}]}]}]}"#;
    let routed = post("otlp/v1/logs", "application/json", record);
    assert_eq!(routed.status, 200, "{}", routed.text);
    assert_eq!((server.events("year"), server.events("year #2")), (1, 2));
}

/// Events of single people, closed by the clock, in two parts of two steps.
fn by_clock(more: &str) -> String {
    let all = stream(&format!("extend = {{ times = 1 }}\n{more}"));
    all.replace("closing = \"operator\"\n", "").replace("person = \"person\"\nmax-events = 2\n", "")
}

/// Ends the first part, and opens the next one.
fn open_next(server: &Server) {
    server.at(2, 65);
    wait_until(server, "the end", || server.get("/v1/streams/year").json()["state"] == "ended");
    server.at(2, 95);
    wait_until(server, "year #2", || is_open(server, "year #2"));
}

fn row(time: &str) -> String {
    format!("{{\"time\":\"2026-01-01T{time}Z\"}}\n")
}

/// The positions of a source continue from part to part, so each of its rows counts once.
#[test]
fn the_rows_of_a_source_count_once_over_all_parts() {
    let mut server = Server::with("", &by_clock("late = \"next-step\""));
    let tokens = ["write:year", "write:year #2"].map(|role| server.token(role));
    let token_of = |part: &str| &tokens[usize::from(part != "year")];
    let send = |server: &Server, part: &str, after: &str, position: u64, body: &str| {
        let after = if after.is_empty() { String::new() } else { format!("&after={after}") };
        let path = format!("/v1/streams/{part}/events?source=s&position={position}{after}");
        let headers = [("content-type", "application/x-ndjson")];
        server.private.post(&path, token_of(part), &headers, body.as_bytes()).unwrap()
    };
    let accepted = |answer: &evertally_testkit::service::Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text);
        let receipt = answer.json();
        (receipt["stream"].as_str().unwrap().to_owned(), receipt["repeated"].as_bool().unwrap())
    };
    let position = |server: &Server, part: &str| {
        let path = format!("/v1/streams/{part}/positions?source=s");
        server.private.get(&path, token_of(part)).unwrap().json()["positions"][""].clone()
    };
    server.at(1, 3590);
    // The rows before those of the next part can be sent now.
    let (own, later) = (row("01:59:40"), row("02:00:10"));
    let both = send(&server, "year", "", 2, &format!("{own}{later}"));
    assert_eq!((both.status, &both.json()["before_row"]), (503, &2.into()), "{}", both.text);
    assert_eq!(accepted(&send(&server, "year", "", 1, &own)), ("year".to_owned(), false));
    let alone = send(&server, "year", "1", 2, &later);
    assert_eq!((alone.status, alone.json().get("before_row")), (503, None), "{}", alone.text);
    // As in a stream, events of steps that have not begun are in the future.
    let future = send(&server, "year", "1", 2, &row("03:30:00"));
    assert!(future.status == 422 && future.text.contains("in the future"), "{}", future.text);
    open_next(&server);
    // The answer was lost: the first part has the rows, whichever part is asked.
    let next = "year%20%232";
    for part in ["year", next] {
        assert_eq!(accepted(&send(&server, part, "", 1, &own)), ("year".to_owned(), true));
        assert_eq!(position(&server, part), "1");
    }
    let differs = send(&server, "year", "", 1, &row("01:59:41"));
    assert_eq!(differs.status, 409, "{}", differs.text);
    // Nothing begins again in the next part: it knows how far the rows were accepted.
    let again = send(&server, next, "", 2, &format!("{own}{later}"));
    assert_eq!((again.status, &again.json()["position"]), (409, &"1".into()), "{}", again.text);
    assert_eq!(accepted(&send(&server, "year", "1", 2, &later)), ("year #2".to_owned(), false));
    assert_eq!(send(&server, "year", "", 1, &own).json()["position"], "2");
    // Rows of steps of the first part are late.
    assert_eq!(accepted(&send(&server, "year", "2", 3, &row("01:59:50"))), ("year #2".to_owned(), false));
    server.stop();
    server.start().unwrap();
    assert_eq!(accepted(&send(&server, "year", "2", 3, &row("01:59:50"))), ("year #2".to_owned(), true));
    assert_eq!(position(&server, "year"), "3");
    let waiting = |server: &Server| server.view("year #2")["late"].clone();
    assert_eq!(waiting(&server), 0, "nothing is counted again");
    // Another source has sent nothing before: its rows of the first part are outside, as without a source.
    let other = "/v1/streams/year/events?source=t&position=1";
    let other =
        server.private.post(other, token_of("year"), &[("content-type", "application/x-ndjson")], own.as_bytes());
    assert_eq!(other.unwrap().status, 422);
}

/// Feeds and listeners of syslog wait between two parts, and continue in the next one.
#[test]
fn feeds_and_syslog_continue_in_the_next_part() {
    let rest = format!(
        "[[feed]]\nstream = \"year\"\nfile = \"visits.jsonl\"\n[[syslog]]\nlisten = \"127.0.0.1:0\"\nstream = \
         \"year\"\n{}",
        by_clock("time = \"_time\"\nlate = \"side-file\"")
    );
    let mut server = Server::with("", &rest);
    let file = server.path("visits.jsonl");
    let of_feed = |times: &[&str]| {
        let rows: String = times.iter().map(|time| row(time).replace("\"time\"", "\"_time\"")).collect();
        let mut file = OpenOptions::new().create(true).append(true).open(&file).unwrap();
        file.write_all(rows.as_bytes()).unwrap();
    };
    server.at(1, 3590);
    of_feed(&["01:10:00", "01:59:40", "02:00:10", "02:00:11"]);
    wait_until(&server, "the rows of the first part", || server.events("year") == 2);
    let problems = |server: &Server| server.get("/v1/operator").json()["problems"].to_string();
    let waits = "the feed of stream `year` from";
    wait_until(&server, waits, || {
        let all = problems(&server);
        all.contains(waits) && all.contains("continued by `year #2`") && all.contains("opens at 2026-01-01T02:01:30")
    });
    let mut socket = TcpStream::connect(server.syslog().address).unwrap();
    let message = |time: &str| format!("<14>1 2026-01-01T{time}Z host app - - - text\n");
    socket.write_all([message("01:59:45"), message("02:00:12")].concat().as_bytes()).unwrap();
    wait_until(&server, "the message of the first part", || server.events("year") == 3);
    wait_until(&server, "syslog waits", || problems(&server).matches("continued by `year #2`").count() == 2);
    open_next(&server);
    wait_until(&server, "the rows of the next part", || server.events("year #2") == 3);
    wait_until(&server, "all is well", || !problems(&server).contains("continued by"));
    // A row of a closed step is late, and the feed continues.
    of_feed(&["01:59:59", "02:00:13"]);
    wait_until(&server, "two more rows", || server.events("year #2") == 4);
    assert_eq!((server.view("year #2")["late"].clone(), server.events("year")), (1.into(), 3));
    drop(socket);
    server.stop();
    server.start().unwrap();
    of_feed(&["02:00:14"]);
    wait_until(&server, "one more row", || server.events("year #2") == 1);
    assert_eq!(server.events("year"), 0, "nothing is sent again");
}

/// Only the partition that has reached the next part waits, and rows are set aside once, however often they are sent.
#[test]
fn a_partition_of_a_feed_that_waits_delays_no_other() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    let rest = format!(
        "[[feed]]\nstream = \"year\"\nfolder = \"in\"\naside = \"aside.jsonl\"\n{}",
        by_clock("late = \"refuse\"")
    );
    let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
    let mut server = Server::on(folder, clock, "", &rest).unwrap();
    server.operate = server.token("operate");
    server.at(1, 3590);
    let write = |name: &str, rows: &str| {
        let path = server.path("in").join(name);
        OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(rows.as_bytes()).unwrap();
    };
    let waits = || server.get("/v1/operator").json()["problems"].to_string().contains("continued by `year #2`");
    write("a.jsonl", &row("02:00:10"));
    wait_until(&server, "the file waits", waits);
    write("b.jsonl", &(row("01:59:40") + &row("01:59:41")));
    wait_until(&server, "the rows of another file", || server.events("year") == 2);
    let bad = |text: &str| format!("{{\"time\":\"{text}\"}}\n");
    write("c.jsonl", &[row("01:59:42"), bad("nonsense"), row("02:00:11"), bad("nothing")].concat());
    wait_until(&server, "the rows before those of the next part", || server.events("year") == 3);
    assert!(waits());
    write("a.jsonl", &row("02:00:12"));
    open_next(&server);
    wait_until(&server, "the rows of the next part", || server.events("year #2") == 3);
    wait_until(&server, "no file waits", || !waits());
    let aside = std::fs::read_to_string(server.path("aside.jsonl")).unwrap();
    assert_eq!(aside.lines().count(), 2, "{aside}");
}

/// Late rows of different steps of earlier parts are different rows, also with the same id.
#[test]
fn ids_of_late_rows_belong_to_their_own_steps() {
    let server = Server::with("", &by_clock("late = \"next-step\"\nid = \"event\""));
    let token = server.token("write:year");
    let send = |after: &str, position: u64, times: &[&str]| {
        let path = format!("/v1/streams/year/events?source=s&position={position}{after}");
        let rows: String = times.iter().map(|time| row(time).replace('}', ",\"event\":\"z\"}")).collect();
        let headers = [("content-type", "application/x-ndjson")];
        let answer = server.private.post(&path, &token, &headers, rows.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()["duplicates"].as_u64().unwrap()
    };
    server.at(1, 3590);
    assert_eq!(send("", 1, &["01:59:40"]), 0);
    open_next(&server);
    assert_eq!(send("&after=1", 2, &["00:30:00", "01:30:00", "00:40:00", "02:01:00"]), 1);
}
