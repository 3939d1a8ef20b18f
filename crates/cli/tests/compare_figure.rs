//! `compare` and `figure`: their numbers equal the library's, their pictures are valid, and errors write no files.

mod common;

use common::Bench;
use evertally::mechanism::{Criterion, Mechanism, MechanismName, ShapeChoice};
use evertally::plan::{NoiseKind, Objective, PlanRequest, gaussian_lower_bound};
use evertally::privacy::{Budget, Delta, Epsilon, Rho};
use resvg::tiny_skia::Pixmap;
use resvg::usvg;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

const NAMES: [&str; 10] = [
    "variance-over-time",
    "max-variance-by-horizon",
    "time-and-space",
    "pure-error-by-horizon",
    "crossover",
    "error-by-delta",
    "ratio-to-lower-bound",
    "sketches",
    "pure-windows",
    "unbounded",
];

/// The rows of a CSV file by the names of its columns.
fn rows(bench: &Bench, file: &str) -> Vec<HashMap<String, String>> {
    let mut reader = csv::Reader::from_path(bench.path(file)).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

fn number(row: &HashMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?} is not a number"))
}

fn built(name: &str, horizon: u64) -> Arc<dyn Mechanism> {
    name.parse::<MechanismName>().unwrap().build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-12
}

fn draw(bench: &Bench, args: &[&str]) {
    let run = bench.run(&[&["figure"], args, &["--out", "figures"]].concat());
    assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
    assert_eq!(run.stdout, "");
}

#[test]
fn all_figures_are_pictures_and_repeat_themselves() {
    let bench = Bench::new();
    draw(&bench, &["all", "--horizon", "100", "--timing", "1"]);
    let endings = ["svg", "png", "csv"];
    let expected: BTreeSet<String> = NAMES.iter().flat_map(|name| endings.map(|e| format!("{name}.{e}"))).collect();
    let entries = std::fs::read_dir(bench.path("figures")).unwrap();
    let found: BTreeSet<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, expected);
    let first: HashMap<&String, Vec<u8>> =
        expected.iter().map(|name| (name, std::fs::read(bench.path("figures").join(name)).unwrap())).collect();

    for (name, labels) in NAMES.iter().zip([
        ["binary", "smooth", "step t"],
        ["honaker-online, exact", "lower bound", "horizon T (steps)"],
        ["time of a release (ns)", "memory (words)", "sqrt"],
        ["subtract(k=19)", "ε² · mean variance", "consistent"],
        ["Laplace has the smaller error", "δ of (ε, δ)", "½ and 2"],
        ["subtract, pure ε", "sqrt, published bound", "mean variance"],
        ["normalized-sqrt", "over γ²", "kary"],
        ["buffered", "cells in each of 5 rows", "lazy, float"],
        ["rolling-hats", "differences of running counts", "window w (steps)"],
        ["endless", "logarithmic perturbation", "step t"],
    ]) {
        let svg = String::from_utf8(first[&format!("{name}.svg")].clone()).unwrap();
        let tree = usvg::Tree::from_str(&svg, &usvg::Options::default()).unwrap();
        labels.iter().for_each(|label| assert!(svg.contains(label), "{name}: {label} is missing"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}: a coordinate is not a number");

        let picture = Pixmap::decode_png(&first[&format!("{name}.png")]).unwrap();
        assert_eq!(picture.width(), (tree.size().width() * 2.5).ceil() as u32);
        let colours: BTreeSet<u32> =
            picture.data().chunks(4).map(|p| u32::from_le_bytes(p.try_into().unwrap())).collect();
        let dark = picture.pixels().iter().filter(|p| p.red() < 100 && p.green() < 140).count();
        assert!(colours.len() > 50 && dark > 1000, "{name}: {} colours, {dark} dark pixels", colours.len());
    }

    draw(&bench, &["all", "--horizon", "100", "--timing", "1"]);
    let measured = |name: &str| name.starts_with("time-and-space") || name.starts_with("sketches");
    for (name, bytes) in first.iter().filter(|(name, _)| !measured(name)) {
        assert!(std::fs::read(bench.path("figures").join(name)).unwrap() == *bytes, "{name} differs");
    }
}

#[test]
fn variance_over_time_is_the_papers_figure() {
    let bench = Bench::new();
    draw(&bench, &["variance-over-time"]);
    let rows = rows(&bench, "figures/variance-over-time.csv");
    let families: BTreeSet<&String> = rows.iter().map(|row| &row["mechanism"]).collect();
    for family in MechanismName::FAMILIES.iter().filter(|family| family.is_searched_at(250)) {
        let gaussian = PlanRequest::count(250, Budget::Zcdp(Rho::new(0.5).unwrap()))
            .with_mechanism(*family)
            .with_noise(NoiseKind::Gaussian);
        // Hats could have Gaussian noise, but the planner offers them for Laplace noise only.
        let planned = gaussian.candidates().is_ok() && family.to_string() != "hats";
        assert_eq!(families.contains(&family.to_string()), planned, "{family}");
    }
    for row in &rows {
        let (step, variance) = (number(row, "step") as u64, number(row, "two_rho_variance"));
        match row["mechanism"].as_str() {
            // Height 10 with 5 zeros: every step has 5 · 5; from its covariance 16.76.
            "smooth" => {
                assert_eq!((row["resolved"].as_str(), variance), ("smooth(h=10,zeros=5)", 25.0));
                assert!((number(row, "two_rho_variance_exact") - 16.76).abs() < 0.005);
            }
            // Height 8: eight nodes per step, one for each one bit.
            "binary" => assert_eq!(variance, 8.0 * f64::from(step.count_ones())),
            _ => {}
        }
    }
    for family in ["honaker-online", "normalized-sqrt", "subtract"] {
        let own: Vec<_> = rows.iter().filter(|row| row["mechanism"] == family).collect();
        assert_eq!(own.len(), 250);
        let m = built(&own[0]["resolved"], 250);
        for (row, step) in own.iter().zip(1..) {
            let expected = m.column_norms().l2_squared * m.row_norm_squared(step);
            assert!(close(number(row, "two_rho_variance"), expected), "{row:?}: {expected}");
        }
    }
}

#[test]
fn figures_by_horizon_are_the_librarys() {
    let bench = Bench::new();
    for name in ["max-variance-by-horizon", "ratio-to-lower-bound", "pure-error-by-horizon"] {
        draw(&bench, &[name, "--horizon", "1000"]);
    }
    let maxima = rows(&bench, "figures/max-variance-by-horizon.csv");
    let ratios = rows(&bench, "figures/ratio-to-lower-bound.csv");
    let horizons: BTreeSet<u64> = maxima.iter().map(|row| number(row, "horizon") as u64).collect();
    assert_eq!(horizons, BTreeSet::from([2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]));
    for row in &maxima {
        let horizon = number(row, "horizon") as u64;
        let bound = gaussian_lower_bound(horizon).powi(2);
        let value = number(row, "two_rho_max_variance");
        if row["mechanism"] == "lower-bound" {
            assert_eq!(value, bound);
            continue;
        }
        let m = built(&row["resolved"], horizon);
        assert!(close(value, m.column_norms().l2_squared * m.max_row_norm_squared()), "{row:?}");
        let same =
            |other: &&HashMap<_, _>| other["horizon"] == row["horizon"] && other["mechanism"] == row["mechanism"];
        let ratio = number(ratios.iter().find(same).unwrap(), "ratio");
        assert!(close(ratio, value / bound) && ratio >= 1.0, "{row:?}: {ratio}");
    }
    let of = |mechanism: &str, column: &str| {
        let row = maxima.iter().find(|row| row["mechanism"] == mechanism && row["horizon"] == "16").unwrap();
        number(row, column)
    };
    // The shape that a plan takes has a larger column norm than the published one, and spends less.
    assert_eq!(of("smooth(shape=balanced)", "two_rho_max_variance_planned"), 9.0);
    assert_eq!(
        (of("smooth", "two_rho_max_variance"), of("honaker-online", "two_rho_max_variance")),
        (18.0, of("honaker-online", "two_rho_max_variance_planned"))
    );
    assert!(of("smooth", "two_rho_max_variance_planned") < 9.0);
    assert_eq!(of("smooth", "two_rho_max_variance_planned"), of("smooth", "two_rho_max_variance_exact"));
    let pure = rows(&bench, "figures/pure-error-by-horizon.csv");
    assert!(pure.iter().all(|row| row["mechanism"] != "sqrt"), "the square roots have no Laplace noise");
    for row in &pure {
        let m = built(&row["resolved"], number(row, "horizon") as u64);
        let s1 = m.column_norms().l1;
        let expected = 2.0 * s1 * s1 * m.mean_row_norm_squared();
        assert!(close(number(row, "epsilon_squared_mean_variance"), expected), "{row:?}: {expected}");
        // The best arity is never worse than the asymptotic one.
        if row["mechanism"] == "subtract(k=19)" {
            let best = pure.iter().find(|r| r["horizon"] == row["horizon"] && r["mechanism"] == "subtract").unwrap();
            assert!(number(best, "epsilon_squared_mean_variance") <= expected);
        }
    }
}

#[test]
fn the_crossover_is_the_planners() {
    let bench = Bench::new();
    draw(&bench, &["crossover", "--horizon", "50", "--epsilon", "0.5"]);
    let rows = rows(&bench, "figures/crossover.csv");
    assert_eq!(rows.len(), 6 * 24);
    for row in rows.iter().filter(|row| ["1e-1", "1e-6", "1e-24"].contains(&row["delta"].as_str())) {
        let horizon = number(row, "horizon") as u64;
        let delta = Delta::new(number(row, "delta")).unwrap();
        for law in ["laplace", "gaussian"] {
            let noise = if law == "laplace" { NoiseKind::Laplace } else { NoiseKind::Gaussian };
            let budget = Budget::Approximate(Epsilon::new(0.5).unwrap(), delta);
            let request = PlanRequest::count(horizon, budget).with_noise(noise);
            let all = request.candidates().unwrap();
            let best = all.iter().find(|c| !c.mechanism.name().family().stem.starts_with("dense")).unwrap();
            let ours = number(row, &format!("{law}_max_std"));
            assert!(close(ours, best.max_std_error), "{row:?}: {} {}", best.mechanism.name(), best.max_std_error);
        }
        assert!(close(number(row, "ratio"), number(row, "laplace_max_std") / number(row, "gaussian_max_std")));
    }
    // Gaussian noise is better at a large δ, Laplace noise at a tiny one.
    let ratio = |delta| number(rows.iter().find(|r| r["delta"] == delta && r["horizon"] == "50").unwrap(), "ratio");
    assert!(ratio("1e-1") > 1.0 && ratio("1e-24") < 1.0);
}

#[test]
fn time_and_space_really_runs() {
    let bench = Bench::new();
    draw(&bench, &["time-and-space", "--horizon", "300", "--timing", "2"]);
    let rows = rows(&bench, "figures/time-and-space.csv");
    let horizons: BTreeSet<u64> = rows.iter().map(|row| number(row, "horizon") as u64).collect();
    assert_eq!(horizons, BTreeSet::from([16, 64, 256, 300]));
    for row in &rows {
        let m = built(&row["resolved"], number(row, "horizon") as u64);
        assert_eq!(number(row, "memory_words") as u64, m.cost().memory_words);
        let (ns, steps) = (number(row, "ns_per_step"), number(row, "steps_timed"));
        assert!(ns > 1.0 && ns < 1e7 && steps >= 16.0, "{row:?}");
        assert_eq!(row["at_least"], "false");
    }
}

/// Noise on each step up to a width, hats for larger widths; no value is below the bound.
#[test]
fn windows_say_from_which_width_on_hats_win() {
    let bench = Bench::new();
    draw(&bench, &["pure-windows", "--horizon", "40"]);
    let rows = rows(&bench, "figures/pure-windows.csv");
    let value = |width: &str, way: &str| {
        let row = rows.iter().find(|row| row["width"] == width && row["way"] == way);
        row.unwrap()["epsilon_squared_max_variance"].parse::<f64>().unwrap()
    };
    for (width, hats_win) in [("2", false), ("7", false), ("13", false), ("14", true), ("40", true)] {
        let (steps, hats) = (value(width, "input"), value(width, "rolling-hats"));
        assert_eq!(steps, 2.0 * width.parse::<f64>().unwrap());
        assert_eq!(hats < steps, hats_win, "{width}");
        let least = steps.min(hats) * (1.0 - 1e-9);
        assert!(
            value(width, "differences of running counts") >= least && value(width, "lower bound") < least,
            "{width}"
        );
    }
}

#[test]
fn compare_has_stable_keys_and_the_librarys_figures() {
    let bench = Bench::new();
    let run = bench.run(&["compare", "--horizon", "250,40", "--timing", "1", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let comparisons: Value = serde_json::from_str(&run.stdout).unwrap();
    let keys = [
        "horizon",
        "mechanism",
        "best_for",
        "zcdp_leading_constant",
        "pure_leading_constant",
        "zcdp_max",
        "zcdp_mean",
        "zcdp_max_exact",
        "pure_max",
        "pure_mean",
        "above_lower_bound",
        "ns_per_step",
        "steps_timed",
        "time_is_at_least",
        "memory_words",
        "same_error_at_all_steps",
        "lazy",
    ];
    for (comparison, horizon) in comparisons.as_array().unwrap().iter().zip([250, 40]) {
        assert_eq!(comparison["horizon"], horizon);
        let bound = gaussian_lower_bound(horizon).powi(2);
        assert_eq!(comparison["lower_bound"], bound);
        for row in comparison["mechanisms"].as_array().unwrap() {
            let found: BTreeSet<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(found, BTreeSet::from(keys));
            let m = built(row["mechanism"].as_str().unwrap(), horizon);
            let (s1, s2) = (m.column_norms().l1, m.column_norms().l2_squared);
            let (max, mean) = (m.max_row_norm_squared(), m.mean_row_norm_squared());
            let figure = |key: &str| row[key].as_f64().unwrap();
            assert!(close(figure("zcdp_max"), s2 * max) && close(figure("zcdp_mean"), s2 * mean), "{row}");
            assert!(close(figure("above_lower_bound"), s2 * max / bound), "{row}");
            if let Some(pure) = row["pure_max"].as_f64() {
                assert!(close(pure, 2.0 * s1 * s1 * max) && close(figure("pure_mean"), 2.0 * s1 * s1 * mean), "{row}");
            }
            assert!(figure("ns_per_step") > 1.0, "{row}");
            let name = row["mechanism"].as_str().unwrap();
            let same = name == "output" || name.starts_with("smooth") || name.starts_with("path-sum");
            assert_eq!(row["same_error_at_all_steps"], same, "{row}");
        }
    }
    let rows = comparisons[0]["mechanisms"].as_array().unwrap();
    let named = |name: &str| rows.iter().find(|row| row["mechanism"] == name).unwrap();
    assert_eq!(named("smooth(h=10,zeros=5)")["zcdp_leading_constant"], 0.25);
    assert_eq!(named("binary")["zcdp_leading_constant"], 1.0);
    assert_eq!((&named("sqrt")["pure_max"], &named("sqrt")["best_for"]), (&Value::Null, &"gaussian".into()));
}

#[test]
fn compare_writes_a_table_or_a_file() {
    let bench = Bench::new();
    let args = ["compare", "--horizon", "64", "--timing", "0", "--mechanism", "binary", "--mechanism", "smooth"];
    let run = bench.run(&args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stdout.contains("T = 64") && run.stdout.contains("no factorization has 2ρ · max below"),
        "{}",
        run.stdout
    );
    let run = bench.run(&[&args[..], &["--csv", "table.csv"]].concat());
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let rows = rows(&bench, "table.csv");
    // The best shape of `smooth` depends on the law.
    let names: Vec<&str> = rows.iter().map(|row| row["mechanism"].as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!((names[0], rows[0]["ns_per_step"].as_str(), number(&rows[0], "zcdp_max")), ("binary", "", 42.0));
    assert_eq!(rows[0]["best_for"], "gaussian laplace");
    let shape = |law: &str| rows.iter().find(|row| row["best_for"] == law).unwrap()["mechanism"].clone();
    for (law, kind) in [("gaussian", NoiseKind::Gaussian), ("laplace", NoiseKind::Laplace)] {
        let budget = Budget::Pure(Epsilon::new(1.0).unwrap());
        let budget = if kind == NoiseKind::Laplace { budget } else { Budget::Zcdp(Rho::new(0.5).unwrap()) };
        let request = PlanRequest::count(64, budget)
            .with_mechanism(MechanismName::Smooth(ShapeChoice::Best))
            .with_noise(kind)
            .with_objective(Objective::Max);
        assert_eq!(shape(law), request.candidates().unwrap()[0].mechanism.name().to_string());
    }
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    let bench = Bench::new();
    bench.write("file", "x");
    let before = bench.files();
    for (args, word) in [
        (&["figure", "pie-chart", "--out", "figures"][..], "variance-over-time"),
        (&["figure", "crossover", "--out", "figures", "--horizon", "1"], "--horizon"),
        (&["figure", "variance-over-time", "--out", "figures", "--horizon", "1000000"], "--horizon"),
        (&["figure", "all", "--out", "figures", "--horizon", "1000000"], "variance-over-time"),
        (&["figure", "crossover", "--out", "figures", "--epsilon", "-1"], "--epsilon"),
        (&["figure", "crossover", "--out", "file"], "--out file"),
        (&["figure", "crossover", "--out", "no/such/folder"], "--out no/such/folder"),
        (&["figure", "crossover"], "--out"),
        (&["compare"], "--horizon"),
        (&["compare", "--horizon", "0"], "--horizon 0"),
        (&["compare", "--horizon", "ten"], "--horizon"),
        (&["compare", "--horizon", "9", "--mechanism", "magic"], "--mechanism"),
        (&["compare", "--horizon", "100", "--mechanism", "smooth(h=4,zeros=2)"], "--mechanism smooth"),
        (&["compare", "--horizon", "9", "--json", "--csv", "x.csv"], "--csv"),
        (&["compare", "--horizon", "9", "--csv", "no/x.csv"], "no/x.csv"),
        (&["compare", "--horizon", "0", "--csv", "x.csv"], "--horizon"),
    ] {
        let run = bench.run(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(word), "{args:?}: {}", run.stderr);
        assert_eq!(bench.files(), before, "{args:?} left files");
    }
}
