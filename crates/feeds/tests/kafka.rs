//! Topics of Kafka, on the mock cluster of librdkafka.

mod common;

use common::cluster::Cluster;
use common::{Random, Service, fault, limits, warnings_of};
use evertally_feeds::{Source, SourceError, SourceOptions, open};
use std::time::{Duration, Instant};

/// The numbers of the rows of a partition.
fn numbers(service: &Service, partition: &str) -> Vec<u64> {
    let rows = service.rows.get(partition).map(Vec::as_slice).unwrap_or_default();
    let number = |row: &String| row.rsplit(": ").next()?.trim_end_matches('}').parse().ok();
    rows.iter().map(|row| number(row).expect("a number")).collect()
}

/// The numbers that are produced with a value.
fn with_value(range: std::ops::Range<u64>) -> Vec<u64> {
    range.filter(|number| number % 10 != 9).collect()
}

/// Reads until nothing more comes.
async fn read_all(service: &mut Service, source: &mut dyn Source) {
    service.seek(source).await.expect("reachable");
    while let Some(batch) = source.next(limits(700, 800)).await.expect("readable") {
        assert!(service.commit(&batch));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_counts_once_while_sources_stop_and_brokers_fail() {
    const ROWS: u64 = 3000;
    let mut cluster = Cluster::start(3);
    cluster.run("create visits 4 3");
    for (partition, codec) in ["none", "gzip", "snappy", "lz4"].iter().enumerate() {
        cluster.run(&format!("produce visits {partition} 0 {} {codec}", ROWS / 2));
    }
    let mut service = Service::default();
    let mut random = Random(37);
    let deadline = Instant::now() + Duration::from_secs(30);
    let whole = (4 * with_value(0..ROWS).len(), 24);
    let (mut sources, mut absences) = (0, 0);
    while service.count() < whole.0 || sources < whole.1 {
        assert!(Instant::now() < deadline, "{} rows", service.count());
        sources += 1;
        match sources {
            5 => cluster.run("leader visits 0 1"),
            9 => cluster.run("down 2"),
            13 => {
                // A broker is down: its partitions have another leader, as in a cluster with replicas.
                for partition in 0..4 {
                    cluster.run(&format!("leader visits {partition} {}", [1, 3][partition % 2]));
                }
            }
            15 => cluster.run("up 2"),
            18..22 => cluster.run(&format!("produce visits {0} {1} {1} zstd", sources - 18, ROWS / 2)),
            _ => {}
        }
        let mut source = cluster.open("visits");
        match service.seek(&mut *source).await {
            Ok(()) => {}
            Err(SourceError::Away(_)) => continue,
            Err(SourceError::Fault(error)) => panic!("{error}"),
        }
        for _ in 0..random.below(12) {
            let rows = 1 + random.below(400) as usize;
            // Dropping the future loses nothing.
            let patience = Duration::from_micros(random.below(3000));
            let _ = tokio::time::timeout(patience, source.next(limits(0, 50))).await.map(|batch| {
                if let Ok(Some(batch)) = batch {
                    assert!(service.commit(&batch));
                }
            });
            match source.next(limits(rows, 300)).await {
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
                    break;
                }
                Err(SourceError::Fault(error)) => panic!("{error}"),
            }
        }
    }
    for partition in 0..4 {
        assert_eq!(
            numbers(&service, &partition.to_string()),
            with_value(0..ROWS),
            "{partition}, {absences} times away"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_source_outlives_its_brokers() {
    let mut cluster = Cluster::start(2);
    cluster.run("create visits 2 2");
    cluster.run("produce visits 0 0 100 none");
    let (mut service, mut source) = (Service::default(), cluster.open("visits"));
    read_all(&mut service, &mut *source).await;
    cluster.run("down 1");
    cluster.run("down 2");
    let deadline = Instant::now() + Duration::from_secs(10);
    let away = loop {
        assert!(Instant::now() < deadline, "the brokers are missed");
        match source.next(limits(100, 500)).await {
            Err(SourceError::Away(why)) => break why,
            other => assert!(matches!(other, Ok(None))),
        }
    };
    assert!(away.contains("of visits") && away.contains("127.0.0.1"), "{away}");
    cluster.run("up 1");
    cluster.run("up 2");
    cluster.run("produce visits 1 100 50 none");
    read_all(&mut service, &mut *source).await;
    assert_eq!(numbers(&service, "0"), with_value(0..100));
    assert_eq!(numbers(&service, "1"), with_value(100..150));
    assert!(warnings_of(&mut *source).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_rows_are_a_warning_and_lost_offsets_a_fault() {
    let mut cluster = Cluster::start(1);
    cluster.run("create visits 1 1");
    cluster.run("produce visits 0 0 1000 none");
    let (mut service, mut source) = (Service::default(), cluster.open("visits"));
    service.seek(&mut *source).await.expect("reachable");
    let batch = source.next(limits(90, 3000)).await.expect("readable").expect("rows");
    assert!(service.commit(&batch));
    assert_eq!(batch.rows.origin_of(90).as_deref(), Some("offset 98"));
    cluster.run("delete visits 0 600");
    let mut source = cluster.open("visits");
    read_all(&mut service, &mut *source).await;
    let warnings = warnings_of(&mut *source);
    assert!(warnings.len() == 1 && warnings[0].contains("(501 offsets"), "{warnings:?}");
    let read = numbers(&service, "0");
    assert_eq!(read[..90], with_value(0..99));
    assert_eq!((read[90], read.last()), (600, Some(&998)));

    let (id, _) = service.positions["0"].split_once(':').expect("an id");
    let beyond = format!("{id}:5000");
    source.seek("0", Some(&beyond)).await.expect("not asked yet");
    let why = fault(source.next(limits(90, 3000)).await);
    assert!(why.contains("ends at offset 1000") && why.contains("5000"), "{why}");
    assert!(fault(source.seek("0", Some("x")).await).contains("not a position"));

    // The same name, other records.
    cluster.run("drop visits");
    cluster.run("create visits 1 1");
    cluster.run("produce visits 0 0 2000 none");
    assert!(fault(source.partitions().await).contains("deleted and created again"));
    let mut source = cluster.open("visits");
    assert!(fault(service.seek(&mut *source).await).contains("deleted and created again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_latest_and_old_brokers() {
    let mut cluster = Cluster::start(1);
    cluster.run("create visits 1 1");
    cluster.run("produce visits 0 0 20 none");
    // The newest requests that Kafka 2.3 knows.
    cluster.run("version 1 0 11");
    cluster.run("version 3 0 7");
    let options = SourceOptions { with_metadata: true, ..SourceOptions::default() };
    let url = format!("kafka://{}/visits?start=latest", cluster.address);
    let mut source = open(&url, &options).expect("valid");
    assert_eq!(source.identity(), "kafka:visits");
    let mut service = Service::default();
    read_all(&mut service, &mut *source).await;
    assert_eq!((service.count(), service.positions["0"].as_str()), (0, "20"));
    cluster.run("produce visits 0 20 2 none");
    let mut source = open(&url, &options).expect("valid");
    read_all(&mut service, &mut *source).await;
    let first =
        "{\"_topic\":\"visits\",\"_time\":\"2023-11-14T22:13:20.020000Z\",\"_key\":\"k20\",\"person\": \"p000020\", ";
    assert_eq!(service.rows["0"].len(), 2);
    assert!(service.rows["0"][0].starts_with(first), "{:?}", service.rows["0"]);

    let mut missing = cluster.open("other");
    assert!(fault(missing.partitions().await).contains("no topic other"));
    let mut nobody = open("kafka://127.0.0.1:1/visits", &options).expect("valid");
    assert!(matches!(nobody.partitions().await, Err(SourceError::Away(_))));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures rows per second"]
async fn speed() {
    let mut cluster = Cluster::start(3);
    cluster.run("create visits 15 1");
    for partition in 0..15 {
        cluster.run(&format!("produce visits {partition} 0 60000 {}", ["none", "lz4", "zstd"][partition % 3]));
    }
    for with_metadata in [false, true] {
        let options = SourceOptions { with_metadata, ..SourceOptions::default() };
        let mut source = open(&format!("kafka://{}/visits", cluster.address), &options).expect("valid");
        Service::default().seek(&mut *source).await.expect("reachable");
        let (started, mut rows, mut batches) = (Instant::now(), 0, 0);
        while rows < 15 * 54000 {
            let Some(batch) = source.next(limits(20000, 500)).await.expect("readable") else { break };
            rows += batch.rows.bytes.iter().filter(|byte| **byte == b'\n').count();
            batches += 1;
        }
        let took = started.elapsed().as_secs_f64();
        println!("metadata {with_metadata}: {rows} rows in {batches} batches, {:.0} rows/s", rows as f64 / took);
        assert!(rows > 500_000);
    }
}
