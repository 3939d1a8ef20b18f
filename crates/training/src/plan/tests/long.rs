//! Runs beyond the limits of tables: many steps, and many steps per epoch.

use super::*;
use crate::{Sampling, Training};

fn request(horizon: u64, sampling: Sampling) -> VectorRequest {
    VectorRequest::new(horizon, approximate(2.0, 1e-6), 1.0).with_sampling(sampling)
}

/// `μ² = q² T (e^(1/σ²) - 1)` in the limit of many steps (Bu, Dong, Long and Su 2020, arXiv 1911.11607).
#[test]
fn millions_of_sampled_steps_are_nearly_gaussian() {
    let (horizon, fraction) = (1u64 << 21, libm::exp2(-10.0));
    let plan = named("input", request(horizon, Sampling::poisson(fraction).unwrap()));
    let mu = fraction * (horizon as f64).sqrt() * libm::expm1(1.0 / (plan.sigma() * plan.sigma())).sqrt();
    let epsilon = evertally::privacy::conversions::epsilon_of_gaussian(mu, Delta::new(1e-6).unwrap());
    assert!((0.97..1.01).contains(&(epsilon / 2.0)), "{epsilon}");
}

/// One of very many steps is about as good as Poisson sampling; correlated noise has no table there.
#[test]
fn epochs_of_many_steps_are_allocated_with_independent_noise() {
    let steps = 5000;
    let allocated = request(steps, Sampling::random_allocation(steps).unwrap());
    let found = allocated.clone().candidates().unwrap();
    assert!(found.len() == 1 && found[0].name.family().is_independent, "{found:?}");
    let poisson = named("input", request(steps, Sampling::poisson(1.0 / steps as f64).unwrap()));
    let ratio = found[0].sigma / poisson.sigma();
    assert!((0.97..1.03).contains(&ratio), "{ratio}");
    let refused = allocated.with_mechanism("banded-sqrt(bands=4)".parse().unwrap()).plan().unwrap_err().to_string();
    assert!(refused.contains("1 to 2048 steps per epoch"), "{refused}");
    let per_epoch = Sampling::per_epoch_random_allocation(steps).unwrap();
    let plan = named("input", request(2 * steps, per_epoch));
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<VectorPlan>(&text).unwrap().digest(), plan.digest());
    assert!(plan.guarantee().epsilon_at(Delta::new(1e-6).unwrap()) <= 2.0);
}

/// Banded noise over more steps than tables of counts allow, sampled or allocated.
#[test]
fn bands_reach_beyond_a_few_thousand_steps() {
    let horizon = (1 << 14) + 100;
    let noise = |sampling: Sampling| named("banded-sqrt(bands=4)", request(horizon, sampling)).sigma();
    let known = named(
        "banded-sqrt(bands=4)",
        VectorRequest::new(horizon, approximate(2.0, 1e-6), 1.0)
            .with_participation(Participation::new(horizon.div_ceil(100), 100).unwrap()),
    );
    let (cyclic, once) = (Sampling::cyclic_poisson(0.01).unwrap(), Sampling::random_allocation(100).unwrap());
    assert!(noise(cyclic) < 0.3 * known.sigma());
    assert!(noise(once) < known.sigma());
}

/// The nearest whole number of steps per epoch; ranked by the error of a mean gradient; cancelled by its observer.
#[test]
fn batches_need_not_divide_the_data() {
    let run = |examples, batch, epochs| {
        let request = VectorRequest::new(1, approximate(1.0, 1e-5), 1.0);
        Training::new(examples, batch, epochs, request).unwrap()
    };
    let options = run(1030, 100, 2.0).options().unwrap();
    for option in &options.available {
        let (steps, batch) = match option.plan.steps_per_epoch() {
            Some(steps_per_epoch) => (2 * steps_per_epoch, 103.0),
            None if option.sampling.is_some() => (21, 100.0),
            None => (20, 100.0),
        };
        assert_eq!((option.plan.horizon(), option.batch), (steps, batch), "{}", option.description());
    }
    let errors: Vec<f64> = options.available.iter().map(|own| own.plan.max_std_error() / own.batch).collect();
    assert!(errors.is_sorted() && options.available[0].relative_error() == 1.0);
    let whole = run(100, 100, 3.0).options().unwrap();
    assert!(whole.omitted.iter().any(|own| own.reason.contains("an epoch has one step")), "{:?}", whole.omitted);
    let cancelled =
        run(1000, 50, 2.0).with_observer(evertally::plan::SearchObserver::new(|_| std::ops::ControlFlow::Break(())));
    assert!(cancelled.options().unwrap_err().is_cancelled());
}
