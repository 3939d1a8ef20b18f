//! Rows per second: reading alone, and the whole program from files to table, report and ledger.
//!
//! The program runs as a separate process, as people run it; its start is part of the time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use evertally_declare::error::PipelineError;
use evertally_declare::event::{Columns, Event};
use evertally_tables::input::{ReadOptions, for_each_event};

const ROWS: u64 = 1_000_000;
const FLIGHTS: u64 = 336_776;

/// One event every 7 seconds starting on 2024-01-01: group, person and a value with cents.
fn write_events(path: &Path) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "time,group,person,amount")?;
    let start: jiff::Timestamp = "2024-01-01T00:00:00Z".parse().expect("a valid time");
    for row in 0..ROWS {
        let time = start + jiff::SignedDuration::from_secs(7 * row as i64);
        let (group, person, cents) = (row * row % 5, row * 7919 % 50_000, row * 31 % 10_000);
        writeln!(out, "{time},g{group},p{person},{}.{:02}", cents / 100, cents % 100)?;
    }
    out.flush()
}

fn reading(c: &mut Criterion, events: &Path) {
    let mut group = c.benchmark_group("for_each_event");
    group.throughput(Throughput::Elements(ROWS));
    let named = |name: &str| Some(name.to_owned());
    let time = || Columns { time: "time".to_owned(), ..Columns::default() };
    let all = Columns { labels: vec!["group".to_owned()], person: named("person"), value: named("amount"), ..time() };
    for (name, columns) in [("csv, time", time()), ("csv, four columns", all)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut cells = 0;
                let sources = [events.to_owned()];
                let mut visit = |event: &Event<'_>| {
                    let read = [event.time(), event.person(), event.value()];
                    cells += read.iter().filter(|field| !field.is_missing()).count();
                    Ok::<(), PipelineError>(())
                };
                let (options, running) = (ReadOptions::default(), AtomicBool::new(false));
                for_each_event(&sources, &columns, &options, &(), &running, &mut visit).expect("a readable file");
                cells
            });
        });
    }
}

/// Runs the program in a folder; it must succeed.
fn evertally(folder: &Path, arguments: &[&str]) {
    let program = env!("CARGO_BIN_EXE_evertally");
    let output = Command::new(program).current_dir(folder).args(arguments).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn releasing(c: &mut Criterion, folder: &Path) {
    evertally(folder, &["key", "new", "my.key"]);
    let flights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flights-2013.parquet");
    let flights = flights.to_str().expect("a path in UTF-8");
    let by_origin = ["--group-by", "origin", "--groups", "EWR,JFK,LGA"];
    let year = ["--start", "2013-01-01", "--end", "2014-01-02", "--every", "1h", "--epsilon", "1"];
    let generated = ["--start", "2024-01-01", "--every", "1h", "--steps", "2000", "--epsilon", "1"];
    let sums = ["--value", "amount", "--bounds", "0,100", "--grid", "0.01", "--person", "person", "--max-events", "5"];
    let runs: [(&str, u64, Vec<&str>); 5] = [
        ("flights", FLIGHTS, [&[flights], &year[..], &["--no-plot"]].concat()),
        ("flights by origin", FLIGHTS, [&[flights], &year[..], &by_origin, &["--no-plot"]].concat()),
        ("flights by origin, with picture", FLIGHTS, [&[flights], &year[..], &by_origin].concat()),
        ("csv, counts", ROWS, [&["events.csv"], &generated[..], &["--no-plot"]].concat()),
        ("csv, sums of persons", ROWS, [&["events.csv"], &generated[..], &sums, &["--no-plot"]].concat()),
    ];
    let mut group = c.benchmark_group("release");
    group.sample_size(10);
    for (stream, (name, rows, arguments)) in runs.iter().enumerate() {
        let stream = format!("bench {stream}");
        let common = ["--key", "my.key", "--stream", &stream, "--out", "counts.csv", "--quiet"];
        let arguments = [&["release", "--all"], &arguments[..], &common].concat();
        group.throughput(Throughput::Elements(*rows));
        group.bench_function(*name, |b| b.iter(|| evertally(folder, &arguments)));
    }
}

fn rows(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let events: PathBuf = folder.path().join("events.csv");
    write_events(&events).expect("room for the events");
    reading(c, &events);
    releasing(c, folder.path());
}

fn config() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
}

criterion_group! { name = benches; config = config(); targets = rows }
criterion_main!(benches);
