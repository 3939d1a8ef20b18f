//! Every reader needs little memory for small inputs that expand to large ones: each is read in a separate process that
//! has 512 MiB.
#![cfg(target_os = "linux")]

// The inputs are made by the tests' own crate, which this one cannot depend on.
#[allow(dead_code, unreachable_pub)]
#[path = "../../testkit/src/bombs.rs"]
mod bombs;
mod workbook;

use bombs::Bomb;
use evertally_declare::error::{PipelineError, Result};
use evertally_declare::event::Columns;
use evertally_tables::input::{ArrowStream, DEFAULT_MEMORY, Events, ReadOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// The path and format of the reader process's input.
const INPUT: &str = "EVERTALLY_TEST_INPUT";
const FORMAT: &str = "EVERTALLY_TEST_FORMAT";

/// In KiB, including reserved memory.
const MEMORY: &str = "524288";

/// Reads all events, and returns their number.
fn read(path: &Path, format: &str) -> Result<u64> {
    let columns = Columns {
        time: "time".into(),
        time_of_day: None,
        labels: Vec::new(),
        person: Some("person".into()),
        value: None,
        filter: Vec::new(),
    };
    let (options, running) = (ReadOptions::default(), AtomicBool::new(false));
    let mut bytes = 0;
    let mut visit = |event: &evertally_declare::event::Event<'_>| {
        bytes += event.person().text(&mut String::new()).map_or(0, str::len);
        Ok(())
    };
    if !format.contains("arrow") {
        let mut events = Events::from_files(&[PathBuf::from(path)], &columns, &options, &(), &running)?;
        while events.next_batch::<PipelineError>(&mut visit)? {}
        return Ok(events.summary().rows);
    }
    let file = flate2::read::GzDecoder::new(std::fs::File::open(path)?);
    let table = ArrowStream::new(file, DEFAULT_MEMORY);
    let mut table = table.map_err(|error| evertally_declare::error::usage(error.to_string()))?;
    let mut events = Events::from_table(&mut table, &columns, &options, &running)?;
    while events.next_batch::<PipelineError>(&mut visit)? {}
    Ok(events.summary().rows)
}

/// The work of the reader process; does nothing if no input is named.
#[test]
fn reads_its_input() {
    let (Some(path), Ok(format)) = (std::env::var_os(INPUT), std::env::var(FORMAT)) else { return };
    match read(Path::new(&path), &format) {
        Ok(rows) => println!("read {rows} rows"),
        Err(error) => println!("refused: {error}"),
    }
}

/// Workbooks, which services do not read.
fn workbooks() -> Vec<Bomb> {
    const HEADER: &str = r#"<row><c t="str"><v>time</v></c><c t="str"><v>person</v></c></row>"#;
    const ROW: &str = r#"<row><c t="str"><v>2026-01-01</v></c><c><v>17</v></c></row>"#;
    let text = format!("<si><t>{}</t></si>", "x".repeat(10_000));
    let shared = format!("<row>{}</row>", r#"<c t="s"><v>0</v></c>"#.repeat(15_000));
    let of = |name, strings: workbook::Part<'_>, rows: workbook::Part<'_>, is_readable| Bomb {
        name,
        format: "",
        coding: None,
        bytes: workbook::workbook(strings, &[&[(HEADER, 1)], rows].concat()),
        is_readable,
    };
    vec![
        of("workbook: many rows", &[], &[(ROW, 2_500_000)], true),
        of("workbook: many rows without cells", &[], &[("<row/>", 5_000_000)], true),
        of("workbook: long shared texts", &[(&text, 40_000)], &[(ROW, 1)], false),
        of("workbook: many shared texts", &[("<si/>", 18_000_000)], &[(ROW, 1)], false),
        of("workbook: one long shared text", &[("<si><t>", 1), (&text[7..5000], 100_000)], &[(ROW, 1)], false),
        of("workbook: a long text in a cell", &[], &[("<row><c><v>", 1), (&text[7..5000], 100_000)], false),
        of("workbook: a shared text in all cells", &[(&text, 1)], &[(ROW, 1), (&shared, 100)], true),
    ]
}

#[test]
fn small_inputs_take_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    for bomb in bombs::all().into_iter().chain(workbooks()) {
        std::fs::write(&path, &bomb.bytes).unwrap();
        let limited = format!("ulimit -v {MEMORY}; exec \"$0\" --exact reads_its_input --nocapture --test-threads 1");
        let run = Command::new("sh")
            .args(["-c", &limited])
            .arg(std::env::current_exe().unwrap())
            .envs([(INPUT, path.as_os_str()), (FORMAT, bomb.format.as_ref()), ("MALLOC_ARENA_MAX", "1".as_ref())])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        let expected = if bomb.is_readable { "read " } else { "refused: " };
        let line = said.lines().find(|line| line.contains(expected)).unwrap_or_default();
        assert!(
            run.status.success() && !line.is_empty(),
            "{}: {} {said}{}",
            bomb.name,
            run.status,
            String::from_utf8_lossy(&run.stderr)
        );
        eprintln!("{} ({} bytes): {}", bomb.name, bomb.bytes.len(), line.chars().take(200).collect::<String>());
    }
}
