//! A released history: bands that hold at all steps simultaneously, views, and later queries of a table.

mod common;

use common::{Bench, table};
use serde_json::Value;

const YEAR: [&str; 16] = [
    "release",
    "events.csv",
    "--key",
    "my.key",
    "--start",
    "2024-01-01",
    "--steps",
    "40",
    "--every",
    "1d",
    "--rho",
    "0.5",
    "--group-by",
    "group",
    "--groups",
    "a,b",
];

/// Some events of two groups on every day.
fn events() -> Bench {
    let bench = Bench::new();
    let mut text = "time,group\n".to_owned();
    for day in 0..40 {
        let date = jiff::civil::date(2024, 1, 1).checked_add(jiff::Span::new().days(day)).unwrap();
        for n in 0..day % 4 {
            text.push_str(&format!("{date}T{:02}:00:00Z,{}\n", n, if n == 2 { "b" } else { "a" }));
        }
    }
    bench.write("events.csv", text);
    bench
}

fn release(bench: &Bench, more: &[&str]) {
    let run = bench.run(&[&YEAR[..], more].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
}

fn asked(bench: &Bench, more: &[&str]) -> Value {
    let run = bench.run(&[&["interval", "out.csv", "--json"], more].concat());
    assert_eq!(run.code, 0, "{more:?}: {}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is a number"))
}

/// Values are differences of the table's values. Errors follow from covariances and are far smaller than those of two
/// releases.
#[test]
fn stretches_totals_and_ratios_of_a_table() {
    let bench = events();
    release(&bench, &["--out", "out.csv", "--mechanism", "normalized-blt"]);
    let rows = table(&bench.read("out.csv"));
    let value = |step: &str, group: &str| -> f64 {
        rows.iter().find(|row| row[2] == step && row[1] == group).unwrap()[3].parse().unwrap()
    };
    let answer = asked(&bench, &["--from", "2024-01-08", "--to", "2024-01-15"]);
    assert_eq!(answer["steps"], serde_json::json!([8, 14]));
    let found = answer["rows"].as_array().unwrap();
    assert_eq!(found.len(), 3);
    for (row, group) in found.iter().zip(["a", "b"]) {
        assert_eq!(row["group"], serde_json::json!([group]));
        assert!((number(&row["value"]) - (value("14", group) - value("7", group))).abs() < 1e-9);
        assert!(number(&row["lower"]) < number(&row["value"]) && number(&row["value"]) < number(&row["upper"]));
    }
    assert!((number(&found[2]["value"]) - number(&found[0]["value"]) - number(&found[1]["value"])).abs() < 1e-9);
    let of_two = number(&found[0]["std_error"]).hypot(number(&found[1]["std_error"]));
    assert!((number(&found[2]["std_error"]) / of_two - 1.0).abs() < 1e-9, "groups are independent");
    let single: f64 = rows.iter().find(|row| row[2] == "14").unwrap()[4].parse().unwrap();
    assert!(number(&found[0]["std_error"]) < 1.2 * single, "two releases share most of their noise");
    assert_eq!(answer, asked(&bench, &["--from", "8", "--to", "14"]), "steps can be named by numbers");

    // From the start: equal to the table itself.
    let whole = asked(&bench, &["--to", "14", "--group", "a"]);
    assert!((number(&whole["rows"][0]["std_error"]) / single - 1.0).abs() < 1e-6);
    let half_width = number(&whole["rows"][0]["upper"]) - number(&whole["rows"][0]["value"]);
    let row = rows.iter().find(|row| row[2] == "14" && row[1] == "a").unwrap();
    let of_table = row[6].parse::<f64>().unwrap() - row[3].parse::<f64>().unwrap();
    assert!((half_width - of_table).abs() <= 1.01, "{half_width} and {of_table}");

    let share = asked(&bench, &["--share"]);
    let shares = share["rows"].as_array().unwrap();
    assert!((number(&shares[2]["ratio"]["value"]) - 1.0).abs() < 1e-12);
    let [of_a, of_all] = [0, 2].map(|row: usize| number(&shares[row]["value"]));
    assert!((number(&shares[0]["ratio"]["value"]) - of_a / of_all).abs() < 1e-12);
    let ratio = asked(&bench, &["--from", "8", "--to", "14", "--ratio-to", "1..7", "--group", "b"]);
    let set = ratio["rows"][0]["ratio"]["set"].as_str().unwrap();
    assert!(["between", "outside", "anything"].contains(&set));
    let text = bench.run(&["interval", "out.csv", "--ratio-to-group", "b", "--group", "a", "--from", "40"]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    let phrases = ["from ", "the denominator may be 0", "anything"];
    assert!(phrases.iter().any(|words| text.stdout.contains(words)), "{}", text.stdout);
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let bench = events();
    release(&bench, &["--out", "out.csv"]);
    for (more, says) in [
        (&["--from", "2024-01-08T07:00"][..], "no step begins or ends at"),
        (&["--from", "9", "--to", "3"], "is empty"),
        (&["--to", "41"], "ends with step 40"),
        (&["--group", "c"], "no group `c`"),
        (&["--ratio-to", "1-7"], "FROM..TO"),
        (&["--confidence", "2"], "confidence"),
        (&["--plan", "nothing.toml"], "cannot read the plan"),
    ] {
        let run = bench.run(&[&["interval", "out.csv"], more].concat());
        assert!(run.code == 2 && run.stderr.contains(says), "{more:?}: {} {}", run.code, run.stderr);
    }
    // A different plan: its errors do not belong to the table.
    let other = ["--rho", "0.1", "--stream", "other", "--out", "other.csv"];
    let run = bench.run(&[&YEAR[..10], &YEAR[12..], &other].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = bench.run(&["interval", "out.csv", "--plan", "other.plan.toml", "--to", "7"]);
    assert_eq!(run.code, 0, "groups may have scales: {}", run.stderr);
    let ungrouped = ["--key", "my.key", "--start", "2024-01-01", "--steps", "40", "--every", "1d", "--stream", "sum"];
    let run = bench.run(&[&["release", "events.csv"], &ungrouped[..], &["--rho", "0.5", "--out", "sum.csv"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = bench.run(&["interval", "sum.csv", "--plan", "other.plan.toml"]);
    assert!(run.code != 0, "a table without groups is not of a plan with groups");
}

/// Bands are wider than the intervals, by the same number of standard errors at every step; the report states this; a
/// rerun gives the same bands.
#[test]
fn bands_are_written_and_explained() {
    let bench = events();
    release(&bench, &["--out", "single.csv", "--stream", "s"]);
    release(&bench, &["--out", "out.csv", "--band", "simultaneous", "--stream", "s"]);
    let (single, band) = (table(&bench.read("single.csv")), table(&bench.read("out.csv")));
    let report: Value = serde_json::from_str(&bench.read("out.report.json")).unwrap();
    let errors = number(&report["error"]["band"]["standard_errors"]);
    assert!(errors > 2.4 && errors < 3.4, "{errors}");
    for (one, all) in single.iter().zip(&band).skip(1) {
        assert_eq!(one[..5], all[..5], "values and standard errors are the same");
        let half_width = all[6].parse::<f64>().unwrap() - all[3].parse::<f64>().unwrap();
        let want = errors * all[4].parse::<f64>().unwrap();
        assert!(half_width >= want - 1e-4 && half_width < want + 1.0, "{half_width} {want}");
    }
    let words = bench.read("out.report.md");
    assert!(words.contains("hold at once") && words.contains("a band"), "{words}");
    assert!(bench.read("out.svg").contains("all at once"));
    let answer = asked(&bench, &["--band"]);
    assert!((number(&answer["band"]["standard_errors"]) / errors - 1.0).abs() < 1e-6);
}

/// Views keep the raw values, have the documented properties, and continue from run to run: byte for byte the output of
/// one run.
#[test]
fn views_go_on_from_run_to_run() {
    let views = ["--band", "simultaneous", "--view", "non-decreasing,non-negative", "--no-plot"];
    let bench = events();
    release(&bench, &[&views[..], &["--out", "whole.csv"]].concat());
    release(&bench, &["--out", "raw.csv", "--band", "simultaneous", "--no-plot"]);
    let rows = table(&bench.read("whole.csv"));
    assert_eq!(rows[0][7..], ["view_value", "view_lower", "view_upper"]);
    for (row, raw) in rows.iter().zip(table(&bench.read("raw.csv"))) {
        assert_eq!(row[..7], raw[..], "the raw values are kept");
    }
    for group in ["a", "b"] {
        let mut most = [0.0f64; 3];
        for row in rows.iter().filter(|row| row[1] == group) {
            let number = |place: usize| row[place].parse::<f64>().unwrap();
            most = [most[0].max(number(3)), most[1].max(number(5)), most[2].max(number(6))];
            assert_eq!([number(7), number(8), number(9)], most);
        }
    }

    // The same data day by day in three runs, then all data again.
    let daily = events();
    let text = daily.read("events.csv");
    for (part, days) in [("1", 1..=15), ("2", 16..=16), ("3", 17..=40)] {
        let of = |line: &&str| {
            let date: Option<jiff::civil::Date> = line.get(..10).and_then(|date| date.parse().ok());
            date.is_some_and(|date| days.contains(&(i64::from(date.day_of_year()))))
        };
        let lines: Vec<&str> = text.lines().filter(of).collect();
        daily.write(&format!("{part}.csv"), format!("time,group\n{}\n", lines.join("\n")));
    }
    for extension in ["csv", "jsonl"] {
        let out = format!("daily.{extension}");
        let stream = format!("stream-{extension}");
        let run = |more: &[&str]| {
            let own = ["--out", &out, "--stream", &stream];
            let run = daily.run_as_is(&[&["release"], more, &YEAR[2..], &views, &own].concat(), b"");
            assert_eq!(run.code, 0, "{more:?}: {}", run.stderr);
        };
        run(&["1.csv", "--continue", "--through", "2024-01-16"]);
        run(&["2.csv", "--continue", "--through", "2024-01-17"]);
        run(&["3.csv", "--continue", "--all"]);
        let grown = daily.read(&out);
        run(&["1.csv", "2.csv", "3.csv", "--rebuild", "--all"]);
        assert!(grown == daily.read(&out), "{extension}: all again is the same, byte for byte");
        let shown = |row: &str| row.contains("view_value");
        assert!(extension == "csv" || grown.lines().all(shown));
    }
    // Rows with different columns are not appended to these.
    let fewer = ["--out", "daily.csv", "--stream", "stream-csv", "--continue", "--all"];
    let run = daily.run_as_is(&[&["release", "1.csv"], &YEAR[2..], &fewer].concat(), b"");
    assert!(run.code == 2 && run.stderr.contains("columns for views"), "{}", run.stderr);
}

#[test]
fn views_of_other_values_are_refused() {
    let bench = events();
    let refused = |more: &[&str], says: &str| {
        let run = bench.run(&[&YEAR[..], more, &["--out", "no.csv"]].concat());
        assert!(run.code == 2 && run.stderr.contains(says), "{more:?}: {}", run.stderr);
        assert!(!bench.files().contains("no.csv"));
    };
    refused(&["--view", "non-decreasing"], "--band simultaneous");
    refused(&["--view", "positive"], "is not a view");
    let sum = ["--value", "group", "--bounds=-1,1", "--grid", "0.5"];
    refused(&[&sum[..], &["--view", "non-negative"]].concat(), "not negative");
    refused(&[&sum[..], &["--view", "whole-number"]].concat(), "whole numbers");
}
