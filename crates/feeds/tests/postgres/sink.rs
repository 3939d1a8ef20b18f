//! A table as a sink.

use super::server::{Random, Server};
use evertally_feeds::{Sink, SourceError, SourceOptions, open_sink};
use std::time::Duration;

async fn prepared() -> (Server, tokio_postgres::Client) {
    let server = Server::start("");
    let client = server.client().await;
    let table = "CREATE TABLE releases (step bigint PRIMARY KEY, key text, value double precision); \
                 CREATE TABLE copies (LIKE releases)";
    client.batch_execute(table).await.expect("created");
    (server, client)
}

fn sink(server: &Server, table: &str) -> Box<dyn Sink> {
    let url = format!("postgresql://postgres@127.0.0.1:{}/postgres?table={table}", server.port);
    open_sink(&url, "visits", &SourceOptions::default()).expect("a valid URL")
}

/// The writer stops at random places, also inside a write, and the server crashes: each row is written once.
#[tokio::test]
async fn each_row_is_written_once() {
    let (server, _) = prepared().await;
    let mut random = Random(5);
    let mut open = sink(&server, "public.copies");
    let mut tries = 0;
    loop {
        tries += 1;
        assert!(tries < 400, "no progress");
        if random.below(4) == 0 {
            open = sink(&server, "public.copies");
        }
        if tries == 30 {
            server.crash();
            server.up();
        }
        let Ok(last) = open.last().await else { continue };
        let step: i64 = last.as_deref().map_or(0, |last| last.parse().expect("a number"));
        if step == 60 {
            break;
        }
        let next = (step + 2).to_string();
        let rows = format!(
            "{{\"step\":{},\"key\":\"a\",\"value\":1.5,\"other\":1}}\n{{\"step\":{},\"value\":-2}}\n",
            step + 1,
            step + 2
        );
        let limit = Duration::from_micros(500 + random.below(9000));
        drop(tokio::time::timeout(limit, open.write(last.as_deref(), rows.as_bytes(), &next)).await);
    }
    let rows = server.client().await.query("SELECT step FROM copies ORDER BY step", &[]).await.expect("read");
    let steps: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(steps, (1..=60).collect::<Vec<_>>());
}

/// A second writer writes nothing, and a row that the table refuses moves no position.
#[tokio::test]
async fn writers_exclude_each_other() {
    let (server, client) = prepared().await;
    let (mut one, mut other) = (sink(&server, "releases"), sink(&server, "releases"));
    let row = b"{\"step\":1,\"key\":\"a\",\"value\":3}\n";
    assert_eq!(one.last().await.expect("read"), None);
    one.write(None, row, "1").await.expect("written");
    for after in [None, Some("0")] {
        assert!(matches!(other.write(after, row, "2").await, Err(SourceError::Away(_))));
    }
    assert!(matches!(other.write(Some("1"), b"{\"step\":\"x\"}\n", "2").await, Err(SourceError::Fault(_))));
    assert_eq!(other.last().await.expect("read").as_deref(), Some("1"));
    let count: i64 = client.query_one("SELECT count(*) FROM releases", &[]).await.expect("read").get(0);
    assert_eq!(count, 1);
    let error = open_sink("nats://h/x", "visits", &SourceOptions::default()).err().expect("refused").to_string();
    assert!(error.contains("choose postgresql"), "{error}");
}
