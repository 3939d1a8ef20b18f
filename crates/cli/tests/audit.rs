//! `evertally lab audit`: keys of the JSON output, exit statuses, saved plans. `crates/audit` tests its power to
//! refute.

mod common;

use common::{Bench, EVENTS};
use serde_json::Value;

/// The shortest audit: fast, and enough for every check with Gaussian noise.
const SHORT: [&str; 8] = ["audit", "--mechanism", "binary", "--horizon", "4", "--paths", "1500", "--rho=1"];

#[test]
fn an_audit_prints_every_key_and_ends_with_success() {
    let bench = Bench::new();
    let run = bench.run(&[&SHORT[..], &["--json"]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    let keys = ["mechanism", "noise", "horizon", "neighbours", "change", "test_seed", "promise", "bounds", "paths"];
    for key in keys.iter().chain(&["confidence", "level", "checks", "refuted", "privacy_refuted"]) {
        assert!(answer.get(key).is_some(), "{key} is missing in {answer}");
    }
    let checks = answer["checks"].as_array().unwrap();
    let tests: Vec<&str> = checks.iter().map(|check| check["test"].as_str().unwrap()).collect();
    let all = [
        "mu",
        "mu",
        "budget",
        "statistics",
        "histogram",
        "grid",
        "means",
        "entries",
        "nodes",
        "scale",
        "whole",
        "same-key",
    ];
    assert_eq!(tests, [&all[..], &["other-key", "restored"]].concat());
    assert!(checks.iter().all(|check| check["refuted"] == false && check["kind"] != "not-tested"));
    assert!(answer["bounds"]["mu"].as_f64().unwrap() < 2f64.sqrt());

    let table = bench.run(&SHORT).stdout;
    assert!(table.contains("Not refuted, which does not prove the promise") && !table.contains("REFUTED"), "{table}");
}

/// At a negligible confidence, some correct mechanisms are refuted: with this seed, this one. Status 1, one message.
#[test]
fn a_refutation_ends_with_status_1() {
    let run = Bench::new().run(&[&SHORT[..], &["--confidence", "0.000000001", "--test-seed", "7"]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (1, "error: the promise is refuted\n"));
    assert!(run.stdout.contains("REFUTED"), "{}", run.stdout);
}

#[test]
fn a_saved_plan_is_audited() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    assert_eq!(bench.release(&[]).code, 0);
    let run = bench.run(&["audit", "--plan", "counts.plan.toml", "--paths", "7000"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let run = bench.run(&["audit", "--plan", "counts.plan.toml", "--rho", "1"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
}

#[test]
fn senseless_audits_are_refused() {
    let bench = Bench::new();
    for (flags, says) in [
        (&["--confidence", "1"][..], "confidence"),
        (&["--event", "5"], "from 1 to 4"),
        (&["--noise", "laplace", "--plan", "counts.plan.toml"], "cannot be used with"),
    ] {
        let run = bench.run(&[&SHORT[..], flags].concat());
        assert_eq!(run.code, 2, "{flags:?}");
        assert!(run.stderr.contains(says) && run.stdout.is_empty(), "{flags:?}: {}", run.stderr);
    }
}

/// The plan of a year by hours from the manual's first example, and a sketch plan: at chosen steps, and with all cells
/// of an event.
#[test]
fn plans_of_long_horizons_and_of_sketches_are_audited() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS).write("groups.csv", "group\na\nb\n");
    let year = ["--end", "2024-12-31", "--every", "1h", "--rho", "0.5", "--plan-only"];
    let plan = bench.run(&[&["release", "--start", "2024-01-01"], &year[..]].concat());
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    bench.write("year.plan.toml", &plan.stdout);
    let run = bench.run(&["audit", "--plan", "year.plan.toml", "--paths", "30", "--json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    let steps: Vec<u64> = answer["at"].as_array().unwrap().iter().map(|step| step.as_u64().unwrap()).collect();
    assert!(steps.contains(&4096) && steps.contains(&4097) && steps.last() == Some(&8760), "{steps:?}");
    let few = bench.run(&["audit", "--plan", "year.plan.toml", "--paths", "30", "--at", "100,1,8760"]);
    assert!(few.code == 0 && few.stdout.contains("Tested 3 steps: 1, 100, 8760."), "{}{}", few.stdout, few.stderr);
    let none = bench.run(&["audit", "--plan", "year.plan.toml", "--at", "8761"]);
    assert!(none.code == 2 && none.stderr.contains("--at: step 8761 is beyond"), "{}", none.stderr);

    let sketch = ["sketch", "--start", "2024-01-01", "--steps", "20", "--every", "1d", "--rho", "0.5"];
    let sketch = [&sketch[..], &["--key-columns", "group", "--width", "64", "--plan-only"]].concat();
    let plan = bench.run(&sketch);
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    bench.write("sketch.plan.toml", &plan.stdout);
    let run = bench.run(&["audit", "--plan", "sketch.plan.toml", "--paths", "1500"]);
    assert!(run.code == 0 && run.stdout.contains("Tested the 5 running sums"), "{}{}", run.stdout, run.stderr);
}
