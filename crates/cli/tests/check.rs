//! `evertally check`: its findings in files, that it changes nothing, and that its suggestions work.

mod common;

use common::{Bench, Run};
use serde_json::Value;

const WARNING: &str = "NOT PRIVATE: for you only, do not publish";

/// A check that must succeed and leave the folder as it was.
fn check(bench: &Bench, more: &[&str], stdin: &[u8]) -> Run {
    let before = contents(bench);
    let run = bench.run_as_is(&[&["check"], more].concat(), stdin);
    assert_eq!(run.code, 0, "{more:?}: {}", run.stderr);
    assert_eq!(contents(bench), before, "{more:?} changed files");
    run
}

fn contents(bench: &Bench) -> Vec<(String, Vec<u8>)> {
    bench.files().into_iter().map(|name| (name.clone(), std::fs::read(bench.path(&name)).unwrap())).collect()
}

fn found(bench: &Bench, more: &[&str]) -> Value {
    let run = check(bench, &[more, &["--json"]].concat(), b"");
    let found: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(found["not_private"], WARNING);
    found
}

/// Splits a command at blanks outside quotes, and fills in the choices.
fn arguments(command: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    let choice = |word: String| match word.as_str() {
        "RHO" => "20".to_owned(),
        "KEYFILE" => "my.key".to_owned(),
        "NAMES" => "north,south".to_owned(),
        "LOW,HIGH" => "0,10".to_owned(),
        _ => word,
    };
    words.into_iter().skip(1).map(choice).chain(["--allow-weak-budget".to_owned()]).collect()
}

/// Runs the suggested release.
/// The mechanism is given, because choosing one takes most of the time of a run.
fn release_as_suggested(bench: &Bench, found: &Value) -> Run {
    let arguments = arguments(found["suggested"]["command"].as_str().unwrap());
    let arguments = arguments.iter().map(String::as_str).chain(["--mechanism", "sqrt"]);
    bench.run_as_is(&arguments.collect::<Vec<_>>(), b"")
}

/// Files with what the check has to find out, and the flags that are given.
fn inputs() -> Vec<(&'static str, String, &'static [&'static str])> {
    let mut german = "Tag;Halle;Kunde;member\n".to_owned();
    let mut epochs = String::new();
    let mut two = "day,clock,visitor\n".to_owned();
    for day in 1..=28 {
        german.push_str(&format!("{day:02}.03.2023 09:00;Nord;K{};M{}\n", day % 9, day % 7));
        epochs.push_str(&format!(
            "{{\"when\": {}, \"user\": {{\"id\": 1}}, \"gate\": \"a\"}}\n",
            1_677_628_800 + day * 86_400
        ));
        two.push_str(&format!("2023-03-{day:02},{}:05,v{}\n", 23 - day % 24, day % 5));
    }
    let object = |day: u32| format!("{{\"properties\": {{\"time\": \"2023-03-{day:02} 09:00\"}}}}");
    let objects = (1..=28).map(object).collect::<Vec<_>>().join(",\n");
    let event =
        |day: u32| format!("<event><date key=\"time:timestamp\" value=\"2023-03-{day:02}T09:00:00Z\"/></event>");
    let events = (1..=28).map(event).collect::<String>();
    let newest_first: Vec<String> = (1..=28).rev().map(|day| format!("2023-03-{day:02},x\n")).collect();
    vec![
        ("semicolons", german, &[]),
        ("epochs", epochs, &[]),
        ("two columns", two, &["--every", "1h"]),
        ("newest first", format!("time,who\n{}", newest_first.concat()), &[]),
        ("dates in hours", "time,who\n2023-03-01,a\n2023-03-02,b\n".to_owned(), &["--every", "1h"]),
        ("missing", "time,who\n2023-03-01,a\n2023-03-02,\n,b\n".to_owned(), &[]),
        (
            "outside",
            "time\n2023-03-01\n2021-03-02\n".to_owned(),
            &["--start", "2023-01-01", "--every", "1w", "--steps", "20"],
        ),
        ("weeks", "time\n2023-03-01\n2023-08-02\n".to_owned(), &["--every", "1w"]),
        (
            "groups",
            "time,gate\n2023-03-01,north\n2023-03-02,west\n".to_owned(),
            &["--group-by", "gate", "--groups", "north,south"],
        ),
        ("values", "time,price\n2023-03-01,1.5\n2023-03-02,2\n".to_owned(), &["--value", "price", "--grid", "0.5"]),
        ("no header", (1..=28).map(|day| format!("a{day},2023-03-{day:02}T10:00:00Z,x\n")).collect(), &[]),
        ("objects in an object", format!("{{\"type\": \"x\", \"features\": [{objects}]}}\n"), &[]),
        (
            "a log",
            (1..=28).map(|day| format!("h{day} - - [{day:02}/Mar/2023:10:00:00 +0000] \"GET /\" 200 3\n")).collect(),
            &[],
        ),
        ("XES", format!("<log><trace>{events}</trace></log>"), &[]),
        ("marks", "time,who\n2023-03-01,a\nNA,b\n2023-03-03,c\nNaN,d\n".to_owned(), &[]),
        (
            "midnights",
            "day,clock\n3/25/2023 00:00:00,9:05 AM\n3/26/2023 00:00:00,9:15 PM\n".to_owned(),
            &["--every", "1h"],
        ),
        ("lines before", "Gates, 2023\nmade by hand\ntime;gate;who\n2023-03-01;n;a\n2023-03-02;s;b\n".to_owned(), &[]),
        ("comments", "# made by hand\ntime,who\n# a gap\n2023-03-01,a\n2023-03-02,b\n".to_owned(), &[]),
        ("quotes", "time\twho\tnote\n2023-03-01\ta\t\"6 inch\n2023-03-02\tb\t3\"\n".to_owned(), &[]),
        ("open groups", "time,gate\n2023-03-01,north\n2023-03-02,south\n".to_owned(), &["--group-by", "gate"]),
    ]
}

/// The suggested release works, as a command and as a configuration file, for each kind of input.
#[test]
fn suggestions_work() {
    for (name, content, flags) in inputs() {
        let bench = Bench::new();
        bench.write("data.txt", content);
        let flags = [&["data.txt"], flags].concat();
        let found = found(&bench, &flags);
        let run = release_as_suggested(&bench, &found);
        assert_eq!(run.code, 0, "{name}: {}\n{}", found["suggested"]["command"], run.stderr);
        assert!(bench.read("released.csv").lines().count() > 2, "{name}");
        // The same as a file, to which the open choices are added.
        std::fs::remove_file(bench.path("released.csv")).unwrap();
        let written = bench.run_as_is(&[&["check"], &flags[..], &["--write", "visits.toml"]].concat(), b"");
        assert_eq!(written.code, 0, "{name}: {}", written.stderr);
        assert!(written.stdout.contains("wrote visits.toml"), "{name}: {}", written.stdout);
        let more = ["--rho", "20", "--allow-weak-budget", "--key", "my.key", "--mechanism", "sqrt"];
        let open: &[&str] = match name {
            "values" => &["--bounds", "0,10"],
            "open groups" => &["--groups", "north,south"],
            _ => &[],
        };
        let release = [&["release", "--config", "visits.toml"], &more[..], open].concat();
        let again = bench.run_as_is(&release, b"");
        assert_eq!(again.code, 0, "{name}: {}\n{}", bench.read("visits.toml"), again.stderr);
        assert!(bench.read("released.csv").lines().count() > 2, "{name}");
    }
}

/// No suggestion leaves out an event without a word: each is counted, or reported as refused.
#[test]
fn suggestions_hide_no_event() {
    let days = |range: std::ops::RangeInclusive<u32>, row: &dyn Fn(u32) -> String| range.map(row).collect::<String>();
    let january = |after: &'static str| move |day: u32| format!("2024-01-{day:02}{after}\n");
    let february = |after: &'static str| move |day: u32| format!("2024-02-{day:02}{after}\n");
    let handle = |day: u32| format!("{}{day},2024-01-{day:02},A\n", if day.is_multiple_of(3) { '#' } else { '@' });
    let grown = format!("time,hall\n{}{}", days(1..=15, &january(",A")), days(1..=28, &february(",A,3")));
    let late = format!("time\n{}{}", days(1..=15, &january("")), days(1..=3, &february(",late")));
    let summary = format!("when,hall,who\n{}\nmonth,visits\n2024-01-01,19\n", days(1..=6, &january(",A,1")));
    let handles = format!("# Orders of 2024\nhandle,time,hall\n{}", days(1..=28, &handle));
    for (name, content, events) in
        [("grown", grown, 43), ("late", late, 18), ("summary", summary, 6), ("handles", handles, 28)]
    {
        let bench = Bench::new();
        bench.write("data.csv", content);
        let found = found(&bench, &["data.csv"]);
        assert!(found["rows"].as_u64().unwrap() >= events, "{name}: {}", found["suggested"]["command"]);
    }
    // A quote that is not closed.
    let bench = Bench::new();
    bench.write("data.csv", format!("time,note\n2024-01-01,\"a\n{}2024-01-20,b\"\n", days(2..=19, &january(",b"))));
    let of_quote = found(&bench, &["data.csv"]);
    let notes = of_quote["suggested"]["notes"].to_string();
    assert!(notes.contains("line breaks in 1 cell of column `note`"), "{notes}");
    // A title, and no header: the first line of the second file is an event.
    let bench = Bench::new();
    bench.write("a.csv", format!("Title\n{}", days(1..=10, &january(",A"))));
    bench.write("b.csv", days(11..=20, &january(",A")));
    let found = found(&bench, &["a.csv", "b.csv"]);
    let command = found["suggested"]["command"].as_str().unwrap();
    assert!(!command.contains("--skip-lines"), "{command}");
}

/// A column of times decides between delimiters.
#[test]
fn the_time_decides_about_delimiters() {
    for (content, delimiter) in [
        ((1..=28).map(|day| format!("2024-01-{day:02};1,5\n")).collect::<String>(), "';'"),
        (format!("time|note;x|hall\n{}", "2024-01-03|a;b|A\n".repeat(20)), "'|'"),
        (format!("time, local;value, EUR\n{}", "2024-01-03;1,5\n".repeat(20)), "';'"),
        ("time;hall\n2024-01-03;A\n2024-01-04;A\n2024-01-05;A\nTotal;4\nend\n".to_owned(), "';'"),
    ] {
        let bench = Bench::new();
        bench.write("data.csv", &content);
        let found = found(&bench, &["data.csv"]);
        let command = found["suggested"]["command"].as_str().unwrap();
        assert!(command.contains(&format!("--delimiter {delimiter}")), "{content}: {command}");
    }
}

/// A file without a row that can be read says so, with the first rows that cannot.
#[test]
fn nothing_readable_is_said() {
    let bench = Bench::new();
    bench.write("broken.jsonl", "{\"time\": \"2024-01-01\"\n{\"time\": \n");
    let run = bench.run_as_is(&["check", "broken.jsonl"], b"");
    assert!(run.stdout.contains("1 row that cannot be read\n    broken.jsonl, line 2: "), "{}", run.stdout);
}

/// Nothing is lost: the suggested release of a file without a header counts its first line, too.
#[test]
fn the_first_line_may_be_an_event() {
    let bench = Bench::new();
    bench.write("log.csv", "2023-03-01T10:00:00Z,a\n2023-03-02T10:00:00Z,b\n2023-03-03T10:00:00Z,a\n");
    let answer = found(&bench, &["log.csv"]);
    assert_eq!((&answer["rows"], &answer["counted"]), (&3.into(), &3.into()));
    let command = answer["suggested"]["command"].as_str().unwrap();
    assert!(command.contains("--columns column1,column2") && command.contains("--time column1"), "{command}");
    // A release does not read it with the first event as its header.
    let flags = ["release", "log.csv", "--time", "2023-03-01T10:00:00Z", "--start", "2023-03-01", "--steps", "3"];
    let refused =
        bench.run_as_is(&[&flags[..], &["--every", "1d", "--rho", "1", "--all", "--key", "my.key"]].concat(), b"");
    assert_eq!(refused.code, 2);
    for part in ["names the column `2023-03-01T10:00:00Z`, which is a time itself", "--columns NAME"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}

/// A text in an encoding of Windows is read, and called a guess.
#[test]
fn the_encoding_is_suggested() {
    let bench = Bench::new();
    bench.write("orte.csv", b"Zeit;Stra\xdfe\n2023-03-01;K\xf6nigsweg\n2023-03-02;Marktplatz\n");
    let command = found(&bench, &["orte.csv"])["suggested"]["command"].as_str().unwrap().to_owned();
    assert!(command.contains("--delimiter ';'") && command.contains("--encoding windows-1252"), "{command}");
}

/// A file that cannot be read has no release.
#[test]
fn nothing_is_suggested_for_nothing() {
    let bench = Bench::new();
    let run = bench.run_as_is(&["check", "nowhere.csv"], b"");
    assert_eq!(run.code, 2);
    assert!(run.stdout.contains("no such file") && !run.stdout.contains("evertally release"), "{}", run.stdout);
    assert!(run.stderr.contains("no file could be read"), "{}", run.stderr);
}

/// A check of a whole file, as it is printed.
#[test]
fn a_file_is_described() {
    let bench = Bench::new();
    let mut text = "time,who,gate,n\n".to_owned();
    for row in 0..40 {
        text.push_str(&format!(
            "2024-01-{:02} 10:00,p{},{},{}\n",
            1 + row / 2,
            row % 4,
            ["north", "south"][row % 2],
            row
        ));
    }
    text.push_str("soon,p1,north,1\n2024-01-02 10:00,p9,north\n2024-01-19 10:00,,north,2\n");
    bench.write("events.csv", &text);
    let shown = check(&bench, &["events.csv"], b"").stdout;
    assert!(shown.starts_with(WARNING), "{shown}");
    for words in [
        "events.csv: CSV",
        "43 rows",
        "north (22), south (20)",
        "rows: 43 read, 40 of which a release can count",
        "from 2024-01-01T10:00:00Z to 2024-01-20T10:00:00Z",
        "order: sorted by time",
        "1 row that cannot be read",
        "events.csv, line 43: it has 3 cells, but the header has 4",
        "1 row with a time that cannot be read",
        "line 42, column `time`: `soon`",
        "1 row with a missing cell",
        "4 persons; rows of each: half have at most 10",
        "1: 90 %, 2: 80 %, 5: 50 %, 10: 0 %",
        "columns that may name groups: gate",
        "--missing skip",
        "2 rows cannot be read: correct them, or set them aside with --bad-rows side-file",
        "--rho RHO",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let piped = check(&bench, &["-"], text.as_bytes()).stdout;
    assert_eq!(piped.replace("standard input", "events.csv").lines().count(), shown.lines().count(), "{piped}");
}

/// The declared filter and number format hold for a check, too.
#[test]
fn rows_are_read_as_a_release_reads_them() {
    let bench = Bench::new();
    bench.write("events.csv", "time,status,n\n2024-01-01,ok,\"1,783\"\n2024-01-02,failed,oops\n2024-01-03,ok,2\n");
    let flags = ["events.csv", "--where", "status == \"ok\"", "--value", "n", "--bounds", "0,5000", "--thousands", ","];
    let shown = check(&bench, &flags, b"").stdout;
    assert!(shown.contains("rows: 3 read, 2 of which a release can count"), "{shown}");
    assert!(shown.contains("1 row that --where leaves out") && !shown.contains("would refuse"), "{shown}");
}

#[test]
fn the_order_needs_the_smallest_buffer() {
    let bench = Bench::new();
    bench.write("events.csv", "time\n2024-01-01\n2024-01-03\n2024-01-03\n2024-01-02\n2024-01-04\n");
    let answer = found(&bench, &["events.csv"]);
    assert_eq!((&answer["order"]["order"], &answer["order"]["sort_buffer"]), (&"unsorted".into(), &Value::Null));
    let answer = found(&bench, &["events.csv", "--every", "1d"]);
    assert_eq!((&answer["order"]["order"], &answer["order"]["sort_buffer"]), (&"unsorted".into(), &2.into()));
    let flags = |buffer: &'static str| {
        let given = ["release", "events.csv", "--key", "my.key", "--start", "2024-01-01", "--end", "2024-02-01"];
        [&given[..], &["--every", "1d", "--rho", "1", "--all", "--out", "out.csv", "--sort-buffer", buffer]].concat()
    };
    assert_eq!(bench.run_as_is(&flags("1"), b"").code, 2);
    assert_eq!(bench.run_as_is(&flags("2"), b"").code, 0);
}

/// An order of day and month that no cell decides is left open.
#[test]
fn nothing_ambiguous_is_decided() {
    let bench = Bench::new();
    bench.write("events.csv", "time\n01/02/2024\n03/04/2024\n");
    let answer = found(&bench, &["events.csv"]);
    assert_eq!(answer["times"]["ambiguous"], serde_json::json!(["%d/%m/%Y", "%m/%d/%Y"]));
    assert!(answer["suggested"]["notes"][0].as_str().unwrap().contains("--time-format '%d/%m/%Y' or '%m/%d/%Y'"));
    assert!(answer["times"]["first"].is_null());
    // The same day in either order is not the same format.
    let same = "01/01/2024\n".repeat(30);
    bench.write("events.csv", format!("time\n{same}"));
    assert_eq!(found(&bench, &["events.csv"])["times"]["ambiguous"], serde_json::json!(["%d/%m/%Y", "%m/%d/%Y"]));
    bench.write("events.csv", format!("time\n{same}01/13/2024\n"));
    assert_eq!(found(&bench, &["events.csv"])["times"]["format"], "%m/%d/%Y");
    // A later row decides, even after the rows on which formats are tried.
    let many = "01/02/2024\n".repeat(12_000);
    bench.write("events.csv", format!("time\n{many}13/02/2024\n"));
    assert_eq!(found(&bench, &["events.csv"])["times"]["format"], "%d/%m/%Y");
}

/// With a complete declaration the check shows the error of the release; files that cannot be read are named.
#[test]
fn declared_releases_and_broken_files() {
    let bench = Bench::new();
    bench
        .write("events.csv", common::EVENTS)
        .write("broken.csv", "time,who\n\"2024\n")
        .write("old.zip", b"PK\x03\x04....");
    bench.write(
        "visits.toml",
        "input = \"events.csv\"\nstart = \"2024-01-01\"\nend = \"2024-01-04\"\nevery = \"1d\"\nrho = 1\n",
    );
    let shown = check(&bench, &["--config", "visits.toml"], b"").stdout;
    assert!(shown.contains("evertally release --config visits.toml --person who"), "{shown}");
    assert!(shown.contains("standard error: at most "), "{shown}");
    let shown = check(&bench, &["events.csv", "broken.csv", "old.zip", "nowhere.csv"], b"").stdout;
    for words in
        ["reading ended there", "a quote that opens in this row is never closed", "zip archive", "no such file"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let refused = bench.run_as_is(&["check"], b"");
    assert!(refused.code == 2 && refused.stderr.contains("no input file"), "{}", refused.stderr);
    let refused = bench.run_as_is(&["check", "events.csv", "--write", "visits.toml"], b"");
    assert!(refused.code == 2 && refused.stderr.contains("never overwritten"), "{}", refused.stderr);
}
