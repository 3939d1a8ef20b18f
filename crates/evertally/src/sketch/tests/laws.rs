//! Means and variances of estimates, over noise and over hash functions. Each test has fewer than 40 comparisons of
//! significance 4·10^-8.

use super::*;
use crate::plan::Plan;
use crate::sketch::{Hashing, Shape, Table};

const GAUSSIAN_LAWS: [LazySampling; 2] = [LazySampling::Float, LazySampling::Keyed];

/// The estimates of items that never occurred are noise: mean 0 and the stated variance.
#[test]
fn noise_of_estimates_has_the_stated_variance() {
    for (rows, budget, sampling) in [
        (1, gaussian(), LazySampling::Float),
        (3, gaussian(), LazySampling::Keyed),
        (5, gaussian(), LazySampling::Float),
        (9, gaussian(), LazySampling::Float),
        (3, pure(), LazySampling::Float),
        (5, pure(), LazySampling::Keyed),
        (3, gaussian(), LazySampling::Integer),
        (3, pure(), LazySampling::Integer),
    ] {
        let plan = plan(&format!("count-sketch(rows={rows},width=4294967296)"), 40, budget, sampling);
        let mut sketch = CountSketch::new(plan, &key(1), named("noise")).unwrap();
        for step in [1u64, 23] {
            sketch.tick_through(step).unwrap();
            let estimates = sketch.estimate_many(0..20_000u64).unwrap();
            let values: Vec<f64> = estimates.iter().map(|e| e.value).collect();
            let what = format!("{rows} rows, {budget:?} {sampling} at {step}");
            assert_mean(&values, 0.0, &what);
            assert_variance(&values, estimates[0].noise_std_error.powi(2), &what);
        }
    }
}

/// Noise about as small as the grid, where the exactly drawn discrete law and the continuous one differ by a third.
#[test]
fn small_noise_has_the_stated_variance() {
    let budget = Budget::Pure(Epsilon::new(2.0).unwrap());
    let mut stated = vec![];
    for sampling in [LazySampling::Float, LazySampling::Keyed] {
        let shape = "count-sketch(rows=1,width=4294967296)".parse().unwrap();
        let request = PlanRequest::count(1, budget).with_mechanism("subtract(k=3)".parse().unwrap());
        let plan = SketchPlan::new(request, shape, sampling).unwrap();
        let mut sketch = CountSketch::new(plan, &key(9), named("small")).unwrap();
        sketch.tick().unwrap();
        let estimates = sketch.estimate_many(0..30_000u64).unwrap();
        let values: Vec<f64> = estimates.iter().map(|e| e.value).collect();
        assert_variance(&values, estimates[0].noise_std_error.powi(2), &sampling.to_string());
        stated.push(estimates[0].noise_std_error.powi(2));
    }
    assert!(stated[0] > 1.3 * stated[1], "{stated:?}");
}

/// One row: an estimate is off by collisions with mean 0 and variance (F2 - f²)/w; three: by less.
#[test]
fn collisions_have_mean_zero_and_the_variance_of_the_second_moment() {
    let counts = [7i64, -3, 5, 1, 1, 2, -8, 4, 6, 1];
    let second: f64 = counts.iter().map(|c| (c * c) as f64).sum();
    for rows in [1, 3] {
        let shape = format!("count-sketch(rows={rows},width=13)");
        let plan = plan(&shape, 1, plenty(), LazySampling::Float);
        let errors: Vec<f64> = (0..6000)
            .map(|seed| {
                let mut sketch = CountSketch::new(plan.clone(), &key(seed), named("hash")).unwrap();
                for (item, count) in (0u64..).zip(counts) {
                    (0..count.abs()).for_each(|_| sketch.add(item, count.signum()).unwrap());
                }
                sketch.tick().unwrap();
                sketch.estimate(0).unwrap().value - counts[0] as f64
            })
            .collect();
        assert_mean(&errors, 0.0, &shape);
        if rows == 1 {
            assert_variance(&errors, (second - 49.0) / 13.0, &shape);
        } else {
            let stated = CountSketch::new(plan, &key(0), named("hash")).unwrap().collision_std_error(second);
            assert!(mean(&errors.iter().map(|e| e * e).collect::<Vec<_>>()).0 < 1.2 * stated * stated);
        }
    }
}

/// Buckets are uniform, signs even, and rows independent of each other, for widths that are powers of two and others.
#[test]
fn hash_functions_are_uniform_and_independent() {
    for (rows, width) in [(3u32, 8u64), (5, 5), (31, 3)] {
        let hashing = Hashing::new(&key(3), &named("hash"), Table::new(rows, width).unwrap());
        let (mut counts, mut signs) = (vec![0.0; (u64::from(rows) * width) as usize], vec![0.0; rows as usize]);
        let mut pairs = vec![0.0; (width * width * 4) as usize];
        let items = 60_000u64;
        for item in 0..items {
            let mut places = vec![];
            hashing.each_place(&item.to_le_bytes(), |row, bucket, sign| {
                counts[(u64::from(row) * width + bucket) as usize] += 1.0;
                signs[row as usize] += sign as f64;
                places.push(bucket * 2 + u64::from(sign > 0));
            });
            pairs[(places[0] * 2 * width + places[places.len() - 1]) as usize] += 1.0;
        }
        let all = items as f64;
        let chi = |counts: &[f64], mean: f64| counts.iter().map(|c| (c - mean).powi(2) / mean).sum::<f64>();
        // A chi square of n cells has mean below n and variance below 2n; 8 deviations leave less than 10^-7 of it.
        let limit = |n: usize| n as f64 + 8.0 * (2.0 * n as f64).sqrt();
        assert!(chi(&counts, all / width as f64) < limit(counts.len()), "{rows} {width}");
        assert!(chi(&pairs, all / pairs.len() as f64) < limit(pairs.len()), "{rows} {width}");
        assert!(signs.iter().all(|s| s.abs() < 5.5 * all.sqrt()), "{rows} {width}: {signs:?}");
    }
}

/// The mean of the row-wise values over noise, for one fixed table, with the stated variance.
#[test]
fn second_moments_have_the_stated_noise() {
    for (budget, sampling) in GAUSSIAN_LAWS.map(|s| (gaussian(), s)).into_iter().chain([(pure(), LazySampling::Float)])
    {
        let request = PlanRequest::count(20, budget);
        let shape: Shape = "count-sketch(rows=3,width=16)".parse().unwrap();
        let plan = SketchPlan::sharing_hashes(request, shape, sampling, &named("hash")).unwrap();
        for events in [0u64, 60] {
            let run = |name: String| {
                let mut sketch = CountSketch::new(plan.clone(), &key(5), named(name)).unwrap();
                for _ in 0..events {
                    sketch.add(1, 1).unwrap();
                }
                sketch.tick().unwrap();
                sketch.second_moment().unwrap()
            };
            let found: Vec<_> = (0..5000).map(|run_number| run(format!("noise {run_number}"))).collect();
            // One item fills one cell per row, whatever the hash functions: no collisions.
            let exact = (events * events) as f64;
            let errors: Vec<f64> = found.iter().map(|e| e.value - exact).collect();
            let what = format!("{budget:?} {sampling}, {events} events");
            assert_mean(&errors, 0.0, &what);
            let stated = found.iter().map(|e| e.noise_std_error.powi(2)).sum::<f64>() / found.len() as f64;
            if events == 0 {
                // The estimate of the moment is cut at 0 inside the stated error: compare with its value for 0.
                assert_variance(&errors, moment_variance(plan.plan()), &what);
                assert!(stated > moment_variance(plan.plan()) && stated < 2.0 * moment_variance(plan.plan()), "{what}");
            } else {
                assert_variance(&errors, stated, &what);
            }
        }
    }
}

/// Without events: `w (κ - 1) σ⁴ / r` at step 1.
fn moment_variance(plan: &Plan) -> f64 {
    let kurtosis = match plan.noise_kind() {
        crate::plan::NoiseKind::Gaussian => 3.0,
        crate::plan::NoiseKind::Laplace => 3.0 + 3.0 / plan.mechanism().row_norm_squared(1),
    };
    16.0 * (kurtosis - 1.0) * plan.variance(1).powi(2) / 3.0
}

/// Moments and products are unbiased over hash functions and noise.
#[test]
fn moments_and_products_are_unbiased() {
    let (ours, theirs) = ([9i64, 4, -6, 2, 0, 1], [5i64, -2, 3, 3, 7, 0]);
    let dot = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(a, b)| (a * b) as f64).sum::<f64>();
    let request = PlanRequest::count(5, Budget::Zcdp(Rho::new(3.0).unwrap()));
    let shape: Shape = "count-sketch(rows=3,width=7)".parse().unwrap();
    let plan = SketchPlan::sharing_hashes(request, shape, LazySampling::Float, &named("hash")).unwrap();
    let (mut moments, mut products, mut stated) = (vec![], vec![], vec![]);
    for seed in 0..4000 {
        let fill = |name: &str, counts: &[i64]| {
            let mut sketch = CountSketch::new(plan.clone(), &key(seed), named(name)).unwrap();
            for (item, count) in (0u64..).zip(counts) {
                (0..count.abs()).for_each(|_| sketch.add(item, count.signum()).unwrap());
            }
            sketch.tick().unwrap();
            sketch
        };
        let (mut a, mut b) = (fill("ours", &ours), fill("theirs", &theirs));
        moments.push(a.second_moment().unwrap().value);
        let product = a.inner_product(&mut b).unwrap();
        products.push(product.value - dot(&ours, &theirs));
        stated.push(product.noise_std_error.powi(2));
    }
    assert_mean(&moments, dot(&ours, &ours), "moment");
    assert_mean(&products, 0.0, "product");
    // Noise and collisions: Σ_{i≠j} (a_i² b_j² + a_i b_i a_j b_j)/w a row.
    let squares = |c: &[i64]| c.iter().map(|c| c * c).collect::<Vec<_>>();
    let both: Vec<i64> = ours.iter().zip(&theirs).map(|(a, b)| a * b).collect();
    let same = dot(&squares(&ours), &squares(&theirs));
    let collisions =
        (dot(&ours, &ours) * dot(&theirs, &theirs) - same + dot(&ours, &theirs).powi(2) - dot(&both, &both)) / 21.0;
    assert_variance(&products, collisions + mean(&stated).0, "product");
}

/// Count-min: the estimate of one row is unbiased; the smallest cell is not, and its allowance covers as often as
/// stated.
#[test]
fn count_min_is_unbiased_and_its_upper_end_covers() {
    let counts = [12i64, 3, 5, 0, 9, 7, 2, 4];
    let hashed = plan("count-min(rows=1,width=5)", 3, gaussian(), LazySampling::Float);
    let wide = plan("count-min(rows=3,width=4294967296)", 3, gaussian(), LazySampling::Float);
    let (mut errors, mut least, mut covered, mut estimates) = (vec![], vec![], vec![], vec![]);
    for seed in 0..8000 {
        let fill = |plan: &SketchPlan| {
            let mut sketch = CountMin::new(plan.clone(), &key(seed), named("counts")).unwrap();
            for (item, count) in (0u64..).zip(counts) {
                (0..count).for_each(|_| sketch.add(item, 1).unwrap());
            }
            sketch.tick().unwrap();
            sketch
        };
        errors.push(fill(&hashed).estimate(0).unwrap().value - 12.0);
        let mut sketch = fill(&wide);
        let estimate = sketch.estimate(0).unwrap();
        estimates.push((estimate.value - 12.0) / estimate.noise_std_error);
        let upper = sketch.upper_end(0, 0.9).unwrap();
        least.push((upper.least - 12.0) / wide.plan().std_error(1));
        covered.push(f64::from(u8::from(upper.value() >= 12.0)));
    }
    assert_mean(&errors, 0.0, "one row");
    assert_mean(&estimates, 0.0, "three rows");
    assert_variance(&estimates, 1.0, "three rows");
    // The smallest of three normal numbers: -3/(2√π).
    assert_mean(&least, -0.846_284_375, "least cell");
    // The allowance is rounded up to a whole number: at least 0.9, and at most one unit too wide.
    let (share, error) = mean(&covered);
    assert!(share > 0.9 - 5.5 * error && share < 0.97, "{share}");
}
