//! A query with a high-water mark.

use super::server::{LIMITS, Random, Server, Service, drain, fault};
use evertally_feeds::BatchLimits;
use std::time::Duration;

const URL: &str = "table=visits&order-by=id";

async fn prepared() -> (Server, tokio_postgres::Client) {
    let server = Server::start("");
    let client = server.client().await;
    let tables = "CREATE ROLE feeder LOGIN; \
                  CREATE TABLE visits (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, writer int, at timestamptz, \
                  n numeric, more jsonb); GRANT SELECT ON visits TO feeder";
    client.batch_execute(tables).await.expect("created");
    (server, client)
}

/// A value that is taken first and committed last is not passed over, and neither is a prepared transaction.
#[tokio::test]
async fn a_late_commit_is_awaited() {
    let (server, first) = prepared().await;
    let second = server.client().await;
    let third = server.client().await;
    let insert = "INSERT INTO visits (writer) VALUES (1)";
    first.batch_execute(&format!("BEGIN; {insert}")).await.expect("open");
    second.batch_execute(&format!("BEGIN; {insert}")).await.expect("open");
    third.batch_execute(insert).await.expect("inserted");
    let mut source = server.source(URL);
    let mut service = Service::default();
    source.seek("", None).await.expect("ready");
    assert!(source.next(LIMITS).await.expect("readable").is_none(), "rows below may still be committed");
    second.batch_execute("PREPARE TRANSACTION 'two'").await.expect("prepared");
    assert!(source.next(LIMITS).await.expect("readable").is_none(), "a transaction is prepared");
    first.batch_execute("COMMIT").await.expect("committed");
    assert!(source.next(LIMITS).await.expect("readable").is_none(), "a transaction is prepared");
    second.batch_execute("COMMIT PREPARED 'two'").await.expect("committed");
    drain(&mut *source, &mut service, LIMITS).await;
    assert_eq!(service.numbers("id"), [1, 2, 3]);
}

/// Four writers whose transactions overlap, and a feeder that stops at random places: each committed row counts once.
#[tokio::test]
async fn each_row_of_concurrent_writers_counts_once() {
    let (server, client) = prepared().await;
    let mut writers = Vec::new();
    for writer in 0..4_u64 {
        let client = server.client().await;
        writers.push(tokio::spawn(async move {
            let mut random = Random(writer);
            for _ in 0..60 {
                client.batch_execute("BEGIN").await.expect("open");
                for _ in 0..=random.below(5) {
                    let query = format!("INSERT INTO visits (writer) VALUES ({writer})");
                    client.batch_execute(&query).await.expect("inserted");
                    if random.below(3) == 0 {
                        tokio::time::sleep(Duration::from_millis(random.below(15))).await;
                    }
                }
                let end = if random.below(6) == 0 { "ROLLBACK" } else { "COMMIT" };
                client.batch_execute(end).await.expect("ended");
            }
        }));
    }
    let (mut service, mut random) = (Service::default(), Random(7));
    let mut early = 0;
    while writers.iter().any(|writer| !writer.is_finished()) {
        let mut source = server.source(URL);
        source.seek("", service.position.as_deref()).await.expect("ready");
        for _ in 0..random.below(8) {
            let limits = BatchLimits { rows: 1 + random.below(20) as usize, ..LIMITS };
            let Some(batch) = source.next(limits).await.expect("readable") else { break };
            if random.below(4) == 0 {
                break; // not committed
            }
            service.commit(&batch);
        }
        early = service.rows.len();
    }
    for writer in writers {
        writer.await.expect("finished");
    }
    let mut source = server.source(URL);
    source.seek("", service.position.as_deref()).await.expect("ready");
    drain(&mut *source, &mut service, LIMITS).await;
    let rows = client.query("SELECT id FROM visits ORDER BY id", &[]).await.expect("read");
    let expected: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert!(expected.len() > 400 && early > 50, "{} rows, {early} of them early", expected.len());
    assert_eq!(service.numbers("id"), expected);
}

#[tokio::test]
async fn rows_are_objects_and_columns_are_checked() {
    let (server, client) = prepared().await;
    let query = "INSERT INTO visits (at, n, more) VALUES ('2026-01-31 13:00+01', 0.5, '{\"a\": [true]}'), \
                 ('infinity', 'NaN', NULL)";
    client.batch_execute(query).await.expect("inserted");
    let mut source = server.source(URL);
    let mut service = Service::default();
    source.seek("", None).await.expect("ready");
    drain(&mut *source, &mut service, LIMITS).await;
    let expected = serde_json::json!([
        {"id": 1, "writer": null, "at": "2026-01-31T12:00:00+00:00", "n": 0.5, "more": {"a": [true]}},
        {"id": 2, "writer": null, "at": "infinity", "n": "NaN", "more": null},
    ]);
    assert_eq!(serde_json::Value::from(service.rows.clone()), expected);

    let tables = "CREATE TABLE shared (id bigserial, n int PRIMARY KEY, u uuid UNIQUE); \
                  CREATE TABLE cached (id bigint GENERATED ALWAYS AS IDENTITY (CACHE 10) PRIMARY KEY); \
                  CREATE UNLOGGED TABLE unlogged (id bigserial PRIMARY KEY); \
                  CREATE VIEW seen AS SELECT * FROM visits; \
                  CREATE TABLE parts (id bigserial PRIMARY KEY) PARTITION BY RANGE (id); \
                  CREATE TABLE part PARTITION OF parts DEFAULT; GRANT SELECT ON parts TO feeder";
    client.batch_execute(tables).await.expect("created");
    for (query, why) in [
        ("table=none&order-by=id", "no such table"),
        ("table=visits&order-by=at", "integer type"),
        ("table=shared&order-by=u", "integer type"),
        ("table=shared&order-by=id", "make it the primary key"),
        ("table=shared&order-by=n", "GENERATED ALWAYS AS IDENTITY"),
        ("table=cached&order-by=id", "SET CACHE 1"),
        ("table=unlogged&order-by=id", "SET LOGGED"),
        ("table=seen&order-by=id", "only tables"),
    ] {
        let text = fault(&mut *server.source(query), None).await;
        assert!(text.contains(why), "{query}: {text}");
    }
    client.batch_execute("INSERT INTO parts DEFAULT VALUES; INSERT INTO parts DEFAULT VALUES").await.expect("inserted");
    let (mut source, mut parts) = (server.source("table=public.parts&order-by=id"), Service::default());
    source.seek("", None).await.expect("ready");
    drain(&mut *source, &mut parts, LIMITS).await;
    assert_eq!(parts.numbers("id"), [1, 2]);

    // The sequence is reset, and the table is created again.
    let position = service.position.expect("stored");
    client
        .batch_execute("GRANT SELECT ON visits_id_seq TO feeder; TRUNCATE visits RESTART IDENTITY")
        .await
        .expect("ok");
    let text = fault(&mut *server.source(URL), Some(&position)).await;
    assert!(text.contains("setval"), "{text}");
    let again =
        "DROP TABLE visits CASCADE; CREATE TABLE visits (id bigserial PRIMARY KEY); GRANT SELECT ON visits TO feeder";
    client.batch_execute(again).await.expect("created");
    let text = fault(&mut *server.source(URL), Some(&position)).await;
    assert!(text.contains("created again") && text.contains("accept="), "{text}");
}
