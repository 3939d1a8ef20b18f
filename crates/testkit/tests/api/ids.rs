//! Batches of clients that cannot set headers, digests of counted rows, and the media types of JSON.

use crate::server::Server;
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_array::{TimestampNanosecondArray, types::Int32Type};
use arrow_schema::{DataType, Field, Schema};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evertally_testkit::service::Answer;
use std::collections::HashMap;
use std::sync::Arc;

const LINES: &str = "{\"time\":\"2026-01-01T00:10:00Z\",\"group\":\"a\",\"n\":1}\n";

fn push(server: &Server, more: &[(&str, &str)], body: &[u8]) -> Answer {
    let (token, kind) = (server.token("write:open"), ("content-type", "application/x-ndjson"));
    let headers = [&[kind], more].concat();
    server.private.post("/v1/streams/open/events?batch-id=content", &token, &headers, body).unwrap()
}

#[test]
fn bytes_are_the_id_of_a_batch() {
    let server = Server::new();
    let first = push(&server, &[], LINES.as_bytes());
    assert_eq!((first.status, first.json()["repeated"].as_bool()), (200, Some(false)), "{}", first.text);
    let id = first.json()["batch"].as_str().unwrap().to_owned();
    assert!(id.starts_with("content:") && id.len() == 72, "{id}");
    // Compression does not matter.
    let zstd = zstd::encode_all(LINES.as_bytes(), 3).unwrap();
    for (body, more) in [(LINES.as_bytes(), &[][..]), (&zstd, &[("content-encoding", "zstd")])] {
        let again = push(&server, more, body).json();
        assert_eq!((again["repeated"].as_bool(), again["batch"].as_str()), (Some(true), Some(id.as_str())));
    }
    assert_eq!(server.events("open"), 1);
    // A column that is not declared tells batches apart.
    let other = push(&server, &[], LINES.replace("\"n\":1", "\"n\":2").as_bytes()).json();
    assert_eq!(other["repeated"].as_bool(), Some(false));
    assert_eq!(other["digest"], first.json()["digest"]);
    assert_eq!(server.events("open"), 2);
    // A refused batch leaves no id.
    for _ in 0..2 {
        assert_eq!(push(&server, &[], LINES.replace("\"a\"", "\"zzz\"").as_bytes()).status, 422);
    }
    let both = push(&server, &[("idempotency-key", "x")], LINES.as_bytes());
    assert_eq!(both.status, 400, "{}", both.text);
    assert!(both.text.contains("has one id"), "{}", both.text);
    let token = server.token("write:open");
    for query in ["batch-id=header", "batch=content"] {
        let path = format!("/v1/streams/open/events?{query}");
        let unknown = server.private.post(&path, &token, &[("content-type", "text/csv")], b"").unwrap();
        assert_eq!(unknown.status, 400, "{}", unknown.text);
    }
}

#[test]
fn tokens_may_be_passwords() {
    let server = Server::new();
    let send = |id: &str, user: &str, scheme: &str| {
        let authorization = format!("{scheme} {}", STANDARD.encode(user));
        let headers = [
            ("content-type", "application/x-ndjson"),
            ("idempotency-key", id),
            ("authorization", authorization.as_str()),
        ];
        server.private.post("/v1/streams/open/events", "", &headers, LINES.as_bytes()).unwrap()
    };
    let writing = server.token("write:open");
    assert_eq!(send("1", &format!("collectd:{writing}"), "Basic").status, 200);
    assert_eq!(send("2", &format!(":{writing}"), "basic").status, 200);
    for wrong in [writing.clone(), format!("{writing}:"), format!("x:{writing}x"), String::new()] {
        let refused = send("3", &wrong, "Basic");
        assert_eq!(refused.status, 401, "{wrong}: {}", refused.text);
        // No browser asks for a name and a password.
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    // Clients that send no password without a challenge get one, but only where events are sent.
    let challenges = |path: &str| {
        let refused = server.private.post(path, "", &[("content-type", "text/csv")], b"").unwrap();
        assert_eq!(refused.status, 401, "{path}: {}", refused.text);
        let found =
            refused.headers.iter().filter(|(name, _)| name == "www-authenticate").map(|(_, value)| value.clone());
        found.collect::<Vec<String>>()
    };
    assert_eq!(challenges("/v1/streams/open/events"), ["Bearer", "Basic realm=\"evertally\""]);
    assert_eq!(challenges("/v1/streams/open/retire"), ["Bearer"]);
    assert_eq!(send("3", &format!("x:{}", server.token("read:open")), "Basic").status, 403);
    let operator = send("3", &format!("x:{}", server.operate), "Basic");
    assert_eq!(operator.status, 401, "{}", operator.text);
    assert!(operator.text.contains("Bearer"), "{}", operator.text);
}

#[test]
fn json_has_many_names_and_shapes() {
    let server = Server::new();
    let object = "{\"time\": \"2026-01-01T00:10:00Z\", \"group\": \"a\"}";
    let wide = "{\n  \"time\": \"2026-01-01T00:10:00Z\",\n  \"group\": \"a\"\n}";
    let bodies = [
        (object.to_owned(), 1),
        (format!("[{object}]"), 1),
        (format!("[{object},{object}]\n"), 2),
        (format!("[\n{object},\n{wide}\n]"), 2),
        (format!("{object}\n{object}\n"), 2),
        (format!("{wide}\n{wide}{object}"), 3),
        ("[]".to_owned(), 0),
    ];
    let kinds = ["application/json", "Application/JSON; charset=utf-8", "application/ndjson; x=y", "application/jsonl"];
    for (number, kind) in kinds.into_iter().enumerate() {
        for (place, (body, rows)) in bodies.iter().enumerate() {
            let taken = server.send_as("open", &format!("{number}/{place}"), kind, body.as_bytes(), &[]);
            assert_eq!(
                (taken.status, taken.json()["rows"].as_u64()),
                (200, Some(*rows)),
                "{kind} {body}: {}",
                taken.text
            );
        }
    }
    assert_eq!(server.events("open"), 44);
    let csv = b"time,group\n2026-01-01T00:10:00Z,a\n";
    assert_eq!(server.send_as("open", "csv", "text/csv; header=present; charset=utf-8", csv, &[]).status, 200);
    let headless = server.send_as("open", "csv", "text/csv;header=absent", csv, &[]);
    assert_eq!(headless.status, 415, "{}", headless.text);
    assert!(headless.text.contains("header"), "{}", headless.text);
    let unknown = server.send_as("open", "x", "text/json", object.as_bytes(), &[]);
    assert!(unknown.status == 415 && unknown.text.contains("application/json"), "{}", unknown.text);
}

/// An Arrow stream of columns, with metadata of its schema.
fn arrow(metadata: &[(&str, &str)], columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let metadata: HashMap<String, String> =
        metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|(_, column)| column).collect());
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &schema).unwrap();
    writer.write(&batch.unwrap()).unwrap();
    writer.into_inner().unwrap()
}

/// The same rows are the same batch, whatever a library writes around them.
#[test]
fn digests_cover_the_counted_cells_alone() {
    const MICROS: i64 = 1_767_225_600_000_000 + 600_000_000;
    let server = Server::new();
    let micros = TimestampMicrosecondArray::from(vec![MICROS, MICROS + 1]).with_timezone("UTC");
    let nanos = TimestampNanosecondArray::from(vec![MICROS * 1000, (MICROS + 1) * 1000]).with_timezone("+00:00");
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b/c"]));
    let long: ArrayRef = Arc::new(LargeStringArray::from(vec!["a", "b/c"]));
    let keys: arrow_array::DictionaryArray<Int32Type> = vec!["a", "b/c"].into_iter().collect();
    assert!(matches!(keys.data_type(), DataType::Dictionary(..)));
    let other: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
    let arrow_kind = "application/vnd.apache.arrow.stream";
    let bodies = [
        (arrow_kind, arrow(&[("pandas", "2.2")], vec![("time", Arc::new(micros.clone())), ("group", texts)])),
        (arrow_kind, arrow(&[("pandas", "3.0")], vec![("group", long), ("time", Arc::new(nanos)), ("index", other)])),
        (arrow_kind, arrow(&[], vec![("time", Arc::new(micros)), ("group", Arc::new(keys))])),
        ("text/csv", b"time,x,group\n2026-01-01T00:10:00Z,1,a\n2026-01-01T00:10:00.000001Z,,b/c\n".to_vec()),
        (
            "application/json",
            b"[{\"group\":\"a\",\"time\":\"2026-01-01T00:10:00Z\"},{\"group\":\"b/c\",\
              \"time\":\"2026-01-01T00:10:00.000001Z\",\"x\":[1]}]"
                .to_vec(),
        ),
    ];
    let mut digest = None;
    for (place, (kind, body)) in bodies.iter().enumerate() {
        let taken = server.send_as("open", "same", kind, body, &[]);
        assert_eq!(
            (taken.status, taken.json()["repeated"].as_bool()),
            (200, Some(place > 0)),
            "{kind}: {}",
            taken.text
        );
        assert_eq!(taken.json()["digest"], *digest.get_or_insert(taken.json()["digest"].clone()));
    }
    assert_eq!(server.events("open"), 2);
    // Another order of the rows, a missing row, or another cell: another batch.
    for rows in [
        "2026-01-01T00:10:00.000001Z,b/c\n2026-01-01T00:10:00Z,a\n",
        "2026-01-01T00:10:00Z,a\n",
        "2026-01-01T00:10:00Z,b/c\n2026-01-01T00:10:00.000001Z,b/c\n",
    ] {
        let differs = server.send_as("open", "same", "text/csv", format!("time,group\n{rows}").as_bytes(), &[]);
        assert_eq!(differs.status, 409, "{}", differs.text);
    }
    // The digest is keyed: two services disagree.
    let elsewhere = Server::new().send_as("open", "same", bodies[0].0, &bodies[0].1, &[]);
    assert_ne!(Some(&elsewhere.json()["digest"]), digest.as_ref());
}
