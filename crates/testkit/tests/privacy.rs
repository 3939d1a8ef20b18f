//! Pure privacy from end to end: the exact loss of every plan, and the loss measured on the releases of neighbouring
//! streams. Levels: [`LEVEL`] = 10⁻⁹ for each family of comparisons (Bonferroni inside).

use std::collections::BTreeMap;

use evertally::mechanism::DensePair;
use evertally::noise::{GuardedKey, TestSeed};
use evertally::plan::{NoiseKind, Plan, PlanRequest};
use evertally::privacy::{Budget, Epsilon};
use evertally::stream::RunningSum;
use evertally_testkit::{LEVEL, chi_square, normal_tail};

fn plan(mechanism: &str, horizon: u64, epsilon: f64) -> Plan {
    let budget = Budget::Pure(Epsilon::new(epsilon).expect("a valid epsilon"));
    let mechanism = Some(mechanism.parse().expect("a known mechanism"));
    let noise = Some(NoiseKind::Laplace);
    PlanRequest::count(horizon, budget)
        .with_optional_mechanism(mechanism)
        .with_optional_noise(noise)
        .plan()
        .expect("a valid plan")
}

/// The privacy loss of the noisy node sums when one event is added at the worst step: an outcome that lies on the near
/// side of 0 in every changed sum costs `Σ_n |R_ni| / scale`, and none costs more.
fn exact_loss(plan: &Plan) -> f64 {
    let r = plan.mechanism().dense().r;
    let (nodes, steps) = r.shape();
    let loss = |step: usize| (0..nodes).map(|node| r.row(node)[step].abs()).sum::<f64>() / plan.law().scale();
    (0..steps).map(loss).fold(0.0, f64::max)
}

#[test]
fn the_exact_loss_is_the_budget() {
    for mechanism in [
        "input",
        "output",
        "binary",
        "honaker-online",
        "kary(k=3)",
        "subtract(k=4)",
        "subtract(k=5)",
        "smooth",
        "smooth(h=12,zeros=4)",
    ] {
        for horizon in [1, 2, 3, 4, 7, 8, 13, 40, 100] {
            for epsilon in [0.1, 1.0, 3.0] {
                let spent = exact_loss(&plan(mechanism, horizon, epsilon)) / epsilon;
                assert!(spent <= 1.0 + 1e-12, "{mechanism} over {horizon} steps spends {spent} of its budget");
                assert!(spent >= 1.0 - 1e-6, "{mechanism} over {horizon} steps spends only {spent} of its budget");
            }
        }
    }
}

/// The cells of a node sum: ≤ −2, −1, 0, 1, 2, ≥ 3.
const CELLS: std::ops::RangeInclusive<i64> = -2..=3;

/// By cell: how often the vector of the changed node sums fell there.
type Histogram = BTreeMap<Vec<i64>, f64>;

/// Mechanisms with as many nodes as steps: there the releases reveal every node sum, `R` of their differences.
struct Experiment {
    plan: Plan,
    pair: DensePair,
    /// The step whose event changes the most node sums, from 0, and those sums.
    worst: usize,
    changed: Vec<usize>,
}

impl Experiment {
    fn new(plan: Plan) -> Self {
        let pair = plan.mechanism().dense();
        let (nodes, steps) = pair.r.shape();
        assert_eq!(nodes, steps, "{} hides node sums", plan.mechanism().name());
        let changed = |step: usize| (0..nodes).filter(|&node| pair.r.row(node)[step] != 0.0).collect::<Vec<_>>();
        let worst = (0..steps).max_by_key(|&step| changed(step).len()).expect("steps");
        Self { changed: changed(worst), plan, pair, worst }
    }

    /// Releases of a stream with or without an event at the worst step. All other data are 0, without loss of
    /// generality: noise is added to the sums.
    fn histogram(&self, seed: u64, event: bool, paths: usize) -> Histogram {
        let key = GuardedKey::insecure_from_test_seed(TestSeed(seed));
        let mut histogram = Histogram::new();
        for path in 0..paths {
            let name = format!("path {path}").parse().expect("a valid name");
            let mut stream = RunningSum::new(self.plan.clone(), &key, name).expect("every plan has a stream");
            let (mut before, mut differences) = (0, Vec::new());
            for step in 0..self.plan.horizon() as usize {
                if event && step == self.worst {
                    stream.add(1).expect("a valid event");
                }
                let release = stream.tick().expect("within the horizon").multiple() as i64;
                differences.push(release - before);
                before = release;
            }
            let sum = |&node: &usize| -> i64 {
                self.pair.r.row(node).iter().zip(&differences).map(|(weight, x)| *weight as i64 * x).sum()
            };
            let cell = self.changed.iter().map(|node| sum(node).clamp(*CELLS.start(), *CELLS.end())).collect();
            *histogram.entry(cell).or_default() += 1.0;
        }
        histogram
    }

    /// The exact probability of a cell, from the law alone.
    fn probability(&self, cell: &[i64], event: bool) -> f64 {
        let scale = self.plan.law().scale();
        let q = (-1.0 / scale).exp();
        // P(X ≤ k) for k < 0, and by symmetry.
        let at_most = |k: i64| (k as f64 / scale).exp() / (1.0 + q);
        let of = |sum: i64| match sum - i64::from(event) {
            x if sum == *CELLS.start() => at_most(x),
            x if sum == *CELLS.end() => at_most(-x),
            x => (-(x.abs() as f64) / scale).exp() * (1.0 - q) / (1.0 + q),
        };
        cell.iter().map(|&sum| of(sum)).product()
    }

    /// All cells.
    fn cells(&self) -> Vec<Vec<i64>> {
        self.changed.iter().fold(vec![vec![]], |cells, _| {
            let longer = |cell: &Vec<i64>| CELLS.map(|sum| [&cell[..], &[sum]].concat()).collect::<Vec<_>>();
            cells.iter().flat_map(longer).collect()
        })
    }
}

/// The p-value of "no cell is more than `exp(epsilon)` times as likely under `one` as under `other`": the worst cell's
/// times the number of cells with enough events to judge.
fn loss_within(epsilon: f64, one: &Histogram, other: &Histogram) -> f64 {
    let factor = epsilon.exp();
    let judged: Vec<f64> = one
        .iter()
        .map(|(cell, &seen)| (seen, other.get(cell).copied().unwrap_or(0.0)))
        .filter(|(seen, _)| *seen >= 200.0)
        .map(|(seen, elsewhere)| {
            let excess = (seen - factor * elsewhere) / (seen + factor * factor * elsewhere).sqrt();
            if excess > 0.0 { normal_tail(excess) / 2.0 } else { 1.0 }
        })
        .collect();
    assert!(!judged.is_empty());
    judged.iter().copied().fold(1.0, f64::min) * judged.len() as f64
}

/// The measured loss of the outcome "every changed sum is at most 0", where the loss is greatest, and its standard
/// error.
fn greatest_loss(without: &Histogram, with: &Histogram) -> (f64, f64) {
    let low = |histogram: &Histogram| -> f64 {
        histogram.iter().filter(|(cell, _)| cell.iter().all(|&sum| sum <= 0)).map(|(_, n)| n).sum()
    };
    let (a, b) = (low(without), low(with));
    ((a / b).ln(), (1.0 / a + 1.0 / b).sqrt())
}

/// Measured with and without one event, over streams of many names.
fn is_as_private_as_promised(mechanism: &str, horizon: u64) {
    const PATHS: usize = 150_000;
    const EPSILON: f64 = 1.0;
    let measured = |epsilon: f64, seed: u64| {
        let experiment = Experiment::new(plan(mechanism, horizon, epsilon));
        let histograms = [experiment.histogram(seed, false, PATHS), experiment.histogram(seed + 1, true, PATHS)];
        (experiment, histograms)
    };
    let (experiment, [without, with]) = measured(EPSILON, 1);
    for (histogram, event) in [(&without, false), (&with, true)] {
        let p = chi_square(experiment.cells().iter().map(|cell| {
            let seen = histogram.get(cell).copied().unwrap_or(0.0);
            (seen, PATHS as f64 * experiment.probability(cell, event))
        }));
        assert!(p > LEVEL, "{mechanism}, event {event}: p = {p:e}");
    }
    for (one, other) in [(&without, &with), (&with, &without)] {
        let p = loss_within(EPSILON, one, other);
        assert!(p > LEVEL, "{mechanism}: a loss above ε, p = {p:e}");
    }
    // The budget is used: the largest loss is ε except for the spread of the measurement.
    let (loss, error) = greatest_loss(&without, &with);
    assert!(error < 0.02 && loss > 0.9 * EPSILON, "{mechanism}: loss {loss} ± {error}");
    assert!(normal_tail((loss - EPSILON) / error) > LEVEL, "{mechanism}: loss {loss} ± {error}");

    // Tests of this test: half the noise is refuted, and so is noise that is short by a tenth.
    let (_, [without, with]) = measured(2.0 * EPSILON, 3);
    assert!(loss_within(EPSILON, &without, &with) < LEVEL, "{mechanism} with half the noise");
    let (_, [without, with]) = measured(1.1 * EPSILON, 5);
    let (loss, error) = greatest_loss(&without, &with);
    assert!(loss > EPSILON && normal_tail((loss - EPSILON) / error) < LEVEL, "{mechanism}: loss {loss} ± {error}");
}

mod neighbouring_streams_are_as_alike_as_promised {
    use super::is_as_private_as_promised;

    #[test]
    fn input() {
        is_as_private_as_promised("input", 4);
    }

    #[test]
    fn output() {
        is_as_private_as_promised("output", 4);
    }

    #[test]
    fn binary() {
        is_as_private_as_promised("binary", 7);
    }

    #[test]
    fn kary() {
        is_as_private_as_promised("kary(k=3)", 7);
    }

    #[test]
    fn subtract() {
        is_as_private_as_promised("subtract(k=3)", 9);
    }
}
