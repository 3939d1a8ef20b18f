//! Positions in sources, and the sources that the service follows itself.

use crate::server::{STREAMS, Server};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Sends a row of an hour as a range of a source.
fn send(server: &Server, query: &str, rows: usize) -> (u16, serde_json::Value) {
    let body = "{\"time\":\"2026-01-01T00:10:00Z\",\"group\":\"a\"}\n".repeat(rows);
    let target = format!("/v1/streams/open/events?{query}");
    let headers = [("content-type", "application/jsonl")];
    let answer = server.private.ask("POST", &target, &server.token("write:open"), &headers, body.as_bytes()).unwrap();
    (answer.status, answer.json())
}

fn positions(server: &Server, source: &str) -> serde_json::Value {
    let target = format!("/v1/streams/open/positions?source={source}");
    let answer = server.private.ask("GET", &target, &server.token("write:open"), &[], b"").unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["positions"].clone()
}

#[test]
fn rows_of_a_source_are_accepted_where_the_last_ones_end() {
    let mut server = Server::new();
    assert_eq!(positions(&server, "kafka:visits"), serde_json::json!({}));
    let (status, receipt) = send(&server, "source=kafka:visits&partition=3&position=10", 2);
    assert_eq!((status, &receipt["rows"], &receipt["repeated"]), (200, &2.into(), &false.into()), "{receipt}");
    assert_eq!(receipt["batch"], "kafka:visits 3 10");
    // The answer was lost: the same is sent again.
    let (status, receipt) = send(&server, "source=kafka:visits&partition=3&position=10", 2);
    assert_eq!((status, &receipt["repeated"]), (200, &true.into()));
    let (status, problem) = send(&server, "source=kafka:visits&partition=3&position=10", 1);
    assert_eq!((status, problem["type"].as_str().unwrap()), (409, "urn:evertally:problem:batch-differs"));
    // Another one begins elsewhere, before or after the expected place.
    for query in ["position=12", "after=9&position=12", "after=11&position=12"] {
        let (status, problem) = send(&server, &format!("source=kafka:visits&partition=3&{query}"), 1);
        assert_eq!((status, problem["type"].as_str().unwrap()), (409, "urn:evertally:problem:other-position"));
        assert_eq!(problem["position"], "10", "{problem}");
    }
    let (status, problem) = send(&server, "source=kafka:visits&partition=4&after=7&position=8", 1);
    assert_eq!((status, problem.get("position")), (409, Some(&serde_json::Value::Null)), "{problem}");
    assert_eq!(send(&server, "source=kafka:visits&partition=3&after=10&position=15", 3).0, 200);
    assert_eq!(send(&server, "source=kafka:visits&partition=4&position=1", 0).0, 200, "rows may be passed over");
    assert_eq!(send(&server, "source=kafka:visits-2&position=1", 1).0, 200);
    assert_eq!(positions(&server, "kafka:visits"), serde_json::json!({"3": "15", "4": "1"}));
    assert_eq!(positions(&server, "kafka:visit"), serde_json::json!({}));
    assert_eq!(server.events("open"), 6);
    // A refused row leaves the position.
    let target = "/v1/streams/open/events?source=kafka:visits&partition=3&after=15&position=16";
    let headers = [("content-type", "application/jsonl")];
    let refused =
        server.private.ask("POST", target, &server.token("write:open"), &headers, b"{\"time\":\"never\"}\n").unwrap();
    assert_eq!(refused.status, 422);
    assert_eq!(positions(&server, "kafka:visits")["3"], "15");
    // They are kept, and only those of this stream are seen.
    server.stop();
    server.start().unwrap();
    assert_eq!(positions(&server, "kafka:visits")["3"], "15");
    for (query, why) in [
        ("position=1", "are places in a `source`"),
        ("source=x", "the position after its rows"),
        ("source=&position=1", "the name of its source"),
        ("source=x&position=1&batch-id=content", "a batch has one id"),
        (&format!("source=x&position={}", "9".repeat(4097)), "at most 4096 bytes"),
    ] {
        let (status, problem) = send(&server, query, 1);
        assert!(
            [400, 422].contains(&status) && problem["detail"].as_str().unwrap().contains(why),
            "{query}: {problem}"
        );
    }
}

fn grow(path: &Path, text: &str) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn wait(what: &str, mut is_done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_done() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn feeds(server: &Server) -> serde_json::Value {
    let answer = server.private.ask("GET", "/v1/operator", &server.operate, &[], b"").unwrap();
    answer.json()
}

#[test]
fn the_service_follows_a_file_itself() {
    let row = |minute: u32, group: &str| format!("2026-01-01T00:{minute:02}:00Z,{group}\n");
    let feed = "[[feed]]\nstream = \"open\"\nfile = \"visits.csv\"\n";
    let mut server = Server::with("", &format!("{STREAMS}{feed}"));
    let file = server.path("visits.csv");
    grow(&file, &format!("time,group,note\n{}", row(1, "a,")));
    wait("a row is accepted", || server.events("open") == 1);
    grow(&file, &format!("{}{}", row(2, "nobody-knows-me,"), row(3, "a,")));
    wait("a row is refused", || feeds(&server)["feeds"][0]["problem"].is_string());
    let health = feeds(&server);
    let problem = health["feeds"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("visits.csv, line 3, field group cannot be accepted"), "{problem}");
    // What a row says is for nobody.
    assert!(!health.to_string().contains("nobody-knows-me"), "{health}");
    assert!(health["problems"].to_string().contains("the feed of stream `open`"), "{health}");
    let metrics = server.private.ask("GET", "/metrics", &server.operate, &[], b"").unwrap().text;
    assert!(
        metrics.lines().any(|line| line.starts_with("evertally_feed_failing{") && line.ends_with(" 1")),
        "{metrics}"
    );
    assert!(metrics.contains("evertally_problems{kind=\"feed\"} 1"), "{metrics}");
    // A changed feed is taken up; the other rows of the batch are accepted.
    server.reload("file = \"visits.csv\"\n", "file = \"visits.csv\"\naside = \"aside.jsonl\"\n").unwrap();
    wait("the rest is accepted", || server.events("open") == 2);
    let aside = std::fs::read_to_string(server.path("aside.jsonl")).unwrap();
    assert!(aside.contains("nobody-knows-me") && aside.contains("\"place\":\"line 3\""), "{aside}");
    wait("the other one is set aside", || feeds(&server)["feeds"][0]["aside"] == 1);
    assert_eq!(feeds(&server)["problems"], serde_json::json!([]));
    // After a restart it continues.
    server.stop();
    grow(&file, &row(4, "a,"));
    server.start().unwrap();
    wait("the next row is accepted", || server.events("open") == 1);
    // Without a feed, nothing is followed.
    server.reload("[[feed]]\nstream = \"open\"\nfile = \"visits.csv\"\naside = \"aside.jsonl\"\n", "").unwrap();
    assert_eq!(feeds(&server)["feeds"], serde_json::json!([]));
}

#[test]
fn invalid_feeds_are_refused_before_anything_starts() {
    for (feed, why) in [
        ("stream = \"open\"\n", "needs one of"),
        ("stream = \"open\"\nfile = \"a.csv\"\nfolder = \"b\"\n", "needs one of"),
        ("stream = \"nowhere\"\nfile = \"a.csv\"\n", "names the stream `nowhere`"),
        ("stream = \"open\"\nfile = \"a.csv\"\nmetadata = true\n", "belong to a source with a URL"),
        ("stream = \"open\"\nfile = \"a\"\n", "does not reveal its format"),
        ("stream = \"open\"\nfrom = \"gopher://x/y\"\n", "is not a kind of source"),
        ("stream = \"open\"\nfrom = \"kafka://u:secret-word@h/t\"\n", "password-file"),
        ("stream = \"open\"\nfrom = \"nats://h/S?tls=true\"\ncertificate = \"c\"\n", "belong together"),
        ("stream = \"open\"\nfrom = \"mqtt://u@h/t\"\npassword-file = \"p\"\n", "unencrypted: write mqtts://"),
        ("stream = \"open\"\nfile = \"a.csv\"\nrows = 0\n", "between 1 and 100000"),
        ("stream = \"open\"\nfile = \"a.csv\"\n[[feed]]\nstream = \"open\"\nfile = \"a.csv\"\n", "configured twice"),
        (
            "stream = \"open\"\nfrom = \"kafka://a/t\"\n[[feed]]\nstream = \"open\"\nfrom = \"kafka://b/t\"\n",
            "another `name`",
        ),
    ] {
        let mut server = Server::new();
        server.change(STREAMS, &format!("{STREAMS}[[feed]]\n{feed}"));
        let refused = match server.try_config() {
            Err(refused) => refused,
            Ok(_) => {
                let refused = server.reload("", "").unwrap_err();
                server.stop();
                assert_eq!(server.start().unwrap_err(), refused, "{feed}");
                refused
            }
        };
        assert!(refused.contains(why) && !refused.contains("secret-word"), "{feed}: {refused}");
    }
}
