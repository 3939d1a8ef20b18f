//! Long-lived services: restarts, formats, groups that join, streams that are extended.

use crate::server::{STREAMS, Server, hand, rows};
use evertally_server::serving;

#[test]
fn a_start_goes_on_where_it_stopped() {
    let mut server = Server::with("", STREAMS);
    hand(&server, 1);
    hand(&server, 2);
    let before = (rows(&server, "hand"), server.get("/v1/streams/hand").text, server.get("/v1/streams/hand/plan").text);
    server.stop();
    server.start().unwrap();
    assert_eq!(
        before,
        (rows(&server, "hand"), server.get("/v1/streams/hand").text, server.get("/v1/streams/hand/plan").text)
    );
    let other = "{\"time\":\"2026-01-01T02:30:00Z\",\"person\":\"p\"}\n";
    assert_eq!(server.send("hand", "s2", other).status, 409, "ids are stored");
    hand(&server, 3);
    // Only one service can use a folder.
    let second = serving::verify(&server.config()).unwrap_err().to_string();
    assert!(second.contains("open in another process"), "{second}");
    server.stop();
    assert!(serving::verify(&server.config()).unwrap().join(" ").contains("stream `hand`: 3 closed steps"));
    // Open streams do not change.
    server.change("steps = 10\nperson", "steps = 11\nperson");
    let changed = server.start().unwrap_err();
    assert!(changed.contains("hand") && changed.contains("differs from the open stream"), "{changed}");
    server.change("steps = 11\nperson", "steps = 10\nperson");
    std::fs::rename(server.path("keys/serve.key"), server.path("keys/lost.key")).unwrap();
    let lost = server.start().unwrap_err();
    assert!(lost.contains("serve.key") && lost.contains("restore the key"), "{lost}");
    std::fs::rename(server.path("keys/lost.key"), server.path("keys/serve.key")).unwrap();
    server.start().unwrap();
    assert_eq!(server.published("hand"), 3);
}

#[test]
fn groups_join_from_the_open_step_on() {
    let mut server = Server::new();
    let of = |hour: u64, group: &str| format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\",\"group\":\"{group}\"}}\n");
    let declared = "[[stream]]\nstream = \"grow\"\nclosing = \"operator\"\nstart = \"2026-01-01\"\nevery = \
                    \"1h\"\nsteps = 20\ngroup-by = [\"group\"]\ngroups = [\"a\"]\nrho = 10\n";
    server.stop();
    server.change("[[stream]]\nstream = \"hand\"", &format!("{declared}\n[[stream]]\nstream = \"hand\""));
    server.start().unwrap();
    let close = |server: &Server, step: u64| {
        assert_eq!(server.post("/v1/streams/grow/close", &format!("{{\"through\":{step}}}")).status, 200);
    };
    assert_eq!(server.send("grow", "1", &of(0, "a")).status, 200);
    close(&server, 1);
    assert_eq!(server.send("grow", "2", &of(1, "a").repeat(40)).status, 200);
    assert_eq!(server.send("grow", "3", &of(1, "b")).status, 422, "b is not declared yet");
    let joined = server.post("/v1/streams/grow/groups", "{\"groups\":[\"b\"]}");
    assert_eq!((joined.status, joined.json()["group_count"].as_u64()), (200, Some(2)), "{}", joined.text);
    assert_eq!(server.post("/v1/streams/grow/groups", "{\"groups\":[\"b\"]}").status, 422, "b exists already");
    assert_eq!(server.send("grow", "3", &of(1, "b").repeat(70)).status, 200);
    server.stop();
    server.change("groups = [\"a\"]", "groups = [\"a\", \"b\", \"c\"]");
    server.start().unwrap();
    assert_eq!(server.get("/v1/streams/grow").json()["group_count"], 3);
    close(&server, 3);
    let shown = rows(&server, "grow");
    let of_step = |step: u64| shown.lines().filter(|line| line.split(',').nth(2) == Some(&step.to_string())).count();
    assert_eq!([of_step(1), of_step(2), of_step(3)], [1, 3, 3], "{shown}");
    let value = |group: &str| -> f64 {
        let line = shown.lines().find(|line| line.contains(&format!(",{group},2,"))).unwrap();
        line.split(',').nth(3).unwrap().parse().unwrap()
    };
    // The standard deviation of their noise is below 1.
    assert!((value("a") - 41.0).abs() < 8.0 && (value("b") - 70.0).abs() < 8.0 && value("c").abs() < 8.0, "{shown}");
    server.stop();
    serving::verify(&server.config()).unwrap();
    server.start().unwrap();
    assert_eq!(rows(&server, "grow"), shown);
}

/// Streams of every kind.
const KINDS: &str = r#"
[[stream]]
stream = "hand"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 10
person = "person"
max-events = 3
max-events-per-step = 2
epsilon = 1

[[stream]]
stream = "sums"
closing = "operator"
start = "2026-01-01"
every = "1h"
unbounded = true
value = "value"
bounds = [0, 5]
group-by = ["group"]
groups = ["a", "b"]
rho = 1

[[stream]]
stream = "found"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 10
person = "person"
max-events = 100
max-events-per-step = 20
group-by = ["group"]
discover-groups = true
selection-delta = 1e-5
epsilon = 5
delta = 1e-4

[[stream]]
stream = "windows"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 10
workload = "window(2h)"
rho = 1
"#;

/// A folder with every kind of stream continues in another place, from its database and key alone, exactly as in the
/// original place; a folder of another format is refused.
#[test]
fn a_folder_continues_elsewhere() {
    let names = ["hand", "sums", "found", "windows"];
    let batch = |step: u64| -> String {
        let row = |n: u64| {
            let (person, group) = (format!("p{n}"), ["a", "b"][usize::from(n > 150)]);
            format!(
                "{{\"time\":\"2026-01-01T{:02}:30:00Z\",\"person\":\"{person}\",\"group\":\"{group}\",\"value\":{}}}\n",
                step - 1,
                n % 5
            )
        };
        (0..200).map(row).collect()
    };
    let close = |server: &Server, step: u64| {
        for name in names {
            let closed = server.post(&format!("/v1/streams/{name}/close"), &format!("{{\"through\":{step}}}"));
            assert_eq!(closed.status, 200, "{}", closed.text);
        }
    };
    let all = |server: &Server| names.map(|name| rows(server, name)).concat();
    let mut first = Server::with("", KINDS);
    for step in 1..=3 {
        for name in names {
            assert_eq!(first.send(name, &format!("s{step}"), &batch(step)).status, 200);
        }
        if step < 3 {
            close(&first, step);
        }
    }
    first.stop();
    let mut server = Server::with("", KINDS);
    server.stop();
    for file in ["data/store.redb", "keys/serve.key"] {
        std::fs::copy(first.path(file), server.path(file)).unwrap();
    }
    std::fs::remove_file(server.path("keys/serve.key.ledger")).unwrap(); // of the previous key
    serving::verify(&server.config()).unwrap();
    server.start().unwrap();
    assert_eq!(server.published("found"), 2);
    close(&server, 3);
    first.start().unwrap();
    close(&first, 3);
    let released = all(&first);
    assert_eq!(all(&server), released);
    assert!(released.lines().any(|line| line.starts_with("2026-01-01T02:00:00Z,b,")), "groups were discovered");
    assert_eq!(server.send("hand", "s2", &batch(2)).json()["repeated"], true);
    // A folder of another format is not touched.
    server.stop();
    {
        let table: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("meta");
        let database = redb::Database::open(server.path("data/store.redb")).unwrap();
        let writing = database.begin_write().unwrap();
        writing.open_table(table).unwrap().insert("format", 1000u32.to_le_bytes().as_slice()).unwrap();
        writing.commit().unwrap();
    }
    let refused = server.start().unwrap_err();
    assert!(refused.contains("another version of this program"), "{refused}");
}

#[test]
fn a_stream_goes_on_where_its_horizon_is_over() {
    let declared = "[[stream]]\nstream = \"year\"\npublic = true\nclosing = \"operator\"\nstart = \
                    \"2026-01-01\"\nevery = \"1h\"\nsteps = 2\ngroup-by = [\"group\"]\ngroups = [\"a\", \"b\"]\nrho = \
                    10\n";
    let mut server = Server::with("", declared);
    let of = |hour: u64| format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\",\"group\":\"a\"}}\n").repeat(50);
    let post = |server: &Server, path: &str, body: &str| server.post(&format!("/v1/streams/{path}"), body);
    assert_eq!(server.send("year", "1", &of(0)).status, 200);
    assert_eq!(post(&server, "year/close", "{\"through\":1}").status, 200);
    let early = post(&server, "year/extend", "");
    assert!(early.status == 422 && early.text.contains("once its horizon is over"), "{}", early.text);
    assert_eq!(server.send("year", "2", &of(1)).status, 200);
    assert_eq!(post(&server, "year/close", "{\"through\":2}").status, 200);
    // Also after a restart, with a restored session.
    server.stop();
    server.start().unwrap();
    let next = post(&server, "year/extend", "");
    assert_eq!((next.status, next.json()["name"].as_str()), (201, Some("year #2")), "{}", next.text);
    assert_eq!(post(&server, "year/extend", "").status, 422, "it is extended only once");
    let path = "year%20%232";
    let send = |server: &Server, id: &str, hour: u64| {
        let token = server.token("write:year #2");
        let headers = [("content-type", "application/x-ndjson"), ("idempotency-key", id)];
        let sent = server.private.post(&format!("/v1/streams/{path}/events"), &token, &headers, of(hour).as_bytes());
        assert_eq!(sent.unwrap().status, 200);
    };
    send(&server, "3", 2);
    assert_eq!(post(&server, &format!("{path}/close"), "{\"through\":1}").status, 200);
    server.stop();
    server.start().unwrap();
    send(&server, "4", 3);
    assert_eq!(post(&server, &format!("{path}/close"), "{\"through\":2}").status, 200);
    let csv = rows(&server, "year") + rows(&server, path).split_once('\n').unwrap().1;
    let cells: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let of_a: Vec<&Vec<&str>> = cells.iter().filter(|row| row[1] == "a").collect();
    let column = |place: usize| of_a.iter().map(|row| row[place].parse::<f64>().unwrap()).collect::<Vec<f64>>();
    assert_eq!(column(2), [1.0, 2.0, 3.0, 4.0], "{csv}");
    assert!(
        column(3).iter().zip([50.0, 100.0, 150.0, 200.0]).all(|(value, truth)| (value - truth).abs() < 4.0),
        "{csv}"
    );
    assert!(column(4)[2] > column(4)[1], "errors add up: {csv}");
    assert_eq!(server.get(&format!("/v1/streams/{path}/releases?from=2&to=2")).json()["rows"][0]["step"], 4);
    assert!(server.get("/metrics").text.contains("evertally_released_value{stream=\"year #2\",group=\"a\"}"));
    let third = post(&server, &format!("{path}/extend"), "");
    assert_eq!(third.json()["name"], "year #3", "{}", third.text);
    server.stop();
    serving::verify(&server.config()).unwrap();
}

/// A stream whose bounds on persons are asserted counts every event, and its description and report call them an
/// assumption.
#[test]
fn asserted_bounds_are_published_as_an_assumption() {
    let declared = "[[stream]]\nstream = \"views\"\npublic = true\nclosing = \"operator\"\nstart = \"2026-01-01\"\n\
                    every = \"1h\"\nsteps = 10\nassert-max-events = 3\nper = 5\nasserted-by = \"the app\"\n\
                    rho = 1000000\nallow-weak-budget = true\n";
    let server = Server::with("", declared);
    server.at(1, 0);
    assert_eq!(server.send("views", "1", &"{\"time\":\"2026-01-01T00:10:00Z\"}\n".repeat(40)).status, 200);
    assert_eq!(server.post("/v1/streams/views/close", "{\"through\":1}").status, 200);
    server.wait("views", 1);
    let row = server.get("/v1/streams/views/releases?format=csv").text;
    assert_eq!(row.lines().nth(1).and_then(|row| row.split(',').nth(2)), Some("40"), "nothing is dropped: {row}");
    let unit = server.get("/v1/streams/views").json()["unit"].as_str().unwrap().to_owned();
    assert_eq!(unit, "what one person does in 5 steps (assumed: at most 3 events)");
    let report = server.get("/v1/streams/views/report").text;
    assert!(report.contains("Asserted by: the app") || report.contains("\"asserted_by\""), "{report}");
    let wrong = "{\"declaration\":{\"stream\":\"w\",\"start\":\"2026-01-01\",\"every\":\"1h\",\"steps\":4,\
                 \"person\":\"p\",\"assert-max-events\":2,\"rho\":0.3},\"closing\":\"operator\"}";
    let refused = server.post("/v1/streams", wrong);
    assert!(refused.status == 422 && refused.text.contains("do not go together"), "{}", refused.text);
}
