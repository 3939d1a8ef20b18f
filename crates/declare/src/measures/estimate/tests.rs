//! Coverage of the intervals of measures, by simulation with fixed seeds.

use super::*;
use crate::measures::Wanted;
use evertally::noise::{GuardedKey, TestSeed};
use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Epsilon, Rho, Unit, Values};
use evertally::stream::{GroupedSums, Groups};

/// Simulated releases of one setting. A share of 4000 is within 0.0169 of its probability at a significance of 10⁻⁶.
const TRIALS: u64 = 4000;

/// Numbers between 0 and 1, for data.
struct Uniform(u64);

impl Uniform {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Events of one step with values from -30 to 170.
fn data(events: usize, seed: u64) -> Vec<i64> {
    let mut random = Uniform(seed);
    // Most are small, and some large.
    let value = |u: f64| -30 + (200.0 * u * u) as i64;
    (0..events).map(|_| value(random.next())).collect()
}

fn bundle(wanted: &[&str], budget: Budget) -> Arc<Bundle> {
    let wanted: Vec<Wanted> = wanted.iter().map(|text| text.parse().unwrap()).collect();
    let request =
        PlanRequest::count(16, budget).with_unit(Unit::person(2)).with_values(Values::Sum { lower: -30, upper: 170 });
    let head = request.clone().plan().unwrap();
    Arc::new(Bundle::plan(&wanted, &head, &request, &[]).unwrap())
}

/// The exact sums of each part over the values, cell by cell.
fn exact(bundle: &Bundle, values: &[i64]) -> Vec<Vec<i64>> {
    let of = |planned: &crate::measures::PlannedPart| {
        let mut sums = vec![0; planned.part.cells()];
        for value in values {
            match &planned.part {
                Part::Count => sums[0] += 1,
                Part::Sum => sums[0] += bundle.centre().unwrap().deviation(*value),
                Part::Squares => {
                    let centre = bundle.centre().unwrap();
                    sums[0] += centre.square(centre.deviation(*value), planned.plan.noise_kind());
                }
                Part::Bins(cuts) => sums[cuts.partition_point(|cut| cut <= value)] += 1,
                Part::Ranks(tree) => tree.nodes_of(*value).for_each(|node| sums[node] += 1),
                Part::People | Part::Active(_) | Part::Present(_) | Part::Reading(_) => unreachable!("not of values"),
            }
        }
        sums
    };
    bundle.parts().iter().map(of).collect()
}

/// The share of independent releases of the first step in which the interval of each row contains the truth, and the
/// share in which the row has a value.
fn coverage(bundle: &Arc<Bundle>, values: &[i64], truths: &[f64]) -> Vec<(f64, f64)> {
    let mut estimator = Estimator::new(Arc::clone(bundle), 0.95).unwrap();
    estimator.go_to(1);
    let sums = exact(bundle, values);
    let key = GuardedKey::insecure_from_test_seed(TestSeed(7));
    let cells: Vec<String> = (0..TRIALS).map(|trial| trial.to_string()).collect();
    // Every trial is a group with its own noise.
    let released: Vec<Vec<Vec<Release>>> = bundle
        .parts()
        .iter()
        .zip(&sums)
        .map(|(planned, sums)| {
            let of_cell = |(cell, sum): (usize, &i64)| {
                let name = format!("coverage {cell}").parse().unwrap();
                let groups = Groups::new(cells.clone()).unwrap();
                let mut noisy = GroupedSums::new(planned.plan.clone(), &key, name, groups).unwrap();
                noisy
                    .tick()
                    .unwrap()
                    .iter()
                    .map(|r| r.continuing_from(i128::from(*sum) << planned.plan.fraction_bits()))
                    .collect()
            };
            sums.iter().enumerate().map(of_cell).collect()
        })
        .collect();
    let mut held = vec![(0.0, 0.0); truths.len()];
    for trial in 0..TRIALS as usize {
        let of_part = |part: &Vec<Vec<Release>>| part.iter().map(|cell| cell[trial]).collect::<Vec<_>>();
        let parts: Vec<Vec<Release>> = released.iter().map(of_part).collect();
        let parts: Vec<&[Release]> = parts.iter().map(Vec::as_slice).collect();
        for ((held, row), truth) in held.iter_mut().zip(estimator.rows(&parts)).zip(truths) {
            assert!(row.value.is_nan() || (row.lower <= row.value && row.value <= row.upper), "{row:?}");
            held.0 += f64::from(u8::from(row.lower <= *truth && *truth <= row.upper)) / TRIALS as f64;
            held.1 += f64::from(u8::from(!row.value.is_nan())) / TRIALS as f64;
        }
    }
    held
}

fn budgets() -> [Budget; 2] {
    [Budget::Zcdp(Rho::new(0.5).unwrap()), Budget::Pure(Epsilon::new(1.0).unwrap())]
}

fn moments(values: &[i64]) -> (f64, f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<i64>() as f64 / n;
    (n, mean, values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / n)
}

/// Checks that a share is between 94 and 96 %, within the sampling error of the trials.
fn check(what: &str, share: f64) {
    let open = 4.9 * (0.95 * 0.05 / TRIALS as f64).sqrt();
    assert!((0.94 - open..=0.96 + open).contains(&share), "{what}: {share}");
    println!("{what}: {share}");
}

#[test]
fn counts_sums_means_and_variances_are_held_as_often_as_they_say() {
    for budget in budgets() {
        let bundle = bundle(&["count", "sum", "mean", "variance", "std"], budget);
        let half = 100.0;
        for events in [300, 2000, 50_000] {
            let values = data(events, 5);
            let (n, mean, variance) = moments(&values);
            let truths = [n, n * mean, mean, variance, variance.sqrt()];
            let held = coverage(&bundle, &values, &truths);
            for (place, (share, valued)) in held.iter().enumerate() {
                let what = format!("{budget}, {events} events, {}", bundle.labels()[place]);
                // If a value is missing, the interval is the whole range and always contains the truth.
                if *valued > 0.999 {
                    check(&what, *share);
                } else {
                    assert!(*share > 0.94, "{what}: {share} with {valued} values");
                }
            }
            assert!(held[2].1 > 0.999, "{budget}, {events}: a mean of this many events has a value");
        }
        // With few events there are no values.
        let few = data(3, 5);
        let (n, mean, variance) = moments(&few);
        let held = coverage(&bundle, &few, &[n, n * mean, mean, variance, variance.sqrt()]);
        assert!(held[2..].iter().all(|(share, _)| *share > 0.95), "{held:?}");
        assert!(held[3].1 < 0.1, "a variance of three events has no value: {held:?}");
        assert!(variance <= half * half);
    }
}

#[test]
fn bins_and_quantiles_are_held_as_often_as_they_say() {
    let budgets = [Budget::Zcdp(Rho::new(0.01).unwrap()), Budget::Pure(Epsilon::new(1.0).unwrap())];
    for budget in budgets {
        let bundle = bundle(&["histogram(0,50)", "quantile(0.5)", "quantile(0.9)"], budget);
        // With so few values per cell, a cell is smaller than the noise, and the noise is smaller than their total.
        let mut values = data(3000, 9);
        values.sort_unstable();
        let between = |low: i64, high: i64| values.iter().filter(|value| (low..high).contains(*value)).count() as f64;
        let quantile = |share: f64| values[(share * values.len() as f64) as usize] as f64;
        let truths = [between(-30, 0), between(0, 50), between(50, 171), quantile(0.5), quantile(0.9)];
        for (place, (share, valued)) in coverage(&bundle, &values, &truths).into_iter().enumerate() {
            let what = format!("{budget}, {}", bundle.labels()[place]);
            assert!(valued > 0.999, "{what}");
            if place < 3 {
                check(&what, share);
            } else {
                // The interval consists of whole cells that are not ruled out, so its coverage is above the confidence.
                assert!(share > 0.95, "{what}: {share}");
                println!("{what}: {share}");
            }
        }
        // An empty set has no quantile.
        let held = coverage(&bundle, &[], &[0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(held[3].1 < 0.2 && held[3].0 > 0.99, "{held:?}");
    }
}

/// The budget is divided optimally for the declared weights.
#[test]
fn precision_goes_where_it_is_wanted() {
    let budget = budgets()[0];
    let share = |wanted: &[&str]| {
        let bundle = bundle(wanted, budget);
        let place = bundle.find(|part| *part == Part::Count).unwrap();
        bundle.parts()[place].share.unwrap()
    };
    let even = share(&["count", "sum"]);
    assert!(share(&["count*100", "sum"]) > even && share(&["count", "sum*100"]) < even);
    let with_variance = bundle(&["mean", "variance"], budget);
    let rho = with_variance.guarantee().rho.get();
    assert!(rho <= 0.5 && rho > 0.49999, "{rho}");
    assert_eq!(with_variance.parts().len(), 3);
    assert_eq!(with_variance.parts()[2].share, None);
    let pure = bundle(&["count", "mean", "quantile(0.5)"], budgets()[1]);
    assert_eq!(pure.guarantee().pure_epsilon.unwrap().get(), 1.0);
    // Every part has its own noise.
    let digests: std::collections::HashSet<_> = pure.parts().iter().map(|part| part.plan.digest()).collect();
    assert_eq!(digests.len(), pure.parts().len());
}

/// A bundle that has begun keeps its shares, mechanisms and noise, even if the weights change.
#[test]
fn what_has_begun_stays() {
    let request = PlanRequest::count(16, budgets()[0]).with_values(Values::Sum { lower: 0, upper: 9 });
    let head = request.clone().plan().unwrap();
    let wanted = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Wanted>>();
    let first = Bundle::plan(&wanted(&["count", "std"]), &head, &request, &[]).unwrap();
    #[derive(serde::Deserialize)]
    struct Parts {
        part: Vec<crate::measures::RecordedPart>,
    }
    let began: Parts = toml::from_str(&first.text()).unwrap();
    let again = Bundle::plan(&wanted(&["count*50", "std"]), &head, &request, &began.part).unwrap();
    assert_eq!(again.digest(), first.digest());
    let fresh = Bundle::plan(&wanted(&["count*50", "std"]), &head, &request, &[]).unwrap();
    assert_ne!(fresh.digest(), first.digest());
}
