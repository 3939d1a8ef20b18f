//! Long-lived services: restarts, formats, groups that join, webhooks, streams that are extended.

use crate::server::{STREAMS, Server, hand, request_of, rows};
use evertally_server::serving;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::time::Duration;

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

/// A delivery to a webhook: its key, its body, and whether it was accepted.
type Delivery = (String, String, bool);

/// A receiver of publications that accepts those that `accepts` accepts, by their number and key: its address, and
/// everything that is sent to it.
fn receiver(mut accepts: impl FnMut(usize, &str) -> bool + Send + 'static) -> (SocketAddr, mpsc::Receiver<Delivery>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, deliveries) = mpsc::channel();
    std::thread::spawn(move || {
        for (number, socket) in listener.incoming().enumerate() {
            let mut socket = socket.unwrap();
            let (_, headers, body) = request_of(&socket);
            let key = headers.iter().find(|(name, _)| name == "idempotency-key").map(|(_, key)| key.clone()).unwrap();
            let accepted = accepts(number, &key);
            let status = if accepted { "204 No Content" } else { "503 Busy" };
            write!(socket, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
            if sender.send((key, String::from_utf8(body).unwrap(), accepted)).is_err() {
                return;
            }
        }
    });
    (address, deliveries)
}

#[test]
fn a_webhook_is_told_of_every_publication_in_order() {
    // The second is not accepted at the first attempt.
    let (address, lines) = receiver(|number, _| number != 1);
    let mut server =
        Server::with("", &format!("[[webhook]]\nurl = \"http://{address}/\"\nstreams = [\"hand\"]\n{STREAMS}"));
    // It receives the publications after its first start.
    std::thread::sleep(Duration::from_millis(600));
    hand(&server, 1);
    hand(&server, 2);
    let next = || lines.recv_timeout(Duration::from_secs(20)).unwrap();
    let (key, body, taken) = next();
    assert!(
        key == "hand/1" && taken && body.contains("\"publication\":1") && body.contains("\"rows\":[{"),
        "{key} {body}"
    );
    let (key, body, taken) = next();
    assert!(key == "hand/2" && !taken);
    let (again, same, taken) = next();
    assert_eq!((again, same, taken), (key, body, true));
    server.stop();
    server.start().unwrap();
    hand(&server, 3);
    assert_eq!(next().0, "hand/3");
}

/// A stream whose publication is refused waits alone, and is sent again until it is accepted.
#[test]
fn a_refused_publication_delays_no_other_stream() {
    // The stream that comes first is refused three times, which takes more than seven seconds.
    let mut refused = 0;
    let (address, deliveries) = receiver(move |_, key| {
        let is_refused = key.starts_with("hand/") && refused < 3;
        refused += u32::from(is_refused);
        !is_refused
    });
    let other = STREAMS.replace("stream = \"hand\"", "stream = \"later\"");
    let other = &other[other.rfind("[[stream]]").unwrap()..];
    let hook = format!("[[webhook]]\nurl = \"http://{address}/\"\nstreams = [\"hand\", \"later\"]\n");
    let server = Server::with("", &format!("{hook}{STREAMS}{other}"));
    std::thread::sleep(Duration::from_millis(600));
    hand(&server, 1);
    for step in 1..=3 {
        let closed = server.post("/v1/streams/later/close", &format!("{{\"through\":{step}}}"));
        assert_eq!(closed.status, 200, "{}", closed.text);
    }
    let mut seen = Vec::new();
    while seen.last() != Some(&("hand/1".to_owned(), true)) {
        let (key, _, accepted) = deliveries.recv_timeout(Duration::from_secs(30)).unwrap();
        seen.push((key, accepted));
    }
    let place = |key: &str| seen.iter().position(|(seen, accepted)| seen == key && *accepted).unwrap();
    assert!(place("later/3") < place("hand/1"), "{seen:?}");
    assert_eq!(seen.iter().filter(|(key, accepted)| key == "hand/1" && !accepted).count(), 3, "{seen:?}");
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
        writing.open_table(table).unwrap().insert("format", 3u32.to_le_bytes().as_slice()).unwrap();
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
