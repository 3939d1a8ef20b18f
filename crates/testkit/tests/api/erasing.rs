//! Erasing a person: open steps are as though the person had never sent anything.

use crate::server::{Server, rows};
use evertally_server::serving;

/// With hardly any noise.
const STREAMS: &str = r#"
[[stream]]
stream = "visits"
closing = "operator"
late = "side-file"
id = "event"
start = "2026-01-01"
every = "1h"
steps = 6
person = "person"
max-events = 4
max-events-per-step = 2
rho = 100000
allow-weak-budget = true

[[stream]]
stream = "events"
start = "2026-01-01"
every = "1h"
steps = 2
rho = 1
"#;

/// Rows of an hour: the person as JSON, and the id.
fn batch(hour: u64, of: &[(&str, &str)]) -> String {
    let row = |(person, id): &(&str, &str)| {
        format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\",\"person\":{person},\"event\":\"{id}\"}}\n")
    };
    of.iter().map(row).collect()
}

fn close(server: &Server, step: u64) {
    let closed = server.post("/v1/streams/visits/close", &format!("{{\"through\":{step}}}"));
    assert_eq!(closed.status, 200, "{}", closed.text);
}

/// The running counts so far.
fn counts(server: &Server) -> Vec<f64> {
    rows(server, "visits").lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect()
}

#[test]
fn a_person_is_erased_from_open_steps() {
    let mut server = Server::with("", STREAMS);
    let erase = |server: &Server, body: &str| server.post("/v1/streams/visits/erase", body);
    let send = |server: &Server, id: &str, body: &str| {
        let sent = server.send("visits", id, body);
        assert_eq!(sent.status, 200, "{}", sent.text);
        sent.json()
    };
    send(&server, "1", &batch(0, &[("17", "a"), ("17", "b"), ("\"bob\"", "c")]));
    close(&server, 1);
    // Of the open step, before and after a checkpoint; of a later step; and late ones.
    send(&server, "2", &batch(1, &[("17", "a"), ("\"bob\"", "b")]));
    server.stop();
    server.start().unwrap();
    send(&server, "3", &batch(1, &[("\"17.0\"", "c"), ("\"bob\"", "d")]));
    send(&server, "4", &batch(2, &[("17", "a"), ("\"bob\"", "b")]));
    send(&server, "5", &batch(2, &[("17", "c")]));
    send(&server, "6", &batch(0, &[("17", "x"), ("\"bob\"", "y")]));
    // The answer is the same whether there was anything, and the name is written nowhere.
    let erased = erase(&server, "{\"person\":\"17\"}");
    assert_eq!(erased.status, 200, "{}", erased.text);
    let answer = erased.json();
    assert_eq!((answer["stream"].as_str(), answer["from_step"].as_u64()), (Some("visits"), Some(2)), "{}", erased.text);
    for again in ["{\"person\":17}", "{\"person\":\"17.00\"}", "{\"person\":\"nobody-here\"}"] {
        assert_eq!(erase(&server, again).text, erased.text, "{again}");
    }
    let log = std::fs::read_to_string(server.path("data/audit.jsonl")).unwrap();
    assert!(log.contains("\"erase\"") && !log.contains("17.00") && !log.contains("nobody-here"), "{log}");
    let late = server.get("/v1/streams/visits/late").json();
    assert_eq!(late["events"].as_array().unwrap().len(), 1, "{late}");
    assert_eq!(late["events"][0]["person"], "bob");
    // Neither the same batch nor the same row brings the events back.
    assert_eq!(send(&server, "5", &batch(2, &[("17", "c")]))["repeated"], true);
    assert_eq!(send(&server, "7", &batch(1, &[("17", "a"), ("17", "c")]))["duplicates"], 2);
    server.stop();
    serving::verify(&server.config()).unwrap();
    server.start().unwrap();
    close(&server, 3);
    assert_eq!(counts(&server), [3.0, 5.0, 6.0]);
    // The events of closed steps stay spent: two of four are left.
    send(&server, "8", &batch(3, &[("17", "a"), ("17", "b")]));
    close(&server, 4);
    assert_eq!(counts(&server), [3.0, 5.0, 6.0, 8.0]);
    send(&server, "more", &batch(4, &[("17", "z")]));
    // Erased and sent again: the erased events did not count towards the bounds.
    send(&server, "9", &batch(4, &[("\"eve\"", "a"), ("\"eve\"", "b"), ("\"eve\"", "c")]));
    assert_eq!(erase(&server, "{\"person\":\"eve\"}").json()["from_step"], 5);
    send(&server, "10", &batch(4, &[("\"eve\"", "d"), ("\"eve\"", "e")]));
    close(&server, 5);
    assert_eq!(counts(&server), [3.0, 5.0, 6.0, 8.0, 10.0]);
    server.stop();
    serving::verify(&server.config()).unwrap();
}

#[test]
fn what_cannot_be_erased_is_refused_without_a_name() {
    let server = Server::with("", STREAMS);
    for (stream, body, status) in [
        ("events", "{\"person\":\"ann\"}", 422),
        ("visits", "{\"person\":\"\"}", 422),
        ("visits", "{\"person\":\"NaN\"}", 422),
        ("visits", "{\"person\":1.2345678901234568e18}", 422),
        ("visits", "{\"person\":null}", 400),
        ("visits", "{\"person\":[\"ann\"]}", 400),
        ("visits", "{\"persons\":\"ann\"}", 422),
        ("nothing", "{\"person\":\"ann\"}", 404),
    ] {
        let refused = server.post(&format!("/v1/streams/{stream}/erase"), body);
        assert!([status, 400].contains(&refused.status), "{stream} {body}: {} {}", refused.status, refused.text);
        assert!(!refused.text.contains("ann\"") && !refused.text.contains("1.23"), "{}", refused.text);
    }
}
