//! `evertally feed`: every row of a file arrives exactly once, whatever happens in between.

use crate::server::Server;
use evertally_server::feed::{Feed, From, Remote, Sent, follow};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

struct Feeding {
    server: Server,
    token: String,
    feed: Feed,
    remote: Remote,
}

impl Feeding {
    fn new(from: impl FnOnce(&Path) -> From) -> Self {
        let server = Server::new();
        let token = server.token("write:open");
        let remote = Remote::new(&format!("http://{}", server.private.address()), "open", &token, None).unwrap();
        let feed = Feed {
            from: from(server.folder.path()),
            format: None,
            memory: server.path("feed.memory"),
            name: Some("here".into()),
            rows: 3,
            is_once: true,
            is_complete: false,
            aside: None,
        };
        Self { server, token, feed, remote }
    }

    fn go(&self) -> Result<Sent, String> {
        let mut say = |line: &str| eprintln!("{line}");
        follow(&self.feed, &self.remote, &AtomicBool::new(false), &mut say).map_err(|error| error.to_string())
    }

    fn file(&self) -> PathBuf {
        self.server.path("visits.csv")
    }

    fn remembered(&self) -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(&self.feed.memory).unwrap()).unwrap()
    }
}

fn grow(path: &Path, text: &str) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn rows(minutes: std::ops::Range<u32>) -> String {
    minutes.map(|minute| format!("2026-01-01T00:{minute:02}:00Z,a\n")).collect()
}

#[test]
fn a_file_that_grows_is_followed() {
    let feeding = Feeding::new(|folder| From::File(folder.join("visits.csv")));
    assert!(feeding.go().unwrap_err().contains("visits.csv"), "the file does not exist");
    // A quoted line end is part of a row.
    grow(&feeding.file(), "time,group,note\n2026-01-01T00:00:00Z,a,\"two\nlines\"\n");
    let taken = |rows, batches| Sent { rows, batches, aside: 0 };
    assert_eq!(feeding.go().unwrap(), taken(1, 1));
    assert_eq!(feeding.go().unwrap(), taken(0, 0));
    let more: String = (1..8).map(|minute| format!("2026-01-01T00:{minute:02}:00Z,b/c,\n")).collect();
    grow(&feeding.file(), &more);
    assert_eq!(feeding.go().unwrap(), taken(7, 3));
    assert_eq!(feeding.server.events("open"), 8);
    assert_eq!(feeding.remembered()["sources"][feeding.file().to_str().unwrap()]["line"], 11);
}

#[test]
fn what_was_on_its_way_arrives_once() {
    let mut feeding = Feeding::new(|folder| From::File(folder.join("visits.csv")));
    grow(&feeding.file(), &format!("time,group\n{}", rows(0..8)));
    assert_eq!(feeding.go().unwrap().rows, 8);
    // State files of all moments before the answer to a batch was received.
    let path = feeding.file().to_str().unwrap().to_owned();
    let whole = feeding.remembered();
    let text = std::fs::read_to_string(feeding.file()).unwrap();
    let ends: Vec<usize> = std::iter::once(11).chain([3, 6, 8].map(|row| 11 + row * 23)).collect();
    assert_eq!(ends[3], text.len());
    for (before, after) in [(0, 1), (1, 2), (2, 3)] {
        let (from, to) = (ends[before], ends[after]);
        let mut memory = whole.clone();
        memory["sources"] = serde_json::json!({});
        memory["pending"] = serde_json::json!({
            "source": path, "from": from, "to": to, "line": 2 + 3 * before, "format": "csv", "header": "time,group\n",
            "digest": blake3::hash(&text.as_bytes()[from..to]).to_hex().to_string(), "left_out": [],
        });
        std::fs::write(&feeding.feed.memory, memory.to_string()).unwrap();
        assert_eq!(feeding.go().unwrap().batches, 3 - before as u64);
        assert_eq!(feeding.server.events("open"), 8);
    }
    // A feeder without its state file sends nothing twice: a batch that begins where another began is identical or
    // refused.
    std::fs::remove_file(&feeding.feed.memory).unwrap();
    assert_eq!(feeding.go().unwrap().rows, 8);
    assert_eq!(feeding.server.events("open"), 8);
    // Also if it would cut batches differently: the accepted ones are found again.
    for rows in [5, 1, 100] {
        std::fs::remove_file(&feeding.feed.memory).unwrap();
        feeding.feed.rows = rows;
        assert_eq!(feeding.go().unwrap(), Sent { rows: 8, batches: 3, aside: 0 });
        assert_eq!(feeding.server.events("open"), 8);
    }
    // Other content under the name of a sent file is refused.
    std::fs::remove_file(&feeding.feed.memory).unwrap();
    std::fs::write(feeding.file(), text.replace(",a\n", ",b/c\n")).unwrap();
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("other bytes under the id feed:") && refused.contains("--name"), "{refused}");
    assert_eq!(feeding.server.events("open"), 8);
    std::fs::remove_file(&feeding.feed.memory).unwrap();
    std::fs::write(feeding.file(), &text).unwrap();
    assert_eq!(feeding.go().unwrap().batches, 3);
    // A state file belongs to one feeder and stream.
    feeding.feed.name = Some("elsewhere".into());
    assert!(feeding.go().unwrap_err().contains("is the state of feeder `here`"));
}

#[test]
fn a_file_that_was_replaced_or_renamed_is_not_sent_again() {
    let mut feeding = Feeding::new(|folder| {
        std::fs::create_dir(folder.join("in")).unwrap();
        From::Folder(folder.join("in"))
    });
    let folder = feeding.server.path("in");
    let inside = |name: &str| folder.join(name);
    grow(&inside("a.csv"), &format!("time,group\n{}", rows(0..5)));
    grow(&inside("b.jsonl"), "{\"time\":\"2026-01-01T00:50:00Z\",\"group\":\"a\"}\n");
    grow(&inside(".c.csv"), "hidden");
    grow(&inside("notes.txt"), "no events");
    assert_eq!(feeding.go().unwrap().rows, 6);
    let whole = zstd::encode_all(format!("time,group\n{}", rows(10..14)).as_bytes(), 3).unwrap();
    std::fs::write(inside("d.csv.zst"), whole).unwrap();
    assert_eq!(feeding.go().unwrap().rows, 0, "the file may still be growing");
    feeding.feed.is_complete = true;
    assert_eq!(feeding.go().unwrap(), Sent { rows: 4, batches: 1, aside: 0 });
    std::fs::copy(inside("a.csv"), inside("copy.csv")).unwrap();
    assert!(feeding.go().unwrap_err().contains("under another name"));
    std::fs::remove_file(inside("copy.csv")).unwrap();
    std::fs::rename(inside("a.csv"), inside("a.1.csv")).unwrap();
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("under another name"), "{refused}");
    std::fs::rename(inside("a.1.csv"), inside("a.csv")).unwrap();
    std::fs::write(inside("a.csv"), format!("time,group\n{}", rows(20..40))).unwrap();
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("truncated or replaced") && refused.contains("line 6"), "{refused}");
    std::fs::write(inside("a.csv"), "time,group\n").unwrap();
    assert!(feeding.go().unwrap_err().contains("truncated or replaced"));
    assert_eq!(feeding.server.events("open"), 10);
}

#[test]
fn bad_rows_are_named_by_their_lines_or_put_aside() {
    let mut feeding = Feeding::new(|folder| From::File(folder.join("visits.csv")));
    feeding.feed.rows = 100;
    grow(&feeding.file(), "time,group,note\n2026-01-01T00:00:00Z,a,\"two\nlines\"\nnever,a,\n");
    grow(&feeding.file(), &rows(1..3).replace(",a\n", ",a,\n"));
    grow(&feeding.file(), "2026-01-01T00:05:00Z,nobody,\"x\ny\"\n");
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("visits.csv, line 4, field time") && refused.contains("line 7, field group"), "{refused}");
    assert!(refused.contains("nothing of the batch was accepted"), "{refused}");
    assert_eq!(feeding.server.events("open"), 0);
    // The file may be corrected: nothing of it was accepted.
    let bad = std::fs::read_to_string(feeding.file()).unwrap();
    std::fs::write(feeding.file(), bad.replace("never,a", "2026-01-01T00:09:00Z,a")).unwrap();
    assert!(feeding.go().unwrap_err().contains("line 7, field group"));
    std::fs::write(feeding.file(), bad).unwrap();
    feeding.feed.aside = Some(feeding.server.path("aside.jsonl"));
    assert_eq!(feeding.go().unwrap(), Sent { rows: 3, batches: 1, aside: 2 });
    let aside = std::fs::read_to_string(feeding.server.path("aside.jsonl")).unwrap();
    let aside: Vec<serde_json::Value> = aside.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((aside.len(), &aside[0]["row"], &aside[0]["line"]), (2, &"never,a,".into(), &4.into()));
    assert_eq!(aside[1]["row"], "2026-01-01T00:05:00Z,nobody,\"x\ny\"");
    // A step that is closed meanwhile changes neither the omitted rows nor the batch that is sent again.
    feeding.server.publish("open", 1);
    grow(&feeding.file(), &format!("{}2026-01-01T01:05:00Z,a,\n", rows(6..7).replace(",a\n", ",a,\n")));
    assert_eq!(feeding.go().unwrap(), Sent { rows: 1, batches: 1, aside: 1 });
    assert_eq!(feeding.server.events("open"), 4);
    let aside = std::fs::read_to_string(feeding.server.path("aside.jsonl")).unwrap();
    assert!(aside.lines().last().unwrap().contains("\"line\":9"), "{aside}");
}

#[test]
fn a_service_that_is_away_is_waited_for() {
    let mut feeding = Feeding::new(|folder| From::File(folder.join("visits.csv")));
    feeding.feed.is_once = false;
    let (file, cancelled) = (feeding.file(), AtomicBool::new(false));
    let lines = std::sync::Mutex::new(Vec::new());
    feeding.server.stop();
    std::thread::scope(|scope| {
        let (feed, remote) = (&feeding.feed, &feeding.remote);
        let (cancelled, lines) = (&cancelled, &lines);
        let fed = scope
            .spawn(move || follow(feed, remote, cancelled, &mut |line| lines.lock().unwrap().push(line.to_owned())));
        std::thread::sleep(Duration::from_millis(300)); // the file does not exist yet
        grow(&file, &format!("time,group\n{}2026-01-01T00:5", rows(0..4)));
        std::thread::sleep(Duration::from_millis(700));
        assert!(lines.lock().unwrap().iter().any(|line| line.contains("cannot be reached")), "{lines:?}");
        cancelled.store(true, Ordering::Relaxed);
        assert!(fed.join().unwrap().unwrap_err().is_cancelled());
    });
    feeding.server.start().unwrap();
    feeding.remote =
        Remote::new(&format!("http://{}", feeding.server.private.address()), "open", &feeding.token, None).unwrap();
    // For a state file, another address is another service; here it is the same.
    let memory = std::fs::read_to_string(&feeding.feed.memory).unwrap();
    let old = feeding.remembered()["target"].as_str().unwrap().to_owned();
    std::fs::write(&feeding.feed.memory, memory.replace(&old, feeding.remote.place())).unwrap();
    cancelled.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let (feed, remote, cancelled) = (&feeding.feed, &feeding.remote, &cancelled);
        let fed = scope.spawn(move || follow(feed, remote, cancelled, &mut |_| ()));
        for _ in 0..200 {
            if feeding.server.events("open") == 4 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        grow(&file, "5:00Z,a\n");
        for _ in 0..200 {
            if feeding.server.events("open") == 5 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(feeding.server.events("open"), 5, "a row counts once it is complete");
        cancelled.store(true, Ordering::Relaxed);
        assert!(fed.join().unwrap().is_err());
    });
}

#[test]
fn a_line_without_an_end_is_not_sent_unless_it_is_the_last() {
    let mut feeding = Feeding::new(|folder| From::File(folder.join("visits.csv")));
    grow(&feeding.file(), &format!("time,group\n{}2026-01-01T00:5", rows(0..2)));
    assert_eq!(feeding.go().unwrap().rows, 2);
    assert_eq!(feeding.go().unwrap().rows, 0);
    grow(&feeding.file(), "9:00Z,a");
    assert_eq!(feeding.go().unwrap().rows, 0);
    feeding.feed.is_complete = true;
    assert_eq!(feeding.go().unwrap().rows, 1);
    assert_eq!(feeding.server.events("open"), 3);
}

#[test]
fn a_token_does_not_travel_for_all_to_read() {
    for (url, message) in [
        ("http://counts.example:8801", "use https"),
        ("ftp://127.0.0.1", "is not a valid URL"),
        ("https://counts.example/v1", "has a path"),
        ("counts.example", "is not a valid URL"),
    ] {
        let refused = Remote::new(url, "open", "evt_x", None).err().unwrap().to_string();
        assert!(refused.contains(message), "{url}: {refused}");
    }
    for url in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://counts.example"] {
        assert!(Remote::new(url, "open", "evt_x", None).is_ok(), "{url}");
    }
    assert!(Remote::new("http://127.0.0.1:1", "open", "two words", None).is_err());
    let feeding = Feeding::new(|folder| From::File(folder.join("visits.csv")));
    grow(&feeding.file(), &format!("time,group\n{}", rows(0..1)));
    feeding.server.revoke(&feeding.token);
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("refused the batch") && !refused.contains(&feeding.token), "{refused}");
}

#[test]
fn a_damaged_file_is_refused_once_and_not_sent_again() {
    let feeding = Feeding::new(|folder| From::File(folder.join("visits.csv.gz")));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(format!("time,group\n{}", rows(0..8)).as_bytes()).unwrap();
    let whole = encoder.finish().unwrap();
    let path = feeding.server.path("visits.csv.gz");
    let write = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(60);
        OpenOptions::new().write(true).open(&path).unwrap().set_modified(old).unwrap();
    };
    write(&whole[..whole.len() - 9]);
    let began = std::time::Instant::now();
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("visits.csv.gz") && refused.contains("damaged, truncated"), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(10), "the batch was retried");
    // Once corrected, it is accepted under the same id.
    write(&whole);
    assert_eq!(feeding.go().unwrap().rows, 8);
    assert_eq!(feeding.server.events("open"), 8);
}

#[test]
fn rows_are_put_aside_into_no_file_that_is_needed() {
    let mut feeding = Feeding::new(|folder| From::File(folder.join("visits.csv")));
    grow(&feeding.file(), &format!("time,group\n{}", rows(0..2)));
    for name in ["visits.csv", "feed.memory", "some.key.ledger", "some.key.uses", "data/aside.jsonl"] {
        feeding.feed.aside = Some(feeding.server.path(name));
        assert!(feeding.go().unwrap_err().contains("no output replaces it"), "{name}");
    }
    feeding.feed.aside = Some(feeding.server.path("aside.jsonl"));
    assert_eq!(feeding.go().unwrap().rows, 2);
}
