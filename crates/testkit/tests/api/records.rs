//! Log records in the protocols of OpenTelemetry and Loki.

use crate::server::Server;
use evertally_testkit::service::Answer;
use std::io::Write;

const STREAM: &str = r#"
[[stream]]
stream = "logs"
start = "2026-01-01"
every = "1h"
steps = 100
group-by = ["COLUMN"]
groups = ["shop"]
rho = 1
"#;

const OTLP: &str = r#"{"resourceLogs":[{"resource":{"attributes":[
{"key":"service.name","value":{"stringValue":"shop"}}]},
"scopeLogs":[{"logRecords":[{"timeUnixNano":"1767225600123456789","body":{"stringValue":"one"}},
{"timeUnixNano":"1767225600123456790","body":{"stringValue":"two"}}]}]}]}"#;

const LOKI: &str = r#"{"streams":[{"stream":{"service":"shop"},"values":[["1767225600000000001","one"],
["1767225600000000002","two",{"user":"ann"}]]}]}"#;

fn post(server: &Server, path: &str, more: &[(&str, &str)], body: &[u8]) -> Answer {
    let headers = [&[("content-type", "application/json")], more].concat();
    server.private.post(&format!("/v1/streams/logs/{path}"), &server.token("write:logs"), &headers, body).unwrap()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn records_are_counted_once() {
    for (path, column, body, status) in
        [("otlp/v1/logs", "resource.service.name", OTLP, 200), ("loki/api/v1/push", "labels.service", LOKI, 204)]
    {
        let server = Server::with("", &STREAM.replace("COLUMN", column));
        // A client without an answer sends the request again, compressed or not.
        for (more, bytes) in [
            (&[][..], body.as_bytes().to_vec()),
            (&[], body.as_bytes().to_vec()),
            (&[("content-encoding", "gzip")], gzip(body)),
        ] {
            let accepted = post(&server, path, more, &bytes);
            assert_eq!(accepted.status, status, "{}", accepted.text);
            assert_eq!(accepted.text, if status == 200 { "{}" } else { "" });
            assert_eq!(server.events("logs"), 2);
        }
        let other = body.replace("two", "three");
        assert_eq!(post(&server, path, &[], other.as_bytes()).status, status);
        assert_eq!(server.events("logs"), 4);
        // With its own id, another batch.
        for _ in 0..2 {
            assert_eq!(post(&server, path, &[("idempotency-key", "x")], other.as_bytes()).status, status);
        }
        assert_eq!(server.events("logs"), 6);
        // Each row is a record; none is accepted if one is refused.
        let wrong = post(&server, path, &[], body.replace("shop", "pub").as_bytes());
        let errors = wrong.json()["errors"].as_array().map(Vec::len);
        assert_eq!((wrong.status, errors, wrong.json()["errors"][1]["row"].as_u64()), (422, Some(2), Some(2)));
        assert_eq!(wrong.json()["errors"][0]["field"], column);
        for (kind, body, status) in [
            ("application/x-protobuf", body.as_bytes(), 400),
            ("application/protobuf", body.as_bytes(), 415),
            ("application/json", b"{", 400),
            ("application/json", b"[]", 400),
            ("application/json; charset=utf-8", &vec![b' '; (8 << 20) + 1], 413),
        ] {
            let path = format!("/v1/streams/logs/{path}");
            let refused =
                server.private.post(&path, &server.token("write:logs"), &[("content-type", kind)], body).unwrap();
            assert_eq!(refused.status, status, "{kind}: {}", refused.text);
        }
        assert_eq!(post(&server, path, &[("content-encoding", "br")], b"").status, 415);
        assert_eq!(post(&server, path, &[("idempotency-key", "")], body.as_bytes()).status, 400);
        let stranger = server.private.post(&format!("/v1/streams/logs/{path}"), "", &[], body.as_bytes()).unwrap();
        assert_eq!(stranger.status, 401);
        assert_eq!(server.events("logs"), 6);
    }
}

/// The default encodings of the clients give the same batches as JSON.
#[test]
fn protobuf_is_read() {
    let field = |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
    let value = |text: &[u8]| field(5, &field(1, text));
    let record = |last: u8, text: &[u8]| {
        let time = (1_767_225_600_123_456_700_u64 + u64::from(last)).to_le_bytes();
        field(2, &[&[1 << 3 | 1][..], &time, &value(text)].concat())
    };
    let service = field(1, &[field(1, b"service.name"), field(2, &field(1, b"shop"))].concat());
    let otlp = |text: &[u8]| {
        let of_scope = field(2, &[record(89, b"one"), record(90, text)].concat());
        field(1, &[field(1, &service), of_scope].concat())
    };
    // 1767225600 seconds as a number of variable length.
    let time = |nanos: u8| field(1, &[8, 0x80, 0xf2, 0xd6, 0xca, 6, 2 << 3, nanos]);
    let loki = |text: &[u8]| {
        let user = field(3, &[field(1, b"user"), field(2, b"ann")].concat());
        let one = field(2, &[time(1), field(2, b"one")].concat());
        let two = field(2, &[time(2), field(2, text), user].concat());
        let body = field(1, &[field(1, b"{service=\"shop\"}"), one, two].concat());
        snap::raw::Encoder::new().compress_vec(&body).unwrap()
    };
    let kind = ("content-type", "application/x-protobuf");
    let server = Server::with("", &STREAM.replace("COLUMN", "resource.service.name"));
    let path = "/v1/streams/logs/otlp/v1/logs";
    let send = |server: &Server, path: &str, headers: &[(&str, &str)], body: &[u8]| {
        server.private.post(path, &server.token("write:logs"), headers, body).unwrap()
    };
    let accepted = send(&server, path, &[kind], &otlp(b"two"));
    assert_eq!((accepted.status, accepted.text.as_str()), (200, ""));
    assert_eq!(accepted.header("content-type"), Some("application/x-protobuf"));
    assert_eq!(post(&server, "otlp/v1/logs", &[], OTLP.as_bytes()).status, 200);
    assert_eq!(server.events("logs"), 2, "the same batch in JSON");
    let refused = send(&server, path, &[kind], &field(1, &field(2, &record(1, b"x"))));
    assert_eq!((refused.status, refused.header("content-type")), (422, Some("application/x-protobuf")));
    // A message of this length begins with bytes that are not text.
    let message = String::from_utf8_lossy(&refused.bytes);
    assert!(message.starts_with('\x12') && message.contains("resource.service.name"), "{message}");
    assert!(message.contains("1 row cannot be accepted"), "hints are not counted: {message}");

    let server = Server::with("", &STREAM.replace("COLUMN", "labels.service"));
    let path = "/v1/streams/logs/loki/api/v1/push";
    for more in [&[kind][..], &[kind, ("content-encoding", "snappy")]] {
        let accepted = send(&server, path, more, &loki(b"two"));
        assert_eq!(accepted.status, 204, "{}", accepted.text);
    }
    assert_eq!(post(&server, "loki/api/v1/push", &[], LOKI.as_bytes()).status, 204);
    assert_eq!(server.events("logs"), 2, "the same batch in JSON");
    let bomb = [0xff, 0xff, 0xff, 0xff, 0x0f]; // states 4 GiB
    for (body, status) in [(&bomb[..], 413), (b"\x08\xff", 400), (&loki(b"two")[..20], 400)] {
        assert_eq!(send(&server, path, &[kind], body).status, status);
    }
}
