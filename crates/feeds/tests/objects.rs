//! Objects of a folder and of a store.

mod common;

use common::{Program, free_port, python_with, warnings_of};
use evertally_declare::format::Format;
use evertally_feeds::{BatchLimits, Origins, Source, SourceBatch, SourceError, SourceOptions, open};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

const LIMITS: BatchLimits = BatchLimits { rows: 1000, bytes: 1 << 20, wait: Duration::from_millis(50) };
/// With time to read an object that is longer than any row may be.
const PATIENT: BatchLimits = BatchLimits { wait: Duration::from_millis(500), ..LIMITS };

fn source(url: &str) -> Box<dyn Source> {
    open(&format!("{url}?every=10ms"), &SourceOptions::default()).expect("a valid URL")
}

/// What the service stores in one commit: the rows of each object without headers, and the positions after them.
#[derive(Default)]
struct Service {
    positions: BTreeMap<String, String>,
    rows: BTreeMap<String, Vec<u8>>,
}

impl Service {
    fn commit(&mut self, batch: &SourceBatch) {
        let stored = self.positions.insert(batch.partition.clone(), batch.position.clone());
        assert_eq!(batch.after, stored, "a batch begins at another position");
        let rows = &batch.rows;
        let taken = self.rows.entry(batch.partition.clone()).or_default();
        if let (Origins::FromLine(first), Format::Csv) = (&rows.origins, rows.format) {
            assert_eq!(rows.header, b"id,text\n", "each batch has the header");
            let before = 1 + taken.iter().filter(|byte| **byte == b'\n').count() as u64;
            assert_eq!(*first, before + 1, "the line of the first row");
        }
        taken.extend(&rows.bytes);
    }

    /// Seeks all objects that are not finished.
    async fn seek(&self, source: &mut dyn Source) -> usize {
        let partitions = source.partitions().await.expect("listed");
        for partition in &partitions {
            let position = self.positions.get(partition).map(String::as_str);
            source.seek(partition, position).await.expect("sought");
        }
        partitions.len()
    }

    async fn drain(&mut self, source: &mut dyn Source, limits: BatchLimits) {
        self.seek(source).await;
        while let Some(batch) = source.next(limits).await.expect("readable") {
            self.commit(&batch);
        }
    }
}

/// Writes a file that looks old enough to be complete.
fn write(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    let mut file = std::fs::File::create(path).expect("created");
    file.write_all(bytes).expect("written");
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("changed");
}

fn csv(rows: std::ops::Range<u32>) -> Vec<u8> {
    let rows: String = rows.map(|row| format!("{row},\"text\nof {row}\"\n")).collect();
    format!("id,text\n{rows}").into_bytes()
}

fn json(rows: std::ops::Range<u32>) -> Vec<u8> {
    rows.map(|row| format!("{{\"id\":{row}}}\n")).collect::<String>().into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("compressed");
    encoder.finish().expect("compressed")
}

fn without_header(bytes: &[u8]) -> Vec<u8> {
    bytes.strip_prefix(b"id,text\n").unwrap_or(bytes).to_vec()
}

/// A feeder that stops at random places reads each row of each object once, whatever its format.
#[tokio::test]
async fn each_row_of_each_object_counts_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let objects: [(&str, Vec<u8>); 6] = [
        ("b/one.csv", csv(0..900)),
        ("a/two.csv.gz", csv(900..1500)),
        ("three.jsonl", json(0..2000)),
        ("four.ndjson.zst", json(5..6)),
        ("five.parquet", b"PAR1 any bytes\n\nPAR1".to_vec()),
        ("six.jsonl", b"{\"id\":1}\n{\"id\":2}".to_vec()),
    ];
    for (name, bytes) in &objects {
        let stored = match name.rsplit_once('.') {
            Some((_, "gz")) => gzip(bytes),
            Some((_, "zst")) => zstd::encode_all(&bytes[..], 1).expect("compressed"),
            _ => bytes.clone(),
        };
        write(folder.path(), name, &stored);
    }
    write(folder.path(), "empty.jsonl", b"");
    write(folder.path(), "header.csv", b"id,text\n");
    write(folder.path(), ".hidden.csv", b"x");
    write(folder.path(), "readme.txt", b"x");
    let url = format!("file://{}/", folder.path().display());
    let (mut service, mut random) = (Service::default(), 37_u64);
    let mut below = |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    for _ in 0..60 {
        let mut source = source(&url);
        service.seek(&mut *source).await;
        let limits = BatchLimits { rows: 1 + below(90) as usize, bytes: 1500, ..LIMITS };
        for _ in 0..below(5) {
            let Some(batch) = source.next(limits).await.expect("readable") else { break };
            if below(4) == 0 {
                break; // read, and not committed
            }
            service.commit(&batch);
        }
    }
    let mut last = source(&url);
    service.drain(&mut *last, LIMITS).await;
    for (name, bytes) in &objects {
        assert!(service.rows[*name] == without_header(bytes), "{name}");
    }
    assert_eq!(service.positions.len(), objects.len() + 2);
    assert!(service.positions.values().all(|position| position.starts_with("whole ")));
    let warnings = warnings_of(&mut *last);
    assert!(warnings.len() == 1 && warnings[0].contains("passed over 1 objects"), "{warnings:?}");
    // A late object before the others is found, and finished ones are not asked again.
    write(folder.path(), "a/0.jsonl", &json(7..8));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let start = Instant::now();
    while service.seek(&mut *last).await == 0 {
        assert!(start.elapsed() < Duration::from_secs(5), "the object is not found");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    service.drain(&mut *last, LIMITS).await;
    assert_eq!(service.rows["a/0.jsonl"], json(7..8));
}

/// A replaced object is reported, and no row of it counts twice. Damaged objects delay no other.
#[tokio::test]
async fn replaced_and_damaged_objects_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "half.jsonl", &json(0..50));
    write(folder.path(), "whole.jsonl", &json(0..5));
    write(folder.path(), "bad.csv.gz", b"no gzip");
    let mut long = b"id,text\n1,\"".to_vec();
    long.resize(17 << 20, b'x');
    write(folder.path(), "long.csv", &long);
    let url = format!("file://{}/", folder.path().display());
    let mut service = Service::default();
    let mut first = source(&url);
    service.seek(&mut *first).await;
    let mut warnings = Vec::new();
    while !service.positions.contains_key("half.jsonl") {
        let batch = first.next(BatchLimits { rows: 10, ..LIMITS }).await.expect("readable").expect("rows");
        service.commit(&batch);
        warnings.extend(warnings_of(&mut *first));
    }
    write(folder.path(), "half.jsonl", &json(0..60));
    let mut second = source(&url);
    service.drain(&mut *second, PATIENT).await;
    warnings.extend(warnings_of(&mut *second));
    assert_eq!(service.rows["half.jsonl"], json(0..10));
    assert!(service.positions["half.jsonl"].starts_with("whole "));
    assert_eq!(service.rows["whole.jsonl"], json(0..5));
    write(folder.path(), "whole.jsonl", &json(0..6));
    service.drain(&mut *source(&url), PATIENT).await;
    let mut third = source(&url);
    service.drain(&mut *third, PATIENT).await;
    warnings.extend(warnings_of(&mut *third));
    assert_eq!(service.rows["whole.jsonl"], json(0..5));
    for expected in ["half.jsonl was replaced", "whole.jsonl was replaced", "bad.csv.gz: ", "unclosed quote"] {
        assert!(warnings.iter().any(|warning| warning.contains(expected)), "{expected}: {warnings:?}");
    }
    // A deleted object ends by itself.
    write(folder.path(), "gone.jsonl", &json(0..5));
    let mut fourth = source(&url);
    service.seek(&mut *fourth).await;
    std::fs::remove_file(folder.path().join("gone.jsonl")).expect("removed");
    while fourth.next(LIMITS).await.expect("readable").is_some() {}
    assert!(warnings_of(&mut *fourth).iter().any(|warning| warning.contains("gone.jsonl was deleted")));
}

#[test]
fn urls_and_options_are_checked() {
    let refused = |url: &str, options: &SourceOptions| open(url, options).err().expect("refused").to_string();
    let plain = SourceOptions::default();
    assert!(refused("s3://bucket/day.csv", &plain).contains("end it with a slash"));
    assert!(refused("file://folder/", &plain).contains("three slashes"));
    assert!(refused("s3://bucket/?format=parquet", &plain).contains("choose csv"));
    assert!(refused("s3://bucket/?every=never", &plain).contains("30s"));
    let password = SourceOptions { password_file: Some("p".into()), ..SourceOptions::default() };
    assert!(refused("s3://bucket/", &password).contains("AWS_ACCESS_KEY_ID"));
    let metadata = SourceOptions { with_metadata: true, ..SourceOptions::default() };
    assert!(refused("s3://bucket/", &metadata).contains("metadata"));
    let same = |url: &str| open(url, &plain).expect("valid").identity();
    assert_eq!(same("s3a://bucket/a/"), same("s3://bucket/a/?every=5s"));
}

/// The time of a cycle with very many finished objects.
#[tokio::test]
async fn finished_objects_cost_little() {
    let folder = tempfile::tempdir().expect("a folder");
    // Links are made faster than files.
    write(folder.path(), "0.jsonl", b"{}\n");
    for object in 1..5000 {
        let link = folder.path().join(format!("{object}.jsonl"));
        std::fs::hard_link(folder.path().join("0.jsonl"), link).expect("linked");
    }
    let mut source = source(&format!("file://{}/", folder.path().display()));
    for partition in source.partitions().await.expect("listed") {
        let about = std::fs::metadata(folder.path().join(&partition)).expect("there");
        let since = about.modified().expect("a time").duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        source.seek(&partition, Some(&format!("whole 3 at {}", since.as_nanos()))).await.expect("sought");
    }
    let start = Instant::now();
    for _ in 0..20 {
        assert!(source.partitions().await.expect("listed").is_empty());
    }
    let cycle = start.elapsed() / 20;
    assert!(cycle < Duration::from_millis(10), "{cycle:?}");
    assert!(source.next(LIMITS).await.expect("readable").is_none());
    assert!(warnings_of(&mut *source).is_empty());
}

/// An empty store, which ends with the test: PyPI's moto.
struct Store {
    port: u16,
    _server: Program,
}

impl Store {
    fn start() -> Self {
        let port = free_port();
        let arguments = ["-m", "moto.server", "-p", &port.to_string()];
        Self { port, _server: Program::start_path(python_with("moto"), &arguments, port) }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        put(self.port, name, bytes);
    }
}

fn put(port: u16, name: &str, bytes: &[u8]) {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let head = format!(
        "PUT /{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: AWS4-HMAC-SHA256 \
         Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\nContent-Length: \
         {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    );
    stream.write_all(&[head.as_bytes(), bytes].concat()).expect("sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Credentials are variables of the process, so this test runs itself again with them.
#[test]
fn objects_of_a_store_are_followed() {
    let store = Store::start();
    store.put("bucket", b"");
    store.put("bucket/in/one.csv", &csv(0..3000));
    store.put("bucket/in/deep/two.jsonl.gz", &gzip(&json(0..500)));
    store.put("bucket/out/three.jsonl", &json(0..5));
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "inner_test_of_a_store", "--nocapture"])
        .env("AWS_ENDPOINT", format!("http://127.0.0.1:{}", store.port))
        .envs([("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "us-east-1")])
        .env("AWS_ALLOW_HTTP", "true")
        .env("TEST_PORT", store.port.to_string())
        .output()
        .expect("started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test]
#[ignore = "is run by another test"]
async fn inner_test_of_a_store() {
    let mut service = Service::default();
    let url = "s3://bucket/in/";
    // The feeder starts again after two batches.
    let mut starts = 0;
    while service.positions.values().filter(|position| position.starts_with("whole ")).count() < 2 {
        starts += 1;
        let mut source = source(url);
        service.seek(&mut *source).await;
        for _ in 0..2 {
            let limits = BatchLimits { rows: 400, wait: Duration::from_secs(5), ..LIMITS };
            let batch = source.next(limits).await.expect("readable");
            service.commit(&batch.expect("objects are unfinished"));
        }
    }
    assert_eq!(starts, 5, "3000 rows and 500 in batches of 400");
    let mut last = source(url);
    service.drain(&mut *last, LIMITS).await;
    let names: Vec<&str> = service.rows.keys().map(String::as_str).collect();
    assert_eq!(names, ["deep/two.jsonl.gz", "one.csv"]);
    assert!(service.rows["one.csv"] == without_header(&csv(0..3000)));
    assert!(service.rows["deep/two.jsonl.gz"] == json(0..500));
    assert!(warnings_of(&mut *last).is_empty(), "the stamps of listings are those of objects");
    let port = std::env::var("TEST_PORT").expect("set").parse().expect("a number");
    put(port, "bucket/in/one.csv", &csv(0..3001));
    let mut after = source(url);
    service.drain(&mut *after, LIMITS).await;
    assert!(warnings_of(&mut *after)[0].contains("one.csv was replaced"));
    assert!(service.rows["one.csv"] == without_header(&csv(0..3000)));
    let mut missing = source("s3://missing/in/");
    assert!(matches!(missing.partitions().await, Err(SourceError::Away(_))));
}

/// Run with `--ignored --nocapture` to see the speed.
#[tokio::test]
#[ignore = "measures"]
async fn speed() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = "{\"id\":1234567,\"page\":\"/products/17\",\"person\":\"p-1234567\"}\n";
    write(folder.path(), "big.jsonl", row.repeat(2_000_000).as_bytes());
    let url = format!("file://{}/", folder.path().display());
    let (mut source, mut service) = (source(&url), Service::default());
    let start = Instant::now();
    service.seek(&mut *source).await;
    let limits = BatchLimits { rows: 50_000, bytes: 4 << 20, wait: Duration::from_secs(1) };
    let mut rows = 0;
    while rows < 2_000_000 {
        let batch = source.next(limits).await.expect("readable").expect("rows");
        rows += batch.rows.bytes.iter().filter(|byte| **byte == b'\n').count();
    }
    println!("{:.0} rows/s", f64::from(2_000_000) / start.elapsed().as_secs_f64());
    service.rows.clear();
}
