//! Counts with an unbounded horizon: plans, simulated noise, and releases that continue day after day.

mod common;

use common::Bench;
use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Rho};
use serde_json::Value;

fn json(bench: &Bench, arguments: &[&str]) -> Value {
    let run = bench.run(arguments);
    assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn a_plan_without_an_end_shows_errors_of_steps() {
    let bench = Bench::new();
    let plan = json(&bench, &["plan", "--unbounded", "--rho", "0.5", "--json"]);
    let chosen = &plan["chosen"];
    assert!(chosen["mechanism"].as_str().unwrap().starts_with("endless(inside=growing,run=1,digest="), "{plan}");
    assert!(chosen["max_std"].is_null() && chosen["mean_std"].is_null() && plan["lower_bound_max_std"].is_null());
    let ratio = chosen["largest_ratio"].as_f64().unwrap();
    assert!(ratio > 1.5 && ratio < 2.5, "{ratio}");
    let at = chosen["at"].as_array().unwrap();
    assert_eq!(at.iter().map(|at| at["step"].as_u64().unwrap()).collect::<Vec<_>>(), [16, 1000, 1_000_000, 1 << 40]);
    for at in at {
        let (std, bound) = (at["std"].as_f64().unwrap(), at["lower_bound"].as_f64().unwrap());
        assert!(std > bound && std * std < 2.5 * 1.2 * bound * bound, "{at}");
    }
    let pure = json(&bench, &["plan", "--unbounded", "--epsilon", "1", "--json"]);
    assert!(pure["chosen"]["mechanism"].as_str().unwrap().starts_with("endless(inside=hats,digest="), "{pure}");
    let table = bench.run(&["plan", "--unbounded", "--rho", "0.5"]).stdout;
    assert!(table.contains("error at 2^40") && table.contains("at every step from 16 to 2^40"), "{table}");
    let rows = json(&bench, &["mechanisms", "--unbounded", "--json"]);
    let rows = rows.as_array().unwrap();
    assert!(rows.len() >= 2 && rows.iter().all(|row| row["zcdp_max"].is_null() && row["at"].is_array()), "{rows:?}");
    for both in [["plan", "--unbounded", "--horizon", "5"], ["mechanisms", "--unbounded", "--horizon", "5"]] {
        assert_eq!(bench.run(&[&both[..], &["--rho", "1"]].concat()).code, 2);
    }
}

/// The covariance of simulated releases is that of the rows: variances within 4 standard errors, at four epochs' steps.
#[test]
fn simulated_noise_has_the_planned_variance() {
    let bench = Bench::new();
    let arguments =
        ["simulate", "--unbounded", "--horizon", "300", "--rho", "0.5", "--paths", "4000", "--at", "1,16,17,300"];
    let made = bench.run(&[&arguments[..], &["--test-seed", "7", "--out", "m.npy"]].concat());
    assert_eq!(made.code, 0, "{}", made.stderr);
    let (_, values) = bench.matrix("m.npy");
    let plan = PlanRequest::unbounded(Budget::Zcdp(Rho::new(0.5).unwrap()));
    let plan = plan.plan().unwrap();
    for (column, step) in [1u64, 16, 17, 300].into_iter().enumerate() {
        let squares: f64 = values.chunks(4).map(|row| row[column] * row[column]).sum::<f64>() / 4000.0;
        let ratio = squares / plan.variance(step);
        // The variance of a sample variance of n normal numbers is 2/n.
        assert!((ratio - 1.0).abs() < 4.0 * (2.0f64 / 4000.0).sqrt(), "step {step}: {ratio}");
    }
}

fn date(day: i64) -> String {
    let start = jiff::civil::date(2024, 1, 1);
    start.checked_add(jiff::Span::new().days(day - 1)).unwrap().to_string()
}

/// Repeated runs append the same rows as one run over all data, across two ends of epochs; the report states that the
/// horizon is unbounded.
#[test]
fn releases_go_on_without_an_end() {
    for budget in [["--rho", "0.5"], ["--epsilon", "1"]] {
        let bench = Bench::new();
        let all = ["--key", "my.key", "--start", "2024-01-01", "--every", "1d", "--unbounded", "--no-plot"];
        // Under ρ the search for units with events in several steps takes seconds in each of these runs.
        let each = if budget[0] == "--rho" { "20" } else { "1" };
        let unit = [
            "--person",
            "who",
            "--max-events",
            "20",
            "--max-events-per-step",
            each,
            "--group-by",
            "g",
            "--groups",
            "a,b",
        ];
        let mut names = vec![];
        for (number, days) in [(1, 1..=10), (2, 11..=16), (3, 17..=40), (4, 41..=300)] {
            let mut text = "time,who,g\n".to_owned();
            for day in days {
                (0..day % 5).for_each(|n| {
                    text.push_str(&format!(
                        "{}T0{n}:00:00Z,p{},{}\n",
                        date(day),
                        n * day % 17,
                        ["a", "b"][n as usize % 2]
                    ));
                });
            }
            bench.write(&format!("{number}.csv"), text);
            names.push((format!("{number}.csv"), [11, 17, 41, 301][number as usize - 1]));
        }
        let twin = Bench::new();
        for file in ["my.key", "my.key.ledger"] {
            twin.write(file, std::fs::read(bench.path(file)).unwrap());
        }
        let inputs: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        for name in &inputs {
            twin.write(name, bench.read(name));
        }
        let run = |bench: &Bench, through: &str, inputs: &[&str]| {
            let more = ["--continue", "--out", "t.csv", "--through", through];
            let run = bench.run(&[&["release"][..], &more, &all, &unit, &budget, inputs].concat());
            assert_eq!(run.code, 0, "{}", run.stderr);
            run.stderr
        };
        for (name, through) in &names {
            let says = run(&bench, &date(*through), &[name]);
            assert!(says.contains("released") && !says.contains(" of 1"), "{says}");
        }
        let rows = bench.read("t.csv");
        assert_eq!(rows.lines().count(), 1 + 2 * 300);
        let report = bench.read("t.report.md");
        assert!(report.contains("300 steps of a stream without end") && report.contains("without end"), "{report}");
        let facts: Value = serde_json::from_str(&bench.read("t.report.json")).unwrap();
        assert!(facts["horizon"]["end"].is_null() && facts["horizon"]["steps"].is_null(), "{facts}");
        assert!(facts["error"]["max_std_error"].as_f64().unwrap() > 1.0);
        run(&twin, &date(301), &inputs);
        assert_eq!(twin.read("t.csv"), rows);
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let bench = Bench::new();
    bench.write("e.csv", "time\n2024-01-01T00:00:00Z\n");
    let base = ["release", "--key", "my.key", "--start", "2024-01-01", "--every", "1d", "--rho", "1"];
    for (more, says) in [
        (&["--unbounded", "--end", "2025-01-01"][..], "not both"),
        (&["--unbounded", "--steps", "5"], "not both"),
        (&["--unbounded", "--all"], "not both"),
        (&["--unbounded", "--group-by", "g", "--discover-groups", "--selection-delta", "1e-9"], "do not go together"),
    ] {
        let run = bench.run_as_is(&[&base[..], more, &["--out", "t.csv", "e.csv"]].concat(), b"");
        assert!(run.code == 2 && run.stderr.contains(says), "{more:?}: {}", run.stderr);
        assert!(!bench.path("t.csv").exists());
    }
}
