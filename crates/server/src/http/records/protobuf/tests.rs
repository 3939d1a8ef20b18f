use super::super::tests::{buffered, rows};
use super::super::{ToRows, from_loki as from_loki_json, from_otlp as from_otlp_json};
use super::*;

/// A request of the package opentelemetry-exporter-otlp-proto-http 1.45.2 (PyPI), recorded by a local server.
const RECORDED: &[u8] = include_bytes!("otlp-python-1.45.2.bin");

/// The same request in JSON.
const SAME: &str = r#"{"resourceLogs":[{"resource":{"attributes":[
{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeLogs":[{"scope":{"name":"checkout","version":"1"},
"logRecords":[{"timeUnixNano":"1767225600123456789","severityNumber":9,"severityText":"INFO",
"body":{"stringValue":"a \"b\" ü"},"attributes":[{"key":"user.id","value":{"intValue":"-7"}},
{"key":"ok","value":{"boolValue":true}},
{"key":"list","value":{"arrayValue":{"values":[{"doubleValue":1.5},{"doubleValue":2.5}]}}},
{"key":"nested","value":{"kvlistValue":{"values":[{"key":"k","value":{"arrayValue":{"values":[{"boolValue":true},
{"stringValue":"x"}]}}}]}}},{"key":"raw","value":{"bytesValue":"AP8="}},{"key":"none","value":{}}],
"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708",
"observedTimeUnixNano":"1767225601000000000","eventName":"paid"},{"timeUnixNano":"1767225600123456790",
"body":{"kvlistValue":{"values":[{"key":"k","value":{"intValue":"1"}}]}},"attributes":[
{"key":"user.id","value":{"intValue":"9223372036854775807"}}],"observedTimeUnixNano":"1767225601000000000"}]}]}]}"#;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn number(field: u64, number: u64) -> Vec<u8> {
    [varint(field << 3), varint(number)].concat()
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn message(field: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    bytes(field, &fields.concat())
}

fn double(field: u64, number: f64) -> Vec<u8> {
    [varint(field << 3 | 1), number.to_le_bytes().to_vec()].concat()
}

/// A request with one record that has one attribute.
fn with_attribute(value: &[Vec<u8>]) -> Vec<u8> {
    let attribute = message(6, &[bytes(1, b"a"), message(2, value)]);
    message(1, &[message(2, &[message(2, &[attribute])])])
}

fn push_request() -> Vec<u8> {
    let entry = |seconds, nanos, line: &[u8], more: &[Vec<u8>]| {
        message(2, &[vec![message(1, &[number(1, seconds), number(2, nanos)]), bytes(2, line)], more.to_vec()].concat())
    };
    let metadata = message(3, &[bytes(1, b"user"), bytes(2, b"ann")]);
    let stream = [
        entry(1_767_225_600, 1, b"one", &[]),
        bytes(1, br#"{app="shop", host="a\"b"}"#),
        entry(1_767_225_601, 0, b"t\no", &[metadata]),
        entry(0, 0, b"", &[]),
        number(3, 77),
    ];
    [message(1, &stream), message(1, &[entry(1, 5, b"x", &[])])].concat()
}

#[test]
fn the_rows_are_those_of_json() {
    assert_eq!(rows(from_otlp, RECORDED), rows(from_otlp_json, SAME.as_bytes()));
    let json = br#"{"streams":[{"stream":{"app":"shop","host":"a\"b"},"values":[["1767225600000000001","one"],
        ["1767225601000000000","t\no",{"user":"ann"}],["0",""]]},{"values":[["1000000005","x"]]}]}"#;
    assert_eq!(rows(from_loki, &push_request()), rows(from_loki_json, json));
    for (value, json) in [
        (number(3, u64::MAX), r#"{"intValue":"-1"}"#),
        (number(2, 0), r#"{"boolValue":false}"#),
        (double(4, f64::NAN), r#"{"doubleValue":"NaN"}"#),
        (double(4, f64::NEG_INFINITY), r#"{"doubleValue":"-Infinity"}"#),
        (double(4, 0.1), r#"{"doubleValue":0.1}"#),
        (bytes(5, b""), r#"{"arrayValue":{"values":[]}}"#),
        (bytes(9, b"later"), "{}"),
    ] {
        let record = format!(r#"{{"attributes":[{{"key":"a","value":{json}}}]}}"#);
        let json = format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}"#);
        assert_eq!(rows(from_otlp, &with_attribute(&[value])), rows(from_otlp_json, json.as_bytes()), "{json}");
    }
    assert_eq!(rows(from_otlp, b""), "");
}

#[test]
fn values_are_bounded() {
    let nested = |depth: usize| {
        let inner = (0..depth).fold(number(3, 1), |inner, _| message(5, &[bytes(1, &inner)]));
        with_attribute(&[inner])
    };
    assert_eq!(rows(from_otlp, &nested(31)), format!("{{\"attributes.a\":{}1{}}}\n", "[".repeat(31), "]".repeat(31)));
    for (depth, why) in [(32, "nested too deep"), (20_000, "nested too deep")] {
        let error = buffered(from_otlp, &nested(depth)).unwrap_err().text();
        assert!(error.contains(why), "{error}");
    }
    // Two bytes for each value.
    let many = with_attribute(&[bytes(5, &[10, 0].repeat(1 << 20))]);
    let error = buffered(from_otlp, &many).unwrap_err().text();
    assert!(error.contains("too many values"), "{error}");
    // All attributes of the resource in each row.
    let resource = message(1, &[message(1, &[bytes(1, b"k"), message(2, &[bytes(1, &vec![b'x'; 1 << 20])])])]);
    let records = message(2, &vec![bytes(2, b""); 40]);
    let error = buffered(from_otlp, &message(1, &[resource, records])).unwrap_err().text();
    assert!(error.contains("33554432 bytes as rows"), "{error}");
}

/// Damaged requests are refused or read, and nothing else happens.
#[test]
fn damaged_requests_do_no_harm() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let pushed = push_request();
    let (mut refused, mut read) = (0, 0);
    for (to_rows, body) in [(from_otlp as ToRows, RECORDED), (from_loki, &pushed)] {
        let cut = (0..body.len()).map(|length| body[..length].to_vec());
        let mut damaged: Vec<Vec<u8>> = cut.collect();
        for _ in 0..2000 {
            let mut flipped = body.to_vec();
            for _ in 0..=random() % 4 {
                let place = random() as usize % flipped.len();
                flipped[place] = random() as u8;
            }
            damaged.push(flipped);
            damaged.push((0..random() % 64).map(|_| random() as u8).collect());
        }
        for body in damaged {
            match buffered(to_rows, &body) {
                Ok(rows) => {
                    read += 1;
                    assert!(rows.lines().all(|row| serde_json::from_str::<Value>(row).is_ok()));
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 3000 && read > 300, "{refused} refused, {read} read");
}
