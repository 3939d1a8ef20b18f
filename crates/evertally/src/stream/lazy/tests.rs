//! Lazy noise compared with the dense covariance of its mechanism, and the vector around it.

use super::cells::Sampler;
use super::path::{Path, PathSampler};
use super::*;
use crate::mechanism::{Criterion, Mechanism, MechanismName, NoiseKind, Objective};
use crate::noise::bridge::Bridge;
use crate::noise::{RandomBits, TestSeed};
use crate::plan::PlanRequest;
use crate::privacy::{Budget, Epsilon, Rho};
use std::sync::Mutex;

fn key(seed: u64) -> GuardedKey {
    GuardedKey::insecure_from_test_seed(TestSeed(seed))
}

fn named(mechanism: &str, horizon: u64) -> std::sync::Arc<dyn Mechanism> {
    mechanism
        .parse::<MechanismName>()
        .unwrap()
        .build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max))
        .unwrap()
}

/// Brownian motion in exact algebra: a value is an index of a table of rows of coefficients, one for every normal
/// drawn. Covariances of rows are covariances of values.
#[derive(Default)]
struct Algebra {
    rows: Mutex<(Vec<Vec<f64>>, usize)>,
}

impl Algebra {
    fn push(&self, mut row: Vec<f64>, variance: f64) -> usize {
        let mut rows = self.rows.lock().unwrap();
        row.resize(rows.1 + 1, 0.0);
        row[rows.1] = variance.sqrt();
        rows.1 += 1;
        rows.0.push(row);
        rows.0.len() // 0 is the origin
    }

    fn row(&self, value: usize) -> Vec<f64> {
        if value == 0 { vec![] } else { self.rows.lock().unwrap().0[value - 1].clone() }
    }

    fn covariance(&self, a: usize, b: usize) -> f64 {
        self.row(a).iter().zip(&self.row(b)).map(|(x, y)| x * y).sum()
    }
}

impl Bridge for Algebra {
    const EXACT: bool = true;
    type Value = usize;
    const ORIGIN: usize = 0;

    fn extend(&self, from: usize, length: u64, _bits: &mut impl RandomBits) -> usize {
        self.push(self.row(from), length as f64)
    }

    fn split(&self, from: usize, to: usize, near: u64, far: u64, _bits: &mut impl RandomBits) -> usize {
        let (mut low, mut high) = (self.row(from), self.row(to));
        let length = low.len().max(high.len());
        low.resize(length, 0.0);
        high.resize(length, 0.0);
        let (near, far) = (near as f64, far as f64);
        let mixed = low.iter().zip(&high).map(|(a, b)| a + near / (near + far) * (b - a)).collect();
        self.push(mixed, near * far / (near + far))
    }

    fn noise(&self, value: usize) -> i128 {
        value as i128
    }
}

struct NoBits;

impl RandomBits for NoBits {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        unreachable!("the algebra draws nothing")
    }
}

/// The covariances of the reads at these steps.
fn assert_covariance(mechanism: &dyn Mechanism, steps: &[u64]) {
    let sampler = PathSampler {
        walk: mechanism.lazy().and_then(crate::mechanism::Lazy::into_walk).unwrap(),
        bridge: Algebra::default(),
    };
    let mut path = Path::default();
    let values: Vec<usize> = steps.iter().map(|t| sampler.noise(&mut path, *t, || NoBits) as usize).collect();
    let row = |step: u64| {
        let mut row = std::collections::BTreeMap::new();
        mechanism.visit_row(step, &mut |node, weight| {
            row.insert(node, weight);
        });
        row
    };
    let rows: Vec<_> = steps.iter().map(|t| row(*t)).collect();
    for (i, a) in rows.iter().enumerate() {
        for (j, b) in rows.iter().enumerate() {
            let want: f64 = a.iter().filter_map(|(node, x)| b.get(node).map(|y| x * y)).sum();
            let got = sampler.bridge.covariance(values[i], values[j]);
            let place = format!("{}: steps {} and {} of {steps:?}", mechanism.name(), steps[i], steps[j]);
            assert!((got - want).abs() < 1e-9 * (1.0 + want.abs()), "{place}: {got} is not {want}");
        }
    }
}

/// Every pattern of reads over a short horizon, for every mechanism with a walk; the erratum's pattern 1, 4, 5 is among
/// them.
#[test]
fn every_pattern_of_reads_has_the_covariance_of_the_mechanism() {
    for name in [
        "path-sum(levels=unit)",
        "path-sum",
        "path-sum(levels=3:1:2:5)",
        "binary",
        "kary(k=3)",
        "kary(k=4)",
        "subtract(k=3)",
        "subtract(k=4)",
        "subtract(k=5)",
        "smooth",
        "smooth(h=6,zeros=3)",
        "output",
    ] {
        for horizon in [1, 2, 5, 11, 13, 16] {
            let built = name
                .parse::<MechanismName>()
                .unwrap()
                .build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max));
            let Ok(mechanism) = built else { continue }; // weights and shapes of another horizon
            let most = if horizon > 13 { 4 } else { horizon as u32 };
            for pattern in (1u32..1 << horizon).filter(|pattern| pattern.count_ones() <= most) {
                let steps: Vec<u64> = (1..=horizon).filter(|t| pattern >> (t - 1) & 1 == 1).collect();
                assert_covariance(&*mechanism, &steps);
            }
        }
    }
}

/// Random patterns over horizons up to 2^62, with repeated steps, short and long gaps and the end.
#[test]
fn long_horizons_and_gaps_have_the_covariance_of_the_mechanism() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 1
    };
    for (name, bits) in [
        ("path-sum", 62),
        ("path-sum(levels=unit)", 62),
        ("path-sum", 20),
        ("binary", 62),
        ("kary(k=7)", 40),
        ("subtract(k=13)", 40),
        ("subtract(k=4)", 62),
        ("smooth", 30),
        ("smooth", 62),
    ] {
        for horizon in [1u64 << bits, (1 << bits) - 1, (1 << bits) / 5 * 3] {
            let mechanism = named(name, horizon);
            for _ in 0..20 {
                let mut steps: Vec<u64> = (0..25)
                    .map(|_| match random() % 4 {
                        0 => 1 + random() % horizon,
                        1 => 1 + random() % 100,
                        2 => horizon - random() % 100,
                        _ => horizon / 2 + random() % 1000,
                    })
                    .collect();
                steps.push(steps[3]);
                steps.extend([1, horizon]);
                steps.sort_unstable();
                assert_covariance(&*mechanism, &steps);
            }
        }
    }
}

fn lazy(mechanism: &str, horizon: u64, budget: Budget, coordinates: u64, sampling: LazySampling) -> LazyPlan {
    let request = PlanRequest::count(horizon, budget).with_mechanism(mechanism.parse().unwrap());
    LazyPlan::new(request.plan().unwrap(), coordinates, sampling).unwrap()
}

fn gaussian() -> Budget {
    Budget::Zcdp(Rho::new(0.5).unwrap())
}

fn pure() -> Budget {
    Budget::Pure(Epsilon::new(0.5).unwrap())
}

/// Variances and covariances of the releases of many coordinates, compared with those of the plan. Significance level
/// below 10^-6 for each mechanism: 28 entries at 6 standard deviations.
#[test]
fn releases_have_the_covariance_of_the_plan() {
    let steps = [1u64, 4, 5, 6, 40, 41, 100];
    let count = 40_000u64;
    for (mechanism, budget, sampling) in [
        ("path-sum", gaussian(), LazySampling::Float),
        ("subtract(k=5)", gaussian(), LazySampling::Float),
        ("smooth", gaussian(), LazySampling::Float),
        ("blt", gaussian(), LazySampling::Float),
        ("normalized-blt", gaussian(), LazySampling::Float),
        ("subtract(k=5)", pure(), LazySampling::Float),
        ("binary", pure(), LazySampling::Float),
        ("path-sum", gaussian(), LazySampling::Keyed),
        ("subtract(k=5)", pure(), LazySampling::Keyed),
        ("path-sum", gaussian(), LazySampling::Integer),
        ("subtract(k=5)", gaussian(), LazySampling::Integer),
        ("subtract(k=5)", pure(), LazySampling::Integer),
        ("path-sum", pure(), LazySampling::Integer),
    ] {
        let plan = lazy(mechanism, 100, budget, count, sampling);
        let mut vector = LazyVector::new(plan.clone(), &key(7), "vector".parse().unwrap()).unwrap();
        let mut values = vec![vec![]; steps.len()];
        for (place, step) in steps.into_iter().enumerate() {
            vector.tick_through(step).unwrap();
            values[place] = (0..count).map(|c| vector.read(c).unwrap().value()).collect();
        }
        let node = plan.plan().node_variance() * (plan.std_error(7) / plan.plan().std_error(7)).powi(2);
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate().take(i + 1) {
                let mut want = 0.0;
                let mechanism = plan.plan().mechanism();
                mechanism.visit_row(steps[i], &mut |node, x| {
                    mechanism.visit_row(steps[j], &mut |other, y| want += if node == other { x * y } else { 0.0 });
                });
                want *= node;
                let products: Vec<f64> = a.iter().zip(b).map(|(x, y)| x * y).collect();
                let mean = products.iter().sum::<f64>() / count as f64;
                let spread = products.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / count as f64;
                let error = (spread / count as f64).sqrt();
                let place = format!("{} {sampling}: steps {} and {}", mechanism.name(), steps[i], steps[j]);
                // Rounding to 1/256 adds less than 10^-5.
                assert!((mean - want).abs() < 6.0 * error + 1e-5, "{place}: {mean} is not {want}");
                assert!(i != j || (mean / want - 1.0).abs() < 0.1, "{place}: {mean} is not {want}");
            }
        }
        if sampling == LazySampling::Keyed {
            assert_eq!(vector.touched(), 0);
        } else {
            assert_eq!(vector.touched() as u64, count);
        }
    }
}

/// A keyed vector's sums are the running sums of the same mechanism, sampled one step after the other.
#[test]
fn keyed_reads_are_those_of_the_sequential_sampler() {
    for (mechanism, budget) in [
        ("path-sum", gaussian()),
        ("path-sum", pure()),
        ("smooth", gaussian()),
        ("subtract(k=4)", pure()),
        ("consistent(k=3)", pure()),
    ] {
        let request = PlanRequest::count(60, budget).with_mechanism(mechanism.parse().unwrap());
        let Ok(plan) = LazyPlan::new(request.plan().unwrap(), 10, LazySampling::Keyed) else {
            assert!(mechanism.starts_with("consistent"));
            continue;
        };
        let name: StreamName = "vector".parse().unwrap();
        let mut vector = LazyVector::new(plan.clone(), &key(3), name.clone()).unwrap();
        let keyed =
            crate::noise::KeyedNoise::unrecorded(&key(3), &name, &plan.plan().digest(), crate::noise::Purpose::Sums);
        let stateless = StatelessVector::new(plan.clone(), &key(3), name.clone()).unwrap();
        let mut cursors: Vec<_> = (0..10).map(|c| (keyed.for_sum(c), plan.plan().mechanism().cursor())).collect();
        for step in 1..=60 {
            vector.tick().unwrap();
            for (c, (noise, cursor)) in cursors.iter_mut().enumerate() {
                let sequential = cursor.advance(&mut |node| plan.plan().law().sample(&mut noise.bits(node)));
                let read = vector.read(c as u64).unwrap();
                assert_eq!(read.multiple, plan.plan().rounded_noise(sequential), "{mechanism} {c} at {step}");
                assert_eq!(stateless.release(c as u64, step, 0).unwrap(), read);
            }
        }
        let release = |coordinate, step| stateless.release(coordinate, step, 5);
        assert_eq!(release(3, 60).unwrap().multiple - vector.read(3).unwrap().multiple, 5 << plan.fraction_bits());
        for (coordinate, step, range) in [(10, 1, "0 to 9"), (0, 0, "1 to 60"), (0, 61, "1 to 60")] {
            let refused = release(coordinate, step).unwrap_err().to_string();
            assert!(refused.contains(&format!("numbered {range}")), "{refused}");
        }
    }
}

/// Reads of earlier steps are those made when the step was the last one, in any order, also after a restart.
#[test]
fn a_history_repeats_all_reads() {
    for (mechanism, budget) in [("path-sum", gaussian()), ("smooth", pure())] {
        let plan = lazy(mechanism, 50, budget, 20, LazySampling::Keyed).with_history().unwrap();
        let name: StreamName = "vector".parse().unwrap();
        let mut vector = LazyVector::new(plan.clone(), &key(3), name.clone()).unwrap();
        let mut reads = vec![];
        for step in [1u64, 2, 7, 8, 30, 49] {
            vector.add(step % 4, 1).unwrap();
            vector.tick_through(step).unwrap();
            reads.extend((0..4).map(|c| (c, step, vector.read(c).unwrap())));
        }
        let state = vector.save();
        let restored = LazyVector::restore(plan.clone(), &key(3), name.clone(), &state).unwrap();
        assert_eq!(restored.save(), state);
        for mut vector in [vector, restored] {
            for (coordinate, step, release) in reads.iter().rev() {
                assert_eq!(vector.read_at(*coordinate, *step).unwrap(), *release, "{mechanism}");
            }
            let stateless = StatelessVector::new(plan.clone(), &key(3), name.clone()).unwrap();
            // The second event was added to the step after 8.
            for (step, sum) in [(3, 1), (8, 1), (9, 2), (29, 2)] {
                assert_eq!(vector.read_at(2, step).unwrap(), stateless.release(2, step, sum).unwrap());
            }
            assert!(vector.memory_bytes() > 6 * 16 && vector.read_at(20, 3).is_err());
            for (step, says) in [(0, "1 to 49"), (50, "1 to 49")] {
                assert!(vector.read_at(1, step).unwrap_err().to_string().contains(says));
            }
        }
        let without = lazy(mechanism, 50, budget, 20, LazySampling::Keyed);
        assert!(LazyVector::restore(without.clone(), &key(3), name.clone(), &state).is_err());
        let mut without = LazyVector::new(without, &key(3), name).unwrap();
        without.tick_through(9).unwrap();
        assert!(without.read_at(1, 8).unwrap_err().to_string().contains("history"));
        assert_eq!(without.read_at(1, 9).unwrap(), without.read(1).unwrap());
    }
    assert!(lazy("path-sum", 50, gaussian(), 20, LazySampling::Float).with_history().is_err());
}

/// Reads are exact sums plus noise; states are restored bit for bit; nothing depends on the order of coordinates.
#[test]
fn vectors_add_up_and_come_back() {
    for (mechanism, budget, sampling) in [
        ("path-sum", gaussian(), LazySampling::Float),
        ("normalized-blt", gaussian(), LazySampling::Float),
        ("subtract(k=5)", pure(), LazySampling::Float),
        ("path-sum", gaussian(), LazySampling::Keyed),
        ("path-sum", gaussian(), LazySampling::Integer),
        ("subtract(k=5)", pure(), LazySampling::Integer),
    ] {
        let plan = lazy(mechanism, 1000, budget, 1 << 40, sampling);
        let name: StreamName = "vector".parse().unwrap();
        let mut silent = LazyVector::new(plan.clone(), &key(1), name.clone()).unwrap();
        let mut vector = LazyVector::new(plan.clone(), &key(1), name.clone()).unwrap();
        let coordinates = [0, 5, 77, (1 << 40) - 1];
        for step in [1u64, 2, 3, 50, 51, 700, 1000] {
            vector.add(5, 1).unwrap();
            vector.add((1 << 40) - 1, 1).unwrap();
            vector.tick_through(step).unwrap();
            silent.tick_through(step).unwrap();
            let sums: Vec<i128> = coordinates
                .iter()
                .map(|c| {
                    (vector.read(*c).unwrap().multiple - silent.read(*c).unwrap().multiple) >> plan.fraction_bits()
                })
                .collect();
            let events = [1u64, 2, 3, 50, 51, 700, 1000].iter().position(|t| *t == step).unwrap() as i128 + 1;
            assert_eq!(sums, [0, events, 0, events]);
            // Other coordinates and another order change nothing; the state is restored.
            let saved = vector.save();
            let mut back = LazyVector::restore(plan.clone(), &key(1), name.clone(), &saved).unwrap();
            assert_eq!(back.save(), saved);
            for c in coordinates.iter().rev() {
                assert_eq!(back.read(*c).unwrap(), vector.read(*c).unwrap());
            }
            back.read(1234).unwrap();
            vector = back;
        }
        assert!(vector.tick().unwrap_err().is_horizon_exhausted());
        assert!(vector.add(1, 1).unwrap_err().is_horizon_exhausted());
    }
}

#[test]
fn states_are_checked() {
    let plan = lazy("path-sum", 100, gaussian(), 10, LazySampling::Float);
    let name: StreamName = "vector".parse().unwrap();
    let mut vector = LazyVector::new(plan.clone(), &key(1), name.clone()).unwrap();
    vector.tick().unwrap();
    vector.read(3).unwrap();
    let saved = vector.save();
    let restore =
        |plan: &LazyPlan, seed, saved: &[u8]| LazyVector::restore(plan.clone(), &key(seed), name.clone(), saved);
    assert!(restore(&plan, 1, &saved).is_ok());
    for place in 0..saved.len() {
        let mut damaged = saved.clone();
        damaged[place] ^= 4;
        assert!(restore(&plan, 1, &damaged).unwrap_err().is_state(), "byte {place}");
    }
    assert!(restore(&plan, 2, &saved).unwrap_err().to_string().contains("another key"));
    let other = lazy("path-sum", 100, gaussian(), 11, LazySampling::Float);
    assert!(restore(&other, 1, &saved).unwrap_err().to_string().contains("another kind"));
    let keyed = lazy("path-sum", 100, gaussian(), 10, LazySampling::Keyed);
    assert!(restore(&keyed, 1, &saved).unwrap_err().to_string().contains("another kind"));
    let stream = crate::stream::RunningSum::new(plan.plan().clone(), &key(1), name.clone()).unwrap();
    assert!(restore(&plan, 1, &stream.save()).unwrap_err().to_string().contains("that of a stream"));
}

#[test]
fn bad_input_changes_nothing() {
    let request = PlanRequest::count(9, gaussian()).with_sums_per_event(2).with_mechanism("path-sum".parse().unwrap());
    let plan = LazyPlan::new(request.plan().unwrap(), 10, LazySampling::Float).unwrap();
    let mut vector = LazyVector::new(plan, &key(1), "vector".parse().unwrap()).unwrap();
    assert!(vector.read(0).unwrap_err().to_string().contains("before the first step"));
    vector.add_event(&[(0, 1), (9, 1)]).unwrap();
    let before = vector.save();
    for (parts, word) in [
        (vec![(0, 1), (1, 1), (2, 1)], "2 running sums"),
        (vec![(10, 1)], "numbered 0 to 9"),
        (vec![(1, 1), (1, 1)], "twice"),
        (vec![(1, 2)], "bounds"),
    ] {
        assert!(vector.add_event(&parts).unwrap_err().to_string().contains(word), "{parts:?}");
    }
    assert!(vector.tick_through(0).is_err());
    assert!(vector.tick_through(10).unwrap_err().is_horizon_exhausted());
    assert_eq!(vector.save(), before);
    assert!(vector.read(10).is_err());
    let of = |mechanism: &str, sampling| {
        let request = PlanRequest::count(9, gaussian()).with_mechanism(mechanism.parse().unwrap());
        LazyPlan::new(request.plan().unwrap(), 10, sampling)
    };
    assert!(of("honaker-online", LazySampling::Float).unwrap_err().to_string().contains("not a sum along the paths"));
    assert!(of("sqrt", LazySampling::Keyed).unwrap_err().to_string().contains("random access"));
    let request = PlanRequest::count(9, gaussian()).with_mechanism("path-sum".parse().unwrap());
    for coordinates in [0, (1 << 40) + 1] {
        assert!(LazyPlan::new(request.clone().plan().unwrap(), coordinates, LazySampling::Keyed).is_err());
    }
}

/// Sums that would not fit are refused when they are added, and nothing is lost.
#[test]
fn overflow_is_refused_at_once() {
    let values = crate::privacy::Values::Sum { lower: -(1 << 57), upper: 1 << 57 };
    let request = PlanRequest::count(9, Budget::Pure(Epsilon::new(20.0).unwrap()))
        .with_values(values)
        .with_mechanism("binary".parse().unwrap())
        .with_grid(crate::number::Grid::ONE);
    let plan = LazyPlan::new(request.plan().unwrap(), 10, LazySampling::Keyed).unwrap();
    let mut vector = LazyVector::new(plan, &key(1), "vector".parse().unwrap()).unwrap();
    (0..63).for_each(|_| vector.add(0, 1 << 57).unwrap());
    vector.add(0, (1 << 57) - 1).unwrap();
    vector.tick().unwrap();
    assert!(vector.add(0, 1).unwrap_err().is_overflow());
    vector.add(0, -5).unwrap();
    vector.add(0, 5).unwrap();
    assert!(vector.add(0, 1).unwrap_err().is_overflow());
    vector.tick().unwrap();
    let saved = vector.save();
    assert!(LazyVector::restore(vector.plan().clone(), &key(1), "vector".parse().unwrap(), &saved).is_ok());
}

/// Floating-point noise is refused if its gaps would show, and its units are never finer than it can fill.
#[test]
fn floating_point_noise_keeps_to_its_digits() {
    let of = |upper: i64, sampling| {
        let values = crate::privacy::Values::Sum { lower: 0, upper };
        let request =
            PlanRequest::count(1 << 20, gaussian()).with_values(values).with_mechanism("path-sum".parse().unwrap());
        LazyPlan::new(request.plan().unwrap(), 10, sampling)
    };
    assert_eq!(of(1, LazySampling::Float).unwrap().fraction_bits(), 8);
    let plan = of(1 << 20, LazySampling::Float).unwrap();
    assert!((1..8).contains(&plan.fraction_bits()));
    let units = plan.std_error(1) * 2f64.powi(plan.fraction_bits() as i32);
    assert!((2f64.powi(24)..2f64.powi(27)).contains(&units));
    assert_eq!(of(1 << 28, LazySampling::Float).unwrap().fraction_bits(), 0);
    assert!(of(1 << 40, LazySampling::Float).unwrap_err().to_string().contains("coarsen the grid"));
    assert!(of(1 << 40, LazySampling::Keyed).is_ok());
}

/// The standard error is that of the drawn noise, also if it is small compared with the grid.
#[test]
fn standard_errors_are_those_of_the_noise() {
    for (mechanism, budget) in [
        ("binary", Budget::Pure(Epsilon::new(20.0).unwrap())),
        ("binary", Budget::Zcdp(Rho::new(10.0).unwrap())),
        ("path-sum", Budget::Zcdp(Rho::new(10.0).unwrap())),
    ] {
        for sampling in [LazySampling::Float, LazySampling::Integer, LazySampling::Keyed] {
            let plan = lazy(mechanism, 3, budget, 100_000, sampling);
            let mut vector = LazyVector::new(plan.clone(), &key(11), "vector".parse().unwrap()).unwrap();
            vector.tick().unwrap();
            let squares: f64 = (0..100_000).map(|c| vector.read(c).unwrap().value().powi(2)).sum();
            let (got, want) = ((squares / 1e5).sqrt(), plan.std_error(1));
            // Within 6 standard errors of a law whose fourth moment is at most 10^4 times the square of the second.
            let allowed = if want < 0.02 { 0.6 } else { 0.04 };
            assert!((got / want - 1.0).abs() < allowed, "{mechanism} {budget:?} {sampling}: {got}, {want}");
        }
    }
}

/// The budget covers all sums of an event: noise of `r` sums has `r` times the variance under zCDP, `r` times the scale
/// under pure ε.
#[test]
fn events_in_several_sums_cost_more_noise() {
    for (budget, power) in [(gaussian(), 1), (pure(), 2)] {
        let of = |sums_per_event| {
            let mechanism = if power == 1 { "path-sum" } else { "subtract(k=5)" };
            let request = PlanRequest::count(100, budget)
                .with_sums_per_event(sums_per_event)
                .with_mechanism(mechanism.parse().unwrap());
            let plan = request.plan().unwrap();
            (plan.node_variance(), plan.noise_divisor())
        };
        for sums in [2u64, 5] {
            let ((several, grid), (one, grid_of_one)) = (of(sums), of(1));
            let ratio = several / one / (sums as f64).powi(power);
            assert!((ratio - 1.0).abs() < 1e-2, "{sums}: {ratio}");
            // The grid follows from the size of an event in one sum.
            assert_eq!(grid, grid_of_one);
        }
    }
    let none = PlanRequest::count(100, gaussian()).with_sums_per_event(0);
    assert!(none.plan().unwrap_err().to_string().contains("at least 1 running sum and"));
}

/// Skellam noise needs hardly more variance than the discrete Gaussian noise of the plan, whose own variance is below
/// its parameter if that is small; it keeps the plan's ρ, and the budget at its δ.
#[test]
fn whole_numbers_cost_no_accuracy() {
    let approximate = |epsilon, delta| {
        Budget::Approximate(Epsilon::new(epsilon).unwrap(), crate::privacy::Delta::new(delta).unwrap())
    };
    let zcdp = |rho| Budget::Zcdp(Rho::new(rho).unwrap());
    for budget in [zcdp(1e-6), zcdp(0.5), zcdp(8.0), approximate(0.1, 1e-9), approximate(3.0, 1e-6)] {
        for mechanism in ["path-sum", "smooth", "binary", "subtract(k=7)"] {
            let request = PlanRequest::count(1 << 20, budget)
                .with_mechanism(mechanism.parse().unwrap())
                .with_noise(crate::plan::NoiseKind::Gaussian);
            let plan = LazyPlan::new(request.clone().plan().unwrap(), 1000, LazySampling::Float).unwrap();
            // The budget requires σ²; a small discrete law has less variance than that.
            assert!(
                (1.0 - 1e-9..1.05).contains(&(plan.std_error(5) / plan.plan().std_error(5))),
                "{mechanism} {budget:?}"
            );
            let plan = LazyPlan::new(request.plan().unwrap(), 1000, LazySampling::Integer).unwrap();
            let ratio = plan.std_error(5) / plan.plan().std_error(5);
            assert!((1.0 - 1e-6..1.002).contains(&ratio), "{mechanism} {budget:?}: {ratio}");
            if let Budget::Approximate(epsilon, delta) = budget {
                assert!(plan.epsilon_at(delta).unwrap() <= epsilon.get());
            }
            let delta = crate::privacy::Delta::new(1e-12).unwrap();
            let (ours, plans) = (plan.epsilon_at(delta).unwrap(), plan.plan().guarantee().epsilon_at(delta));
            // Its accounting is tighter if the plan's grid is coarse.
            assert!((0.9..1.0 + 1e-6).contains(&(ours / plans)), "{mechanism} {budget:?}: {ours}, {plans}");
        }
    }
    // Laplace noise is the plan's own, on the grid itself.
    let plan = lazy("subtract(k=7)", 1 << 20, pure(), 1000, LazySampling::Integer);
    assert_eq!((plan.std_error(5), plan.fraction_bits()), (plan.plan().std_error(5), 0));
}

/// Batch reads equal single reads, in every sampling: of other sums and at other steps, near and far.
#[test]
fn many_reads_are_single_reads() {
    let all: Vec<u64> = (0..5000).map(|i| 3 * i).collect();
    let some: Vec<u64> = all.iter().copied().filter(|sum| sum % 7 < 3).chain([15_001, 15_002]).collect();
    for (mechanism, budget, sampling) in [
        ("path-sum", gaussian(), LazySampling::Keyed),
        ("binary", gaussian(), LazySampling::Keyed),
        ("smooth", pure(), LazySampling::Keyed),
        ("subtract(k=4)", pure(), LazySampling::Keyed),
        ("output", pure(), LazySampling::Keyed),
        ("path-sum", gaussian(), LazySampling::Float),
        ("subtract(k=3)", pure(), LazySampling::Integer),
    ] {
        let request = PlanRequest::count(900, budget).with_mechanism(mechanism.parse().unwrap());
        let plan = LazyPlan::new(request.plan().unwrap(), 20_000, sampling).unwrap();
        let vector = || LazyVector::new(plan.clone(), &key(3), "many".parse().unwrap()).unwrap();
        let (mut many, mut single) = (vector(), vector());
        assert!(many.read_many(&all).is_err(), "no step is closed yet");
        for (step, sums) in [(1, &all), (2, &all), (2, &some), (3, &some), (64, &all), (65, &all), (900, &some)] {
            for vector in [&mut many, &mut single] {
                if vector.step() < step {
                    vector.add(9, 1).unwrap();
                    vector.tick_through(step).unwrap();
                }
            }
            let releases = many.read_many(sums).unwrap();
            for (sum, release) in sums.iter().zip(releases) {
                assert_eq!(release, single.read(*sum).unwrap(), "{mechanism} {sampling}: sum {sum} at {step}");
            }
            assert_eq!(many.reads(), single.reads());
        }
        assert!(many.read_many(&[]).unwrap().is_empty());
        for wrong in [&[1, 1][..], &[2, 1], &[5, 20_000]] {
            assert!(many.read_many(wrong).is_err());
        }
        assert_eq!(many.reads(), single.reads());
        if sampling == LazySampling::Keyed {
            assert_eq!(many.save(), single.save(), "the cache is not part of the state");
        }
    }
}
