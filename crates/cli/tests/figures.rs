//! `mechanisms`, `plan` and `simulate`: the interfaces other programs rely on.

mod common;

use common::Bench;
use serde_json::Value;

fn json(bench: &Bench, args: &[&str]) -> Value {
    let run = bench.run(args);
    assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn mechanisms_prints_every_key_for_every_horizon() {
    let bench = Bench::new();
    let keys = [
        "mechanism",
        "s1",
        "s2",
        "zcdp_max",
        "zcdp_mean",
        "pure_max",
        "pure_mean",
        "s2_exact",
        "zcdp_max_exact",
        "zcdp_mean_exact",
        "time_per_step",
        "memory_words",
        "exact",
        "lazy",
    ];
    for horizon in ["1", "7", "1000", "1048576", "1099511627776"] {
        let rows = json(&bench, &["mechanisms", "--horizon", horizon, "--json"]);
        let rows = rows.as_array().unwrap();
        assert!(rows.len() >= 7, "{horizon}");
        for row in rows {
            keys.iter().for_each(|key| assert!(row.get(key).is_some(), "{key} is missing in {row}"));
            // The best weights of a path-sum tree under Gaussian noise are not made for Laplace noise.
            let gaussian_only = row["mechanism"] == "path-sum";
            assert_eq!((row["s1"].is_null(), row["pure_max"].is_null()), (gaussian_only, gaussian_only), "{row}");
            let s1 = row["s1"].as_f64().unwrap_or(f64::INFINITY);
            assert!(s1 >= row["s2"].as_f64().unwrap() * (1.0 - 1e-12));
            if let Some(exact) = row["s2_exact"].as_f64() {
                assert!(exact <= row["s2"].as_f64().unwrap() * (1.0 + 1e-12), "{row}");
            }
        }
    }
    let named = json(
        &bench,
        &["mechanisms", "--horizon", "1000", "--json", "--mechanism", "subtract(k=13)", "--mechanism", "smooth"],
    );
    assert_eq!((&named[0]["zcdp_max"], &named[1]["resolved"]), (&54.0.into(), &"smooth(h=13,zeros=5)".into()));
    let path_sum = json(&bench, &["mechanisms", "--horizon", "1024", "--json", "--mechanism", "path-sum(levels=unit)"]);
    assert!((path_sum[0]["zcdp_max_exact"].as_f64().unwrap() - 19.6986).abs() < 1e-4, "{path_sum}");
    for bad in [
        &["--horizon", "0"][..],
        &["--horizon", "9", "--mechanism", "magic"],
        &["--horizon", "9", "--mechanism", "kary(k=1)"],
    ] {
        assert_eq!(bench.run(&[&["mechanisms"], bad].concat()).code, 2, "{bad:?}");
    }
}

#[test]
fn plan_ranks_by_error_and_stays_above_the_bound() {
    let bench = Bench::new();
    for budget in [&["--rho", "0.5"][..], &["--epsilon", "1"], &["--epsilon", "1", "--delta", "1e-9"]] {
        for objective in ["max", "mean"] {
            let answer =
                json(&bench, &[&["plan", "--horizon", "500", "--objective", objective, "--json"], budget].concat());
            let figure = |row: &Value| row[&format!("{objective}_std")].as_f64().unwrap();
            let ranking = answer["ranking"].as_array().unwrap();
            assert!(ranking.windows(2).all(|pair| figure(&pair[0]) <= figure(&pair[1])));
            assert_eq!(answer["chosen"], ranking[0]);
            for row in ranking.iter().filter(|row| row["noise"]["law"] == "gaussian") {
                assert!(row["max_std"].as_f64().unwrap() >= answer["lower_bound_max_std"].as_f64().unwrap());
            }
        }
    }
    let twice = json(&bench, &["plan", "--horizon", "64", "--rho", "1", "--sensitivity", "2.5", "--json"]);
    let once = json(&bench, &["plan", "--horizon", "64", "--rho", "1", "--json"]);
    let std = |answer: &Value| {
        answer["ranking"].as_array().unwrap().iter().map(|r| r["max_std"].as_f64().unwrap()).sum::<f64>()
    };
    assert!((std(&twice) / std(&once) - 2.5).abs() < 1e-6);
    let lazy = json(&bench, &["plan", "--horizon", "500", "--rho", "1", "--lazy", "--json"]);
    assert!(lazy["ranking"].as_array().unwrap().iter().all(|row| row["lazy"] == true));
}

/// Rows of doubles after the header of a NumPy file.
fn matrix(bench: &Bench, name: &str, columns: usize) -> Vec<Vec<f64>> {
    let bytes = std::fs::read(bench.path(name)).unwrap();
    assert_eq!(&bytes[..6], b"\x93NUMPY");
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let numbers: Vec<f64> = bytes[start..].chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
    numbers.chunks(columns).map(<[f64]>::to_vec).collect()
}

#[test]
fn simulate_repeats_itself_and_reaches_single_steps() {
    let bench = Bench::new();
    let simulate = |out: &str, seed: &str, more: &[&str]| {
        let base = ["simulate", "--mechanism", "subtract(k=4)", "--rho", "0.5", "--paths", "50"];
        let run = bench.run(&[&base[..], &["--out", out, "--test-seed", seed], more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        std::fs::read(bench.path(out)).unwrap()
    };
    let all = simulate("a.npy", "1", &["--horizon", "30"]);
    assert!(all == simulate("b.npy", "1", &["--horizon", "30"]) && all != simulate("b.npy", "2", &["--horizon", "30"]));
    simulate("c.npy", "1", &["--horizon", "30", "--at", "3,17,30"]);
    let picked: Vec<Vec<f64>> = matrix(&bench, "a.npy", 30).iter().map(|row| vec![row[2], row[16], row[29]]).collect();
    assert_eq!(matrix(&bench, "c.npy", 3), picked);
    assert_eq!(picked.len(), 50);
    simulate("d.npy", "1", &["--horizon", "1099511627776", "--at", "1,549755813888,1099511627776"]);
    simulate("e.npy", "1", &["--horizon", "30", "--grid", "1"]);
    assert!(matrix(&bench, "e.npy", 30).iter().flatten().all(|x| x.fract() == 0.0));
    for bad in [
        &["--horizon", "30", "--at", "3,2"][..],
        &["--horizon", "30", "--at", "31"],
        &["--horizon", "30", "--grid", "3"],
    ] {
        let base =
            ["simulate", "--mechanism", "binary", "--rho", "1", "--paths", "1", "--out", "x.npy", "--test-seed", "1"];
        assert_eq!(bench.run(&[&base[..], bad].concat()).code, 2, "{bad:?}");
    }
    let huge = [
        "simulate",
        "--mechanism",
        "input",
        "--rho",
        "1",
        "--paths",
        "1",
        "--out",
        "x.npy",
        "--test-seed",
        "1",
        "--horizon",
        "1099511627776",
    ];
    let run = bench.run(&huge);
    assert!(run.code == 2 && run.stderr.contains("at most"), "{}", run.stderr);
    assert!(!bench.files().contains("x.npy"));
}

/// A matrix in the order of the file: columns first.
fn columns(bench: &Bench, file: &str, paths: usize) -> Vec<Vec<f64>> {
    let (header, entries) = bench.matrix(file);
    assert!(header.contains(&format!("'fortran_order': True, 'shape': ({paths}, ")), "{header}");
    entries.chunks(paths).map(<[f64]>::to_vec).collect()
}

/// For every sampling method and up to the longest horizon, lazy draws have the stated variance and repeat at a
/// repeated step. 2^14 values: 8 % are more than 7 standard errors.
#[test]
fn simulate_draws_lazily() {
    let bench = Bench::new();
    for (mechanism, sampling) in [
        ("path-sum", "float"),
        ("path-sum", "integer"),
        ("path-sum", "keyed"),
        ("normalized-blt", "float"),
        ("subtract(k=5)", "integer"),
    ] {
        let horizon = if mechanism == "normalized-blt" { 1u64 << 40 } else { 1 << 61 };
        let at = format!("1,4,5,5,{},{horizon}", horizon / 3);
        let base = ["simulate", "--lazy", "--paths", "16384", "--rho", "0.5", "--test-seed", "1", "--json"];
        let horizon = horizon.to_string();
        let more =
            ["--mechanism", mechanism, "--sampling", sampling, "--at", &at, "--horizon", &horizon, "--out", "x.npy"];
        let described = json(&bench, &[&base[..], &more].concat());
        assert_eq!((&described["sampling"], &described["steps"]), (&sampling.into(), &6.into()));
        let law = match (sampling, mechanism) {
            ("float", _) => "rounded Gaussian",
            ("integer", _) => "Skellam",
            _ => "discrete Gaussian",
        };
        assert_eq!(described["law"], law);
        let columns = columns(&bench, "x.npy", 16384);
        assert_eq!(columns[2], columns[3]);
        let name: evertally::mechanism::MechanismName = described["mechanism"].as_str().unwrap().parse().unwrap();
        let shape =
            evertally::mechanism::Criterion::new(evertally::plan::NoiseKind::Gaussian, evertally::plan::Objective::Max);
        let built = name.build(horizon.parse().unwrap(), &shape).unwrap();
        for (column, step) in columns.iter().zip(at.split(',')) {
            let want = described["noise_variance"].as_f64().unwrap() * built.row_norm_squared(step.parse().unwrap());
            let got = column.iter().map(|x| x * x).sum::<f64>() / 16384.0;
            assert!((got / want - 1.0).abs() < 0.08, "{mechanism} {sampling} at {step}: {got}, {want}");
        }
    }
    for (more, word) in [
        (&["--lazy"][..], "--at"),
        (&["--lazy", "--at", "1,2", "--mechanism", "honaker-online"], "does not support"),
        (&["--lazy", "--at", "2,1", "--mechanism", "binary"], "rising"),
        (&["--lazy", "--at", "1,10", "--mechanism", "binary"], "no step 10"),
        (&["--at", "2,2", "--mechanism", "binary"], "rising"),
        (&["--lazy", "--at", "1", "--sampling", "guess", "--mechanism", "binary"], "sampling"),
    ] {
        let base = ["simulate", "--paths", "5", "--rho", "0.5", "--test-seed", "1", "--horizon", "9", "--out", "y.npy"];
        let run = bench.run(&[&base[..], more].concat());
        assert!(run.code == 2 && run.stderr.contains(word), "{more:?}: {}", run.stderr);
    }
    assert!(!bench.files().contains("y.npy"));
}

/// A black-box test: the noise that `simulate` draws for a unit hides every pattern of that unit, and hides the worst
/// pattern no more than the budget requires. The covariance is estimated from 40,000 paths; the squared shift of one
/// pattern is then off by 0.7 % (one deviation), and the largest of a few hundred by less than 5 % at a level of 10⁻⁶.
#[test]
fn simulated_noise_hides_every_pattern_of_a_unit() {
    const STEPS: usize = 12;
    let bench = Bench::new();
    for (flags, total, per_step, gap, period) in [
        (&["--max-events", "3", "--max-events-per-step", "1"][..], 3, 1, 1, STEPS),
        (&["--max-events", "6", "--max-events-per-step", "2"], 6, 2, 1, STEPS),
        (&["--max-events", "4", "--max-events-per-step", "1", "--min-gap", "3"], 4, 1, 3, STEPS),
        (&["--max-events", "2", "--max-events-per-step", "1", "--per", "4"], 2, 1, 1, 4),
    ] {
        let base =
            ["simulate", "--horizon", "12", "--rho", "0.5", "--paths", "40000", "--out", "u.npy", "--test-seed", "7"];
        let run = bench.run(&[&base[..], flags].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let paths = matrix(&bench, "u.npy", STEPS);
        let factor = cholesky(&covariance(&paths));
        // The shift of the releases by a pattern, in units of the noise: |K⁻¹ A u|² with K Kᵀ = C.
        let squared = |counts: &[u64]| {
            let mut sum = 0.0;
            let shift: Vec<f64> = counts
                .iter()
                .map(|count| {
                    sum += *count as f64;
                    sum
                })
                .collect();
            let mut solved: Vec<f64> = vec![];
            for (row, shift) in factor.iter().zip(&shift) {
                let known: f64 = row.iter().zip(&solved).map(|(a, b)| a * b).sum();
                solved.push((shift - known) / row[solved.len()]);
            }
            solved.iter().map(|x| x * x).sum::<f64>()
        };
        let mut worst = 0.0f64;
        let mut open: Vec<Vec<u64>> = vec![vec![]];
        while let Some(counts) = open.pop() {
            if counts.len() == STEPS {
                worst = worst.max(squared(&counts));
                continue;
            }
            let last = counts.iter().rposition(|count| *count > 0);
            let other_period = last.is_some_and(|last| last / period != counts.len() / period);
            let near = last.is_some_and(|last| counts.len() - last < gap);
            let left = total - counts.iter().sum::<u64>();
            let most = if near || other_period { 0 } else { left.min(per_step) };
            open.extend((0..=most).map(|count| [&counts[..], &[count]].concat()));
        }
        // 2ρ = 1.
        assert!((0.9..1.05).contains(&worst), "{flags:?}: the worst pattern moves the releases by {worst}");
    }
}

fn covariance(paths: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let steps = paths[0].len();
    let entry = |i: usize, j: usize| paths.iter().map(|path| path[i] * path[j]).sum::<f64>() / paths.len() as f64;
    (0..steps).map(|i| (0..steps).map(|j| entry(i, j)).collect()).collect()
}

/// The lower triangle `K` of `K Kᵀ`.
fn cholesky(matrix: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut factor = vec![vec![0.0; matrix.len()]; matrix.len()];
    for i in 0..matrix.len() {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| factor[i][k] * factor[j][k]).sum();
            let rest = matrix[i][j] - known;
            factor[i][j] = if i == j { rest.sqrt() } else { rest / factor[j][j] };
        }
    }
    factor
}
