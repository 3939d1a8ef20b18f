//! Every reader of untrusted bytes, as a function of bytes that must not panic.
//!
//! `fuzz/` makes a libFuzzer target of each; [`mutated`] makes inputs from seeds and a number without such a tool.
//! Where possible, a target checks more than the absence of panics: data that are read and written again must read
//! back as the same, and a restored state must continue.

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use evertally::mechanism::{DensePure, Mechanism};
use evertally::noise::{GuardedKey, SecretKey, StreamName, TestSeed};
use evertally::plan::{Objective, Plan, PlanRequest};
use evertally::privacy::{Budget, Epsilon, Rho};
use evertally::stream::{GroupedSums, Groups, RunningSum};
use evertally_declare::declaration::{Declaration, Written};
use evertally_declare::error::PipelineError;
use evertally_declare::event::{Columns, Event, Field};
use evertally_declare::format::Format;
use evertally_declare::identity::{Identities, Normalisation};
use evertally_declare::records::Records;
use evertally_declare::steps::{TimeFormat, TimeParser, Zone};
use evertally_ledger::keyfile;
use evertally_ledger::ledger::{Ledger, LedgerStore, MemoryStore};
use evertally_tables::input::{ArrowStream, Events, ReadOptions};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// A reader of bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also in `fuzz/`.
    pub name: &'static str,
    /// Reads bytes; panics if a check fails.
    pub run: fn(&[u8]),
    /// Bytes that are valid, or nearly so.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 12] = [
    Target { name: "csv", run: csv, seeds: csv_seeds },
    Target { name: "json_lines", run: json_lines, seeds: json_seeds },
    Target { name: "parquet", run: parquet, seeds: parquet_seeds },
    Target { name: "arrow", run: arrow, seeds: arrow_seeds },
    Target { name: "times", run: times, seeds: time_seeds },
    Target { name: "identities", run: identities, seeds: identity_seeds },
    Target { name: "declarations", run: declarations, seeds: declaration_seeds },
    Target { name: "plans", run: plans, seeds: plan_seeds },
    Target { name: "states", run: states, seeds: state_seeds },
    Target { name: "ledgers", run: ledgers, seeds: ledger_seeds },
    Target { name: "keys", run: keys, seeds: key_seeds },
    Target { name: "searched", run: searched, seeds: searched_seeds },
];

/// Runs a target by its name.
///
/// # Panics
/// If there is no such target, or if the target finds a fault.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("the name of a target");
    (target.run)(bytes);
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn example(name: &str, most: usize) -> Vec<u8> {
    let mut bytes = std::fs::read(examples().join(name)).unwrap_or_default();
    bytes.truncate(most);
    bytes
}

fn text(seed: &str) -> Vec<u8> {
    seed.as_bytes().to_vec()
}

/// A file path in a folder of this process.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder"));
    let path = folder.path().join(format!("{name}-{:?}", std::thread::current().id()));
    std::fs::write(&path, bytes).expect("written");
    path
}

/// The columns to read.
fn columns() -> Columns {
    let named = |name: &str| Some(name.to_owned());
    Columns {
        time: "time".into(),
        time_of_day: None,
        labels: vec!["origin".into()],
        person: named("tailnum"),
        value: named("dep_delay"),
        filter: Vec::new(),
    }
}

/// Reads a file, and returns the number of rows before the error.
fn read(name: &str, format: Option<Format>, bytes: &[u8]) -> (u64, Option<PipelineError>) {
    let path = file(name, bytes);
    let columns = columns();
    let options = ReadOptions { format, missing: vec!["NA".into()], ..ReadOptions::default() };
    let running = AtomicBool::new(false);
    let mut parser = TimeParser::new(TimeFormat::Auto, Zone::utc());
    let mut rows = 0;
    let read = || -> Result<(), PipelineError> {
        let mut events = Events::from_files(&[path], &columns, &options, &(), &running)?;
        while events.next_batch::<PipelineError>(&mut |event| {
            let _ = parser.parse_event(event);
            let _ = event.multiple_of("0.01".parse().expect("a grid"));
            let _ = format!("{event:?}");
            rows += 1;
            Ok(())
        })? {}
        Ok(())
    };
    let error = read().err();
    if let Some(error) = &error {
        assert!(error.is_usage() || error.io().is_some(), "{error} is neither a usage error nor an I/O error");
        assert!(error.to_string().len() < 4096, "too long an error");
    }
    (rows, error)
}

fn csv(bytes: &[u8]) {
    let (rows, error) = read("csv", Some(Format::Csv), bytes);
    // A format detected from the first bytes reads the same.
    if error.is_none() {
        assert_eq!(read("csv", None, bytes).0, rows);
    }
}

fn csv_seeds() -> Vec<Vec<u8>> {
    vec![
        example("flights-sample.csv", 3000),
        text("time,origin,tailnum,dep_delay\n2013-01-01,EWR,N1,2.5\n\"2013-01-02T10:00:00Z\",\"J,F\"\"K\",,NA\n"),
        text("\u{feff}time,origin,tailnum,dep_delay\r\n2013-01-01,EWR,N1,-1e3\r\n\r\n"),
    ]
}

fn json_lines(bytes: &[u8]) {
    read("json", Some(Format::JsonLines), bytes);
    read("json", None, bytes);
}

fn json_seeds() -> Vec<Vec<u8>> {
    vec![
        text(
            "{\"time\":\"2013-01-01\",\"origin\":\"EWR\",\"tailnum\":null,\"dep_delay\":2.50}\n\
             {\"time\":1,\"x\":[1,{}]}\n",
        ),
        text("{\"time\":1357034400,\"origin\":\"\\u00e9\\ud83d\\ude00\",\"tailnum\":true,\"dep_delay\":-0e-7}\n\n"),
    ]
}

fn parquet(bytes: &[u8]) {
    read("parquet", None, bytes);
}

fn parquet_seeds() -> Vec<Vec<u8>> {
    use crate::replay::{Row, write_file};
    let row = |number: usize| Row {
        time: format!("2013-01-{:02}", number % 28 + 1),
        labels: vec![Some("EWR".into()), None],
        person: Some(format!("N{}", number % 3)),
        value: Some(number.to_string()),
        step: 1,
        number,
    };
    let path = file("seed", b"");
    write_file(&path, Format::Parquet, &(0..40).map(row).collect::<Vec<_>>());
    vec![std::fs::read(path).expect("written")]
}

/// A stream of Arrow record batches, as sent to a service.
fn arrow(bytes: &[u8]) {
    let running = AtomicBool::new(false);
    let Ok(mut table) = ArrowStream::new(bytes, 1 << 24) else { return };
    let options = ReadOptions::default();
    let Ok(mut events) = Events::from_table(&mut table, &columns(), &options, &running) else { return };
    let mut parser = TimeParser::new(TimeFormat::Auto, Zone::utc());
    let mut visit = |event: &Event<'_>| {
        let _ = parser.parse_event(event);
        let _ = event.multiple_of("0.01".parse().expect("a grid"));
        let _ = format!("{event:?}");
        Ok::<(), PipelineError>(())
    };
    while let Ok(true) = events.next_batch(&mut visit) {}
}

fn arrow_seeds() -> Vec<Vec<u8>> {
    let column = |texts: [Option<&str>; 3]| -> ArrayRef { Arc::new(texts.into_iter().collect::<StringArray>()) };
    let who: DictionaryArray<Int32Type> = [Some("N1"), None, Some("N1")].into_iter().collect();
    let amounts: ArrayRef = Arc::new(Float64Array::from(vec![Some(2.5), None, Some(-1.0)]));
    let columns = [
        ("time", column([Some("2013-01-01"), Some("2013-01-02T10:00:00Z"), None])),
        ("origin", column([Some("EWR"), Some("JFK"), None])),
        ("tailnum", Arc::new(who)),
        ("dep_delay", amounts),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of equal length");
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).expect("a writer");
    writer.write(&batch).expect("written");
    writer.finish().expect("finished");
    drop(writer);
    vec![bytes]
}

fn times(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let formats = [
        "auto",
        "rfc3339",
        "date",
        "epoch-seconds",
        "epoch-millis",
        "epoch-micros",
        "epoch-nanos",
        "%Y-%m-%d %H:%M:%S %Z",
        "%d/%m/%y %I:%M %p",
    ];
    for zone in ["UTC", "Europe/Berlin"] {
        for format in formats {
            let mut parser = TimeParser::new(format.parse().expect("a format"), zone.parse().expect("a zone"));
            let first = parser.parse_text(text);
            assert_eq!(parser.parse_text(text).ok(), first.as_ref().ok().copied(), "the second parse differs");
            if let Ok(instant) = first
                && let Some(time) = instant.timestamp()
                && !time.to_string().starts_with('-')
            {
                let again = TimeParser::new(TimeFormat::Rfc3339, Zone::utc()).parse_text(&time.to_string());
                assert_eq!(again.ok(), Some(instant), "{time}");
            }
        }
    }
}

fn time_seeds() -> Vec<Vec<u8>> {
    [
        "2024-05-01",
        "2024-05-01T12:30:00Z",
        "2024-05-01 12:30:00.123456789+05:45",
        "2024-10-27T02:30:00",
        "1357034400.25",
        "-62135596800",
        "20240501T123000Z",
        "2024-05-01T12:30[Europe/Berlin]",
    ]
    .map(text)
    .to_vec()
}

/// An identity is its own identity, and not much longer than its text.
fn identities(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for rule in [Identities::default(), Normalisation::ALL.into_iter().collect()] {
        let (mut first, mut second) = (String::new(), String::new());
        if let Ok(Some(name)) = rule.of(Field::Text(text), &mut first) {
            assert_eq!(rule.of(Field::Text(name), &mut second), Ok(Some(name)));
            assert!(name.len() <= 12 * text.len() + 45);
        }
    }
}

fn identity_seeds() -> Vec<Vec<u8>> {
    ["1.7e+01", "-0.10", "007", "2024-01-01 00:00:00+02:00", "Infinity", " Stra\u{df}e\u{301}"].map(text).to_vec()
}

fn declarations(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let resolve = |declared: &Declaration| {
        if let Ok(settings) = declared.resolve() {
            assert!((1..=settings.calendar.steps()).contains(&settings.last_step));
        }
    };
    if let Ok(written) = toml::from_str::<Written>(text) {
        resolve(&written.declaration);
        let again = toml::to_string(&written.declaration).expect("TOML");
        assert_eq!(toml::from_str::<Declaration>(&again).expect("the written text"), written.declaration);
    }
    if let Ok(declared) = Declaration::from_json(text) {
        resolve(&declared);
        let again = serde_json::to_string(&declared).expect("JSON");
        assert_eq!(Declaration::from_json(&again).expect("the written text"), declared);
    }
}

fn declaration_seeds() -> Vec<Vec<u8>> {
    let json = r#"{"start":"2024-01-01","end":"2024-03-01","every":"6h","time-zone":"Europe/Berlin","epsilon":1,
        "person":"who","max-events":5,"max-events-per-step":2,"group-by":["a","b"],"groups":[["x","y"],["z","w"]],
        "rest":"others","value":"v","bounds":["-1.5",2],"grid":0.5,"mechanism":"subtract(k=3)","confidence":0.9}"#;
    vec![example("flights.toml", 1 << 16), example("flights-sketch.toml", 1 << 16), text(json)]
}

/// Longer horizons are left to real plans: their mechanisms take time.
const MAX_PLAN_HORIZON: u64 = 4096;

fn plans(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // The cost of a plan depends on its horizon, which is public: this target only checks reading.
    let horizon = toml::from_str::<toml::Table>(text).ok().and_then(|table| table.get("horizon")?.as_integer());
    if horizon.is_some_and(|horizon| horizon > MAX_PLAN_HORIZON as i64) {
        return;
    }
    if let Ok(plan) = toml::from_str::<Plan>(text) {
        let again = toml::to_string(&plan).expect("TOML");
        assert_eq!(toml::from_str::<Plan>(&again).expect("the written text").digest(), plan.digest());
        assert!(plan.max_std_error() > 0.0);
    }
}

fn some_plans() -> [Plan; 3] {
    let budget = Budget::Pure(Epsilon::new(1.0).expect("in range"));
    let concentrated = Budget::Zcdp(Rho::new(0.1).expect("in range"));
    let of = |budget, mechanism: &str| {
        PlanRequest::count(12, budget).with_mechanism(mechanism.parse().expect("a name")).plan().expect("a plan")
    };
    [of(budget, "subtract(k=3)"), of(concentrated, "blt(buffers=2)"), of(concentrated, "honaker-online")]
}

fn plan_seeds() -> Vec<Vec<u8>> {
    some_plans().iter().map(|plan| toml::to_string(plan).expect("TOML").into_bytes()).collect()
}

fn key() -> GuardedKey {
    GuardedKey::insecure_from_test_seed(TestSeed(3))
}

fn name() -> StreamName {
    "fuzz".parse().expect("a name")
}

fn groups() -> Groups {
    Groups::new(["a", "b"]).expect("two groups")
}

fn states(bytes: &[u8]) {
    static PLANS: OnceLock<[Plan; 3]> = OnceLock::new();
    for plan in PLANS.get_or_init(some_plans) {
        // A state is authenticated: a restored one was saved with this key.
        if let Ok(mut sum) = RunningSum::restore(plan.clone(), &key(), name(), bytes) {
            assert_eq!(sum.save(), bytes);
            let _ = sum.tick();
        }
        if let Ok(mut sums) = GroupedSums::restore(plan.clone(), &key(), name(), groups(), bytes) {
            assert_eq!(sums.save(), bytes);
            let _ = sums.tick();
        }
    }
}

fn state_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for plan in some_plans() {
        let mut sum = RunningSum::new(plan.clone(), &key(), name()).expect("a sum");
        let mut sums = GroupedSums::new(plan, &key(), name(), groups()).expect("sums");
        for _ in 0..5 {
            sum.tick().expect("a step");
            sums.tick().expect("a step");
        }
        seeds.extend([sum.save(), sums.save()]);
    }
    seeds
}

fn ledgers(bytes: &[u8]) {
    let store = MemoryStore::default();
    store.clone().commit(bytes).expect("memory");
    if let Ok(mut ledger) = Ledger::open(store, &key()) {
        let _ = ledger.spent();
        let _ = ledger.last_published(&name());
        let _ = ledger.state(&name());
        let plan = some_plans()[0].clone();
        if let Ok(mut digest) = ledger.stream(&key(), &name(), &plan, 12)
            && (0..12).all(|_| digest.close_step(&[1]).is_ok())
        {
            let _ = ledger.record(&mut digest);
        }
    }
}

fn ledger_seeds() -> Vec<Vec<u8>> {
    let store = MemoryStore::default();
    let held = || store.clone().load().expect("memory").expect("created");
    drop(Ledger::create(store.clone(), &key()).expect("a new ledger"));
    let new = held();
    let mut ledger = Ledger::open(store.clone(), &key()).expect("just made");
    let mut digest = ledger.stream(&key(), &name(), &some_plans()[0], 12).expect("a new stream");
    (0..4).for_each(|sum| digest.close_step(&[sum]).expect("a step"));
    ledger.record(&mut digest).expect("recorded");
    drop(ledger);
    let bare = r#"{"version":1,"key_id":"0","identity":"0","counter":0,"streams":{},"mac":"0"}"#;
    vec![new, held(), text(bare)]
}

fn keys(bytes: &[u8]) {
    let path = file("key", bytes);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("my file");
    }
    match keyfile::read(&path) {
        Ok(key) => assert!(!format!("{key:?}").is_empty()),
        Err(error) => {
            // Possible keys are never quoted.
            let said = error.to_string();
            let secret = bytes.split(|byte| *byte == b'\n').nth(1).unwrap_or_default();
            let is_long = secret.len() >= 16;
            assert!(!is_long || !said.contains(&*String::from_utf8_lossy(secret)), "{said}");
        }
    }
}

fn key_seeds() -> Vec<Vec<u8>> {
    let header = "evertally key 1 - SECRET: whoever reads this can remove the noise of its releases";
    let id = SecretKey::from_bytes([0xa5; 32]).expect("not nothing").id();
    vec![text(&format!("{header}\n{}\nid {id}\n", "a5".repeat(32)))]
}

fn searched(bytes: &[u8]) {
    if let Ok(found) = DensePure::from_bytes(bytes) {
        assert_eq!(found.to_bytes(), bytes);
        assert!(found.column_norms().l1 > 0.0 && found.horizon() > 0);
    }
}

fn searched_seeds() -> Vec<Vec<u8>> {
    let search = |horizon| {
        DensePure::search(horizon, Objective::Max, &mut |_, _| ControlFlow::Continue(())).expect("in range").to_bytes()
    };
    vec![search(1), search(4)]
}

/// Always the same input for a number: a seed with a few bytes changed, inserted, removed, repeated or swapped with
/// those of another seed.
pub fn mutated(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    const TELLING: [&[u8]; 14] = [
        b"\0",
        b"\xff",
        b"\n",
        b"\"",
        b",",
        b"-",
        b"9999999999999999999",
        b"1e400",
        b"NaN",
        b"0",
        b"{",
        b"]",
        b"\xf0\x9f",
        b"=",
    ];
    let mut seed = [9; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut below = |most: usize| (random.next_u64() % most.max(1) as u64) as usize;
    let mut bytes = seeds[below(seeds.len())].clone();
    for _ in 0..=below(6) {
        let at = below(bytes.len());
        let end = (at + 1 + below(16)).min(bytes.len());
        match below(8) {
            _ if bytes.is_empty() => bytes.push(below(256) as u8),
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes[at] = below(256) as u8,
            2 => drop(bytes.drain(at..end)),
            3 => drop(bytes.splice(at..at, TELLING[below(TELLING.len())].iter().copied())),
            4 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            5 => bytes.truncate(at),
            6 => {
                let other = &seeds[below(seeds.len())];
                let from = below(other.len());
                let taken = other[from..(from + 1 + below(64)).min(other.len())].to_vec();
                drop(bytes.splice(at..end, taken));
            }
            _ => drop(bytes.splice(at..end, TELLING[below(TELLING.len())].iter().copied())),
        }
    }
    bytes
}
