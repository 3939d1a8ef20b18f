//! A topic of Kafka as a sink, on the mock cluster of librdkafka.

mod common;

use common::cluster::Cluster;
use evertally_feeds::{BatchLimits, Sink, SinkContent, SinkMemory, SourceError, SourceOptions, open, open_sink};
use std::time::Duration;

fn sink_of(cluster: &Cluster, stream: &str) -> Box<dyn Sink> {
    let url = format!("kafka://{}/releases", cluster.address);
    open_sink(&url, stream, &SourceOptions::default()).expect("valid")
}

/// The number of the last publication.
async fn last(sink: &mut dyn Sink) -> Result<u64, SourceError> {
    let position = sink.last().await?;
    Ok(position.map_or(0, |position| position.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")))
}

/// Writes publications until one is reached, as the service does.
async fn write_through(sink: &mut dyn Sink, stream: &str, wanted: u64) {
    for _ in 0..100 {
        let Ok(mut written) = last(sink).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while written < wanted {
            let message = format!("{{\"stream\":\"{stream}\",\"publication\":{}}}", written + 1);
            let position = format!("{} ab", written + 1);
            if sink.write(None, message.as_bytes(), &position).await.is_err() {
                break;
            }
            written += 1;
        }
        if written >= wanted {
            return;
        }
    }
    panic!("{stream} does not reach {wanted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn publications_are_records_in_order() {
    let mut cluster = Cluster::start(3);
    cluster.run("create releases 2 3");
    let mut sinks = [sink_of(&cluster, "visits"), sink_of(&cluster, "sales")];
    assert_eq!((sinks[0].content(), sinks[0].memory()), (SinkContent::Message, SinkMemory::Both));
    assert_eq!(last(&mut *sinks[0]).await.expect("reachable"), 0);
    for round in 1..=12 {
        match round {
            3 => (0..2).for_each(|partition| cluster.run(&format!("leader releases {partition} 1"))),
            5 => {
                cluster.run("down 1");
                (0..2).for_each(|partition| cluster.run(&format!("leader releases {partition} 2")));
            }
            8 => cluster.run("up 1"),
            _ => {}
        }
        for (stream, sink) in ["visits", "sales"].into_iter().zip(&mut sinks) {
            if round % 2 == 0 {
                *sink = sink_of(&cluster, stream);
            }
            // One stream has many more records than the other, in the same partition or not.
            write_through(&mut **sink, stream, round * if stream == "visits" { 40 } else { 1 }).await;
        }
    }
    let options = SourceOptions { with_metadata: true, ..SourceOptions::default() };
    let mut source = open(&format!("kafka://{}/releases", cluster.address), &options).expect("valid");
    for partition in source.partitions().await.expect("reachable") {
        source.seek(&partition, None).await.expect("reachable");
    }
    let (mut visits, mut sales) = (Vec::new(), Vec::new());
    let limits = BatchLimits { rows: 1000, bytes: 1 << 20, wait: Duration::from_millis(800) };
    while let Some(batch) = source.next(limits).await.expect("readable") {
        for line in std::str::from_utf8(&batch.rows.bytes).expect("UTF-8").lines() {
            let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(row["_key"], row["stream"]);
            let numbers = if row["stream"] == "visits" { &mut visits } else { &mut sales };
            numbers.push(row["publication"].as_u64().expect("a number"));
        }
    }
    assert_eq!(visits, (1..=480).collect::<Vec<_>>());
    assert_eq!(sales, (1..=12).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_cannot_be_written_are_named() {
    let cluster = Cluster::start(1);
    let url = format!("kafka://{}/releases?start=latest", cluster.address);
    let refused = open_sink(&url, "visits", &SourceOptions::default()).err().expect("refused").to_string();
    assert!(refused.contains("`start`"), "{refused}");
    let Err(SourceError::Fault(missing)) = sink_of(&cluster, "visits").last().await else { panic!("the topic exists") };
    assert!(missing.to_string().contains("create it"), "{missing}");
    let nobody = open_sink("kafka://127.0.0.1:1/releases", "visits", &SourceOptions::default());
    assert!(matches!(nobody.expect("valid").last().await, Err(SourceError::Away(_))));
}
