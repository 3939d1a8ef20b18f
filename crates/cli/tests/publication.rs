//! Publishing only some steps: values, errors, continued runs, and refusals.

mod common;

use common::{Bench, Run, table};
use serde_json::Value;

/// A budget so large that no released count is off by one half.
const EXACT: [&str; 3] = ["--rho", "1000000", "--allow-weak-budget"];
/// Starts on Monday 2024-01-01: eight weeks, and one day more than January has.
const DAYS: u64 = 56;

fn date(day: u64) -> jiff::civil::Date {
    jiff::civil::date(2024, 1, 1).checked_add(jiff::Span::new().days(day as i64)).unwrap()
}

fn events_of(day: u64) -> u64 {
    (day * 7) % 13
}

fn lines(days: impl Iterator<Item = u64>) -> String {
    let of_day = |day: u64| (0..events_of(day)).map(|n| format!("{},p{n}\n", date(day))).collect::<String>();
    format!("time,who\n{}", days.map(of_day).collect::<String>())
}

fn days() -> Bench {
    let bench = Bench::new();
    bench.write("all.csv", lines(0..DAYS));
    for day in 0..DAYS {
        bench.write(&format!("{}.csv", date(day)), lines(day..day + 1));
    }
    bench
}

fn release(bench: &Bench, more: &[&str]) -> Run {
    let base = ["--key", "my.key", "--start", "2024-01-01", "--steps", "56", "--every", "1d", "--no-plot", "--yes"];
    bench.run(&[&["release"][..], &base, more].concat())
}

/// Time, step and value of every row.
fn rows(text: &str) -> Vec<(String, u64, f64)> {
    let row = |row: &Vec<String>| (row[0].clone(), row[1].parse().unwrap(), row[2].parse().unwrap());
    table(text).iter().skip(1).map(row).collect()
}

/// With almost no noise, the rows equal the counts by hand, at the end of each publication.
#[test]
fn rows_are_what_was_asked_for() {
    let bench = days();
    let within = |width: u64| move |lag: u64| f64::from(u8::from(lag < width));
    let all = |_: u64| 1.0;
    let fading = |lag: u64| (-(lag as f64) / 4.0).exp2();
    let cases: [(&str, &str, &dyn Fn(u64) -> f64); 9] = [
        ("sum", "1w", &all),
        ("sum", "4", &all),
        ("window(2w)", "1w", &within(14)),
        ("window(10)", "7", &within(10)),
        ("window(10d)", "1w", &within(10)),
        ("window(3)", "1w", &within(3)),
        ("increments", "1w", &within(7)),
        ("decay(4)", "7", &fading),
        ("window(9)", "8d", &within(9)),
    ];
    for (workload, publish, weight) in cases {
        let out = format!("{}-{publish}.csv", workload.replace(['(', ')'], "-"));
        let of = ["all.csv", "--out", &out, "--stream", &out, "--workload", workload, "--publish", publish];
        let run = release(&bench, &[&of[..], &EXACT].concat());
        assert_eq!(run.code, 0, "{workload} every {publish}: {}", run.stderr);
        let width: u64 = publish.trim_end_matches('d').parse().unwrap_or(7);
        let rows = rows(&bench.read(&out));
        assert_eq!(rows.len() as u64, DAYS / width);
        for (row, (time, step, value)) in (1..).zip(rows) {
            assert_eq!((time, step), (date((row - 1) * width).to_string(), row), "a row is named by its beginning");
            let last = row * width - 1;
            let exact: f64 = (0..=last).map(|day| weight(last - day) * events_of(day) as f64).sum();
            assert!((value - exact).abs() < 0.1, "{workload} every {publish}, row {row}: {value} is not {exact}");
        }
    }
    let report = bench.read("window-10--7.report.md");
    assert!(report.contains("count of events in the last 10 days, 8 of 8 publications"), "{report}");
    assert!(report.contains("| published | every 7d"), "{report}");
    assert!(report.contains("every 1d (UTC)"), "{report}");
}

/// Months differ in length in days; the state at the end of each is published.
#[test]
fn months_are_published() {
    let bench = Bench::new();
    bench.write("all.csv", lines(0..366));
    for (workload, read) in [("sum", None), ("window(2mo)", Some(2)), ("window(30)", Some(0))] {
        let out = format!("{}.csv", workload.replace(['(', ')'], "-"));
        let base = ["release", "all.csv", "--key", "my.key", "--start", "2024-01-01", "--end", "2025-01-01", "--every"];
        let of = ["1d", "--no-plot", "--out", &out, "--stream", &out, "--workload", workload, "--publish", "1mo"];
        let run = bench.run(&[&base[..], &of, &EXACT].concat());
        assert_eq!(run.code, 0, "{workload}: {}", run.stderr);
        let ends: Vec<u64> = (0..=12u64)
            .map(|month| {
                (0..=366)
                    .filter(|day| {
                        date(*day)
                            < jiff::civil::date(2024, 1, 1).saturating_add(jiff::Span::new().months(month as i64))
                    })
                    .count() as u64
            })
            .collect();
        for (row, (time, _, value)) in (1..).zip(rows(&bench.read(&out))) {
            assert_eq!(time, format!("2024-{row:02}-01"));
            let end = ends[row];
            let first = match read {
                None => 0,
                Some(0) => end - 30,
                Some(months) => ends[row.saturating_sub(months)],
            };
            let exact: u64 = (first..end).map(events_of).sum();
            assert!((value - exact as f64).abs() < 0.1, "{workload}, {time}: {value} is not {exact}");
        }
    }
}

fn planned(arguments: &[&str]) -> Value {
    let run = Bench::new().run(&[&["plan", "--json", "--rho", "0.5"], arguments].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// The plan is over publications, both for the plan command and for a release.
#[test]
fn plans_are_for_what_is_published() {
    let error = |arguments: &[&str]| planned(arguments)["chosen"]["max_std"].as_f64().unwrap();
    assert_eq!(error(&["--horizon", "8736", "--publish", "168"]), error(&["--horizon", "52"]));
    let month = ["--horizon", "8736", "--publish", "168", "--workload", "window(672)"];
    assert_eq!(error(&month), error(&["--horizon", "52", "--workload", "window(4)"]));
    let uneven = ["--horizon", "8736", "--publish", "168", "--workload", "window(720)"];
    assert_eq!(error(&uneven), error(&["--horizon", "104", "--workload", "window(9)"]));
    let person = ["--max-events", "30", "--max-events-per-step", "2"];
    let weekly = error(&[&["--horizon", "364", "--publish", "7"], &person[..]].concat());
    assert_eq!(weekly, error(&["--horizon", "52", "--max-events", "30", "--max-events-per-step", "14"]));

    let bench = days();
    let run = release(
        &bench,
        &[
            "all.csv",
            "--out",
            "a.csv",
            "--publish",
            "1w",
            "--workload",
            "window(2w)",
            "--rho",
            "0.5",
            "--plan-only",
            "--json",
        ],
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let summary: Value = serde_json::from_str(&run.stdout).unwrap();
    let expected = error(&["--horizon", "8", "--workload", "window(2)"]);
    assert!((summary["max_std_error"].as_f64().unwrap() / expected - 1.0).abs() < 1e-9);
    assert_eq!(
        (summary["steps"].as_u64(), summary["released_steps"].as_u64(), summary["rows"].as_u64()),
        (Some(8), Some(8), Some(8))
    );
}

/// Daily runs close days, and append a row when a week ends: byte for byte the output of one run over all data.
#[test]
fn daily_runs_publish_weeks() {
    for workload in ["sum", "window(14)", "window(10)", "decay(3)"] {
        let person = ["--person", "who", "--max-events", "9", "--max-events-per-step", "1"];
        let publish = ["--publish", "1w", "--workload", workload, "--rho", "0.5", "--stream", workload];
        let base = [&person[..], &publish].concat();
        // The same key, with nothing published: noise is the same in both folders.
        let (bench, daily) = (days(), Bench::new());
        for file in daily.files() {
            std::fs::copy(bench.path(&file), daily.path(&file)).unwrap();
        }
        let whole = release(&bench, &[&["all.csv", "--out", "whole.csv"][..], &base].concat());
        assert_eq!(whole.code, 0, "{}", whole.stderr);
        for day in 0..20 {
            let (name, end) = (format!("{}.csv", date(day)), date(day + 1).to_string());
            daily.write(&name, lines(day..day + 1));
            let run =
                release(&daily, &[&[&name, "--out", "out.csv", "--continue", "--through", &end][..], &base].concat());
            assert_eq!(run.code, 0, "{workload}, day {day}: {}", run.stderr);
            let has = if daily.path("out.csv").exists() { rows(&daily.read("out.csv")).len() as u64 } else { 0 };
            assert_eq!(has, (day + 1) / 7, "{workload}, day {day}");
        }
        // A closed day stays closed even if its week is open.
        daily.write("late.csv", lines(17..19));
        let late = release(
            &daily,
            &[&["late.csv", "--out", "out.csv", "--continue", "--through", "2024-01-21"][..], &base].concat(),
        );
        assert!(late.code != 0 && late.stderr.contains("closed"), "{}", late.stderr);
        daily.write("rest.csv", lines(20..DAYS));
        let rest = release(&daily, &[&["rest.csv", "--out", "out.csv", "--continue", "--all"][..], &base].concat());
        assert_eq!(rest.code, 0, "{}", rest.stderr);
        assert_eq!(daily.read("out.csv"), bench.read("whole.csv"), "{workload}");
    }
}

/// Without `--continue`, the steps of an unfinished row are not binding: they may change in a later run.
#[test]
fn open_rows_bind_nothing() {
    let bench = days();
    let base = ["--out", "out.csv", "--publish", "1w", "--rho", "0.5"];
    let run = release(&bench, &[&["all.csv", "--through", "2024-01-18"][..], &base].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let first = bench.read("out.csv");
    assert_eq!(rows(&first).len(), 2);
    bench.write("other.csv", lines((0..14).chain(15..DAYS)));
    let again = release(&bench, &[&["other.csv", "--through", "2024-01-22"][..], &base].concat());
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(bench.read("out.csv").starts_with(first.trim_end()));
    let none = release(
        &bench,
        &["all.csv", "--through", "2024-01-05", "--stream", "b", "--out", "b.csv", "--publish", "1w", "--rho", "1"],
    );
    assert!(none.code != 0 && none.stderr.contains("no publication has ended"), "{}", none.stderr);
}

#[test]
fn what_is_refused_names_a_remedy() {
    let bench = days();
    for (arguments, says) in [
        (&["--publish", "1mo"][..], "between two publications"),
        (&["--publish", "12h"], "cut"),
        (&["--publish", "1d"], "every step"),
        (&["--publish", "0"], "is not a period"),
        (&["--publish", "1w", "--continue", "--extend"], "do not go together"),
    ] {
        let run = release(&bench, &[&["all.csv", "--out", "a.csv", "--rho", "1"], arguments].concat());
        assert!(run.code == 2 && run.stderr.contains(says), "{arguments:?}: {}", run.stderr);
        assert!(!bench.path("a.csv").exists());
    }
    let run = bench.run(&["plan", "--horizon", "100", "--rho", "1", "--publish", "1w"]);
    assert!(run.code == 2 && run.stderr.contains("no calendar"), "{}", run.stderr);
    let run = bench.run(&["plan", "--horizon", "100", "--rho", "1", "--publish", "7"]);
    assert!(run.code == 2 && run.stderr.contains("not a whole number"), "{}", run.stderr);
}

/// Groups, measures and discovered groups are also published by rows.
#[test]
fn measures_and_groups_are_published_by_rows() {
    let bench = days();
    let measures =
        ["all.csv", "--out", "m.csv", "--stream", "m", "--publish", "1w", "--person", "who", "--max-events", "60"];
    let more = ["--max-events-per-step", "1", "--measure", "count", "--measure", "distinct"];
    let run = release(&bench, &[&measures[..], &more, &EXACT].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let table = table(&bench.read("m.csv"));
    assert_eq!(table.len(), 1 + 2 * 8);
    let exact: u64 = (0..14).map(events_of).sum();
    let second_week: Vec<f64> = table[3..5].iter().map(|row| row[3].parse().unwrap()).collect();
    assert!((second_week[0] - exact as f64).abs() < 0.5 && (second_week[1] - 12.0).abs() < 0.5, "{table:?}");
    // People of two weeks, in steps and in time.
    for (stream, width) in [("steps", "distinct(14)"), ("time", "distinct(2w)")] {
        let of = ["all.csv", "--out", "w.csv", "--stream", stream, "--publish", "1w", "--person", "who"];
        let run = release(&bench, &[&of[..], &["--max-events", "60", "--measure", width], &EXACT].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(bench.read("w.report.md").contains("distinct(2)"), "two publications");
    }
    let of = ["all.csv", "--out", "x.csv", "--publish", "1w", "--person", "who", "--max-events", "60", "--rho", "1"];
    let refused = release(&bench, &[&of[..], &["--measure", "distinct(10)"]].concat());
    assert!(refused.code == 2 && refused.stderr.contains("not a whole number of publications"), "{}", refused.stderr);
    let found =
        ["all.csv", "--out", "d.csv", "--stream", "d", "--publish", "1w", "--group-by", "who", "--discover-groups"];
    let run = release(&bench, &[&found[..], &["--selection-delta", "1e-9", "--select-every", "1"], &EXACT].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows = common::table(&bench.read("d.csv"));
    assert_eq!(rows.len(), 1 + 8 * 12, "each of twelve in every week");
    assert!(rows.iter().skip(1).all(|row| row[2].parse::<u64>().is_ok_and(|row| row <= 8)));
}

/// The last calendar month, every day: with almost no noise equal to the counts by hand, in one run and in several.
#[test]
fn windows_of_calendar_months() {
    let bench = Bench::new();
    bench.write("all.csv", lines(0..130)).write("first.csv", lines(0..59)).write("second.csv", lines(59..130));
    let base = ["--key", "my.key", "--start", "2024-01-01", "--steps", "130", "--every", "1d", "--no-plot", "--yes"];
    let of = |out, more: &[&str]| {
        bench.run(&[&["release"], &base[..], &["--out", out, "--workload", "window(1mo)"], more].concat())
    };
    let run = of("exact.csv", &[&["all.csv", "--stream", "exact"], &EXACT[..]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let exact = rows(&bench.read("exact.csv"));
    assert_eq!(exact.len(), 130);
    for (day, (time, step, value)) in (0..).zip(exact) {
        assert_eq!((time, step), (date(day).to_string(), day + 1));
        let place = |of: u64, back: i8| (date(of).year(), date(of).month() - back, date(of).day());
        let counted: u64 = (0..=day).filter(|of| place(*of, 0) > place(day, 1)).map(events_of).sum();
        assert!((value - counted as f64).abs() < 0.1, "{}: {value} is not {counted}", date(day));
    }
    assert!(bench.read("exact.report.md").contains("count of events in the last 1 month, 130 of 130 steps"));
    for (stream, groups) in
        [("sums", &[][..]), ("groups", &["--group-by", "who", "--groups", "p0,p1", "--rest", "others"])]
    {
        let whole = of("whole.csv", &[&["all.csv", "--stream", stream, "--rho", "0.5"], groups].concat());
        assert_eq!(whole.code, 0, "{}", whole.stderr);
        let weekly = of(
            "weekly.csv",
            &[&["all.csv", "--stream", &format!("{stream} weekly"), "--rho", "0.5", "--publish", "13"], groups]
                .concat(),
        );
        assert_eq!(weekly.code, 0, "{}", weekly.stderr);
        let per_step = if groups.is_empty() { 1 } else { 3 };
        assert_eq!(table(&bench.read("weekly.csv")).len(), 1 + 10 * per_step);
    }
    let refused = of(
        "m.csv",
        &["all.csv", "--stream", "m", "--rho", "1", "--person", "who", "--max-events", "9", "--measure", "count"],
    );
    assert!(refused.code == 2 && refused.stderr.contains("window(30d)"), "{}", refused.stderr);
}

/// A run that continues after the end of a short month writes the same as one run over all data.
#[test]
fn windows_of_calendar_months_go_on() {
    let (whole, parts) = (Bench::new(), Bench::new());
    for file in parts.files() {
        std::fs::copy(whole.path(&file), parts.path(&file)).unwrap();
    }
    whole.write("all.csv", lines(0..130));
    let base = [
        "release",
        "--key",
        "my.key",
        "--start",
        "2024-01-01",
        "--steps",
        "130",
        "--every",
        "1d",
        "--no-plot",
        "--yes",
    ];
    let of = [
        "--out",
        "out.csv",
        "--workload",
        "window(1mo)",
        "--rho",
        "0.5",
        "--group-by",
        "who",
        "--groups",
        "p0,p1",
        "--rest",
        "r",
    ];
    assert_eq!(whole.run(&[&base[..], &["all.csv"], &of].concat()).code, 0);
    for (place, days) in [0..59u64, 59..60, 60..61, 61..121, 121..130].into_iter().enumerate() {
        let (name, end) = (format!("{place}.csv"), date(days.end).to_string());
        parts.write(&name, lines(days));
        let run = parts.run(&[&base[..], &[&name, "--continue", "--through", &end], &of].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    assert_eq!(parts.read("out.csv"), whole.read("out.csv"));
}

/// Periods that end inside publications: for several of them only statements that hold for every mechanism are made,
/// there is no floor, and only a single count of an unfinished publication is kept.
#[test]
fn several_periods_are_promised_no_more_than_holds() {
    let bench = days();
    let person =
        ["--person", "who", "--max-events", "2", "--max-events-per-step", "2", "--min-gap", "8", "--per", "month"];
    let weekly = ["all.csv", "--publish", "1w", "--workload", "increments", "--rho", "0.5", "--all"];
    let run = release(&bench, &[&weekly[..], &person, &["--out", "p.csv"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report: Value = serde_json::from_str(&bench.read("p.report.json")).unwrap();
    // Two events on 31 January and two on 1 February are in one week: four times the variance of two events.
    let active = report["periods"]["active"].as_array().unwrap();
    let two = active.iter().find(|row| row["periods"] == 2).expect("there are two months");
    assert!(two["rho"].as_f64().unwrap() >= 2.0, "{report}");
    let found =
        ["--group-by", "who", "--discover-groups", "--selection-delta", "0.001", "--out", "d.csv", "--stream", "d"];
    let discovered =
        |more: &[&str]| release(&bench, &[&weekly[..], &found, &person[..4], &["--per", "month"], more].concat());
    let floor = discovered(&["--floor", "2"]);
    assert!(floor.code == 2 && floor.stderr.contains("no floor holds"), "{}", floor.stderr);
    let none = discovered(&[]);
    assert_eq!(none.code, 0, "{}", none.stderr);
    assert!(bench.read("d.report.md").contains("is shown with probability at most 1"), "{}", bench.read("d.report.md"));
    for several in [["--measure", "count"], ["--workload", "window(2w)"]] {
        let of = ["all.csv", "--out", "c.csv", "--publish", "1w", "--rho", "1", "--workload", "sum", "--continue"];
        let of = if several[0] == "--measure" { [&of[..7], &of[9..]].concat() } else { of.to_vec() };
        let run = release(&bench, &[&of[..], &several].concat());
        assert!(
            run.code == 2 && run.stderr.contains("unfinished publication are not kept"),
            "{several:?}: {}",
            run.stderr
        );
    }
}
