//! Compares any number of threads and any size of blocks with events that are pushed one at a time.

use std::fmt::Write;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use evertally::noise::{GuardedKey, TestSeed};
use evertally::number::Grid;
use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Epsilon, Unit, Values};
use evertally_declare::error::Place;
use evertally_declare::event::Columns;
use evertally_declare::groups::GroupTable;
use evertally_declare::settings::{Closing, Labels, Settings};
use evertally_declare::steps::{Horizon, Instant, Periods, StepCalendar, TimeFormat, Zone};
use evertally_declare::stream::{Late, OutOfBounds, Outside, Refusable, SortLimit, Stream};
use evertally_ledger::ledger::Ledger;
use evertally_publish::session::RunningSums;

use super::super::ReadOptions;
use super::super::tests::golden::parquet_of;
use super::super::tests::gzip;
use super::super::xlsx::tests::{Book, texts};
use super::*;
use evertally_declare::format::Format;

const STEPS: u64 = 48;

fn columns() -> Columns {
    let named = |name: &str| Some(name.to_owned());
    Columns {
        time: "time".into(),
        time_of_day: None,
        labels: vec!["group".into()],
        person: named("person"),
        value: named("value"),
        filter: Vec::new(),
    }
}

/// Hourly steps from 2024 on; at most three events per person, at most two of them in one hour, with values from -5 to
/// 5.
fn stream(sort_buffer: usize, refusable: Refusable) -> Stream {
    let start = Instant::from_micros(1_704_067_200_000_000);
    let calendar = StepCalendar::new(start, Horizon::Steps(STEPS), "1h".parse().unwrap(), Zone::utc()).unwrap();
    let values = Values::Sum { lower: -5, upper: 5 };
    let request = PlanRequest::count(STEPS, Budget::Pure(Epsilon::new(1.0).unwrap()));
    let unit = Unit::person(3).per_step(2);
    let plan = request.with_unit(unit).with_values(values).with_grid(Grid::ONE).plan().unwrap();
    let settings = Settings {
        name: "test".parse().unwrap(),
        title: "test".into(),
        columns: columns(),
        ids: Default::default(),
        time_format: TimeFormat::Auto,
        century_from: None,
        date_only: Default::default(),
        calendar,
        published: None,
        kept: unit,
        assertion: None,
        unit_name: None,
        periods: Periods::default(),
        last_step: STEPS,
        values,
        out_of_bounds: OutOfBounds::Clamp,
        missing: refusable,
        outside: if refusable == Refusable::Skip { Outside::Skip } else { Outside::Refuse },
        unknown_group: refusable,
        sort_buffer: SortLimit::Events(sort_buffer),
        missing_text: Vec::new(),
        numbers: Default::default(),
        filter: None,
        closing: Closing::Through,
        labels: Labels::None,
        request: plan.request().clone(),
        measures: Default::default(),
        late: Late::Refuse,
        confidence: 0.95,
        band: Default::default(),
        views: Vec::new(),
    };
    settings.planned(plan).unwrap()
}

/// The result of a run: the sums of every step and the totals read, or the error.
type Outcome = Result<(Vec<Vec<i64>>, Summary), String>;

/// Runs over files, by `feed` with these options or, without `feeds`, by pushing one event at a time.
fn run(stream: &Stream, sources: &[PathBuf], options: &ReadOptions, feeds: bool) -> Outcome {
    match feeds {
        true => run_aside(stream, sources, options, None),
        false => run_of(stream, sources, options, None),
    }
}

/// A run in which rows that cannot be read go to a sink.
fn run_aside(stream: &Stream, sources: &[PathBuf], options: &ReadOptions, sink: Option<BadRowSink<'_>>) -> Outcome {
    run_of(stream, sources, options, Some(sink))
}

/// Feeds all events in threads if there may be a sink, and pushes them one by one otherwise.
fn run_of(
    stream: &Stream,
    sources: &[PathBuf],
    options: &ReadOptions,
    feeds: Option<Option<BadRowSink<'_>>>,
) -> Outcome {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(5));
    let groups =
        GroupTable::from_names(vec!["group".into()], ["a", "b"].map(str::to_owned).to_vec(), None, Default::default())
            .unwrap();
    let mut session = Session::new_sums(stream.clone(), Some(groups), &key, &Ledger::in_memory(&key)).unwrap();
    let mut sums = Vec::new();
    let mut due = |session: &mut Session<RunningSums>| -> Result<()> {
        while let Some(step) = session.next_step()? {
            sums.push(step.unsafe_exact_sums().to_vec());
        }
        Ok(())
    };
    let cancelled = AtomicBool::new(false);
    let read = || -> Result<Summary> {
        let mut events = Events::from_files(sources, &stream.columns, options, &(), &cancelled)?;
        let summary = match feeds {
            Some(sink) => events.without_bad_rows(sink).feed(&mut session, &mut due)?,
            None => {
                while events.next_batch::<PipelineError>(&mut |event| {
                    session.push(event)?;
                    due(&mut session)
                })? {}
                events.summary()
            }
        };
        session.close_through(STEPS)?;
        due(&mut session)?;
        Ok(summary)
    };
    let read = read().map_err(|error| error.to_string())?;
    Ok((sums, read))
}

/// The rows of the good file: in order of time, of 20 persons, over all hours and some beyond the horizon.
fn rows() -> Vec<[String; 4]> {
    let row = |number: usize| {
        let (day, hour, minute) = (1 + number / 960, number / 40 % 24, number % 40);
        let time = format!("2024-01-0{day}T{hour:02}:{minute:02}:00Z");
        let person = format!("p{}", number * number % 21);
        [time, ["a", "b"][number % 2].to_owned(), person, (number as i64 % 15 - 7).to_string()]
    };
    (0..2100).map(row).collect()
}

fn csv(rows: &[[String; 4]], end: &str) -> Vec<u8> {
    let mut text = format!("time,group,person,value{end}");
    rows.iter().for_each(|row| write!(text, "{}{end}", row.join(",")).unwrap());
    text.into_bytes()
}

fn json(rows: &[[String; 4]]) -> Vec<u8> {
    let mut text = String::new();
    for [time, group, person, value] in rows {
        let fields = format!("\"time\":\"{time}\",\"group\":\"{group}\",\"person\":\"{person}\",\"value\":{value}");
        writeln!(text, "{{{fields}}}").unwrap();
    }
    text.into_bytes()
}

fn parquet(rows: &[[String; 4]]) -> Vec<u8> {
    let text = |at: usize| Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row[at]))) as ArrayRef;
    let values = Int64Array::from_iter_values(rows.iter().map(|row| row[3].parse().unwrap()));
    parquet_of(vec![("time", text(0)), ("group", text(1)), ("person", text(2)), ("value", Arc::new(values))])
}

/// A workbook with times as texts, and values as numbers.
fn workbook(rows: &[[String; 4]]) -> Vec<u8> {
    let mut sheet = texts(1, &["time", "group", "person", "value"]);
    for (number, row) in rows.iter().enumerate() {
        let value = format!("<c><v>{}</v></c></row>", row[3]);
        sheet += &texts(number as u32 + 2, &[&row[0], &row[1], &row[2]]).replace("</row>", &value);
    }
    Book::of(&sheet)
}

/// The good rows with some row changed.
fn with(at: usize, change: impl Fn(&mut [String; 4])) -> Vec<[String; 4]> {
    let mut rows = rows();
    change(&mut rows[at]);
    rows
}

/// Files by name: good ones, and all kinds of bad ones.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let good = rows();
    let within: Vec<[String; 4]> = good.iter().filter(|row| row[0].as_str() < "2024-01-03").cloned().collect();
    let (plain, crlf) = (csv(&within, "\n"), csv(&within, "\r\n"));
    let quoted: Vec<[String; 4]> = within
        .iter()
        .enumerate()
        .map(|(number, row)| {
            let mut row = row.clone();
            row[2] = match number % 7 {
                0 => format!("\"two\nlines, {} \"\"and\"\" quotes\"", row[2]),
                1 => format!("\"{}\"", row[2]),
                2 => format!("{}\"\"", row[2]),
                3 => format!("\"\r\n{}\r\n\"", row[2]),
                _ => row[2].clone(),
            };
            row
        })
        .collect();
    let bytes = |at: usize, text: &[u8]| {
        let mut plain = csv(&within, "\n");
        plain.splice(at..at, text.iter().copied());
        plain
    };
    vec![
        ("plain", plain.clone()),
        ("crlf", crlf),
        ("bom", [b"\xef\xbb\xbf", &plain[..]].concat()),
        ("gzip", gzip(&plain)),
        ("no end", plain[..plain.len() - 1].to_vec()),
        ("quotes", csv(&quoted, "\n")),
        ("quotes, crlf", csv(&quoted, "\r\n")),
        ("quotes, no end", csv(&quoted, "\n")[..csv(&quoted, "\n").len() - 1].to_vec()),
        ("blank lines", bytes(24, b"\n\r\n\n")),
        ("blank lines first", [b"\n\r\n\n", &plain[..]].concat()),
        ("empty", Vec::new()),
        ("header", b"time,group,person,value\n".to_vec()),
        ("header, no end", b"time,group,person,value".to_vec()),
        ("beyond the horizon", csv(&good, "\n")),
        ("unsorted", csv(&with(1500, |row| row[0] = "2024-01-01T03:00:00Z".into()), "\n")),
        ("a little unsorted", csv(&with(81, |row| row[0] = "2024-01-01T01:59:00Z".into()), "\n")),
        ("unsorted, quotes", csv(&quoted.iter().rev().cloned().collect::<Vec<_>>(), "\n")),
        ("bad time", csv(&with(1234, |row| row[0] = "2024-01-32".into()), "\n")),
        ("bad value", csv(&with(700, |row| row[3] = "seven".into()), "\n")),
        ("unknown group", csv(&with(900, |row| row[1] = "c".into()), "\n")),
        ("nobody", csv(&with(3, |row| row[2] = String::new()), "\n")),
        ("ragged", csv(&with(1100, |row| row[2] = "x,y".into()), "\n")),
        ("not utf-8", bytes(30_000, b"\xfc")),
        ("unclosed", bytes(plain.len() - 400, b"\n2024-01-01T03:00:00Z,a,\"b,1\n")),
        ("unclosed early", bytes(24, b"2024-01-01,a,\"b,1\n")),
        ("behind a quote", bytes(24 + 40 * 30, b"\n2024-01-01,a,\"b\"x,1\n")),
        ("two faults", csv(&with(5, |row| row[3] = "x".into()), "\n").repeat(2)),
        ("json", json(&within)),
        ("json, no end", json(&within)[..json(&within).len() - 1].to_vec()),
        ("json, beyond", json(&good)),
        ("json, unsorted", json(&with(1500, |row| row[0] = "2024-01-01T03:00:00Z".into()))),
        ("json, bad", [&json(&within)[..], b"{\"time\":1,}\n"].concat()),
        ("json, misspelt", String::from_utf8(json(&within)).unwrap().replace("person", "persons").into_bytes()),
        ("parquet", parquet(&within)),
        ("workbook", workbook(&within)),
        ("workbook, bad", workbook(&with(1234, |row| row[0] = "2024-01-32".into()))),
        ("parquet, bad", parquet(&with(1234, |row| row[0] = "2024-01-32".into()))),
        ("parquet, unsorted", parquet(&with(1500, |row| row[0] = "2024-01-01T03:00:00Z".into()))),
    ]
}

#[test]
fn threads_and_blocks_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let many: Vec<ReadOptions> = [(1, 1 << 18), (2, 1), (2, 977), (3, 64), (7, 5000), (3, 1 << 18)]
        .map(|(threads, block_bytes)| ReadOptions {
            threads: NonZero::new(threads),
            block_bytes,
            ..ReadOptions::default()
        })
        .into();
    let (mut good, mut bad) = (0, 0);
    for (name, bytes) in files() {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        for (sort_buffer, refusable) in [(0, Refusable::Skip), (30, Refusable::Skip), (0, Refusable::Refuse)] {
            let stream = stream(sort_buffer, refusable);
            let sources = [path.clone()];
            let one = run(&stream, &sources, &ReadOptions::default(), false);
            match &one {
                Ok((sums, _)) => good += usize::from(sums.len() == STEPS as usize),
                Err(_) => bad += 1,
            }
            for options in &many {
                let (threads, bytes) = (options.threads, options.block_bytes);
                // One byte at a time is slow, so only for the interesting cases.
                if bytes == 1 && (sort_buffer > 0 || !name.contains("quote")) {
                    continue;
                }
                assert_eq!(run(&stream, &sources, options, true), one, "{name}, {threads:?} threads, {bytes} bytes");
            }
        }
    }
    assert!(good > 40 && bad > 40, "{good} good and {bad} bad runs");
}

/// Rows that cannot be read are set aside in the order of the files, whatever the number of threads, and the sums are
/// those of the other rows.
#[test]
fn rows_that_cannot_be_read_are_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let mut rows: Vec<[String; 4]> = rows().into_iter().filter(|row| row[0].as_str() < "2024-01-03").collect();
    let good = rows.clone();
    let spoilt = [40, 41, 700, 1100];
    for at in spoilt {
        match at {
            40 => rows[at][3] = "x".into(),
            700 => rows[at][0] = "never".into(),
            _ => rows[at][2] = "\"a, b\",c".into(),
        }
    }
    let kept: Vec<[String; 4]> =
        good.iter().enumerate().filter(|(at, _)| !spoilt.contains(at)).map(|(_, row)| row.clone()).collect();
    let (bad, clean) = (path("bad", &csv(&rows, "\n")), path("clean", &csv(&kept, "\n")));
    let stream = stream(0, Refusable::Refuse);
    let (wanted, _) = run(&stream, &[clean], &ReadOptions::default(), true).unwrap();
    for (threads, block_bytes) in [(1, 100), (2, 100), (7, 1 << 18)] {
        let options = ReadOptions { threads: NonZero::new(threads), block_bytes, ..ReadOptions::default() };
        let mut aside = Vec::new();
        let sink: BadRowSink<'_> = Box::new(|row| {
            aside.push(row);
            Ok(())
        });
        let (sums, _) = run_aside(&stream, std::slice::from_ref(&bad), &options, Some(sink)).unwrap();
        assert_eq!(sums, wanted, "{threads} threads");
        let shown: Vec<_> = aside.iter().map(|row| (row.place.unwrap(), row.column.as_deref(), &row.row)).collect();
        let line = |at: usize| Place::Line(at as u64 + 2);
        let text = |at: usize| rows[at].join(",");
        let texts = spoilt.map(text);
        let columns = [Some("value"), None, Some("time"), None];
        assert_eq!(shown, [0, 1, 2, 3].map(|n| (line(spoilt[n]), columns[n], &texts[n])));
    }
}

/// The first error in the order of the files is reported, and several files form one input.
#[test]
fn files_are_read_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let rows = rows();
    let (first, second) = (path("1", &csv(&rows[..900], "\n")), path("2", &json(&rows[900..1900])));
    let third = path("3", &parquet(&rows[1900..1910]));
    let (bad, absent) = (path("4", b"time,group,person,value\n2024-01-02,a,b,x\n"), folder.path().join("5"));
    let stream = stream(0, Refusable::Refuse);
    let orders = [
        vec![first.clone(), second.clone(), third.clone()],
        vec![first.clone(), second.clone(), bad.clone(), absent.clone()],
        vec![first.clone(), absent, bad.clone()],
        vec![second.clone(), first.clone()],
        vec![third, second, bad],
    ];
    for sources in orders {
        let one = run(&stream, &sources, &ReadOptions::default(), false);
        for (threads, block_bytes) in [(1, 100), (2, 100), (7, 1 << 18)] {
            let options = ReadOptions { threads: NonZero::new(threads), block_bytes, ..ReadOptions::default() };
            assert_eq!(run(&stream, &sources, &options, true), one, "{threads} threads");
        }
    }
}

/// An error in the first rows ends the run even though the pipe stays open without more data.
#[cfg(unix)]
#[test]
fn a_refusal_does_not_wait_for_a_silent_pipe() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (hold, held) = mpsc::channel::<()>();
    let writer = path.clone();
    let writing = std::thread::spawn(move || {
        let mut file = std::fs::OpenOptions::new().write(true).open(writer).unwrap();
        // Detection of the format needs this many bytes.
        let more = "2024-01-01T00:30,a,b,1\n".repeat(500);
        file.write_all(format!("time,group,person,value\n2024-01-01T00:30,a,b,x\n{more}").as_bytes()).unwrap();
        let _ = held.recv();
    });
    let options = ReadOptions { threads: NonZero::new(2), format: Some(Format::Csv), ..ReadOptions::default() };
    let error = run(&stream(0, Refusable::Refuse), &[path], &options, true).unwrap_err();
    assert!(error.contains("line 2, column `value`"), "{error}");
    drop(hold);
    writing.join().unwrap();
}

/// After the flag is raised only a few rows are consumed, and the run ends as cancelled.
#[test]
fn cancellation_ends_all_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    std::fs::write(&path, csv(&rows()[..1900], "\n")).unwrap();
    let stream = stream(0, Refusable::Skip);
    let key = GuardedKey::insecure_from_test_seed(TestSeed(5));
    for threads in [1, 2, 5] {
        let options = ReadOptions { threads: NonZero::new(threads), block_bytes: 1000, ..ReadOptions::default() };
        let mut session = Session::new_sums(stream.clone(), None, &key, &Ledger::in_memory(&key)).unwrap();
        let (cancelled, mut steps) = (AtomicBool::new(false), 0);
        let events =
            Events::from_files(std::slice::from_ref(&path), &stream.columns, &options, &(), &cancelled).unwrap();
        let fed = events.feed::<_, PipelineError>(&mut session, &mut |session| {
            while session.next_step()?.is_some() {
                steps += 1;
            }
            cancelled.store(true, Ordering::Relaxed);
            Ok(())
        });
        assert!(fed.unwrap_err().is_cancelled() && steps < 10, "{threads} threads, {steps} steps");
    }
}
