//! Windows, decays and increments: released values, plans, and continued runs.

mod common;

use common::{Bench, table};
use serde_json::Value;

/// A budget so large that no released count is off by one half.
const EXACT: [&str; 3] = ["--rho", "1000000", "--allow-weak-budget"];
const DAYS: u64 = 40;

fn events_of(day: u64) -> u64 {
    (day * 7) % 13
}

/// Forty days in two files.
fn days() -> Bench {
    let bench = Bench::new();
    let start = jiff::civil::date(2024, 1, 1);
    let lines = |days: std::ops::Range<u64>| {
        let of_day = |day: u64| {
            let date = start.checked_add(jiff::Span::new().days(day as i64)).unwrap();
            format!("{date}\n").repeat(events_of(day) as usize)
        };
        format!("time\n{}", days.map(of_day).collect::<String>())
    };
    bench.write("first.csv", lines(0..23)).write("second.csv", lines(23..DAYS));
    bench
}

fn release(bench: &Bench, more: &[&str]) -> common::Run {
    let base = ["--key", "my.key", "--start", "2024-01-01", "--steps", "40", "--every", "1d", "--no-plot", "--yes"];
    bench.run(&[&["release"][..], &base, more].concat())
}

fn values(text: &str) -> Vec<f64> {
    table(text).iter().skip(1).map(|row| row[2].parse().unwrap()).collect()
}

/// With almost no noise the released values equal the counts by hand.
#[test]
fn what_is_released_is_what_was_asked_for() {
    let bench = days();
    for (workload, weight) in [
        ("window(7)", &(|lag: u64| f64::from(u8::from(lag < 7))) as &dyn Fn(u64) -> f64),
        ("window(1w)", &|lag| f64::from(u8::from(lag < 7))),
        ("increments", &|lag| f64::from(u8::from(lag == 0))),
        ("decay(4)", &|lag| (-(lag as f64) / 4.0).exp2()),
        ("sum", &|_| 1.0),
        ("window(40)", &|_| 1.0),
    ] {
        let out = format!("{}.csv", workload.replace(['(', ')'], "-"));
        let run = release(
            &bench,
            &[&["first.csv", "second.csv", "--out", &out, "--stream", workload, "--workload", workload], &EXACT[..]]
                .concat(),
        );
        assert_eq!(run.code, 0, "{workload}: {}", run.stderr);
        for (day, value) in (0..).zip(values(&bench.read(&out))) {
            let exact: f64 = (0..=day).map(|of| weight(day - of) * events_of(of) as f64).sum();
            assert!((value - exact).abs() < 0.1, "{workload}, day {day}: {value} is not {exact}");
        }
        let report = bench.read(&out.replace(".csv", ".report.md"));
        let says = match workload {
            "window(7)" | "window(1w)" => "count of events in the last 7 days",
            "decay(4)" => "each counting half after every 4 days",
            "increments" => "count of events per day",
            "sum" => "running count of events",
            _ => "count of events",
        };
        assert!(report.contains(says), "{workload}: {report}");
    }
}

/// Daily continued runs publish the same bytes as one run over all data.
#[test]
fn runs_go_on() {
    let bench = days();
    for workload in ["window(7)", "decay(4)", "increments", "window(30)"] {
        let stream = ["--stream", workload, "--workload", workload, "--rho", "0.5"];
        // The same key, which has not yet published this stream.
        for file in ["key", "key.ledger"] {
            std::fs::copy(bench.path(&format!("my.{file}")), bench.path(&format!("other.{file}"))).unwrap();
        }
        let whole = release(&bench, &[&["first.csv", "second.csv", "--out", "whole.csv"], &stream[..]].concat());
        assert_eq!(whole.code, 0, "{}", whole.stderr);
        let other =
            ["--key", "other.key", "--start", "2024-01-01", "--steps", "40", "--every", "1d", "--no-plot", "--yes"];
        let run = |more: &[&str]| bench.run(&[&["release"][..], &other, more, &stream].concat());
        let out = format!("{}.csv", workload.replace(['(', ')'], "-"));
        let first = run(&["first.csv", "--continue", "--out", &out, "--through", "2024-01-24"]);
        assert_eq!(first.code, 0, "{}", first.stderr);
        let second = run(&["second.csv", "--continue", "--out", &out]);
        assert_eq!(second.code, 0, "{}", second.stderr);
        assert_eq!(bench.read(&out), bench.read("whole.csv"), "{workload}");
        let again = run(&["first.csv", "second.csv", "--rebuild", "--out", &out]);
        assert_eq!(again.code, 0, "{}", again.stderr);
        assert_eq!(bench.read(&out), bench.read("whole.csv"), "{workload}, again");
    }
}

fn plan(bench: &Bench, more: &[&str]) -> Value {
    let run = bench.run(&[&["plan", "--json"][..], more].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn plans_know_the_optimum_of_windows() {
    let bench = Bench::new();
    let answer = plan(&bench, &["--horizon", "100000", "--rho", "0.5", "--workload", "window(30)"]);
    let (max, bound) = (answer["chosen"]["max_std"].as_f64().unwrap(), answer["lower_bound_max_std"].as_f64().unwrap());
    assert!((max * max / 5.6069 - 1.0).abs() < 0.01 && bound <= max && bound * bound > 5.6, "{max} {bound}");
    assert_eq!(answer["workload"], "window(30)");
    // Pure ε: no worse than noise on each step.
    let pure = plan(&bench, &["--horizon", "100000", "--epsilon", "1", "--workload", "window(30)"]);
    assert!(pure["chosen"]["max_std"].as_f64().unwrap() <= 60f64.sqrt());
    // A unit of three events, one per step.
    let unit = ["--max-events", "3", "--max-events-per-step", "1"];
    let person = plan(&bench, &[&["--horizon", "1000", "--rho", "0.5", "--workload", "window(7)"], &unit[..]].concat());
    let ratio = person["chosen"]["max_std"].as_f64().unwrap() / person["lower_bound_max_std"].as_f64().unwrap();
    assert!((1.0..1.06).contains(&ratio), "{ratio}");
    // Without a workload a plan reports the error of windows.
    let sums = plan(&bench, &["--horizon", "1000", "--rho", "0.5"]);
    let week = &sums["windows"][0];
    assert_eq!(week["width"], 7);
    assert!(week["std_from_sums"].as_f64().unwrap() > 1.4 * week["max_std"].as_f64().unwrap());
    let run = bench.run(&["plan", "--horizon", "1000", "--rho", "0.5"]);
    assert!(run.stdout.contains("--workload 'window("), "{}", run.stdout);
}

/// The covariance of simulated releases reveals 2ρ about every event, and no more. The largest of 12
/// statistics is off by 5 of its standard deviations, √(2/N), with probability below 10⁻⁵.
#[test]
fn simulated_releases_reveal_what_the_budget_allows() {
    const STEPS: usize = 12;
    const PATHS: usize = 20_000;
    let bench = Bench::new();
    let run = bench.run(&[
        "simulate",
        "--workload",
        "window(5)",
        "--horizon",
        "12",
        "--rho",
        "0.5",
        "--paths",
        "20000",
        "--test-seed",
        "3",
        "--out",
        "noise.npy",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (_, entries) = bench.matrix("noise.npy");
    let releases = nalgebra::DMatrix::from_row_slice(PATHS, STEPS, &entries);
    let covariance = releases.transpose() * &releases / PATHS as f64;
    let inverse = covariance.try_inverse().unwrap();
    for event in 0..STEPS {
        let shown = nalgebra::DVector::from_fn(STEPS, |t, _| f64::from(u8::from(t >= event && t < event + 5)));
        let revealed = (shown.transpose() * &inverse * &shown)[(0, 0)];
        assert!(revealed < 1.0 + 5.0 * (2.0 / PATHS as f64).sqrt() && revealed > 0.3, "event {event}: {revealed}");
    }
}

#[test]
fn mistakes_are_said_in_words() {
    let bench = days();
    let refused = |more: &[&str]| {
        let before = bench.files();
        let run = release(&bench, &[&["first.csv", "--out", "out.csv", "--rho", "1"], more].concat());
        assert_eq!((run.code, bench.files()), (2, before), "{}", run.stderr);
        run.stderr
    };
    assert!(refused(&["--workload", "windows(7)"]).contains("not one of sum, window(W)"));
    assert!(refused(&["--workload", "window(0)"]).contains("1 to 2^62 steps"));
    assert!(refused(&["--workload", "window(36h)"]).contains("not a whole number of steps of 1d"));
    assert!(refused(&["--workload", "decay(1mo)"]).contains("months differ in their number of steps"));
    assert!(
        refused(&["--workload", "window(7)", "--extend", "--continue", "--through", "2024-01-10"])
            .contains("longer horizon")
    );
    assert!(
        refused(&["--workload", "decay(7)", "--mechanism", "binary"]).contains("not a difference of two running sums")
    );
    assert!(
        refused(&["--workload", "window(7)", "--mechanism", "blt"])
            .contains("rounds its running sums together with the data")
    );
    assert!(refused(&["--mechanism", "banded"]).contains("does not factorize `sum`"));
}

/// The rows of several workloads, by workload.
fn by_workload(text: &str, workload: &str) -> Vec<f64> {
    let rows = table(text);
    let place = rows[0].iter().position(|name| name == "workload").expect("there is a column `workload`");
    let value = rows[0].iter().position(|name| name == "value").unwrap();
    rows.iter().skip(1).filter(|row| row[place] == workload).map(|row| row[value].parse().unwrap()).collect()
}

const TOGETHER: [&str; 6] = ["--workload", "sum", "--workload", "window(7d)*4", "--workload", "increments"];

/// Several workloads of one stream: with almost no noise they equal the counts by hand, otherwise they are read from
/// the same noise.
#[test]
fn several_are_read_from_one_release() {
    let bench = days();
    let files = ["first.csv", "second.csv", "--out", "all.csv"];
    let run = release(&bench, &[&files[..], &TOGETHER, &EXACT].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = bench.read("all.csv");
    let (sums, weeks, steps) =
        (by_workload(&text, "sum"), by_workload(&text, "window(7d)"), by_workload(&text, "increments"));
    for day in 0..DAYS {
        let exact = |from: u64| (from..=day).map(events_of).sum::<u64>() as f64;
        let place = day as usize;
        assert!((sums[place] - exact(0)).abs() < 0.1, "day {day}");
        assert!((weeks[place] - exact((day + 1).saturating_sub(7))).abs() < 0.1, "day {day}");
        assert!((steps[place] - exact(day)).abs() < 0.1, "day {day}");
    }
    let report = bench.read("all.report.md");
    assert!(report.contains("total so far, last 7 days, per day"), "{report}");
    assert!(report.contains("read from the same release"), "{report}");

    let noisy = ["--stream", "noisy", "--rho", "0.5", "--out", "noisy.csv"];
    let run = release(&bench, &[&files[..2], &TOGETHER, &noisy].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = bench.read("noisy.csv");
    let (sums, weeks, steps) =
        (by_workload(&text, "sum"), by_workload(&text, "window(7d)"), by_workload(&text, "increments"));
    for day in 0..DAYS as usize {
        let before = |days: usize| (day + 1).checked_sub(days + 1).map_or(0.0, |place| sums[place]);
        assert!((weeks[day] - (sums[day] - before(7))).abs() < 0.01, "day {day}");
        assert!((steps[day] - (sums[day] - before(1))).abs() < 0.01, "day {day}");
    }
    assert!(
        sums.iter().any(|sum| (sum - sum.round()).abs() > 1e-6) || sums != by_workload(&bench.read("all.csv"), "sum")
    );
}

/// They continue from run to run, and one run over all data publishes the same bytes.
#[test]
fn several_go_on() {
    let bench = days();
    for (name, workloads) in
        [("together", &TOGETHER[..]), ("apart", &["--workload", "sum", "--workload", "window(7)", "--unbounded"])]
    {
        let base = [
            "release",
            "--key",
            "my.key",
            "--start",
            "2024-01-01",
            "--every",
            "1d",
            "--no-plot",
            "--yes",
            "--rho",
            "0.5",
        ];
        let end = if name == "apart" { &[][..] } else { &["--steps", "40"] };
        let run = |key: &str, more: &[&str]| {
            let own = [&base[..1], &["--key", key], &base[3..], end, workloads, &["--stream", name], more].concat();
            let run = bench.run(&own);
            assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        };
        for file in ["key", "key.ledger"] {
            std::fs::copy(bench.path(&format!("my.{file}")), bench.path(&format!("other.{file}"))).unwrap();
        }
        run("my.key", &["first.csv", "second.csv", "--out", "whole.csv", "--through", "2024-02-10"]);
        run("other.key", &["first.csv", "--continue", "--out", "parts.csv", "--through", "2024-01-24"]);
        run("other.key", &["second.csv", "--continue", "--out", "parts.csv", "--through", "2024-02-10"]);
        assert_eq!(bench.read("parts.csv"), bench.read("whole.csv"), "{name}");
        run("other.key", &["first.csv", "second.csv", "--rebuild", "--out", "parts.csv", "--through", "2024-02-10"]);
        assert_eq!(bench.read("parts.csv"), bench.read("whole.csv"), "{name}, again");
        for file in ["parts.csv", "whole.csv"] {
            std::fs::remove_file(bench.path(file)).unwrap();
        }
    }
}

#[test]
fn plans_of_several_say_what_one_release_gains() {
    let bench = Bench::new();
    let two = ["--rho", "0.5", "--workload", "sum", "--workload", "window(7)"];
    let one = plan(&bench, &[&["--horizon", "365"][..], &two].concat());
    assert_eq!(one["one_release"], true, "{one}");
    let (own, divided) = (&one["variance_over_alone"], &one["variance_over_alone_divided"]);
    assert!(own.as_f64().unwrap() < 1.46 && (divided.as_f64().unwrap() - 2.0).abs() < 1e-3, "{one}");
    let endless = plan(&bench, &[&["--unbounded"][..], &two].concat());
    assert_eq!((&endless["one_release"], &endless["horizon"]), (&Value::Bool(false), &Value::Null), "{endless}");
    let text = bench.run(&[&["plan", "--horizon", "365"][..], &two].concat());
    assert!(text.stdout.contains("all are read from one release with the full budget"), "{}", text.stdout);
}

#[test]
fn what_several_do_not_go_with_is_refused() {
    let bench = days();
    for (more, says) in [
        (&["--workload", "window(40)"][..], "two of these workloads are the same"),
        (&["--workload", "sum"], "named twice"),
        (&["--workload", "window(7)", "--measure", "count"], "do not go together"),
        (&["--workload", "window(7)", "--view", "non-negative"], "do not go together"),
        (&["--workload", "window(7)", "--band", "simultaneous"], "do not go together"),
        (&["--workload", "window(7)*0"], "weight"),
        (&["--workload", "window(7)", "--unsafe-show-truth"], "do not go together"),
    ] {
        let run =
            release(&bench, &[&["first.csv", "--out", "no.csv", "--rho", "1", "--workload", "sum"][..], more].concat());
        assert!(run.code == 2 && run.stderr.contains(says), "{more:?}: {} {}", run.code, run.stderr);
        assert!(!bench.path("no.csv").exists());
    }
    let mechanisms = bench.run(&["mechanisms", "--horizon", "20", "--workload", "sum", "--workload", "window(3)"]);
    assert!(mechanisms.stderr.contains("one workload at a time"), "{}", mechanisms.stderr);
}

/// Weekly rows are named as weeks; measures may also have an unbounded horizon.
#[test]
fn several_are_published_by_weeks_and_without_an_end() {
    let bench = days();
    let base = ["release", "first.csv", "--key", "my.key", "--start", "2024-01-01", "--every", "1d", "--rho", "0.5"];
    let run = |more: &[&str]| {
        let run = bench.run(&[&base[..], &["--no-plot", "--yes", "--through", "2024-01-22"], more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
    };
    let two = ["--workload", "sum", "--workload", "window(2w)"];
    run(&[&["--steps", "42", "--publish", "1w", "--out", "weeks.csv"][..], &two].concat());
    assert!(bench.read("weeks.report.md").contains("total so far, last 2 weeks"), "{}", bench.read("weeks.report.md"));
    assert_eq!(by_workload(&bench.read("weeks.csv"), "sum").len(), 3);
    // The reported shares add up to the whole budget.
    run(&[&["--unbounded", "--stream", "endless", "--out", "endless.csv"][..], &two].concat());
    let report = bench.read("endless.report.md");
    assert!(report.contains("| budget | ρ = 0.5 (zCDP) |") && report.contains("50 % of the budget"), "{report}");
    let measures = ["--measure", "count", "--measure", "histogram(1)", "--value", "size", "--bounds", "0,2"];
    bench.write("sizes.csv", "time,size\n2024-01-01,1\n2024-01-02,2\n");
    let sizes =
        bench.run(
            &[
                &[
                    "release",
                    "sizes.csv",
                    "--key",
                    "my.key",
                    "--stream",
                    "sizes",
                    "--unbounded",
                    "--start",
                    "2024-01-01",
                ][..],
                &[
                    "--every",
                    "1d",
                    "--rho",
                    "0.5",
                    "--through",
                    "2024-01-03",
                    "--out",
                    "sizes-out.csv",
                    "--no-plot",
                    "--yes",
                ],
                &measures,
            ]
            .concat(),
        );
    assert_eq!(sizes.code, 0, "{}", sizes.stderr);
}
