//! Rows with ids: each is counted once while its step is open.

use crate::server::Server;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use std::sync::Arc;

/// Three streams with ids, by what happens to late events.
fn streams() -> String {
    let stream = |name: &str| {
        format!(
            "[[stream]]\nstream = \"{name}\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps = 100\nrho = 10\nlate = \
             \"{name}\"\nid = \"event\"\n"
        )
    };
    ["refuse", "next-step", "side-file"].map(stream).concat()
}

/// Rows of an hour with these ids.
fn rows(hour: u64, ids: &[&str]) -> String {
    ids.iter().map(|id| format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\",\"event\":\"{id}\"}}\n")).collect()
}

/// Sends a batch, and returns the rows and duplicates of its receipt.
#[track_caller]
fn send(server: &Server, stream: &str, id: &str, body: &str) -> (u64, u64) {
    let taken = server.send(stream, id, body);
    assert_eq!(taken.status, 200, "{}", taken.text);
    let taken = taken.json();
    (taken["rows"].as_u64().unwrap(), taken["duplicates"].as_u64().unwrap())
}

#[test]
fn rows_are_counted_once_in_any_batch() {
    let mut server = Server::with("", &streams());
    server.at(0, 1800);
    assert_eq!(send(&server, "refuse", "1", &rows(0, &["a", "b", "a"])), (3, 1));
    assert_eq!(send(&server, "refuse", "2", &rows(0, &["b", "c"])), (2, 1));
    // The same receipt, whenever the batch is sent again.
    assert_eq!(send(&server, "refuse", "2", &rows(0, &["b", "c"])), (2, 1));
    assert_eq!(server.events("refuse"), 3);
    // After a start, with and without a checkpoint, and other streams have their own ids.
    server.stop();
    server.start().unwrap();
    assert_eq!(send(&server, "refuse", "3", &rows(0, &["c", "d", "a"])), (3, 2));
    assert_eq!(send(&server, "refuse", "2", &rows(0, &["b", "c"])), (2, 1));
    assert_eq!(send(&server, "side-file", "3", &rows(0, &["c", "d"])), (2, 0));
    // A batch in which everything was counted before is accepted, and counts nothing.
    assert_eq!(send(&server, "refuse", "4", &rows(0, &["d", "c"])), (2, 2));
    // The same id in another step is another row.
    server.at(1, 50);
    assert_eq!(send(&server, "refuse", "5", &rows(1, &["d", "e"])), (2, 0));
    // The first step is still open.
    assert_eq!(send(&server, "refuse", "6", &rows(0, &["d"])), (1, 1));
    assert_eq!(server.events("refuse"), 1 + 2);
}

#[test]
fn ids_have_one_form_in_all_formats_and_are_required() {
    let server = Server::with("", &streams());
    let csv = |server: &Server, id: &str, event: &str| {
        let body = format!("event,time\n{event},2026-01-01T00:10:00Z\n");
        server.send_as("refuse", id, "text/csv", body.as_bytes(), &[])
    };
    assert_eq!(csv(&server, "1", "17").json()["duplicates"], 0);
    let number = "{\"time\":\"2026-01-01T00:10:00Z\",\"event\":17}";
    assert_eq!(send(&server, "refuse", "2", number), (1, 1));
    let arrow = |event: f64| {
        let times: ArrayRef = Arc::new(StringArray::from(vec!["2026-01-01T00:10:00Z"]));
        let events: ArrayRef = Arc::new(Float64Array::from(vec![event]));
        let batch = RecordBatch::try_from_iter([("time", times), ("event", events)]).unwrap();
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    };
    let kind = "application/vnd.apache.arrow.stream";
    assert_eq!(server.send_as("refuse", "3", kind, &arrow(17.0), &[]).json()["duplicates"], 1);
    assert_eq!(csv(&server, "4", "017").json()["duplicates"], 0);
    assert_eq!(csv(&server, "5", "1.7e1").json()["duplicates"], 0);
    for (place, refused) in [
        csv(&server, "x", ""),
        server.send("refuse", "x", "{\"time\":\"2026-01-01T00:10:00Z\",\"event\":null}"),
        server.send_as("refuse", "x", kind, &arrow(9_007_199_254_740_994.0), &[]),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!((refused.status, refused.json()["errors"][0]["field"].as_str()), (422, Some("event")), "{place}");
    }
    let without = server.send_as("refuse", "x", "text/csv", b"time\n2026-01-01T00:10:00Z\n", &[]);
    assert!(without.status == 422 && without.text.contains("event"), "{}", without.text);
    assert_eq!(server.events("refuse"), 3);
}

#[test]
fn ids_are_forgotten_with_their_steps() {
    let mut server = Server::with("", &streams());
    for name in ["refuse", "next-step", "side-file"] {
        assert_eq!(send(&server, name, "1", &rows(0, &["a", "b"])), (2, 0));
    }
    for name in ["refuse", "next-step", "side-file"] {
        server.publish(name, 1);
    }
    let refused = server.send("refuse", "2", &rows(0, &["a", "c"]));
    assert_eq!(refused.status, 422, "{}", refused.text);
    // Late rows are counted in the open step, and have ids there.
    assert_eq!(send(&server, "next-step", "2", &(rows(1, &["x"]) + &rows(0, &["a", "c", "c"]))), (4, 1));
    assert_eq!(send(&server, "next-step", "3", &(rows(0, &["c"]) + &rows(1, &["x", "y"]))), (3, 2));
    assert_eq!(server.events("next-step"), 2 + 3 + 1);
    server.stop();
    server.start().unwrap();
    assert_eq!(send(&server, "next-step", "4", &(rows(0, &["c"]) + &rows(1, &["x", "y"]))), (3, 3));
    // A late row and one of the open step with the same id are two rows, in one batch or in two.
    assert_eq!(send(&server, "next-step", "5", &(rows(0, &["x", "new"]) + &rows(1, &["new"]))), (3, 0));
    assert_eq!(send(&server, "next-step", "6", &(rows(0, &["x"]) + &rows(1, &["x", "new"]))), (3, 3));
    // Rows that are set aside have theirs while the step is open in which they arrive.
    let late = |server: &Server| server.get("/v1/streams/side-file/late").json()["events"].as_array().unwrap().len();
    assert_eq!(send(&server, "side-file", "2", &(rows(0, &["a", "a"]) + &rows(1, &["a"]))), (3, 1));
    assert_eq!((send(&server, "side-file", "3", &rows(0, &["a", "b"])), late(&server)), ((2, 1), 2));
    server.stop();
    server.start().unwrap();
    assert_eq!((send(&server, "side-file", "4", &rows(0, &["b"])), late(&server)), ((1, 1), 2));
    server.publish("side-file", 2);
    assert_eq!((send(&server, "side-file", "5", &rows(0, &["b"])), late(&server)), ((1, 0), 3));
}

#[test]
fn the_memory_for_ids_is_bounded() {
    let server = Server::with("[limits]\nids = 3\n", &streams());
    // Each stream has its own ids: a writer learns nothing of other streams, and keeps nobody out.
    assert_eq!(send(&server, "refuse", "1", &rows(0, &["a", "b", "c"])), (3, 0));
    assert_eq!(send(&server, "side-file", "0", &rows(0, &["c", "d"])), (2, 0));
    let refused = server.send("side-file", "1", &rows(0, &["a", "b"]));
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("60")), "{}", refused.text);
    assert!(refused.text.contains("too-many-ids") && refused.text.contains("`ids`"), "{}", refused.text);
    assert_eq!(send(&server, "side-file", "2", &rows(0, &["a"])), (1, 0));
    // Rows that are counted already need no room.
    assert_eq!(send(&server, "side-file", "3", &rows(0, &["a", "a", "c"])), (3, 3));
    // Once the steps are closed, there is room.
    for name in ["refuse", "next-step", "side-file"] {
        server.publish(name, 1);
    }
    assert_eq!(send(&server, "side-file", "1", &rows(1, &["a", "b", "c"])), (3, 0));
}

#[test]
fn a_stream_keeps_its_ids() {
    let mut server = Server::with("", &streams());
    let declared = server.private.get("/v1/streams/refuse/declaration", &server.token("write:refuse")).unwrap();
    assert_eq!(declared.json()["id"], "event");
    server.stop();
    server.change("late = \"refuse\"\nid = \"event\"\n", "late = \"refuse\"\nid = \"other\"\n");
    let refused = server.start().unwrap_err();
    assert!(refused.contains("`id`") && refused.contains("refuse"), "{refused}");
    let body = "{\"declaration\":{\"stream\":\"s\",\"start\":\"2026-01-01\",\"every\":\"1h\",\"steps\":9,\"rho\":1},\
                \"id\":\"event\",\"closing\":\"CLOSING\"}";
    server.change("id = \"other\"\n", "id = \"event\"\n");
    server.start().unwrap();
    let sums = server.post("/v1/streams", &body.replace("CLOSING", "sums"));
    assert!(sums.status == 422 && sums.text.contains("`id`"), "{}", sums.text);
    let opened = server.post("/v1/streams", &body.replace("CLOSING", "operator"));
    assert_eq!(opened.status, 201, "{}", opened.text);
    assert_eq!(send(&server, "s", "1", &rows(5, &["a", "a"])), (2, 1));
}
