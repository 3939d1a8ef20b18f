//! End-to-end: nested values, arrays of objects, and files that contain or describe tables in other ways.

mod common;

use common::{Bench, table};

/// Almost no noise, so that released counts are exact after rounding.
const EXACT: [&str; 17] = [
    "--key",
    "my.key",
    "--time",
    "at",
    "--start",
    "2024-01-01",
    "--every",
    "1d",
    "--steps",
    "1",
    "--rho",
    "100000",
    "--allow-weak-budget",
    "--quiet",
    "--no-plot",
    "--out",
    "out.csv",
];

/// The released rows of one day, without columns after the value.
fn released(name: &str, contents: impl AsRef<[u8]>, more: &[&str]) -> Result<String, String> {
    let bench = Bench::new();
    bench.write(name, contents);
    let run = bench.run(&[&["release", name], &EXACT[..], more].concat());
    if run.code != 0 {
        return Err(run.stderr);
    }
    let rows = table(&bench.read("out.csv"));
    let cells = rows.iter().skip(1).map(|row| {
        let place = rows[0].iter().position(|name| name == "value").unwrap();
        row[..=place].join(" ")
    });
    Ok(cells.collect::<Vec<_>>().join("; "))
}

const NESTED: &str = r#"{"at":"2024-01-01T10:00:00Z","actor":{"login":"ann","city":"Oslo"},"spent":{"euro":[2,3]}}
{"at":"2024-01-01T11:00:00Z","actor":{"login":"ann","city":"Oslo"},"spent":{"euro":[5]}}
{"at":"2024-01-01T12:00:00Z","actor":{"login":"bob","city":"Bern"},"spent":{"euro":[7]}}
"#;

#[test]
fn nested_values_have_every_role() {
    let roles = ["--person", "actor.login", "--max-events", "1", "--group-by", "actor.city", "--groups", "Oslo,Bern"];
    let value = ["--value", "spent.euro[0]", "--bounds", "0,10"];
    let array = format!("[{}]", NESTED.trim().replace('\n', ",\n  "));
    let pretty = NESTED.replace(",\"", ",\n  \"");
    for text in [NESTED, &array, &pretty] {
        let counts = released("events.json", text, &roles).unwrap();
        assert_eq!(counts, "2024-01-01 Oslo 1 1; 2024-01-01 Bern 1 1", "{text}");
        let sums = released(
            "events.json",
            text,
            &[&value[..], &["--group-by", "actor.city", "--groups", "Oslo,Bern"]].concat(),
        );
        assert_eq!(sums.unwrap(), "2024-01-01 Oslo 1 7; 2024-01-01 Bern 1 7", "{text}");
    }
    let misspelt = ["--person", "login", "--max-events", "1", "--missing", "skip"];
    let error = released("events.json", NESTED, &misspelt).unwrap_err();
    assert!(error.contains("no column `login` (did you mean `actor.login`?)"), "{error}");
}

#[test]
fn event_logs_are_read() {
    let log = r#"<?xml version="1.0" encoding="UTF-8" ?><log>
        <trace><string key="concept:name" value="case 1"/>
            <event><date key="at" value="2024-01-01T10:00:00+00:00"/></event>
            <event><date key="at" value="2024-01-01T11:00:00+00:00"/></event>
        </trace></log>"#;
    let person = ["--person", "trace:concept:name", "--max-events", "1"];
    assert_eq!(released("log.xes", log, &person).unwrap(), "2024-01-01 1 1");
    assert_eq!(released("log.xes", log, &["--input-format", "xes"]).unwrap(), "2024-01-01 1 2");
    let error = released("log.xes", "at\n2024-01-01\n", &["--input-format", "xes"]).unwrap_err();
    assert!(error.contains("not in the format XES"), "{error}");
}

/// An archive of one stored file, as `zip -0` writes it.
fn archive(name: &str, contents: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(contents);
    let size = (contents.len() as u32).to_le_bytes();
    let common = [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0], &crc.sum().to_le_bytes()[..], &size, &size].concat();
    let length = (name.len() as u16).to_le_bytes();
    let local = [b"PK\x03\x04", &common[..], &length, &[0; 2], name.as_bytes(), contents].concat();
    let central = [b"PK\x01\x02\x14\0", &common[..], &length, &[0; 16], name.as_bytes()].concat();
    let sizes = [central.len() as u32, local.len() as u32].map(u32::to_le_bytes).concat();
    let end = [b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &sizes[..], &[0; 2]].concat();
    [local, central, end].concat()
}

#[test]
fn the_only_file_of_an_archive_is_read() {
    let whole = archive("events.csv", b"at\n2024-01-01\n2024-01-01\n");
    assert_eq!(released("events.zip", &whole, &[]).unwrap(), "2024-01-01 1 2");
    let error = released("events.zip", &whole[..whole.len() - 5], &[]).unwrap_err();
    assert!(error.contains("events.zip: this zip archive cannot be read"), "{error}");
    let bench = Bench::new();
    let run = bench.run_with(&[&["release", "-"], &EXACT[..]].concat(), &whole);
    assert_eq!(run.code, 0, "{}", run.stderr);
}
