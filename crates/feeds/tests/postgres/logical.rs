//! Logical replication.

use super::common::warnings_of;
use super::server::{LIMITS, Random, Server, Service, drain, fault};
use evertally_feeds::{BatchLimits, SourceError, SourceOptions, open};
use std::time::{Duration, Instant};

const URL: &str = "publication=visits&slot=evertally";

async fn prepared() -> (Server, tokio_postgres::Client) {
    let server = Server::start("wal_level = logical\n");
    let client = server.client().await;
    let tables = "CREATE ROLE feeder LOGIN REPLICATION; \
                  CREATE TABLE visits (id bigint PRIMARY KEY, page text); CREATE TABLE other (id int); \
                  CREATE PUBLICATION visits FOR TABLE visits; \
                  SELECT pg_create_logical_replication_slot('evertally', 'pgoutput')";
    for statement in tables.split(';') {
        client.batch_execute(statement).await.expect("created");
    }
    (server, client)
}

async fn insert(client: &tokio_postgres::Client, from: i64, to: i64) {
    let query = "INSERT INTO visits SELECT n, 'page ' || n FROM generate_series($1::bigint, $2::bigint) n";
    client.execute(query, &[&from, &to]).await.expect("inserted");
}

/// The feeder stops at random places, the server crashes, and transactions are larger than batches: each row counts
/// once, in the order of commits.
#[tokio::test]
async fn each_row_counts_once() {
    let (server, mut client) = prepared().await;
    let (mut service, mut random) = (Service::default(), Random(37));
    let mut next = 1;
    for round in 0..40 {
        let size = [1, 7, 300][random.below(3) as usize];
        insert(&client, next, next + size - 1).await;
        next += size;
        client.execute("INSERT INTO other VALUES (1)", &[]).await.expect("inserted");
        if round == 20 {
            server.crash();
            server.up();
            client = server.client().await;
        }
        let mut source = server.source(URL);
        source.seek("", service.position.as_deref()).await.expect("ready");
        let limits = BatchLimits { rows: 1 + random.below(60) as usize, bytes: 4000, ..LIMITS };
        for _ in 0..random.below(6) {
            let Some(batch) = source.next(limits).await.expect("readable") else { break };
            assert!(batch.rows.bytes.len() <= 4000);
            if random.below(3) == 0 {
                break; // read, and not committed
            }
            service.commit(&batch);
            if random.below(3) == 0 {
                break; // committed, and not accepted
            }
            source.accepted("", &batch.position).await.expect("accepted");
        }
    }
    let mut source = server.source(URL);
    source.seek("", service.position.as_deref()).await.expect("ready");
    drain(&mut *source, &mut service, LIMITS).await;
    assert_eq!(service.numbers("id"), (1..next).collect::<Vec<_>>());
}

/// Rows come in the order of commits, and aborted ones never.
#[tokio::test]
async fn commits_give_the_order() {
    let (server, first) = prepared().await;
    let second = server.client().await;
    first.batch_execute("BEGIN; INSERT INTO visits VALUES (1, 'a')").await.expect("open");
    second.batch_execute("INSERT INTO visits VALUES (2, 'b')").await.expect("inserted");
    second.batch_execute("BEGIN; INSERT INTO visits VALUES (3, 'c'); ROLLBACK").await.expect("aborted");
    let mut source = server.source(URL);
    let mut service = Service::default();
    source.seek("", None).await.expect("ready");
    drain(&mut *source, &mut service, LIMITS).await;
    assert_eq!(service.numbers("id"), [2]);
    first
        .batch_execute("COMMIT; UPDATE visits SET page = 'd'; DELETE FROM visits; TRUNCATE visits")
        .await
        .expect("done");
    drain(&mut *source, &mut service, LIMITS).await;
    assert_eq!(service.numbers("id"), [2, 1]);
    let warnings = warnings_of(&mut *source);
    assert!(warnings.len() == 1 && warnings[0].contains("not events"), "{warnings:?}");
}

/// A future that is dropped loses no row, and the slot follows the service.
#[tokio::test]
async fn the_slot_follows_the_service() {
    let (server, client) = prepared().await;
    let mut source = server.source(URL);
    let mut service = Service::default();
    source.seek("", None).await.expect("ready");
    insert(&client, 1, 3000).await;
    let mut batches = Vec::new();
    let mut tries = 0;
    while batches.len() < 3 {
        tries += 1;
        let limits = BatchLimits { wait: Duration::from_secs(5), ..LIMITS };
        if let Ok(batch) = tokio::time::timeout(Duration::from_micros(100 * tries), source.next(limits)).await {
            batches.push(batch.expect("readable").expect("rows"));
        }
    }
    let query = "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots";
    let confirmed = async || client.query_one(query, &[]).await.expect("read").get::<_, i64>(0);
    let before = confirmed().await;
    for batch in &batches {
        service.commit(batch);
    }
    assert_eq!(service.numbers("id"), (1..=3000).collect::<Vec<_>>());
    source.accepted("", &batches[2].position).await.expect("accepted");
    drain(&mut *source, &mut service, LIMITS).await;
    assert!(confirmed().await > before, "the slot was not advanced");
    assert_eq!(service.rows.len(), 3000);
    // Log without rows of these tables moves the position too, so that the server can remove it.
    let before = confirmed().await;
    client.execute("INSERT INTO other SELECT generate_series(1, 400000)", &[]).await.expect("inserted");
    // The server reads its own log in its own time: on a busy machine one wait is not enough.
    let asked = Instant::now();
    while confirmed().await <= before + (16 << 20) {
        assert!(asked.elapsed() < Duration::from_secs(60), "the slot keeps log without rows");
        drain(&mut *source, &mut service, LIMITS).await;
    }
    assert_eq!(service.rows.len(), 3000);
}

#[tokio::test]
async fn a_server_that_is_away_returns() {
    let (server, client) = prepared().await;
    insert(&client, 1, 10).await;
    let mut source = server.source(URL);
    let mut service = Service::default();
    source.seek("", None).await.expect("ready");
    drain(&mut *source, &mut service, LIMITS).await;
    server.crash();
    assert!(matches!(source.next(LIMITS).await, Err(SourceError::Away(_))));
    assert!(matches!(source.seek("", service.position.as_deref()).await, Err(SourceError::Away(_))));
    assert!(matches!(source.next(LIMITS).await, Err(SourceError::Away(_))));
    server.up();
    insert(&server.client().await, 11, 20).await;
    source.seek("", service.position.as_deref()).await.expect("ready");
    drain(&mut *source, &mut service, LIMITS).await;
    assert_eq!(service.numbers("id"), (1..=20).collect::<Vec<_>>());
}

/// Nothing starts again in silence.
#[tokio::test]
async fn faults_have_remedies() {
    let (server, client) = prepared().await;
    insert(&client, 1, 10).await;
    let mut source = server.source(URL);
    let mut service = Service::default();
    source.seek("", None).await.expect("ready");
    drain(&mut *source, &mut service, LIMITS).await;
    let position = service.position.clone().expect("stored");
    drop(source);

    let other = position.replacen(&position[..3], "999", 1);
    let text = fault(&mut *server.source(URL), Some(&other)).await;
    assert!(text.contains("another server") && text.contains("accept="), "{text}");
    let (system, _) = position.split_once(':').expect("a system");
    let text = fault(&mut *server.source(URL), Some(&format!("{system}:FF/0"))).await;
    assert!(text.contains("older backup"), "{text}");
    let text = fault(&mut *server.source("publication=visits&slot=none"), None).await;
    assert!(text.contains("pg_create_logical_replication_slot('none', 'pgoutput')"), "{text}");
    let text = fault(&mut *server.source("publication=none&slot=evertally"), None).await;
    assert!(text.contains("CREATE PUBLICATION \"none\""), "{text}");

    insert(&client, 11, 20).await;
    client.execute("SELECT pg_drop_replication_slot('evertally')", &[]).await.expect("dropped");
    let text = fault(&mut *server.source(&format!("{URL}&create=true")), Some(&position)).await;
    assert!(text.contains("was dropped"), "{text}");
    client.execute("SELECT pg_create_logical_replication_slot('evertally', 'pgoutput')", &[]).await.expect("created");
    let text = fault(&mut *server.source(URL), Some(&position)).await;
    assert!(text.contains("rows may be missing"), "{text}");
    let (_, accept) = text.split_once("accept=").expect("a remedy");
    let accept = accept.split_whitespace().next().expect("a value");
    let accepting = format!("{URL}&accept={accept}");
    for rows in [21, 22] {
        insert(&client, rows, rows).await;
        let mut source = server.source(&accepting);
        source.seek("", service.position.as_deref()).await.expect("accepted");
        drain(&mut *source, &mut service, LIMITS).await;
    }
    assert_eq!(service.numbers("id"), (1..=10).chain([21, 22]).collect::<Vec<_>>());

    client.execute("CREATE ROLE weak LOGIN", &[]).await.expect("created");
    let url = format!("postgresql://weak@127.0.0.1:{}/postgres?{URL}", server.port);
    let mut source = open(&url, &SourceOptions::default()).expect("valid");
    source.seek("", service.position.as_deref()).await.expect("readable");
    match source.next(LIMITS).await {
        Err(SourceError::Fault(error)) => assert!(error.to_string().contains("REPLICATION"), "{error}"),
        other => panic!("not a fault: {other:?}"),
    }
}

#[tokio::test]
async fn a_slot_is_created_on_request() {
    let (server, client) = prepared().await;
    insert(&client, 1, 1).await;
    let mut source = server.source("publication=visits&slot=more&create=true");
    let mut service = Service::default();
    source.seek("", None).await.expect("created");
    assert!(warnings_of(&mut *source)[0].contains("created the slot"));
    insert(&client, 2, 3).await;
    drain(&mut *source, &mut service, LIMITS).await;
    assert_eq!(service.numbers("id"), [2, 3]);
    let late = "CREATE TABLE late (id int); INSERT INTO late VALUES (1)";
    client.batch_execute(late).await.expect("inserted");
    client.execute("CREATE PUBLICATION late FOR TABLE late", &[]).await.expect("created");
    let mut source = server.source("publication=late&slot=evertally");
    source.seek("", None).await.expect("ready");
    match source.next(LIMITS).await {
        Err(SourceError::Fault(error)) => assert!(error.to_string().contains("did not exist yet"), "{error}"),
        other => panic!("not a fault: {other:?}"),
    }
}

#[tokio::test]
async fn a_server_without_logical_replication_is_refused() {
    let server = Server::start("");
    server.client().await.execute("CREATE ROLE feeder LOGIN", &[]).await.expect("created");
    let text = fault(&mut *server.source(URL), None).await;
    assert!(text.contains("wal_level = logical") && text.contains("ALTER SYSTEM"), "{text}");
    let error = server.try_source("publication=p").err().expect("incomplete").to_string();
    assert!(error.contains("slot=NAME"), "{error}");
    let error = server.try_source(&format!("{URL}&sslmode=require")).err().expect("refused").to_string();
    assert!(error.contains("verify-full"), "{error}");
}

/// The certificate is checked, and the password is read again at each connection.
#[tokio::test]
async fn connections_are_encrypted() {
    let (server, client) = prepared().await;
    server.shell(
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.crt -days 2 -subj /CN=localhost \
         -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE 2>/dev/null; chmod 600 \
         server.key; chmod 755 .; chmod 644 server.crt; echo 'hostssl all feeder all scram-sha-256' > pg_hba.conf; \
         echo 'host all postgres all trust' >> pg_hba.conf; chmod 700 .",
    );
    for query in ["ALTER ROLE feeder PASSWORD 'first'", "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"] {
        client.execute(query, &[]).await.expect("changed");
    }
    insert(&client, 1, 3).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (password, authority) = (folder.path().join("password"), folder.path().join("server.crt"));
    std::fs::write(&password, "wrong\n").expect("written");
    let certificate = "SELECT pg_read_file('server.crt')";
    let certificate: String = client.query_one(certificate, &[]).await.expect("read").get(0);
    std::fs::write(&authority, certificate).expect("written");
    let url = |host: &str, mode: &str| format!("postgresql://feeder@{host}:{}/postgres?{URL}&{mode}", server.port);
    let encrypted = url("localhost", "sslmode=verify-full");
    let options =
        SourceOptions { password_file: Some(password.clone()), authority: Some(authority), ..SourceOptions::default() };
    let refused =
        async |url: &str, options: &SourceOptions| match open(url, options).expect("valid").seek("", None).await {
            Err(SourceError::Away(why)) => why,
            Err(SourceError::Fault(why)) => why.to_string(),
            other => panic!("not refused: {other:?}"),
        };
    let start = std::time::Instant::now();
    while !refused(&encrypted, &options).await.contains("password") {
        assert!(start.elapsed() < Duration::from_secs(5), "the settings are not loaded");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::fs::write(&password, "first\n").expect("written");
    let public = SourceOptions { authority: None, ..options.clone() };
    let why = refused(&encrypted, &public).await;
    assert!(why.contains("certificate") && !why.contains("first"), "{why}");
    let why = refused(&url("127.0.0.1", "sslmode=verify-full"), &options).await;
    assert!(why.contains("certificate"), "{why}");
    let mut source = open(&encrypted, &options).expect("valid");
    let mut service = Service::default();
    source.seek("", None).await.expect("ready");
    drain(&mut *source, &mut service, LIMITS).await;
    assert_eq!(service.numbers("id"), [1, 2, 3]);
    // Other machines need encryption, or an explicit word.
    let warned = open("postgresql://a@db/x?publication=p&slot=s&sslmode=disable", &SourceOptions::default());
    assert!(warned.expect("valid").warnings()[0].text().contains("not encrypted"));
    assert!(
        open("postgresql://a@db/x?publication=p&slot=s", &SourceOptions::default())
            .expect("valid")
            .warnings()
            .is_empty()
    );
}

/// Run with `--ignored --nocapture` to see the speed.
#[tokio::test]
#[ignore = "measures"]
async fn speed() {
    let (server, client) = prepared().await;
    for part in 0..10 {
        insert(&client, part * 50_000 + 1, (part + 1) * 50_000).await;
    }
    let mut source = server.source(URL);
    let mut service = Service::default();
    let limits = BatchLimits { rows: 50_000, bytes: 4 << 20, ..LIMITS };
    let start = std::time::Instant::now();
    source.seek("", None).await.expect("ready");
    let mut rows = 0;
    while rows < 500_000 {
        let batch = source.next(limits).await.expect("readable").expect("rows");
        rows += batch.rows.bytes.split(|byte| *byte == b'\n').count() - 1;
        source.accepted("", &batch.position).await.expect("accepted");
    }
    println!("{:.0} rows/s", rows as f64 / start.elapsed().as_secs_f64());
    service.rows.clear();
}
