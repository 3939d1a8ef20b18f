//! Inputs in object stores: the same tables as from files, through the whole program.
#![cfg(feature = "object-stores")]

mod common;
#[path = "../../tables/src/input/remote/tests/server.rs"]
mod server;

use assert_cmd::Command;
use common::Bench;
use server::{Framing, Response, Server, answer_s3};
use std::sync::{Arc, Mutex};

type Objects = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A store with these objects, which can be replaced.
fn store(objects: &[(&str, &str)]) -> (Server, Objects) {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), text.as_bytes().to_vec());
    let objects: Objects = Arc::new(Mutex::new(objects.iter().map(owned).collect()));
    let served = objects.clone();
    (Server::new(move |request, _| answer_s3(&served.lock().unwrap(), request)), objects)
}

/// Runs the program with the credentials of the store. Returns the status and all of its output.
fn run(bench: &Bench, server: &Server, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evertally"));
    let endpoint = format!("http://{}", server.address);
    command.current_dir(bench.folder()).args(args).env("AWS_ENDPOINT", endpoint).env("AWS_ACCESS_KEY_ID", "key");
    let output = command.env("AWS_SECRET_ACCESS_KEY", "hidden-secret").output().unwrap();
    let messages = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
    assert!(!messages.contains("hidden-secret") && !messages.contains("sig="), "{messages}");
    (output.status.code().unwrap(), messages)
}

/// A release of three days.
fn release<'a>(inputs: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let days = ["--key", "my.key", "--start", "2024-05-01", "--end", "2024-05-04", "--every", "1d", "--epsilon", "1"];
    [&["release"], inputs, &days, more].concat()
}

#[test]
fn objects_give_the_table_of_the_files() {
    let days =
        [("d/1.csv", "time\n2024-05-01\n"), ("d/2.csv", "time\n2024-05-02\n"), ("d/.x", "?"), ("d/e/3.csv", "?")];
    let (server, _) = store(&days);
    let table = |inputs: &[&str]| {
        // The same key in another folder gives the same noise.
        let bench = Bench::new();
        bench.write("1.csv", days[0].1).write("2.csv", days[1].1);
        bench.write("c.toml", "input = \"s3://bucket/d/*.csv\"\n");
        let (code, messages) = run(&bench, &server, &release(inputs, &["--out", "t.csv", "--all"]));
        assert_eq!(code, 0, "{inputs:?}: {messages}");
        bench.read("t.csv")
    };
    let of_files = table(&["1.csv", "2.csv"]);
    assert!(server.requests().is_empty());
    for inputs in [
        &["s3://bucket/d/1.csv", "s3://bucket/d/2.csv"][..],
        &["s3://bucket/d/"],
        &["s3://bucket/d/[12].csv"],
        &["s3a://bucket/d/1.csv", "2.csv"],
        &["--config", "c.toml"],
    ] {
        assert_eq!(table(inputs), of_files, "{inputs:?}");
    }
}

#[test]
fn inputs_that_cannot_be_read_are_refused() {
    let bench = Bench::new();
    let (server, _) = store(&[("d/1.csv", "time\n2024-05-01\n")]);
    let missing = Server::new(|_, _| Response::new(403, "<Error><Code>AccessDenied</Code></Error>"));
    for (server, inputs, words) in [
        (&server, &["s3://bucket/no.csv"][..], "s3://bucket/no.csv: there is no such object (NoSuchKey)"),
        (&server, &["s3://bucket/no*.csv"], "s3://bucket/no*.csv: no object matches this pattern"),
        (&server, &["s3://bucket/none/"], "s3://bucket/none/: there is no object in this folder"),
        (&server, &["s3://buck*/a.csv"], "s3://buck*/a.csv: the name of a bucket cannot be a pattern"),
        (&server, &["s3://bucket/d/1.csv", "s3://bucket/d/"], "s3://bucket/d/1.csv: it is named twice"),
        (&missing, &["s3://bucket/d/1.csv"], "the store denies access (AccessDenied); set AWS_ACCESS_KEY_ID"),
        (&missing, &["s3://bucket/d/"], "s3://bucket/d/: the store denies access (AccessDenied)"),
        (&server, &["http://192.0.2.1/a.csv?sig=hidden"], "http://192.0.2.1/a.csv?...: http is not encrypted"),
    ] {
        let before = bench.files();
        let (code, messages) = run(&bench, server, &release(inputs, &["--out", "t.csv", "--all"]));
        assert!(code != 0 && messages.contains(words), "{inputs:?}: {messages}");
        assert_eq!(bench.files(), before);
    }
}

/// What a URL should not have is not shown.
#[test]
fn patterns_are_shown_without_secrets() {
    let bench = Bench::new();
    let (server, _) = store(&[]);
    for url in ["s3://me:password@bucket/*.csv", "s3://me:password@bucket/day/"] {
        let (code, messages) = run(&bench, &server, &["check", url]);
        assert_eq!(code, 2, "{messages}");
        assert!(messages.contains("s3://bucket/") && !messages.contains("password"), "{messages}");
    }
}

#[test]
fn outputs_are_not_written_to_urls() {
    let bench = Bench::new();
    bench.write("1.csv", "time\n2024-05-01\n");
    let (server, _) = store(&[]);
    let before = bench.files();
    for more in [&["--all"][..], &["--continue", "--through", "2024-05-02"]] {
        let more = [&["--out", "s3://bucket/t.csv"], more].concat();
        let (code, messages) = run(&bench, &server, &release(&["1.csv"], &more));
        assert_eq!(code, 2, "{messages}");
        assert!(messages.contains("s3://bucket/t.csv: outputs are written to files, not to URLs"), "{messages}");
        assert_eq!(bench.files(), before);
    }
}

#[test]
fn a_continued_stream_reads_each_object_once() {
    let bench = Bench::new();
    let (server, objects) = store(&[("2024-05-01.csv", "time\n2024-05-01\n")]);
    let expect = ["--continue", "--expect", "s3://bucket/%Y-%m-%d.csv", "--out", "t.csv", "--all"];
    let (code, messages) = run(&bench, &server, &release(&[], &expect));
    assert_eq!(code, 0, "{messages}");
    assert_eq!(bench.read("t.csv").lines().count(), 2, "{messages}");
    objects.lock().unwrap().push(("2024-05-02.csv".into(), b"time\n2024-05-02\n".to_vec()));
    let (code, messages) = run(&bench, &server, &release(&["s3://bucket/"], &expect));
    assert_eq!(code, 0, "{messages}");
    assert!(messages.contains("1 of 2 files had been read before"), "{messages}");
    assert_eq!(bench.read("t.csv").lines().count(), 3);
    // An object that has grown would count twice.
    objects.lock().unwrap()[0].1.extend(b"2024-05-01\n");
    let (code, messages) = run(&bench, &server, &release(&["s3://bucket/2024-05-01.csv"], &expect));
    assert!(code != 0 && messages.contains("it was read before and has grown since"), "{messages}");
    let url = format!("http://{}/1.csv", server.address);
    let (code, messages) = run(&bench, &server, &release(&[&url], &expect));
    assert!(code != 0 && messages.contains("reads only regular files and objects"), "{messages}");
}

#[test]
fn check_reads_objects() {
    let bench = Bench::new();
    let (server, _) = store(&[("1.csv", "time;door\n2024-05-01;north\n2024-05-02;south\n")]);
    std::fs::create_dir(bench.path("sub")).unwrap();
    let (code, messages) = run(&bench, &server, &["check", "s3://bucket/1.csv", "--write", "sub/c.toml"]);
    assert_eq!(code, 0, "{messages}");
    assert!(messages.contains("--delimiter ;"), "{messages}");
    assert_eq!(server.requests().len(), 1);
    // A path would be made absolute.
    assert!(bench.read("sub/c.toml").contains("\"s3://bucket/1.csv\""), "{}", bench.read("sub/c.toml"));
}

#[test]
fn check_reads_files_of_web_servers_that_mark_their_end() {
    let bench = Bench::new();
    for (framing, is_read) in [(Framing::Length, true), (Framing::Chunked, true), (Framing::Close, false)] {
        let server = Server::new(move |_, _| Response { framing, ..Response::new(200, "time\n2024-05-01\n") });
        let (code, messages) = run(&bench, &server, &["check", &format!("http://{}/1.csv?sig=hidden", server.address)]);
        assert_eq!(code, if is_read { 0 } else { 2 }, "{framing:?}: {messages}");
        assert_eq!(!messages.contains("the server does not declare the size"), is_read, "{framing:?}: {messages}");
    }
}
