//! Guarantees and errors of plans, from the matrices of their mechanisms and the law of their noise.

use super::neighbours::{Kept, changes};
use super::numbers::{
    Law, above, delta_of_gaussian, delta_of_laplace, epsilon_of_gaussian, epsilon_of_rho, exact, near, shown, sum,
    whole,
};
use evertally::mechanism::Matrix;
use evertally::noise::DiscreteLaw;
use evertally::plan::{NoiseKind, Plan, PlanRequest};
use evertally::privacy::{Budget, Delta, Epsilon, Neighbours, Rho, Unit, Values};
use nalgebra::{DMatrix, DVector};
use num_rational::BigRational;
use num_traits::{Signed, Zero};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The request for a plan.
#[derive(Clone, Debug)]
struct Asked {
    steps: usize,
    kept: Kept,
    groups: usize,
    replaced: bool,
    budget: u8,
    mechanism: &'static str,
}

/// Mechanisms whose factors have integer entries, so that all their quantities are fractions.
const WHOLE: [&str; 5] = ["input", "output", "binary", "kary(k=3)", "subtract(k=3)"];
const OTHERS: [&str; 7] =
    ["sqrt", "normalized-sqrt", "honaker-online", "smooth", "path-sum", "blt(buffers=2)", "dense"];

fn asked() -> impl Strategy<Value = Asked> {
    use proptest::option::of;
    use proptest::sample::select;
    let kept = (1..4u64, of(1..3u64), of(1..3u64), of(1..3u64), 1..3u64, select(vec![(1, 1), (-2, 3), (0, 4)]));
    let mechanisms = [&WHOLE[..], &OTHERS[..]].concat();
    (kept, 1..5usize, 1..3usize, proptest::bool::weighted(0.3), 0..6u8, select(mechanisms)).prop_map(
        |((events, per_step, per_group, groups_of, gap, values), steps, groups, replaced, budget, mechanism)| {
            let (per_group, groups_of) = if groups > 1 { (per_group, groups_of) } else { (None, None) };
            let kept = Kept { events, per_step, per_group, groups: groups_of, gap, values };
            Asked { steps, kept, groups, replaced, budget, mechanism }
        },
    )
}

impl Asked {
    fn budget(&self) -> Budget {
        let (epsilon, delta) = (|e| Epsilon::new(e).unwrap(), |d| Delta::new(d).unwrap());
        match self.budget {
            0 => Budget::Pure(epsilon(0.7)),
            1 => Budget::Pure(epsilon(3.0)),
            2 => Budget::Zcdp(Rho::new(0.01).unwrap()),
            3 => Budget::Zcdp(Rho::new(0.5).unwrap()),
            4 => Budget::Approximate(epsilon(1.0), delta(1e-6)),
            _ => Budget::Approximate(epsilon(0.3), delta(1e-9)),
        }
    }

    fn plan(&self) -> Option<Plan> {
        let bounds = &self.kept;
        let mut unit = Unit::person(bounds.events).with_optional_per_step(bounds.per_step).apart(bounds.gap);
        unit = bounds.per_group.map_or(unit, |events| unit.per_group(events));
        unit = bounds.groups.map_or(unit, |groups| unit.in_groups(groups));
        let (lower, upper) = bounds.values;
        let values = if (lower, upper) == (1, 1) { Values::Count } else { Values::Sum { lower, upper } };
        let neighbours = if self.replaced { Neighbours::ReplaceOne } else { Neighbours::AddRemove };
        PlanRequest::count(self.steps as u64, self.budget())
            .with_unit(unit)
            .with_values(values)
            .with_neighbours(neighbours)
            .with_mechanism(self.mechanism.parse().unwrap())
            .plan()
            .ok()
    }

    fn changes(&self) -> Vec<Vec<i64>> {
        let steps: Vec<usize> = (0..self.steps).collect();
        changes(&self.kept, self.replaced, &steps, self.groups, self.steps)
    }
}

/// The same for each of this many cases, drawn from a fixed seed.
pub(crate) fn for_each<S: Strategy>(seed: u8, cases: usize, strategy: &S, mut check: impl FnMut(S::Value)) {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for _ in 0..cases {
        check(strategy.new_tree(&mut runner).expect("a case").current());
    }
}

/// The largest squared distance that changes make, in standard deviations of Gaussian noise: `Σ_g (A d_g)ᵀ (L Lᵀ)⁺ (A
/// d_g)` over the variance.
pub(crate) fn squared_distance(plan: &Plan, changes: &[Vec<i64>]) -> f64 {
    let dense = plan.mechanism().dense();
    let (rows, nodes) = dense.l.shape();
    let l = DMatrix::from_fn(rows, nodes, |row, node| dense.l.row(row)[node]);
    let inverse = (&l * l.transpose()).pseudo_inverse(1e-12).expect("a matrix of moderate numbers");
    let cumulative = DMatrix::from_fn(rows, rows, |row, step| f64::from(u8::from(step <= row)));
    let form = cumulative.transpose() * inverse * &cumulative;
    let variance = parameter(plan) / (plan.noise_divisor() as f64).powi(2);
    let of = |change: &Vec<i64>| -> f64 {
        let groups = change.chunks(rows).map(|own| {
            let own = DVector::from_iterator(rows, own.iter().map(|sum| *sum as f64));
            (own.transpose() * &form * own)[(0, 0)]
        });
        groups.sum::<f64>() / variance
    };
    changes.iter().map(of).fold(0.0, f64::max)
}

fn parameter(plan: &Plan) -> f64 {
    match plan.law() {
        DiscreteLaw::Gaussian(law) => law.parameter().to_f64(),
        DiscreteLaw::Laplace(law) => law.scale().to_f64(),
    }
}

fn fraction_of(plan: &Plan) -> BigRational {
    let ratio = match plan.law() {
        DiscreteLaw::Gaussian(law) => law.parameter(),
        DiscreteLaw::Laplace(law) => law.scale(),
    };
    BigRational::new(ratio.numerator().into(), ratio.denominator().into())
}

/// How far a change moves every node, in steps of the noise grid.
fn node_shifts(r: &Matrix, change: &[i64], divisor: u64) -> Vec<BigRational> {
    let (nodes, steps) = r.shape();
    let of_group = |own: &[i64]| -> Vec<BigRational> {
        let at = |node: usize| {
            sum(r
                .row(node)
                .iter()
                .zip(own)
                .map(|(entry, sum)| exact(*entry) * BigRational::from_integer((*sum).into())))
        };
        (0..nodes).map(|node| at(node) * whole(divisor)).collect()
    };
    change.chunks(steps).flat_map(of_group).collect()
}

/// Under Gaussian noise: ρ, and ε at every δ, are never below those of the largest change.
#[test]
fn gaussian_promises_hold_for_every_change() {
    let (mut checked, mut tight) = (0, 0);
    for_each(1, 260, &asked(), |asked| {
        let Some(plan) = asked.plan().filter(|plan| plan.noise_kind() == NoiseKind::Gaussian) else { return };
        let squared = squared_distance(&plan, &asked.changes());
        let (rho, guarantee) = (squared / 2.0, plan.guarantee());
        let printed = guarantee.rho.get();
        assert!(rho <= printed * (1.0 + 1e-9), "{asked:?}: {printed} for {rho}");
        tight += usize::from(rho > printed * 0.999);
        let mu = squared.sqrt();
        for delta in [1e-3, 1e-6, 1e-9, 1e-12] {
            let at = guarantee.epsilon_at(Delta::new(delta).unwrap());
            assert!(delta_of_gaussian(mu, at) <= delta * (1.0 + 1e-6), "{asked:?}: {at} at {delta}");
            assert!(at >= epsilon_of_gaussian(mu, delta) * (1.0 - 1e-9), "{asked:?}: {at} at {delta}");
            // And no worse than implied by ρ.
            assert!(at <= epsilon_of_rho(printed, delta) * (1.0 + 1e-9), "{asked:?}: {at} at {delta}");
        }
        if let Some((epsilon, delta)) = guarantee.stated {
            assert!(delta_of_gaussian(mu, epsilon.get()) <= delta.get() * (1.0 + 1e-6), "{asked:?}");
        }
        checked += 1;
    });
    assert!(checked > 100 && tight > 30, "{checked} plans, {tight} of them tight");
}

/// The same if all quantities are fractions: to the last digit.
#[test]
fn promises_of_whole_factors_hold_exactly() {
    let mut checked = [0; 2];
    for_each(2, 400, &asked(), |asked| {
        let Some(plan) = asked.plan().filter(|plan| WHOLE.contains(&asked.mechanism) && !plan.exact_accounting())
        else {
            return;
        };
        let (r, parameter) = (plan.mechanism().dense().r, fraction_of(&plan));
        let (mut l1, mut l2) = (BigRational::zero(), BigRational::zero());
        let changes = asked.changes();
        for change in &changes {
            let shifts = node_shifts(&r, change, plan.noise_divisor());
            l1 = l1.max(sum(shifts.iter().map(Signed::abs)));
            l2 = l2.max(sum(shifts.iter().map(|shift| shift * shift)));
        }
        let (guarantee, two) = (plan.guarantee(), whole(2));
        match plan.noise_kind() {
            NoiseKind::Gaussian => {
                assert!(l2 / (two * parameter) <= shown(guarantee.rho.get()), "{asked:?}: {guarantee:?}");
            }
            NoiseKind::Laplace => {
                let printed = guarantee.pure_epsilon.expect("Laplace noise").get();
                assert!(&l1 / &parameter <= shown(printed), "{asked:?}: {guarantee:?}");
                let rho = (&l2 / (&two * &parameter * &parameter)).min(super::numbers::half_square(&shown(printed)));
                assert!(rho <= shown(guarantee.rho.get()), "{asked:?}: {guarantee:?}");
                for delta in [1e-3, 1e-6] {
                    let at = guarantee.epsilon_at(Delta::new(delta).unwrap());
                    assert!(at <= printed, "{asked:?}");
                    if near(&parameter) < 40.0 && r.shape().0 <= 4 {
                        laplace_holds(&asked, &plan, &changes, (at, delta));
                    }
                }
                if let Some((epsilon, delta)) = guarantee.stated.filter(|_| near(&parameter) < 40.0) {
                    laplace_holds(&asked, &plan, &changes, (epsilon.get(), delta.get()));
                }
            }
        }
        checked[usize::from(plan.noise_kind() == NoiseKind::Laplace)] += 1;
    });
    assert!(checked[0] > 40 && checked[1] > 40, "{checked:?}");
}

/// `(ε, δ)` holds for all changes, by the exact law of the loss; nodes that are read before their last step do not have
/// such a product.
fn laplace_holds(asked: &Asked, plan: &Plan, changes: &[Vec<i64>], (epsilon, delta): (f64, f64)) {
    let (r, scale) = (plan.mechanism().dense().r, parameter(plan));
    let mut tried = std::collections::BTreeSet::new();
    for change in changes {
        let shifts = node_shifts(&r, change, plan.noise_divisor());
        let mut shifts: Vec<i64> = shifts.iter().map(|shift| near(&shift.abs()) as i64).filter(|s| *s != 0).collect();
        shifts.sort_unstable();
        if tried.insert(shifts.clone()) {
            let spent = delta_of_laplace(scale, &shifts, epsilon);
            assert!(spent <= delta * (1.0 + 1e-6) + 1e-15, "{asked:?}: {spent} at ε = {epsilon} for {shifts:?}");
        }
    }
}

/// Standard errors are those of the rows of `L` and the variance of the noise, and intervals cover as often as stated.
#[test]
fn errors_and_intervals_are_those_of_the_noise() {
    let (mut checked, mut covered) = (0, 0);
    for_each(3, 160, &asked(), |asked| {
        let Some(plan) = asked.plan().filter(|plan| plan.fraction_bits() == 0 || plan.noise_divisor() == 1) else {
            return;
        };
        let (l, divisor) = (plan.mechanism().dense().l, plan.noise_divisor() as f64);
        let law = match plan.noise_kind() {
            NoiseKind::Gaussian => Law::gaussian(parameter(&plan).min(1e4)),
            NoiseKind::Laplace => Law::laplace(parameter(&plan).min(100.0)),
        };
        let is_small = match plan.noise_kind() {
            NoiseKind::Gaussian => parameter(&plan) <= 400.0,
            NoiseKind::Laplace => parameter(&plan) <= 12.0,
        };
        let variance = if is_small { law.variance() } else { approximate_variance(&plan) };
        let rows: Vec<f64> =
            (0..asked.steps).map(|row| l.row(row).iter().map(|entry| entry * entry).sum::<f64>() * variance).collect();
        let errors: Vec<f64> = rows.iter().map(|variance| variance.sqrt() / divisor).collect();
        for (step, error) in (1..).zip(&errors) {
            let printed = plan.std_error(step);
            assert!((printed / error - 1.0).abs() < 1e-6, "{asked:?}, step {step}: {printed} {error}");
        }
        let largest = errors.iter().copied().fold(0.0, f64::max);
        let mean = (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt();
        assert!((plan.max_std_error() / largest - 1.0).abs() < 1e-6, "{asked:?}");
        assert!((plan.mean_std_error() / mean - 1.0).abs() < 1e-6, "{asked:?}");
        checked += 1;
        // If releases are sums of a few integer variables: their exact law.
        if !is_small || divisor != 1.0 || !WHOLE.contains(&asked.mechanism) {
            return;
        }
        for confidence in [0.5, 0.95, 0.999] {
            let mut intervals = plan.intervals(confidence).unwrap();
            for row in 0..asked.steps {
                let read: Vec<i64> = l.row(row).iter().map(|entry| *entry as i64).filter(|entry| *entry != 0).collect();
                assert!(read.iter().all(|entry| entry.abs() == 1), "{asked:?}: {read:?}");
                let release = read[1..].iter().fold(law.clone(), |sum, _| sum.plus(&law));
                let width = intervals.half_width(row as u64 + 1) as i64;
                let holds = release.within(width);
                assert!(holds >= confidence - 1e-9, "{asked:?}, step {}: {holds} of {confidence}", row + 1);
                covered += 1;
            }
        }
    });
    assert!(checked > 60 && covered > 60, "{checked} {covered}");
}

/// For noise too wide to be summed: the quantile of the continuous law, and its first correction.
fn approximate_variance(plan: &Plan) -> f64 {
    match plan.noise_kind() {
        NoiseKind::Gaussian => parameter(plan),
        NoiseKind::Laplace => {
            let q = (-1.0 / parameter(plan)).exp();
            2.0 * q / (1.0 - q).powi(2)
        }
    }
}

/// Thresholds at which undeclared keys are shown keep their δ: of running counts with a selection after every step.
#[test]
fn selection_keeps_its_delta() {
    use evertally::privacy::selection::{Selection, SelectionTimes};
    let mut checked = 0;
    for_each(4, 240, &asked(), |asked| {
        let (budget, delta) = (asked.budget(), 10f64.powi(-4 - i32::from(asked.budget)));
        if matches!(budget, Budget::Pure(_)) || asked.kept.values != (1, 1) || asked.replaced {
            return;
        }
        let times = SelectionTimes::every(2, asked.steps as u64).unwrap();
        let Some(plan) = asked.plan().filter(|plan| plan.noise_kind() == NoiseKind::Gaussian) else { return };
        let selection = Selection::new(Delta::new(delta).unwrap(), times).with_floor(3);
        let Ok(threshold) = plan.threshold_of(&selection) else { return };
        assert!(threshold.failure() <= delta && threshold.failure_of_few().unwrap() <= delta);
        // Integer noise is at least τ − x as often as normal noise is at least half a step lower.
        let shown = |sums: &[i64]| -> f64 {
            let mut sum = 0;
            let mut all = 0.0;
            for (step, more) in (1..).zip(sums) {
                sum += more;
                if times.contains(step) && sum > 0 {
                    let distance = (threshold.value() - sum) as f64;
                    all += above(distance / plan.std_error(step));
                }
            }
            all
        };
        for change in asked.changes() {
            let own: f64 = change.chunks(asked.steps).map(shown).sum();
            let printed = threshold.failure();
            assert!(own <= printed * (1.0 + 1e-6), "{asked:?}: {own} of {printed}");
            // Two persons are fewer than three.
            let both: Vec<i64> = change[..asked.steps].iter().map(|sum| 2 * sum).collect();
            let (both, printed) = (shown(&both), threshold.failure_of_few().unwrap());
            assert!(both <= printed * (1.0 + 1e-6), "{asked:?}: {both} of {printed}");
        }
        checked += 1;
    });
    assert!(checked > 15, "{checked}");
}
