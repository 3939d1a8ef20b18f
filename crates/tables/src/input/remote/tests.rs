//! URLs are read as files are, and nothing is missing.

mod rows;
mod server;

use super::address::Address;
use super::object;
use super::opening::{open_with, put_with};
use super::settings::ConnectionSettings;
use evertally_declare::error::ReadProblem;
use server::{Framing, Request, Response, Server, answer_s3};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn settings(variables: &[(&str, &str)]) -> ConnectionSettings {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ConnectionSettings {
        connect_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(5),
        max_retries: 2,
        first_pause: Duration::from_millis(1),
        ..ConnectionSettings::new(variables)
    }
}

fn s3_settings(server: &Server) -> ConnectionSettings {
    let endpoint = format!("http://{}", server.address);
    settings(&[("AWS_ENDPOINT", &endpoint), ("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "hidden-secret")])
}

fn read(url: &str, settings: &ConnectionSettings) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_with(Path::new(url), &Address::new(Path::new(url))?, settings)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The problem in words, which is the whole message.
fn problem(url: &str, settings: &ConnectionSettings) -> String {
    let error = read(url, settings).map(|bytes| bytes.len()).unwrap_err();
    let problem = error.get_ref().and_then(|cause| cause.downcast_ref::<ReadProblem>());
    problem.unwrap_or_else(|| panic!("{error:?}")).0.clone()
}

/// A file of more than one chunk.
fn content() -> Vec<u8> {
    (0..200_000_u32).flat_map(|n| format!("{n},").into_bytes()).collect()
}

fn store(answer: impl Fn(&Request, usize, Response) -> Response + Send + Sync + 'static) -> Server {
    let objects = [("day/1.csv".to_owned(), content())];
    Server::new(move |request, earlier| answer(request, earlier, answer_s3(&objects, request)))
}

#[test]
fn an_object_is_read_whole() {
    let server = store(|_, _, response| response);
    assert_eq!(read("s3://bucket/day/1.csv", &s3_settings(&server)).unwrap(), content());
    let [request] = &server.requests()[..] else { panic!("one request") };
    assert!(request.header("authorization").unwrap().contains("Credential=key/"), "{request:?}");
    assert_eq!(request.header("user-agent").unwrap(), concat!("evertally/", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_object_is_written_whole() {
    let server =
        Server::new(|_, earlier| Response::new(if earlier == 0 { 503 } else { 200 }, "").with("ETag", "\"1\""));
    put_with(Path::new("s3://bucket/out/1.parquet"), content().into(), &s3_settings(&server)).unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "a store that is busy is asked again");
    for request in requests {
        assert_eq!((&*request.method, &*request.target), ("PUT", "/bucket/out/1.parquet"));
        assert!(request.body == content());
    }
    let denied = Server::new(|_, _| Response::new(403, "<Error><Code>AccessDenied</Code></Error>"));
    let refused = put_with(Path::new("s3://bucket/1.parquet"), content().into(), &s3_settings(&denied)).unwrap_err();
    assert!(refused.get_ref().unwrap().to_string().contains("denies access"), "{refused}");
    assert!(put_with(Path::new("https://host/1.parquet"), content().into(), &settings(&[])).is_err());
}

#[test]
fn an_interrupted_download_is_resumed() {
    // The first three answers end early. The last one is of the rest.
    let server =
        store(|_, earlier, response| Response { cut_at: (earlier < 3).then_some(response.body.len() / 3), ..response });
    assert_eq!(read("s3://bucket/day/1.csv", &s3_settings(&server)).unwrap(), content());
    let ranges = server.requests().iter().filter(|request| request.header("range").is_some()).count();
    assert_eq!(ranges, 3);
}

#[test]
fn a_download_that_ends_early_is_refused() {
    // Without a tag the rest may be that of another object.
    for tag in [true, false] {
        let server = store(move |_, earlier, mut response| {
            response.headers.retain(|(name, _)| tag || *name != "ETag");
            Response { cut_at: Some(if earlier == 0 { 1000 } else { 0 }), ..response }
        });
        let problem = problem("s3://bucket/day/1.csv", &s3_settings(&server));
        assert!(problem.contains(&format!("after 1000 of {} bytes", content().len())), "{problem}");
        assert_eq!(server.requests().len() > 1, tag);
        assert!(problem.ends_with("; run again"), "{problem}");
    }
}

/// A store that breaks every answer ends the run, however much it has sent.
#[test]
fn a_download_is_not_resumed_without_end() {
    let server = store(|_, _, response| Response { cut_at: Some(1.min(response.body.len())), ..response });
    let problem = problem("s3://bucket/day/1.csv", &s3_settings(&server));
    assert!(problem.contains(&format!("of {} bytes", content().len())), "{problem}");
    assert!(server.requests().len() < 20, "{}", server.requests().len());
}

/// Secrets that are mounted as files end with a line end, on which the library panics.
#[test]
fn variables_that_cannot_be_right_are_refused() {
    let server = store(|_, _, response| response);
    let endpoint = format!("http://{}", server.address);
    for (name, value) in [
        ("AWS_ACCESS_KEY_ID", "AKIA\n"),
        ("AWS_REGION", "us-east-1\n"),
        ("AWS_SESSION_TOKEN", "x\n"),
        ("AWS_ENDPOINT", "127.0.0.1:8766"),
        ("AWS_ENDPOINT", "http://127.0.0.1:99999"),
        ("AWS_ENDPOINT", "http://"),
        ("AWS_ENDPOINT", "http://a b"),
        ("AWS_ENDPOINT_URL", "localhost"),
    ] {
        let given = [("AWS_ENDPOINT", &*endpoint), ("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "hidden")];
        let given: Vec<_> = given.into_iter().filter(|(other, _)| *other != name).chain([(name, value)]).collect();
        let problem = problem("s3://bucket/day/1.csv", &settings(&given));
        assert!(problem.starts_with(name) && !problem.contains(value), "{name}: {problem}");
    }
    assert_eq!(server.requests().len(), 0);
    assert_eq!(
        problem("az://a/b.csv", &settings(&[("AZURE_STORAGE_ACCOUNT_NAME", "a\n")])).split(' ').next(),
        Some("AZURE_STORAGE_ACCOUNT_NAME")
    );
}

/// A weak tag may be that of two versions, which would be mixed.
#[test]
fn weak_tags_are_refused() {
    let server = store(|_, _, mut response| {
        response.headers.retain(|(name, _)| *name != "ETag");
        response.with("ETag", "W/\"one\"")
    });
    let problem = problem("s3://bucket/day/1.csv", &s3_settings(&server));
    assert!(problem.contains("entity tag is weak") && problem.contains("download it"), "{problem}");
}

/// No object is read under another name, and none twice under two names.
#[test]
fn names_that_the_library_would_change_are_refused() {
    let server = store(|_, _, response| response);
    let settings = s3_settings(&server);
    for url in ["s3://bucket//day/1.csv", "s3://bucket/day//1.csv"] {
        assert!(problem(url, &settings).contains("slash"), "{url}: {}", problem(url, &settings));
    }
    for url in ["s3://bucket:80/day/1.csv", "s3://me@bucket/day/1.csv", "https://host/a.csv#b"] {
        assert!(Address::new(Path::new(url)).is_err(), "{url}");
    }
    assert!(Address::new(Path::new("abfss://container@account.dfs.core.windows.net/a.csv")).is_ok());
    assert_eq!(server.requests().len(), 0);
    let same = |a: &str, b: &str| super::url_identity(Path::new(a)) == super::url_identity(Path::new(b));
    assert!(same("https://Host:443/a.csv?", "https://host/a.csv"));
    assert!(!same("https://host/A.csv", "https://host/a.csv") && !same("http://host:443/a", "http://host/a"));
}

#[test]
fn an_object_that_is_replaced_is_refused() {
    let other = [("day/1.csv".to_owned(), content().iter().rev().copied().collect::<Vec<u8>>())];
    let server = store(move |request, earlier, response| match earlier {
        0 => Response { cut_at: Some(1000), ..response },
        _ => answer_s3(&other, request),
    });
    let problem = problem("s3://bucket/day/1.csv", &s3_settings(&server));
    assert!(problem.contains("replaced while it was read"), "{problem}");
}

#[test]
fn a_failing_store_is_asked_again_a_few_times() {
    let server = store(|_, earlier, response| if earlier < 2 { Response::new(503, "") } else { response });
    assert_eq!(read("s3://bucket/day/1.csv", &s3_settings(&server)).unwrap(), content());
    let server = store(|_, _, _| Response::new(500, "<Error><Code>InternalError</Code></Error>"));
    let problem = problem("s3://bucket/day/1.csv", &s3_settings(&server));
    assert_eq!(problem, "the store answered with status 500 (InternalError); run again later");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn refusals_of_a_store_have_remedies_and_no_secrets() {
    for (status, code, words) in [
        (403, "SignatureDoesNotMatch", "the store denies access (SignatureDoesNotMatch); set AWS_ACCESS_KEY_ID"),
        (404, "NoSuchBucket", "there is no such object (NoSuchBucket); check the bucket"),
        (400, "ExpiredToken", "the store denies access (ExpiredToken); set AWS"),
        (301, "PermanentRedirect", "set AWS_REGION to the region of the bucket"),
    ] {
        let server = store(move |_, _, _| {
            Response::new(status, format!("<Error><Code>{code}</Code><Token>key hidden-secret</Token></Error>"))
        });
        let problem = problem("s3://bucket/day/1.csv", &s3_settings(&server));
        assert!(problem.contains(words), "{problem}");
        assert!(!problem.contains("hidden-secret") && !problem.contains("http:"), "{problem}");
    }
}

#[test]
fn other_machines_are_not_asked_without_encryption() {
    // Addresses for documentation: nothing answers there.
    let mut remote = settings(&[("AWS_ENDPOINT", "http://192.0.2.1"), ("AWS_SKIP_SIGNATURE", "true")]);
    assert!(problem("s3://bucket/1.csv", &remote).contains("set AWS_ALLOW_HTTP=true"));
    remote = settings(&[]);
    assert!(problem("http://192.0.2.1/1.csv", &remote).contains("http is not encrypted"));
    assert!(problem("https://user:word@192.0.2.1/1.csv", &remote).contains("a name or a password"));
    assert!(problem("ftp://192.0.2.1/1.csv", &remote).contains("URLs of `ftp` are not read"));
    assert!(problem("s3:///1.csv", &remote).contains("no host or bucket"));
    assert!(problem("s3://bucket", &remote).contains("names no object"));
    let missing = settings(&[("SSL_CERT_FILE", "/nowhere/certificates.pem")]);
    assert!(problem("https://127.0.0.1:1/1.csv", &missing).contains("SSL_CERT_FILE=/nowhere/certificates.pem"));
}

#[test]
fn objects_are_listed_in_byte_order() {
    let names = ["a/10.csv", "a/9.csv", "a/B.csv", "a/deep/1.csv", "a/deep", "a/.hidden", "b/1.csv"];
    let objects: Vec<(String, Vec<u8>)> = names
        .iter()
        .map(|name| ((*name).to_owned(), if *name == "a/deep" { Vec::new() } else { b"time\n".to_vec() }))
        .collect();
    let server = Server::new(move |request, _| answer_s3(&objects, request));
    let list = |folder: &str, deep| {
        let url = format!("s3://bucket/{folder}");
        let address = Address::new(Path::new(&url)).unwrap();
        let found = object::Container::new(&address, &s3_settings(&server)).unwrap().list(address.name, deep);
        found.map(|objects| objects.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
    };
    assert_eq!(list("a/", false).unwrap(), [".hidden", "10.csv", "9.csv", "B.csv", "deep"]);
    // An empty object that stands for a folder has no events.
    assert_eq!(list("a/", true).unwrap(), [".hidden", "10.csv", "9.csv", "B.csv", "deep/1.csv"]);
    assert_eq!(list("", true).unwrap().len(), 6);
    assert!(list("missing/", false).unwrap().is_empty());
}

#[test]
fn files_of_a_web_server_are_read_whole() {
    let url = |server: &Server| format!("http://{}/day.csv?signature=hidden", server.address);
    for framing in [Framing::Length, Framing::Chunked] {
        let server = Server::new(move |_, _| Response { framing, ..Response::new(200, content()) });
        assert_eq!(read(&url(&server), &settings(&[])).unwrap(), content());
        assert_eq!(server.requests()[0].target, "/day.csv?signature=hidden");
        let server =
            Server::new(move |_, _| Response { framing, cut_at: Some(300_000), ..Response::new(200, content()) });
        let problem = problem(&url(&server), &settings(&[]));
        assert!(problem.starts_with("the download ended after "), "{problem}");
    }
    let server = Server::new(|_, _| Response { framing: Framing::Close, ..Response::new(200, content()) });
    assert!(problem(&url(&server), &settings(&[])).contains("does not declare the size"));
}

#[test]
fn refusals_of_a_web_server_have_remedies() {
    let answers = |response: fn(usize) -> Response| Server::new(move |_, earlier| response(earlier));
    let url = |server: &Server| format!("http://{}/day.csv", server.address);
    for (response, words) in [
        ((|_| Response::new(404, "")) as fn(usize) -> Response, "there is no such file (status 404)"),
        (|_| Response::new(403, "hidden"), "denies access (status 403)"),
        (|_| Response::new(206, "part"), "status 206"),
        (|_| Response::new(302, "").with("Location", "https://x/y?sig=hidden"), "redirects to https://x/y?...,"),
    ] {
        let server = answers(response);
        let problem = problem(&url(&server), &settings(&[]));
        assert!(problem.contains(words) && !problem.contains("hidden"), "{problem}");
        assert_eq!(server.requests().len(), 1);
    }
    let server = answers(|earlier| if earlier < 2 { Response::new(500, "") } else { Response::new(200, "time\n") });
    assert_eq!(read(&url(&server), &settings(&[])).unwrap(), b"time\n");
    let server = answers(|_| Response::new(500, ""));
    assert!(problem(&url(&server), &settings(&[])).contains("status 500; run again later"));
    assert_eq!(server.requests().len(), 3);
    let closed = ConnectionSettings { max_retries: 0, ..settings(&[]) };
    assert!(problem("http://127.0.0.1:1/day.csv", &closed).contains("cannot be reached"));
}

#[test]
fn a_silent_server_ends_in_an_error() {
    let pause = Some(Duration::from_secs(20));
    let server = Server::new(move |_, _| Response { pause, ..Response::new(200, content()) });
    let impatient = ConnectionSettings { idle_timeout: Duration::from_millis(200), max_retries: 0, ..settings(&[]) };
    let problem = problem(&format!("http://{}/day.csv", server.address), &impatient);
    assert!(problem.contains("of 1288890 bytes"), "{problem}");
}
