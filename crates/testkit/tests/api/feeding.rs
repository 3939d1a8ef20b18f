//! `evertally feed`: every row of a file arrives exactly once, whatever happens in between.

use crate::server::Server;
use evertally_feeds::{
    CancellationToken, FileOptions, FollowOptions, Observer, Remote, RemoteTls, Sent, Token, open_files, run,
};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

struct Feeding {
    server: Server,
    token: String,
    files: FileOptions,
    options: FollowOptions,
}

/// The messages of a feeder.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Observer for &Heard {
    fn message(&mut self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

impl Feeding {
    fn new(name: &str) -> Self {
        let server = Server::new();
        let token = server.token("write:open");
        let (path, is_folder) = (server.path(name), !name.contains('.'));
        if is_folder {
            std::fs::create_dir(&path).unwrap();
        }
        let files = FileOptions { path, is_folder, format: None, is_complete: false };
        let options = FollowOptions { rows: 3, is_once: true, ..FollowOptions::default() };
        Self { server, token, files, options }
    }

    fn remote(&self) -> Remote {
        let url = format!("http://{}", self.server.private.address());
        Remote::new(&url, "open", Some(Token::Text(self.token.clone())), RemoteTls::default()).unwrap()
    }

    fn follow(&self, cancelled: &CancellationToken, heard: &Heard) -> Result<Sent, String> {
        let mut source = open_files(&self.files).map_err(|error| error.to_string())?;
        let sent = run(&mut *source, &self.remote(), &self.options, cancelled, &mut &*heard);
        sent.map_err(|error| error.to_string())
    }

    fn go(&self) -> Result<Sent, String> {
        self.follow(&CancellationToken::new(), &Heard::default())
    }

    fn file(&self) -> PathBuf {
        self.server.path("visits.csv")
    }

    /// The position in the file at the service.
    fn position(&self) -> serde_json::Value {
        let source = format!("file:{}", self.file().canonicalize().unwrap().display());
        let positions = self.server.service().ask(move |core| core.positions("open", &source)).unwrap();
        serde_json::from_str(&positions[""]).unwrap()
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
    let feeding = Feeding::new("visits.csv");
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
    assert_eq!(feeding.position()["line"], 11);
}

#[test]
fn a_feeder_needs_no_memory() {
    let mut feeding = Feeding::new("visits.csv");
    grow(&feeding.file(), &format!("time,group\n{}", rows(0..8)));
    assert_eq!(feeding.go().unwrap().rows, 8);
    // It asks the service where to continue, however it cuts its batches.
    for (rows_of_batch, minute) in [(5, 10), (1, 11), (100, 12)] {
        feeding.options.rows = rows_of_batch;
        assert_eq!(feeding.go().unwrap(), Sent::default());
        grow(&feeding.file(), &rows(minute..minute + 1));
        assert_eq!(feeding.go().unwrap(), Sent { rows: 1, batches: 1, aside: 0 });
    }
    assert_eq!(feeding.server.events("open"), 11);
    // Another name is another source.
    feeding.options.name = Some("elsewhere".into());
    assert_eq!(feeding.go().unwrap().rows, 11);
    feeding.options.name = None;
    // Another file under the name of one that was sent, as of another machine, is refused.
    let text = std::fs::read_to_string(feeding.file()).unwrap();
    std::fs::write(feeding.file(), text.replace(",a\n", ",b/c\n")).unwrap();
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("another machine") && refused.contains("--name"), "{refused}");
    assert_eq!(feeding.server.events("open"), 22);
}

#[test]
fn two_feeders_of_one_file_count_it_once() {
    let mut feeding = Feeding::new("visits.csv");
    feeding.options.rows = 1;
    grow(&feeding.file(), &format!("time,group\n{}", rows(0..50)));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| feeding.go().unwrap());
        }
    });
    assert_eq!(feeding.server.events("open"), 50);
}

#[test]
fn a_service_that_was_restored_is_fed_again_from_its_copy_on() {
    let mut feeding = Feeding::new("visits.csv");
    grow(&feeding.file(), &format!("time,group\n{}", rows(0..4)));
    assert_eq!(feeding.go().unwrap().rows, 4);
    feeding.server.save_copy();
    grow(&feeding.file(), &rows(4..9));
    assert_eq!(feeding.go().unwrap().rows, 5);
    feeding.server.restore_copy();
    assert_eq!(feeding.position()["line"], 6, "the copy has four rows");
    assert_eq!(feeding.go().unwrap().rows, 5);
    assert_eq!(feeding.position()["line"], 11);
}

/// Makes a file old, as if nobody had written to it for a while.
fn age(path: &Path, seconds: u64) {
    let old = SystemTime::now() - Duration::from_secs(seconds);
    OpenOptions::new().write(true).open(path).unwrap().set_modified(old).unwrap();
}

#[test]
fn a_rotated_file_is_read_to_its_end_and_then_the_new_one() {
    let feeding = Feeding::new("visits.csv");
    let (file, sent) = (feeding.file(), |rows| assert_eq!(feeding.go().unwrap().rows, rows));
    let fresh = |minutes| grow(&file, &format!("time,group\n{}", rows(minutes)));
    let path = |name: &str| feeding.server.path(name);
    let rotated = |name: &str| {
        std::fs::rename(&file, path(name)).unwrap();
        age(&path(name), 60); // all at the same time
    };
    fresh(0..4);
    sent(4);
    grow(&file, &rows(4..6));
    rotated("visits.csv-20260101");
    fresh(6..9);
    sent(5);
    // By a copy that is truncated afterwards, without anything new in the old file.
    std::fs::copy(&file, path("visits.csv-20260102")).unwrap();
    age(&path("visits.csv-20260102"), 60);
    std::fs::write(&file, "").unwrap();
    sent(0);
    fresh(9..10);
    sent(1);
    // Several times while nobody looks, and compressed later than the others were written.
    grow(&file, &rows(10..12));
    rotated("visits.csv-20260103");
    let text = std::fs::read(path("visits.csv-20260103")).unwrap();
    std::fs::remove_file(path("visits.csv-20260103")).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&text).unwrap();
    std::fs::write(path("visits.csv-20260103.gz"), encoder.finish().unwrap()).unwrap();
    age(&path("visits.csv-20260103.gz"), 6);
    fresh(12..20);
    rotated("visits.csv-20260104");
    fresh(20..22);
    rotated("visits.csv-20260105");
    // Other files are not of this one.
    grow(&path("visits.csv-eu"), &format!("time,group\n{}", rows(50..59)));
    fresh(22..23);
    sent(13);
    assert_eq!(feeding.server.events("open"), 23);
    // A file that is still written to after its name was taken is not left.
    std::fs::rename(&file, path("visits.csv-20260106")).unwrap();
    fresh(30..31);
    let heard = Heard::default();
    assert_eq!(feeding.follow(&CancellationToken::new(), &heard).unwrap().rows, 0);
    assert!(heard.0.lock().unwrap().iter().any(|line| line.contains("was rotated")), "the rest is announced");
    grow(&path("visits.csv-20260106"), &rows(23..24));
    sent(1);
    age(&path("visits.csv-20260106"), 10);
    sent(1);
    assert_eq!(feeding.server.events("open"), 25);
    // Without the rest of the old one, nothing is skipped in silence.
    grow(&file, &rows(31..32));
    std::fs::remove_file(&file).unwrap();
    fresh(40..41);
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("have disappeared"), "{refused}");
}

#[test]
fn what_is_uncertain_about_rotated_files_is_refused() {
    // The new file begins like the old one, of which only that was sent.
    let feeding = Feeding::new("visits.csv");
    let path = |name: &str| feeding.server.path(name);
    grow(&feeding.file(), &format!("time,group\n{}", rows(0..1)));
    assert_eq!(feeding.go().unwrap().rows, 1);
    grow(&feeding.file(), &rows(1..9));
    std::fs::rename(feeding.file(), path("visits.csv.1")).unwrap();
    grow(&feeding.file(), &format!("time,group\n{}{}", rows(0..1), rows(20..25)));
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("both begin with the rows that were sent"), "{refused}");
    // Numbers and dates have no common order.
    std::fs::remove_file(path("visits.csv.1")).unwrap();
    grow(&path("visits.csv.2"), "time,group\n");
    grow(&path("visits.csv-20260101"), "time,group\n");
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("their order is not certain"), "{refused}");
    assert_eq!(feeding.server.events("open"), 1);
}

#[test]
fn a_feeder_that_runs_follows_many_rotations_by_numbers() {
    let mut feeding = Feeding::new("visits.csv");
    feeding.options.is_once = false;
    let (file, cancelled, heard) = (feeding.file(), CancellationToken::new(), Heard::default());
    let path = |number: u32| feeding.server.path(&format!("visits.csv.{number}"));
    // The first file is rotated before it has a row that was seen.
    grow(&file, "time,group\n");
    std::thread::scope(|scope| {
        let fed = scope.spawn(|| feeding.follow(&cancelled, &heard));
        std::thread::sleep(Duration::from_millis(700));
        let mut written = 0;
        for round in 0..6_u32 {
            for _ in 0..3 {
                grow(&file, &rows(round * 9..round * 9 + 3));
                written += 3;
                std::thread::sleep(Duration::from_millis(60));
            }
            for number in (1..round + 1).rev() {
                std::fs::rename(path(number), path(number + 1)).unwrap();
            }
            if round % 2 == 0 {
                std::fs::rename(&file, path(1)).unwrap();
                grow(&file, "time,group\n");
            } else {
                std::fs::copy(&file, path(1)).unwrap();
                std::fs::write(&file, "time,group\n").unwrap();
            }
            (1..=round + 1).for_each(|number| age(&path(number), 60));
        }
        let arrived = (0..300).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            feeding.server.events("open") == written
        });
        cancelled.cancel();
        let ended = fed.join().unwrap();
        assert!(arrived, "{} of {written}: {ended:?} {:?}", feeding.server.events("open"), heard.0.lock().unwrap());
    });
}

#[test]
fn a_file_that_was_replaced_or_renamed_is_not_sent_again() {
    let mut feeding = Feeding::new("in");
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
    feeding.files.is_complete = true;
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
    let mut feeding = Feeding::new("visits.csv");
    feeding.options.rows = 100;
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
    feeding.options.aside = Some(feeding.server.path("aside.jsonl"));
    assert_eq!(feeding.go().unwrap(), Sent { rows: 3, batches: 1, aside: 2 });
    let aside = std::fs::read_to_string(feeding.server.path("aside.jsonl")).unwrap();
    let aside: Vec<serde_json::Value> = aside.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((aside.len(), &aside[0]["row"], &aside[0]["place"]), (2, &"never,a,".into(), &"line 4".into()));
    assert_eq!(aside[1]["row"], "2026-01-01T00:05:00Z,nobody,\"x\ny\"");
    // A step that is closed meanwhile changes neither the omitted rows nor the batch that is sent again.
    feeding.server.publish("open", 1);
    grow(&feeding.file(), &format!("{}2026-01-01T01:05:00Z,a,\n", rows(6..7).replace(",a\n", ",a,\n")));
    assert_eq!(feeding.go().unwrap(), Sent { rows: 1, batches: 1, aside: 1 });
    assert_eq!(feeding.server.events("open"), 4);
    let aside = std::fs::read_to_string(feeding.server.path("aside.jsonl")).unwrap();
    assert!(aside.lines().last().unwrap().contains("\"place\":\"line 9\""), "{aside}");
}

#[test]
fn a_service_that_is_away_is_waited_for() {
    let mut feeding = Feeding::new("visits.csv");
    feeding.options.is_once = false;
    let (file, cancelled, heard) = (feeding.file(), CancellationToken::new(), Heard::default());
    feeding.server.stop();
    std::thread::scope(|scope| {
        let fed = scope.spawn(|| feeding.follow(&cancelled, &heard));
        std::thread::sleep(Duration::from_millis(300)); // the file does not exist yet
        grow(&file, &format!("time,group\n{}2026-01-01T00:5", rows(0..4)));
        std::thread::sleep(Duration::from_millis(700));
        let lines = heard.0.lock().unwrap().clone();
        assert!(lines.iter().any(|line| line.contains("cannot be reached")), "{lines:?}");
        cancelled.cancel();
        assert_eq!(fed.join().unwrap().unwrap(), Sent::default());
    });
    feeding.server.start().unwrap();
    let cancelled = CancellationToken::new();
    let wait_for = |events| {
        let arrived = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            feeding.server.events("open") == events
        });
        assert!(arrived, "{} events", feeding.server.events("open"));
    };
    std::thread::scope(|scope| {
        let fed = scope.spawn(|| feeding.follow(&cancelled, &Heard::default()));
        wait_for(4);
        grow(&file, "5:00Z,a\n"); // a row counts once it is complete
        wait_for(5);
        cancelled.cancel();
        assert_eq!(fed.join().unwrap().unwrap().rows, 5);
    });
}

#[test]
fn a_line_without_an_end_is_not_sent_unless_it_is_the_last() {
    let mut feeding = Feeding::new("visits.csv");
    grow(&feeding.file(), &format!("time,group\n{}2026-01-01T00:5", rows(0..2)));
    assert_eq!(feeding.go().unwrap().rows, 2);
    assert_eq!(feeding.go().unwrap().rows, 0);
    grow(&feeding.file(), "9:00Z,a");
    assert_eq!(feeding.go().unwrap().rows, 0);
    feeding.files.is_complete = true;
    assert_eq!(feeding.go().unwrap().rows, 1);
    assert_eq!(feeding.server.events("open"), 3);
}

#[test]
fn a_token_does_not_travel_for_all_to_read() {
    let token = |text: &str| Some(Token::Text(text.to_owned()));
    for (url, message) in [
        ("http://counts.example:8801", "use https"),
        ("ftp://127.0.0.1", "is not a valid URL"),
        ("https://counts.example/v1", "has a path"),
        ("counts.example", "is not a valid URL"),
    ] {
        let refused = Remote::new(url, "open", token("evt_x"), RemoteTls::default()).err().unwrap().to_string();
        assert!(refused.contains(message), "{url}: {refused}");
    }
    for url in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://counts.example"] {
        assert!(Remote::new(url, "open", token("evt_x"), RemoteTls::default()).is_ok(), "{url}");
    }
    assert!(Remote::new("http://127.0.0.1:1", "open", token("two words"), RemoteTls::default()).is_err());
    let feeding = Feeding::new("visits.csv");
    grow(&feeding.file(), &format!("time,group\n{}", rows(0..1)));
    feeding.server.revoke(&feeding.token);
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("refused the batch") && !refused.contains(&feeding.token), "{refused}");
}

#[test]
fn a_damaged_file_is_refused_once_and_not_sent_again() {
    let feeding = Feeding::new("visits.csv.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(format!("time,group\n{}", rows(0..8)).as_bytes()).unwrap();
    let whole = encoder.finish().unwrap();
    let path = feeding.server.path("visits.csv.gz");
    let write = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        age(&path, 60);
    };
    write(&whole[..whole.len() - 9]);
    let began = std::time::Instant::now();
    let refused = feeding.go().unwrap_err();
    assert!(refused.contains("visits.csv.gz") && refused.contains("damaged, truncated"), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(10), "the batch was retried");
    // Once corrected, it is accepted.
    write(&whole);
    assert_eq!(feeding.go().unwrap().rows, 8);
    assert_eq!(feeding.server.events("open"), 8);
}

#[test]
fn rows_are_put_aside_into_no_file_that_is_needed() {
    let mut feeding = Feeding::new("visits.csv");
    grow(&feeding.file(), &format!("time,group\n{}", rows(0..2)));
    for name in ["visits.csv", "some.key.ledger", "some.key.uses", "data/aside.jsonl"] {
        feeding.options.aside = Some(feeding.server.path(name));
        assert!(feeding.go().unwrap_err().contains("no output replaces it"), "{name}");
    }
    feeding.options.aside = Some(feeding.server.path("aside.jsonl"));
    assert_eq!(feeding.go().unwrap().rows, 2);
}
