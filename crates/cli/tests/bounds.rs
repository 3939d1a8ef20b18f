//! `evertally bounds`: bounds chosen from a private estimate.

mod common;

use common::{Bench, table};
use serde_json::Value;

/// A release of 30 days in two groups; the look covers the first ten days. Choosing a mechanism for each bound, in each
/// run, would take most of the time.
const CONFIG: &str = "input = \"events.csv\"\nkey = \"my.key\"\nout = \"counts.csv\"\nall = true\n\
    start = \"2024-01-01\"\nsteps = 30\nevery = \"1d\"\ngroup-by = [\"group\"]\ngroups = [\"a\", \"b\"]\n\
    person = \"who\"\nmax-events = 7\nrho = 0.5\nstream = \"visits\"\nmechanism = \"sqrt\"\n";

/// On each of the first ten days, ninety people come once and ten people come four times. Events of later days do not
/// matter.
fn events() -> String {
    let mut text = "time,group,who\n".to_owned();
    for day in 1..=12 {
        for person in 0..100 {
            for hour in 0..if person < 90 { 1 } else { 4 } {
                let group = if person % 2 == 0 { "a" } else { "b" };
                text.push_str(&format!("2024-01-{day:02}T{hour:02}:00:00Z,{group},p{person}\n"));
            }
        }
    }
    text
}

fn ready() -> Bench {
    let bench = Bench::new();
    bench.write("events.csv", events()).write("visits.toml", CONFIG);
    bench
}

const LOOK: [&str; 7] = ["bounds", "--config", "visits.toml", "--look-until", "2024-01-11", "--most-events", "64"];

fn answer(bench: &Bench, more: &[&str]) -> Value {
    let run = bench.run(&[&LOOK[..], &["--json"], more].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// With a budget that hides nothing, the estimate is exact, and the best bounds are those that keep everything.
#[test]
fn shares_are_those_of_the_data() {
    let bench = ready();
    let answer = answer(&bench, &["--look-epsilon", "20", "--try-per-step", "1,2,4"]);
    let looked = &answer["looked_at"];
    let close = |value: &Value, wanted: f64, slack: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - wanted).abs() <= slack, "{value} for {wanted}");
    };
    close(&looked["persons"], 100.0, 5.0);
    // Ninety people with 10 events and ten with 40; the cells are 9 to 12 and 33 to 48.
    close(&looked["events"], 1300.0, 90.0);
    let of = |list: &str, name: &str, bound: u64| {
        let found = answer[list].as_array().unwrap().iter().find(|choice| choice[name] == bound);
        found.unwrap_or_else(|| panic!("{name} {bound} in {answer}")).clone()
    };
    // Over thirty days: one event a day keeps 90 · 30 + 10 · 30 of 90 · 30 + 10 · 120.
    // With the best total bound, both bounds drop events together; this is most of them.
    close(&of("per_step", "max_events_per_step", 1)["share"], 3000.0 / 3900.0, 0.12);
    assert_eq!(answer["best"]["max_events_per_step"], 4);
    let best = answer["best"]["max_events"].as_u64().unwrap();
    assert!((96..=192).contains(&best), "{best}");
    assert_eq!(answer["flags"], format!("--max-events {best} --max-events-per-step 4"));
    for choice in answer["in_all"].as_array().unwrap() {
        let [missing, noise, total] = ["missing", "noise", "total_error"].map(|name| choice[name].as_f64().unwrap());
        assert!((missing.hypot(noise) / total - 1.0).abs() < 1e-9);
        assert!(total >= answer["best"]["total_error"].as_f64().unwrap());
    }
    // The reported noise is that of the plan of such a release.
    let flags = ["release", "--config", "visits.toml", "--plan-only", "--json", "--max-events-per-step", "4"];
    let plan = bench.run(&[&flags[..], &["--max-events", &best.to_string()]].concat());
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    close(&answer["best"]["noise"], plan["max_std_error"].as_f64().unwrap(), 1e-6);
}

/// A look is a publication: recorded, repeatable, and refused for different data.
#[test]
fn a_look_is_recorded_and_spends() {
    let bench = ready();
    let spend = ["--look-rho", "0.02", "--out", "bounds.csv"];
    assert_eq!(
        bench.run(&["budget", "new", "source.budget", "--name", "visits", "--unit", "person", "--rho", "0.03"]).code,
        0
    );
    let run = bench.run(&[&LOOK[..], &spend, &["--budget-file", "source.budget"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("least total error: --max-events "), "{}", run.stdout);
    let written: Vec<String> = bench.files().into_iter().filter(|name| name.starts_with("bounds.")).collect();
    assert_eq!(written, ["bounds.csv", "bounds.png", "bounds.svg"]);
    let rows = table(&bench.read("bounds.csv"));
    assert_eq!(rows[0][0], "max_events");
    assert_eq!(rows.iter().filter(|row| row[8] == "true").count(), 1);
    assert!(bench.run(&["key", "spent", "my.key"]).stdout.contains("bounds of visits"));
    let again = bench.run(&[&LOOK[..], &spend].concat());
    assert_eq!(again.stdout, run.stdout);
    let second = bench.run(&[&LOOK[..], &spend, &["--budget-file", "source.budget", "--look-name", "more"]].concat());
    assert_eq!(second.code, 2, "{}", second.stderr);
    assert!(second.stderr.contains("source.budget"), "{}", second.stderr);
    let other = [&["bounds", "--config", "visits.toml", "--look-until", "2024-01-12"][..], &LOOK[5..], &spend].concat();
    let other = bench.run(&other);
    assert!(other.code == 2 && other.stderr.contains("another plan"), "{}", other.stderr);
    bench.write("events.csv", events().replacen("p99", "p98", 1));
    let changed = bench.run(&[&LOOK[..], &spend].concat());
    assert!(changed.code == 2 && changed.stderr.contains("differ"), "{}", changed.stderr);
}

/// With Laplace noise no bound per step is tried, because it would not change the noise.
#[test]
fn only_what_helps_is_tried() {
    let bench = ready();
    bench.write("visits.toml", CONFIG.replace("rho = 0.5", "epsilon = 1").replace("mechanism = \"sqrt\"\n", ""));
    let answer = answer(&bench, &["--look-epsilon", "0.5"]);
    assert_eq!(answer["per_step"].as_array().unwrap().len(), 1);
    assert!(answer["best"]["max_events_per_step"].is_null());
    assert_eq!(answer["histograms"]["std_error"].as_f64().map(|error| (error * 100.0).round()), Some(280.0));
}

/// A protected window may cover a part of the time of the estimate: the events of a person then change instead of
/// disappearing, which moves the person from one cell to another.
#[test]
fn windows_need_the_noise_of_replaced_events() {
    let bench = ready();
    let planned = [
        "bounds",
        "events.csv",
        "--key",
        "my.key",
        "--start",
        "2024-01-01",
        "--every",
        "1d",
        "--steps",
        "28",
        "--person",
        "who",
        "--per",
        "7",
        "--epsilon",
        "1",
        "--look-epsilon",
        "0.5",
        "--most-events",
        "8",
        "--json",
    ];
    let std_error = |name: &str, more: &[&str]| {
        let run = bench.run(&[&planned[..], &["--look-name", name], more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let answer: Value = serde_json::from_str(&run.stdout).unwrap();
        answer["histograms"]["std_error"].as_f64().unwrap()
    };
    let (removed, replaced) = (std_error("a", &[]), std_error("b", &["--neighbours", "replace-one"]));
    assert!(removed < replaced, "{removed} for {replaced}");
    assert_eq!(std_error("c", &["--protect-window", "7"]), replaced);
}

/// The effect of bounds over a whole history on late counts is reported before anything is published, and only if there
/// is one.
#[test]
fn bounds_that_run_out_are_pointed_out() {
    let bench = ready();
    let says = "so later counts are too low";
    let plan =
        |more: &[&str]| bench.run(&[&["release", "--config", "visits.toml", "--plan-only"], more].concat()).stdout;
    let whole = plan(&[]);
    assert!(whole.contains("through step 7 of 30") && whole.contains(says) && whole.contains("--per week"), "{whole}");
    assert!(!plan(&["--per", "week"]).contains(says));
    assert!(!plan(&["--max-events", "30"]).contains(says));
    let ranking = |more: &[&str]| bench.run(&[&["plan", "--horizon", "30", "--rho", "1"], more].concat()).stdout;
    assert!(ranking(&["--max-events", "5"]).contains(says));
    assert!(!ranking(&["--max-events", "5", "--per", "7"]).contains(says) && !ranking(&[]).contains(says));
    let run = bench.run(&["release", "--config", "visits.toml", "--no-plot"]);
    assert!(run.code == 0 && run.stderr.contains(says), "{}", run.stderr);
    assert!(bench.read("counts.report.md").contains(says));
    let report: Value = serde_json::from_str(&bench.read("counts.report.json")).unwrap();
    assert!(report["unit"]["late_counts"].as_str().unwrap().contains("step 7 of 30"));
}

/// Where one person has most events, the interval shows that a bound may keep far less than its estimate; a declared
/// largest number narrows it, and is refused below the bounds.
#[test]
fn intervals_allow_for_rare_heavy_users() {
    let bench = ready();
    let visits = |person: &str, count: usize| -> String {
        (0..count).map(|event| format!("2024-01-{:02}T00:00:00Z,a,{person}\n", 1 + event % 10)).collect()
    };
    let many: String = (0..500).map(|person| visits(&format!("p{person}"), 2)).collect();
    bench.write("events.csv", format!("time,group,who\n{many}{}", visits("robot", 2000)));
    let flags = &["--look-rho", "5"][..];
    let answer = |name: &str, more: &[&str]| answer(&bench, &[flags, &["--look-name", name], more].concat());
    let first = answer("first", &[]);
    // 1000 of 3000 events are those of people with two.
    let number = |value: &Value| value.as_f64().unwrap();
    let (looked, best) = (&first["looked_at"], &first["best"]);
    assert!(number(&looked["events_lower"]) <= 3000.0 && number(&looked["events_upper"]) >= 3000.0, "{looked}");
    assert!(number(&best["share_lower"]) < 0.5 && number(&best["share_upper"]) > 0.5, "{best}");
    assert_eq!(first["histograms"]["largest_events"], 65536);
    let narrow = answer("second", &["--largest-events", "100"]);
    assert!(number(&best["share_lower"]) < 0.02 && number(&narrow["best"]["share_lower"]) > 0.1, "{best} {narrow}");
    let table = bench.run(&[&LOOK[..], flags, &["--look-name", "first"]].concat()).stdout;
    assert!(table.contains("if no who has more than 65536 events") && table.contains("from"), "{table}");
    let below = bench.run(&[&LOOK[..], flags, &["--largest-events", "63"]].concat());
    assert!(below.code == 2 && below.stderr.contains("try bounds up to 63"), "{}", below.stderr);
}

/// The flags of the release may stay on the command line; those that change nothing are named.
#[test]
fn flags_of_the_release_are_accepted() {
    let bench = ready();
    let flags = ["--look-rho", "0.1", "--max-events", "7", "--sort-buffer", "all", "--no-plot"];
    let run = bench.run(&[&LOOK[..], &flags].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("not used here"), "{}", run.stderr);
    assert!(run.stderr.contains("--no-plot, --sort-buffer, --max-events"), "{}", run.stderr);
    // Only planned, it needs no key and records nothing.
    std::fs::remove_file(bench.path("my.key")).unwrap();
    let before = bench.files();
    let plan = bench.run(&[&LOOK[..], &["--look-rho", "0.1", "--plan-only"]].concat());
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    assert!(plan.stdout.contains("# standard error of each cell"), "{}", plan.stdout);
    assert_eq!(bench.files(), before);
}

#[test]
fn senseless_looks_are_refused() {
    let bench = ready();
    let before = bench.files();
    let refuses = |flags: &[&str], words: &str| {
        let run = bench.run(flags);
        assert!(run.code == 2 && run.stderr.contains(words), "{flags:?}: {}", run.stderr);
        assert_eq!(bench.files(), before);
    };
    refuses(&LOOK, "--look-epsilon or --look-rho");
    refuses(&[&LOOK[..], &["--look-rho", "0.1", "--try-per-step", "0"]].concat(), "at least 1");
    let until = |time: &'static str| ["bounds", "--config", "visits.toml", "--look-rho", "0.1", "--look-until", time];
    refuses(&until("2024-01-10T12:00"), "--look-until");
    refuses(&until("soon"), "is not a time");
    bench.write("visits.toml", CONFIG.replace("person = \"who\"\nmax-events = 7\n", ""));
    refuses(&[&LOOK[..], &["--look-rho", "0.1"]].concat(), "--person is needed");
    let asserted = [&LOOK[..], &["--look-rho", "0.1", "--assert-max-events", "3"]].concat();
    refuses(&asserted, "asserted bounds need no estimate");
}
