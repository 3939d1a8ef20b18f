//! Copies of a folder, old and new: published steps are never published with other values.

use crate::server::{STREAMS, Server, WITNESS, hand, request_of, rows};
use evertally_server::serving;
use std::io::Write;
use std::net::TcpListener;

#[test]
fn an_old_copy_of_the_folder_publishes_what_was_published() {
    let mut server = Server::with("", &format!("{WITNESS}{STREAMS}"));
    hand(&server, 1);
    server.save_copy();
    hand(&server, 2);
    hand(&server, 3);
    let published = rows(&server, "hand");
    server.restore_copy();
    assert_eq!(server.get("/v1/streams/hand").json()["state"], "recovering");
    let problem = server.get("/v1/operator").text;
    assert!(problem.contains("the witness has seen step 3"), "{problem}");
    // Events that differ from the published ones are detected.
    let other = "{\"time\":\"2026-01-01T01:30:00Z\",\"person\":\"somebody else\"}\n";
    assert_eq!(server.send("hand", "other", other).status, 200);
    let refused = server.post("/v1/streams/hand/close", "{\"through\":3}");
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("do not reproduce the steps published"), "{}", refused.text);
    assert_eq!(server.published("hand"), 1);
    server.stop();
    std::fs::remove_dir_all(server.path("data")).unwrap();
    // The newest backup, and the same events after it.
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

/// Stores its record, like any web server that accepts a small PUT.
fn remembering() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut held: Option<Vec<u8>> = None;
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let (first, _, body) = request_of(&socket);
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
    // The same folder in another place, with the same witness.
    let folder = server.copied();
    server.start().unwrap();
    let mut clone = Server::from_copy(folder, &declared).unwrap();
    hand(&server, 2);
    let body = "{\"time\":\"2026-01-01T01:30:00Z\",\"person\":\"other\"}\n";
    // It detects the copy at its next request to the witness, which may be now.
    let taken = clone.send("hand", "clone", body).status;
    assert!([200, 503].contains(&taken));
    clone.post("/v1/streams/hand/close", "{\"through\":2}");
    assert_eq!(clone.published("hand"), 1, "the copy shows nothing");
    assert_eq!(clone.send("hand", "more", body).status, 503);
    assert!(clone.get("/v1/operator").text.contains("a copy of this folder is running"), "the operator sees why");
    hand(&server, 3);
    assert_eq!(server.published("hand"), 3);
    // A restart of the copy does not help it either.
    clone.stop();
    clone.start().unwrap();
    assert_eq!(clone.get("/v1/streams/hand").json()["state"], "recovering");
    assert_eq!(clone.published("hand"), 1, "steps that only the copy has closed are shown to nobody");
    let more = "{\"time\":\"2026-01-01T02:30:00Z\",\"person\":\"p3\"}\n".repeat(2);
    assert_eq!(clone.send("hand", "more", &more).status, 200);
    let refused = clone.post("/v1/streams/hand/close", "{\"through\":3}");
    assert!(refused.status == 422 && refused.text.contains("do not reproduce the steps published"), "{}", refused.text);
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
    // A folder without any stream is started again like any other.
    let mut empty = Server::with("", "");
    empty.stop();
    empty.start().unwrap();
    // The same for a folder whose adoption was refused for another reason.
    let mut other = Server::with("", &format!("{WITNESS}{STREAMS}"));
    hand(&other, 1);
    other.stop();
    std::fs::remove_dir_all(other.path("data")).unwrap();
    assert!(other.adopt().unwrap_err().contains("belongs to the service in"));
    std::fs::remove_file(other.path("elsewhere/witness.json")).unwrap();
    assert!(other.start().unwrap_err().contains("would be published again"));
    // The refusal has not marked the folder as used.
    assert!(server.start().unwrap_err().contains("would be published again"));
    std::fs::remove_dir_all(server.path("data")).unwrap();
    std::fs::rename(server.path("gone"), server.path("data")).unwrap();
    server.start().unwrap();
    assert_eq!(server.published("hand"), 1);
}

#[test]
fn of_two_copies_that_publish_at_once_one_is_seen() {
    // The witness supports no preconditions: both copies may have their writes confirmed.
    let declared = format!("[witness]\nurl = \"{}\"\n{STREAMS}", remembering());
    let mut server = Server::with("", &declared);
    server.stop();
    let folder = server.copied();
    server.start().unwrap();
    let clone = Server::from_copy(folder, &declared).unwrap();
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
    assert!(server.get("/v1/operator").text.contains("is gone: restore its previous contents"));
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
    let folder = server.copied();
    let witness =
        format!("[witness]\nfile = {:?}\n{STREAMS}", server.path("elsewhere/witness.json").display().to_string());
    server.start().unwrap();
    let refused = Server::from_copy(folder, &witness).err().unwrap();
    assert!(refused.contains("another service uses it"), "{refused}");
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
fn groups_that_joined_join_again_when_a_copy_recovers() {
    let declared = "[[stream]]\nstream = \"grow\"\nclosing = \"operator\"\nstart = \"2026-01-01\"\nevery = \
                    \"1h\"\nsteps = 20\ngroup-by = [\"group\"]\ngroups = [\"a\"]\nrho = 10\n";
    let mut server = Server::with("", &format!("{WITNESS}{declared}"));
    let of = |hour: u64, group: &str| format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\",\"group\":\"{group}\"}}\n");
    let close =
        |server: &Server, step: u64| server.post("/v1/streams/grow/close", &format!("{{\"through\":{step}}}")).status;
    let join = |server: &Server| server.post("/v1/streams/grow/groups", "{\"groups\":[\"b\"]}").status;
    assert_eq!(server.send("grow", "1", &of(0, "a")).status, 200);
    assert_eq!(close(&server, 1), 200);
    server.save_copy();
    assert_eq!((server.send("grow", "2", &of(1, "a")).status, close(&server, 2), join(&server)), (200, 200, 200));
    assert_eq!((server.send("grow", "3", &of(2, "b")).status, close(&server, 3)), (200, 200));
    let published = rows(&server, "grow");
    // The configuration may omit or name groups that were added over the API.
    server.stop();
    server.start().unwrap();
    server.stop();
    server.change("groups = [\"a\"]", "groups = [\"a\", \"b\"]");
    server.start().unwrap();
    assert_eq!(rows(&server, "grow"), published);
    server.restore_copy();
    assert_eq!(server.get("/v1/streams/grow").json()["state"], "recovering");
    assert_eq!((server.send("grow", "2", &of(1, "a")).status, close(&server, 2)), (200, 200));
    assert_eq!(server.published("grow"), 1, "intermediate steps are shown to nobody");
    assert_eq!((join(&server), server.send("grow", "3", &of(2, "b")).status, close(&server, 3)), (200, 200, 200));
    assert_eq!(rows(&server, "grow"), published);
    assert_eq!(server.get("/v1/streams/grow").json()["state"], "open");
}

#[test]
fn what_a_witness_has_seen_is_not_taken_back() {
    let other = "[[stream]]\nstream = \"other\"\nclosing = \"operator\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps \
                 = 9\nrho = 1\n";
    let mut server = Server::with("", &format!("{WITNESS}{STREAMS}{other}"));
    hand(&server, 1);
    server.save_copy();
    hand(&server, 2);
    hand(&server, 3);
    let restore = |server: &mut Server| {
        server.restore_copy();
        server.get("/v1/streams/hand").json()["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(restore(&mut server), "recovering");
    // Its operator retires it, and continues with another stream; then the same copy is restored once more.
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
    let declared = "[[stream]]\nstream = \"late\"\nclosing = \"operator\"\nlate = \"next-step\"\nstart = \
                    \"2026-01-01\"\nevery = \"1h\"\nsteps = 9\nrho = 1\n";
    let mut server = Server::with("", &format!("{WITNESS}{declared}"));
    let of = |hour: u64| format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\"}}\n");
    let send = |server: &Server, id: &str, hour: u64| assert_eq!(server.send("late", id, &of(hour)).status, 200);
    let close =
        |server: &Server, step: u64| server.post("/v1/streams/late/close", &format!("{{\"through\":{step}}}")).status;
    assert_eq!(close(&server, 1), 200);
    server.save_copy();
    let live = |server: &Server| {
        send(server, "2", 1);
        assert_eq!(close(server, 2), 200);
        send(server, "late", 1);
        assert_eq!(close(server, 3), 200);
        rows(server, "late")
    };
    let published = live(&server);
    server.restore_copy();
    assert_eq!(server.get("/v1/streams/late").json()["state"], "recovering");
    assert_eq!(live(&server), published);
    // With the steps of their receipts, all batches can be sent before any step is closed.
    server.restore_copy();
    let again = |id: &str, hour: u64, open_step: u64| {
        let target = format!("/v1/streams/late/events?open-step={open_step}");
        let headers = [("content-type", "application/jsonl"), ("idempotency-key", id)];
        server.private.ask("POST", &target, &server.token("write:late"), &headers, of(hour).as_bytes()).unwrap()
    };
    let answer = again("late", 1, 3);
    assert_eq!((answer.status, &answer.json()["open_step"]), (200, &3.into()), "{}", answer.text);
    let answer = again("late", 1, 3);
    assert_eq!((&answer.json()["open_step"], &answer.json()["repeated"]), (&3.into(), &true.into()), "{}", answer.text);
    assert_eq!(again("2", 1, 2).status, 200);
    let refused = again("3", 1, 1);
    assert!(refused.status == 422 && refused.text.contains("cannot be the open step"), "{}", refused.text);
    assert_eq!((close(&server, 2), close(&server, 3)), (200, 200));
    assert_eq!(rows(&server, "late"), published);
}

#[test]
fn what_was_closed_on_the_way_is_never_seen_whatever_becomes_of_the_witness() {
    let mut server = Server::with("", &format!("{WITNESS}{STREAMS}"));
    hand(&server, 1);
    server.save_copy();
    hand(&server, 2);
    hand(&server, 3);
    server.restore_copy();
    let before = rows(&server, "hand");
    let close =
        |server: &Server, step: u64| server.post("/v1/streams/hand/close", &format!("{{\"through\":{step}}}")).status;
    // Events that differ from the published ones.
    let other = "{\"time\":\"2026-01-01T01:30:00Z\",\"person\":\"somebody\"}\n";
    assert_eq!(server.send("hand", "other", other).status, 200);
    assert_eq!((close(&server, 2), close(&server, 3)), (200, 422));
    server.stop();
    // A folder that is known to lag its witness is not the newest, whatever the operator claims.
    std::fs::remove_file(server.path("elsewhere/witness.json")).unwrap();
    server.forgets_witness = true;
    let refused = server.start().unwrap_err();
    assert!(refused.contains("is not the newest") && refused.contains("`hand`"), "{refused}");
    server.forgets_witness = false;
    server.start().unwrap();
    assert_eq!((server.post("/v1/streams/hand/retire", "").status, rows(&server, "hand")), (200, before.clone()));
    server.stop();
    server.forgets_witness = true;
    for has_witness in [true, false] {
        if !has_witness {
            server.change(WITNESS, "");
        }
        server.start().unwrap();
        assert_eq!((server.published("hand"), rows(&server, "hand")), (1, before.clone()));
        assert_eq!(server.get("/v1/operator").json()["problems"], serde_json::json!([]));
        server.stop();
    }
}

#[test]
fn a_stream_that_is_younger_than_the_copy_recovers_once_it_is_opened_again() {
    let short = "[[stream]]\nstream = \"short\"\nclosing = \"operator\"\nstart = \"2026-01-01\"\nevery = \"1h\"\nsteps \
                 = 1\nrho = 1\n";
    let mut server = Server::with("", &format!("{WITNESS}{short}{STREAMS}"));
    let of = |hour: u64| format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\"}}\n").repeat(9);
    let post = |server: &Server, path: &str, body: &str| server.post(&format!("/v1/streams/{path}"), body).status;
    assert_eq!((server.send("short", "1", &of(0)).status, post(&server, "short/close", "{\"through\":1}")), (200, 200));
    server.save_copy();
    let live = |server: &Server| {
        assert_eq!(post(server, "short/extend", ""), 201);
        let token = server.token("write:short #2");
        let headers = [("content-type", "application/x-ndjson"), ("idempotency-key", "2")];
        let sent = server.private.post("/v1/streams/short%20%232/events", &token, &headers, of(1).as_bytes()).unwrap();
        assert_eq!(sent.status, 200);
        let state = server.get("/v1/streams/short%20%232").json()["state"].as_str().unwrap().to_owned();
        assert_eq!(post(server, "short%20%232/close", "{\"through\":1}"), 200);
        (state, rows(server, "short%20%232"))
    };
    assert_eq!(post(&server, "short/extend?dry-run=true", ""), 400);
    let (state, published) = live(&server);
    assert_eq!(state, "open");
    server.restore_copy();
    let problems = server.get("/v1/operator").json()["problems"].to_string();
    assert!(problems.contains("`short #2`") && problems.contains("open it with the same declaration"), "{problems}");
    // The others continue meanwhile.
    hand(&server, 1);
    assert_eq!(server.published("hand"), 1);
    assert_eq!(live(&server), ("recovering".to_owned(), published));
    assert_eq!(server.get("/v1/operator").json()["problems"], serde_json::json!([]));
    assert_eq!(server.get("/v1/streams/short%20%232").json()["state"], "ended");
}

const FOUND: &str = "[[stream]]\nstream = \"found\"\npublic = true\nclosing = \"operator\"\nstart = \
                     \"2026-01-01\"\nevery = \"1h\"\nsteps = 9\nperson = \"person\"\nmax-events = \
                     10\nmax-events-per-step = 2\ngroup-by = [\"group\"]\ndiscover-groups = true\nselection-delta = \
                     1e-5\nepsilon = 5\ndelta = 1e-4\n";

fn found(hour: u64, group: &str) -> String {
    let row = |n: u64| {
        format!("{{\"time\":\"2026-01-01T{hour:02}:10:00Z\",\"group\":\"{group}\",\"person\":\"{group}{n}\"}}\n")
    };
    (0..200).map(row).collect()
}

#[test]
fn groups_that_were_discovered_are_named_once_their_rows_are_shown() {
    let mut server = Server::with("", &format!("{WITNESS}{FOUND}"));
    let close =
        |server: &Server, step: u64| server.post("/v1/streams/found/close", &format!("{{\"through\":{step}}}")).status;
    assert_eq!((server.send("found", "1", &found(0, "first")).status, close(&server, 1)), (200, 200));
    server.save_copy();
    assert_eq!(close(&server, 3), 200);
    server.restore_copy();
    let pages = |server: &Server| {
        ["", "/releases", "/report", "/picture.svg", "/releases?group=secret", "/plan"]
            .map(|page| server.public.get(&format!("/v1/streams/found{page}"), "").unwrap().text)
    };
    let before = pages(&server);
    assert!(before[0].contains("first"), "{}", before[0]);
    assert_eq!((server.send("found", "x", &found(1, "secret")).status, close(&server, 2)), (200, 200));
    assert_eq!(pages(&server), before, "intermediate steps are not named");
    server.stop();
    server.start().unwrap();
    assert_eq!(pages(&server), before);
    assert_eq!(server.post("/v1/streams/found/retire", "").status, 200);
    assert_eq!(pages(&server)[1..], before[1..]);
    assert!(!server.public.get("/v1/streams", "").unwrap().text.contains("secret"));
}

#[test]
fn steps_that_are_closed_together_discover_as_those_that_are_not() {
    let mut server = Server::with("", FOUND);
    for (hour, group) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(server.send("found", group, &found(hour as u64, group)).status, 200);
    }
    assert_eq!(server.post("/v1/streams/found/close", "{\"through\":4}").status, 200);
    let shown = rows(&server, "found");
    let of_step = |step: u64| -> Vec<&str> {
        let cells = shown.lines().skip(1).map(|line| line.split(',').collect::<Vec<&str>>());
        cells.filter(|row| row[2] == step.to_string()).map(|row| row[1]).collect()
    };
    assert_eq!(of_step(4), ["a", "b", "c"], "{shown}");
    assert_eq!(server.get("/v1/streams/found").json()["groups"], serde_json::json!([["a"], ["b"], ["c"]]));
    server.stop();
    serving::verify(&server.config()).unwrap();
    server.start().unwrap();
    assert_eq!(rows(&server, "found"), shown);
}
