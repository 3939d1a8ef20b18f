//! Which rows are counted, how their cells are read as numbers, and where rows go that cannot be read.

mod common;

use common::{Bench, table};

/// Three days, with a budget so large that released values are the true ones.
const DAYS: [&str; 13] = [
    "--key",
    "my.key",
    "--start",
    "2024-01-01",
    "--steps",
    "3",
    "--every",
    "1d",
    "--rho",
    "1e6",
    "--allow-weak-budget",
    "--no-plot",
    "--quiet",
];

const EVENTS: &str = "time,status,amount,who,note\n\
    2024-01-01,ok,5,ann,x\n\
    2024-01-01,ok,0,bob,\"a, b\"\n\
    yesterday,failed,oops,,\n\
    2024-01-02,ok,7.50,ann,y\n\
    2024-01-03,,9,eve,z\n";

const WHERE: &str = "status == \"ok\" and amount > 0";

/// Releases a stream of this name, and returns the values at the end of each day.
fn released(bench: &Bench, stream: &str, input: &str, more: &[&str]) -> Vec<String> {
    let out = format!("{stream}.csv");
    let run = bench.run(&[&["release", input, "--stream", stream, "--out", &out], more, &DAYS].concat());
    assert_eq!(run.code, 0, "{stream}: {}", run.stderr);
    table(&bench.read(&out))[1..].iter().map(|row| row[2].clone()).collect()
}

fn refused(bench: &Bench, stream: &str, input: &str, more: &[&str]) -> String {
    let out = format!("{stream}.csv");
    let run = bench.run(&[&["release", input, "--stream", stream, "--out", &out], more, &DAYS].concat());
    assert_eq!(run.code, 2, "{stream}: {}", run.stderr);
    run.stderr
}

/// A row that the expression leaves out is not in the file: neither its time nor its person is read.
#[test]
fn only_rows_where_the_expression_is_true_are_counted() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    let json: String = EVENTS
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let status = if cells[1].is_empty() { "null".into() } else { format!("\"{}\"", cells[1]) };
            let amount = if cells[2] == "oops" { "\"oops\"".into() } else { cells[2].to_owned() };
            format!("{{\"time\": \"{}\", \"status\": {status}, \"amount\": {amount}, \"who\": \"p\"}}\n", cells[0])
        })
        .collect();
    bench.write("events.jsonl", json);
    for (number, input) in ["events.csv", "events.jsonl"].into_iter().enumerate() {
        let of = |name: &str| format!("{name}{number}");
        assert_eq!(released(&bench, &of("both"), input, &["--where", WHERE]), ["1", "2", "2"]);
        let missing = ["--where", "status is missing or status in ('none')"];
        assert_eq!(released(&bench, &of("missing"), input, &missing), ["0", "0", "1"]);
    }
    let sum = ["--where", WHERE, "--value", "amount", "--bounds", "0,10", "--grid", "0.5", "--person", "who"];
    let sum = [&sum[..], &["--max-events", "2"]].concat();
    assert_eq!(released(&bench, "sum", "events.csv", &sum), ["5.0", "12.5", "12.5"]);
    let config = bench.write("run.toml", format!("where = '{WHERE}'\n"));
    assert_eq!(released(config, "file", "events.csv", &["--config", "run.toml"]), ["1", "2", "2"]);

    let report: serde_json::Value = serde_json::from_str(&bench.read("both0.report.json")).unwrap();
    assert_eq!(report["where"], WHERE);
    assert!(bench.read("both0.report.md").contains("| counted | only rows where status == \"ok\" and amount \\> 0 |"));
    assert!(bench.read("both0.plan.toml").contains("amount > 0"));
    // The same expression in another form is the same stream, and another expression is not.
    assert_eq!(released(&bench, "both0", "events.csv", &["--where", "status=='ok' AND (amount>0.0)"]), ["1", "2", "2"]);
    let other = refused(&bench, "both0", "events.csv", &["--where", "amount > 0 and status == 'ok'"]);
    assert!(other.contains("both0") && other.contains("plan"), "{other}");

    let unread = refused(&bench, "unread", "events.csv", &["--where", "amount > 0"]);
    assert!(unread.contains("events.csv, line 4, column `amount`: `oops` is not a number"), "{unread}");
    let column = refused(&bench, "column", "events.csv", &["--where", "state == 'ok'"]);
    assert!(column.contains("no column `state`") && column.contains("`status`"), "{column}");
    let out = ["--stream", "none", "--out", "none.csv", "--where", "status == 'OK'"];
    let none = bench.run(&[&["release", "events.csv"], &out[..], &DAYS].concat());
    assert_eq!((none.code, none.stderr.contains("note: no row is counted")), (0, true), "{}", none.stderr);
    let syntax = refused(&bench, "syntax", "events.csv", &["--where", "status = 'ok'"]);
    assert!(syntax.contains("at character 8: `=`: write == to compare"), "{syntax}");
    let empty = refused(&bench, "empty", "events.csv", &["--where", "status == ''"]);
    assert!(empty.contains("--where") && empty.contains("is missing"), "{empty}");
}

#[test]
fn sketches_and_bounds_count_the_same_rows() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS).write("queries.csv", "note\nx\nz\n");
    let asked = ["sketch", "events.csv", "--key-columns", "note", "--queries", "queries.csv", "--stream", "s"];
    let run = bench.run(&[&asked[..], &["--out", "s.csv", "--where", WHERE], &DAYS].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let answers = table(&bench.read("s.csv"));
    let place = answers[0].iter().position(|name| name == "estimate").unwrap();
    let estimates: Vec<f64> = answers[1..].iter().map(|row| row[place].parse::<f64>().unwrap().round()).collect();
    assert_eq!(estimates, [1.0, 0.0]);
    let look = ["bounds", "events.csv", "--person", "who", "--look-rho", "1e-3", "--most-events", "4", "--stream", "b"];
    let plain = bench
        .run_as_is(&[&look[..], &DAYS[..10], &["--allow-weak-budget", "--look-until", "2024-01-04"]].concat(), b"");
    assert!(plain.stderr.contains("yesterday"), "{}", plain.stderr);
    let run = bench.run_as_is(
        &[&look[..], &DAYS[..10], &["--allow-weak-budget", "--look-until", "2024-01-04", "--where", WHERE]].concat(),
        b"",
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn numbers_are_read_as_declared_and_never_guessed() {
    let bench = Bench::new();
    let sum = ["--value", "n", "--bounds", "0,3600", "--grid", "0.5"];
    // Five standard errors.
    let is_near = |value: &str, exact: f64| (value.parse::<f64>().unwrap() - exact).abs() < 13.0;
    for (name, cells, flags, remedy, value) in [
        ("thousands", "\"1,783.0\"", &["--thousands", ","][..], "declare --thousands ,", 1783.0),
        (
            "comma",
            "\"1.783,50\"",
            &["--decimal-mark", ",", "--thousands", "."],
            "--decimal-mark , --thousands .",
            1783.5,
        ),
        ("blank", "1 783.5", &["--thousands", " "], "declare --thousands space", 1783.5),
        ("swiss", "1'783.5", &["--thousands", "apostrophe"], "declare --thousands apostrophe", 1783.5),
        ("money", "$125.00", &["--number-affixes", "$,EUR"], "declare --number-affixes $", 125.0),
        ("share", "92.5 %", &["--number-affixes", "%"], "declare --number-affixes %", 92.5),
    ] {
        bench.write("n.csv", format!("time,n\n2024-01-01,{cells}\n"));
        let undeclared = refused(&bench, name, "n.csv", &sum);
        assert!(undeclared.contains("n.csv, line 2, column `n`") && undeclared.contains(remedy), "{undeclared}");
        assert!(!undeclared.contains("missing"), "{undeclared}");
        let released = released(&bench, name, "n.csv", &[&sum[..], flags].concat());
        assert!(is_near(&released[2], value), "{name}: {released:?}");
    }
    bench.write("n.csv", "time,n\n2024-01-01,true\n2024-01-01,FALSE\n2024-01-01,True\n");
    assert_eq!(released(&bench, "csv", "n.csv", &["--value", "n", "--bounds", "0,1"])[2], "2");
    // Numbers and booleans of JSON have no declared marks.
    let json = "{\"time\": \"2024-01-01\", \"n\": 1.5}\n{\"time\": \"2024-01-01\", \"n\": true}\n\
                {\"time\": \"2024-01-01\", \"n\": \"1.783,5\"}\n";
    bench.write("n.jsonl", json);
    let german = ["--decimal-mark", ",", "--thousands", "."];
    assert!(is_near(&released(&bench, "json", "n.jsonl", &[&sum[..], &german].concat())[2], 1786.0));
    bench.write("n.csv", "time,n\n2024-01-01,17.83\n");
    let groups = refused(&bench, "groups", "n.csv", &[&sum[..], &german].concat());
    assert!(groups.contains("`17.83` is not a number as declared"), "{groups}");
    let both = refused(&bench, "both", "n.csv", &[&sum[..], &["--thousands", "."]].concat());
    assert!(both.contains("also the decimal mark; declare --decimal-mark ,"), "{both}");
    let sign = refused(&bench, "sign", "n.csv", &[&sum[..], &["--number-affixes", "--"]].concat());
    assert!(sign.contains("--number-affixes"), "{sign}");
}

#[test]
fn rows_that_cannot_be_read_are_set_aside() {
    let bench = Bench::new();
    let rows = "time,n,note\n2024-01-01,1,a\nyesterday,2,b\n2024-01-02,three,\"c, \"\"d\"\"\"\n\
                2024-01-02,4,e,f\n2024-01-03,5,g\n";
    bench.write("n.csv", rows);
    let sum = ["--value", "n", "--bounds", "0,10"];
    let aside = ["--bad-rows", "side-file", "--bad-file", "bad.csv"];
    assert!(refused(&bench, "plain", "n.csv", &sum).contains("line 3"));
    let named = ["release", "n.csv", "--stream", "n", "--out", "n-out.csv"];
    let run = bench.run(&[&named[..], &sum, &aside, &DAYS].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stderr, "did not count 3 rows that cannot be read: see bad.csv, which is NOT PRIVATE\n");
    let written = bench.read("bad.csv");
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, "file,line,column,problem,row"));
    for (line, begin, end) in [
        (1, "n.csv,3,time,", ",\"yesterday,2,b\""),
        (2, "n.csv,4,n,\"`three` is not a number; ", ",\"2024-01-02,three,\"\"c, \"\"\"\"d\"\"\"\"\"\"\""),
        (3, "n.csv,5,,\"it has 4 cells, but the header has 3 cells\",", ",\"2024-01-02,4,e,f\""),
    ] {
        assert!(lines[line].starts_with(begin) && lines[line].ends_with(end), "{written}");
    }
    let values: Vec<String> = table(&bench.read("n-out.csv"))[1..].iter().map(|row| row[2].clone()).collect();
    assert_eq!(values, ["1", "1", "6"]);
    let report = bench.read("n-out.report.md");
    assert!(report.contains("| rows that cannot be read | written to a separate file, and not counted |"), "{report}");
    assert!(bench.read("n-out.report.json").contains("\"bad-rows\": \"side-file\""));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(bench.path("bad.csv")).unwrap().permissions().mode() & 0o777, 0o600);
    }

    // A line that is not an object is such a row, and other damage is an error.
    bench.write("n.jsonl", "{\"time\": \"2024-01-01\", \"n\": 1}\n{\"time\": \"2024-01-01\", \"n\": }\n");
    assert_eq!(released(&bench, "json", "n.jsonl", &[&sum[..], &aside].concat()), ["1", "1", "1"]);
    assert!(bench.read("bad.csv").contains("n.jsonl,2,,"), "{}", bench.read("bad.csv"));
    bench.write("unclosed.csv", "time,n\n2024-01-01,1\n2024-01-01,\"2\n");
    assert!(refused(&bench, "damage", "unclosed.csv", &[&sum[..], &aside].concat()).contains("never closed"));
    // A file of which nothing can be read was declared wrongly.
    bench.write("times.csv", "time,n\n01/02/2024,1\n01/02/2024,1\n");
    let none = refused(&bench, "misread", "times.csv", &[&sum[..], &aside].concat());
    assert!(none.contains("no event is inside the horizon") && none.contains("none of them can be read"), "{none}");
    for (flags, says) in [(&aside[..2], "--bad-file is needed"), (&aside[2..], "--bad-file needs --bad-rows side-file")]
    {
        assert!(refused(&bench, "flags", "n.csv", flags).contains(says));
    }

    // A continued run writes a file with a number, and only if it finds such rows.
    let through = |input: &str, through: &str| {
        let named = ["release", input, "--continue", "--stream", "c", "--out", "c.csv", "--through", through];
        bench.run(&[&named[..], &sum, &aside, &DAYS].concat())
    };
    bench.write("good.csv", "time,n\n2024-01-01,1\n");
    bench.write("more.csv", "time,n,x\n2024-01-02,2,y\n2024-01-02,z,\"1\"\n");
    let before = bench.files();
    assert_eq!(through("good.csv", "2024-01-02").code, 0);
    assert!(!bench.files().difference(&before).any(|name| name.starts_with("bad.")));
    let more = through("more.csv", "2024-01-03");
    assert_eq!(more.code, 0, "{}", more.stderr);
    let name = bench.files().into_iter().find(|name| name.starts_with("bad.0")).expect("a numbered file");
    assert!(more.stderr.contains(&format!("did not count 1 row that cannot be read: see {name}")), "{}", more.stderr);
    assert!(bench.read(&name).contains("more.csv,3,n,"), "{}", bench.read(&name));
}
