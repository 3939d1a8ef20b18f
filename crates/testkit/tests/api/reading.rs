//! Releases: their content, moment, formats and caching.

use crate::server::Server;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A server with some published steps.
fn published(steps: i64) -> Server {
    let server = Server::new();
    for hour in 0..steps {
        let body: String =
            (0..50).map(|n| format!("{{\"time\":\"2026-01-01T{hour:02}:{n:02}:00Z\",\"group\":\"a\"}}\n")).collect();
        server.at(hour, 3000);
        assert_eq!(server.send("open", &format!("h{hour}"), &body).status, 200);
    }
    server.publish("open", steps);
    server
}

#[test]
fn all_formats_say_the_same() {
    let server = published(3);
    let get = |format: &str| {
        server.public.get(&format!("/v1/streams/open/releases?from=1&to=3&format={format}"), "").unwrap()
    };
    let csv = get("csv").text;
    let lines: Vec<Vec<&str>> = csv.lines().skip(3).map(|line| line.split(',').collect()).collect();
    assert_eq!(csv.lines().count(), 1 + 3 * 3);
    let json = get("json").json();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!((rows.len(), json["from"].as_u64(), json["to"].as_u64()), (9, Some(1), Some(3)));
    assert_eq!(rows[0]["end"], "2026-01-01T01:00:00+00:00");
    assert_eq!(rows[2]["group"], "ü \"x\"");
    assert_eq!(lines[1][0], rows[3]["time"].as_str().unwrap());
    for (line, row) in csv.lines().skip(1).zip(rows) {
        for (cell, name) in line.rsplit(',').zip(["upper", "lower", "std_error", "value", "step"]) {
            assert_eq!(cell.parse::<f64>().unwrap(), row[name].as_f64().unwrap(), "{name} in {line}");
        }
    }
    assert_eq!(get("jsonl").text.lines().count(), 9);
    let bytes = get("arrow").bytes;
    let batches: Vec<_> =
        arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap().map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>(), 9);
    let table = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(
        get("parquet").bytes,
    ));
    let table: Vec<_> = table.unwrap().build().unwrap().map(Result::unwrap).collect();
    assert_eq!(table.iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>(), 9);
    assert_eq!(table[0].column_by_name("value"), batches[0].column_by_name("value"));
}

#[test]
fn parts_can_be_asked_for() {
    let server = published(3);
    let rows = |query: &str| {
        let answer = server.public.get(&format!("/v1/streams/open/releases?{query}"), "").unwrap();
        assert_eq!(answer.status, 200, "{query}: {}", answer.text);
        answer.json()["rows"].as_array().unwrap().len()
    };
    assert_eq!(rows("from=2"), 6);
    assert_eq!(rows("from=2&to=2"), 3);
    assert_eq!(rows("group=a"), 3);
    assert_eq!(rows("group=b%2Fc&group=a"), 6);
    assert_eq!(rows("group=%5B%22b%2Fc%22%5D&from=3"), 1);
    assert_eq!(rows("group=%C3%BC+%22x%22"), 3);
    assert_eq!(rows("every=2"), 6, "step 2 and the last");
    assert_eq!(rows("from=50&to=60"), 0, "there are no rows yet");
    for (query, status) in [
        ("from=0", 400),
        ("from=3&to=2", 400),
        ("to=x", 400),
        ("format=xml", 400),
        ("what=1", 400),
        ("group=zzz", 404),
        ("measure=mean", 400),
        ("every=0", 400),
    ] {
        assert_eq!(
            server.public.get(&format!("/v1/streams/open/releases?{query}"), "").unwrap().status,
            status,
            "{query}"
        );
    }
}

#[test]
fn only_what_stays_may_be_kept() {
    let server = published(3);
    let get = |query: &str, tag: &str| {
        server
            .private
            .ask("GET", &format!("/v1/streams/open/releases?{query}"), "", &[("if-none-match", tag)], b"")
            .unwrap()
    };
    let whole = get("from=1&to=3", "");
    assert_eq!(whole.header("cache-control"), Some("public, max-age=31536000, immutable"));
    let tag = whole.header("etag").unwrap().to_owned();
    assert_eq!(get("from=1&to=3", &tag).status, 304);
    assert_eq!(get("from=1&to=2", &tag).status, 200);
    // Answers that may grow are not cached.
    let kept = ["", "from=1", "to=3", "from=1&to=4", "from=9&to=10"].map(|query| get(query, ""));
    for answer in &kept {
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
    }
    server.publish("open", 4);
    assert_eq!(get("from=1&to=3", &tag).status, 304);
    assert_eq!(get("from=1&to=3", "").text, whole.text);
    for (query, before) in ["", "from=1", "from=1&to=4"].iter().zip([&kept[0], &kept[1], &kept[3]]) {
        assert_eq!(get(query, before.header("etag").unwrap()).status, 200, "{query}");
    }
    let closed = server.get("/v1/streams/closed/releases?from=1&to=2");
    assert_eq!(closed.header("cache-control"), Some("private, max-age=31536000, immutable"));
    assert_eq!(server.get("/v1/operator").header("cache-control").unwrap_or("no-store"), "no-store");
}

#[test]
fn nothing_is_seen_before_its_moment() {
    let server = published(2);
    // Step 3 is closed at 3 h + 60 s, and shown 30 s later.
    server.at(3, 75);
    let closed = || server.view("open")["open_step"].as_u64().unwrap();
    for _ in 0..1000 {
        if closed() == 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(closed(), 4, "the step is closed");
    let pages = || {
        [
            "/v1/streams",
            "/v1/streams/open",
            "/v1/streams/open/releases",
            "/v1/streams/open/report",
            "/v1/streams/open/picture.svg",
            "/metrics",
        ]
        .map(|page| server.public.get(page, "").unwrap().text)
    };
    let before = pages();
    assert!(before[1].contains("\"published\":2"), "{}", before[1]);
    assert_eq!(
        server.public.get("/v1/streams/open/releases?from=3&to=3", "").unwrap().json()["rows"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    server.at(3, 89);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(pages(), before, "a second before its moment");
    server.at(3, 90);
    server.wait("open", 3);
    assert!(pages().iter().zip(&before).all(|(now, before)| now != before));
}

#[test]
fn metrics_are_gauges_without_exact_counts() {
    let server = published(2);
    let text = server.public.get("/metrics", "").unwrap().text;
    let mut kind = String::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            kind = declared.to_owned();
            assert!(declared.ends_with(" gauge"), "{declared}");
        } else if !line.starts_with("# HELP ") {
            let (name, rest) = line.split_once('{').unwrap();
            assert_eq!(kind, format!("{name} gauge"));
            let (labels, value) = rest.rsplit_once("} ").unwrap();
            assert!(labels.contains("stream=\"open\"") && value.parse::<f64>().is_ok(), "{line}");
        }
    }
    assert!(text.contains(r#"evertally_released_value{stream="open",group="ü \"x\""}"#), "{text}");
    assert!(!text.contains("events"), "{text}");
    let own = server.get("/metrics").text;
    assert!(own.contains("evertally_lag_seconds{stream=\"open\"} 0\n"), "{own}");
    let problems: Vec<&str> = own.lines().filter(|line| line.starts_with("evertally_problems{")).collect();
    assert!(problems.len() == 14 && problems.iter().all(|line| line.ends_with(" 0")), "{problems:?}");
    assert!(own.contains("evertally_events_taken_total{stream=\"open\"} 100"), "{own}");
}

/// Reads events of a stream until a given one; returns their ids in order.
fn ids(server: &Server, more: &str, until: &str, then: impl FnOnce()) -> (Vec<u64>, String) {
    let address = server.public.address();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(socket, "GET /v1/streams/open/watch HTTP/1.1\r\nhost: x\r\n{more}\r\n").unwrap();
    let mut lines = BufReader::new(socket).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().contains("200"));
    let (mut ids, mut then) = (Vec::new(), Some(then));
    for line in lines {
        if line.starts_with(':')
            && let Some(then) = then.take()
        {
            then();
        }
        if let Some(id) = line.strip_prefix("id: ") {
            ids.push(id.trim().parse().unwrap());
        }
        if line.contains(until) {
            return (ids, line);
        }
    }
    panic!("the watch has ended: {ids:?}");
}

#[test]
fn watchers_are_told_of_everything_once() {
    let server = published(3);
    let (seen, _) = ids(&server, "", "\"publication\":5", || {
        server.publish("open", 4);
        server.publish("open", 5);
    });
    assert_eq!(seen, [3, 4, 5]);
    for id in [u64::MAX, 9] {
        let (seen, _) = ids(&server, &format!("last-event-id: {id}\r\n"), ":", || ());
        assert_eq!(seen, [0; 0], "a watcher with a later id waits");
    }
    for _ in 0..500 {
        if server.get("/v1/operator").json()["watchers"] == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(server.get("/v1/operator").json()["watchers"], 0, "disconnected watchers are not counted");
    let (seen, line) = ids(&server, "last-event-id: 1\r\n", "\"publication\":5", || ());
    assert_eq!(seen, [2, 3, 4, 5]);
    assert!(line.contains("\"rows\":[{\"time\":\"2026-01-01T04:00:00Z\"") || line.contains("\"rows\":[{"), "{line}");
    let (_, line) = ids(&server, "last-event-id: 5\r\n", "retired", || {
        assert_eq!(server.post("/v1/streams/open/retire", "").status, 200);
    });
    assert!(line.contains("\"state\":\"retired\""), "{line}");
}

/// A watch of a private stream does not outlast the token of its caller.
#[test]
fn a_watch_ends_with_the_role_of_its_caller() {
    let server = Server::new();
    server.publish("closed", 1);
    let token = server.token("read:closed");
    let mut socket = TcpStream::connect(server.private.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = "GET /v1/streams/closed/watch HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    write!(socket, "{head}authorization: Bearer {token}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(socket).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "id: 1"));
    server.revoke(&token);
    server.publish("closed", 2);
    let rest: Vec<String> = lines.collect();
    assert!(!rest.iter().any(|line| line.starts_with("id: ")), "{rest:?}");
}

#[test]
fn every_answer_says_what_a_browser_may_do_with_it() {
    let server = published(1);
    for path in ["/", "/assets/app.js", "/v1/streams", "/nothing", "/v1/streams/open/releases", "/metrics"] {
        let answer = server.public.get(path, "").unwrap();
        let content = answer.header("content-security-policy").unwrap();
        assert!(content.contains("default-src 'none'") && !content.contains("unsafe"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    }
    for path in ["/assets/../serve.toml", "/assets/..%2f..%2fetc%2fpasswd", "/assets/%2e%2e/x", "//etc/passwd"] {
        assert_eq!(server.public.get(path, "").unwrap().status, 404, "{path}");
    }
}

/// Answers with many rows are sent in pieces, with the same content as in one piece.
#[test]
fn long_answers_are_whole() {
    let groups: Vec<String> = (0..2100).map(|group| format!("\"g{group}\"")).collect();
    let stream = |name: &str, steps: u64, more: &str| {
        format!(
            "[[stream]]\nstream = \"{name}\"\npublic = true\nclosing = \"operator\"\nstart = \"2026-01-01\"\n\
             every = \"1m\"\nsteps = {steps}\nrho = 1\n{more}\n"
        )
    };
    let wide = stream("wide", 3, &format!("group-by = [\"group\"]\ngroups = [{}]", groups.join(",")));
    let server = Server::with("", &(stream("long", 5000, "") + &wide));
    for (name, through) in [("long", 5000), ("wide", 3)] {
        let closed = server.post(&format!("/v1/streams/{name}/close"), &format!("{{\"through\":{through}}}"));
        assert_eq!(closed.status, 200, "{}", closed.text);
    }
    let get = |query: &str| server.public.get(&format!("/v1/streams/{query}"), "").unwrap();
    // Parts smaller than a piece, compared with the whole.
    let lines = |query: &str| get(query).text.lines().map(str::to_owned).collect::<Vec<_>>();
    let whole = lines("long/releases?from=1&to=5000&format=csv");
    let halves = [("1", "1500"), ("1501", "3000"), ("3001", "4500"), ("4501", "5000")];
    let parts = halves.map(|(from, to)| lines(&format!("long/releases?from={from}&to={to}&format=csv"))[1..].to_vec());
    assert_eq!((whole.len(), whole[1..].to_vec()), (5001, parts.concat()));
    for (query, rows, columns) in [("long/releases?from=1&to=5000", 5000, 6), ("wide/releases?from=1&to=3", 6300, 7)] {
        let csv = lines(&format!("{query}&format=csv"));
        assert_eq!(csv.len(), rows + 1);
        assert!(csv.iter().all(|line| line.split(',').count() == columns), "{}", csv[1]);
        let json = get(query).json();
        assert_eq!(json["rows"].as_array().unwrap().len(), rows);
        let value = |row: &serde_json::Value| row["value"].as_f64().unwrap();
        let values: Vec<f64> = json["rows"].as_array().unwrap().iter().map(value).collect();
        let cells: Vec<f64> = csv[1..].iter().map(|line| line.rsplit(',').nth(3).unwrap().parse().unwrap()).collect();
        assert!(values == cells);
        assert_eq!(lines(&format!("{query}&format=jsonl")).len(), rows);
        let bytes = get(&format!("{query}&format=arrow")).bytes;
        let batches = arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap();
        assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), rows);
    }
    // Every seventh step, and the last.
    let kept = lines("long/releases?from=1&to=5000&every=7&format=csv");
    let step = |line: &String| line.split(',').nth(1).unwrap().parse::<u64>().unwrap();
    let steps: Vec<u64> = kept[1..].iter().map(step).collect();
    assert_eq!(steps, (1..=5000).filter(|step| step % 7 == 0 || *step == 5000).collect::<Vec<_>>());
    for every in ["2", "18446744073709551615"] {
        let kept = lines(&format!("wide/releases?from=1&to=3&every={every}&format=csv"));
        let publications = if every == "2" { 2 } else { 1 };
        assert_eq!(kept.len(), 1 + 2100 * publications, "every {every}");
    }
    let some = lines("wide/releases?from=2&to=3&group=g7&group=g2099&format=csv");
    assert_eq!(some.len(), 5);
}
