//! Rows per second from a file to the sums of closed steps: by format, with and without persons, by threads.
//!
//! `cargo bench -p evertally-tables --bench reading -- [ROWS] [FOLDER]` writes the files (20 million rows, in order of
//! time over the hours of 2013; 3 groups; a million persons, with 10 events kept for each) into a temporary folder, or
//! into a given one that is kept and reused. It reads each file in a separate process, so that peak memory is measured
//! per file.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant as Clock;

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use evertally::noise::{GuardedKey, TestSeed};
use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Epsilon, Unit, Values};
use evertally_declare::event::Columns;
use evertally_declare::groups::GroupTable;
use evertally_declare::settings::{Closing, Labels, Settings};
use evertally_declare::steps::{Horizon, Instant, Periods, StepCalendar, TimeFormat, Zone};
use evertally_declare::stream::{Late, OutOfBounds, Outside, Refusable, Stream};
use evertally_ledger::ledger::Ledger;
use evertally_publish::session::{RunningSums, Session};
use evertally_tables::input::{Events, ReadOptions};
use parquet::arrow::ArrowWriter;

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROWS: u64 = 20_000_000;
const PERSONS: u64 = 1_000_000;
const KEPT: u64 = 10;
const GROUPS: [&str; 3] = ["EWR", "JFK", "LGA"];
const START: &str = "2013-01-01T00:00:00Z";
const SECONDS: u64 = 365 * 86_400;
const STEPS: u64 = SECONDS / 3600;

/// An event: seconds since the start, group, person.
fn event(number: u64, rows: u64) -> (u64, &'static str, u64) {
    let scrambled = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number << 17;
    let seconds = (u128::from(number) * u128::from(SECONDS) / u128::from(rows)) as u64;
    (seconds, GROUPS[(scrambled >> 40) as usize % GROUPS.len()], (scrambled >> 20) % PERSONS)
}

fn start() -> i64 {
    let start: jiff::Timestamp = START.parse().expect("a valid time");
    start.as_second()
}

fn write_text(path: &Path, rows: u64, is_json: bool) -> Outcome<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    if !is_json {
        writeln!(out, "time,origin,person")?;
    }
    let (mut day, mut date) = (u64::MAX, String::new());
    for number in 0..rows {
        let (seconds, group, person) = event(number, rows);
        if seconds / 86_400 != day {
            day = seconds / 86_400;
            let midnight = jiff::Timestamp::from_second(start() + (day * 86_400) as i64)?;
            date = midnight.to_string()[..10].to_owned();
        }
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        match is_json {
            false => writeln!(out, "{date}T{hour:02}:{minute:02}:{second:02}Z,{group},{person}")?,
            true => writeln!(
                out,
                "{{\"time\":\"{date}T{hour:02}:{minute:02}:{second:02}Z\",\"origin\":\"{group}\",\"person\":{person}}}"
            )?,
        }
    }
    Ok(out.flush()?)
}

fn write_parquet(path: &Path, rows: u64) -> Outcome<()> {
    let batch = |numbers: std::ops::Range<u64>| -> Outcome<RecordBatch> {
        let events: Vec<_> = numbers.map(|number| event(number, rows)).collect();
        let times = events.iter().map(|event| (start() + event.0 as i64) * 1_000_000);
        let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
        let groups = StringArray::from_iter_values(events.iter().map(|event| event.1));
        let persons = StringArray::from_iter_values(events.iter().map(|event| event.2.to_string()));
        let columns: [(&str, ArrayRef); 3] =
            [("time", Arc::new(times)), ("origin", Arc::new(groups)), ("person", Arc::new(persons))];
        Ok(RecordBatch::try_from_iter(columns)?)
    };
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch(0..0)?.schema(), None)?;
    for first in (0..rows).step_by(1 << 18) {
        writer.write(&batch(first..rows.min(first + (1 << 18)))?)?;
    }
    writer.close()?;
    Ok(())
}

fn stream(of_persons: bool) -> Outcome<Stream> {
    let start = Instant::from_micros(start() * 1_000_000);
    let calendar = StepCalendar::new(start, Horizon::Steps(STEPS), "1h".parse()?, Zone::utc())?;
    let request = PlanRequest::count(STEPS, Budget::Pure(Epsilon::new(1.0)?));
    let kept = if of_persons { Unit::person(KEPT) } else { Unit::Event };
    let plan = request.with_unit(kept).plan()?;
    let settings = Settings {
        name: "bench".parse()?,
        title: "bench".into(),
        columns: Columns {
            time: "time".into(),
            time_of_day: None,
            labels: vec!["origin".into()],
            person: of_persons.then(|| "person".to_owned()),
            value: None,
            filter: Vec::new(),
        },
        ids: Default::default(),
        time_format: TimeFormat::Auto,
        century_from: None,
        date_only: Default::default(),
        calendar,
        published: None,
        kept,
        assertion: None,
        unit_name: None,
        periods: Periods::default(),
        last_step: STEPS,
        values: Values::Count,
        out_of_bounds: OutOfBounds::Clamp,
        missing: Refusable::Refuse,
        outside: Outside::Refuse,
        unknown_group: Refusable::Refuse,
        missing_text: Vec::new(),
        numbers: Default::default(),
        filter: None,
        closing: Closing::Through,
        labels: Labels::None,
        request: plan.request().clone(),
        measures: Default::default(),
        late: Late::Refuse,
        sort_buffer: Default::default(),
        confidence: 0.95,
        band: Default::default(),
        views: Vec::new(),
    };
    Ok(settings.planned(plan)?)
}

/// Reads a file and prints the time and memory it took.
fn read(path: &Path, of_persons: bool, threads: usize) -> Outcome<()> {
    let stream = stream(of_persons)?;
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    let groups = GroupTable::from_names(
        stream.columns.labels.clone(),
        GROUPS.map(str::to_owned).to_vec(),
        None,
        Default::default(),
    );
    let groups = groups.map_err(|problem| problem.to_string())?;
    let mut session = Session::new_sums(stream.clone(), Some(groups), &key, &Ledger::in_memory(&key))?;
    let options = ReadOptions { threads: NonZero::new(threads), ..ReadOptions::default() };
    let mut counted = 0;
    let mut due = |session: &mut Session<RunningSums>| -> evertally_declare::error::Result<()> {
        while let Some(step) = session.next_step()? {
            counted += step.unsafe_exact_sums().iter().sum::<i64>();
        }
        Ok(())
    };
    let (began, cancelled) = (Clock::now(), AtomicBool::new(false));
    let events = Events::from_files(&[path.to_owned()], &stream.columns, &options, &(), &cancelled)?;
    let rows = events.feed(&mut session, &mut due)?.rows;
    session.close_through(STEPS)?;
    due(&mut session)?;
    let seconds = began.elapsed().as_secs_f64();
    let millions = rows as f64 / 1e6 / seconds;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unit = if of_persons { "persons" } else { "events" };
    let memory = peak_mib().map_or(String::new(), |mib| format!("{mib:6} MiB"));
    println!("| {name} | {unit} | {threads} | {seconds:6.2} s | {millions:5.1} M rows/s | {memory} | {counted} kept |");
    Ok(())
}

/// The peak memory of this process, if the system reports it.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib / 1024)
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [read_, path, unit, threads] = &arguments[..]
        && read_ == "read"
    {
        return read(Path::new(path), unit == "persons", threads.parse()?);
    }
    let rows = arguments.first().map_or(Ok(ROWS), |rows| rows.parse())?;
    let temporary = tempfile::tempdir()?;
    let folder = arguments.get(1).map_or(temporary.path().to_owned(), PathBuf::from);
    let cores = std::thread::available_parallelism()?.get();
    let mut threads = vec![1, 2, cores];
    threads.dedup();
    for name in ["events.csv", "events.jsonl", "events.parquet"] {
        let path = folder.join(name);
        if !path.exists() {
            match name {
                "events.parquet" => write_parquet(&path, rows)?,
                _ => write_text(&path, rows, name.ends_with("jsonl"))?,
            }
        }
        for unit in ["events", "persons"] {
            for threads in &threads {
                let mut alone = Command::new(std::env::current_exe()?);
                let status = alone.arg("read").arg(&path).args([unit, &threads.to_string()]).status()?;
                assert!(status.success(), "reading {name} failed");
            }
        }
    }
    Ok(())
}
