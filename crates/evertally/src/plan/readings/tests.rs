use super::*;
use crate::mechanism::{Banded, Mechanism, MechanismName, Participation};
use crate::noise::{GuardedKey, TestSeed};
use crate::plan::NoiseKind;
use crate::privacy::{Epsilon, Rho, Spread, Unit};
use crate::stream::RunningSum;

const TEXTS: [&str; 5] = ["sum", "window(3)", "window(7)", "decay(4)", "increments"];

fn mix(texts: &[&str]) -> Mix {
    let readings: Vec<(Workload, f64)> = texts.iter().map(|text| (text.parse().unwrap(), 1.0)).collect();
    Mix::new(&readings).unwrap()
}

fn request(horizon: u64, texts: &[&str]) -> PlanRequest {
    PlanRequest::count(horizon, Budget::Zcdp(Rho::new(0.5).unwrap())).with_mix(mix(texts))
}

/// `L_i R = W_i` with exactly the same `R`.
#[test]
fn all_workloads_are_read_from_the_same_integers() {
    const STEPS: usize = 24;
    for texts in [&TEXTS[..], &["window(5)", "window(2)"], &["sum", "decay(1)"], &["decay(2)", "decay(9)"]] {
        for runs in [Participation::ONCE, Participation::new(3, 2).unwrap()] {
            let mix = mix(texts);
            let read = |workload| Banded::from_mix(STEPS as u64, workload, &mix, runs).unwrap();
            let first = read(mix.readings()[0].0).dense().r;
            for workload in mix.workloads() {
                let (own, twin) = (read(workload), read(workload).dense());
                let product = twin.l.times(&first);
                for t in 0..STEPS {
                    for j in 0..STEPS {
                        let want = if j <= t { workload.coefficient((t - j) as u64) } else { 0.0 };
                        assert!((product.row(t)[j] - want).abs() < 1e-9, "{workload} {t} {j}");
                    }
                    let norm: f64 = twin.l.row(t).iter().map(|entry| entry * entry).sum();
                    assert!((own.row_norm_squared(t as u64 + 1) - norm).abs() < 1e-9, "{workload} {t}");
                }
            }
        }
    }
}

/// Streams of one name publish functions of the same noise: windows are differences of the running sums and steps are
/// windows of one, except for the last bit, which each rounds separately.
#[test]
fn releases_of_one_name_fit_together() {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(5));
    for (horizon, mechanism) in [(40, None), (40, Some("input")), (40, Some("honaker-online")), (2000, None)] {
        let texts = ["sum", "window(7)", "increments"];
        let request = request(horizon, &texts).with_optional_mechanism(mechanism.map(|name| name.parse().unwrap()));
        let plans = request.plan().unwrap().readings();
        let mut streams: Vec<RunningSum> =
            plans.iter().map(|plan| RunningSum::new(plan.clone(), &key, "s".parse().unwrap()).unwrap()).collect();
        let mut released: Vec<Vec<f64>> = Vec::new();
        for t in 0..60.min(horizon as i64) {
            let mut row = Vec::new();
            for stream in &mut streams {
                (0..t % 5).for_each(|_| stream.add(1).unwrap());
                row.push(stream.tick().unwrap().value());
            }
            released.push(row);
        }
        let sum = |t: usize| if t == 0 { 0.0 } else { released[t - 1][0] };
        for t in 1..=released.len() {
            let (window, step) = (sum(t) - sum(t.saturating_sub(7)), sum(t) - sum(t - 1));
            let row = &released[t - 1];
            assert!((row[1] - window).abs() < 0.01, "{mechanism:?}: window of {t}: {} and {window}", row[1]);
            assert!((row[2] - step).abs() < 0.01, "{mechanism:?}: step {t}: {} and {step}", row[2]);
        }
        let noise: f64 = released.iter().enumerate().map(|(t, row)| (row[2] - (t % 5) as f64).abs()).sum();
        assert!(noise > 1.0, "there is noise: {noise}");
    }
}

/// One release is never worse than a budget for each workload, and within one per cent of the optimum in the long run.
#[test]
fn one_release_is_better_than_two() {
    for (texts, horizon, most) in [
        (&["window(7)", "window(28)"][..], 1 << 40, 2.33),
        (&["window(24)", "window(168)", "window(720)"], 1 << 40, 3.87),
        (&["sum", "window(7)"], 365, 2.9),
        (&["sum", "window(7)", "window(28)"], 365, 4.5),
        (&["sum", "window(168)"], 8760, 2.8),
    ] {
        let readings = Readings::plan(request(horizon, texts)).unwrap();
        let (figure, divided) = (readings.figure(), readings.divided().unwrap());
        assert!(readings.is_one_release() && figure < most, "{texts:?}: {figure}");
        assert!((divided / (texts.len() as f64).powi(2) - 1.0).abs() < 1e-3, "{texts:?}: {divided}");
        let digests: Vec<_> = readings.plans().iter().map(Plan::digest).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]));
    }
}

/// A larger weight lowers the error of its workload.
#[test]
fn weights_count() {
    let with = |weight: f64| {
        let mix = Mix::new(&[(Workload::Window(7), weight), (Workload::Window(90), 1.0)]).unwrap();
        let budget = Budget::Zcdp(Rho::new(0.5).unwrap());
        let plans = PlanRequest::unbounded(budget).with_mix(mix).plan().unwrap().readings();
        (plans[0].max_std_error(), plans[1].max_std_error())
    };
    let (even, heavy) = (with(1.0), with(50.0));
    assert!(heavy.0 < even.0 * 0.95 && heavy.1 > even.1 * 1.05, "{even:?} {heavy:?}");
}

#[test]
fn what_no_release_serves_is_divided() {
    let budget = Budget::Zcdp(Rho::new(0.5).unwrap());
    let endless = PlanRequest::unbounded(budget).with_mix(mix(&["sum", "window(7)"]));
    assert!(endless.clone().plan().unwrap_err().to_string().contains("divide the budget"));
    let readings = Readings::plan(endless).unwrap();
    assert!(!readings.is_one_release());
    assert_eq!(readings.shares(), Some(&[0.5, 0.5][..]));
    let weeks = readings.plans()[1].variance(1000);
    assert!((weeks / 6.35 - 1.0).abs() < 0.02, "{weeks}");
    assert!(Readings::plan(PlanRequest::count(9, budget)).is_err());
    let twice = request(5, &["sum", "window(9)"]).plan().unwrap_err();
    assert!(twice.to_string().contains("omit one"), "{twice}");
}

/// Under pure ε, too: each reading of the best common release.
#[test]
fn pure_releases_are_mixed() {
    let budget = Budget::Pure(Epsilon::new(1.0).unwrap());
    let readings = Readings::plan(PlanRequest::count(365, budget).with_mix(mix(&["sum", "window(30)"]))).unwrap();
    assert_eq!(readings.plans()[0].noise_kind(), NoiseKind::Laplace);
    assert!(readings.figure() <= readings.divided().unwrap());
    println!("{} {:?}", readings.figure(), readings.divided());
}

/// Every pattern of a unit over a short horizon: the noise suffices for all readings together.
#[test]
fn units_by_enumeration() {
    const STEPS: u64 = 8;
    for (total, per_step) in [(1, 1), (3, 1), (4, 2), (8, 1)] {
        let unit = Unit::person(total).per_step(per_step);
        for mechanism in [None, Some(MechanismName::Banded(Participation::new(3, 1).unwrap(), None))] {
            let request = request(STEPS, &["sum", "window(3)", "increments"]).with_unit(unit);
            let plan = request.with_optional_mechanism(mechanism).plan().unwrap();
            let banded = plan.mechanism().dense().r;
            // For every reading, the protected integers are R x + z.
            let mut worst = 0.0f64;
            let spread = Spread::new(total, per_step);
            for pattern in 0..(per_step + 1).pow(STEPS as u32) {
                let u: Vec<u64> = (0..STEPS as u32).map(|t| pattern / (per_step + 1).pow(t) % (per_step + 1)).collect();
                if u.iter().sum::<u64>() > spread.total {
                    continue;
                }
                let row = |n: usize| banded.row(n).iter().zip(&u).map(|(r, u)| r * *u as f64).sum::<f64>();
                worst = worst.max((0..STEPS as usize).map(|n| row(n).powi(2)).sum());
            }
            let spent = worst / (2.0 * plan.node_variance());
            assert!(spent <= 0.5 * (1.0 + 1e-9), "{total} {per_step}: {spent}");
            assert!(total > 1 || spent > 0.49, "{spent}");
        }
    }
}

#[test]
fn plans_go_through_files() {
    let plan = request(365, &["sum", "window(7)"]).plan().unwrap();
    let text = toml::to_string(&plan).unwrap();
    assert!(text.contains("window(7)") && text.contains("banded"), "{text}");
    let read: Plan = toml::from_str(&text).unwrap();
    assert_eq!(read.digest(), plan.digest());
    assert_eq!(read.readings()[1].max_std_error(), plan.readings()[1].max_std_error());
    let heavier = text.replacen("weight = 1.0", "weight = 2.0", 1);
    assert!(heavier != text && toml::from_str::<Plan>(&heavier).is_err(), "other bands, which the name does not have");
}

/// The state of one reading is not valid for another.
#[test]
fn states_know_their_reading() {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(6));
    let plans = request(365, &["sum", "window(7)"]).plan().unwrap().readings();
    let name = || "s".parse().unwrap();
    for (own, other) in [(0, 1), (1, 0)] {
        let mut stream = RunningSum::new(plans[own].clone(), &key, name()).unwrap();
        for _ in 0..20 {
            stream.tick().unwrap();
        }
        let saved = stream.save();
        assert!(RunningSum::restore(plans[other].clone(), &key, name(), &saved).is_err());
        let mut restored = RunningSum::restore(plans[own].clone(), &key, name(), &saved).unwrap();
        assert_eq!(restored.tick().unwrap(), stream.tick().unwrap());
    }
}

/// Units with events in several steps: one release still gains, and is near the optimum.
#[test]
fn units_in_several_steps_gain_too() {
    for (texts, horizon, unit, most) in [
        (&["sum", "window(7)"][..], 365, Unit::person(30).per_step(2), 1.75),
        (&["window(7)", "window(28)"], 1 << 40, Unit::person(10).per_step(1), 1.5),
        (&["sum", "window(168)"], 8760, Unit::person(100).per_step(1), 1.75),
    ] {
        let readings = Readings::plan(request(horizon, texts).with_unit(unit)).unwrap();
        let over = readings.figure() / texts.len() as f64;
        println!("{texts:?} {over} {}", readings.plans()[0].mechanism().name().brief());
        assert!(readings.is_one_release() && over < most, "{texts:?}: {over}");
    }
}
