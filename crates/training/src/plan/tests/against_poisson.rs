//! Random allocation and Poisson sampling with the same expected batch, and the choice between them.

use super::*;
use crate::{Sampling, SamplingScheme, Training, TrainingOption};

fn noise(steps: u64, epsilon: f64, delta: f64, sampling: Sampling) -> f64 {
    let request = VectorRequest::new(steps, approximate(epsilon, delta), 1.0).with_sampling(sampling);
    named("input", request).sigma()
}

fn samplings(steps: u64) -> (Sampling, Sampling) {
    (Sampling::random_allocation(steps).unwrap(), Sampling::poisson(1.0 / steps as f64).unwrap())
}

/// With independent noise and one epoch, random allocation needs no more noise than Poisson sampling at any δ of
/// interest, and noise falls with ε and with δ, far beyond usual budgets too.
#[test]
fn random_allocation_needs_no_more_noise_than_poisson_sampling() {
    for steps in [2, 10, 40] {
        let (allocation, poisson) = samplings(steps);
        let mut of_smaller = (f64::INFINITY, f64::INFINITY);
        for epsilon in [0.3, 1.0, 4.0, 8.0, 16.0] {
            let found = [1e-12, 1e-5].map(|delta| noise(steps, epsilon, delta, allocation));
            let others = [1e-12, 1e-5].map(|delta| noise(steps, epsilon, delta, poisson));
            assert!(found[0] <= others[0] && found[1] <= others[1], "{steps}, {epsilon}: {found:?} {others:?}");
            assert!(found[1] < found[0] && found[0] < of_smaller.0 && found[1] < of_smaller.1, "{epsilon}: {found:?}");
            of_smaller = (found[0], found[1]);
        }
    }
}

/// Neither dominates: at a large δ, Poisson sampling needs less noise, because an example may take part in no step.
#[test]
fn poisson_sampling_needs_less_noise_at_a_large_delta() {
    let (allocation, poisson) = samplings(2);
    let (found, other) = (noise(2, 0.1, 0.25, allocation), noise(2, 0.1, 0.25, poisson));
    assert!(found > 1.05 * other, "{found} {other}");
}

/// The best training option is never noisier than Poisson sampling, whichever the budget.
#[test]
fn the_best_option_has_no_more_noise_than_poisson_sampling() {
    for (examples, epsilon, delta) in [(600, 0.3, 1e-6), (600, 4.0, 1e-12), (400, 12.0, 1e-12)] {
        let request = VectorRequest::new(1, approximate(epsilon, delta), 1.0);
        let found = Training::new(examples, 20, 1.0, request).unwrap().options().unwrap().available;
        let error = |option: &TrainingOption| option.plan.max_std_error() / option.batch;
        let poisson = found.iter().filter(|option| option.sampling == Some(SamplingScheme::Poisson));
        let poisson = poisson.map(error).fold(f64::INFINITY, f64::min);
        assert!(poisson.is_finite() && found.iter().all(|option| error(option) >= error(&found[0])));
        assert!(error(&found[0]) <= poisson, "{examples}, {epsilon}, {delta:e}: {} {poisson}", error(&found[0]));
    }
}
