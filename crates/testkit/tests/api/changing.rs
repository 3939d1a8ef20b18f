//! Configurations that change: at a start, and while the service runs. And slow clocks.

use crate::server::{HOUR, START, STREAMS, Server, WITNESS, rows};
use evertally::privacy::{Budget, Rho};
use evertally_declare::steps::Instant;
use evertally_ledger::disk::RealDisk;
use evertally_ledger::ledger::Protects;
use evertally_ledger::source::{Approval, SourceBudget, Total};
use evertally_server::clock::{Clock, ManualClock};
use std::sync::Arc;

/// An event in an hour of the first day.
fn event(hour: i64, group: &str) -> String {
    format!("{{\"time\":\"2026-01-01T{hour:02}:30:00Z\",\"group\":\"{group}\"}}\n")
}

/// `grace`, `delay`, `late`, the title and the policies for rows that do not fit are taken up from the open step on,
/// at a start and while the service runs; released rows stay the same.
#[test]
fn harmless_settings_are_taken_up() {
    let mut server = Server::with("", STREAMS);
    let sent = server.send("open", "1", &event(0, "a").repeat(40));
    assert_eq!(sent.status, 200, "{}", sent.text);
    server.publish("open", 1);
    let shown = rows(&server, "open");
    assert_eq!(server.send("open", "late", &event(0, "a")).status, 422, "its step is closed");
    assert_eq!(server.send("open", "unknown", &event(1, "x")).status, 422);
    assert_eq!(server.send("open", "2", &event(1, "b/c").repeat(40)).status, 200);
    let changed = "rho = 1\nlate = \"next-step\"\nunknown-group = \"skip\"\ntitle = \"V\"\ngrace = \"10m\"\ndelay = \
                   \"10s\"\n";
    let events = server.events("open");
    server.reload("rho = 1\n", changed).unwrap();
    assert_eq!(server.get("/v1/streams/open").json()["title"], "V");
    assert_eq!((rows(&server, "open"), server.events("open")), (shown.clone(), events));
    assert_eq!(server.send("open", "late", &event(0, "a").repeat(7)).status, 200);
    assert_eq!(server.send("open", "unknown", &(event(1, "x") + &event(1, "b/c"))).status, 200);
    // The grace is ten minutes now: nothing is closed a minute after the hour.
    server.at(2, 65);
    assert_eq!(server.send("open", "3", &event(1, "a")).status, 200);
    server.at(2, 601);
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(server.published("open"), 1);
    server.at(2, 610);
    server.wait("open", 2);
    let all = rows(&server, "open");
    assert!(all.starts_with(&shown), "{all}");
    let value = |group: &str| -> f64 {
        let line = all.lines().find(|line| line.contains(&format!(",{group},2,"))).unwrap();
        line.split(',').nth(3).unwrap().parse().unwrap()
    };
    // Noise is far smaller than 20.
    assert!((value("a") - 48.0).abs() < 20.0 && (value("b/c") - 41.0).abs() < 20.0, "{all}");
    // The same at a start, back again.
    server.stop();
    server.change(changed, "rho = 1\n");
    server.start().unwrap();
    assert_eq!(rows(&server, "open"), all);
    assert_ne!(server.get("/v1/streams/open").json()["title"], "V");
    assert_eq!(server.send("open", "later", &event(0, "a")).status, 422);
}

/// Whatever cannot change is named, and nothing else of the file is taken up.
#[test]
fn other_settings_are_refused_by_name() {
    let mut server = Server::with("", STREAMS);
    for (from, to, expected) in [
        ("steps = 100", "steps = 101", "`steps`, which cannot change"),
        ("closing = \"operator\"\n", "", "`closing` is \"operator\""),
        ("folder = \"data\"", "folder = \"other\"", "a change of folder needs a restart"),
        ("[private]\nlisten = \"127.0.0.1:0\"", "[private]\nlisten = \"127.0.0.1:1\"", "[private]"),
        ("steps = 100\n", "steps = 100\nlate = \"maybe\"\n", "late"),
        ("steps = 100", "steps = 100\nsource = \"shop\"", "not in [sources]"),
    ] {
        let before = server.more.clone();
        server.change("public = true\nstart", "public = false\nstart");
        server.change(from, to);
        let refused = match server.try_config() {
            Ok(_) => server.reload("", "").unwrap_err(),
            Err(refused) => refused,
        };
        assert!(refused.contains(expected), "{refused}");
        server.more = before;
        let public = server.public.get("/v1/streams/open", "").unwrap();
        assert_eq!(public.status, 200, "nothing was taken up after `{expected}`");
    }
    let hook = "[[webhook]]\nurl = \"http://127.0.0.1:1/\"\nstreams = [\"nobody\"]\n";
    let refused = server.reload(STREAMS, &format!("{hook}{STREAMS}")).unwrap_err();
    assert!(refused.contains("names the stream `nobody`"), "{refused}");
    server.stop();
    assert!(server.start().unwrap_err().contains("names the stream `nobody`"));
}

/// Streams, limits and readers change while the service runs.
#[test]
fn a_running_service_takes_up_streams_and_limits() {
    let mut server = Server::with("", STREAMS);
    let more = STREAMS.replace("stream = \"open\"", "stream = \"more\"");
    let more = more.split("\n\n").next().unwrap();
    server.reload(STREAMS, &format!("[limits]\nbody-bytes = 100\n{STREAMS}{more}")).unwrap();
    assert_eq!(server.get("/v1/streams/more").status, 200);
    assert_eq!(server.send("open", "1", &event(0, "a").repeat(40)).status, 413);
    server.reload("body-bytes = 100\n", "requests-per-second = 1\n").unwrap();
    let refused = (0..20).filter(|_| server.public.get("/v1/streams", "").unwrap().status == 429).count();
    assert!(refused >= 10, "{refused}");
    server.reload("requests-per-second = 1\n", "").unwrap();
    server.reload("public = true\nstart", "public = false\nstart").unwrap();
    assert_eq!(server.public.get("/v1/streams/open", "").unwrap().status, 404);
}

/// A new stream that cannot be opened keeps everything else of the file from being taken up.
#[test]
fn a_reload_is_whole_or_nothing() {
    let mut server = Server::with("", STREAMS);
    let stream = |name: &str, start: &str| {
        format!("\n[[stream]]\nstream = \"{name}\"\nstart = \"{start}\"\nevery = \"1h\"\nsteps = 9\nrho = 1\n")
    };
    let before = server.more.clone();
    server.more = before.replace("public = true\nstart", "title = \"T\"\npublic = false\nstart")
        + &stream("good", "2026-01-01")
        + &stream("past", "2020-01-01");
    let refused = server.reload("", "").unwrap_err();
    assert!(refused.contains("stream `past`") && refused.contains("first step ended"), "{refused}");
    assert_eq!(server.get("/v1/streams/good").status, 404);
    let open = server.public.get("/v1/streams/open", "").unwrap();
    assert!(open.status == 200 && open.json()["title"] != "T", "{}", open.text);
    server.more = before + &stream("good", "2026-01-01");
    server.reload("", "").unwrap();
    assert_eq!(server.get("/v1/streams/good").status, 200);
    let opened = server.get("/v1/audit").text;
    assert!(opened.contains("\"action\":\"open\",\"subject\":\"good\""), "{opened}");
    // A retired stream keeps no start from its other changes.
    assert_eq!(server.post("/v1/streams/open/retire", "").status, 200);
    server.reload("groups = [\"a\", ", "groups = [\"a\", ").unwrap();
    server.reload("\"ü \\\"x\\\"\"]", "\"ü \\\"x\\\"\", \"more\"]").unwrap();
    server.stop();
    server.start().unwrap();
}

/// Two new streams that fit the budget of their source one at a time, but not together, are both refused.
#[test]
fn new_streams_fit_their_source_together_or_are_refused() {
    let mut server = Server::with("", &format!("[sources]\nshop = \"shop.budget\"\n{STREAMS}"));
    let protects = Protects { persons: false, period: None, replaced: false };
    let total = Total { budget: Budget::Zcdp(Rho::new(1.0).unwrap()), is_basic: false, protects };
    let path = server.path("shop.budget");
    SourceBudget::create(Arc::new(RealDisk), &path, "shop", total, Approval::default()).unwrap();
    let stream = |name: &str| {
        format!(
            "\n[[stream]]\nstream = \"{name}\"\nsource = \"shop\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps = \
             9\nrho = 0.6\n"
        )
    };
    let before = server.more.clone();
    server.more = before.clone() + &stream("one") + &stream("two");
    let refused = server.reload("", "").unwrap_err();
    assert!(refused.contains("stream `two`") && refused.contains("does not fit the budget"), "{refused}");
    assert_eq!(server.get("/v1/streams/one").status, 404, "nothing was opened");
    server.more = before + &stream("one");
    server.reload("", "").unwrap();
    assert_eq!(server.get("/v1/streams/one").status, 200);
}

/// Late rows that were set aside are removed after their retention, and not before.
#[test]
fn old_late_rows_are_removed() {
    let streams = STREAMS.replace("steps = 100", "steps = 1000\nlate = \"side-file\"");
    let mut server = Server::with("", &format!("[retention]\nside-files = \"2d\"\n{streams}"));
    let late = |server: &Server| server.get("/v1/streams/open/late").json()["events"].as_array().unwrap().len();
    server.publish("open", 1);
    for (id, hours) in [("first", 2), ("second", 30)] {
        server.at(hours, 0);
        assert_eq!(server.send("open", id, &event(0, "a")).status, 200);
    }
    assert_eq!(late(&server), 2);
    server.at(2 + 48, 1);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while late(&server) == 2 {
        assert!(std::time::Instant::now() < until, "it is not removed");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(late(&server), 1);
    server.change("side-files = \"2d\"", "side-files = \"2h\"");
    assert!(server.try_config().unwrap_err().contains("at least `1d`"));
}

/// A clock that is not synchronised is an alarm, and no refusal.
#[cfg(unix)]
#[test]
fn an_unsynchronised_clock_is_an_alarm() {
    let clock = "[clock]\ncommand = [\"echo\", \"no 0.25\"]\nunsynchronised = \"0s\"\n";
    let mut server = Server::with("", &format!("{clock}{STREAMS}"));
    let wait = |server: &Server, line: &str| {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !server.get("/metrics").text.contains(line) {
            assert!(std::time::Instant::now() < until, "{line}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    wait(&server, "evertally_clock_state{state=\"unsynchronised\"} 1\n");
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains("evertally_clock_error_seconds 0.25\n"), "{metrics}");
    assert!(metrics.contains("evertally_problems{kind=\"clock\"} 1\n"), "{metrics}");
    assert!(metrics.contains("evertally_problems{kind=\"other\"} 0\n"), "{metrics}");
    let health = server.get("/v1/operator").json();
    assert!(health["problems"].to_string().contains("has not been synchronised"), "{health}");
    assert_eq!(
        (health["clock"]["state"].as_str(), health["clock"]["error_seconds"].as_f64()),
        (Some("unsynchronised"), Some(0.25))
    );
    let ready = server.private.get("/readyz", "").unwrap();
    assert!(ready.status == 200 && ready.text.contains("not been synchronised"), "{}", ready.text);
    assert_eq!(server.public.get("/readyz", "").unwrap().text, "ok\n");
    server.reload("no 0.25", "yes").unwrap();
    wait(&server, "evertally_clock_state{state=\"synchronised\"} 1\n");
    assert_eq!(server.private.get("/readyz", "").unwrap().text, "ok\n");
    server.reload("\"echo\", \"yes\"", "").unwrap();
    wait(&server, "evertally_clock_state{state=\"unknown\"} 1\n");
    assert!(server.get("/metrics").text.contains("evertally_problems{kind=\"clock\"} 0\n"));
}

/// Ids of batches are forgotten after their retention, and not before.
#[test]
fn old_ids_of_batches_are_forgotten() {
    let streams = STREAMS.replace("steps = 100", "steps = 1000\nlate = \"next-step\"");
    let mut server = Server::with("", &format!("[retention]\nbatch-ids = \"2d\"\n{streams}"));
    let sent = |server: &Server, id: &str| server.send("open", id, &event(0, "a")).json()["repeated"].clone();
    assert_eq!(sent(&server, "first"), false);
    server.at(30, 0);
    assert_eq!((sent(&server, "second"), sent(&server, "first")), (false.into(), true.into()));
    // The second day is within two days of the fourth, the first is not.
    server.at(3 * 24 + 23, 0);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while sent(&server, "first") == true {
        assert!(std::time::Instant::now() < until, "it is not forgotten");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(sent(&server, "second"), true);
    server.stop();
    server.start().unwrap();
    assert_eq!((sent(&server, "second"), sent(&server, "first")), (true.into(), true.into()));
    server.change("batch-ids = \"2d\"", "batch-ids = \"2h\"");
    assert!(server.try_config().unwrap_err().contains("at least `1d`"));
}

/// A proxy that is trusted is believed about the address of its client.
#[test]
fn addresses_behind_trusted_proxies_are_audited() {
    let mut server = Server::with("", STREAMS);
    let address = |server: &Server| {
        let headers = [("content-type", "application/json"), ("x-forwarded-for", "192.0.2.1, 198.51.100.7")];
        let made = server.private.post("/v1/tokens", &server.operate, &headers, b"{\"role\":\"read:*\"}").unwrap();
        assert_eq!(made.status, 201);
        server.get("/v1/audit?last=1").json()["entries"][0]["address"].as_str().unwrap().to_owned()
    };
    assert_eq!(address(&server), "127.0.0.1");
    server.stop();
    server.change("[private]\n", "[private]\ntrusted-proxies = [\"127.0.0.0/8\"]\n");
    server.start().unwrap();
    assert_eq!(address(&server), "198.51.100.7");
}

/// Copies are made on schedule, and the oldest are removed.
#[test]
fn backups_are_made_on_schedule() {
    let mut server = Server::with("backups = \"elsewhere\"", STREAMS);
    let copies = |server: &Server| std::fs::read_dir(server.path("elsewhere")).unwrap().count();
    server.change("[public]", "[backup-schedule]\nevery = \"1s\"\n[public]");
    let refused = server.try_config().unwrap_err();
    assert!(refused.contains("at least 1 minute"), "{refused}");
    server.change("every = \"1s\"", "every = \"1m\"\nkeep = 2");
    server.reload("", "").unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while copies(&server) == 0 {
        assert!(std::time::Instant::now() < until, "no copy was made");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for _ in 0..3 {
        assert_eq!(server.post("/v1/backup", "").status, 201);
    }
    assert_eq!(copies(&server), 2);
    // A copy from the future, made by a clock that was ahead, does not cost the new one.
    let name = |server: &Server| {
        let made = server.post("/v1/backup", "").json()["file"].as_str().unwrap().to_owned();
        std::path::PathBuf::from(made)
    };
    let newest = name(&server);
    for year in ["2126", "2127"] {
        let (start, rest) = newest.to_str().unwrap().rsplit_once('-').unwrap();
        std::fs::copy(&newest, format!("{start}-{year}{}", &rest[4..])).unwrap();
    }
    assert!(name(&server).exists());
    assert!(server.get("/v1/operator").json()["last_backup"].is_string());
    // A folder that is gone is an alarm once a copy is due again, also after a restart.
    server.stop();
    std::fs::remove_dir_all(server.path("elsewhere")).unwrap();
    server.start().unwrap();
    let problems = || server.get("/v1/operator").json()["problems"].to_string();
    while !problems().contains("scheduled backup failed") {
        assert!(std::time::Instant::now() < until, "{}", problems());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// A clock that is slow at a start hides nothing that was shown, and the stream takes nothing in until it is
/// corrected.
#[test]
fn a_slow_clock_is_an_alarm() {
    let streams = format!("{WITNESS}{STREAMS}");
    let mut server = Server::with("", &streams);
    assert_eq!(server.send("open", "1", &event(0, "a").repeat(40)).status, 200);
    server.publish("open", 5);
    let shown = rows(&server, "open");
    server.stop();
    server.clock = Arc::new(ManualClock::at(Instant::from_micros(START + 2 * HOUR)));
    server.start().unwrap();
    assert_eq!((server.published("open"), rows(&server, "open")), (5, shown.clone()));
    let refused = server.send("open", "2", &event(2, "a"));
    assert!(refused.status == 503 && refused.text.contains("clock is slow"), "{}", refused.text);
    let problems = server.get("/v1/operator").json()["problems"].to_string();
    assert!(problems.contains("it shows 2026-01-01T02:00:00Z, but stream `open` was published through"), "{problems}");
    // Streams that no clock closes continue.
    crate::server::hand(&server, 1);
    server.clock.set(Instant::from_micros(START + 5 * HOUR + 60_000_000));
    assert!(server.clock.now().micros() > START);
    assert_eq!(server.send("open", "2", &event(5, "a")).status, 200);
    server.publish("open", 6);
    assert!(rows(&server, "open").starts_with(&shown));
}
