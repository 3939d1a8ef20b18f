//! Several measures of one stream under one budget: their values, daily runs, and refusals.

mod common;

use common::{Bench, Run};
use std::collections::BTreeSet;

const DAYS: u64 = 30;
const STREAM: [&str; 20] = [
    "--key",
    "my.key",
    "--start",
    "2024-01-01",
    "--steps",
    "30",
    "--every",
    "1d",
    "--person",
    "who",
    "--max-events",
    "12",
    "--max-events-per-step",
    "3",
    "--group-by",
    "group",
    "--value",
    "amount",
    "--bounds",
    "-20,60",
];
const MEASURES: [&str; 10] = [
    "count",
    "sum",
    "mean*2",
    "variance",
    "std",
    "distinct",
    "distinct(3)",
    "histogram(0,25)",
    "quantile(0.5)",
    "quantile(0.9)",
];

/// An event: its day, person, group and value, as it counts.
#[derive(Clone, Debug)]
struct Event {
    day: u64,
    who: u64,
    group: usize,
    amount: i64,
}

fn date(day: u64) -> String {
    let start = jiff::civil::date(2024, 1, 1);
    start.checked_add(jiff::Span::new().days(day as i64 - 1)).unwrap().to_string()
}

/// All events, in order of time: of some sixty people, each on some days, never more events than are kept.
fn events() -> Vec<Event> {
    let mut events = Vec::new();
    for day in 1..=DAYS {
        for who in 0..60 {
            if (who * 7 + day * 3) % 11 == 0 || (who % 10 == 3 && day % 9 == 1) {
                let amount = ((who * 37 + day * 11) % 90) as i64 - 25;
                events.push(Event { day, who, group: usize::from(who % 3 == 0), amount });
            }
        }
    }
    events
}

fn file(events: &[Event], day: u64) -> String {
    let mut text = "time,who,group,amount\n".to_owned();
    for (place, Event { day, who, group, amount }) in events.iter().filter(|event| event.day == day).enumerate() {
        let group = ["a", "b"][*group];
        text.push_str(&format!("{}T{:02}:00:00Z,p{who},{group},{amount}\n", date(*day), place % 24));
    }
    text
}

fn days() -> Bench {
    let (bench, events) = (Bench::new(), events());
    for day in 1..=DAYS {
        bench.write(&format!("{}.csv", date(day)), file(&events, day));
    }
    bench
}

fn release(bench: &Bench, files: &[String], more: &[&str]) -> Run {
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let measures: Vec<&str> = MEASURES.iter().flat_map(|measure| ["--measure", *measure]).collect();
    bench.run(&[&["release"], &files[..], &STREAM, &["--groups", "a,b"], &measures, more].concat())
}

fn all_files() -> Vec<String> {
    (1..=DAYS).map(|day| format!("{}.csv", date(day))).collect()
}

/// A row: group, measure, step, and value, standard error and ends if present.
type Row = (String, String, u64, [Option<f64>; 4]);

fn rows(table: &str) -> Vec<Row> {
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("time,group,measure,step,value,std_error,lower,upper"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let figure =
            |place: usize| Some(cells[place]).filter(|text| !text.is_empty()).map(|text| text.parse().unwrap());
        (cells[1].to_owned(), cells[2].to_owned(), cells[3].parse().unwrap(), [4, 5, 6, 7].map(figure))
    };
    lines.map(row).collect()
}

/// The value of a measure over the events of a group through a step.
fn truth(events: &[Event], group: usize, measure: &str, step: u64) -> Option<f64> {
    let own: Vec<&Event> = events.iter().filter(|event| event.group == group && event.day <= step).collect();
    let mut values: Vec<i64> = own.iter().map(|event| event.amount.clamp(-20, 60)).collect();
    values.sort_unstable();
    let n = values.len() as f64;
    let some = |figure: f64| (n > 0.0).then_some(figure);
    let mean = values.iter().sum::<i64>() as f64 / n;
    let variance = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / n;
    let between = |low: i64, high: i64| values.iter().filter(|value| (low..high).contains(*value)).count() as f64;
    let people = |since: u64| {
        let people: BTreeSet<u64> = own.iter().filter(|event| event.day > since).map(|event| event.who).collect();
        people.len() as f64
    };
    let quantile =
        |share: f64| some(values.get((share * n - 1e-9).ceil() as usize - 1).map_or(0.0, |value| *value as f64));
    match measure {
        "count" => Some(n),
        "sum" => Some(values.iter().sum::<i64>() as f64),
        "mean" => some(mean),
        "variance" => some(variance),
        "std" => some(variance.sqrt()),
        "distinct" => Some(people(0)),
        "distinct(3)" => Some(people(step.saturating_sub(3))),
        "below 0" => Some(between(-20, 0)),
        "0 to 25" => Some(between(0, 25)),
        "from 25" => Some(between(25, 61)),
        "quantile(0.5)" if n > 0.0 => quantile(0.5),
        "quantile(0.9)" if n > 0.0 => quantile(0.9),
        "quantile(0.5)" | "quantile(0.9)" => None,
        other => panic!("{other} is not a measure"),
    }
}

/// The greatest possible value of a quantile.
fn upper_quantile(events: &[Event], group: usize, measure: &str, step: u64) -> Option<f64> {
    let share: f64 = measure.strip_prefix("quantile(")?.strip_suffix(')')?.parse().unwrap();
    let own = events.iter().filter(|event| event.group == group && event.day <= step);
    let mut values: Vec<i64> = own.map(|event| event.amount.clamp(-20, 60)).collect();
    values.sort_unstable();
    let place = (share * values.len() as f64 + 1e-9).floor() as usize;
    Some(values[place.min(values.len() - 1)] as f64)
}

/// A table of measures supports no difference queries; the error explains this.
#[test]
fn intervals_of_measures_are_refused_in_words() {
    let bench = Bench::new();
    bench.write("e.csv", "time,value\n2024-01-01,1\n2024-01-02,2\n");
    let of = ["release", "e.csv", "--key", "my.key", "--start", "2024-01-01", "--steps", "2", "--every", "1d"];
    let more = ["--rho", "1", "--value", "value", "--bounds", "0,5", "--measure", "mean", "--out", "m.csv"];
    let run = bench.run(&[&of[..], &more].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let refused = bench.run(&["interval", "m.csv"]);
    assert!(refused.code == 2 && refused.stderr.contains("without --measure"), "{}", refused.stderr);
}

/// With almost no noise, every figure has the value of its definition.
#[test]
fn every_measure_is_of_what_it_says() {
    let (bench, events) = (days(), events());
    for budget in [["--rho", "1e6"], ["--epsilon", "1e5"]] {
        let run =
            release(&bench, &all_files(), &[&budget[..], &["--allow-weak-budget", "--all", "--out", "t.csv"]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let table = rows(&bench.read("t.csv"));
        assert_eq!(table.len(), 30 * 2 * 12);
        for (group, measure, step, [value, std_error, lower, upper]) in table {
            let truth = truth(&events, usize::from(group == "b"), &measure, step);
            let Some(truth) = truth else { continue };
            let what = format!("{measure} of {group} at {step}: {value:?} in {lower:?} to {upper:?}, and not {truth}");
            let (value, lower, upper) = (value.expect(&what), lower.unwrap(), upper.unwrap());
            assert!(lower <= value && value <= upper, "{what}");
            let noise = 8.0 * std_error.expect(&what); // exceeded once in 10¹⁵ times
            // If a share of the events is a whole number, every value between two events is a quantile.
            let until = upper_quantile(&events, usize::from(group == "b"), &measure, step).unwrap_or(truth);
            // A quantile is reported as some point in its cell.
            let off = if measure.starts_with("quantile") { 1.5 } else { 0.02 + 2e-4 * truth.abs() + noise };
            assert!(truth - off <= value && value <= until + off, "{what}");
        }
        std::fs::remove_file(bench.path("my.key.ledger")).unwrap();
        std::fs::remove_file(bench.path("my.key")).unwrap();
        assert_eq!(bench.run(&["key", "new", "my.key"]).code, 0);
    }
}

/// One budget, one entry; daily runs give the table of a single run.
#[test]
fn daily_runs_give_what_one_run_gives() {
    let bench = days();
    std::fs::copy(bench.path("my.key.ledger"), bench.path("first.ledger")).unwrap();
    for day in [1, 2, 3, 7, 8, 20, 30] {
        let files: Vec<String> = all_files().into_iter().take(day as usize).collect();
        let through = date(day + 1);
        let run = release(&bench, &files, &["--rho", "0.5", "--continue", "--through", &through, "--out", "t.csv"]);
        assert_eq!(run.code, 0, "day {day}: {}", run.stderr);
    }
    let ledger: serde_json::Value = serde_json::from_str(&bench.read("my.key.ledger")).unwrap();
    assert_eq!(ledger["streams"].as_object().unwrap().len(), 1);
    assert!(ledger["streams"]["main"]["plan_text"].as_str().unwrap().contains("[[part]]"));
    let continued = bench.read("t.csv");
    let spent = bench.run(&["key", "info", "my.key"]);
    assert!(spent.stdout.contains("0.5") || spent.code != 0, "{}", spent.stdout);

    let rebuilt = release(&bench, &all_files(), &["--rho", "0.5", "--rebuild", "--all", "--out", "t.csv"]);
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.stderr);
    assert_eq!(bench.read("t.csv"), continued, "rebuilt");

    std::fs::copy(bench.path("first.ledger"), bench.path("my.key.ledger")).unwrap();
    let once = release(&bench, &all_files(), &["--rho", "0.5", "--all", "--out", "once.csv"]);
    assert_eq!(once.code, 0, "{}", once.stderr);
    assert_eq!(bench.read("once.csv"), continued, "at once");

    // Different data under the same name are refused; so are different measures.
    let mut changed = events();
    changed[5].amount += 1;
    bench.write("2024-01-01.csv", file(&changed, 1));
    let refused = release(&bench, &all_files(), &["--rho", "0.5", "--all", "--out", "u.csv"]);
    assert!(refused.code == 2 && refused.stderr.contains("different data"), "{}", refused.stderr);
    let more = ["--rho", "0.5", "--all", "--out", "u.csv", "--measure", "quantile(0.25)"];
    let refused = release(&bench, &all_files(), &more);
    assert!(refused.code == 2 && refused.stderr.contains("another plan"), "{}", refused.stderr);
}

/// Groups may join a stream that has begun; existing groups continue unchanged.
#[test]
fn groups_join() {
    let bench = days();
    let measures = ["--measure", "count", "--measure", "mean", "--measure", "distinct(4)"];
    let go_on = |day: u64, groups: &str, out: &str| {
        let files: Vec<String> = all_files().into_iter().take(day as usize).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let through = date(day + 1);
        let rest = ["--rho", "0.5", "--continue", "--through", &through, "--out", out, "--unknown-group", "skip"];
        bench.run(&[&["release"], &files[..], &STREAM, &measures, &["--groups", groups], &rest].concat())
    };
    assert_eq!(go_on(5, "a", "t.csv").code, 0);
    let run = go_on(9, "a,b", "t.csv");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let table = rows(&bench.read("t.csv"));
    let of = |group: &str| table.iter().filter(|row| row.0 == group).map(|row| row.2).collect::<BTreeSet<_>>();
    assert_eq!(of("a"), (1..=9).collect());
    assert_eq!(of("b"), (6..=9).collect());
}

#[test]
fn what_does_not_go_together_is_refused_and_says_why() {
    let bench = Bench::new();
    bench.write("events.csv", common::EVENTS);
    let person = ["--person", "who", "--max-events", "3"];
    let values = ["--value", "amount", "--bounds", "-5,5", "--grid", "0.25"];
    for (more, says) in [
        (vec!["--measure", "average"], "not one of count, sum, mean"),
        (vec!["--measure", "mean"], "needs --value"),
        (vec!["--measure", "distinct"], "needs --person"),
        ([&["--measure", "count", "--measure", "count"][..], &values].concat(), "twice"),
        ([&["--measure", "count"][..], &values].concat(), "no measure uses values"),
        ([&["--measure", "histogram(0,9)"][..], &values].concat(), "within the bounds"),
        ([&["--measure", "histogram(0)", "--measure", "histogram(1)"][..], &values].concat(), "two histograms"),
        (vec!["--measure", "count", "--unsafe-show-truth"], "true figures"),
        ([&["--measure", "mean"][..], &person, &values, &["--max-total", "5"]].concat(), "do not go together"),
        (vec!["--measure", "mean", "--value", "amount", "--bounds", "5,5"], "nothing to average"),
    ] {
        let refused = bench.refused(&more);
        assert!(refused.contains(says), "{more:?}: {refused}");
    }
    let run = bench.release(&[&["--measure", "count", "--measure", "mean"][..], &values, &["--plan-only"]].concat());
    assert!(run.code == 0 && run.stdout.contains("% of the budget"), "{}{}", run.stdout, run.stderr);
}

/// Every format has a column of measures, and supports missing values.
#[test]
fn every_format_has_room_for_what_has_no_value() {
    let bench = Bench::new();
    bench.write("events.csv", common::EVENTS);
    let measures = ["--measure", "mean", "--measure", "quantile(0.5)", "--value", "amount", "--bounds", "-5,5"];
    for format in ["csv", "jsonl", "parquet"] {
        let out = format!("means.{format}");
        let run = bench.run(&[&common::RELEASE[..12], &["--out", &out, "--stream", format], &measures].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    assert!(bench.read("means.csv").contains(",mean,1,,,-5,5\n"), "{}", bench.read("means.csv"));
    assert!(bench.read("means.jsonl").contains("\"value\":null,\"std_error\":null"), "{}", bench.read("means.jsonl"));
    let report = bench.read("means.report.md");
    assert!(report.contains("has no value") && report.contains("| summed | events:"), "{report}");
}
