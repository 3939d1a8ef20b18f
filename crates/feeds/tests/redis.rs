//! Streams of a real server of Redis.

mod common;

use common::{Certificates, Program, Random, Service, free_port, limits, problem, warnings_of};
use evertally_feeds::{Source, SourceError, SourceOptions, open};
use std::path::Path;
use std::time::{Duration, Instant};

struct Redis {
    folder: tempfile::TempDir,
    port: u16,
    program: Program,
    commands: redis::Connection,
}

impl Redis {
    /// A server that writes every change to its disk before it answers.
    fn start(more: &[&str]) -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let (path, text) = (folder.path().to_str().expect("UTF-8"), port.to_string());
        let mut arguments = vec!["--port", &text, "--bind", "127.0.0.1", "--dir", path, "--save", ""];
        arguments.extend(["--appendonly", "yes", "--appendfsync", "always"].iter().chain(more));
        let program = Program::start("redis-server", &arguments, port);
        let commands = Self::connect(port);
        Self { folder, port, program, commands }
    }

    fn connect(port: u16) -> redis::Connection {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).expect("valid");
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let connection =
                client.get_connection().and_then(|mut own| redis::cmd("PING").exec(&mut own).map(|()| own));
            match connection {
                Ok(connection) => return connection,
                Err(e) => assert!(Instant::now() < deadline, "{e}"),
            }
        }
    }

    fn add(&mut self, key: &str, numbers: std::ops::Range<usize>) {
        for chunk in numbers.collect::<Vec<_>>().chunks(1000) {
            let mut pipe = redis::pipe();
            for number in chunk {
                pipe.cmd("XADD").arg(key).arg("*").arg("n").arg(number).arg("page").arg("home").ignore();
            }
            pipe.exec(&mut self.commands).expect("added");
        }
    }

    fn run(&mut self, command: &str) -> redis::Value {
        let mut words = command.split(' ');
        let mut own = redis::cmd(words.next().expect("a word"));
        words.for_each(|word| {
            own.arg(word);
        });
        own.query(&mut self.commands).expect("done")
    }

    fn url(&self, streams: &str) -> String {
        format!("redis://127.0.0.1:{}/0?{streams}", self.port)
    }

    fn source(&self, streams: &str) -> Box<dyn Source> {
        open(&self.url(streams), &SourceOptions::default()).expect("valid")
    }
}

fn expected(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("{{\"n\":\"{number}\",\"page\":\"home\"}}")).collect()
}

/// Commits batches until there are no more; the warnings.
async fn follow(source: &mut dyn Source, service: &mut Service) -> Result<Vec<String>, SourceError> {
    while let Some(batch) = source.next(limits(1000, 50)).await? {
        assert!(service.commit(&batch));
        source.accepted(&batch.partition, &batch.position).await?;
    }
    Ok(warnings_of(&mut *source))
}

fn fault(error: Result<Vec<String>, SourceError>) -> String {
    match error.expect_err("a fault") {
        SourceError::Fault(error) => error.to_string(),
        SourceError::Away(why) => panic!("away: {why}"),
    }
}

#[tokio::test]
async fn each_entry_counts_once_whatever_stops() {
    let mut redis = Redis::start(&[]);
    let mut random = Random(37);
    let mut service = Service::default();
    let mut added = [0; 2];
    let mut source = redis.source("stream=a&stream=b");
    service.seek(&mut *source).await.expect("present");
    let (mut kills, mut stops) = (0, 0);
    loop {
        let enough = added[0] >= 20_000 && kills == 4 && stops > 3;
        if enough && service.count() >= added.iter().sum() {
            break;
        }
        let more = random.below(2000) as usize;
        let side = random.below(2) as usize;
        if !enough {
            redis.add(["a", "b"][side], added[side]..added[side] + more);
            added[side] += more;
        }
        for _ in 0..random.below(8) {
            let cut = Duration::from_micros(random.below(3000));
            let rows = 1 + random.below(500) as usize;
            // Some futures are dropped before they are ready.
            let next = tokio::time::timeout(if random.below(2) == 0 { cut } else { Duration::from_secs(5) }, async {
                source.next(limits(rows, 5)).await
            });
            let batch = match next.await {
                Err(_) | Ok(Ok(None)) => continue,
                Ok(Ok(Some(batch))) => batch,
                Ok(Err(SourceError::Away(_))) => {
                    service.seek(&mut *source).await.expect("known");
                    continue;
                }
                Ok(Err(SourceError::Fault(e))) => panic!("{e}"),
            };
            let point = random.below(20);
            if point != 0 {
                assert!(service.commit(&batch));
            }
            if point < 2 {
                stops += 1;
                source = redis.source("stream=a&stream=b");
                service.seek(&mut *source).await.expect("known");
            } else {
                source.accepted(&batch.partition, &batch.position).await.expect("nothing to do");
            }
        }
        if kills < 4 && random.below(8) == 0 {
            kills += 1;
            redis.program.kill();
            redis.program.restart();
            redis.commands = Redis::connect(redis.port);
        }
    }
    assert_eq!(service.rows["a"], expected(0..added[0]));
    assert_eq!(service.rows["b"], expected(0..added[1]));
    assert_eq!(warnings_of(&mut *source), Vec::<String>::new());
}

#[tokio::test]
async fn deleted_entries_are_reported() {
    let mut redis = Redis::start(&[]);
    let mut service = Service::default();
    let mut source = redis.source("stream=a");
    service.seek(&mut *source).await.expect("known");
    assert_eq!(follow(&mut *source, &mut service).await.expect("absent"), Vec::<String>::new());
    redis.add("a", 0..100);
    redis.run("XTRIM a MAXLEN 60");
    // Entries that were gone before the beginning are not missed.
    assert_eq!(follow(&mut *source, &mut service).await.expect("read"), Vec::<String>::new());
    assert_eq!(service.rows["a"], expected(40..100));
    redis.add("a", 100..150);
    redis.run("XTRIM a MAXLEN 20");
    let warnings = follow(&mut *source, &mut service).await.expect("read");
    assert!(warnings.len() == 1 && warnings[0].contains("(30 entries)"), "{warnings:?}");
    // All of them: the position moves without a row, so that they are reported once.
    redis.add("a", 150..160);
    redis.run("XTRIM a MAXLEN 0");
    let warnings = follow(&mut *source, &mut service).await.expect("read");
    assert!(warnings.len() == 1 && warnings[0].contains("(10 entries)"), "{warnings:?}");
    let mut source = redis.source("stream=a");
    service.seek(&mut *source).await.expect("known");
    assert_eq!(follow(&mut *source, &mut service).await.expect("read"), Vec::<String>::new());
    redis.add("a", 160..165);
    assert_eq!(follow(&mut *source, &mut service).await.expect("read"), Vec::<String>::new());
    let all = [expected(40..100), expected(130..150), expected(160..165)].concat();
    assert_eq!(service.rows["a"], all);

    // Deleted and created again: ids grow with time, so nothing is counted twice.
    redis.run("DEL a");
    let warnings = follow(&mut *source, &mut service).await.expect("absent");
    assert!(warnings.len() == 1 && warnings[0].contains("does not exist"), "{warnings:?}");
    redis.add("a", 0..3);
    let warnings = follow(&mut *source, &mut service).await.expect("read");
    assert!(warnings.len() == 1 && warnings[0].contains("created again"), "{warnings:?}");
    assert_eq!(service.rows["a"], [all, expected(0..3)].concat());
    // With ids before the position, it is a fault.
    redis.run("DEL a");
    redis.run("XADD a 5-1 n 1");
    let error = fault(follow(&mut *source, &mut service).await);
    assert!(error.contains("is 5-1, before the position"), "{error}");
}

#[tokio::test]
async fn rows_metadata_and_bad_entries() {
    let mut redis = Redis::start(&[]);
    redis.run("XADD a 1709251199123-4 n 1.5 page ü");
    redis.run("XADD a 1709251199123-5 json {\"n\":2}");
    let options = SourceOptions { with_metadata: true, ..SourceOptions::default() };
    let mut service = Service::default();
    let mut source = open(&redis.url("stream=a"), &options).expect("valid");
    service.seek(&mut *source).await.expect("known");
    let batch = source.next(limits(1, 1000)).await.expect("read").expect("a batch");
    assert_eq!(batch.rows.origin_of(1).as_deref(), Some("entry 1709251199123-4"));
    assert!(service.commit(&batch));
    let metadata = "\"_time\":\"2024-02-29T23:59:59.123000Z\",\"_stream\":\"a\"";
    assert_eq!(service.rows["a"], [format!("{{{metadata},\"n\":\"1.5\",\"page\":\"ü\"}}")]);
    let mut json = Service::default();
    let mut source = open(&redis.url("stream=a&json=json"), &options).expect("valid");
    json.seek(&mut *source).await.expect("known");
    follow(&mut *source, &mut json).await.expect("read");
    assert_eq!(json.rows["a"], ["\"this entry lacks the field with JSON\"", &format!("{{{metadata},\"n\":2}}")]);
    redis.run("SET text 1");
    let mut source = redis.source("stream=text");
    source.seek("text", None).await.expect("known");
    assert!(fault(follow(&mut *source, &mut Service::default()).await).contains("must be streams"));
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
}

#[tokio::test]
async fn passwords_and_encryption() {
    let files = Certificates::new();
    let at = |name: &str| files.path(name);
    let tls_port = free_port();
    let (ca, cert, key) = (files.text("ca.pem"), files.text("server.pem"), files.text("server.key"));
    let port = tls_port.to_string();
    let mut redis = Redis::start(&[
        "--tls-port",
        &port,
        "--tls-ca-cert-file",
        &ca,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "yes",
    ]);
    redis.add("a", 0..3);
    redis.run("ACL SETUSER feeder on >s3cret resetkeys %R~a -@all +xread +xinfo +multi +exec +select");
    let options = SourceOptions { password_file: Some(at("password")), ..files.options() };
    let mut service = Service::default();
    write(&at("password"), "wr0ng\n");
    let mut source = open(&format!("rediss://feeder@localhost:{tls_port}/?stream=a"), &options).expect("valid");
    service.seek(&mut *source).await.expect("known");
    let error = fault(follow(&mut *source, &mut service).await);
    assert!(error.contains("check the user") && !error.contains("wr0ng"), "{error}");
    // The file is read again at every connection.
    write(&at("password"), "s3cret\n");
    follow(&mut *source, &mut service).await.expect("read");
    assert_eq!(service.rows["a"], expected(0..3));
    let plain = SourceOptions { authority: None, client: None, ..options.clone() };
    let mut source = open(&format!("redis://feeder@localhost:{}/?stream=b", redis.port), &plain).expect("valid");
    source.seek("b", None).await.expect("known");
    let error = fault(follow(&mut *source, &mut service).await);
    assert!(error.contains("read access to the keys") && !error.contains("s3cret"), "{error}");
    // An authority that is not known, and no certificate of the client.
    for (options, why) in [
        (SourceOptions { authority: None, ..options.clone() }, "--source-authority"),
        (SourceOptions { client: None, ..options.clone() }, "--source-certificate"),
    ] {
        let mut source = open(&format!("rediss://feeder@localhost:{tls_port}/?stream=a"), &options).expect("valid");
        source.seek("a", None).await.expect("known");
        let found = problem(source.next(limits(1, 1)).await);
        assert!(found.contains(why) && !found.contains("s3cret"), "{found}");
    }
    assert!(redis.folder.path().exists());
}

#[tokio::test]
#[ignore = "a measurement"]
async fn speed() {
    let mut redis = Redis::start(&[]);
    redis.add("a", 0..500_000);
    let service = Service::default();
    let mut source = redis.source("stream=a");
    service.seek(&mut *source).await.expect("known");
    let start = Instant::now();
    let (mut rows, mut bytes) = (0, 0);
    while let Some(batch) = source.next(limits(10_000, 50)).await.expect("read") {
        bytes += batch.rows.bytes.len();
        rows += batch.rows.bytes.iter().filter(|byte| **byte == b'\n').count();
    }
    let seconds = start.elapsed().as_secs_f64() - 0.05;
    println!("{rows} rows, {bytes} bytes, {:.0} rows/s", rows as f64 / seconds);
    assert_eq!(rows, 500_000);
}
