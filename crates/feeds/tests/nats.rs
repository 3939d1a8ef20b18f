//! Streams of NATS JetStream, on a real server.

mod common;

use async_nats::jetstream::{self, Context, stream};
use common::{Certificates, Program, Random, Service, fault, free_port, limits, problem, warnings_of};
use evertally_feeds::{Source, SourceError, SourceOptions, open};
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Server {
    program: Program,
    port: u16,
    folder: TempDir,
}

impl Server {
    fn start(more: &[&str]) -> Self {
        let (port, folder) = (free_port(), TempDir::new().expect("a folder"));
        let (text, path) = (port.to_string(), folder.path().to_str().expect("UTF-8").to_owned());
        let arguments = [&["-js", "-a", "127.0.0.1", "-p", &text, "-sd", &path], more].concat();
        Self { program: Program::start("nats-server", &arguments, port), port, folder }
    }

    async fn context(&self) -> Context {
        jetstream::new(async_nats::connect(format!("127.0.0.1:{}", self.port)).await.expect("it listens"))
    }

    fn open(&self, rest: &str, options: &SourceOptions) -> Box<dyn Source> {
        open(&format!("nats://127.0.0.1:{}/{rest}", self.port), options).expect("valid")
    }
}

async fn create(context: &Context, name: &str) -> stream::Stream {
    let config = stream::Config { name: name.to_owned(), subjects: vec!["visits.>".to_owned()], ..Default::default() };
    context.create_stream(config).await.expect("created")
}

/// Sends rows with numbers, every tenth of them empty.
async fn send(context: &Context, subject: &'static str, numbers: std::ops::Range<u64>) {
    let mut acknowledged = Vec::new();
    for number in numbers {
        let row = if number % 10 == 9 {
            String::new()
        } else {
            format!("{{\"person\": \"p{}\", \"n\": {number}}}", number % 997)
        };
        acknowledged.push(context.publish(subject, row.into()).await.expect("sent"));
    }
    for acknowledgement in acknowledged {
        acknowledgement.await.expect("stored");
    }
}

fn with_value(range: std::ops::Range<u64>) -> Vec<u64> {
    range.filter(|number| number % 10 != 9).collect()
}

fn numbers(service: &Service) -> Vec<u64> {
    let rows = service.rows.get("").map(Vec::as_slice).unwrap_or_default();
    let number = |row: &String| row.rsplit(": ").next()?.trim_end_matches('}').parse().ok();
    rows.iter().map(|row| number(row).expect("a number")).collect()
}

async fn read_all(service: &mut Service, source: &mut dyn Source) {
    service.seek(source).await.expect("reachable");
    while let Some(batch) = source.next(limits(700, 300)).await.expect("readable") {
        assert!(service.commit(&batch));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_counts_once_while_both_sides_stop() {
    const ROWS: u64 = 6000;
    let mut server = Server::start(&[]);
    let context = server.context().await;
    create(&context, "VISITS").await;
    send(&context, "visits.north", 0..ROWS / 2).await;
    let mut service = Service::default();
    let mut random = Random(37);
    let deadline = Instant::now() + Duration::from_secs(30);
    let (mut sources, mut absences, mut kills) = (0, 0, 0);
    while service.count() < with_value(0..ROWS).len() || sources < 12 || kills == 0 {
        assert!(Instant::now() < deadline, "{} rows", service.count());
        sources += 1;
        if sources == 8 {
            send(&server.context().await, "visits.south", ROWS / 2..ROWS).await;
        }
        let mut source = server.open("VISITS", &SourceOptions::default());
        service.seek(&mut *source).await.expect("nothing is asked yet");
        for step in 0..1 + random.below(12) {
            if step == 0 && sources % 3 == 0 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                server.program.kill();
                server.program.restart();
                kills += 1;
            }
            // Dropping the future loses nothing.
            let patience = Duration::from_micros(random.below(6000));
            if let Ok(Ok(Some(batch))) = tokio::time::timeout(patience, source.next(limits(700, 50))).await {
                assert!(service.commit(&batch));
            }
            match source.next(limits(1 + random.below(100) as usize, 200)).await {
                Ok(Some(batch)) if random.below(9) == 0 => {
                    // The source ends between the row and its commit.
                    drop(batch);
                    break;
                }
                Ok(Some(batch)) => {
                    assert!(service.commit(&batch));
                    assert!(!service.commit(&batch), "a batch is accepted once");
                }
                Ok(None) => break,
                Err(SourceError::Away(_)) => {
                    absences += 1;
                    service.seek(&mut *source).await.expect("nothing is asked yet");
                }
                Err(SourceError::Fault(error)) => panic!("{error}"),
            }
        }
    }
    assert_eq!(numbers(&service), with_value(0..ROWS), "{sources} sources, {absences} times away");
    assert!(kills > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_source_outlives_its_server() {
    let mut server = Server::start(&[]);
    let context = server.context().await;
    create(&context, "VISITS").await;
    send(&context, "visits.north", 0..100).await;
    let (mut service, mut source) = (Service::default(), server.open("VISITS", &SourceOptions::default()));
    read_all(&mut service, &mut *source).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.program.kill();
    // The connection or the consumer may be the first to notice.
    for _ in 0..2 {
        let outcome = source.next(limits(9, 2000)).await;
        let notices = |why: &str| why.contains("the connection was lost") || why.contains("the server of NATS");
        assert!(matches!(&outcome, Err(SourceError::Away(why)) if notices(why)), "{outcome:?}");
    }
    server.program.restart();
    send(&server.context().await, "visits.south", 100..200).await;
    read_all(&mut service, &mut *source).await;
    assert_eq!(numbers(&service), with_value(0..200));
    assert!(warnings_of(&mut *source).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_messages_are_a_warning_and_another_stream_a_fault() {
    let server = Server::start(&[]);
    let context = server.context().await;
    let stream = create(&context, "VISITS").await;
    send(&context, "visits.north", 0..100).await;
    let options = SourceOptions::default();
    let (mut service, mut source) = (Service::default(), server.open("VISITS", &options));
    service.seek(&mut *source).await.expect("nothing is asked yet");
    let batch = source.next(limits(9, 1000)).await.expect("readable").expect("rows");
    assert_eq!(batch.rows.origin_of(9).as_deref(), Some("message 9"));
    assert!(service.commit(&batch));
    stream.purge().sequence(41).await.expect("purged");
    stream.delete_message(51).await.expect("deleted");
    let mut source = server.open("VISITS", &options);
    read_all(&mut service, &mut *source).await;
    let warnings = warnings_of(&mut *source);
    assert!(warnings.len() == 2 && warnings[0].contains("deleted messages of the stream VISITS"), "{warnings:?}");
    assert!(warnings[0].contains("(31 messages") && warnings[1].ends_with("(1 messages)"), "{warnings:?}");
    let expected = with_value(0..9).into_iter().chain(with_value(40..50)).chain(with_value(51..100));
    assert_eq!(numbers(&service), expected.collect::<Vec<_>>());

    let (created, _) = service.positions[""].split_once(':').expect("a time");
    source.seek("", Some(&format!("{created}:500"))).await.expect("not asked yet");
    let why = fault(source.next(limits(9, 1000)).await);
    assert!(why.contains("ends at message 100") && why.contains("500"), "{why}");
    assert!(fault(source.seek("", Some("x")).await).contains("not a position"));

    context.delete_stream("VISITS").await.expect("deleted");
    source.seek("", Some(&service.positions[""])).await.expect("not asked yet");
    assert!(fault(source.next(limits(9, 1000)).await).contains("no stream VISITS"));
    create(&context, "VISITS").await;
    send(&context, "visits.north", 0..200).await;
    let mut source = server.open("VISITS", &options);
    service.seek(&mut *source).await.expect("nothing is asked yet");
    assert!(fault(source.next(limits(9, 1000)).await).contains("deleted and created again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn subjects_metadata_latest_and_tokens() {
    let server = Server::start(&["--auth", "first-token"]);
    let client = async_nats::ConnectOptions::with_token("first-token".to_owned());
    let context = jetstream::new(client.connect(format!("127.0.0.1:{}", server.port)).await.expect("it listens"));
    create(&context, "VISITS").await;
    send(&context, "visits.north", 0..20).await;
    let password = server.folder.path().join("token");
    std::fs::write(&password, "wrong-token\n").expect("written");
    let options =
        SourceOptions { with_metadata: true, password_file: Some(password.clone()), ..SourceOptions::default() };
    let mut source = server.open("VISITS?subject=visits.south&start=latest", &options);
    let mut service = Service::default();
    service.seek(&mut *source).await.expect("nothing is asked yet");
    let why = fault(source.next(limits(9, 1000)).await);
    assert!(why.contains("refuses the user") && !why.contains("token"), "{why}");
    std::fs::write(&password, "first-token\n").expect("written");
    read_all(&mut service, &mut *source).await;
    assert!(service.count() == 0 && service.positions[""].ends_with(":20"), "{:?}", service.positions);
    send(&context, "visits.south", 20..22).await;
    send(&context, "visits.north", 22..24).await;
    send(&context, "visits.south", 24..25).await;
    let mut source = server.open("VISITS?subject=visits.south&start=latest", &options);
    read_all(&mut service, &mut *source).await;
    assert_eq!(numbers(&service), [20, 21, 24]);
    let row = &service.rows[""][0];
    assert!(row.starts_with("{\"_stream\":\"VISITS\",\"_subject\":\"visits.south\",\"_time\":\"20"), "{row}");
    assert!(warnings_of(&mut *source).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_both_sides() {
    let files = Certificates::new();
    let (cert, key, ca) = (files.text("server.pem"), files.text("server.key"), files.text("ca.pem"));
    let server = Server::start(&["--tlscert", &cert, "--tlskey", &key, "--tlscacert", &ca, "--tlsverify"]);
    let client = async_nats::ConnectOptions::new()
        .add_root_certificates(files.path("ca.pem"))
        .add_client_certificate(files.path("client.pem"), files.path("client.key"));
    let client = client.connect(format!("tls://localhost:{}", server.port)).await.expect("it listens");
    let context = jetstream::new(client);
    create(&context, "VISITS").await;
    send(&context, "visits.north", 0..5).await;
    let options = files.options();
    let mut source = server.open("VISITS?tls=true", &options);
    let mut service = Service::default();
    service.seek(&mut *source).await.expect("nothing is asked yet");
    read_all(&mut service, &mut *source).await;
    assert_eq!(numbers(&service), with_value(0..5));
    for (options, why) in [
        (SourceOptions { authority: None, ..options.clone() }, "--source-authority"),
        (SourceOptions { client: None, ..options.clone() }, "--source-certificate"),
    ] {
        let mut source = server.open("VISITS?tls=true", &options);
        source.seek("", None).await.expect("nothing is asked yet");
        let found = problem(source.next(limits(9, 1000)).await);
        assert!(found.contains(why), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures rows per second"]
async fn speed() {
    let server = Server::start(&[]);
    let context = server.context().await;
    create(&context, "VISITS").await;
    for first in 0..100 {
        send(&context, "visits.north", first * 2000..(first + 1) * 2000).await;
    }
    let mut source = server.open("VISITS", &SourceOptions::default());
    Service::default().seek(&mut *source).await.expect("nothing is asked yet");
    let (started, mut rows, mut batches) = (Instant::now(), 0, 0);
    while rows < 180_000 {
        let Some(batch) = source.next(limits(20000, 1000)).await.expect("readable") else { break };
        rows += batch.rows.bytes.iter().filter(|byte| **byte == b'\n').count();
        batches += 1;
    }
    println!("{rows} rows in {batches} batches, {:.0} rows/s", rows as f64 / started.elapsed().as_secs_f64());
    assert_eq!(rows, 180_000);
}
