//! Long inputs, pipes and interruption.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{ArrayRef, Int64Array};

use super::super::xlsx::tests::{Book, texts};
use super::golden::parquet_of;
use super::*;
use crate::input::pass::ROWS_PER_CHECK;

#[test]
fn cancellation_is_recognised() {
    let fixture = Fixture::new().columns("time", &[], None, None);
    let rows = 100_000;
    let csv = fixture.file("a", format!("time\n{}", "2013-01-01\n".repeat(rows)).as_bytes());
    let json = fixture.file("b", "{\"time\":1}\n".repeat(rows).as_bytes());
    let times = Arc::new(Int64Array::from(vec![1; rows])) as ArrayRef;
    let parquet = fixture.file("c", &parquet_of(vec![("time", times)]));
    for path in [csv, json, parquet] {
        let cancelled = AtomicBool::new(false);
        let mut seen = 0;
        let error = fixture
            .visit(&[path], &cancelled, &mut |_| {
                seen += 1;
                cancelled.store(true, Ordering::Relaxed);
                Ok(())
            })
            .unwrap_err();
        assert!(is_cancelled(&error) && seen <= 2 * ROWS_PER_CHECK, "{error} after {seen}");
    }
}

#[test]
fn errors_of_the_callback_come_back_unchanged() {
    #[derive(Debug, PartialEq)]
    struct Stop;
    impl std::fmt::Display for Stop {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("stop")
        }
    }
    impl std::error::Error for Stop {}
    let fixture = Fixture::new().columns("time", &[], None, None);
    let path = fixture.file("a", b"time\n1\n");
    let error = fixture.visit(&[path], &AtomicBool::new(false), &mut |_| Err(Stop.into())).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Stop));
}

#[cfg(unix)]
mod pipes {
    use super::*;

    /// A named pipe that a thread writes to.
    fn pipe(fixture: &Fixture, name: &str, write: impl FnOnce(&mut std::fs::File) + Send + 'static) -> PathBuf {
        let path = fixture.path(name);
        let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(status.success());
        let writer = path.clone();
        std::thread::spawn(move || {
            let mut file = std::fs::OpenOptions::new().write(true).open(writer).unwrap();
            write(&mut file);
        });
        path
    }

    #[test]
    fn pipes_are_read_as_they_come() {
        let fixture = Fixture::new().columns("time", &[], None, None);
        let path = pipe(&fixture, "p", |file| {
            for piece in ["ti", "me\n20", "13\n", "2014"] {
                file.write_all(piece.as_bytes()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        assert_eq!(fixture.read(&[path]).unwrap(), ["line 2|2013||", "line 3|2014||"]);
    }

    #[test]
    fn parquet_comes_through_a_pipe() {
        let fixture = Fixture::new().columns("time", &[], None, None);
        let data = parquet_of(vec![("time", Arc::new(Int64Array::from(vec![7])) as ArrayRef)]);
        let path = pipe(&fixture, "p", move |file| file.write_all(&data).unwrap());
        assert_eq!(fixture.read(&[path]).unwrap(), ["row 1|7||"]);
    }

    #[test]
    fn workbooks_come_through_a_pipe() {
        let fixture = Fixture::new().columns("time", &[], None, None);
        let data = Book::of(&(texts(1, &["time"]) + &texts(2, &["2013"])));
        let packed = gzip(&data);
        for (name, data) in [("plain", data), ("gzip", packed)] {
            let path = pipe(&fixture, name, move |file| file.write_all(&data).unwrap());
            assert_eq!(fixture.read(&[path]).unwrap(), ["row 2|2013||"]);
        }
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_can_be_interrupted() {
        let fixture = Fixture::new().columns("time", &[], None, None);
        let path = fixture.path("p");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let cancelled = AtomicBool::new(true);
        let error = fixture.visit(&[path], &cancelled, &mut |_| Ok(())).unwrap_err();
        assert!(is_cancelled(&error), "{error}");
    }

    #[test]
    fn a_silent_pipe_can_be_interrupted() {
        let fixture = Fixture::new().columns("time", &[], None, None);
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let path = pipe(&fixture, "p", move |file| {
            file.write_all(b"time\n").unwrap();
            let _ = held.recv();
        });
        let cancelled = AtomicBool::new(false);
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(100));
                cancelled.store(true, Ordering::Relaxed);
            });
            fixture.visit(&[path], &cancelled, &mut |_| Ok(())).unwrap_err()
        });
        drop(hold);
        assert!(is_cancelled(&error), "{error}");
    }
}

/// Ten million lines that are never in memory all at once.
struct ManyLines {
    left: u64,
    pending: Vec<u8>,
}

impl Read for ManyLines {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.pending.len() < buf.len() && self.left > 0 {
            self.left -= 1;
            self.pending.extend_from_slice(b"2013-01-01T05:00:00Z,JFK,12.5\n");
        }
        let n = buf.len().min(self.pending.len());
        buf[..n].copy_from_slice(&self.pending[..n]);
        self.pending.drain(..n);
        Ok(n)
    }
}

/// In a separate process, since other tests use memory, too.
#[test]
fn ten_million_rows_pass_through_one_buffer() {
    const ALONE: &str = "EVERTALLY_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let this = "input::tests::streams::ten_million_rows_pass_through_one_buffer";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        assert!(alone.args([this, "--exact"]).env(ALONE, "1").status().unwrap().success());
        return;
    }
    let rows = 10_000_000;
    let columns = Columns {
        time: "time".into(),
        time_of_day: None,
        labels: vec!["g".into()],
        person: None,
        value: Some("v".into()),
        filter: Vec::new(),
    };
    let (layout, options, cancelled) = (ColumnLayout::new(&columns), ReadOptions::default(), AtomicBool::new(false));
    let mut sum = 0;
    let mut visit = |event: &Event<'_>| -> Result<()> {
        sum += event.multiple_of("0.5".parse().unwrap())?.unwrap();
        Ok(())
    };
    let source = Box::new(ManyLines { left: rows, pending: b"time,g,v\n".to_vec() });
    let before = resident_kib();
    let open = Some(Open::csv("many", source, &options, layout.names()).unwrap());
    let (wanted, sources) = (layout.names().to_vec(), Vec::new());
    let pieces = InputPieces { wanted, options: &options, progress: &(), stopped: &cancelled, sources, open };
    let mut events = Events::new(layout, pieces);
    while events.next_batch(&mut visit).unwrap() {}
    assert_eq!(events.summary().rows, rows);
    assert_eq!(sum, 25 * rows as i64);
    if let (Some(before), Some(after)) = (before, resident_kib()) {
        // All ten million rows would take 300 MB.
        assert!(after < before + 20 * 1024, "{before} KiB became {after} KiB");
    }
}

fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A frame of zstd without content, which parallel compressors use for their own numbers.
fn skippable(kind: u8, contents: &[u8]) -> Vec<u8> {
    [&[0x50 + kind, 0x2a, 0x4d, 0x18], &(contents.len() as u32).to_le_bytes()[..], contents].concat()
}

/// Several frames, empty frames and skippable frames, in any order, are one file.
#[test]
fn zstd_has_any_frames() {
    let fixture = Fixture::new().columns("time", &[], None, None);
    let (first, second) = (zst(b"time\n2024-01-01\n2024-0"), zst(b"1-02\n"));
    let (skipped, empty) = (skippable(0, b"numbers"), zst(b""));
    for frames in [
        vec![&first, &second],
        vec![&skipped, &first, &second],
        vec![&first, &skipped, &second],
        vec![&empty, &first, &empty, &second, &empty],
        vec![&first, &second, &skipped],
    ] {
        let path = fixture.file("events", &frames.into_iter().flatten().copied().collect::<Vec<u8>>());
        assert_eq!(fixture.read(&[path]).unwrap().len(), 2);
    }
    let several = [skippable(15, &[0; 100_000]), skippable(7, b""), first, second].concat();
    assert_eq!(fixture.read(&[fixture.file("events", &several)]).unwrap().len(), 2);
    let parquet = parquet_of(vec![("time", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    let packed = [skipped, zst(&parquet[..20]), zst(&parquet[20..])].concat();
    assert_eq!(fixture.read(&[fixture.file("events", &packed)]).unwrap().len(), 1);
}
