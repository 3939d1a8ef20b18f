//! The pipelines that are replayed: whole runs, from files to files.

use super::rows::{FileFormat, Row, write_file};
use evertally::noise::{GuardedKey, SecretKey, TestSeed};
use evertally_declare::declaration::{Declaration, DeclaredGroups, TableFormat};
use evertally_declare::error::{PipelineError, failure, usage};
use evertally_ledger::ledger::{Ledger, LedgerStore, MemoryStore};
use evertally_publish::report::{ReleaseKind, Report};
use evertally_publish::session::{Leg, RunRecord, RunningSums, Session};
use evertally_tables::input::{Events, InputFormat, ReadOptions};
use evertally_tables::output::{OutputFormat, TableSpec, TableWriter};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// A stream as declared, and its runs.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The declaration; `through` is set by the runs.
    pub declaration: Declaration,
    /// The format of the files.
    pub format: FileFormat,
    /// The runs, one after another under one key and ledger.
    pub runs: Vec<Run>,
    /// Whether each run continues the previous one, and reads only the new files.
    pub continues: bool,
    /// Whether continuing runs also get a file that was already read.
    pub repeats: bool,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The run reads the files before this one.
    pub files: usize,
    /// The run publishes the steps that end by this time; all steps for `None`.
    pub through: Option<String>,
    /// The declared groups of this run, if others join later.
    pub groups: Option<DeclaredGroups>,
}

/// The output of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The message of a refusal.
    pub refusal: Option<String>,
    /// The released table, row by row.
    pub table: Vec<TableRow>,
    /// Everything else on disk afterwards, with digests masked.
    pub files: BTreeMap<String, String>,
}

/// A row of a released table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// The step.
    pub step: u64,
    /// All cells except those that depend on the value, joined.
    pub fixed: String,
    /// The group.
    pub group: String,
    /// The value in hundred-millionths.
    pub value: i128,
}

/// Anything that makes tables from files.
pub trait Pipeline {
    /// Runs a stream over files, as often as declared, under a new ledger of always the same key.
    fn publish(&self, stream: &Declared, files: &[Vec<Row>]) -> Vec<Outcome>;
}

/// Data-dependent parts of refusals: each is documented under "Error messages show data" in the threat model, and
/// nothing else may make a run end differently for a neighbour.
pub const REFUSALS: [&str; 9] = [
    "is outside the horizon",
    "is not a declared group",
    "the event names no person",
    "the event has no value",
    "is outside the bounds",
    "belongs to a step that a later event has closed",
    "belongs to a step that an earlier run has closed",
    "the event has no item",
    "the event has no group",
];

/// The work of a front end, in this process: it resolves and plans a declaration, reads files and pushes them into a
/// session, takes due steps as rows, and records them before anyone sees them.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess;

impl Pipeline for InProcess {
    fn publish(&self, stream: &Declared, files: &[Vec<Row>]) -> Vec<Outcome> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |number: usize| folder.path().join(format!("{number}.{}", stream.format.ending()));
        let paths: Vec<PathBuf> = (0..files.len()).map(path).collect();
        paths.iter().zip(files).for_each(|(path, rows)| write_file(path, stream.format, rows));
        let key = GuardedKey::insecure_from_test_seed(TestSeed(12));
        let store = MemoryStore::default();
        drop(Ledger::create(store.clone(), &key).expect("a new ledger"));
        let (mut read, mut rows) = (0, Vec::new());
        let of_run = |run: &Run| {
            let mut declaration = stream.declaration.clone();
            declaration.through = run.through.clone();
            let new = if stream.continues { read..run.files } else { 0..run.files };
            let mut ledger = Ledger::open(store.clone(), &key).expect("the ledger that was created");
            let mut outcome = match one_run(&declaration, stream, &paths[new], &key, &mut ledger) {
                Ok(published) => published,
                Err(error) => {
                    let said = error.to_string().replace(&folder.path().display().to_string(), "FOLDER");
                    Outcome { refusal: Some(said), ..Outcome::default() }
                }
            };
            if stream.continues && outcome.refusal.is_none() {
                read = run.files;
                rows.append(&mut outcome.table);
                outcome.table.clone_from(&rows);
            }
            drop(ledger);
            let kept = store.clone().load().expect("memory").expect("the ledger that was created");
            outcome.files.insert("ledger".into(), public_ledger(&String::from_utf8_lossy(&kept)));
            outcome
        };
        stream.runs.iter().map(of_run).collect()
    }
}

fn one_run(
    declaration: &Declaration,
    declared: &Declared,
    paths: &[PathBuf],
    key: &SecretKey,
    ledger: &mut Ledger,
) -> Result<Outcome, PipelineError> {
    let (settings, _) = declaration.resolve()?.begun(ledger)?;
    let (stream, groups) = evertally_ledger::planner::plan(settings, &mut |_| ())?;
    let mut session = match ledger.state(&stream.name)? {
        Some(state) if declared.continues => {
            let leg = Leg { last_step: stream.last_step, stream: stream.clone(), groups: groups.clone() };
            Session::resume(leg, key, ledger, &state)?
        }
        _ => Session::of_sums(stream.clone(), groups.clone(), key, ledger)?,
    };
    if declared.continues {
        session = session.that_goes_on();
    }
    let spec = TableSpec::of_stream(&stream).map_err(usage)?;
    let mut table = TableWriter::new(OutputFormat::Csv, &spec, Vec::new())?;
    let word = match declared.format {
        FileFormat::Csv => TableFormat::Csv,
        FileFormat::JsonLines => TableFormat::JsonLines,
        FileFormat::Parquet => TableFormat::Parquet,
    };
    let options = ReadOptions { format: Some(InputFormat::from(word)), ..ReadOptions::default() };
    let running = AtomicBool::new(false);
    let mut take = |session: &mut Session<RunningSums>| -> Result<(), PipelineError> {
        while let Some(mut step) = session.next_step()? {
            step.for_each_row(|_, row| table.write(row))?;
        }
        Ok(())
    };
    let mut events = Events::of_files(paths, &stream.columns, &options, &(), &running)?;
    while events.next_batch::<PipelineError>(&mut |event| {
        session.push(event)?;
        take(&mut session)
    })? {}
    session.close_through(stream.last_step)?;
    take(&mut session)?;
    if declared.continues {
        session.record_continued(ledger, RunRecord::default())?;
    } else {
        session.record(ledger)?;
    }
    let released = groups.map_or(ReleaseKind::Sum, |groups| ReleaseKind::Groups(groups.facts()));
    let report = Report::new(&stream, key, released);
    let files = BTreeMap::from([
        ("plan.toml".to_owned(), toml::to_string_pretty(&stream.plan).map_err(failure)?),
        ("report.json".to_owned(), serde_json::to_string_pretty(&report).map_err(failure)?),
        ("report.md".to_owned(), report.markdown()),
    ]);
    let table = String::from_utf8(table.finish()?).map_err(failure)?;
    Ok(Outcome { refusal: None, table: TableRow::all_of(&table), files })
}

/// Measures that are not linear functions of noisy sums.
const COMPOSED: [&str; 4] = ["mean", "variance", "std", "quantile"];

impl TableRow {
    /// The rows of a table in CSV without quotes.
    ///
    /// # Panics
    /// If the text is not such a table.
    pub fn all_of(csv: &str) -> Vec<Self> {
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().expect("a header");
        let at = |name: &str| header.iter().position(|column| *column == name).expect("a column of releases");
        let (step, value, std_error) = (at("step"), at("value"), at("std_error"));
        let hidden = [value, at("lower"), at("upper")];
        let own = |column: usize| !hidden.contains(&column) && column != step && column != std_error;
        lines
            .map(|cells| {
                assert_eq!(cells.len(), header.len(), "a table without quotes");
                // A value computed from several noisy values has an error that depends on them.
                let is_composed = cells.iter().any(|cell| COMPOSED.iter().any(|name| cell.starts_with(name)));
                let join = |wanted: &dyn Fn(usize) -> bool| {
                    let kept = cells.iter().enumerate().filter(|(column, _)| wanted(*column));
                    kept.map(|(_, cell)| *cell).collect::<Vec<_>>().join(",")
                };
                Self {
                    step: cells[step].parse().expect("a step"),
                    fixed: join(&|column| !(hidden.contains(&column) || is_composed && column == std_error)),
                    group: join(&|column| own(column) && header[column] != "time" && header[column] != "end"),
                    value: hundred_millionths(cells[value]),
                }
            })
            .collect()
    }
}

/// A decimal number in hundred-millionths; further digits are cut off, and an empty cell is 0.
pub(super) fn hundred_millionths(text: &str) -> i128 {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = &fraction[..fraction.len().min(8)];
    sign * format!("0{whole}{fraction:0<8}").parse::<i128>().unwrap_or_else(|_| panic!("{text} is not decimal"))
}

/// A ledger without the parts that differ from run to run, without its data about the files that were read (including
/// which of them are equal), and without its data about written files: their lengths, and digests of data, which are
/// runs of at least 32 hexadecimal digits.
pub(super) fn public_ledger(text: &str) -> String {
    let hidden = ["\"at\":", "\"bytes\":", "\"behind\":"];
    let mut in_files = false;
    let lines = text.lines().map(str::trim).filter(|line| {
        in_files |= line.starts_with("\"files\":");
        let is_hidden = in_files || hidden.iter().any(|name| line.starts_with(name));
        in_files &= !line.starts_with(']');
        !is_hidden
    });
    let mut out = String::new();
    let mut digits = String::new();
    for letter in lines.flat_map(|line| line.chars().chain(['\n'])) {
        if letter.is_ascii_hexdigit() {
            digits.push(letter);
        } else {
            out += if digits.len() >= 32 { "#" } else { &digits };
            digits.clear();
            out.push(letter);
        }
    }
    out
}
