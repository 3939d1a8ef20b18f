//! One person with several spellings and column types, in batches of every content type.

use crate::server::{Server, rows};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use std::sync::Arc;

/// With hardly any noise, and one event per person.
const STREAMS: &str = r#"
[[stream]]
stream = "persons"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 2
person = "id"
max-events = 1
rho = 100000
allow-weak-budget = true

[[stream]]
stream = "groups"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 2
group-by = ["id"]
groups = ["1e5", "Ann"]
normalise-ids = ["casefold"]
rho = 100000
allow-weak-budget = true

[[stream]]
stream = "rest"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 2
group-by = ["id"]
groups = ["100000.0"]
rest = "other"
rho = 100000
allow-weak-budget = true
"#;

fn table(ids: ArrayRef) -> RecordBatch {
    let times: ArrayRef = Arc::new(StringArray::from(vec!["2026-01-01T00:30:00Z"; ids.len()]));
    RecordBatch::try_from_iter([("time", times), ("id", ids)]).unwrap()
}

fn arrow(ids: ArrayRef) -> Vec<u8> {
    let batch = table(ids);
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn parquet(ids: ArrayRef) -> Vec<u8> {
    let batch = table(ids);
    let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

const TIME: &str = "2026-01-01T00:30:00Z";
const ARROW: &str = "application/vnd.apache.arrow.stream";
const PARQUET: &str = "application/vnd.apache.parquet";

#[test]
fn one_identity_in_all_content_types() {
    let server = Server::with("", STREAMS);
    let json = format!("{{\"time\":\"{TIME}\",\"id\":100000.0}}\n{{\"time\":\"{TIME}\",\"id\":\"1E5\"}}\n");
    let whole: ArrayRef = Arc::new(Int64Array::from(vec![100_000]));
    let double: ArrayRef = Arc::new(Float64Array::from(vec![1e5, 1e5]));
    let decimal = Decimal128Array::from(vec![10_000_000]).with_precision_and_scale(20, 2).unwrap();
    let words: DictionaryArray<Int32Type> = ["100000.00"].into_iter().collect();
    let bodies = [
        (ARROW, arrow(Arc::new(decimal.clone()))),
        (PARQUET, parquet(Arc::new(decimal))),
        (ARROW, arrow(Arc::new(words.clone()))),
        (PARQUET, parquet(Arc::new(words))),
        (ARROW, arrow(Arc::new(UInt64Array::from(vec![100_000])))),
        ("text/csv", format!("time,id\n{TIME},1e+05\n").into_bytes()),
        ("application/x-ndjson", json.into_bytes()),
        (ARROW, arrow(Arc::clone(&whole))),
        (ARROW, arrow(Arc::clone(&double))),
        (PARQUET, parquet(whole)),
        (PARQUET, parquet(double)),
    ];
    server.at(1, 0);
    for stream in ["persons", "groups", "rest"] {
        for (place, (kind, body)) in bodies.iter().enumerate() {
            let taken = server.send_as(stream, &format!("b{place}"), kind, body, &[]);
            assert_eq!(taken.status, 200, "{kind}: {}", taken.text);
        }
    }
    let ann = format!("{{\"time\":\"{TIME}\",\"id\":\"ANN\"}}\n");
    assert_eq!(server.send("groups", "ann", &ann).status, 200);
    assert_eq!(server.send("rest", "ann", &ann).status, 200);
    for stream in ["persons", "groups", "rest"] {
        let closed = server.post(&format!("/v1/streams/{stream}/close"), "{\"through\":1}");
        assert_eq!(closed.status, 200, "{}", closed.text);
    }
    let values = |stream, column: &str| -> Vec<String> {
        let text = rows(&server, stream);
        let place = text.lines().next().unwrap().split(',').position(|name| name == column).unwrap();
        text.lines().skip(1).map(|row| row.split(',').nth(place).unwrap().to_owned()).collect()
    };
    assert_eq!(values("persons", "value"), ["1"], "one event per person is kept");
    assert_eq!(
        (values("groups", "id"), values("groups", "value")),
        (vec!["1e5".into(), "Ann".into()], vec!["14".into(), "1".into()])
    );
    assert_eq!(values("rest", "id"), ["100000.0", "other"]);
    assert_eq!(values("rest", "value"), ["14", "1"]);
}

#[test]
fn rounded_ids_are_named_and_nothing_is_taken() {
    let server = Server::with("", STREAMS);
    server.at(1, 0);
    let ids: ArrayRef = Arc::new(Float64Array::from(vec![17.0, 9_007_199_254_740_992.0]));
    let csv = format!("time,id\n{TIME},17\n{TIME},1.2345678901234568e+18\n").into_bytes();
    let bodies = [(ARROW, arrow(Arc::clone(&ids)), 2), (PARQUET, parquet(ids), 2), ("text/csv", csv, 3)];
    for stream in ["persons", "groups"] {
        for (kind, body, row) in &bodies {
            let bad = server.send_as(stream, "bad", kind, body, &[]);
            assert_eq!(bad.status, 422, "{}", bad.text);
            let errors = bad.json()["errors"].as_array().unwrap().clone();
            let last = errors.last().unwrap();
            assert_eq!((last["row"].as_u64(), last["field"].as_str()), (Some(*row), Some("id")), "{}", bad.text);
            assert!(last["problem"].as_str().unwrap().contains("is not an exact id"), "{}", bad.text);
        }
        assert_eq!(server.events(stream), 0);
    }
}
