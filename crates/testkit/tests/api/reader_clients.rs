//! What clients of readers rely on: times, pages, tags, other origins, health and problem documents.

use crate::server::{STREAMS, Server, WITNESS, hand};
use evertally_testkit::service::{Answer, Client};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A stream of hours in Berlin, over the night in which the clock is set forward, with 30 publications.
fn berlin() -> Server {
    let stream = "[[stream]]\nstream = \"berlin\"\npublic = true\nclosing = \"operator\"\nstart = \"2026-03-28\"\n\
                  time-zone = \"Europe/Berlin\"\nevery = \"1h\"\nunbounded = true\nrho = 1\n";
    let server = Server::with("", stream);
    assert_eq!(server.post("/v1/streams/berlin/close", "{\"through\":30}").status, 200);
    server
}

fn read(client: &Client, stream: &str, query: &str) -> Answer {
    client.get(&format!("/v1/streams/{stream}/releases{query}"), "").unwrap()
}

/// The ends of the steps of an answer.
fn ends(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["rows"].as_array().unwrap().iter().map(|row| row["end"].as_str().unwrap().to_owned()).collect()
}

/// The relative target of a link.
fn link(answer: &Answer, rel: &str) -> Option<String> {
    let links = answer.header("link")?;
    let own = links.split(", ").find(|link| link.ends_with(&format!("; rel=\"{rel}\"")))?;
    Some(own.split_once('<').unwrap().1.split_once('>').unwrap().0.to_owned())
}

#[test]
fn releases_are_read_by_time() {
    let server = berlin();
    let get = |query: &str| read(&server.public, "berlin", query);
    let day = ends(&get("?from=2026-03-28&to=2026-03-29"));
    assert_eq!((day.len(), &*day[0], &*day[23]), (24, "2026-03-28T01:00:00+01:00", "2026-03-29T00:00:00+01:00"));
    // The day has 23 hours; six of them are published.
    assert_eq!(ends(&get("?from=2026-03-29&to=2026-03-30")).len(), 6);
    assert_eq!(ends(&get("?from=2026-03-29")).last().unwrap(), "2026-03-29T07:00:00+02:00");
    assert_eq!(ends(&get("?from=2026-03-29T04:00:00Z&to=2026-03-29T05:00:00Z")), ["2026-03-29T07:00:00+02:00"]);
    assert_eq!(ends(&get("?from=2026-03-29T06:00:00%2B02:00")), ["2026-03-29T07:00:00+02:00"]);
    assert_eq!(ends(&get("?from=2026-03-29T06:00:00+02:00")), ["2026-03-29T07:00:00+02:00"], "`+` is not encoded");
    assert_eq!(ends(&get("?last=3h")).len(), 3);
    assert_eq!(ends(&get("?last=2&to=2026-03-29")), ["2026-03-28T23:00:00+01:00", "2026-03-29T00:00:00+01:00"]);
    for outside in ["?from=2020-01-01&to=2021-01-01", "?from=2030-01-01", "?to=2026-03-28T00:59:59"] {
        assert_eq!(ends(&get(outside)).len(), 0, "{outside}");
    }
    assert_eq!(ends(&get("?from=2020-01-01&to=2030-01-01")).len(), 30);
    let latest = get("/latest");
    assert_eq!(ends(&latest), ["2026-03-29T07:00:00+02:00"]);
    assert_eq!(latest.header("cache-control"), Some("no-cache"));
    assert_eq!(get("/latest?from=1").status, 400);
    let refused = get("?from=today");
    assert_eq!(refused.status, 400);
    assert!(refused.json()["detail"].as_str().unwrap().contains("Europe/Berlin"), "{}", refused.text);
    // A range that is over may be kept; one that is still growing may not.
    let kept = |query: &str| get(query).header("cache-control").unwrap().contains("immutable");
    assert!(kept("?from=2026-03-28&to=2026-03-29") && !kept("?from=2026-03-29&to=2026-03-30") && !kept("?last=3h"));
    // Pictures select the same publications.
    let picture = |query: &str| server.public.get(&format!("/v1/streams/berlin/picture.svg{query}"), "").unwrap().text;
    assert_ne!(picture(""), picture("?last=3h"));
    // Before the first publication.
    let server = Server::new();
    for query in ["", "?last=7d", "?last=5", "/latest", "?from=2026-01-01", "?to=2027-01-01"] {
        let empty = read(&server.public, "open", query);
        assert_eq!((ends(&empty).len(), empty.header("link")), (0, None), "{query}");
    }
}

#[test]
fn clients_that_follow_links_read_everything_once() {
    let server = berlin();
    let whole = ends(&read(&server.public, "berlin", "?from=1"));
    for (query, expected) in [
        ("?from=1&limit=7", &whole[..]),
        ("?from=3&to=20&limit=5", &whole[2..20]),
        ("?from=2026-03-28T10:00&to=2026-03-29&limit=3&format=json", &whole[10..24]),
        ("?last=11&limit=4", &whole[19..]),
    ] {
        let (mut seen, mut target, mut pages) = (Vec::new(), Some(query.to_owned()), 0);
        while let Some(own) = target {
            let answer = read(&server.public, "berlin", &own);
            seen.extend(ends(&answer));
            target = link(&answer, "next");
            pages += 1;
        }
        assert_eq!((&seen[..], pages > 2), (expected, true), "{query}");
    }
    // From the latest page backwards.
    let (mut seen, mut target) = (Vec::new(), Some("?limit=8".to_owned()));
    while let Some(own) = target {
        let answer = read(&server.public, "berlin", &own);
        seen = [ends(&answer), seen].concat();
        target = link(&answer, "prev");
    }
    assert_eq!(seen, whole);
    let latest = read(&server.public, "berlin", "/latest?format=json");
    assert_eq!(link(&latest, "prev").as_deref(), Some("../releases?from=29&to=29&format=json"));
    let others = read(&server.public, "berlin", "?from=1&limit=2&every=3&format=csv");
    assert_eq!(link(&others, "next").as_deref(), Some("?from=7&limit=2&every=3&format=csv"));
    assert_eq!(others.text.lines().count(), 3);
}

#[test]
fn tags_and_headers_follow_the_rows() {
    let mut server = Server::new();
    for step in 1..=3 {
        hand(&server, step);
    }
    let ask = |server: &Server, method: &str, query: &str, more: &[(&str, &str)]| {
        server.public.ask(method, &format!("/v1/streams/hand/releases?{query}"), "", more, b"").unwrap()
    };
    let get = |query: &str, more: &[(&str, &str)]| ask(&server, "GET", query, more);
    let whole = get("from=1&to=3", &[]);
    let tag = whole.header("etag").unwrap().to_owned();
    assert!(tag.starts_with("W/\""), "the same for compressed answers: {tag}");
    let strong = tag.trim_start_matches("W/");
    for known in [&tag, strong, "*", &format!("\"x\", {tag}"), &format!("\"x\",{strong}")] {
        let same = get("from=1&to=3", &[("if-none-match", known)]);
        assert_eq!(
            (same.status, same.header("etag"), same.header("vary")),
            (304, Some(&*tag), Some("accept")),
            "{known}"
        );
    }
    assert_eq!(get("from=1&to=3", &[("if-none-match", "\"x\"")]).status, 200);
    // Another format, range, page or content has another tag.
    let csv = get("from=1&to=3", &[("accept", "text/csv")]);
    assert_eq!(csv.header("vary"), Some("accept"));
    let tags = [
        whole.header("etag"),
        csv.header("etag"),
        get("from=1&to=2", &[]).header("etag"),
        get("from=1&to=3&limit=2", &[]).header("etag"),
        get("from=1&to=3&every=2", &[]).header("etag"),
    ]
    .map(|tag| tag.unwrap().to_owned());
    assert_eq!(tags.iter().collect::<std::collections::BTreeSet<_>>().len(), tags.len(), "{tags:?}");
    assert_eq!(get("from=1&to=3&format=csv", &[]).header("vary"), Some("accept-encoding"), "the URL has the format");
    // Compressed answers are the same rows.
    let more = [("accept-encoding", "gzip"), ("accept", "text/csv")];
    let gzip = get("from=1&to=3", &more);
    assert_eq!((gzip.header("content-encoding"), gzip.header("etag")), (Some("gzip"), csv.header("etag")));
    let vary: Vec<&str> = gzip.headers.iter().filter(|(name, _)| name == "vary").map(|(_, value)| &**value).collect();
    assert!(vary.contains(&"accept") && vary.contains(&"accept-encoding"), "{vary:?}");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&gzip.bytes[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, csv.text);
    // HEAD has the headers of GET.
    let head = ask(&server, "HEAD", "from=1&to=3", &[]);
    let plain = |answer: &Answer| {
        let mut headers = answer.headers.clone();
        headers.retain(|(name, _)| name != "date");
        headers.sort();
        headers
    };
    assert_eq!((head.status, plain(&head)), (200, plain(&whole)));
    // A new folder with the same name, plan and range publishes other rows: caches must not mix them.
    server.stop();
    for name in ["data", "keys"] {
        std::fs::remove_dir_all(server.path(name)).unwrap();
    }
    server.start().unwrap();
    server.operate = server.token("operate");
    for step in 1..=3 {
        hand(&server, step);
    }
    let other = ask(&server, "GET", "from=1&to=3", &[("if-none-match", &tag)]);
    assert_eq!(other.status, 200);
    assert_ne!(other.text, whole.text);
}

#[test]
fn pages_of_named_origins_may_read_public_streams() {
    let with = |cors: &str| {
        let mut server = Server::new();
        server.change("[public]\n", &format!("[public]\ncors = {cors}\n"));
        server.stop();
        server.start().unwrap();
        server
    };
    let ours = "https://dash.example";
    let ask = |client: &Client, method: &str, path: &str, origin: &str, more: &[(&str, &str)]| {
        client.ask(method, path, "", &[&[("origin", origin)], more].concat(), b"").unwrap()
    };
    let allowed = |answer: &Answer| answer.header("access-control-allow-origin").map(str::to_owned);
    let embedding = |answer: &Answer| answer.header("cross-origin-resource-policy").unwrap().to_owned();
    let releases = "/v1/streams/open/releases";
    let preflight = [("access-control-request-method", "GET"), ("access-control-request-headers", "if-none-match")];

    let server = with(&format!("[\"{ours}\"]"));
    for path in [releases, "/v1/streams", "/v1/streams/open/picture.svg", "/metrics", "/v1/streams/no/releases"] {
        for method in ["GET", "HEAD"] {
            let answer = ask(&server.public, method, path, ours, &[]);
            assert_eq!(allowed(&answer).as_deref(), Some(ours), "{method} {path}");
            assert_eq!(embedding(&answer), "cross-origin");
            let vary =
                answer.headers.iter().filter(|(name, _)| name == "vary").any(|(_, value)| value.contains("origin"));
            assert!(vary, "{path}");
            assert_eq!(answer.header("access-control-allow-credentials"), None);
        }
        let other = ask(&server.public, "GET", path, "https://other.example", &[]);
        assert_eq!((allowed(&other), &*embedding(&other)), (None, "same-origin"), "{path}");
    }
    let exposed = ask(&server.public, "GET", releases, ours, &[]);
    assert_eq!(exposed.header("access-control-expose-headers"), Some("etag,link,retry-after"));
    let asked = ask(&server.public, "OPTIONS", releases, ours, &preflight);
    assert_eq!((asked.status, allowed(&asked).as_deref()), (200, Some(ours)));
    assert_eq!(asked.header("access-control-allow-methods"), Some("GET,HEAD"));
    // A token is never accepted from another site.
    assert!(!asked.header("access-control-allow-headers").unwrap().contains("authorization"));
    let other = ask(&server.public, "OPTIONS", releases, "https://other.example", &preflight);
    assert_eq!(allowed(&other), None);
    let private = ask(&server.private, "GET", releases, ours, &[]);
    assert_eq!((allowed(&private), &*embedding(&private)), (None, "same-origin"), "only the public listener");

    let server = with("\"*\"");
    let answer = ask(&server.public, "GET", releases, "https://other.example", &[]);
    assert_eq!((allowed(&answer).as_deref(), &*embedding(&answer)), (Some("*"), "cross-origin"));
    let server = Server::new();
    assert_eq!(allowed(&ask(&server.public, "GET", releases, ours, &[])), None);
    assert_eq!(ask(&server.public, "OPTIONS", releases, ours, &preflight).status, 405);
}

/// Waits until a path is answered with a status.
fn wait_for(client: &Client, path: &str, status: u16) -> Answer {
    let since = Instant::now();
    loop {
        let answer = client.get(path, "").unwrap();
        if answer.status == status {
            return answer;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{path}: {} {}", answer.status, answer.text);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_service_that_cannot_publish_is_alive_but_not_ready() {
    let server = Server::with("", &format!("{WITNESS}{STREAMS}"));
    hand(&server, 1);
    for client in [&server.public, &server.private] {
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = client.get(path, "").unwrap();
            assert_eq!((answer.status, &*answer.text), (200, "ok\n"), "{path}");
        }
    }
    std::fs::remove_dir_all(server.path("elsewhere")).unwrap();
    let body = "{\"through\":2}";
    server.post("/v1/streams/hand/close", body);
    let problem = wait_for(&server.private, "/readyz", 503);
    assert_eq!(problem.header("content-type"), Some("application/problem+json"));
    assert_eq!(problem.json()["detail"], "the witness cannot be updated");
    assert_eq!(problem.header("retry-after"), Some("5"));
    let public = wait_for(&server.public, "/readyz", 503);
    assert_eq!(public.json()["detail"], "try again later", "the public side learns no reason");
    assert_eq!(server.public.get("/livez", "").unwrap().status, 200);
    std::fs::create_dir_all(server.path("elsewhere")).unwrap();
    drop(server);
}

#[test]
fn a_service_whose_counting_hangs_is_not_ready() {
    let server = Server::new();
    let (service, (end, ended)) = (server.service(), std::sync::mpsc::channel::<()>());
    let hanging = std::thread::spawn(move || {
        // Until the test has seen it.
        service.ask(move |_| Ok(ended.recv().is_err())).unwrap()
    });
    let problem = wait_for(&server.private, "/readyz", 503);
    assert_eq!(problem.json()["detail"], "the counting thread makes no progress");
    assert_eq!(server.private.get("/livez", "").unwrap().status, 200, "it may only be slow");
    assert_eq!(server.public.get("/v1/streams/open/releases", "").unwrap().status, 200, "readers are served");
    drop(end);
    assert!(hanging.join().unwrap());
    wait_for(&server.private, "/readyz", 200);
}

#[test]
fn every_refusal_is_a_problem_document() {
    let server = Server::new();
    let json = [("content-type", "application/json")];
    let large = format!("{{\"label\":\"{}\"}}", "x".repeat(2 << 20));
    for (method, path, headers, body, status) in [
        ("GET", "/v1/streams/%ff", &[][..], "", 400),
        ("GET", "/v1/streams/%ff/watch", &[], "", 400),
        ("GET", "/v1/streams/%ff/releases", &[("accept-encoding", "gzip")], "", 400),
        ("POST", "/v1/streams?dry-run=perhaps", &json, "{}", 400),
        ("POST", "/v1/streams?unknown=1", &json, "{}", 400),
        ("POST", "/v1/streams", &json, "{]", 400),
        ("POST", "/v1/streams", &json, "{}", 400),
        ("POST", "/v1/streams", &[], "{}", 415),
        ("POST", "/v1/tokens", &json, &large, 413),
        ("POST", "/v1/streams/open/close", &json, "{}", 400),
        ("DELETE", "/v1/streams", &[], "", 405),
        ("PATCH", "/healthz", &[], "", 405),
        ("GET", "/nothing", &[], "", 404),
        ("GET", "/assets/nothing", &[], "", 404),
        ("GET", "/v1/streams/open/late?unknown=x", &[], "", 400),
        ("GET", "/v1/streams/open/releases?from=0", &[], "", 400),
    ] {
        let answer = server.private.ask(method, path, &server.operate, headers, body.as_bytes()).unwrap();
        let shown: String = format!("{method} {path}: {} {}", answer.status, answer.text).chars().take(300).collect();
        assert_eq!(answer.status, status, "{shown}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{shown}");
        if answer.header("content-encoding").is_some() {
            continue;
        }
        let document = answer.json();
        assert!(document["type"].as_str().unwrap().starts_with("urn:evertally:problem:"), "{shown}");
        assert_eq!(document["status"], status, "{shown}");
        for member in ["title", "detail"] {
            assert!(document[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {shown}");
        }
        if status == 405 {
            assert!(answer.header("allow").is_some_and(|methods| methods.contains("GET")), "{shown}");
        }
    }
}

/// The first bytes of a watch, within some seconds.
fn watched(server: &Server, seconds: u64) -> String {
    let mut socket = TcpStream::connect(server.public.address()).unwrap();
    write!(socket, "GET /v1/streams/open/watch HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (mut text, since) = (Vec::new(), Instant::now());
    while since.elapsed() < Duration::from_secs(seconds) {
        let mut bytes = [0; 4096];
        if let Ok(count) = socket.read(&mut bytes) {
            text.extend(&bytes[..count]);
        }
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn a_watch_is_never_silent_for_five_seconds() {
    let server = Server::new();
    let text = watched(&server, 9);
    assert!(text.matches(": keep-alive\n").count() >= 3, "{text}");
    // Some clients take a comment that is followed by an empty line for an event without data.
    assert!(!text.contains(": keep-alive\n\n"), "{text}");
}
