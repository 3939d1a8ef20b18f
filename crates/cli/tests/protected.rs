//! No command overwrites files of a key, a budget or a service, or its own input files, with its output.

mod common;

use common::{Bench, RELEASE};
use std::path::Path;

/// A folder with one protected file of every kind; their bytes must not change.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("events.csv", "time,person\n2024-01-01,a\n2024-01-02,b\n").write("run.toml", "every = \"1d\"\n");
    bench.write("old.csv", "step,sum\n");
    let budget = ["budget", "new", "shop.budget", "--name", "shop", "--unit", "person", "--epsilon", "3"];
    assert_eq!(bench.run(&budget).code, 0, "{}", bench.run(&budget).stderr);
    for folder in ["my.key.state", "service"] {
        std::fs::create_dir(bench.path(folder)).unwrap();
    }
    bench.write("my.key.state/part", "x").write("service/store.redb", b"redb\x1a\x0a\xa9\x0d\x0a\0");
    bench
        .write("my.key.uses", "evertally uses 1")
        .write("witness.json", r#"{"version":1,"counter":1,"writer":"w","streams":{}}"#);
    std::fs::copy(bench.path("my.key.ledger"), bench.path("ledger-under-another-name")).unwrap();
    bench
}

const PROTECTED: [&str; 19] = [
    "my.key",
    "my.key.ledger",
    "my.key.uses",
    "my.key.state/part",
    "my.key.state/new",
    "my.key.ledger.lock",
    ".my.key.ledger.lock",
    ".my.key.lock",
    ".my.key.ledger.tmp",
    "other.key.ledger",
    "other.key.uses",
    "MY.KEY.LEDGER",
    "ledger-under-another-name",
    "shop.budget",
    ".shop.budget.lock",
    "witness.json",
    "service/table.csv",
    "service/store.redb",
    "service/../my.key.uses",
];

/// Every file with its content, including subfolders.
fn contents(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(contents(&path)),
            false => all.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    all.sort();
    all
}

/// The arguments of every command that writes to a path given by the user.
fn commands(path: &str) -> Vec<Vec<String>> {
    fn release<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let mut arguments: Vec<&str> = RELEASE.to_vec();
        let out = arguments.iter().position(|argument| *argument == "--out").unwrap();
        arguments.truncate(out);
        arguments.extend(["--no-plot", "--config", "run.toml"]);
        [&arguments[..], more].concat()
    }
    let late = ["--out", "table.csv", "--continue", "--late", "side-file", "--late-file", path];
    let asked = ["--horizon", "8", "--epsilon", "1"];
    let all: Vec<Vec<&str>> = vec![
        release(&["--out", path]),
        release(&["--out", path, "--continue"]),
        release(&late),
        [&["simulate", "--paths", "2", "--test-seed", "1", "--out", path][..], &asked].concat(),
        vec!["budget", "show", "shop.budget", "--plot", path],
        vec!["key", "new", path],
        vec!["budget", "new", path, "--name", "x", "--unit", "person", "--epsilon", "3"],
    ];
    all.into_iter().map(|arguments| arguments.into_iter().map(str::to_owned).collect()).collect()
}

#[test]
fn no_output_goes_where_something_protected_is() {
    let bench = bench();
    let before = contents(bench.folder());
    for path in PROTECTED.into_iter().chain(["events.csv", "run.toml"]) {
        for arguments in commands(path) {
            // Neither a key nor a budget reads them, and no existing file is overwritten.
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            if ["events.csv", "run.toml"].contains(&path) && arguments[0] != "release" {
                continue;
            }
            let run = bench.run(&arguments);
            assert_eq!(run.code, 2, "{arguments:?}: {}{}", run.stdout, run.stderr);
            assert!(contents(bench.folder()) == before, "{arguments:?} changed something: {}", run.stderr);
        }
    }
}

#[test]
fn other_names_are_outputs_as_before() {
    let bench = bench();
    for arguments in commands("old.csv").into_iter().take(1) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let run = bench.run(&arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
    }
}
