//! Plans whose examples are drawn by lot.

use super::*;
use crate::noise::{SecretKey, TestSeed};
use crate::vector::{Batches, Sampling};

fn sampled(horizon: u64, epsilon: f64, fraction: f64) -> VectorRequest {
    VectorRequest::new(horizon, approximate(epsilon, 1e-5), 1.0).with_sampling(Sampling::new(fraction).unwrap())
}

fn batches(plan: &VectorPlan, seed: u64, name: &str, examples: u64) -> Batches {
    let key = SecretKey::insecure_from_test_seed(TestSeed(seed));
    Batches::new(plan, &key, name.parse().unwrap(), examples).unwrap()
}

/// `∫∫ (p - e^ε q)⁺` of two rounds, from the law of the node sums themselves: an example of one group takes part in each of
/// its two steps with probability `rate`, and its columns are those of the dense twin.
fn delta_by_integration(plan: &VectorPlan, group: usize, rate: f64, epsilon: f64) -> f64 {
    let right = plan.mechanism().dense().r;
    let (rows, groups) = (right.shape().0, plan.groups().unwrap() as usize);
    let column = |j: usize| (0..rows).map(|t| right.row(t)[j]).collect::<Vec<_>>();
    let columns: Vec<Vec<f64>> = (group..rows).step_by(groups).map(column).collect();
    assert_eq!(columns.len(), 2);
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    assert!(product(&columns[0], &columns[1]).abs() < 1e-12, "rounds share no row");
    let moves = [0, 1].map(|r| product(&columns[r], &columns[r]).sqrt() / plan.sigma());
    let normal = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let mixed = |x: f64, by: f64| (1.0 - rate) * normal(x) + rate * normal(x - by);
    let (step, least) = (0.02, -9.0);
    let place = |i: i32| least + step * (f64::from(i) + 0.5);
    let cells = ((18.0 + 2.0 * moves[0].max(moves[1])) / step) as i32;
    let tables = moves.map(|by| (0..cells).map(|i| (normal(place(i)), mixed(place(i), by))).collect::<Vec<_>>());
    let (mut removed, mut added) = (0.0, 0.0);
    for (n, m) in &tables[0] {
        for (other_n, other_m) in &tables[1] {
            let (without, with) = (n * other_n, m * other_m);
            removed += (with - epsilon.exp() * without).max(0.0);
            added += (without - epsilon.exp() * with).max(0.0);
        }
    }
    removed.max(added) * step * step
}

/// The promise against the very law of the releases, for every group.
#[test]
fn the_promise_holds_for_every_group_and_is_nearly_met() {
    for (name, groups, epsilon, fraction) in [
        ("epoch-bands(bands=3)", 3, 1.0, 0.1),
        ("banded-sqrt(bands=2)", 2, 2.0, 0.25),
        ("epoch-bands(bands=4)", 4, 0.5, 0.05),
    ] {
        let plan = named(name, sampled(2 * groups, epsilon, fraction));
        assert_eq!(plan.groups(), Some(groups));
        let rate = fraction * groups as f64;
        let truths: Vec<f64> =
            (0..groups as usize).map(|group| delta_by_integration(&plan, group, rate, epsilon)).collect();
        let largest = truths.iter().copied().fold(0.0, f64::max);
        assert!(largest <= 1e-5 * 1.001, "{name}: {truths:?}");
        assert!(largest >= 0.9e-5, "{name}: {truths:?}");
        let stated = plan.guarantee().epsilon_at(Delta::new(1e-5).unwrap());
        assert!(stated <= epsilon && stated > 0.98 * epsilon, "{name}: {stated}");
    }
}

/// Sampling needs less noise, and correlation less still; the plan takes what has the least error.
#[test]
fn less_noise_than_without() {
    let request = sampled(512, 2.0, 4.0 / 512.0);
    let input = named("input", request.clone());
    assert!((input.sigma() / 0.795 - 1.0).abs() < 0.2, "{}", input.sigma());
    let plan = request.clone().with_objective(Objective::Mean).plan().unwrap();
    assert!(plan.groups().unwrap() > 1 && plan.mean_std_error() < 0.8 * input.mean_std_error(), "{}", plan.name());
    assert_eq!(plan.lower_bound_max_std_error(), 0.0);
    let unsampled = VectorRequest { sampling: None, ..request.clone() };
    let unsampled = named("input", unsampled.with_participation(Participation::new(4, 128).unwrap()));
    assert!(input.sigma() < 0.6 * unsampled.sigma());
    // Whoever knows the batches knows more.
    let known = plan.guarantee().mu() * plan.sigma();
    assert!((known / plan.sensitivity() - 1.0).abs() < 1e-9);
    assert!(plan.guarantee().rho().get() > unsampled.guarantee().rho().get());
}

#[test]
fn files_keep_the_sampling() {
    let plan = named("epoch-bands(bands=4)", sampled(40, 2.0, 0.1));
    let text = serde_json::to_string(&plan).unwrap();
    let read: VectorPlan = serde_json::from_str(&text).unwrap();
    assert_eq!((read.digest(), read.sigma(), read.groups()), (plan.digest(), plan.sigma(), Some(4)));
    assert_eq!(read.guarantee(), plan.guarantee());
    for (of, to) in [("0.1", "0.2"), ("\"fraction\":0.1", "\"fraction\":0.0"), ("\"most\":10", "\"most\":9")] {
        let changed = text.replacen(of, to, 1);
        assert!(changed != text && serde_json::from_str::<VectorPlan>(&changed).is_err(), "{of}");
    }
}

#[test]
fn senseless_sampling_is_refused() {
    let refused = |request: VectorRequest, word: &str| {
        let message = request.plan().unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    };
    let request = sampled(40, 2.0, 0.1);
    refused(request.clone().with_budget(zcdp(0.5)), "epsilon and delta");
    refused(request.clone().with_neighbours(Neighbours::ReplaceOne), "add-remove");
    refused(request.clone().with_mechanism("blt".parse().unwrap()), "not banded");
    refused(request.clone().with_mechanism("epoch-bands(bands=11)".parse().unwrap()), "at most 10 bands");
    refused(
        request.with_participation(Participation::new(4, 10).unwrap()).with_mechanism("input".parse().unwrap()),
        "leave",
    );
    for fraction in [0.0, -0.1, 1.1, f64::NAN] {
        assert!(Sampling::new(fraction).is_err());
    }
    // Three bands of a third each.
    assert!(Sampling::new(1.0 / 3.0).unwrap().rate(3).is_some_and(|rate| rate <= 1.0));
}

/// Batches are those of the key: of the right group, of the right size, drawn anew for another key, name, plan and step.
#[test]
fn batches_are_drawn_by_lot() {
    let plan = named("epoch-bands(bands=4)", sampled(40, 2.0, 0.05));
    let examples = 20_000;
    let own = batches(&plan, 1, "a", examples);
    let mut sizes = 0;
    for step in 1..=40 {
        let batch = own.batch(step).unwrap();
        assert!(batch.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(batch.iter().all(|example| example % 4 == (step - 1) % 4 && *example < examples));
        sizes += batch.len();
    }
    // Binomial with 200 000 draws of 0.2: within 4.5 standard deviations (significance 10⁻⁵).
    let deviations = (sizes as f64 - 40_000.0) / (200_000.0f64 * 0.2 * 0.8).sqrt();
    assert!(deviations.abs() < 4.5, "{deviations}");
    assert_eq!(own.expected_size(), 1000.0);
    let first = own.batch(1).unwrap();
    assert_eq!(first, batches(&plan, 1, "a", examples).batch(1).unwrap());
    assert_eq!(first[..10], batches(&plan, 1, "a", examples + 5).batch(1).unwrap()[..10]);
    assert_ne!(first, own.batch(5).unwrap());
    assert_ne!(first, batches(&plan, 2, "a", examples).batch(1).unwrap());
    assert_ne!(first, batches(&plan, 1, "b", examples).batch(1).unwrap());
    assert_ne!(
        first,
        batches(&named("banded-sqrt(bands=4)", sampled(40, 2.0, 0.05)), 1, "a", examples).batch(1).unwrap()
    );
    assert!(own.batch(0).is_err() && own.batch(41).is_err());
    // All of a group where batches are as large as groups.
    let all = named("epoch-bands(bands=4)", sampled(8, 2.0, 0.25));
    assert_eq!(batches(&all, 1, "a", 10).batch(2).unwrap(), [1, 5, 9]);
    let plain = named("input", VectorRequest::new(8, zcdp(0.5), 1.0));
    let key = SecretKey::insecure_from_test_seed(TestSeed(1));
    assert!(Batches::new(&plain, &key, "a".parse().unwrap(), 10).unwrap_err().to_string().contains("without sampling"));
}

fn in_bins(horizon: u64, epsilon: f64, bins: u64) -> VectorRequest {
    VectorRequest::new(horizon, approximate(epsilon, 1e-5), 1.0).with_sampling(Sampling::in_bins(bins).unwrap())
}

/// `∫∫ (p - e^ε q)⁺` of two bins, from the node sums themselves, in the plane of what the bins move.
fn delta_of_two_bins(plan: &VectorPlan, epsilon: f64) -> f64 {
    let right = plan.mechanism().dense().r;
    let rows = right.shape().0;
    let moved =
        |bin: usize| (0..rows).map(|t| (bin..rows).step_by(2).map(|j| right.row(t)[j]).sum()).collect::<Vec<f64>>();
    let (one, other) = (moved(0), moved(1));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / plan.sigma().powi(2);
    let root = product(&one, &one).sqrt();
    let across = product(&one, &other) / root;
    let rest = (product(&other, &other) - across * across).sqrt();
    let normal = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (step, reach) = (0.02, 10.0);
    let place = |i: i32| -reach + step * (f64::from(i) + 0.5);
    let (mut removed, mut added) = (0.0, 0.0);
    for (x, y) in (0..1000).flat_map(|i| (0..1000).map(move |j| (i, j))).map(|(i, j)| (place(i), place(j))) {
        let without = normal(x) * normal(y);
        let with = (normal(x - root) * normal(y) + normal(x - across) * normal(y - rest)) / 2.0;
        removed += (with - epsilon.exp() * without).max(0.0);
        added += (without - epsilon.exp() * with).max(0.0);
    }
    removed.max(added) * step * step
}

#[test]
fn bins_keep_the_promise_for_any_factorization() {
    for (name, horizon, epsilon) in
        [("input", 4, 1.0), ("epoch-bands(bands=2)", 6, 4.0), ("blt(buffers=2)", 6, 2.0), ("sqrt", 5, 3.0)]
    {
        let plan = named(name, in_bins(horizon, epsilon, 2));
        assert_eq!((plan.bins(), plan.groups()), (Some(2), None));
        let truth = delta_of_two_bins(&plan, epsilon);
        assert!(truth <= 1e-5 * 1.001 && truth >= 0.7e-5, "{name}: {truth:e}");
        let stated = plan.guarantee().epsilon_at(Delta::new(1e-5).unwrap());
        let elsewhere = plan.guarantee().epsilon_at(Delta::new(1e-4).unwrap());
        assert!(stated == epsilon && elsewhere < epsilon && elsewhere > 0.6 * epsilon, "{name}: {stated} {elsewhere}");
        let known = VectorRequest { sampling: None, ..plan.request().clone() }.plan().unwrap();
        assert!(plan.sigma() < known.sigma() && plan.guarantee().mu() > known.guarantee().mu(), "{name}");
    }
}

#[test]
fn plans_in_bins_are_files_and_find_their_bands() {
    let request = in_bins(64, 8.0, 16).with_objective(Objective::Mean);
    let plan = request.clone().plan().unwrap();
    let input = named("input", request.clone());
    assert!(plan.mean_std_error() < 0.6 * input.mean_std_error(), "{}", plan.name());
    let cyclic = sampled(64, 8.0, 1.0 / 16.0).with_objective(Objective::Mean).plan().unwrap();
    assert!(plan.mean_std_error() < 0.9 * cyclic.mean_std_error(), "{} {}", plan.name(), cyclic.name());
    let text = serde_json::to_string(&plan).unwrap();
    let read: VectorPlan = serde_json::from_str(&text).unwrap();
    assert_eq!((read.digest(), read.sigma(), read.bins()), (plan.digest(), plan.sigma(), Some(16)));
    assert_eq!(read.guarantee(), plan.guarantee());
    let both = text.replace("{\"bins\":16}", "{\"bins\":16,\"fraction\":0.1}");
    assert!(both != text && serde_json::from_str::<VectorPlan>(&both).is_err());
    let tree = request.clone().with_mechanism("binary".parse().unwrap()).plan().unwrap_err().to_string();
    assert!(tree.contains("plan without bins"), "{tree}");
    let few = in_bins(8, 2.0, 16).with_mechanism("input".parse().unwrap()).plan().unwrap_err().to_string();
    assert!(few.contains("at least as many steps as bins"), "{few}");
    assert!(Sampling::in_bins(0).is_err());
}

/// Every example is in one bin, the same in every epoch; bins are uniform, and those of the key.
#[test]
fn bins_are_drawn_once() {
    let plan = named("input", in_bins(25, 8.0, 10));
    let examples = 50_000;
    let own = batches(&plan, 1, "a", examples);
    let mut seen = vec![0u8; examples as usize];
    let mut squares = 0.0;
    for step in 1..=10 {
        let batch = own.batch(step).unwrap();
        assert!(batch.windows(2).all(|pair| pair[0] < pair[1]));
        batch.iter().for_each(|example| seen[*example as usize] += 1);
        assert_eq!(batch, own.batch(step + 10).unwrap());
        squares += (batch.len() as f64 - 5000.0).powi(2) / 5000.0;
    }
    assert!(seen.iter().all(|times| *times == 1));
    // χ² with 9 degrees of freedom: beyond 60 with probability 10⁻⁹.
    assert!(squares < 60.0, "{squares}");
    assert_eq!((own.expected_size(), own.bins(), own.groups()), (5000.0, Some(10), None));
    assert_eq!(own.batch(1).unwrap(), batches(&plan, 1, "a", examples).batch(1).unwrap());
    assert_eq!(own.batch(1).unwrap()[..10], batches(&plan, 1, "a", examples + 5).batch(1).unwrap()[..10]);
    assert_ne!(own.batch(1).unwrap(), batches(&plan, 2, "a", examples).batch(1).unwrap());
    assert_ne!(own.batch(1).unwrap(), batches(&plan, 1, "b", examples).batch(1).unwrap());
    // Neighbours in number are not neighbours in bins: of the 50 000 pairs a tenth, within 6 standard deviations.
    let mut bins = vec![0; examples as usize];
    (1..=10).for_each(|step| own.batch(step).unwrap().iter().for_each(|example| bins[*example as usize] = step));
    let equal = bins.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64;
    assert!((equal - 5000.0).abs() < 6.0 * (50_000.0f64 * 0.09).sqrt(), "{equal}");
}
