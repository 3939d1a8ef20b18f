//! Rows of URLs are those of files: as text, compressed, and in formats that are copied to a file.

use super::*;
use crate::input::refuse_duplicates;
use crate::input::tests::golden::parquet_file;
use crate::input::tests::{Fixture, gzip, is_cancelled, zst};
use std::sync::atomic::{AtomicBool, Ordering};

const ROWS: &str = "time,airport,carrier,tail,delay\n2024-05-01,ABE,DL,N1,5\n2024-05-02,CDG,AF,N2,-3\n";

fn served(body: Vec<u8>) -> Server {
    Server::new(move |_, _| Response { framing: Framing::Chunked, ..Response::new(200, body.clone()) })
}

fn url(server: &Server) -> PathBuf {
    format!("http://{}/day.csv?sig=hidden", server.address).into()
}

#[test]
fn rows_of_urls_are_those_of_files() {
    let fixture = Fixture::new();
    let rows = fixture.read_bytes(ROWS.as_bytes()).unwrap();
    assert_eq!(rows.len(), 2);
    for body in [ROWS.into(), gzip(ROWS.as_bytes()), zst(ROWS.as_bytes())] {
        let server = served(body);
        assert_eq!(fixture.read(&[url(&server)]).unwrap(), rows);
        assert_eq!(server.requests().len(), 1, "an input is requested once");
    }
    // Parquet has its directory at the end, and is spooled.
    let parquet = parquet_file();
    let of_file = fixture.read_bytes(&parquet).unwrap();
    assert!(!of_file.is_empty());
    assert_eq!(fixture.read(&[url(&served(parquet))]).unwrap(), of_file);
}

#[test]
fn several_inputs_are_read_in_order() {
    let fixture = Fixture::new();
    let (text, packed) = (served(ROWS.into()), served(gzip(ROWS.as_bytes())));
    let rows = fixture.read(&[url(&packed), fixture.file("a.csv", ROWS.as_bytes()), url(&text)]).unwrap();
    assert_eq!(rows.len(), 6);
}

#[test]
fn errors_in_rows_name_the_url_without_its_query() {
    let server = served(b"time,airport\n2024-05-01,ABE\n2024-05-01,\"open\n".to_vec());
    let error = Fixture::new().columns("time", &["airport"], None, None).error_of(&url(&server));
    assert!(error.starts_with(&format!("http://{}/day.csv?..., line 3", server.address)), "{error}");
    let missing = Server::new(|_, _| Response::new(404, ""));
    let error = Fixture::new().error_of(&url(&missing));
    let shown = format!("http://{}/day.csv?...", missing.address);
    assert_eq!(error, format!("{shown}: there is no such file (status 404); check the URL"));
}

#[test]
fn a_compressed_file_that_is_cut_short_is_refused() {
    let body = gzip(&content());
    let server = Server::new(move |_, _| Response { cut_at: Some(body.len() / 2), ..Response::new(200, body.clone()) });
    let error = Fixture::new().error_of(&url(&server));
    assert!(error.contains("the download ended after"), "{error}");
}

#[test]
fn the_same_url_twice_is_refused() {
    for (first, second, is_same) in [
        ("s3://b/k", "s3://b/k", true),
        ("s3://b/k", "s3a://b/k", true),
        ("az://b/k", "abfs://b/k", true),
        ("s3://b/k", "gs://b/k", false),
        ("https://h/k?day=1", "https://h/k?day=2", false),
    ] {
        assert_eq!(refuse_duplicates(&[first.into(), second.into()]).is_err(), is_same, "{first} {second}");
    }
    let error = refuse_duplicates(&["https://h/k?sig=a".into(), "https://h/k?sig=a".into()]).unwrap_err().to_string();
    assert!(error.starts_with("https://h/k?...: it is named twice"), "{error}");
}

#[test]
fn reading_ends_when_it_is_cancelled() {
    let pause = Some(Duration::from_secs(20));
    let server = Server::new(move |_, _| Response { pause, ..Response::new(200, content()) });
    let cancelled = AtomicBool::new(false);
    let started = std::time::Instant::now();
    let read = std::thread::scope(|scope| {
        scope.spawn(|| {
            while server.requests().is_empty() {
                std::thread::sleep(Duration::from_millis(10));
            }
            cancelled.store(true, Ordering::Relaxed);
        });
        Fixture::new().visit(&[url(&server)], &cancelled, &mut |_| Ok(()))
    });
    assert!(is_cancelled(&read.unwrap_err()));
    assert!(started.elapsed() < Duration::from_secs(10));
}
