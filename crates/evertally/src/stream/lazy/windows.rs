//! Windows in lazy vectors: exact sums by brute force, noise by a cursor that goes step by step.

use super::*;
use crate::mechanism::Workload;
use crate::noise::{KeyedNoise, Purpose, TestSeed};
use crate::plan::PlanRequest;
use crate::privacy::{Budget, Epsilon, Rho, Values};

const HORIZON: u64 = 40;

fn key() -> GuardedKey {
    GuardedKey::insecure_from_test_seed(TestSeed(5))
}

fn plan(mechanism: &str, window: u64, budget: Budget) -> LazyPlan {
    let request = PlanRequest::count(HORIZON, budget).with_values(Values::Sum { lower: -4, upper: 4 });
    let request = request.with_workload(Workload::Window(window)).with_mechanism(mechanism.parse().unwrap());
    LazyPlan::new(request.plan().unwrap(), 1 << 20, LazySampling::Keyed).unwrap()
}

fn vector(plan: &LazyPlan) -> LazyVector {
    LazyVector::new(plan.clone(), &key(), "windows".parse().unwrap()).unwrap()
}

fn zcdp() -> Budget {
    Budget::Zcdp(Rho::new(0.5).unwrap())
}

/// Mechanisms, windows and laws.
fn plans() -> Vec<LazyPlan> {
    let pure = Budget::Pure(Epsilon::new(1.0).unwrap());
    let gaussian = [("input", 7), ("input", 1), ("path-sum", 7), ("smooth", 39), ("binary", 2)];
    let laplace = [("input", 7), ("subtract(k=3)", 12)];
    let gaussian = gaussian.map(|(mechanism, window)| plan(mechanism, window, zcdp()));
    gaussian.into_iter().chain(laplace.map(|(mechanism, window)| plan(mechanism, window, pure))).collect()
}

/// The addition of step `t` to a sum: many steps add nothing, and some add values that cancel.
fn added(coordinate: u64, step: u64) -> i64 {
    let mixed = (coordinate * 31 + step * 7) % 11;
    if mixed < 6 { 0 } else { mixed as i64 - 8 }
}

/// The release of a sum, from a brute-force window and a cursor that draws every step.
fn expected(plan: &LazyPlan, coordinate: u64, step: u64) -> i128 {
    let own = plan.plan();
    let width = own.mechanism().workload().reach(HORIZON);
    let exact: i64 = (step.saturating_sub(width) + 1..=step).map(|at| added(coordinate, at)).sum();
    let keyed =
        KeyedNoise::unrecorded(&key(), &"windows".parse().unwrap(), &own.digest(), Purpose::Sums).of_sum(coordinate);
    let mut cursor = own.mechanism().cursor();
    let mut noise = 0;
    for _ in 0..step {
        noise = cursor.advance(&mut |node| own.law().sample(&mut keyed.bits(node)));
    }
    (i128::from(exact) << own.fraction_bits()) + own.rounded_noise(noise)
}

fn add_all(vector: &mut LazyVector, step: u64) {
    for coordinate in 0..30u64 {
        match added(coordinate, step) {
            0 if coordinate % 3 == 0 => {
                vector.add(coordinate, 2).unwrap();
                vector.add(coordinate, -2).unwrap();
            }
            value => vector.add(coordinate, value).unwrap(),
        }
    }
}

/// Reads are windows with the noise of sum and step: in any order, once or often, of sums with and without events, one
/// by one, many at once, or without a state.
#[test]
fn reads_are_windows_with_noise_of_their_names() {
    for plan in plans() {
        let stateless = StatelessVector::new(plan.clone(), &key(), "windows".parse().unwrap()).unwrap();
        let mut vector = vector(&plan);
        for step in 1..=HORIZON {
            add_all(&mut vector, step);
            vector.tick().unwrap();
            if step % 3 == 1 {
                continue; // not read
            }
            let all = vector.read_many(&(0..32).collect::<Vec<_>>()).unwrap();
            for coordinate in [31, 0, 7, 29, 7, 12, 3] {
                let release = vector.read(coordinate).unwrap();
                assert_eq!(release, all[coordinate as usize]);
                if coordinate != 31 {
                    assert_eq!(release.exact(), expected(&plan, coordinate, step), "{plan:?}: {coordinate} at {step}");
                }
                let width = plan.plan().mechanism().workload().reach(HORIZON);
                let exact = |at| if coordinate < 30 { added(coordinate, at) } else { 0 };
                let sum = (step.saturating_sub(width) + 1..=step).map(exact).sum();
                assert_eq!(stateless.release(coordinate, step, sum).unwrap(), release);
            }
        }
    }
}

/// A vector that is saved at any step and restored continues identically; equal data have equal bytes, whatever was
/// read in between; quiet steps may be closed at once.
#[test]
fn states_go_on() {
    for plan in plans() {
        let (mut whole, mut parts) = (vector(&plan), vector(&plan));
        for step in 1..=HORIZON {
            if (10..25).contains(&step) {
                whole.tick().unwrap();
                if step == 24 {
                    parts.tick_through(24).unwrap();
                }
                continue;
            }
            add_all(&mut whole, step);
            add_all(&mut parts, step);
            let name = "windows".parse().unwrap();
            parts = LazyVector::restore(plan.clone(), &key(), name, &parts.save()).unwrap();
            whole.tick().unwrap();
            parts.tick().unwrap();
            assert_eq!(parts.save(), whole.save(), "step {step}");
            for coordinate in [3, 17, 31] {
                assert_eq!(parts.read(coordinate).unwrap(), whole.read(coordinate).unwrap());
            }
        }
        let state = whole.save();
        for place in (0..state.len()).step_by(5) {
            let mut damaged = state.clone();
            damaged[place] ^= 1;
            assert!(LazyVector::restore(plan.clone(), &key(), "windows".parse().unwrap(), &damaged).is_err());
        }
    }
}

/// Totals that have left the window are removed.
#[test]
fn memory_is_that_of_the_window() {
    let plan = plan("input", 4, zcdp());
    let mut vector = vector(&plan);
    for step in 1..=HORIZON {
        (0..100).for_each(|number| vector.add(1000 * step + number, 1).unwrap());
        vector.tick().unwrap();
        assert!(vector.recent.as_ref().unwrap().save(step).len() <= 400);
        assert!(vector.memory_bytes() < 200_000, "{}", vector.memory_bytes());
    }
}

/// Noise over many sums has the variance of the plan: a ratio off by 2 % is ten standard deviations of a mean of
/// squares.
#[test]
fn noise_has_the_variance_of_the_plan() {
    const SUMS: u64 = 100_000;
    for plan in [plan("input", 7, zcdp()), plan("path-sum", 7, zcdp())] {
        let mut vector = vector(&plan);
        vector.tick_through(23).unwrap();
        let releases = vector.read_many(&(0..SUMS).collect::<Vec<_>>()).unwrap();
        let mean = releases.iter().map(|release| release.value().powi(2)).sum::<f64>() / SUMS as f64;
        let ratio = mean / plan.std_error(23).powi(2);
        assert!((ratio - 1.0).abs() < 4.0 * (2.0 / SUMS as f64).sqrt(), "{ratio}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let request = |workload| PlanRequest::count(HORIZON, zcdp()).with_workload(workload);
    let week = request(Workload::Window(7));
    for sampling in [LazySampling::Float, LazySampling::Integer] {
        let refusal = LazyPlan::new(week.clone().plan().unwrap(), 5, sampling).unwrap_err().to_string();
        assert!(refusal.contains("window(7)") && refusal.contains("keyed"), "{refusal}");
    }
    let banded = week.clone().with_mechanism("banded".parse().unwrap()).plan().unwrap();
    let refusal = LazyPlan::new(banded, 5, LazySampling::Keyed).unwrap_err().to_string();
    assert!(refusal.contains("banded") && refusal.contains("all earlier steps"), "{refusal}");
    let decay = request(Workload::Decay(5)).plan().unwrap();
    assert!(LazyPlan::new(decay, 5, LazySampling::Keyed).is_err());
    let mix = crate::mechanism::Mix::new(&[(Workload::Sum, 1.0), (Workload::Window(7), 1.0)]).unwrap();
    let both = request(Workload::Sum).with_mix(mix).plan().unwrap();
    assert!(LazyPlan::new(both, 5, LazySampling::Keyed).unwrap_err().to_string().contains("one workload"));
    // For windows of a week, noise on each step is best.
    let best = LazyPlan::best(week.clone(), 5, LazySampling::Keyed).unwrap();
    assert_eq!(best.plan().mechanism().name().to_string(), "input");
    let long =
        LazyPlan::best(PlanRequest::count(1 << 40, zcdp()).with_workload(Workload::Window(7)), 5, LazySampling::Keyed);
    assert_eq!(long.unwrap().plan().mechanism().name().to_string(), "input");
    // A window as long as the horizon is the running sum.
    let all = LazyPlan::best(request(Workload::Window(HORIZON)), 5, LazySampling::Float).unwrap();
    assert!(all.plan().mechanism().workload().is_sum());
}
