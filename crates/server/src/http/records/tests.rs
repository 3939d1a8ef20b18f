use super::*;
use crate::engine::Decoding;

pub(super) fn buffered(to_rows: ToRows, body: &[u8]) -> Result<String, ProblemAnswer> {
    let mut memory = Decoding::default().share(0).unwrap();
    let mut buffer = RowBuffer::new(&mut memory);
    to_rows(body, &mut buffer)?;
    Ok(String::from_utf8(buffer.into_rows()).unwrap())
}

fn converted(to_rows: ToRows, body: &str) -> Result<String, ProblemAnswer> {
    buffered(to_rows, body.as_bytes())
}

pub(super) fn rows(to_rows: ToRows, body: &[u8]) -> String {
    buffered(to_rows, body).unwrap()
}

#[test]
fn records_of_opentelemetry_are_rows() {
    let body = r#"{"resourceLogs":[{"resource":{"attributes":[
        {"key":"service.name","value":{"stringValue":"shop"}}]},
        "scopeLogs":[{"scope":{"name":"s","version":"1"},"logRecords":[
        {"timeUnixNano":"1767225600123456789","severityNumber":9,"severityText":"INFO",
         "body":{"stringValue":"a \"b\""},"traceId":"","attributes":[
         {"key":"user.id","value":{"intValue":"7"}},{"key":"ok","value":{"boolValue":true}},
         {"key":"list","value":{"arrayValue":{"values":[{"doubleValue":1.5},
          {"kvlistValue":{"values":[{"key":"k","value":{"intValue":2}}]}}]}}},{"key":"none"}]},
        {"timeUnixNano":"0","observedTimeUnixNano":1767225600000000000,"unknown":[1]},
        {"timeUnixNano":"soon"}]}]}]}"#;
    assert_eq!(
        rows(from_otlp, body.as_bytes()),
        concat!(
            r#"{"time":"2026-01-01T00:00:00.123456789Z","severity":"INFO","severity_number":9,"body":"a \"b\"","#,
            r#""scope":"s","attributes.user.id":7,"attributes.ok":true,"attributes.list":[1.5,{"k":2}],"#,
            r#""attributes.none":null,"resource.service.name":"shop"}"#,
            "\n",
            r#"{"time":"2026-01-01T00:00:00Z","observed_time":"2026-01-01T00:00:00Z","scope":"s","#,
            r#""resource.service.name":"shop"}"#,
            "\n",
            r#"{"time":"soon","scope":"s","resource.service.name":"shop"}"#,
            "\n",
        )
    );
    assert_eq!(rows(from_otlp, br#"{"resourceLogs":[]}"#), "");
    for wrong in ["", "[]", "{}", r#"{"resourceSpans":[]}"#, "\u{0}"] {
        assert!(converted(from_otlp, wrong).is_err(), "{wrong}");
    }
}

#[test]
fn fields_that_are_null_have_their_defaults() {
    let body = r#"{"resourceLogs":[{"resource":null,"scopeLogs":[{"scope":null,"logRecords":[
        {"severityText":null,"attributes":null,"timeUnixNano":"1767225600000000000",
         "body":{"intValue":"99999999999999999999"}}]}]},{"scopeLogs":null}]}"#;
    assert_eq!(
        rows(from_otlp, body.as_bytes()),
        "{\"time\":\"2026-01-01T00:00:00Z\",\"body\":\"99999999999999999999\"}\n"
    );
}

/// A small request that stands for many bytes is refused, and takes no memory.
#[test]
fn rows_of_a_request_are_bounded() {
    let big = "x".repeat(1 << 20);
    let records = vec!["{}"; 3000].join(",");
    let otlp = format!(
        r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"k","value":{{"stringValue":"{big}"}}}}]}},
        "scopeLogs":[{{"logRecords":[{records}]}}]}}]}}"#
    );
    let lines = vec![r#"["1767225600000000001","l"]"#; 3000].join(",");
    let loki = format!(r#"{{"streams":[{{"stream":{{"k":"{big}"}},"values":[{lines}]}}]}}"#);
    for (to_rows, body) in [(from_otlp as ToRows, otlp), (from_loki, loki)] {
        let refused = serde_json::to_string(converted(to_rows, &body).unwrap_err().document()).unwrap();
        assert!(refused.contains("33554432 bytes as rows"), "{refused}");
    }
    let mut memory = Decoding::default().share(0).unwrap();
    charge_parsing(&[b'{'; 1000], &mut memory).unwrap();
    assert_eq!(memory.used(), 520_000);
    assert!(charge_parsing(&[b'{'; 1 << 20], &mut memory).is_err());
    // With small limits, a body that never fits is refused for good, and one that does not fit now is to be sent again.
    let decoding = Decoding::new(1 << 20, 0, 1, 64 << 20);
    let _other = decoding.share(40 << 20).unwrap();
    for (objects, status) in [(1 << 17, 413_u16), (1 << 16, 503)] {
        let refused = charge_parsing(&vec![b'{'; objects], &mut decoding.share(0).unwrap()).unwrap_err();
        assert_eq!(refused.status(), status);
    }
}

#[test]
fn lines_of_loki_are_rows() {
    let body = r#"{"streams":[{"stream":{"app":"shop","host":"a"},"values":[
        ["1767225600000000001","one"],["1767225601000000000","t\no",{"user":"ann","n":1}]]},{"values":[]}]}"#;
    assert_eq!(
        rows(from_loki, body.as_bytes()),
        concat!(
            r#"{"time":"2026-01-01T00:00:00.000000001Z","line":"one","labels.app":"shop","labels.host":"a"}"#,
            "\n",
            r#"{"time":"2026-01-01T00:00:01Z","line":"t\no","labels.app":"shop","labels.host":"a","#,
            r#""metadata.n":1,"metadata.user":"ann"}"#,
            "\n",
        )
    );
    for wrong in ["{}", r#"{"streams":[{"values":[["1"]]}]}"#, r#"{"streams":[{"values":[[1,"x"]]}]}"#] {
        assert!(converted(from_loki, wrong).is_err(), "{wrong}");
    }
}
