//! `evertally sketch` end to end: answers, their ledger, and refusals.

mod common;

use common::{Bench, Run, table};
use std::path::Path;

/// Visits over three days: visitor, page and country.
const VISITS: &str = "time,who,page,country,amount\n\
    2024-01-01T08:00:00Z,ann,home,DK,1.5\n\
    2024-01-01T09:00:00Z,ann,home,DK,2\n\
    2024-01-01T10:00:00Z,bob,home,SE,-1\n\
    2024-01-02T08:00:00Z,ann,shop,DK,0.25\n\
    2024-01-02T09:00:00Z,bob,home,DK,7\n\
    2024-01-03T08:00:00Z,ann,home,DK,3\n";

/// Four items; the last two do not occur.
const ITEMS: &str = "page,country\nhome,DK\nhome,SE\nshop,SE\nh,omeDK\n";

const SKETCH: [&str; 12] = [
    "sketch",
    "visits.csv",
    "--key",
    "my.key",
    "--start",
    "2024-01-01",
    "--end",
    "2024-01-04",
    "--every",
    "1d",
    "--key-columns",
    "page,country",
];

/// Almost no noise: answers are exact to a hundredth. The table is so wide that no item collides in three of five rows.
const EXACT: [&str; 5] = ["--rho", "1000000", "--allow-weak-budget", "--width", "4294967296"];

fn ready() -> Bench {
    let bench = Bench::new();
    bench.write("visits.csv", VISITS).write("items.csv", ITEMS);
    bench
}

fn sketch(bench: &Bench, more: &[&str]) -> Run {
    bench.run(&[&SKETCH[..], more].concat())
}

fn noisy(bench: &Bench, more: &[&str]) -> Run {
    sketch(bench, &[&["--epsilon", "1", "--width", "1000", "--out", "answers.csv"], more].concat())
}

/// The times of queries are written like those of the events.
#[test]
fn times_of_questions_are_read_as_those_of_events() {
    let bench = ready();
    bench.write("epoch.csv", "time,page,country\n1704096000,home,DK\n1704186000,home,DK\n");
    bench.write("asked.csv", "page,country,when\nhome,DK,1704103200\nhome,DK,1704189600\n");
    let own =
        ["sketch", "epoch.csv", "--time-format", "epoch-seconds", "--queries", "asked.csv", "--at-column", "when"];
    let run = bench.run(&[&own[..], &SKETCH[2..], &EXACT, &["--stream", "e", "--out", "exact.csv"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let counts: Vec<f64> = table(&bench.read("exact.csv"))[1..].iter().map(|row| row[4].parse().unwrap()).collect();
    assert_eq!(counts.iter().map(|count| count.round()).collect::<Vec<_>>(), [1.0, 2.0]);
    // The picture names the day of each bar.
    let picture = bench.read("exact.svg");
    assert!(picture.contains("home, DK, 2024-01-01") && picture.contains("home, DK, 2024-01-02"));
}

/// Must be refused: status 2, one message, nothing new on disk. Returns the message.
fn refused(bench: &Bench, more: &[&str]) -> String {
    let before = bench.files();
    let run = noisy(bench, more);
    assert_eq!(run.code, 2, "{more:?}: {}", run.stderr);
    assert_eq!(bench.files(), before, "{more:?} left files");
    assert!(run.stderr.starts_with("error: ") && run.stdout.is_empty(), "{}", run.stderr);
    run.stderr
}

/// Runs under a separate stream name, and returns the rows of the table without its header: all columns except the
/// errors, with the estimate rounded to hundredths.
fn exact(bench: &Bench, stream: &str, more: &[&str]) -> Vec<String> {
    let own = ["--stream", stream, "--out", "exact.csv", "--no-plot"];
    let run = sketch(bench, &[&EXACT[..], &own, more].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let row = |row: &Vec<String>| {
        let cells = row.len() - 4;
        let estimate: f64 = row[cells].parse().unwrap();
        assert!((row[cells + 2].parse::<f64>().unwrap()..=row[cells + 3].parse().unwrap()).contains(&estimate));
        format!("{} {}", row[..cells].join(" "), (estimate * 100.0).round() / 100.0)
    };
    table(&bench.read("exact.csv"))[1..].iter().map(row).collect()
}

#[test]
fn without_noise_answers_are_exact_counts() {
    let bench = ready();
    let last = exact(&bench, "a", &["--queries", "items.csv"]);
    assert_eq!(
        last,
        ["2024-01-03 home DK 3 4", "2024-01-03 home SE 3 1", "2024-01-03 shop SE 3 0", "2024-01-03 h omeDK 3 0"]
    );
    bench.write("one.csv", "country,page\nDK,home\n");
    let series = exact(&bench, "b", &["--queries", "one.csv", "--every-query", "1"]);
    assert_eq!(series, ["2024-01-01 home DK 1 2", "2024-01-02 home DK 2 3", "2024-01-03 home DK 3 4"]);
    let every_two = exact(&bench, "c", &["--queries", "one.csv", "--every-query", "2"]);
    assert_eq!(every_two, ["2024-01-02 home DK 2 3", "2024-01-03 home DK 3 4"]);
    let at = exact(&bench, "d", &["--queries", "one.csv", "--at", "2024-01-02T23:00:00Z,2024-01-01"]);
    assert_eq!(at, ["2024-01-01 home DK 1 2", "2024-01-02 home DK 2 3"]);
    bench.write(
        "when.jsonl",
        "{\"when\":\"2024-01-02\",\"page\":\"shop\",\"country\":\"DK\"}\n\
         {\"when\":\"2024-01-01\",\"page\":\"home\",\"country\":\"DK\"}\n",
    );
    let own = exact(&bench, "e", &["--queries", "when.jsonl", "--at-column", "when"]);
    assert_eq!(own, ["2024-01-02 shop DK 2 1", "2024-01-01 home DK 1 2"]);
    let through = exact(&bench, "f", &["--queries", "one.csv", "--through", "2024-01-03"]);
    assert_eq!(through, ["2024-01-02 home DK 2 3"]);
}

#[test]
fn persons_are_bounded_and_values_clamped_as_in_a_release() {
    let bench = ready();
    bench.write("one.csv", "page,country\nhome,DK\nhome,SE\n");
    let queries = ["--queries", "one.csv"];
    let bounded = |stream: &str, more: &[&str]| exact(&bench, stream, &[&queries[..], more].concat());
    let person = ["--person", "who", "--max-events", "2"];
    assert_eq!(bounded("a", &person), ["2024-01-03 home DK 3 3", "2024-01-03 home SE 3 1"]);
    let dense = [&["--person", "who", "--max-events", "3", "--max-events-per-step", "1"][..]].concat();
    assert_eq!(bounded("b", &dense), ["2024-01-03 home DK 3 3", "2024-01-03 home SE 3 1"]);
    let sum = ["--value", "amount", "--bounds=-0.5,4", "--grid", "0.25"];
    assert_eq!(bounded("c", &sum), ["2024-01-03 home DK 3 10.5", "2024-01-03 home SE 3 -0.5"]);
}

#[test]
fn a_run_has_a_table_a_picture_a_report_and_a_plan() {
    let bench = ready();
    let run = noisy(&bench, &["--queries", "items.csv", "--title", "Visits", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let summary: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&summary["answers"], &summary["width"]), (&4.into(), &1000.into()));
    assert!(summary["max_std_error"].as_f64().unwrap() > 1.0);
    let rows = table(&bench.read("answers.csv"));
    assert_eq!(rows[0], ["time", "page", "country", "step", "estimate", "std_error", "lower", "upper"]);
    for row in &rows[1..] {
        let [value, error, lower, upper]: [f64; 4] = std::array::from_fn(|i| row[i + 4].parse().unwrap());
        assert!(lower <= value && value <= upper && error > 1.0 && (value - lower - upper + value).abs() < 1e-9);
        assert!(error <= summary["max_std_error"].as_f64().unwrap() * (1.0 + 1e-9));
    }
    let markdown = bench.read("answers.report.md");
    for part in
        ["# Privacy report: Visits", "1-differentially private", "5 rows of 1000 cells", "page, country", "collisions"]
    {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
    let report: serde_json::Value = serde_json::from_str(&bench.read("answers.report.json")).unwrap();
    assert_eq!(report["sketch"]["key_columns"], serde_json::json!(["page", "country"]));
    assert_eq!(report["guarantee"]["pure_epsilon"], 1.0);
    let plan: evertally::plan::Plan = toml::from_str(&bench.read("answers.plan.toml")).unwrap();
    assert_eq!((plan.request().sums_per_event(), plan.horizon()), (5, 3));
    assert!(bench.read("answers.svg").contains("Visits"));
    assert!(std::fs::read(bench.path("answers.png")).unwrap().starts_with(b"\x89PNG"));
    // A picture of one step names the end of the step, which is never confused with a beginning.
    let picture = bench.read("answers.svg");
    assert!(picture.contains("up to 2024-01-04") && !picture.contains("up to the end"), "{picture}");
    // Series are drawn as curves, one per item.
    assert_eq!(noisy(&bench, &["--queries", "items.csv", "--every-query", "1"]).code, 0);
    let picture = bench.read("answers.svg");
    assert!(picture.contains("Half-width") && ["home, DK", "shop, SE"].iter().all(|item| picture.contains(item)));
    assert_eq!(noisy(&bench, &["--candidates", "items.csv", "--top", "2", "--every-query", "1"]).code, 0);
    let (picture, rows) = (bench.read("answers.svg"), table(&bench.read("answers.csv")));
    assert!(picture.contains("Half-width"), "{picture}");
    for row in &rows[5..] {
        assert!(picture.contains(&format!("{}, {}", row[1], row[2])), "{row:?} of the last step is drawn");
    }
    for out in ["answers.jsonl", "answers.parquet"] {
        let run = sketch(&bench, &["--epsilon", "1", "--width", "1000", "--queries", "items.csv", "--out", out]);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    assert!(bench.read("answers.jsonl").contains("\"estimate\":"));
}

/// Other queries of the same data get answers that agree with all earlier ones, regardless of the rest of the queries.
#[test]
fn answers_do_not_depend_on_other_questions() {
    let bench = ready();
    assert_eq!(noisy(&bench, &["--queries", "items.csv", "--every-query", "1"]).code, 0);
    let first = table(&bench.read("answers.csv"));
    let bytes = std::fs::read(bench.path("answers.png")).unwrap();
    assert_eq!(noisy(&bench, &["--queries", "items.csv", "--every-query", "1"]).code, 0);
    assert!(first == table(&bench.read("answers.csv")) && bytes == std::fs::read(bench.path("answers.png")).unwrap());
    bench.write("other.csv", "country,page\nNO,nowhere\nSE,shop\nDK,home\n");
    assert_eq!(noisy(&bench, &["--queries", "other.csv", "--at", "2024-01-02"]).code, 0);
    let second = table(&bench.read("answers.csv"));
    assert_eq!(second.len(), 4);
    let agreeing = second[1..].iter().filter(|row| first.contains(row)).count();
    assert_eq!(agreeing, 2, "{first:?} {second:?}");
    assert_eq!(noisy(&bench, &["--candidates", "items.csv", "--top", "4"]).code, 0);
    let ranked = table(&bench.read("answers.csv"));
    assert!(ranked.len() == 5 && ranked.iter().all(|row| first.contains(row)));
    let spent = bench.run(&["key", "spent", "my.key", "--json"]);
    let spent: serde_json::Value = serde_json::from_str(&spent.stdout).unwrap();
    assert_eq!((spent["streams"].as_array().unwrap().len(), &spent["total"]["pure_epsilon"]), (1, &1.0.into()));
}

/// A stream is bound to the sums of its items, step by step, through the last step with published answers and no
/// further.
#[test]
fn a_stream_is_bound_to_its_data_and_plan() {
    let bench = ready();
    let ask = |visits: &str, more: &[&str]| {
        bench.write("visits.csv", visits);
        noisy(&bench, &[&["--queries", "items.csv", "--no-plot"], more].concat())
    };
    let first = ask(VISITS, &["--at", "2024-01-02"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let answers = bench.read("answers.csv");
    // Days after the queried ones are still open.
    let longer = format!("{VISITS}2024-01-03T09:00:00Z,eve,home,SE,1\n");
    for visits in [VISITS, &longer, VISITS.split_inclusive("0.25\n").next().unwrap()] {
        let run = ask(visits, &["--at", "2024-01-02"]);
        let whole = visits.contains("bob,home,DK");
        assert_eq!(run.code == 0, whole, "{}", run.stderr);
        assert_eq!(bench.read("answers.csv"), answers);
    }
    // The same sums in another order of arrival are the same data; the same number of different items is not.
    let (head, rest) = VISITS.split_at(VISITS.find("2024-01-01T08").unwrap());
    let mut lines: Vec<&str> = rest.split_inclusive('\n').collect();
    lines.swap(0, 2);
    assert_eq!(ask(&[head, &lines.concat()].concat(), &["--at", "2024-01-02"]).code, 0);
    for changed in [VISITS.replacen("home,SE", "shop,SE", 1), VISITS.replacen("01-02T08", "01-01T12", 1)] {
        let run = ask(&changed, &["--at", "2024-01-02"]);
        assert!(run.code == 2 && run.stderr.contains("different data"), "{}", run.stderr);
        // An earlier step shows less, but is still checked against the later one.
        let run = ask(&changed, &["--at", "2024-01-01"]);
        assert!(run.code == 2 && run.stderr.contains("different data"), "{}", run.stderr);
        assert_eq!(bench.read("answers.csv"), answers);
    }
    assert_eq!(ask(&longer, &["--at", "2024-01-01"]).code, 0);
    assert_eq!(ask(&longer, &[]).code, 0);
    assert!(ask(VISITS, &[]).stderr.contains("up to step 3 from different data"));
    // A table of another size, other columns and a release are different plans.
    for more in [&["--rows", "3"][..], &["--missing", "skip"]] {
        let run = ask(&longer, more);
        assert!(run.code == 2 && run.stderr.contains("another plan"), "{}", run.stderr);
    }
    let release = [&["release", "visits.csv"], &SKETCH[2..10], &["--epsilon", "1", "--out", "counts.csv"]].concat();
    assert!(bench.run(&release).stderr.contains("another plan"));
    assert!(!bench.files().contains("counts.csv"));
}

#[test]
fn the_heaviest_candidates_come_first() {
    let bench = ready();
    let heavy = |stream: &str, more: &[&str]| exact(&bench, stream, &[&["--candidates", "items.csv"], more].concat());
    assert_eq!(heavy("a", &["--top", "1"]), ["2024-01-03 home DK 3 4"]);
    assert_eq!(heavy("b", &["--threshold", "0.5"]), ["2024-01-03 home DK 3 4", "2024-01-03 home SE 3 1"]);
    assert_eq!(heavy("c", &["--threshold", "0.5", "--top", "1"]).len(), 1);
    assert_eq!(heavy("d", &["--threshold", "99"]), [""; 0]);
    let twice = heavy("e", &["--top", "1", "--at", "2024-01-01,2024-01-02"]);
    assert_eq!(twice, ["2024-01-01 home DK 1 2", "2024-01-02 home DK 2 3"]);
    // An empty result is also drawn.
    assert_eq!(noisy(&bench, &["--candidates", "items.csv", "--threshold", "1e9"]).code, 0);
    assert!(bench.read("answers.svg").contains("no item reaches"));
}

/// In a table with three cells per row everything collides: intervals, report, terminal and summary all show this.
#[test]
fn intervals_cover_collisions() {
    let bench = ready();
    let mut visits = "time,who,page,country,amount\n".to_owned();
    for page in 0..300 {
        visits.push_str(&format!("2024-01-01,ann,page{page},DK,1\n").repeat(10));
    }
    bench.write("visits.csv", visits);
    let flags = ["--rho", "1000000", "--allow-weak-budget", "--width", "30", "--queries", "items.csv", "--json"];
    let run = sketch(&bench, &[&flags[..], &["--out", "answers.csv"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let summary: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let of = |name: &str| summary[name].as_f64().unwrap();
    // Ten items with a count of ten in each cell: √10 · 10 per row, and √0.287 of that for the median.
    assert!((12.0..23.0).contains(&of("collision_std_error")) && of("max_std_error") < 0.1, "{summary}");
    for row in &table(&bench.read("answers.csv"))[1..] {
        let [error, lower, upper]: [f64; 3] = std::array::from_fn(|i| row[i + 5].parse().unwrap());
        assert!((error - of("answer_std_error")).abs() < 1e-5 && upper - lower > 2.0 * error);
        assert!((upper - lower - 2.0 * of("answer_half_width")).abs() < 1e-3);
    }
    assert!(
        run.stderr.contains("collisions between items add") && run.stderr.contains("a larger --width"),
        "{}",
        run.stderr
    );
    assert!(bench.read("answers.report.md").contains("standard error from collisions"));
}

/// A known list can be released as groups with less error: the run prints a command for that, and the command works.
#[test]
fn a_better_release_is_named_by_its_command() {
    let bench = ready();
    bench.write(
        "my conf.toml",
        "every = \"1d\"\nstart = \"2024-01-01\"\nend = \"2024-01-04\"\nkey = \"my.key\"\nmissing = \"skip\"\n",
    );
    let flags = ["visits.csv", "--config", "my conf.toml", "--key-columns", "page,country", "--epsilon", "1"];
    let more = ["--queries", "items.csv", "--out", "answers.csv", "--title", "It's $1"];
    for plan_only in [true, false] {
        let mut args = [&["sketch"], &flags[..], &more].concat();
        args.extend(plan_only.then_some("--plan-only"));
        let run = bench.run(&args);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let output = if plan_only { &run.stdout } else { &run.stderr };
        let command = output.lines().find_map(|line| Some(line.split_once("evertally release ")?.1)).expect(output);
        assert!(command.contains(r"--title 'It'\''s $1'") && command.contains("--stream 'main by group'"), "{command}");
        // Split like a shell.
        let words = command.replace(r"'\''", "\u{1}");
        let words = words.split('\'').enumerate().flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![part.replace('\u{1}', "'")],
        });
        let words: Vec<String> = words.collect();
        let words: Vec<&str> = ["release"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let release = bench.run(&words);
        assert_eq!(release.code, 0, "{command}: {}", release.stderr);
        let rows = table(&bench.read("answers-by-group.csv"));
        assert_eq!((rows.len(), &rows[1][1..3]), (1 + 4 * 3, &["home".to_owned(), "DK".to_owned()][..]));
        if !plan_only {
            let error = |rows: &[Vec<String>], column: usize| {
                rows[1..].iter().map(|row| row[column].parse::<f64>().unwrap()).fold(0.0, f64::max)
            };
            assert!(error(&rows, 5) < error(&table(&bench.read("answers.csv")), 5));
            let report: serde_json::Value = serde_json::from_str(&bench.read("answers.report.json")).unwrap();
            let promised = report["sketch"]["release_std_error"].as_f64().unwrap();
            assert!(error(&rows, 5) <= promised * (1.0 + 1e-6), "{promised}");
        }
    }
}

const TREE: [&str; 14] = [
    "sketch",
    "calls.csv",
    "--key",
    "my.key",
    "--start",
    "2024-01-01",
    "--end",
    "2024-01-04",
    "--every",
    "1d",
    "--key-columns",
    "number",
    "--out",
    "heavy.csv",
];

/// Heavy keys are found among 2^32 possible ones without a list, with their counts, at any step.
#[test]
fn heavy_keys_are_found_without_a_list() {
    let bench = Bench::new();
    let calls = |numbers: &[(&str, &str, usize)]| {
        let rows = numbers.iter().map(|(day, number, times)| format!("{day},{number}\n").repeat(*times));
        format!("time,number\n{}", rows.collect::<String>())
    };
    let [first, last] = ["2024-01-01", "2024-01-03"];
    let data = [(first, "42", 4), (first, "4294967295", 3), (first, "7", 1), (last, "42", 2), (last, "0", 9)];
    bench.write("calls.csv", calls(&data));
    let exact = ["--rho", "1000000", "--allow-weak-budget", "--key-bits", "32"];
    let found = |more: &[&str]| {
        let run = bench.run(&[&TREE[..], &exact, more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let rows = table(&bench.read("heavy.csv"));
        let row = |row: &Vec<String>| {
            let [value, _, lower, upper]: [f64; 4] = std::array::from_fn(|i| row[i + 3].parse().unwrap());
            assert!(lower <= value.round() && value.round() <= upper, "{row:?}");
            format!("{} {} {}", row[0], row[1], value.round())
        };
        (rows[1..].iter().map(row).collect::<Vec<_>>(), run)
    };
    let (rows, run) = found(&["--threshold", "2", "--json"]);
    assert_eq!(rows, ["2024-01-03 0 9", "2024-01-03 42 6", "2024-01-03 4294967295 3"]);
    let summary: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&summary["key_bits"], &summary["rows"], &summary["answers"]), (&32.into(), &().into(), &3.into()));
    assert!((2.0..2.1).contains(&summary["surely_listed_from"].as_f64().unwrap()), "{summary}");
    assert!(run.stderr.contains("is listed with a probability of at least 95 %"), "{}", run.stderr);
    assert!(bench.read("heavy.report.md").contains("tree of counts over 32-bit keys"));
    assert!(bench.read("heavy.svg").contains("4294967295"));
    assert_eq!(found(&["--threshold", "2", "--top", "1"]).0, ["2024-01-03 0 9"]);
    let (rows, _) = found(&["--threshold", "2", "--every-query", "1"]);
    assert_eq!((rows.len(), &*rows[0], &*rows[6]), (2 + 2 + 3, "2024-01-01 42 4", "2024-01-03 4294967295 3"));
    assert_eq!(found(&["--threshold", "99"]).0, [""; 0]);
    // The ledger holds what every key had.
    bench.write("calls.csv", calls(&[(first, "42", 5), (first, "4294967295", 3), (last, "42", 2), (last, "0", 9)]));
    let run = bench.run(&[&TREE[..], &exact, &["--threshold", "2"]].concat());
    assert!(run.code == 2 && run.stderr.contains("different data"), "{}", run.stderr);
}

/// With substantial noise: planted keys above the promised count are listed, with intervals that hold.
#[test]
fn heavy_keys_stand_out_of_noise() {
    let bench = Bench::new();
    let mut calls = "time,number\n".to_owned();
    for (number, times) in [(123_456_789u64, 900), (3, 700)].into_iter().chain((1000..3000).map(|n| (n * 65_537, 1))) {
        calls.push_str(&format!("2024-01-01,{number}\n").repeat(times));
    }
    bench.write("calls.csv", calls);
    for budget in [["--rho", "0.5"], ["--epsilon", "1"]] {
        let more = ["--key-bits", "32", "--threshold", "400", "--stream", &budget[0][2..], "--json"];
        let run = bench.run(&[&TREE[..], &budget, &more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let summary: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert!(summary["surely_listed_from"].as_f64().unwrap() < 700.0, "{summary}");
        let rows = table(&bench.read("heavy.csv"));
        assert_eq!(rows[1..].iter().map(|row| row[1].as_str()).collect::<Vec<_>>(), ["123456789", "3"]);
        for (row, truth) in rows[1..].iter().zip([900.0, 700.0]) {
            let [value, error, lower, upper]: [f64; 4] = std::array::from_fn(|i| row[i + 3].parse().unwrap());
            assert!((value - truth).abs() < 5.0 * error && lower < value && value < upper, "{row:?}");
        }
    }
}

#[test]
fn senseless_trees_are_refused() {
    let bench = Bench::new();
    bench.write("calls.csv", "time,number,other\n2024-01-01,5,x\n2024-01-01,256,y\n").write("list.csv", "number\n5\n");
    for (flags, says) in [
        (&["--key-bits", "8", "--threshold", "2"][..], "line 3, column `number`"),
        (&["--key-bits", "8"], "--threshold above 0"),
        (&["--key-bits", "8", "--threshold", "-1"], "--threshold above 0"),
        (&["--key-bits", "8", "--threshold", "2", "--top", "0"], "--top must be at least 1"),
        (&["--key-bits", "8", "--threshold", "2", "--queries", "list.csv"], "--queries"),
        (&["--key-bits", "8", "--threshold", "2", "--width", "9"], "--width"),
        (&["--key-bits", "40", "--threshold", "2"], "1 to 39"),
        (&["--key-bits", "0", "--threshold", "2"], "1 to 39"),
        (&["--key-bits", "9", "--threshold", "2", "--value", "number", "--bounds=-1,3"], "--bounds"),
    ] {
        let run = bench.run(&[&TREE[..], &["--epsilon", "1"], flags].concat());
        assert!(run.code == 2 && run.stderr.contains(says), "{flags:?}: {}", run.stderr);
        assert!(!bench.files().contains("heavy.csv"));
    }
    let columns = [&TREE[..11], &["number,other"], &TREE[12..], &["--epsilon", "1", "--key-bits", "8"]].concat();
    assert!(bench.run(&columns).stderr.contains("one column"));
    bench.write("calls.csv", "time,number\n2024-01-01,007\n");
    let run = bench.run(&[&TREE[..], &["--epsilon", "1", "--key-bits", "8", "--threshold", "2"]].concat());
    assert!(run.code == 2 && run.stderr.contains("not a whole number below 2^8"), "{}", run.stderr);
}

#[test]
fn senseless_questions_are_refused() {
    let bench = ready();
    for flag in ["--queries", "--candidates"] {
        let message = refused(&bench, &[flag, "visits.csv", "--top", "3"][..if flag == "--queries" { 2 } else { 4 }]);
        assert!(message.contains("visits.csv: the events themselves cannot be the list"), "{message}");
    }
    bench.write("twice.csv", format!("{ITEMS}home,DK\n")).write("none.csv", "page,country\n");
    bench
        .write("hole.csv", "page,country\nhome,DK\nhome,\n")
        .write("when.csv", "page,country,when\nhome,DK,2025-01-01\n");
    for (flags, says) in [
        (&[][..], "there is nothing to query"),
        (&["--queries", "items.csv", "--candidates", "items.csv"], "not both"),
        (&["--queries", "items.csv", "--top", "3"], "--candidates"),
        (&["--candidates", "items.csv"], "--top or --threshold"),
        (&["--candidates", "items.csv", "--top", "0"], "--top must be at least 1"),
        (&["--candidates", "items.csv", "--threshold", "inf"], "--threshold"),
        (&["--candidates", "items.csv", "--top", "1", "--at-column", "when"], "--at-column"),
        (&["--candidates", "twice.csv", "--top", "1"], "line 6"),
        (&["--queries", "none.csv"], "contains no item"),
        (&["--queries", "hole.csv"], "line 3, column `country`"),
        (&["--queries", "absent.csv"], "no such file"),
        (&["--queries", "items.csv", "--at", "soon"], "--at `soon`"),
        (&["--queries", "items.csv", "--at", "2025-01-01"], "outside the horizon"),
        (&["--queries", "items.csv", "--at", "2024-01-03", "--through", "2024-01-02"], "--through"),
        (&["--queries", "items.csv", "--every-query", "0"], "--every-query must be at least 1"),
        (&["--queries", "items.csv", "--every-query", "1", "--at", "2024-01-01"], "one of --at"),
        (&["--queries", "items.csv", "--at-column", "when"], "no column `when`"),
        (&["--queries", "when.csv", "--at-column", "when"], "line 2, column `when`"),
        (&["--queries", "items.csv", "--rows", "4"], "odd number of rows"),
        (&["--queries", "items.csv", "--mechanism", "consistent(k=2)"], "random access"),
        (&["--queries", "items.csv", "--noise", "gaussian"], "pure"),
        (&["--queries", "items.csv", "--confidence", "1"], "confidence"),
        (&["--queries", "items.csv", "--json", "--group-by", "x"], "--group-by"),
    ] {
        let message = refused_or_parse_error(&bench, flags);
        assert!(message.contains(says), "{flags:?}: {message:?} lacks {says:?}");
    }
    let with = |at: usize, value: &str| {
        let mut args =
            [&SKETCH[..], &["--epsilon", "1", "--width", "0", "--queries", "items.csv", "--out", "-"]].concat();
        (args[15], args[at]) = ("100", value);
        bench.run(&args)
    };
    assert_eq!(with(15, "100").code, 0);
    for (at, value, says) in [
        (11, "page,page", "named twice"),
        (11, "page,step", "`step`"),
        (11, "page,", "empty name"),
        (11, "page,land", "no column `land`"),
        (15, "0", "cells, got 0"),
        (13, "0", "epsilon"),
    ] {
        let run = with(at, value);
        assert!(run.code == 2 && run.stderr.contains(says), "{value}: {}", run.stderr);
    }
}

/// Like [`refused`], but also for flags that clap itself refuses.
fn refused_or_parse_error(bench: &Bench, flags: &[&str]) -> String {
    if flags.contains(&"--group-by") {
        let run = noisy(bench, flags);
        assert_eq!(run.code, 2);
        return run.stderr;
    }
    refused(bench, flags)
}

#[test]
fn unreadable_events_are_named_by_file_line_and_column() {
    let bench = ready();
    let row = |cells: &str| format!("time,who,page,country,amount\n2024-01-01,ann,home,DK,1\n{cells}\n");
    for (content, flags, says) in [
        (row("2024-01-02,ann,,DK,1"), &[][..], &["visits.csv, line 3, column `page`", "--missing skip"][..]),
        (row("yesterday,ann,home,DK,1"), &[], &["line 3", "yesterday"]),
        (row("2025-01-02,ann,home,DK,1"), &[], &["line 3", "--outside skip"]),
        (row("2024-01-02,ann,home,DK,x"), &["--value", "amount", "--bounds", "0,9"], &["line 3", "amount", "`x`"]),
        (row("2024-01-02,,home,DK,1"), &["--person", "who", "--max-events", "2"], &["line 3", "who"]),
        (row("2023-01-02,ann,home,DK,1"), &["--outside", "skip", "--person", "who"], &["--max-events"]),
        (row("2024-01-03,a,home,DK,1\n2024-01-02,a,home,DK,1"), &[], &["line 4", "--sort-buffer"]),
    ] {
        bench.write("visits.csv", &content);
        let message = refused(&bench, &[&["--queries", "items.csv"], flags].concat());
        says.iter().for_each(|part| assert!(message.contains(part), "{content:?}: {message:?} lacks {part:?}"));
    }
    bench.write("visits.csv", row("2024-01-02,ann,,DK,1"));
    assert_eq!(exact(&bench, "a", &["--queries", "items.csv", "--missing", "skip"])[0], "2024-01-03 home DK 3 1");
    // Input files are never replaced.
    let run = sketch(&bench, &["--epsilon", "1", "--queries", "items.csv", "--out", "items.csv"]);
    assert!(run.code == 2 && run.stderr.contains("input"), "{}", run.stderr);
}

#[test]
fn a_configuration_file_stands_for_flags() {
    let bench = ready();
    assert_eq!(noisy(&bench, &["--candidates", "items.csv", "--top", "2", "--no-plot"]).code, 0);
    let wanted = bench.read("answers.csv");
    std::fs::create_dir(bench.path("conf")).unwrap();
    let config = "input = \"../visits.csv\"\nkey = \"../my.key\"\nout = \"../again.csv\"\nstart = \"2024-01-01\"\n\
        end = \"2024-01-04\"\nevery = \"1d\"\nepsilon = 1\nkey-columns = [\"page\", \"country\"]\nwidth = 1000\n\
        candidates = \"../items.csv\"\ntop = 2\nno-plot = true\n";
    bench.write("conf/sketch.toml", config);
    let run = bench.run(&["sketch", "--config", "conf/sketch.toml"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(bench.read("again.csv"), wanted);
    // Queries on the command line replace those of the file.
    let run = bench.run(&["sketch", "--config", "conf/sketch.toml", "--queries", "items.csv", "--at", "2024-01-02"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(table(&bench.read("again.csv")).len(), 5);
    assert_eq!(bench.run(&["sketch", "--config", "conf/sketch.toml", "--threshold=-1e9"]).code, 0);
    assert_eq!(table(&bench.read("again.csv")).len(), 5);
    for (wrong, says) in
        [("topp = 1\n", "did you mean `top`"), ("group-by = [\"x\"]\n", "group-by"), ("rows = \"five\"\n", "line 13")]
    {
        bench.write("conf/sketch.toml", format!("{config}{wrong}"));
        let run = bench.run(&["sketch", "--config", "conf/sketch.toml"]);
        assert!(run.code == 2 && run.stderr.contains(says), "{wrong}: {}", run.stderr);
    }
}

#[test]
fn a_plan_can_be_seen_before_anything_is_read() {
    let bench = Bench::new();
    let plan = ["sketch", "--plan-only", "--start", "2024-01-01", "--steps", "365", "--every", "1d", "--rho", "0.1"];
    let run = bench.run(&[&plan[..], &["--key-columns", "a,b"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let written: evertally::plan::Plan = toml::from_str(&run.stdout).unwrap();
    assert_eq!(written.request().meaning()["key-columns"], "[\"a\",\"b\"]");
    assert_eq!(written.request().meaning()["sketch"], "count-sketch(rows=5,width=65536)");
    assert!(run.stdout.contains("standard error"));
    let json = bench.run(&[&plan[..], &["--key-columns", "a,b", "--json", "--mechanism", "binary"]].concat());
    let summary: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(summary["mechanism"], "binary");
    assert!(bench.run(&plan).stderr.contains("--key-columns"));
}

/// The example with a year of flights: the ranking, and answers that agree with it.
#[test]
fn the_flights_example_runs() {
    let bench = Bench::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let file = |name: &str| examples.join(name).to_str().unwrap().to_owned();
    let config = file("flights-sketch.toml");
    let own = ["sketch", "--config", &config, "--key", "my.key", "--out", "top.csv"];
    let run = bench.run(&own);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows = table(&bench.read("top.csv"));
    assert_eq!(rows.len(), 21);
    // 286 flights of this aircraft on this route are public; the next two have 253 and 173.
    assert_eq!(rows[1][1..4], ["N338AA", "JFK", "LAX"]);
    let (estimate, error): (f64, f64) = (rows[1][5].parse().unwrap(), rows[1][6].parse().unwrap());
    assert!((estimate - 286.0).abs() < 8.0 * error, "{estimate} ± {error}");
    bench.write("one.csv", "aircraft,origin,destination\nN338AA,JFK,LAX\n");
    assert_eq!(bench.run(&[&own[..], &["--queries", "one.csv"]].concat()).code, 0);
    // The interval of a selected item is different.
    assert_eq!(table(&bench.read("top.csv"))[1][..6], rows[1][..6]);
}
