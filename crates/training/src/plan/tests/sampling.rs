//! Plans with sampled examples.

use super::*;
use crate::poisson_subsampling::{SampledGaussian, SampledGaussians};
use crate::{Batches, Sampling, SamplingScheme};
use evertally::noise::{GuardedKey, TestSeed};
use evertally::plan::SearchObserver;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn sampled(horizon: u64, epsilon: f64, fraction: f64) -> VectorRequest {
    VectorRequest::new(horizon, approximate(epsilon, 1e-5), 1.0)
        .with_sampling(Sampling::cyclic_poisson(fraction).unwrap())
}

/// Searches end at the first report that cancels them, in a fixed order and with every kind of sampling.
#[test]
fn cancelled_searches_end() {
    let requests = [
        sampled(200, 1.0, 0.05),
        sampled(200, 1.0, 0.05).with_optional_sampling(None),
        allocated(200, 1.0, 50),
        allocated_per_epoch(200, 1.0, 50),
    ];
    for request in requests {
        let reports = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reports);
        let observer = SearchObserver::new(move |_| match counted.fetch_add(1, Ordering::Relaxed) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
        assert!(request.with_observer(observer).plan().unwrap_err().is_cancelled());
        assert_eq!(reports.load(Ordering::Relaxed), 2);
    }
}

fn batches(plan: &VectorPlan, seed: u64, name: &str, examples: u64) -> Batches {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(seed));
    Batches::new(plan, &key, name.parse().unwrap(), examples).unwrap()
}

/// `∫∫ (p - e^ε q)⁺` of two rounds, from the exact law of the node sums: an example of one group takes part in each
/// of its two steps with probability `rate`, and its columns are those of the dense twin.
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

/// The guarantee compared with the exact law of the releases, for every group.
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

/// Sampling needs less noise, and correlation even less; the plan uses the mechanism with the smallest error.
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
    // Anyone who knows the batches learns more.
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
        "omit participations and separation",
    );
    let fixed = Sampling::fixed_size(0.1).unwrap();
    refused(sampled(40, 2.0, 0.1).with_sampling(fixed), "replace-one");
    let small = Sampling::truncated_poisson(0.1, 1000, Some(110)).unwrap();
    refused(sampled(40, 2.0, 0.1).with_sampling(small).with_mechanism("input".parse().unwrap()), "maximum batch");
    for fraction in [0.0, -0.1, 1.1, f64::NAN] {
        assert!(Sampling::cyclic_poisson(fraction).is_err());
    }
    // Three bands of a third each.
    assert!(Sampling::cyclic_poisson(1.0 / 3.0).unwrap().rate(3).is_some_and(|rate| rate <= 1.0));
}

/// Poisson sampling is cyclic Poisson sampling in one group: the same plan for one band, and no more bands.
#[test]
fn poisson_sampling_has_one_group() {
    let poisson = |request: VectorRequest| request.with_sampling(Sampling::poisson(0.1).unwrap());
    let cyclic = sampled(40, 2.0, 0.1);
    let (own, same) = (named("input", poisson(cyclic.clone())), named("input", cyclic.clone()));
    assert_eq!((own.sigma(), own.groups()), (same.sigma(), Some(1)));
    assert_eq!([&own, &same].map(VectorPlan::sampling_scheme), [Some(SamplingScheme::Poisson); 2]);
    assert_eq!((own.digest(), own.request()), (same.digest(), same.request()));
    let banded = named("epoch-bands(bands=4)", cyclic.clone());
    assert_eq!((banded.sampling_scheme(), banded.groups()), (Some(SamplingScheme::CyclicPoisson), Some(4)));
    let request = poisson(cyclic.clone()).with_mechanism("epoch-bands(bands=4)".parse().unwrap());
    let refused = request.plan().unwrap_err().to_string();
    assert!(refused.contains("4 bands") && refused.contains("cyclic Poisson"), "{refused}");
    let ranking = poisson(cyclic).candidates().unwrap();
    assert!(!ranking.is_empty() && ranking.iter().all(|found| found.name.bands().unwrap_or(1) == 1), "{ranking:?}");
    let text = serde_json::to_string(&own).unwrap();
    assert!(text.contains(r#""sampling":{"cyclic-poisson":{"fraction":0.1}}"#), "{text}");
    assert_eq!(serde_json::from_str::<VectorPlan>(&text).unwrap().digest(), own.digest());
}

/// Noise and batches are bound to the digests, so these must not change between versions.
#[test]
fn sampled_plans_and_batches_are_frozen() {
    let (fraction, steps) = (0.1, 8);
    let frozen = [
        ("input", Sampling::poisson(fraction), [83, 136, 239, 131, 255, 0, 243, 20], &[1, 5, 17, 29, 34][..]),
        (
            "banded-sqrt(bands=4)",
            Sampling::cyclic_poisson(fraction),
            [242, 65, 167, 52, 190, 53, 224, 174],
            &[10, 14, 18, 26, 34],
        ),
        (
            "banded-sqrt(bands=4)",
            Sampling::random_allocation(steps),
            [3, 156, 245, 113, 195, 173, 173, 41],
            &[4, 8, 19, 31, 35, 38],
        ),
        (
            "banded-sqrt(bands=4)",
            Sampling::per_epoch_random_allocation(steps),
            [142, 88, 210, 213, 41, 247, 125, 211],
            &[1, 14, 18, 22, 34],
        ),
        (
            "banded-sqrt(bands=4)",
            Sampling::fixed_size(fraction),
            [210, 25, 250, 98, 94, 120, 88, 208],
            &[2, 10, 18, 26],
        ),
        (
            "banded-sqrt(bands=4)",
            Sampling::truncated_poisson(fraction, 40, None),
            [147, 228, 224, 13, 99, 17, 91, 128],
            &[2, 6, 10, 30, 34],
        ),
    ];
    let found = frozen.each_ref().map(|(name, sampling, _, _)| {
        let sampling = *sampling.as_ref().unwrap();
        let request = VectorRequest::new(16, approximate(2.0, 1e-5), 1.0).with_sampling(sampling);
        let request = request.with_neighbours(sampling.neighbours());
        let plan = named(name, request);
        let digest: [u8; 8] = plan.digest()[..8].try_into().unwrap();
        (digest, batches(&plan, 1, "a", 40).batch(3).unwrap())
    });
    assert_eq!(found, frozen.map(|(_, _, digest, third)| (digest, third.to_vec())));
}

/// The same for batches that may be above their maximum of 7: a quarter is, as the 60 examples give 6 in expectation.
#[test]
fn batches_that_lose_examples_are_frozen() {
    let budget = Budget::Approximate(Epsilon::new(0.1).unwrap(), Delta::new(0.9).unwrap());
    let sampling = Sampling::truncated_poisson(0.1, 60, Some(7)).unwrap();
    let plan = named("input", VectorRequest::new(1, budget, 1.0).with_sampling(sampling));
    let drawn: Vec<Vec<u64>> = (0..64).map(|seed| batches(&plan, seed, "a", 60).batch(1).unwrap()).collect();
    let mut hasher = blake3::Hasher::new();
    for example in drawn.iter().flatten() {
        hasher.update(&example.to_le_bytes());
    }
    let full = drawn.iter().filter(|batch| batch.len() == 7).count();
    assert_eq!((full, &hasher.finalize().to_hex()[..16]), (27, "d032830cb1e8c6a8"));
}

#[test]
fn schemes_have_names() {
    for scheme in SamplingScheme::ALL {
        assert_eq!(scheme.name().parse(), Ok(scheme));
    }
    let refused = "bins".parse::<SamplingScheme>().unwrap_err().to_string();
    assert!(refused.contains("`per-epoch-random-allocation`") && refused.contains("`bins`"), "{refused}");
}

/// Batches depend on the key: of the right group, of the right size, and independent for another key, name, plan and
/// step.
#[test]
fn batches_are_sampled_from_the_key() {
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
    // Binomial with 200 000 draws of 0.2: within 4.5 standard deviations (significance level 10⁻⁵).
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
    // All of a group if batches are as large as groups.
    let all = named("epoch-bands(bands=4)", sampled(8, 2.0, 0.25));
    assert_eq!(batches(&all, 1, "a", 10).batch(2).unwrap(), [1, 5, 9]);
    let plain = named("input", VectorRequest::new(8, zcdp(0.5), 1.0));
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    assert!(Batches::new(&plain, &key, "a".parse().unwrap(), 10).unwrap_err().to_string().contains("no sampling"));
}

/// The guarantee of batches of fixed size: that of Poisson sampling, composed of the pair for a replaced example, whose
/// vectors are up to twice the norm apart; and the batches are uniform subsets of their group.
#[test]
fn batches_of_fixed_size_have_the_noise_of_replaced_examples() {
    let request = sampled(40, 2.0, 0.05).with_neighbours(Neighbours::ReplaceOne);
    let plan = named("banded-sqrt(bands=2)", request.with_sampling(Sampling::fixed_size(0.05).unwrap()));
    assert_eq!((plan.sampling_scheme(), plan.groups()), (Some(SamplingScheme::FixedSize), Some(2)));
    let columns = plan.mechanism().dense().r;
    let square = |j: usize| (0..40).map(|t| columns.row(t)[j].powi(2)).sum::<f64>();
    let longest = (0..40).map(square).fold(0.0, f64::max).sqrt();
    let noise = plan.sigma() / (2.0 * longest);
    let all = SampledGaussians::new(&[SampledGaussian::without_replacement(0.1, noise, 20).unwrap()]).unwrap();
    let spent = all.epsilon(Delta::new(1e-5).unwrap());
    assert!((spent / 2.0 - 1.0).abs() < 0.01, "{spent}");
    assert!((plan.guarantee().mu() * plan.sigma() / (2.0 * plan.sensitivity()) - 1.0).abs() < 1e-9);
    // Groups of 51 and 50 examples, from which batches of 5 are drawn.
    let own = batches(&plan, 1, "a", 101);
    assert_eq!((own.expected_size(), own.max_size()), (5.0, Some(5)));
    let mut counts = [0u32; 101];
    for seed in 0..250 {
        for step in 1..=40 {
            let batch = batches(&plan, seed, "a", 101).batch(step).unwrap();
            assert!(batch.len() == 5 && batch.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(batch.iter().all(|example| example % 2 == (step - 1) % 2));
            batch.iter().for_each(|example| counts[*example as usize] += 1);
        }
    }
    // Pearson's statistic against the group's mean, over 1 - q for draws without replacement: 99 degrees of freedom,
    // the quantile of 10⁻⁵ is 170.
    let of = |example: usize| 25_000.0 / if example.is_multiple_of(2) { 51.0 } else { 50.0 };
    let squares = |(example, count): (usize, &u32)| (f64::from(*count) - of(example)).powi(2) / of(example) / 0.9;
    let statistic: f64 = counts.iter().enumerate().map(squares).sum();
    assert!((30.0..170.0).contains(&statistic), "{statistic}");
    let tiny = Batches::new(&plan, &GuardedKey::insecure_from_test_seed(TestSeed(1)), "a".parse().unwrap(), 10);
    assert!(tiny.unwrap_err().to_string().contains("no example"));
}

/// A maximum batch that costs a thousandth of δ, and batches up to it. A smaller one costs more.
#[test]
fn a_maximum_batch_is_planned() {
    let delta = Delta::new(1e-5).unwrap();
    let truncated = |max_batch: Option<u64>| {
        let sampling = Sampling::truncated_poisson(0.05, 4000, max_batch).unwrap();
        sampled(40, 2.0, 0.05).with_sampling(sampling)
    };
    let plain = named("banded-sqrt(bands=2)", sampled(40, 2.0, 0.05));
    let plan = named("banded-sqrt(bands=2)", truncated(None));
    let most = plan.max_batch().unwrap();
    assert!((260..300).contains(&most), "{most}");
    let more = plan.sigma() / plain.sigma() - 1.0;
    assert!(more > 0.0 && more < 2e-4, "{more}");
    let tight = named("banded-sqrt(bands=2)", truncated(Some(most - 10)));
    assert!(tight.sigma() > plan.sigma() && tight.digest() != plan.digest());
    for plan in [&plan, &tight] {
        let (same, other) =
            (plan.guarantee().epsilon_at(delta), plan.guarantee().epsilon_at(Delta::new(1e-4).unwrap()));
        assert!(same == 2.0 && other < 1.9 && other > 1.0, "{same} {other}");
        let smaller = plan.guarantee().epsilon_at(Delta::new(0.9e-5).unwrap());
        assert!(smaller > 2.0 && smaller < 2.5, "{smaller}");
        let read: VectorPlan = serde_json::from_str(&serde_json::to_string(plan).unwrap()).unwrap();
        assert_eq!((read.digest(), read.max_batch()), (plan.digest(), plan.max_batch()));
        assert!(plan.spent(20).unwrap().epsilon_at(delta) < 2.0);
    }
    let own = batches(&tight, 1, "a", 4000);
    assert_eq!((own.scheme(), own.max_size()), (SamplingScheme::TruncatedPoisson, Some(most - 10)));
    assert!((1..=40).all(|step| own.batch(step).unwrap().len() as u64 <= most - 10));
    let many = Batches::new(&plan, &GuardedKey::insecure_from_test_seed(TestSeed(1)), "a".parse().unwrap(), 4001);
    assert!(many.unwrap_err().to_string().contains("at most 4000"));
}

/// A batch above the maximum, here one of sixteen, becomes a uniform subset of it.
#[test]
fn batches_above_the_maximum_lose_examples_at_random() {
    let budget = Budget::Approximate(Epsilon::new(0.1).unwrap(), Delta::new(0.25).unwrap());
    let sampling = Sampling::truncated_poisson(0.2, 60, Some(16)).unwrap();
    let plan = named("input", VectorRequest::new(1, budget, 1.0).with_sampling(sampling));
    let (mut counts, mut full) = ([0u32; 60], 0);
    for seed in 0..8000 {
        let batch = batches(&plan, seed, "a", 60).batch(1).unwrap();
        assert!(batch.len() <= 16 && batch.windows(2).all(|pair| pair[0] < pair[1]));
        if batch.len() == 16 {
            full += 1;
            batch.iter().for_each(|example| counts[*example as usize] += 1);
        }
    }
    // P[Binomial(60, 0.2) ≥ 16] = 0.13: within 5 standard deviations.
    assert!((0.113..0.151).contains(&(f64::from(full) / 8000.0)), "{full}");
    // Pearson's statistic of subsets of 16 of 60: 59 degrees of freedom, and the quantile of 10⁻⁵ is 117.
    let mean = f64::from(full) * 16.0 / 60.0;
    let statistic: f64 = counts.iter().map(|n| (f64::from(*n) - mean).powi(2) / mean / (1.0 - 16.0 / 60.0)).sum();
    assert!((20.0..117.0).contains(&statistic), "{statistic}");
}

fn allocated(horizon: u64, epsilon: f64, steps_per_epoch: u64) -> VectorRequest {
    let sampling = Sampling::random_allocation(steps_per_epoch).unwrap();
    VectorRequest::new(horizon, approximate(epsilon, 1e-5), 1.0).with_sampling(sampling)
}

/// `∫∫ (p - e^ε q)⁺` of epochs of two steps, from the exact node sums, in the plane that the two span.
fn delta_of_two_steps(plan: &VectorPlan, epsilon: f64) -> f64 {
    let right = plan.mechanism().dense().r;
    let rows = right.shape().0;
    let moved =
        |first: usize| (0..rows).map(|t| (first..rows).step_by(2).map(|j| right.row(t)[j]).sum()).collect::<Vec<f64>>();
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
fn random_allocation_keeps_the_promise_for_any_factorization() {
    for (name, horizon, epsilon) in
        [("input", 4, 1.0), ("epoch-bands(bands=2)", 6, 4.0), ("blt(buffers=2)", 6, 2.0), ("sqrt", 5, 3.0)]
    {
        let plan = named(name, allocated(horizon, epsilon, 2));
        assert_eq!(plan.sampling_scheme(), Some(SamplingScheme::RandomAllocation));
        assert_eq!((plan.steps_per_epoch(), plan.groups()), (Some(2), None));
        let truth = delta_of_two_steps(&plan, epsilon);
        assert!((0.7e-5..=1e-5 * 1.001).contains(&truth), "{name}: {truth:e}");
        let stated = plan.guarantee().epsilon_at(Delta::new(1e-5).unwrap());
        let elsewhere = plan.guarantee().epsilon_at(Delta::new(1e-4).unwrap());
        assert!(stated == epsilon && elsewhere < epsilon && elsewhere > 0.6 * epsilon, "{name}: {stated} {elsewhere}");
        let known = VectorRequest { sampling: None, ..plan.request().clone() }.plan().unwrap();
        assert!(plan.sigma() < known.sigma() && plan.guarantee().mu() > known.guarantee().mu(), "{name}");
    }
}

#[test]
fn plans_with_random_allocation_are_files_and_find_their_bands() {
    let request = allocated(64, 8.0, 16).with_objective(Objective::Mean);
    let plan = request.clone().plan().unwrap();
    let input = named("input", request.clone());
    assert!(plan.mean_std_error() < 0.6 * input.mean_std_error(), "{}", plan.name());
    let cyclic = sampled(64, 8.0, 1.0 / 16.0).with_objective(Objective::Mean).plan().unwrap();
    assert!(plan.mean_std_error() < 0.9 * cyclic.mean_std_error(), "{} {}", plan.name(), cyclic.name());
    let text = serde_json::to_string(&plan).unwrap();
    let read: VectorPlan = serde_json::from_str(&text).unwrap();
    assert_eq!((read.digest(), read.sigma(), read.steps_per_epoch()), (plan.digest(), plan.sigma(), Some(16)));
    assert_eq!(read.guarantee(), plan.guarantee());
    let written = r#"{"random-allocation":{"steps_per_epoch":16}}"#;
    for changed in [
        r#"{"random-allocation":{"steps_per_epoch":16,"fraction":0.1}}"#,
        r#"{"random-allocation":{"steps_per_epoch":16},"cyclic-poisson":{"fraction":0.1}}"#,
        r#"{"random-allocation":{}}"#,
    ] {
        let changed = text.replace(written, changed);
        assert!(changed != text && serde_json::from_str::<VectorPlan>(&changed).is_err());
    }
    let tree = request.clone().with_mechanism("binary".parse().unwrap()).plan().unwrap_err().to_string();
    assert!(tree.contains("plan without sampling"), "{tree}");
    let few = allocated(8, 2.0, 16).with_mechanism("input".parse().unwrap()).plan().unwrap_err().to_string();
    assert!(few.contains("plan at least one epoch"), "{few}");
    assert!(Sampling::random_allocation(0).is_err());
}

/// Every example is allocated to one step, the same in every epoch; steps are uniform, and determined by the key.
#[test]
fn random_allocation_is_drawn_once() {
    let plan = named("input", allocated(25, 8.0, 10));
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
    // χ² with 9 degrees of freedom: above 60 with probability 10⁻⁹.
    assert!(squares < 60.0, "{squares}");
    assert_eq!((own.expected_size(), own.steps_per_epoch(), own.groups()), (5000.0, Some(10), None));
    assert_eq!(own.batch(1).unwrap(), batches(&plan, 1, "a", examples).batch(1).unwrap());
    assert_eq!(own.batch(1).unwrap()[..10], batches(&plan, 1, "a", examples + 5).batch(1).unwrap()[..10]);
    assert_ne!(own.batch(1).unwrap(), batches(&plan, 2, "a", examples).batch(1).unwrap());
    assert_ne!(own.batch(1).unwrap(), batches(&plan, 1, "b", examples).batch(1).unwrap());
    // Examples with neighbouring numbers share a step only by chance: a tenth of the 50 000 pairs, within 6 standard
    // deviations.
    let mut steps = vec![0; examples as usize];
    (1..=10).for_each(|step| own.batch(step).unwrap().iter().for_each(|example| steps[*example as usize] = step));
    let equal = steps.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64;
    assert!((equal - 5000.0).abs() < 6.0 * (50_000.0f64 * 0.09).sqrt(), "{equal}");
}

fn allocated_per_epoch(horizon: u64, epsilon: f64, steps_per_epoch: u64) -> VectorRequest {
    let sampling = Sampling::per_epoch_random_allocation(steps_per_epoch).unwrap();
    VectorRequest::new(horizon, approximate(epsilon, 1e-5), 1.0).with_sampling(sampling)
}

/// The probabilities and likelihood ratios of a round in which an example adds one of two columns, over a grid in
/// their plane.
fn round_of_two(columns: [Vec<f64>; 2], sigma: f64) -> Vec<(f64, f64)> {
    let product =
        |a: usize, b: usize| columns[a].iter().zip(&columns[b]).map(|(a, b)| a * b).sum::<f64>() / (sigma * sigma);
    let root = product(0, 0).sqrt();
    let across = if root > 0.0 { product(0, 1) / root } else { 0.0 };
    let rest = (product(1, 1) - across * across).max(0.0).sqrt();
    let normal = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (step, reach) = (0.04, 9.0);
    let place = |i: i32| -reach + step * (f64::from(i) + 0.5);
    let cells = || (0..450).map(place);
    let at = |x: f64, y: f64| {
        let likelihood = |by: (f64, f64)| (by.0 * x + by.1 * y - (by.0 * by.0 + by.1 * by.1) / 2.0).exp();
        (normal(x) * normal(y) * step * step, (likelihood((root, 0.0)) + likelihood((across, rest))) / 2.0)
    };
    cells().flat_map(|x| cells().map(move |y| (x, y))).map(|(x, y)| at(x, y)).collect()
}

/// `E_Q (M - e^ε)⁺` and `E_Q (1 - e^ε M)⁺`, the larger one, for the product of two rounds.
fn delta_of_rounds(one: &[(f64, f64)], other: &[(f64, f64)], epsilon: f64) -> f64 {
    let mut sorted = other.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    // Probabilities and expectations of all outcomes from a place on.
    let mut from = vec![(0.0, 0.0)];
    for (chance, ratio) in sorted.iter().rev() {
        let last = from[from.len() - 1];
        from.push((last.0 + chance, last.1 + chance * ratio));
    }
    from.reverse();
    let (mut removed, mut added) = (0.0, 0.0);
    for (chance, ratio) in one {
        let above = from[sorted.partition_point(|(_, other)| ratio * other <= epsilon.exp())];
        removed += chance * (ratio * above.1 - epsilon.exp() * above.0);
        let rest = from[sorted.partition_point(|(_, other)| ratio * other < (-epsilon).exp())];
        added += chance * ((from[0].0 - rest.0) - epsilon.exp() * ratio * (from[0].1 - rest.1));
    }
    removed.max(added)
}

/// The guarantee compared with the exact law of the releases, by the columns of the dense twin in the stated steps,
/// for every phase: two rounds with two places each.
#[test]
fn per_epoch_random_allocation_keeps_the_promise_for_every_phase() {
    for (name, horizon, steps, epsilon) in [
        ("input", 4, 2, 1.0),
        ("banded-sqrt(bands=2)", 6, 3, 2.0),
        ("banded-sqrt(bands=2)", 5, 3, 4.0),
        ("epoch-bands(bands=3)", 8, 4, 3.0),
    ] {
        let plan = named(name, allocated_per_epoch(horizon, epsilon, steps));
        assert_eq!(plan.sampling_scheme(), Some(SamplingScheme::PerEpochRandomAllocation));
        assert_eq!((plan.steps_per_epoch(), plan.groups()), (Some(steps), None));
        let separation = plan.request().participation().separation();
        assert_eq!((plan.request().participation().most(), steps - separation + 1), (2, 2), "{name}");
        let right = plan.mechanism().dense().r;
        let column = |step: u64| -> Vec<f64> {
            (0..right.shape().0).map(|t| if step < horizon { right.row(t)[step as usize] } else { 0.0 }).collect()
        };
        let truth = |phase: u64| {
            let round = |round: u64| {
                let step = |place: u64| (round * steps + phase + place) % (2 * steps);
                round_of_two([column(step(0)), column(step(1))], plan.sigma())
            };
            delta_of_rounds(&round(0), &round(1), epsilon)
        };
        let truths: Vec<f64> = (0..steps).map(truth).collect();
        let largest = truths.iter().copied().fold(0.0, f64::max);
        assert!((0.6e-5..=1e-5 * 1.001).contains(&largest), "{name}: {truths:?}");
        let stated = plan.guarantee().epsilon_at(Delta::new(1e-5).unwrap());
        let elsewhere = plan.guarantee().epsilon_at(Delta::new(1e-4).unwrap());
        assert!(stated == epsilon && elsewhere < epsilon && elsewhere > 0.6 * epsilon, "{name}: {stated} {elsewhere}");
        let known = VectorRequest { sampling: None, ..allocated_per_epoch(horizon, epsilon, steps) };
        let known = named(name, known.with_participation(plan.request().participation()));
        assert!(plan.sigma() < known.sigma() && plan.guarantee().mu() > known.guarantee().mu(), "{name}");
    }
}

#[test]
fn plans_with_per_epoch_random_allocation_are_files_and_find_their_bands() {
    let request = allocated_per_epoch(160, 2.0, 40).with_objective(Objective::Mean);
    let plan = request.clone().plan().unwrap();
    let others = [allocated(160, 2.0, 40), sampled(160, 2.0, 1.0 / 40.0)];
    for other in others.map(|request| request.with_objective(Objective::Mean).plan().unwrap()) {
        assert!(plan.mean_std_error() < 0.99 * other.mean_std_error(), "{} {}", plan.name(), other.name());
    }
    let text = serde_json::to_string(&plan).unwrap();
    let read: VectorPlan = serde_json::from_str(&text).unwrap();
    assert_eq!((read.digest(), read.sigma(), read.steps_per_epoch()), (plan.digest(), plan.sigma(), Some(40)));
    assert_eq!(read.guarantee(), plan.guarantee());
    for changed in [
        r#"{"per-epoch-random-allocation":{"steps_per_epoch":40},"random-allocation":{"steps_per_epoch":40}}"#,
        r#"{"per-epoch-random-allocation":{"steps_per_epoch":39}}"#,
        r#"{"random-allocation":{"steps_per_epoch":40}}"#,
    ] {
        let changed = text.replace(r#"{"per-epoch-random-allocation":{"steps_per_epoch":40}}"#, changed);
        assert!(changed != text && serde_json::from_str::<VectorPlan>(&changed).is_err());
    }
    assert!(Sampling::per_epoch_random_allocation(0).is_err());
    // Bands as wide as an epoch leave one place: the numbers are those of an allocation that is drawn once, but the
    // plan is different.
    let wide = named("banded-sqrt(bands=10)", allocated_per_epoch(20, 1.0, 10));
    let text = serde_json::to_string(&wide).unwrap();
    let changed = text.replace("per-epoch-random-allocation", "random-allocation");
    assert!(changed != text && serde_json::from_str::<VectorPlan>(&changed).is_err());
    let one = [allocated_per_epoch(5, 1.0, 1), allocated(5, 1.0, 1)].map(|request| named("input", request));
    assert!(one[0].sigma() == one[1].sigma() && one[0].digest() != one[1].digest());
}

/// Every example takes part once in every round, in a uniform place, and rests in between; the key determines the
/// draws, step by step.
#[test]
fn per_epoch_random_allocation_is_drawn_in_every_epoch() {
    for (horizon, rounds) in [(30u64, 3u64), (25, 3)] {
        let plan = named("banded-sqrt(bands=3)", allocated_per_epoch(horizon, 8.0, 10));
        let examples = 40_000u64;
        let own = batches(&plan, 1, "a", examples);
        let all: Vec<Vec<u64>> = (1..=horizon).map(|step| own.batch(step).unwrap()).collect();
        let mut steps = vec![vec![]; examples as usize];
        for (batch, step) in all.iter().zip(0u64..) {
            assert!(batch.windows(2).all(|pair| pair[0] < pair[1]));
            // Eight phases with one place of eight: 4000 in expectation, within 6 standard deviations.
            assert!((batch.len() as f64 - 4000.0).abs() < 6.0 * 3500f64.sqrt(), "{}", batch.len());
            batch.iter().for_each(|example| steps[*example as usize].push(step));
        }
        let (mut places, mut repeated) = (vec![[0u32; 8]; rounds as usize], 0u32);
        for (steps, example) in steps.iter().zip(0u64..) {
            assert!(steps.windows(2).all(|pair| pair[1] - pair[0] >= 3), "{steps:?}");
            // By the round of a step, and the place in it.
            let placed: Vec<(u64, u64)> = steps
                .iter()
                .map(|step| (step + rounds * 10 - example % 10) % (rounds * 10))
                .map(|since| (since / 10, since % 10))
                .collect();
            assert!(horizon < 30 || placed.len() == 3, "{example}: {placed:?}");
            for (round, place) in &placed {
                assert_eq!(placed.iter().filter(|(other, _)| other == round).count(), 1, "{example}: {placed:?}");
                places[*round as usize][*place as usize] += 1;
            }
            repeated += u32::from(placed.len() == 3 && placed[0].1 == placed[1].1);
        }
        if horizon == 30 {
            for places in places {
                // χ² with 7 degrees of freedom: above 56 with probability 10⁻⁹.
                let squares: f64 = places.iter().map(|n| (f64::from(*n) - 5000.0).powi(2) / 5000.0).sum();
                assert!(squares < 56.0, "{places:?}");
            }
            // Rounds are independent: an eighth, within 6 standard deviations.
            assert!((f64::from(repeated) - 5000.0).abs() < 6.0 * 4375f64.sqrt(), "{repeated}");
        }
        // The same in any order of calls and with more examples; different under another key or name.
        let again = batches(&plan, 1, "a", examples);
        for step in [horizon, 1, 17, 11, 2, 21] {
            assert_eq!(again.batch(step).unwrap(), all[step as usize - 1]);
        }
        assert_eq!(all[4][..10], batches(&plan, 1, "a", examples + 5).batch(5).unwrap()[..10]);
        assert_ne!(all[4], batches(&plan, 2, "a", examples).batch(5).unwrap());
        assert_ne!(all[4], batches(&plan, 1, "b", examples).batch(5).unwrap());
        assert_eq!(own.scheme(), SamplingScheme::PerEpochRandomAllocation);
        assert_eq!((own.expected_size(), own.steps_per_epoch(), own.groups()), (4000.0, Some(10), None));
        assert!(own.batch(0).is_err() && own.batch(horizon + 1).is_err());
    }
}
