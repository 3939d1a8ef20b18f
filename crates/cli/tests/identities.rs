//! End-to-end: persons, groups and items with several spellings, in files of several formats.

mod common;

use common::{Bench, Run, table};

/// Almost no noise, so that released counts are exact after rounding.
const EXACT: [&str; 14] = [
    "--key",
    "my.key",
    "--start",
    "2024-01-01",
    "--every",
    "1d",
    "--steps",
    "2",
    "--rho",
    "100000",
    "--allow-weak-budget",
    "--quiet",
    "--out",
    "out.csv",
];

fn run(bench: &Bench, command: &[&str], more: &[&str]) -> Run {
    bench.run(&[command, &EXACT, more].concat())
}

/// The number of kept events of two files, one event per person.
fn kept(first: (&str, &str), second: (&str, &str), more: &[&str]) -> i64 {
    let bench = Bench::new();
    bench.write(first.0, first.1).write(second.0, second.1);
    let persons = ["--person", "id", "--max-events", "1", "--no-plot"];
    let run = run(&bench, &["release", first.0, second.0], &[&persons, more].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows = table(&bench.read("out.csv"));
    rows.last().unwrap()[2].parse().unwrap()
}

fn csv(day: u32, id: &str) -> String {
    format!("time,id\n2024-01-0{day},\"{id}\"\n")
}

fn json(day: u32, id: &str) -> String {
    format!("{{\"time\":\"2024-01-0{day}\",\"id\":{id}}}\n")
}

#[test]
fn one_person_has_one_bound_in_all_files() {
    for (first, second) in [
        ("100000", "1e+05"),
        ("0.10", "0.1"),
        ("17.0", "17"),
        ("True", "true"),
        ("\"Infinity\"", "inf"),
        ("\"2024-01-01T00:00:00Z\"", "2024-01-01"),
        ("9007199254740993", "9007199254740993"),
        ("1E30", "1000000000000000000000000000000"),
    ] {
        let literal = if first == "True" { "true" } else { first };
        let kept = kept(("a.jsonl", &json(1, literal)), ("b.csv", &csv(2, second)), &[]);
        assert_eq!(kept, 1, "{first} and {second} are one person");
    }
    for (first, second) in [("007", "7"), ("ann", "Ann"), ("9007199254740992", "9007199254740993"), ("ann", "ann ")] {
        let kept = kept(("a.csv", &csv(1, first)), ("b.csv", &csv(2, second)), &[]);
        assert_eq!(kept, 2, "{first} and {second} are two persons");
    }
}

#[test]
fn texts_are_one_person_as_declared() {
    let files = [("a.csv", csv(1, "e\u{301}ve")), ("b.csv", csv(2, " ÉVE"))];
    let kept = |words: &str| kept(("a.csv", &files[0].1), ("b.csv", &files[1].1), &["--normalise-ids", words]);
    assert_eq!((kept("nfc,casefold"), kept("nfc,trim,casefold")), (2, 1));
    let bench = Bench::new();
    bench.write("a.csv", csv(1, "Ann"));
    let more = ["--person", "id", "--max-events", "1", "--no-plot"];
    let wrong = run(&bench, &["release", "a.csv"], &[&more[..], &["--normalise-ids", "nfd"]].concat());
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("`nfd` is not a normalisation; there are nfc, trim, casefold"), "{}", wrong.stderr);
}

/// The rule that identifies persons is part of the stream: under the same name no other rule is accepted.
#[test]
fn a_stream_keeps_its_normalisation() {
    let bench = Bench::new();
    bench.write("a.csv", csv(1, "Ann"));
    bench.write("trim.toml", "normalise-ids = [\"trim\"]\n");
    let more = ["--person", "id", "--max-events", "1", "--no-plot"];
    let with = |other: &[&str]| run(&bench, &["release", "a.csv"], &[&more[..], other].concat());
    assert_eq!(with(&["--config", "trim.toml"]).code, 0);
    assert_eq!(with(&["--normalise-ids", "trim"]).code, 0, "the same again");
    for other in [&["--normalise-ids", "trim,nfc"][..], &[]] {
        let refused = with(other);
        assert_eq!(refused.code, 2, "{other:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("normalise-ids"), "{}", refused.stderr);
    }
}

#[test]
fn rounded_ids_are_refused_with_their_place() {
    let bench = Bench::new();
    bench.write("a.csv", "time,id\n2024-01-01,17\n2024-01-02,1.2345678901234568e+18\n");
    bench.write("a.jsonl", json(1, "17") + &json(2, "9007199254740992.0"));
    let remedy = "; write ids as integers or as text\n";
    for file in ["a.csv", "a.jsonl"] {
        let line = if file == "a.csv" { 3 } else { 2 };
        let place = format!("error: {file}, line {line}, column `id`: `");
        for more in [
            &["--person", "id", "--max-events", "1", "--missing", "skip"][..],
            &["--group-by", "id", "--groups", "17", "--unknown-group", "skip"],
            &["--group-by", "id", "--groups", "17", "--rest", "others"],
        ] {
            let refused = run(&bench, &["release", file], more);
            assert_eq!(refused.code, 2, "{more:?}: {}", refused.stderr);
            assert!(refused.stderr.starts_with(&place) && refused.stderr.ends_with(remedy), "{}", refused.stderr);
        }
        bench.write("items.csv", "id\n17\n");
        let refused = run(&bench, &["sketch", file], &["--key-columns", "id", "--queries", "items.csv"]);
        assert!(refused.stderr.starts_with(&place) && refused.stderr.ends_with(remedy), "{}", refused.stderr);
    }
    assert!(!bench.files().contains("out.csv"));
}

#[test]
fn groups_match_by_identity_and_keep_their_spelling() {
    let bench = Bench::new();
    let rows: String = ["0.1", "\".1\"", "1e-1", "true", "\"TRUE\""].map(|group| json(1, group)).concat();
    bench.write("a.jsonl", rows);
    let by = ["--no-plot", "--group-by", "id", "--groups"];
    let run_of = |more: &[&str]| run(&bench, &["release", "a.jsonl"], &[&by[..], more].concat());
    let run = run_of(&["0.10,True"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows = table(&bench.read("out.csv"));
    let shown: Vec<_> = rows[1..3].iter().map(|row| (row[1].as_str(), row[3].as_str())).collect();
    assert_eq!(shown, [("0.10", "3"), ("True", "2")]);
    for (groups, says) in [
        ("0.1,1e-1,true", "group `1e-1` is declared twice: `0.1` is another spelling of it"),
        ("0.1,NaN", "group `NaN` marks a missing cell"),
        ("0.1,1e+20", "group `1e+20` is not an exact id"),
        ("0.1,x,true,x", "group `x` is declared twice"),
    ] {
        let refused = run_of(&[groups]);
        assert!(refused.code == 2 && refused.stderr.contains(says), "{}", refused.stderr);
    }
    let rest = run_of(&["0.1", "--rest", ".10"]);
    assert!(rest.code == 2 && rest.stderr.contains("the name of a declared group"), "{}", rest.stderr);
}

/// A cell in another spelling belongs to its group, not to the rest; with `skip`, it is not skipped.
#[test]
fn the_rest_has_no_spelling_of_a_declared_group() {
    let bench = Bench::new();
    bench.write("a.csv", csv(1, "1") + "2024-01-02,1.0\n2024-01-02,01\n");
    bench.write("b.jsonl", json(2, "1e0") + &json(2, "\"+1.00\"") + &json(2, "null"));
    let groups = ["release", "a.csv", "b.jsonl", "--no-plot", "--group-by", "id", "--groups"];
    for (name, more, expected) in [
        ("1", &["--rest", "other"][..], &[("1", "4"), ("other", "2")][..]),
        ("1.0", &["--rest", "other"], &[("1.0", "4"), ("other", "2")]),
        ("1", &["--unknown-group", "skip", "--stream", "skip"], &[("1", "4")]),
    ] {
        let stream = ["--stream", name];
        let stream = if more.contains(&"--stream") { &[][..] } else { &stream };
        let run = bench.run(&[&groups[..], &[name], &EXACT, stream, more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let rows = table(&bench.read("out.csv"));
        let last: Vec<_> = rows[rows.len() - expected.len()..].iter().map(|row| (&*row[1], &*row[3])).collect();
        assert_eq!(last, expected, "{name} {more:?}");
    }
}

#[test]
fn items_match_by_identity_and_keep_their_spelling() {
    let bench = Bench::new();
    bench.write("a.csv", "time,id\n2024-01-01,100000\n2024-01-01,1e+05\n2024-01-02,100000.0\n2024-01-02,7\n");
    bench.write("items.csv", "id\n1e5\n7.0\n007\n");
    let table_of = |more: &[&str]| {
        let run = run(&bench, &["sketch", "a.csv"], &[&["--key-columns", "id"], more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        table(&bench.read("out.csv"))
    };
    let rows = table_of(&["--queries", "items.csv"]);
    let place = |name: &str| rows[0].iter().position(|column| column == name).unwrap();
    let (id, estimate) = (place("id"), place("estimate"));
    let found = rows[1..].iter().map(|row| (row[id].as_str(), row[estimate].parse::<f64>().unwrap().round()));
    assert_eq!(found.collect::<Vec<_>>(), [("1e5", 3.0), ("7.0", 1.0), ("007", 0.0)]);
    let twice = run(&bench, &["sketch", "a.csv"], &["--key-columns", "id", "--candidates", "twice.csv", "--top", "1"]);
    assert_eq!(twice.code, 2);
    bench.write("twice.csv", "id\n1e5\n100000\n");
    let twice = run(&bench, &["sketch", "a.csv"], &["--key-columns", "id", "--candidates", "twice.csv", "--top", "1"]);
    assert!(
        twice.stderr.contains("twice.csv, line 3, column `id`: this candidate is in the file twice"),
        "{}",
        twice.stderr
    );
    let keys = table_of(&["--key-bits", "20", "--threshold", "1", "--stream", "keys"]);
    let heavy: Vec<&str> = keys[1..].iter().map(|row| row[id].as_str()).collect();
    assert!(heavy.contains(&"100000"), "{keys:?}");
}
