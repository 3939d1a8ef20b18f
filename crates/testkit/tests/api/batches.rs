//! Batches: accepted completely or not at all, and the answers to those that are refused.

use crate::server::Server;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

const CSV: &str = "time,group\n2026-01-01T00:10:00Z,a\n2026-01-01T00:20:00Z,b/c\n";

fn row(time: &str, group: &str) -> String {
    format!("{{\"time\":\"{time}\",\"group\":\"{group}\"}}\n")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn table(groups: &[&str]) -> RecordBatch {
    let times: ArrayRef = Arc::new(StringArray::from(vec!["2026-01-01T00:30:00Z"; groups.len()]));
    let groups: ArrayRef = Arc::new(StringArray::from(groups.to_vec()));
    RecordBatch::try_from_iter([("time", times), ("group", groups)]).unwrap()
}

fn arrow(groups: &[&str]) -> Vec<u8> {
    let batch = table(groups);
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn parquet(groups: &[&str]) -> Vec<u8> {
    let batch = table(groups);
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn the_same_batch_is_taken_once() {
    let server = Server::new();
    let body = row("2026-01-01T00:10:00Z", "a");
    let first = server.send("open", "id-1", &body);
    assert_eq!((first.status, first.json()["repeated"].as_bool()), (200, Some(false)), "{}", first.text);
    let again = server.send("open", "id-1", &body);
    assert_eq!((again.status, again.json()["repeated"].as_bool()), (200, Some(true)));
    assert_eq!(first.json()["digest"], again.json()["digest"]);
    let other = server.send("open", "id-1", &row("2026-01-01T00:10:00Z", "b/c"));
    assert_eq!(other.status, 409, "{}", other.text);
    assert_eq!(server.events("open"), 1);
    // Ids of one stream do not affect another.
    assert_eq!(server.send("closed", "id-1", "{\"time\":\"2026-01-01T00:10:00Z\"}\n").status, 200);
}

/// Access logs, which have names for their columns.
#[test]
fn logs_are_taken_and_misfits_are_named() {
    let server = Server::new();
    let line = "192.0.2.9 - - [01/Jan/2026:00:10:00 +0000] \"GET / HTTP/1.1\" 200 5\n";
    let answer = server.send_as("closed", "log", "text/x-common-log", line.as_bytes(), &[]);
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(server.events("closed"), 1);
    let combined = line.replace(" 5\n", " 5 \"-\" \"Mozilla\"\n");
    let answer = server.send_as("closed", "more", "text/x-common-log", (line.to_owned() + &combined).as_bytes(), &[]);
    assert_eq!((answer.status, answer.json()["errors"][0]["row"].as_u64()), (422, Some(2)), "{}", answer.text);
    assert!(answer.text.contains("send it as text/x-combined-log"), "{}", answer.text);
}

#[test]
fn all_formats_and_codings_are_taken() {
    let server = Server::new();
    let zstd = zstd::encode_all(CSV.as_bytes(), 3).unwrap();
    let gzipped = gzip(CSV.as_bytes());
    let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(CSV)));
    let (arrow, parquet) = (arrow(&["a", "b/c"]), parquet(&["a", "b/c"]));
    let json = row("2026-01-01T00:10:00Z", "a") + &row("2026-01-01T00:20:00Z", "b/c");
    type Sent<'s> = (&'s str, &'s [u8], &'s [(&'s str, &'s str)]);
    let sent: [Sent<'_>; 8] = [
        ("text/csv", CSV.as_bytes(), &[]),
        ("text/csv; charset=utf-8", &zstd, &[("content-encoding", "zstd")]),
        ("text/csv", &gzipped, &[("content-encoding", "gzip")]),
        ("Text/CSV", &gzipped, &[("content-encoding", "X-GZip")]),
        ("text/csv", CSV.as_bytes(), &[("content-digest", &digest)]),
        ("application/vnd.apache.arrow.stream", &arrow, &[]),
        ("application/vnd.apache.parquet", &parquet, &[]),
        ("application/x-ndjson", json.as_bytes(), &[]),
    ];
    for (place, (kind, body, more)) in sent.into_iter().enumerate() {
        let taken = server.send_as("open", &format!("b{place}"), kind, body, more);
        assert_eq!((taken.status, taken.json()["rows"].as_u64()), (200, Some(2)), "{kind}: {}", taken.text);
    }
    assert_eq!(server.events("open"), 16);
}

#[test]
fn every_bad_row_is_named_and_none_is_taken() {
    let server = Server::new();
    let json = [
        row("2026-01-01T00:10:00Z", "a"),
        row("yesterday", "a"),
        row("2026-01-01T00:10:00Z", "zzz"),
        row("2026-01-03T00:10:00Z", "a"),
    ]
    .concat();
    let bad = server.send("open", "bad", &json);
    assert_eq!((bad.status, bad.header("content-type")), (422, Some("application/problem+json")), "{}", bad.text);
    let errors = bad.json()["errors"].as_array().unwrap().clone();
    let found: Vec<(u64, String)> = errors
        .iter()
        .map(|error| (error["row"].as_u64().unwrap(), error["field"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(found, [(2, "time".into()), (3, "group".into()), (4, "time".into())], "{}", bad.text);
    assert!(errors.iter().all(|error| error["problem"].is_string()), "{}", bad.text);
    assert!(errors[2]["problem"].as_str().unwrap().contains("future"), "{}", bad.text);
    // In a table, rows count from 1; in a text, lines include the header.
    let csv = server.send_as("open", "bad", "text/csv", b"time,group\n2026-01-01T00:10:00Z,zzz\n", &[]);
    assert_eq!(csv.json()["errors"][0]["row"], 2, "{}", csv.text);
    for (kind, body) in [("arrow.stream", arrow(&["a", "zzz"])), ("parquet", parquet(&["a", "zzz"]))] {
        let bad = server.send_as("open", "bad", &format!("application/vnd.apache.{kind}"), &body, &[]);
        assert_eq!((bad.status, bad.json()["errors"][0]["row"].as_u64()), (422, Some(2)), "{}", bad.text);
    }
    let many = row("never", "a").repeat(150);
    let bad = server.send("open", "bad", &many).json();
    assert_eq!((bad["errors"].as_array().unwrap().len(), bad["more"].as_u64()), (100, Some(50)));
    assert_eq!(server.events("open"), 0);
    // The id is still unused.
    assert_eq!(server.send("open", "bad", &row("2026-01-01T00:10:00Z", "a")).status, 200);
}

#[test]
fn what_is_no_batch_is_refused() {
    let server = Server::with("[limits]\nbody-bytes = 100000\ndecoded-bytes = 1000000\n", crate::server::STREAMS);
    let token = server.token("write:open");
    let post = |headers: &[(&str, &str)], body: &[u8]| {
        server.private.post("/v1/streams/open/events", &token, headers, body).unwrap()
    };
    let csv = ("content-type", "text/csv");
    let long = "x".repeat(201);
    for (headers, reply) in [
        (&[csv][..], "needs its own id"),
        (&[csv, ("idempotency-key", "a b")], "needs its own id"),
        (&[csv, ("idempotency-key", &long)], "needs its own id"),
        (&[csv, ("idempotency-key", "x"), ("content-digest", "sha-256=:AAAA:")], "no SHA-256"),
        (
            &[
                csv,
                ("idempotency-key", "x"),
                ("content-digest", "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"),
            ],
            "does not match its `Content-Digest`",
        ),
    ] {
        let refused = post(headers, CSV.as_bytes());
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains(reply), "{}", refused.text);
    }
    let unknown = post(&[("content-type", "text/html"), ("idempotency-key", "x")], b"");
    assert_eq!(unknown.status, 415, "{}", unknown.text);
    let coding = post(&[csv, ("idempotency-key", "x"), ("content-encoding", "br")], b"");
    assert_eq!(coding.status, 415, "{}", coding.text);
    // Too large, as sent or after decompression; and bytes that are not compressed at all.
    let large = post(&[csv, ("idempotency-key", "x")], &vec![b'x'; 100_001]);
    assert_eq!(large.status, 413, "{}", large.text);
    let zeros = vec![b' '; 60_000_000];
    for (coding, bomb) in [("gzip", gzip(&zeros)), ("zstd", zstd::encode_all(&zeros[..], 19).unwrap())] {
        assert!(bomb.len() < 100_000);
        let burst = post(&[csv, ("idempotency-key", "x"), ("content-encoding", coding)], &bomb);
        assert_eq!(burst.status, 413, "{coding}: {}", burst.text);
        let broken = post(&[csv, ("idempotency-key", "x"), ("content-encoding", coding)], b"no such thing");
        assert_eq!(broken.status, 400, "{coding}: {}", broken.text);
        assert!(broken.text.contains("urn:evertally:problem:damaged"), "{coding}: {}", broken.text);
        let whole = match coding {
            "gzip" => gzip(CSV.as_bytes()),
            _ => zstd::encode_all(CSV.as_bytes(), 3).unwrap(),
        };
        // Also if the first rows can be decompressed.
        let cut = post(&[csv, ("idempotency-key", "x"), ("content-encoding", coding)], &whole[..whole.len() - 2]);
        assert_eq!(cut.status, 400, "{coding}: {}", cut.text);
    }
    for body in [&b"\xff\xfe\xfd"[..], b"{", b"[1,2]", b"\0\0\0"] {
        for kind in ["application/x-ndjson", "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"] {
            let broken = post(&[("content-type", kind), ("idempotency-key", "x")], body);
            let expected = if kind.contains("ndjson") { 422 } else { 400 };
            assert_eq!(broken.status, expected, "{kind} {body:?}: {}", broken.text);
        }
    }
    assert_eq!(server.events("open"), 0);
    let empty = post(&[csv, ("idempotency-key", "none")], b"time,group\n");
    assert_eq!((empty.status, empty.json()["rows"].as_u64()), (200, Some(0)), "{}", empty.text);
}

/// Bodies under way share the memory for all batches: another one is refused as busy, and accepted once they are gone.
#[test]
fn all_batches_share_memory() {
    let limits = "[limits]\ndecoding-bytes = 1000000\nall-decoding-bytes = 1\n";
    let server = Server::with(limits, crate::server::STREAMS);
    let token = server.token("write:open");
    let whole = zstd::encode_all(CSV.as_bytes(), 3).unwrap();
    let begin = |id: usize| {
        let mut socket = TcpStream::connect(server.private.address()).unwrap();
        let head = format!(
            "POST /v1/streams/open/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: \
             text/csv\r\n\
             content-encoding: zstd\r\nidempotency-key: slow {id}\r\ncontent-length: {}\r\n\r\n",
            whole.len()
        );
        socket.write_all(head.replace("slow ", "slow-").as_bytes()).unwrap();
        socket.write_all(&whole[..whole.len() - 1]).unwrap();
        socket
    };
    let send = || {
        let headers = [("content-type", "text/csv"), ("content-encoding", "zstd"), ("idempotency-key", "fast")];
        server.private.post("/v1/streams/open/events", &token, &headers, &whole).unwrap()
    };
    // At least 64 MiB, of which each body takes 8 for its window and 2 for its reader: six fit.
    let mut slow: Vec<TcpStream> = (0..6).map(begin).collect();
    loop {
        let answer = send();
        if answer.status == 503 {
            assert!(answer.text.contains("urn:evertally:problem:busy"), "{}", answer.text);
            break;
        }
        // One of them has not arrived yet, or was refused because this one was quicker.
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert!(slow.len() < 100);
        slow.push(begin(slow.len()));
    }
    // Bodies with memory are accepted, the others are refused, and all memory is released.
    let mut answers = Vec::new();
    for mut socket in slow {
        socket.write_all(&whole[whole.len() - 1..]).unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).unwrap();
        answers.push(String::from_utf8(answer.to_vec()).unwrap());
    }
    // Six, unless some had a window but no reader when the memory was exhausted.
    assert!(answers.iter().filter(|answer| *answer == "HTTP/1.1 200").count() >= 4, "{answers:?}");
    assert!(answers.iter().all(|answer| ["HTTP/1.1 200", "HTTP/1.1 503"].contains(&answer.as_str())), "{answers:?}");
    assert_eq!(send().status, 200);
}

#[test]
fn late_events_go_where_the_stream_says() {
    let stream = |name: &str, late: &str| {
        format!(
            "[[stream]]\nstream = \"{name}\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps = 100\nrho = 10\nlate = \
             \"{late}\"\n"
        )
    };
    let streams = ["refuse", "next-step", "side-file"].map(|late| stream(late, late)).concat();
    let server = Server::with("", &streams);
    for name in ["refuse", "next-step", "side-file"] {
        server.publish(name, 2);
    }
    let body = "{\"time\":\"2026-01-01T00:10:00Z\"}\n{\"time\":\"2026-01-01T02:01:00Z\"}\n";
    let refused = server.send("refuse", "late", body);
    assert_eq!((refused.status, refused.json()["errors"][0]["row"].as_u64()), (422, Some(1)), "{}", refused.text);
    assert!(refused.text.contains("closed"), "{}", refused.text);
    for name in ["next-step", "side-file"] {
        assert_eq!(server.send(name, "late", body).status, 200);
    }
    assert_eq!(["refuse", "next-step", "side-file"].map(|name| server.events(name)), [0, 2, 1]);
    let all = server.get("/v1/operator").json();
    for stream in all["streams"].as_array().unwrap() {
        assert_eq!(stream["late"], 1, "{stream}");
    }
    let aside = server.get("/v1/streams/side-file/late").json();
    assert_eq!(aside["events"], serde_json::json!([{"time": "2026-01-01T00:10:00Z"}]));
    assert_eq!(
        (&aside["behind"], server.get("/v1/streams/refuse/late").json()["events"].as_array().unwrap().len()),
        (&serde_json::Value::Null, 0)
    );
    // Strangers learn nothing about late events.
    for page in ["/v1/streams", "/metrics", "/v1/streams/refuse"] {
        assert!(!server.public.get(page, "").unwrap().text.contains("late"), "{page}");
    }
}

#[test]
fn damaged_tables_end_nothing() {
    let server = Server::new();
    let token = server.token("write:open");
    let (arrow, parquet) = (arrow(&["a", "b/c"]), parquet(&["a", "b/c"]));
    for (kind, whole) in [("arrow.stream", &arrow), ("parquet", &parquet)] {
        let kind = format!("application/vnd.apache.{kind}");
        for place in (0..whole.len()).step_by(3) {
            let mut damaged = whole.clone();
            damaged[place] ^= [0xff, 0x80, 0x01][place % 3];
            let id = format!("{kind}{place}");
            let headers = [("content-type", kind.as_str()), ("idempotency-key", &id)];
            let asked = server.private.post("/v1/streams/open/events", &token, &headers, &damaged).unwrap();
            assert!([200, 400, 422].contains(&asked.status), "{kind} {place}: {} {}", asked.status, asked.text);
        }
    }
    // A message that claims to have 2^62 bytes.
    let mut huge = arrow.clone();
    let body = huge.windows(8).rposition(|bytes| bytes == 64_i64.to_le_bytes() || bytes == 128_i64.to_le_bytes());
    let body = body.expect("a length of a body");
    huge[body..body + 8].copy_from_slice(&(1_i64 << 62).to_le_bytes());
    let asked = server.send_as("open", "huge", "application/vnd.apache.arrow.stream", &huge, &[]);
    assert_eq!(asked.status, 400, "{}", asked.text);
    assert_eq!(server.send("open", "good", &row("2026-01-01T00:10:00Z", "a")).status, 200);
}
