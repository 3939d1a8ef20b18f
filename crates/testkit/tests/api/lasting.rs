//! What lasts: starts, copies, old folders, groups that join, backups, webhooks.

use crate::server::{START, STREAMS, Server, copy};
use evertally_publish::steps::Instant;
use evertally_server::clock::ManualClock;
use evertally_server::serving;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

const WITNESS: &str = "[witness]\nfile = \"elsewhere/witness.json\"\n";

fn hand(server: &Server, step: u64) {
    let body = format!("{{\"time\":\"2026-01-01T{:02}:30:00Z\",\"person\":\"p{step}\"}}\n", step - 1).repeat(2);
    assert_eq!(server.send("hand", &format!("s{step}"), &body).status, 200);
    let closed = server.post("/v1/streams/hand/close", &format!("{{\"through\":{step}}}"));
    assert_eq!(closed.status, 200, "{}", closed.text);
}

fn rows(server: &Server, stream: &str) -> String {
    server.get(&format!("/v1/streams/{stream}/releases?from=1&to=100&format=csv")).text
}

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
    assert_eq!(server.send("hand", "s2", other).status, 409, "ids are remembered");
    hand(&server, 3);
    // One folder, one service.
    let second = serving::verify(&server.config()).unwrap_err().to_string();
    assert!(second.contains("open in another process"), "{second}");
    server.stop();
    assert!(serving::verify(&server.config()).unwrap().join(" ").contains("stream `hand`: 3 closed steps"));
    // What is open stays as it is.
    server.change("steps = 10\nperson", "steps = 11\nperson");
    let changed = server.start().unwrap_err();
    assert!(changed.contains("hand") && changed.contains("otherwise than it was opened"), "{changed}");
    server.change("steps = 11\nperson", "steps = 10\nperson");
    std::fs::rename(server.path("keys/serve.key"), server.path("keys/lost.key")).unwrap();
    let lost = server.start().unwrap_err();
    assert!(lost.contains("serve.key") && lost.contains("put it back"), "{lost}");
    std::fs::rename(server.path("keys/lost.key"), server.path("keys/serve.key")).unwrap();
    server.start().unwrap();
    assert_eq!(server.published("hand"), 3);
}

#[test]
fn an_old_copy_of_the_folder_publishes_what_was_published() {
    let mut server = Server::with("", &format!("{WITNESS}{STREAMS}"));
    hand(&server, 1);
    server.stop();
    copy(&server.path("data"), &server.path("old"));
    server.start().unwrap();
    hand(&server, 2);
    hand(&server, 3);
    let published = rows(&server, "hand");
    server.stop();
    std::fs::remove_dir_all(server.path("data")).unwrap();
    std::fs::rename(server.path("old"), server.path("data")).unwrap();
    server.start().unwrap();
    assert_eq!(server.get("/v1/streams/hand").json()["state"], "recovering");
    let problem = server.get("/v1/operator").text;
    assert!(problem.contains("the witness has seen step 3"), "{problem}");
    // Other events than were published are found out.
    let other = "{\"time\":\"2026-01-01T01:30:00Z\",\"person\":\"somebody else\"}\n";
    assert_eq!(server.send("hand", "other", other).status, 200);
    let refused = server.post("/v1/streams/hand/close", "{\"through\":3}");
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("are not those of which"), "{}", refused.text);
    assert_eq!(server.published("hand"), 1);
    server.stop();
    std::fs::remove_dir_all(server.path("data")).unwrap();
    // The newest backup, and behind it the same events.
    let mut server = {
        let again = Server::with("", &format!("{WITNESS}{STREAMS}"));
        drop(server);
        again
    };
    hand(&server, 1);
    let file = {
        server.stop();
        server.change("folder =", "backups = \"elsewhere\"\nfolder =");
        server.start().unwrap();
        let made = server.post("/v1/backup", "");
        assert_eq!(made.status, 201, "{}", made.text);
        made.json()["file"].as_str().unwrap().to_owned()
    };
    hand(&server, 2);
    let published_again = rows(&server, "hand");
    assert_eq!(published_again.lines().count() + 1, published.lines().count());
    server.stop();
    std::fs::copy(file, server.path("data/store.redb")).unwrap();
    server.start().unwrap();
    assert_eq!(server.get("/v1/streams/hand").json()["state"], "recovering");
    let body = "{\"time\":\"2026-01-01T01:30:00Z\",\"person\":\"p2\"}\n".repeat(2);
    assert_eq!(server.send("hand", "s2", &body).status, 200);
    let closed = server.post("/v1/streams/hand/close", "{\"through\":2}");
    assert_eq!((closed.status, closed.json()["state"].as_str()), (200, Some("open")), "{}", closed.text);
    assert_eq!(rows(&server, "hand"), published_again);
}

/// Remembers what it is told, as any web server that takes a small PUT.
fn remembering() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut held: Option<Vec<u8>> = None;
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut from = BufReader::new(socket.try_clone().unwrap());
            let (mut first, mut length) = (String::new(), 0);
            from.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                if from.read_line(&mut line).unwrap() == 0 || line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().trim().strip_prefix("content-length: ") {
                    length = value.parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            from.read_exact(&mut body).unwrap();
            let (status, answer) = match (first.starts_with("PUT"), &held) {
                (true, _) => ("204 No Content", Vec::new()),
                (false, Some(held)) => ("200 OK", held.clone()),
                (false, None) => ("404 Not Found", Vec::new()),
            };
            if first.starts_with("PUT") {
                held = Some(body);
            }
            write!(socket, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", answer.len())
                .unwrap();
            socket.write_all(&answer).unwrap();
        }
    });
    format!("http://{address}/")
}

#[test]
fn a_copied_folder_is_found_at_its_first_publication() {
    let declared = format!("[witness]\nurl = \"{}\"\n{STREAMS}", remembering());
    let mut server = Server::with("", &declared);
    hand(&server, 1);
    server.stop();
    // The same folder, elsewhere, with the same witness.
    let folder = tempfile::tempdir().unwrap();
    for name in ["data", "keys"] {
        copy(&server.path(name), &folder.path().join(name));
    }
    server.start().unwrap();
    let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
    let mut clone = Server::on(folder, clock, "", &declared).unwrap();
    clone.operate = clone.token("operate");
    hand(&server, 2);
    let body = "{\"time\":\"2026-01-01T01:30:00Z\",\"person\":\"other\"}\n";
    // It finds out when it next asks the witness, which may be now.
    let taken = clone.send("hand", "clone", body).status;
    assert!([200, 503].contains(&taken));
    clone.post("/v1/streams/hand/close", "{\"through\":2}");
    assert_eq!(clone.published("hand"), 1, "it shows nothing");
    assert_eq!(clone.send("hand", "more", body).status, 503);
    assert!(clone.get("/v1/operator").text.contains("a copy of this folder is running"), "it says why");
    hand(&server, 3);
    assert_eq!(server.published("hand"), 3);
    // Nor does a new start of the copy help it.
    clone.stop();
    clone.start().unwrap();
    assert_eq!(clone.get("/v1/streams/hand").json()["state"], "recovering");
    assert_eq!(clone.published("hand"), 1, "what it has closed for itself is shown to nobody");
    let more = "{\"time\":\"2026-01-01T02:30:00Z\",\"person\":\"p3\"}\n".repeat(2);
    assert_eq!(clone.send("hand", "more", &more).status, 200);
    let refused = clone.post("/v1/streams/hand/close", "{\"through\":3}");
    assert!(refused.status == 422 && refused.text.contains("are not those of which"), "{}", refused.text);
    assert_eq!(clone.published("hand"), 1);
}

#[test]
fn a_new_folder_does_not_begin_with_an_old_key() {
    let mut server = Server::new();
    hand(&server, 1);
    server.stop();
    std::fs::rename(server.path("data"), server.path("gone")).unwrap();
    let refused = server.start().unwrap_err();
    assert!(refused.contains("would be published again") && refused.contains("--adopt-key"), "{refused}");
    // One without any stream is started again as any other.
    let mut empty = Server::with("", "");
    empty.stop();
    empty.start().unwrap();
    // The refusal has not made the folder one that was used.
    assert!(server.start().unwrap_err().contains("would be published again"));
    std::fs::remove_dir_all(server.path("data")).unwrap();
    std::fs::rename(server.path("gone"), server.path("data")).unwrap();
    server.start().unwrap();
    assert_eq!(server.published("hand"), 1);
}

#[test]
fn of_two_copies_that_publish_at_once_one_is_seen() {
    // The witness knows no preconditions: both may be told that they have told it.
    let declared = format!("[witness]\nurl = \"{}\"\n{STREAMS}", remembering());
    let mut server = Server::with("", &declared);
    server.stop();
    let folder = tempfile::tempdir().unwrap();
    for name in ["data", "keys"] {
        copy(&server.path(name), &folder.path().join(name));
    }
    server.start().unwrap();
    let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
    let mut clone = Server::on(folder, clock, "", &declared).unwrap();
    clone.operate = clone.token("operate");
    let publish = |own: &Server, person: &str| {
        let body = format!("{{\"time\":\"2026-01-01T00:30:00Z\",\"person\":\"{person}\"}}\n");
        assert_eq!(own.send("hand", person, &body).status, 200);
        own.post("/v1/streams/hand/close", "{\"through\":1}");
        own.published("hand")
    };
    let shown = std::thread::scope(|scope| {
        let other = scope.spawn(|| publish(&clone, "q"));
        publish(&server, "p") + other.join().unwrap()
    });
    assert!(shown <= 1, "{shown} copies have shown step 1");
}

#[test]
fn a_witness_that_goes_is_waited_for_and_one_that_was_needed_is_asked_for() {
    let mut server = Server::with("", &format!("{WITNESS}{STREAMS}"));
    hand(&server, 1);
    let (witness, elsewhere) = (server.path("elsewhere/witness.json"), server.path("kept.json"));
    std::fs::rename(&witness, &elsewhere).unwrap();
    hand(&server, 2);
    assert_eq!(server.published("hand"), 1);
    assert!(server.get("/v1/operator").text.contains("is gone: put it back"));
    std::fs::rename(&elsewhere, &witness).unwrap();
    server.wait("hand", 2);
    server.stop();
    server.change(WITNESS, "");
    let refused = server.start().unwrap_err();
    assert!(refused.contains("names none") && refused.contains("Put [witness] back"), "{refused}");
}

#[test]
fn a_witness_in_a_file_serves_one() {
    let mut server = Server::with("", &format!("{WITNESS}{STREAMS}"));
    hand(&server, 1);
    server.stop();
    let folder = tempfile::tempdir().unwrap();
    for name in ["data", "keys"] {
        copy(&server.path(name), &folder.path().join(name));
    }
    let witness =
        format!("[witness]\nfile = {:?}\n{STREAMS}", server.path("elsewhere/witness.json").display().to_string());
    server.start().unwrap();
    let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
    let refused = Server::on(folder, clock, "", &witness).err().unwrap();
    assert!(refused.contains("another one uses it"), "{refused}");
    hand(&server, 2);
}

#[test]
fn a_row_that_was_changed_is_found() {
    let mut server = Server::new();
    hand(&server, 1);
    hand(&server, 2);
    server.stop();
    let config = server.config();
    serving::verify(&config).unwrap();
    {
        let table: redb::TableDefinition<(u32, u64, u32), &[u8]> = redb::TableDefinition::new("rows");
        let database = redb::Database::open(server.path("data/store.redb")).unwrap();
        let writing = database.begin_write().unwrap();
        {
            let mut rows = writing.open_table(table).unwrap();
            let key = redb::ReadableTable::iter(&rows).unwrap().next().unwrap().unwrap().0.value();
            let mut bytes = redb::ReadableTable::get(&rows, key).unwrap().unwrap().value().to_vec();
            let digit = bytes.iter().position(u8::is_ascii_digit).unwrap();
            bytes[digit] = if bytes[digit] == b'1' { b'2' } else { b'1' };
            rows.insert(key, bytes.as_slice()).unwrap();
        }
        writing.commit().unwrap();
    }
    let found = serving::verify(&config).unwrap_err().to_string();
    assert!(found.contains("stream `hand`, step 1") && found.contains("restore it from a backup"), "{found}");
}

#[test]
fn groups_join_from_the_open_step_on() {
    let mut server = Server::new();
    let of = |hour: u64, group: &str| format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\",\"group\":\"{group}\"}}\n");
    let declared = "[[stream]]\nstream = \"grow\"\nclosing = \"operator\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps = 20\ngroup-by = [\"group\"]\ngroups = [\"a\"]\nrho = 10\n";
    server.stop();
    server.change("[[stream]]\nstream = \"hand\"", &format!("{declared}\n[[stream]]\nstream = \"hand\""));
    server.start().unwrap();
    let close = |server: &Server, step: u64| {
        assert_eq!(server.post("/v1/streams/grow/close", &format!("{{\"through\":{step}}}")).status, 200);
    };
    assert_eq!(server.send("grow", "1", &of(0, "a")).status, 200);
    close(&server, 1);
    assert_eq!(server.send("grow", "2", &of(1, "a").repeat(40)).status, 200);
    assert_eq!(server.send("grow", "3", &of(1, "b")).status, 422, "nobody knows b");
    let joined = server.post("/v1/streams/grow/groups", "{\"groups\":[\"b\"]}");
    assert_eq!((joined.status, joined.json()["group_count"].as_u64()), (200, Some(2)), "{}", joined.text);
    assert_eq!(server.post("/v1/streams/grow/groups", "{\"groups\":[\"b\"]}").status, 422, "it is there");
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
    // Their noise has a standard deviation below 1.
    assert!((value("a") - 41.0).abs() < 8.0 && (value("b") - 70.0).abs() < 8.0 && value("c").abs() < 8.0, "{shown}");
    server.stop();
    serving::verify(&server.config()).unwrap();
    server.start().unwrap();
    assert_eq!(rows(&server, "grow"), shown);
}

#[test]
fn groups_that_joined_join_again_when_a_copy_recovers() {
    let declared = "[[stream]]\nstream = \"grow\"\nclosing = \"operator\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps = 20\ngroup-by = [\"group\"]\ngroups = [\"a\"]\nrho = 10\n";
    let mut server = Server::with("", &format!("{WITNESS}{declared}"));
    let of = |hour: u64, group: &str| format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\",\"group\":\"{group}\"}}\n");
    let close =
        |server: &Server, step: u64| server.post("/v1/streams/grow/close", &format!("{{\"through\":{step}}}")).status;
    let join = |server: &Server| server.post("/v1/streams/grow/groups", "{\"groups\":[\"b\"]}").status;
    assert_eq!(server.send("grow", "1", &of(0, "a")).status, 200);
    assert_eq!(close(&server, 1), 200);
    server.stop();
    copy(&server.path("data"), &server.path("old"));
    server.start().unwrap();
    assert_eq!((server.send("grow", "2", &of(1, "a")).status, close(&server, 2), join(&server)), (200, 200, 200));
    assert_eq!((server.send("grow", "3", &of(2, "b")).status, close(&server, 3)), (200, 200));
    let published = rows(&server, "grow");
    // The configuration need not name what joined over the API, and may.
    server.stop();
    server.start().unwrap();
    server.stop();
    server.change("groups = [\"a\"]", "groups = [\"a\", \"b\"]");
    server.start().unwrap();
    assert_eq!(rows(&server, "grow"), published);
    server.stop();
    std::fs::remove_dir_all(server.path("data")).unwrap();
    std::fs::rename(server.path("old"), server.path("data")).unwrap();
    server.start().unwrap();
    assert_eq!(server.get("/v1/streams/grow").json()["state"], "recovering");
    assert_eq!((server.send("grow", "2", &of(1, "a")).status, close(&server, 2)), (200, 200));
    assert_eq!(server.published("grow"), 1, "what is on the way is shown to nobody");
    assert_eq!((join(&server), server.send("grow", "3", &of(2, "b")).status, close(&server, 3)), (200, 200, 200));
    assert_eq!(rows(&server, "grow"), published);
    assert_eq!(server.get("/v1/streams/grow").json()["state"], "open");
}

#[test]
fn what_a_witness_has_seen_is_not_taken_back() {
    let other = "[[stream]]\nstream = \"other\"\nclosing = \"operator\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps = 9\nrho = 1\n";
    let mut server = Server::with("", &format!("{WITNESS}{STREAMS}{other}"));
    hand(&server, 1);
    server.stop();
    copy(&server.path("data"), &server.path("old"));
    server.start().unwrap();
    hand(&server, 2);
    hand(&server, 3);
    let restore = |server: &mut Server| {
        server.stop();
        std::fs::remove_dir_all(server.path("data")).unwrap();
        copy(&server.path("old"), &server.path("data"));
        server.start().unwrap();
        server.get("/v1/streams/hand").json()["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(restore(&mut server), "recovering");
    // Its operator gives it up, and goes on with another; then the same copy is restored once more.
    assert_eq!(server.post("/v1/streams/hand/retire", "").json()["state"], "retired");
    assert_eq!(server.post("/v1/streams/other/close", "{\"through\":1}").status, 200);
    server.stop();
    server.start().unwrap();
    assert_eq!(server.get("/v1/streams/hand").json()["state"], "retired");
    assert_eq!(server.published("hand"), 1);
    assert_eq!(restore(&mut server), "recovering");
    assert_eq!(server.post("/v1/streams/hand/close", "{\"through\":3}").status, 422);
    assert_eq!(server.published("hand"), 1);
}

#[test]
fn late_events_recover_step_by_step() {
    let declared = "[[stream]]\nstream = \"late\"\nclosing = \"operator\"\nlate = \"next-step\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps = 9\nrho = 1\n";
    let mut server = Server::with("", &format!("{WITNESS}{declared}"));
    let of = |hour: u64| format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\"}}\n");
    let send = |server: &Server, id: &str, hour: u64| assert_eq!(server.send("late", id, &of(hour)).status, 200);
    let close =
        |server: &Server, step: u64| server.post("/v1/streams/late/close", &format!("{{\"through\":{step}}}")).status;
    assert_eq!(close(&server, 1), 200);
    server.stop();
    copy(&server.path("data"), &server.path("old"));
    server.start().unwrap();
    let live = |server: &Server| {
        send(server, "2", 1);
        assert_eq!(close(server, 2), 200);
        send(server, "late", 1);
        assert_eq!(close(server, 3), 200);
        rows(server, "late")
    };
    let published = live(&server);
    server.stop();
    std::fs::remove_dir_all(server.path("data")).unwrap();
    std::fs::rename(server.path("old"), server.path("data")).unwrap();
    server.start().unwrap();
    assert_eq!(server.get("/v1/streams/late").json()["state"], "recovering");
    assert_eq!(live(&server), published);
}

#[test]
fn a_webhook_is_told_of_every_publication_in_order() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, told) = mpsc::channel();
    std::thread::spawn(move || {
        for (number, socket) in listener.incoming().enumerate() {
            let mut socket = socket.unwrap();
            let mut from = BufReader::new(socket.try_clone().unwrap());
            let (mut key, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if from.read_line(&mut line).unwrap() == 0 || line.trim().is_empty() {
                    break;
                }
                let line = line.trim().to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("idempotency-key: ") {
                    key = value.to_owned();
                }
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            from.read_exact(&mut body).unwrap();
            // The second is not taken the first time.
            let status = if number == 1 { "503 Busy" } else { "204 No Content" };
            write!(socket, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
            if heard.send((key, String::from_utf8(body).unwrap(), status == "204 No Content")).is_err() {
                return;
            }
        }
    });
    let mut server =
        Server::with("", &format!("[[webhook]]\nurl = \"http://{address}/\"\nstreams = [\"hand\"]\n{STREAMS}"));
    // It is told of what follows its first start.
    std::thread::sleep(Duration::from_millis(600));
    hand(&server, 1);
    hand(&server, 2);
    let next = || told.recv_timeout(Duration::from_secs(20)).unwrap();
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

/// Streams of a folder of every kind.
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

/// A folder that was written with format 1 is opened, and goes on as it would have. It is written anew with
/// `EVERTALLY_WRITE_GOLDEN=1`, which is for new formats, in files of their own.
#[test]
fn a_folder_of_format_1_goes_on() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/service-1");
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
    if std::env::var_os("EVERTALLY_WRITE_GOLDEN").is_some() {
        let mut server = Server::with("", KINDS);
        for step in 1..=3 {
            for name in names {
                assert_eq!(server.send(name, &format!("s{step}"), &batch(step)).status, 200);
            }
            if step < 3 {
                close(&server, step);
            }
        }
        server.stop();
        std::fs::create_dir_all(&golden).unwrap();
        let store = std::fs::read(server.path("data/store.redb")).unwrap();
        std::fs::write(golden.join("store.redb.zst"), zstd::encode_all(&store[..], 19).unwrap()).unwrap();
        std::fs::copy(server.path("keys/serve.key"), golden.join("test-only.key")).unwrap();
        server.start().unwrap();
        close(&server, 3);
        std::fs::write(golden.join("released.csv"), all(&server)).unwrap();
    }
    let mut server = Server::with("", KINDS);
    server.stop();
    let store = zstd::decode_all(&std::fs::read(golden.join("store.redb.zst")).unwrap()[..]).unwrap();
    std::fs::write(server.path("data/store.redb"), store).unwrap();
    std::fs::write(server.path("keys/serve.key"), std::fs::read(golden.join("test-only.key")).unwrap()).unwrap();
    serving::verify(&server.config()).unwrap();
    server.start().unwrap();
    assert_eq!(server.published("found"), 2);
    close(&server, 3);
    let released = std::fs::read_to_string(golden.join("released.csv")).unwrap();
    assert_eq!(all(&server), released);
    assert!(released.lines().any(|line| line.starts_with("2026-01-01T02:00:00Z,b,")), "groups were found");
    assert_eq!(server.send("hand", "s2", &batch(2)).json()["repeated"], true);
    // A later format is left alone.
    server.stop();
    {
        let table: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("meta");
        let database = redb::Database::open(server.path("data/store.redb")).unwrap();
        let writing = database.begin_write().unwrap();
        writing.open_table(table).unwrap().insert("format", 2u32.to_le_bytes().as_slice()).unwrap();
        writing.commit().unwrap();
    }
    let refused = server.start().unwrap_err();
    assert!(refused.contains("later version of this program"), "{refused}");
}

#[test]
fn a_stream_goes_on_where_its_horizon_is_over() {
    let declared = "[[stream]]\nstream = \"year\"\npublic = true\nclosing = \"operator\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps = 2\ngroup-by = [\"group\"]\ngroups = [\"a\", \"b\"]\nrho = 10\n";
    let mut server = Server::with("", declared);
    let of = |hour: u64| format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\",\"group\":\"a\"}}\n").repeat(50);
    let post = |server: &Server, path: &str, body: &str| server.post(&format!("/v1/streams/{path}"), body);
    assert_eq!(server.send("year", "1", &of(0)).status, 200);
    assert_eq!(post(&server, "year/close", "{\"through\":1}").status, 200);
    let early = post(&server, "year/extend", "");
    assert!(early.status == 422 && early.text.contains("once its horizon is over"), "{}", early.text);
    assert_eq!(server.send("year", "2", &of(1)).status, 200);
    assert_eq!(post(&server, "year/close", "{\"through\":2}").status, 200);
    // Also behind a start, after which the session is one that was restored.
    server.stop();
    server.start().unwrap();
    let next = post(&server, "year/extend", "");
    assert_eq!((next.status, next.json()["name"].as_str()), (201, Some("year #2")), "{}", next.text);
    assert_eq!(post(&server, "year/extend", "").status, 422, "it goes on once");
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
