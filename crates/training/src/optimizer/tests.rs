//! Errors compared with dense algebra, and the gain.

use super::*;
use crate::{Series, VectorPlan, VectorRequest};
use evertally::mechanism::{Criterion, MechanismName, Objective, Participation};
use evertally::privacy::{Budget, Rho};

const PARTICIPATIONS: [(u64, u64); 3] = [(1, 1), (4, 8), (6, 1)];

fn zcdp() -> Budget {
    Budget::Zcdp(Rho::new(0.5).unwrap())
}

fn optimizers(horizon: u64) -> Vec<Optimizer> {
    let cosine = Rates::WarmupCosine { peak: 0.5, warmup: horizon / 8, last: 0.01 };
    let list = Rates::List((0..horizon).map(|t| 1.0 / (1.0 + 0.1 * t as f64)).collect());
    let of = |rates: Rates, momentum, decay| {
        Optimizer::new(rates).unwrap().with_momentum(momentum).unwrap().with_weight_decay(decay).unwrap()
    };
    vec![
        of(Rates::Constant(1.0), 0.0, 0.0),
        of(Rates::Constant(0.3), 0.9, 0.05),
        of(cosine.clone(), 0.0, 0.0),
        of(cosine, 0.9, 0.1),
        of(list.clone(), 0.5, 0.0),
        of(Rates::Constant(0.3), 0.9, 0.05).with_nesterov(true),
        averaged(of(Rates::Constant(0.3), 0.5, 0.0), IterateAverage::Exponential(0.8)),
        averaged(of(list, 0.9, 0.1).with_nesterov(true), IterateAverage::Tail(horizon.div_ceil(3))),
    ]
}

fn averaged(optimizer: Optimizer, average: IterateAverage) -> Optimizer {
    optimizer.with_average(Some(average)).unwrap()
}

/// `W`, by running the loop on unit vectors in the order of the definition.
fn matrix(optimizer: &Optimizer, horizon: u64) -> Vec<Vec<f64>> {
    let run = |at: u64| {
        let (mut momentum, mut all, mut average) = (0.0, vec![0.0], 0.0);
        let step = |t: u64| {
            let gradient = f64::from(u8::from(t == at));
            momentum = optimizer.momentum() * momentum + gradient;
            let moved = if optimizer.has_nesterov() { gradient + optimizer.momentum() * momentum } else { momentum };
            let rate = optimizer.rates().at(t, horizon);
            all.push((1.0 - optimizer.weight_decay() * rate) * all[all.len() - 1] + rate * moved);
            match optimizer.average() {
                Some(IterateAverage::Exponential(decay)) => {
                    average = decay * average + (1.0 - decay) * all[all.len() - 1];
                    average
                }
                Some(IterateAverage::Tail(last)) if t + last > horizon => {
                    let tail = &all[(horizon - last + 1) as usize..];
                    tail.iter().sum::<f64>() / tail.len() as f64
                }
                _ => all[all.len() - 1],
            }
        };
        (1..=horizon).map(step).collect::<Vec<f64>>()
    };
    (1..=horizon).map(run).collect()
}

/// Every family's errors are those of `W A⁻¹ L`, by explicit multiplication.
#[test]
fn errors_are_those_of_dense_algebra() {
    for horizon in [1u64, 9, 64] {
        for optimizer in optimizers(horizon) {
            let columns = matrix(&optimizer, horizon);
            for name in MechanismName::all_families().filter(|family| family.vectors.are_streamed()) {
                let names = name.examples.iter().map(|text| text.parse::<MechanismName>().unwrap());
                for name in names {
                    let criterion = Criterion::from_vectors(Objective::Max, Participation::ONCE);
                    let Ok(mechanism) = name.build(horizon, &criterion) else { continue };
                    let left = mechanism.dense().l;
                    let found = error::variances(&*mechanism, &optimizer).unwrap();
                    for t in 0..horizon as usize {
                        let entry = |node: usize| {
                            let increment =
                                |s: usize| left.row(s)[node] - if s == 0 { 0.0 } else { left.row(s - 1)[node] };
                            (0..=t).map(|s| columns[s][t] * increment(s)).sum::<f64>()
                        };
                        let want: f64 = (0..left.shape().1).map(|node| entry(node).powi(2)).sum();
                        let off = (found[t] - want).abs() / (want + 1e-12);
                        assert!(off < 1e-7, "{name} at {t} of {horizon}, {optimizer:?}: {} for {want}", found[t]);
                    }
                }
            }
        }
    }
}

fn plan(horizon: u64, optimizer: Option<&Optimizer>, participation: (u64, u64)) -> VectorRequest {
    VectorRequest::new(horizon, zcdp(), 1.0)
        .with_participation(Participation::new(participation.0, participation.1).unwrap())
        .with_series(Series::Increments)
        .with_optional_optimizer(optimizer.cloned())
}

/// With rates of 1 and no momentum or decay, the parameters are the running sums.
#[test]
fn plain_descent_is_the_running_sum() {
    let optimizer = Optimizer::new(Rates::Constant(1.0)).unwrap();
    for name in ["input", "binary", "smooth", "honaker-online", "blt", "normalized-blt", "sqrt", "normalized-sqrt"] {
        let request = plan(100, None, (2, 30)).with_mechanism(name.parse().unwrap());
        let sums = request.clone().plan().unwrap();
        let same = request.with_mechanism(sums.name()).with_optimizer(optimizer.clone()).plan().unwrap();
        for t in 1..=100 {
            let ratio = same.std_error(t) / sums.std_error(t);
            assert!((ratio - 1.0).abs() < 1e-8, "{name} at {t}: {ratio}");
        }
        assert!((same.mean_std_error() / sums.mean_std_error() - 1.0).abs() < 1e-8, "{name}");
        assert!(same.sigma() == sums.sigma() && same.digest() != sums.digest(), "{name}");
    }
}

/// No factorization is below the bound, the best is not far above it, and it is better than the best mechanism for
/// sums.
#[test]
fn bounds_and_gains() {
    let (mut gained, mut highest) = (1.0f64, 0.0f64);
    for optimizer in optimizers(64).into_iter().filter(|own| own.average().is_none()).skip(1).step_by(2) {
        for participation in [(1, 1), (4, 8)] {
            let request = plan(64, Some(&optimizer), participation);
            let ranking = request.candidates().unwrap();
            let found = request.clone().plan().unwrap();
            let bound = found.lower_bound_max_std_error();
            for candidate in &ranking {
                let name = candidate.name;
                assert!(candidate.max_std_error > bound * (1.0 - 1e-9), "{name}: {optimizer:?} {participation:?}");
            }
            if participation.0 == 1 {
                highest = highest.max(found.max_std_error() / bound);
            }
            let sums = plan(64, None, participation).plan().unwrap();
            let other = request.with_mechanism(sums.name()).plan().unwrap();
            let ratio = found.max_std_error() / other.max_std_error();
            assert!(ratio <= 1.0 + 1e-12, "{optimizer:?} {participation:?}: {ratio}");
            gained = gained.min(ratio);
        }
    }
    assert!(gained < 0.9, "{gained}");
    assert!(highest < 1.55, "{highest}");
}

/// The guarantee does not depend on the optimizer: the columns of the factorization alone determine the noise.
#[test]
fn noise_hides_every_pattern_of_the_chosen_factorization() {
    for optimizer in optimizers(12) {
        for participation in PARTICIPATIONS {
            let plan = plan(12, Some(&optimizer), participation).plan().unwrap();
            let right = plan.mechanism().dense().r;
            let mut largest = 0.0f64;
            for pattern in 0u32..1 << 12 {
                let steps: Vec<usize> = (0..12).filter(|t| pattern >> t & 1 == 1).collect();
                let apart = |pair: &[usize]| pair[1] - pair[0] >= participation.1 as usize;
                if steps.len() as u64 > participation.0 || !steps.windows(2).all(apart) {
                    continue;
                }
                let moved = |node: usize| steps.iter().map(|t| right.row(node)[*t]).sum::<f64>();
                largest = largest.max((0..right.shape().0).map(|node| moved(node).powi(2)).sum());
            }
            let spent = largest.sqrt() / plan.sigma();
            assert!(spent <= 1.0 + 1e-12, "{optimizer:?} {participation:?}: {spent}");
            assert!(spent > 0.8, "{optimizer:?} {participation:?}: {spent}");
        }
    }
}

/// The drawn noise has the errors of the plan: parameters after a real loop, over many coordinates.
#[test]
fn a_loop_has_the_errors_of_the_plan() {
    use crate::{Tuning, VectorNoise};
    use evertally::noise::{GuardedKey, SecretKey};
    const COORDINATES: u64 = 1 << 15;
    let optimizer = optimizers(40).remove(3);
    let plan = plan(40, Some(&optimizer), (2, 10)).plan().unwrap();
    let key = GuardedKey::published_nothing(SecretKey::from_bytes([7; 32]).unwrap());
    let name = "a loop".parse().unwrap();
    let mut noise = VectorNoise::<f64>::new(plan.clone(), &key, name, 0..COORDINATES, Tuning::default()).unwrap();
    let (mut momentum, mut parameters) = (vec![0.0f64; COORDINATES as usize], vec![0.0f64; COORDINATES as usize]);
    for step in 1..=40 {
        let mut gradient = vec![0.0; COORDINATES as usize];
        noise.add_next(&mut gradient).unwrap();
        let rate = optimizer.rates().at(step, 40);
        for ((m, u), g) in momentum.iter_mut().zip(&mut parameters).zip(&gradient) {
            *m = optimizer.momentum() * *m + g;
            *u -= rate * (*m + optimizer.weight_decay() * *u);
        }
        let mean_square = parameters.iter().map(|u| u * u).sum::<f64>() / COORDINATES as f64;
        let ratio = mean_square / plan.std_error(step).powi(2);
        // Five standard errors of a mean of squares: a variance off by 4 % fails in every step.
        assert!((ratio - 1.0).abs() < 5.0 * (2.0 / COORDINATES as f64).sqrt(), "step {step}: {ratio}");
    }
}

/// The counted steps alone determine the largest and the mean error, and the mechanism that is chosen.
#[test]
fn only_counted_steps_matter() {
    let optimizer = optimizers(60).remove(3);
    let counted = |steps| optimizer.clone().with_counted_steps(Some(steps)).unwrap();
    for steps in [1, 15, 60] {
        let found = plan(60, Some(&counted(steps)), (2, 20)).plan().unwrap();
        let errors: Vec<f64> = (61 - steps..=60).map(|t| found.std_error(t)).collect();
        let mean = (errors.iter().map(|error| error * error).sum::<f64>() / steps as f64).sqrt();
        assert!((found.max_std_error() / errors.iter().copied().fold(0.0, f64::max) - 1.0).abs() < 1e-12);
        assert!((found.mean_std_error() / mean - 1.0).abs() < 1e-12);
        let bound = found.lower_bound_max_std_error();
        assert!(0.0 < bound && bound <= found.max_std_error(), "{steps}: {bound}");
        let all = plan(60, Some(&optimizer), (2, 20)).plan().unwrap();
        let late = (61 - steps..=60).map(|t| all.std_error(t)).fold(0.0, f64::max);
        assert!(found.max_std_error() <= late * (1.0 + 1e-9), "{steps}: {} {late}", found.max_std_error());
        // The guarantee is that of the mechanism, whatever is counted.
        let same = plan(60, Some(&optimizer), (2, 20)).with_mechanism(found.name()).plan().unwrap();
        assert_eq!(same.sigma(), found.sigma());
    }
}

#[test]
fn files_hold_the_optimizer() {
    for optimizer in optimizers(20) {
        let plan = plan(20, Some(&optimizer), (2, 5)).plan().unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        let read: VectorPlan = serde_json::from_str(&text).unwrap();
        assert_eq!((read.digest(), read.request().optimizer()), (plan.digest(), Some(&optimizer)));
        assert_eq!(read.std_error(7), plan.std_error(7));
        let changed = text.replace(&format!("\"momentum\":{:?}", optimizer.momentum()), "\"momentum\":0.25");
        assert!(changed != text && serde_json::from_str::<VectorPlan>(&changed).is_err());
        let refused = text.replace(&format!("\"momentum\":{:?}", optimizer.momentum()), "\"momentum\":2.0");
        assert!(serde_json::from_str::<VectorPlan>(&refused).is_err());
    }
}

#[test]
fn senseless_optimizers_are_refused() {
    let rates = |list: &[f64]| Optimizer::new(Rates::List(list.to_vec()));
    assert!(rates(&[]).is_err() && rates(&[0.0]).is_err() && rates(&[1.0, -1.0]).is_err());
    assert!(rates(&[f64::NAN]).is_err() && Optimizer::new(Rates::Constant(f64::INFINITY)).is_err());
    let fine = Optimizer::new(Rates::Constant(0.5)).unwrap();
    assert!(fine.clone().with_momentum(1.0).is_err() && fine.clone().with_momentum(-0.1).is_err());
    let average = |average| fine.clone().with_average(Some(average));
    assert!(average(IterateAverage::Exponential(1.0)).is_err() && average(IterateAverage::Tail(0)).is_err());
    assert!(fine.clone().with_counted_steps(Some(0)).is_err());
    assert!(fine.clone().with_weight_decay(-1.0).is_err() && fine.clone().with_weight_decay(f64::NAN).is_err());
    let refusal =
        |optimizer: Optimizer, horizon| plan(horizon, Some(&optimizer), (1, 1)).plan().unwrap_err().to_string();
    assert!(refusal(rates(&[1.0; 7]).unwrap(), 8).contains("7 learning rates"));
    assert!(refusal(fine.clone().with_weight_decay(3.0).unwrap(), 8).contains("above 1"));
    assert!(refusal(average(IterateAverage::Tail(9)).unwrap(), 8).contains("9 last steps"));
    assert!(refusal(average(IterateAverage::Tail(u64::MAX)).unwrap(), 8).contains("last steps"));
    assert!(refusal(fine.clone().with_counted_steps(Some(9)).unwrap(), 8).contains("9 last steps"));
    assert!(refusal(fine, 1 << 21).contains("at most"));
    let long = Rates::WarmupCosine { peak: 1.0, warmup: 8, last: 0.0 };
    assert!(refusal(Optimizer::new(long).unwrap(), 8).contains("warm-up"));
}
