//! The first steps, compared with plans and accountants of that many steps.

use crate::poisson_subsampling::{SampledGaussian, SampledGaussians};
use crate::{Sampling, VectorPlan, VectorRequest};
use evertally::mechanism::Participation;
use evertally::privacy::{Budget, Delta, Epsilon, Rho};

fn approximate(epsilon: f64) -> (Budget, Delta) {
    let delta = Delta::new(1e-5).unwrap();
    (Budget::Approximate(Epsilon::new(epsilon).unwrap(), delta), delta)
}

/// The largest shift of the first rows by an example in some steps: every pattern, by the dense twin.
fn brute_force(plan: &VectorPlan, through: usize, most: usize, apart: usize) -> f64 {
    let right = plan.mechanism().dense().r;
    let mut worst = 0.0f64;
    for chosen in 0u32..1 << through {
        let steps: Vec<usize> = (0..through).filter(|step| chosen >> step & 1 == 1).collect();
        if steps.len() > most || steps.windows(2).any(|pair| pair[1] - pair[0] < apart) {
            continue;
        }
        let row = |t: usize| steps.iter().map(|step| right.row(t)[*step]).sum::<f64>();
        worst = worst.max((0..through).map(|t| row(t).powi(2)).sum());
    }
    worst.sqrt() / plan.sigma()
}

#[test]
fn mu_of_the_first_steps_by_enumeration() {
    let names = [
        "input",
        "banded-sqrt(bands=4)",
        "banded-inverse(bands=3)",
        "normalized-blt(buffers=2)",
        "normalized-blt(buffers=2,run=3,gap=4)",
        "epoch-bands(bands=4,run=3,gap=4)",
        "sqrt",
    ];
    for name in names {
        let request = VectorRequest::new(12, Budget::Zcdp(Rho::new(0.5).unwrap()), 2.0);
        let request = request.with_participation(Participation::new(3, 4).unwrap());
        let plan = request.with_mechanism(name.parse().unwrap()).plan().unwrap();
        for through in [1, 3, 4, 5, 8, 9, 11, 12] {
            let spent = plan.spent(through).unwrap();
            let exact = 2.0 * brute_force(&plan, through as usize, 3, 4);
            let mu = spent.mu();
            assert!(mu >= exact * (1.0 - 1e-3) && mu <= exact * 1.03, "{name} through {through}: {mu}, exact {exact}");
            assert!(spent.rho().get() <= 0.5 && (spent.rho().get() / (mu * mu / 2.0) - 1.0).abs() < 1e-9);
        }
        assert!(plan.spent(0).is_err() && plan.spent(13).is_err());
    }
}

/// Fewer rounds: exactly those of the accountant. The groups stay those of the plan, even if the first steps do not
/// reach all of them.
#[test]
fn poisson_sampling_counts_the_rounds_so_far() {
    let (budget, delta) = approximate(2.0);
    let request = VectorRequest::new(300, budget, 1.0).with_mechanism("input".parse().unwrap());
    let plan = request.with_sampling(Sampling::poisson(0.02).unwrap()).plan().unwrap();
    let mut before = 0.0;
    for through in [1, 30, 150, 300] {
        let epsilon = plan.spent(through).unwrap().epsilon_at(delta);
        let round = SampledGaussian::new(0.02, plan.sigma(), through).unwrap();
        let own = SampledGaussians::new(&[round]).unwrap().epsilon(delta);
        assert!((epsilon / own - 1.0).abs() < 1e-3 && epsilon > before, "{through}: {epsilon}, accountant {own}");
        before = epsilon;
    }
    let request = VectorRequest::new(300, budget, 1.0).with_mechanism("banded-sqrt(bands=8)".parse().unwrap());
    let plan = request.with_sampling(Sampling::cyclic_poisson(0.02).unwrap()).plan().unwrap();
    assert_eq!(plan.groups(), Some(8));
    // One round of the plan's rate, with the first three rows of a column.
    let first = plan.spent(3).unwrap().epsilon_at(delta);
    let round = SampledGaussian::new(0.16, plan.sigma() / (1.0f64 + 0.25 + 0.375 * 0.375).sqrt(), 1).unwrap();
    let own = SampledGaussians::new(&[round]).unwrap().epsilon(delta);
    assert!((first / own - 1.0).abs() < 1e-3, "{first}, accountant {own}");
}

/// Allocation in the first epochs: never less than a plan of that many steps has with this noise, and within its
/// precision.
#[test]
fn allocation_counts_the_epochs_so_far() {
    let (budget, delta) = approximate(3.0);
    for sampling in [Sampling::random_allocation(20), Sampling::per_epoch_random_allocation(20)] {
        let sampling = sampling.unwrap();
        let request = VectorRequest::new(80, budget, 1.0).with_mechanism("banded-sqrt(bands=2)".parse().unwrap());
        let plan = request.with_sampling(sampling).plan().unwrap();
        let at = |through: u64| plan.spent(through).unwrap().epsilon_at(delta);
        let (within, one, two, all) = (at(7), at(20), at(40), at(80));
        assert!(within <= one && one < two && two < all, "{within} {one} {two} {all}");
        assert_eq!(all, 3.0);
        // Two rounds of a phase touch the first epoch.
        let rounds = sampling.rounds_through(20, 80);
        assert_eq!(rounds, if sampling == Sampling::random_allocation(20).unwrap() { 1 } else { 2 });
    }
}
