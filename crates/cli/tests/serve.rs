//! The service as a process: it is killed at any moment, and nothing that it acknowledged is lost.
//!
//! `EVERTALLY_KILLS` sets how often it is killed (default 12; the long run uses 300).

mod common;
#[cfg(target_os = "linux")]
#[path = "serve/hostile.rs"]
mod hostile;

use common::Bench;
use evertally_ledger::keyfile;
use evertally_ledger::ledger::Ledger;
use evertally_testkit::service::{Child, Client};
use std::time::Duration;

/// The declaration, for the service and for the run with which it is compared.
const DECLARATION: &str = r#"
time = "time"
start = "2026-01-01"
every = "1h"
group-by = ["group"]
groups = ["a", "b", "c"]
person = "person"
max-events = 6
max-events-per-step = 2
rho = 0.5
"#;

const SERVE: &str = r#"
folder = "data"
key = "keys/serve.key"
[private]
listen = "127.0.0.1:0"
[witness]
file = "elsewhere/witness.json"
[[stream]]
stream = "visits"
closing = "operator"
"#;

/// A small generator, so that every run is the same except for the moment of a kill.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Some rows of a step, as CSV without a header.
fn rows(step: u64, dice: &mut Dice) -> String {
    let begin = jiff::civil::date(2026, 1, 1).at(0, 0, 0, 0) + jiff::Span::new().hours(step as i64 - 1);
    let row = |dice: &mut Dice| {
        let time = begin + jiff::Span::new().minutes(dice.roll(60) as i64);
        let (person, group) = (dice.roll(30), ["a", "b", "c"][dice.roll(3) as usize]);
        format!("{time}Z,p{person},{group}\n")
    };
    (0..1 + dice.roll(40)).map(|_| row(dice)).collect()
}

/// A request that is repeated until it is answered.
enum Wish {
    Batch(String, String),
    Close(u64),
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let kills: u64 = std::env::var("EVERTALLY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let steps = 24 + 2 * kills;
    let bench = Bench::new();
    bench.write("serve.toml", format!("{SERVE}{DECLARATION}steps = {steps}\n"));
    std::fs::create_dir(bench.path("elsewhere")).unwrap();
    let program = env!("CARGO_BIN_EXE_evertally");
    let [write, operate] = tokens(&bench, ["write:visits", "operate"]);
    let mut dice = Dice(7);
    let (mut accepted, mut seen) = ("time,person,group\n".to_owned(), String::new());
    let (mut step, mut number, mut pending) = (1, 0, None);
    for kill in 0..=kills {
        let child = Child::start(program, bench.folder(), &["serve", "--config", "serve.toml", "--log", "error"]);
        let client = Client::new(&child.url);
        // Everything published is still there, byte for byte.
        let now = client.get("/v1/streams/visits/releases?from=1&to=100000&format=csv", &operate).unwrap().text;
        assert!(now.starts_with(&seen), "the shown releases changed after kill {kill}:\n{seen}\n{now}");
        seen = now;
        let is_last = kill == kills;
        let moment = Duration::from_micros(500 + dice.roll(60_000));
        let killing = (!is_last).then(|| child.kill_after(moment));
        loop {
            let wish = pending.take().unwrap_or_else(|| {
                number += 1;
                if dice.roll(6) == 0 {
                    Wish::Close(step)
                } else {
                    Wish::Batch(format!("batch {number}").replace(' ', "-"), rows(step, &mut dice))
                }
            });
            if is_last && step > steps {
                break;
            }
            let answer = match &wish {
                Wish::Batch(id, rows) if step <= steps => {
                    let body = format!("time,person,group\n{rows}");
                    client.post(
                        "/v1/streams/visits/events",
                        &write,
                        &[("content-type", "text/csv"), ("idempotency-key", id)],
                        body.as_bytes(),
                    )
                }
                Wish::Batch(..) => break,
                Wish::Close(through) => {
                    let body = format!("{{\"through\":{}}}", (*through).min(steps));
                    client.post(
                        "/v1/streams/visits/close",
                        &operate,
                        &[("content-type", "application/json")],
                        body.as_bytes(),
                    )
                }
            };
            match answer {
                Ok(answer) => {
                    assert_eq!(answer.status, 200, "{}", answer.text);
                    match wish {
                        Wish::Batch(_, rows) => accepted.push_str(&rows),
                        Wish::Close(through) => step = through + 1,
                    }
                }
                Err(_) => {
                    pending = Some(wish);
                    break;
                }
            }
        }
        drop(killing);
        child.end(is_last);
    }
    let verified = bench.run_as_is(&["serve", "--config", "serve.toml", "--verify"], b"");
    assert_eq!(verified.code, 0, "{}", verified.stderr);
    // The service has published the same as one run over the accepted events.
    let child = Child::start(program, bench.folder(), &["serve", "--config", "serve.toml", "--log", "error"]);
    let client = Client::new(&child.url);
    let body = format!("{{\"through\":{steps}}}");
    let closed =
        client.post("/v1/streams/visits/close", &operate, &[("content-type", "application/json")], body.as_bytes());
    assert_eq!(closed.unwrap().status, 200);
    let served = client.get("/v1/streams/visits/releases?from=1&to=100000&format=csv", &operate).unwrap().text;
    child.end(true);
    // In another order within each hour.
    let mut rows: Vec<&str> = accepted.lines().skip(1).collect();
    rows.reverse();
    rows.sort_by_key(|row| &row[..13]);
    bench
        .write("events.csv", format!("time,person,group\n{}\n", rows.join("\n")))
        .write("visits.toml", format!("stream = \"visits\"\n{DECLARATION}steps = {steps}\n"));
    let key = keyfile::read(&bench.path("keys/serve.key")).unwrap();
    Ledger::in_memory(&key).save(&bench.path("twin.key"), &key).unwrap();
    let run = bench.run_as_is(
        &[
            "release",
            "events.csv",
            "--config",
            "visits.toml",
            "--key",
            "twin.key",
            "--out",
            "twin.csv",
            "--all",
            "--yes",
        ],
        b"",
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(served, bench.read("twin.csv"));
}

#[test]
fn what_goes_on_is_what_runs_with_extend_release() {
    let bench = Bench::new();
    bench.write("serve.toml", format!("{SERVE}{DECLARATION}steps = 2\n"));
    std::fs::create_dir_all(bench.path("elsewhere")).unwrap();
    let [first, second, operate] = tokens(&bench, ["write:visits", "write:visits #2", "operate"]);
    let program = env!("CARGO_BIN_EXE_evertally");
    let child = Child::start(program, bench.folder(), &["serve", "--config", "serve.toml", "--log", "error"]);
    let client = Client::new(&child.url);
    let json = [("content-type", "application/json")];
    let files: Vec<String> =
        (1..=4).map(|step| format!("time,person,group\n{}", rows(step, &mut Dice(step)))).collect();
    let mut served = String::new();
    for (path, token, steps) in [("visits", &first, [0, 1]), ("visits%20%232", &second, [2, 3])] {
        for (number, file) in steps.into_iter().enumerate() {
            let headers = [("content-type", "text/csv"), ("idempotency-key", "one")];
            let headers = [headers[0], if number == 0 { headers[1] } else { ("idempotency-key", "two") }];
            let sent = client.post(&format!("/v1/streams/{path}/events"), token, &headers, files[file].as_bytes());
            assert_eq!(sent.unwrap().status, 200);
            let through = format!("{{\"through\":{}}}", number + 1);
            let closed = client.post(&format!("/v1/streams/{path}/close"), &operate, &json, through.as_bytes());
            assert_eq!(closed.unwrap().status, 200);
        }
        let table = client.get(&format!("/v1/streams/{path}/releases?from=1&to=2&format=csv"), &operate).unwrap().text;
        served += if served.is_empty() { &table } else { table.split_once('\n').unwrap().1 };
        let extended = client.post(&format!("/v1/streams/{path}/extend"), &operate, &json, b"").unwrap();
        assert_eq!(extended.status, 201, "{}", extended.text);
    }
    child.end(true);
    bench.write("visits.toml", format!("stream = \"visits\"\n{DECLARATION}steps = 2\n"));
    let key = keyfile::read(&bench.path("keys/serve.key")).unwrap();
    Ledger::in_memory(&key).save(&bench.path("twin.key"), &key).unwrap();
    for (number, file) in files.iter().enumerate() {
        let name = format!("e{number}.csv");
        bench.write(&name, file);
        let through = format!("2026-01-01T0{}:00:00Z", number + 1);
        let own = ["release", &name, "--config", "visits.toml", "--key", "twin.key", "--out", "twin.csv"];
        let how = ["--continue", "--extend", "--yes", "--through", &through];
        let run = bench.run_as_is(&[&own[..], &how[..]].concat(), b"");
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    assert_eq!(served, bench.read("twin.csv"));
}

#[test]
fn what_comes_by_a_pipe_is_kept_until_it_is_taken() {
    let bench = Bench::new();
    bench.write("serve.toml", format!("{SERVE}{DECLARATION}steps = 2\n"));
    std::fs::create_dir_all(bench.path("elsewhere")).unwrap();
    let [write, operate] = tokens(&bench, ["write:visits", "operate"]);
    bench.write("token", &write);
    let program = env!("CARGO_BIN_EXE_evertally");
    let child = Child::start(program, bench.folder(), &["serve", "--config", "serve.toml", "--log", "error"]);
    let client = Client::new(&child.url);
    let taken = || {
        let all = client.get("/v1/operator", &operate).unwrap().json();
        all["streams"][0]["events"].as_u64().unwrap()
    };
    let feed = |memory: &str, more: &[&str], rows: &[&str]| {
        let own =
            ["feed", "--url", &child.url, "--stream", "visits", "--token-file", "token", "--stdin", "--format", "csv"];
        let text: String = ["time,person,group"].iter().chain(rows).map(|row| format!("{row}\n")).collect();
        bench.run_as_is(&[&own[..], &["--memory", memory], more].concat(), text.as_bytes())
    };
    let (good, bad) = ("2026-01-01T00:10:00Z,p1,a", "never,p1,a");
    let refused = feed("one.memory", &[], &[good, bad, good]);
    assert_eq!((refused.code, taken()), (2, 0), "{}", refused.stderr);
    assert!(refused.stderr.contains("standard input, line 3, field time"), "{}", refused.stderr);
    assert_eq!(feed("one.memory", &[], &[good]).code, 2, "the refused row is still pending");
    let mended = feed("one.memory", &["--aside", "aside.jsonl"], &[good, good]);
    assert_eq!((mended.code, taken()), (0, 4), "{}", mended.stderr);
    assert!(bench.read("aside.jsonl").contains("never,p1,a"));
    // The same lines from another pipe are other events.
    assert_eq!((feed("two.memory", &[], &[good, good]).code, taken()), (0, 6));
    child.end(true);
}

/// Tokens for some roles.
fn tokens<const N: usize>(bench: &Bench, roles: [&str; N]) -> [String; N] {
    roles.map(|role| {
        let made = bench.run_as_is(&["token", "make", "--config", "serve.toml", "--role", role], b"");
        assert_eq!(made.code, 0, "{}", made.stderr);
        let word = made.stdout.split_whitespace().find(|word| word.starts_with("evt_"));
        word.expect("the token is printed").to_owned()
    })
}
