//! Groups discovered in the data.

mod common;

use common::{Bench, Run, table};

const DAYS: u64 = 24;
const PLAN: [&str; 16] = [
    "--key",
    "my.key",
    "--start",
    "2024-01-01",
    "--steps",
    "24",
    "--every",
    "1d",
    "--rho",
    "1",
    "--person",
    "who",
    "--max-events",
    "4",
    "--max-events-per-step",
    "2",
];
const DISCOVER: [&str; 7] =
    ["--group-by", "from,to", "--discover-groups", "--selection-delta", "1e-7", "--select-every", "5"];

fn date(day: u64) -> String {
    let start = jiff::civil::date(2024, 1, 1);
    start.checked_add(jiff::Span::new().days(day as i64 - 1)).unwrap().to_string()
}

/// The events of a day: 60 on one route from the first day, 40 on another from the eleventh, few or single events on
/// other routes, with names that need quotes.
fn events(day: u64) -> String {
    let mut text = "time,who,from,to\n".to_owned();
    let mut row = |n: u64, from: &str, to: &str| {
        text.push_str(&format!("{}T{:02}:{:02}:00Z,p{day}-{n},{from},{to}\n", date(day), n / 60, n % 60));
    };
    (0..60).for_each(|n| row(n, "JFK", "LAX"));
    if day > 10 {
        (60..100).for_each(|n| row(n, "\"a, b\"", "ä"));
    }
    row(100, "solo", &format!("only {day}"));
    if day.is_multiple_of(8) {
        row(101, "rare", "x");
    }
    text
}

fn days() -> Bench {
    let bench = Bench::new();
    for day in 1..=DAYS {
        bench.write(&format!("{}.csv", date(day)), events(day));
    }
    bench
}

fn release(bench: &Bench, files: &[String], more: &[&str]) -> Run {
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    bench.run(&[&["release"], &files[..], &PLAN, &DISCOVER, more].concat())
}

fn files(days: std::ops::RangeInclusive<u64>) -> Vec<String> {
    days.map(|day| format!("{}.csv", date(day))).collect()
}

/// Popular routes are shown from their first step once they are found; routes of one person are not.
#[test]
fn routes_are_found() {
    let bench = days();
    let run = release(&bench, &files(1..=DAYS), &["--out", "t.csv", "--plot-groups", "JFK/LAX", "--top", "1"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("δ = 1e-7 for selecting groups"), "{}", run.stderr);
    assert!(run.stderr.contains("selected 5 of 5 times"), "{}", run.stderr);
    let mut reader = csv::Reader::from_path(bench.path("t.csv")).unwrap();
    assert_eq!(reader.headers().unwrap(), vec!["time", "from", "to", "step", "value", "std_error", "lower", "upper"]);
    let rows: Vec<(String, String, u64, f64)> = reader
        .records()
        .map(|row| row.unwrap())
        .map(|row| (row[1].to_owned(), row[2].to_owned(), row[3].parse().unwrap(), row[4].parse().unwrap()))
        .collect();
    let of = |from: &str| rows.iter().filter(|row| row.0 == from).cloned().collect::<Vec<_>>();
    let (first, second) = (of("JFK"), of("a, b"));
    assert_eq!(rows.len(), first.len() + second.len(), "nobody else");
    for (route, to) in [(&first, "LAX"), (&second, "ä")] {
        assert_eq!(route.iter().map(|row| row.2).collect::<Vec<_>>(), (1..=DAYS).collect::<Vec<_>>());
        assert!(route.iter().all(|row| row.1 == to));
    }
    assert!((first[23].3 - 1440.0).abs() < 150.0 && (second[23].3 - 560.0).abs() < 150.0, "{rows:?}");
    assert!(second[8].3.abs() < 150.0, "nothing yet: {}", second[8].3);
    // Found after the fifteenth day; the earlier steps follow at that time.
    let at = rows.iter().position(|row| row.0 == "a, b").unwrap();
    assert_eq!((at, rows[at].2, rows[at - 1].2), (14, 1, 14));
    let report = bench.read("t.report.md");
    assert!(report.contains("those by from, to that occur and reach"), "{report}");
    assert!(report.contains("except with probability 1e-7"), "{report}");
    let facts: serde_json::Value = serde_json::from_str(&bench.read("t.report.json")).unwrap();
    assert_eq!(facts["selection"]["after_steps"], serde_json::json!([5, 10, 15, 20, 24]));
    assert_eq!(facts["guarantee"]["selection_delta"], serde_json::json!(1e-7));
    assert!(facts["guarantee"]["pure_epsilon"].is_null());
    assert_eq!(facts["selection"]["new_groups"], serde_json::json!(4));
    assert!(bench.path("t.svg").exists());
    // The fastest-growing route of each step follows from released values alone; from the eleventh day it may be the
    // second.
    let mut leaders = csv::Reader::from_path(bench.path("t.top.csv")).unwrap();
    assert_eq!(leaders.headers().unwrap(), vec!["time", "step", "rank", "from", "to", "increment", "std_error"]);
    let leaders: Vec<(u64, f64)> = leaders
        .records()
        .map(|row| row.unwrap())
        .map(|row| (row[1].parse().unwrap(), row[5].parse().unwrap()))
        .collect();
    assert_eq!(leaders.iter().map(|leader| leader.0).collect::<Vec<_>>(), (1..=DAYS).collect::<Vec<_>>());
    for (step, increment) in leaders {
        let of =
            |route: &[(String, String, u64, f64)], step: u64| if step == 0 { 0.0 } else { route[step as usize - 1].3 };
        let largest =
            [&first, &second].map(|route| of(route, step) - of(route, step - 1)).into_iter().fold(f64::MIN, f64::max);
        assert!((increment - largest).abs() < 2e-4, "{step}: {increment} {largest}");
    }
    // The plan file also describes how groups are selected.
    assert!(bench.read("t.plan.toml").contains("[selection]"), "{}", bench.read("t.plan.toml"));
}

/// Daily runs and a single run give the same bytes, regardless of when groups are found.
#[test]
fn daily_runs_give_what_one_run_gives() {
    let bench = days();
    std::fs::copy(bench.path("my.key.ledger"), bench.path("first.ledger")).unwrap();
    for (from, to) in [(1, 2), (3, 3), (4, 9), (10, 15), (16, 16), (17, 23), (24, 24)] {
        // Files also arrive early, and events of open steps wait.
        let files = files(from..=(to + 1).min(DAYS));
        let files = if from > 1 { files[1..].to_vec() } else { files };
        let through = date(to + 1);
        let run = release(&bench, &files, &["--out", "t.csv", "--continue", "--through", &through, "--top", "2"]);
        assert_eq!(run.code, 0, "{from}: {}", run.stderr);
        if to < 5 {
            assert!(run.stderr.contains("the first selection time is still to come"), "{}", run.stderr);
            assert_eq!(bench.read("t.csv").lines().count(), 1);
        }
    }
    let (parts, report, leaders) = (bench.read("t.csv"), bench.read("t.report.json"), bench.read("t.top.csv"));
    let other = days();
    std::fs::copy(bench.path("my.key"), other.path("my.key")).unwrap();
    std::fs::copy(bench.path("first.ledger"), other.path("my.key.ledger")).unwrap();
    let run = release(&other, &files(1..=DAYS), &["--out", "t.csv", "--top", "2"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!((other.read("t.csv"), other.read("t.top.csv")), (parts.clone(), leaders));
    let selection = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["selection"].clone();
    assert_eq!(selection(&other.read("t.report.json")), selection(&report));
    // A lost state is rebuilt from all files.
    std::fs::remove_dir_all(bench.path("my.key.ledger.parts")).ok();
    let run = release(&bench, &files(1..=DAYS), &["--out", "t.csv", "--rebuild"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(bench.read("t.csv"), parts);
}

/// Windows over the last week for each discovered route, in one run or in daily runs. A person who is alone on a route
/// does not change a single byte.
#[test]
fn weeks_of_routes_that_are_found() {
    let week = ["--workload", "window(7d)", "--out", "t.csv"];
    let bench = days();
    std::fs::copy(bench.path("my.key.ledger"), bench.path("first.ledger")).unwrap();
    let run = release(&bench, &files(1..=DAYS), &week);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let table = bench.read("t.csv");
    let rows: Vec<csv::StringRecord> =
        csv::Reader::from_reader(table.as_bytes()).records().map(Result::unwrap).collect();
    let of = |from: &str| -> Vec<(f64, f64)> {
        let number = |row: &csv::StringRecord, at: usize| row[at].parse::<f64>().unwrap();
        rows.iter().filter(|row| &row[1] == from).map(|row| (number(row, 4), number(row, 5))).collect()
    };
    let (first, second) = (of("JFK"), of("a, b"));
    assert_eq!((first.len(), second.len()), (DAYS as usize, DAYS as usize), "{table}");
    assert_eq!(rows.len(), first.len() + second.len(), "nobody else");
    for (step, (value, std_error)) in (1..=DAYS).zip(&first) {
        let off = value - 60.0 * step.min(7) as f64;
        assert!(off.abs() < 6.0 * std_error && *std_error < 15.0, "{step}: {value} ± {std_error}");
    }
    assert!((second[9].0.abs() < 6.0 * second[9].1) && (second[23].0 - 280.0).abs() < 6.0 * second[23].1, "{second:?}");
    let facts: serde_json::Value = serde_json::from_str(&bench.read("t.report.json")).unwrap();
    assert!(facts["selection"]["failure"].as_f64().unwrap() <= 1e-7);

    // Daily runs, with the same key and an empty ledger.
    let other = days();
    std::fs::copy(bench.path("my.key"), other.path("my.key")).unwrap();
    std::fs::copy(bench.path("first.ledger"), other.path("my.key.ledger")).unwrap();
    for (from, to) in [(1, 2), (3, 9), (10, 15), (16, 24)] {
        let through = date(to + 1);
        let run = release(&other, &files(from..=to), &[&week[..], &["--continue", "--through", &through]].concat());
        assert_eq!(run.code, 0, "{from}: {}", run.stderr);
    }
    assert_eq!(other.read("t.csv"), table);

    // Without people who are alone on a route.
    let without = days();
    std::fs::copy(bench.path("my.key"), without.path("my.key")).unwrap();
    std::fs::copy(bench.path("first.ledger"), without.path("my.key.ledger")).unwrap();
    for day in 1..=DAYS {
        let events = events(day);
        let kept: Vec<&str> = events.lines().filter(|line| !line.contains("solo") && !line.contains("rare")).collect();
        without.write(&format!("{}.csv", date(day)), kept.join("\n") + "\n");
    }
    let run = release(&without, &files(1..=DAYS), &week);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(without.read("t.csv"), table);

    let decay = release(&bench, &[], &["--workload", "decay(7d)", "--plan-only", "--out", "d.csv"]);
    assert!(decay.code == 2 && decay.stderr.contains("running sums or windows"), "{}", decay.stderr);
}

/// All selection settings are printed before any event is read.
#[test]
fn thresholds_are_known_before_any_event() {
    let bench = Bench::new();
    let run = release(&bench, &[], &["--plan-only", "--out", "t.csv"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for part in
        ["groups: those by from, to that occur and reach ", "with probability ½, with ", "5 times, every 5 steps"]
    {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let facts = |more: &[&str]| {
        let run = release(&bench, &[], &[&["--plan-only", "--json", "--out", "t.csv"], more].concat());
        serde_json::from_str::<serde_json::Value>(&run.stdout).unwrap()["selection"].clone()
    };
    let (plain, floor) = (facts(&[]), facts(&["--floor", "20"]));
    assert!(plain["shown_almost"].as_f64() > plain["shown_half"].as_f64());
    assert!(plain["failure"].as_f64().unwrap() <= 1e-7 && plain["floor"] == 1);
    let rise = floor["threshold"].as_f64().unwrap() - plain["threshold"].as_f64().unwrap();
    assert!((60.0..80.0).contains(&rise), "nineteen persons of four events each: {rise}");
}

#[test]
fn what_cannot_be_promised_is_refused() {
    let bench = Bench::new();
    bench.write("events.csv", common::EVENTS);
    let discover = ["--group-by", "group", "--discover-groups"];
    let says = |more: &[&str], part: &str| {
        let said = bench.refused(more);
        assert!(said.contains(part), "{more:?}: {said}");
    };
    says(&discover, "--selection-delta");
    let with = [&discover[..], &["--selection-delta", "1e-9"]].concat();
    says(&with, "no ε bounds a ratio to 0");
    let approximate = [&with[..], &["--delta", "1e-6"]].concat();
    says(&[&approximate[..], &["--groups", "a"]].concat(), "do not go together");
    says(&[&approximate[..], &["--rest", "others"]].concat(), "do not go together");
    says(&[&approximate[..], &["--unsafe-show-truth"]].concat(), "do not go together");
    says(&[&approximate[..], &["--select-every", "0"]].concat(), "at least 1 step");
    says(&["--floor", "3"], "--discover-groups");
    says(&["--discover-groups", "--selection-delta", "1e-9"], "--group-by");
    let weak = [&discover[..], &["--delta", "1e-6", "--selection-delta", "0.5"]].concat();
    says(&weak, "next to nothing");
    // Few events: nothing is shown, which is not an error.
    let run = bench.release(&approximate);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(table(&bench.read("counts.csv")).len(), 1);
    // Another selection is another plan.
    let other = bench.release(&[&approximate[..], &["--floor", "5"]].concat());
    assert!(other.code == 2 && other.stderr.contains("another plan"), "{}", other.stderr);
}

/// A data source's budget counts the δ of selection.
#[test]
fn sources_count_the_delta_of_selection() {
    let bench = days();
    let new = |name: &str, more: &[&str]| {
        let run = bench.run(&[&["budget", "new", name, "--name", name, "--unit", "person"], more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
    };
    new("zcdp.budget", &["--rho", "5"]);
    let run = release(&bench, &files(1..=DAYS), &["--out", "t.csv", "--budget-file", "zcdp.budget"]);
    assert!(run.code == 2 && run.stderr.contains("basic composition"), "{}", run.stderr);
    // A total with a δ, under basic composition, counts both deltas.
    new("small.budget", &["--epsilon", "1", "--delta", "1.05e-6", "--basic"]);
    new("large.budget", &["--epsilon", "1", "--delta", "1.1e-6", "--basic"]);
    let approximate = ["--epsilon", "1", "--delta", "1e-6", "--out", "t.csv", "--noise", "gaussian", "--stream", "b"];
    let plan: Vec<&str> = PLAN.into_iter().filter(|flag| !["--rho", "1"].contains(flag)).collect();
    let publish = |budget: &str| {
        let files = files(1..=DAYS);
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let budget = ["--budget-file", budget];
        bench.run(&[&["release"], &files[..], &plan, &DISCOVER, &approximate, &budget].concat())
    };
    let refused = publish("small.budget");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let run = publish("large.budget");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(bench.read("large.budget").contains("selection_delta"), "{}", bench.read("large.budget"));
    assert!(bench.read("t.report.md").contains("(1, 1.1e-6)-differentially private"), "{}", bench.read("t.report.md"));
    let spent = bench.run(&["key", "spent", "my.key", "--json"]);
    assert!(spent.stdout.contains("1e-7"), "{}", spent.stdout);
}
