//! Small inputs that claim a lot of memory: the program and the service read or refuse them with little memory.
#![cfg(target_os = "linux")]

mod common;

use common::Bench;
use evertally_testkit::bombs::{self, Bomb};
use evertally_testkit::service::{Child, Client};
use std::process::Command;

/// Memory limit of a run, and of the service during the whole test.
const MEMORY_KIB: u64 = 512 << 10;

/// One malloc arena: others reserve address space for each thread, which the limit would count.
const ONE_ARENA: (&str, &str) = ("MALLOC_ARENA_MAX", "1");

fn release(bench: &Bench, number: usize, bomb: &Bomb) {
    let input = format!("input-{number}");
    bench.write(&input, &bomb.bytes);
    let name = format!("stream-{number}");
    let arguments = [
        &input,
        "--key",
        "my.key",
        "--stream",
        &name,
        "--start",
        "2026-01-01",
        "--every",
        "1d",
        "--steps",
        "2",
        "--person",
        "person",
        "--max-events",
        "1",
        "--rho",
        "1",
        "--threads",
        "2",
        "--no-plot",
        "--out",
        "out.csv",
        "--all",
    ];
    let limit = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" release \"$@\"");
    let run = Command::new("sh")
        .args(["-c", &limit, env!("CARGO_BIN_EXE_evertally")])
        .args(arguments)
        .current_dir(bench.folder())
        .env(ONE_ARENA.0, ONE_ARENA.1)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&run.stderr);
    let expected = if bomb.is_readable { 0 } else { 2 };
    assert_eq!(run.status.code(), Some(expected), "{}: {message}", bomb.name);
    assert!(bomb.is_readable || message.starts_with("error: ") && message.contains(&input), "{}: {message}", bomb.name);
}

#[test]
fn a_release_takes_little_memory() {
    let bench = Bench::new();
    for (number, bomb) in bombs::all().iter().enumerate().filter(|(_, bomb)| !bomb.format.contains("arrow")) {
        release(&bench, number, bomb);
    }
}

const SERVE: &str = r#"
folder = "data"
key = "keys/serve.key"
[private]
listen = "127.0.0.1:0"
[[stream]]
stream = "visits"
closing = "operator"
time = "time"
start = "2026-01-01"
every = "1h"
steps = 10
person = "person"
max-events = 1
rho = 0.5
"#;

/// The peak memory of a process.
fn most_memory_kib(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn the_service_takes_little_memory() {
    let bench = Bench::new();
    bench.write("serve.toml", SERVE);
    let made = bench.run(&["token", "make", "--config", "serve.toml", "--role", "write:visits"]);
    let token = made.stdout.split_whitespace().last().unwrap().to_owned();
    let start = "echo $$ > pid; exec \"$0\" serve --config serve.toml --log error";
    let child = Child::start("sh", bench.folder(), &["-c", start, env!("CARGO_BIN_EXE_evertally")]);
    let pid = bench.read("pid").trim().to_owned();
    let client = Client::new(&child.url);
    for (number, bomb) in bombs::all().iter().enumerate() {
        let id = format!("batch-{number}");
        let coding: Vec<(&str, &str)> = bomb.coding.iter().map(|coding| ("content-encoding", *coding)).collect();
        let headers = [&[("content-type", bomb.format), ("idempotency-key", &id)][..], &coding].concat();
        let before = std::time::Instant::now();
        let answer = client.post("/v1/streams/visits/events", &token, &headers, &bomb.bytes).unwrap();
        assert!([200, 400, 413, 422].contains(&answer.status), "{}: {} {}", bomb.name, answer.status, answer.text);
        assert!(bomb.is_readable || answer.status != 200, "{}", bomb.name);
        let (took, memory) = (before.elapsed(), most_memory_kib(&pid));
        eprintln!("{}: status {}, {took:.1?}, {} MiB; {}", bomb.name, answer.status, memory >> 10, answer.text);
        assert!(memory < MEMORY_KIB, "{}: {} MiB", bomb.name, memory >> 10);
    }
    child.end(true);
}
