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
            ("application/x-protobuf", body.as_bytes(), 415),
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
