use crate::plan::{Plan, PlanRequest, Threshold};
use crate::privacy::selection::{Selection, SelectionTimes};
use crate::privacy::{Budget, Delta, Epsilon, Neighbours, Rho, RollingWindow, Unit, Values};

fn request(horizon: u64) -> PlanRequest {
    PlanRequest::count(horizon, Budget::Zcdp(Rho::new(0.5).unwrap()))
}

fn selection(delta: f64, every: u64, plan: &Plan) -> Selection {
    Selection::new(Delta::new(delta).unwrap(), SelectionTimes::every(every, plan.horizon()).unwrap())
}

fn threshold(plan: &Plan, delta: f64, every: u64) -> Threshold {
    plan.threshold_of(&selection(delta, every, plan)).unwrap()
}

/// `P[Z ≥ k]` of one discrete Gaussian variable.
fn gaussian_tail(plan: &Plan, k: i64) -> f64 {
    let variance = plan.law().parameter().to_f64();
    let weight = |k: i64| (-((k * k) as f64) / (2.0 * variance)).exp();
    (k..k + 400).map(weight).sum::<f64>() / (-400..=400).map(weight).sum::<f64>()
}

/// One selection time and one key with one event: the threshold is the exact quantile.
#[test]
fn one_look_has_the_exact_quantile() {
    let plan = request(1).with_mechanism("output".parse().unwrap()).plan().unwrap();
    assert_eq!(plan.noise_divisor(), 1);
    for delta in [0.2, 1e-3, 1e-9] {
        let found = threshold(&plan, delta, 1);
        let exact = gaussian_tail(&plan, found.value() - 1);
        assert!((found.failure() / exact - 1.0).abs() < 1e-6, "{delta}: {} {exact}", found.failure());
        assert!(found.failure() <= delta && gaussian_tail(&plan, found.value() - 2) > delta);
        // Half of the keys with this sum are shown, and fewer of those with a sum that is one less.
        let shown = |sum: i64| gaussian_tail(&plan, found.value() - sum);
        assert!(shown(found.shown_half()) >= 0.5 && shown(found.shown_half() - 1) < 0.5);
        assert!(shown(found.shown_almost()) >= 0.95 && shown(found.shown_almost() - 1) < 0.95);
    }
}

/// Every split of a unit's events over keys, at all selection times, is within the bound: brute force.
#[test]
fn no_split_fails_more_often() {
    let unit = Unit::person(5).per_step(2).in_groups(3);
    for (neighbours, sides) in [(Neighbours::AddRemove, 0.0), (Neighbours::ReplaceOne, 1.0)] {
        let request = request(6).with_unit(unit).with_neighbours(neighbours);
        let plan = request.with_mechanism("output".parse().unwrap()).plan().unwrap();
        let found = threshold(&plan, 0.05, 2);
        let mut worst = 0.0f64;
        for split in splits(5, 3) {
            let at = |step: u64, events: u64| gaussian_tail(&plan, found.value() - events.min(2 * step) as i64);
            let times = || [2, 4, 6].into_iter();
            // A key without the unit's events does not occur.
            let own: f64 = split
                .iter()
                .filter(|events| **events > 0)
                .map(|events| times().map(|step| at(step, *events)).sum::<f64>())
                .sum();
            let other = sides * 3.0 * times().map(|step| at(step, 0)).sum::<f64>();
            worst = worst.max(own + other);
        }
        assert!(worst <= found.failure() * (1.0 + 1e-9), "{worst} {}", found.failure());
        assert!(found.failure() <= 0.05 && worst > 0.01, "{worst}");
    }
}

/// All lists of at most `keys` numbers that add up to at most `events`.
fn splits(events: u64, keys: usize) -> Vec<Vec<u64>> {
    if keys == 0 {
        return vec![vec![]];
    }
    let rest = |first: u64| splits(events - first, keys - 1).into_iter().map(move |rest| [vec![first], rest].concat());
    (0..=events).flat_map(rest).collect()
}

/// Every looser bound of a unit raises the threshold.
#[test]
fn thresholds_rise_with_what_a_unit_can_do() {
    let value = |request: PlanRequest, delta, every| {
        let plan = request.with_mechanism("path-sum".parse().unwrap()).plan().unwrap();
        threshold(&plan, delta, every).value() as f64 / plan.max_std_error()
    };
    let person = |unit: Unit| request(64).with_unit(unit);
    let base = value(person(Unit::person(10)), 1e-6, 16);
    assert!(value(person(Unit::person(10)), 1e-9, 16) > base);
    assert!(value(person(Unit::person(10)), 1e-6, 1) > base);
    // In units of the noise, which grows with the events: fewer keys, and fewer events per key, need a lower
    // threshold.
    assert!(value(person(Unit::person(10).in_groups(1)), 1e-6, 16) <= base);
    let floor = |units| {
        let plan = person(Unit::person(10)).plan().unwrap();
        plan.threshold_of(&selection(1e-6, 16, &plan).with_floor(units)).unwrap().value()
    };
    assert_eq!(floor(1), floor(0));
    assert!(floor(2) <= floor(1) + 1 && floor(20) >= floor(10) + 99, "{} {} {}", floor(2), floor(10), floor(20));
}

/// A person active in several periods has more events in a key that nobody else has: the guarantee states how
/// much weaker it is.
#[test]
fn several_periods_have_a_larger_delta() {
    let unit = Unit::person(3).in_groups(2).per_period(8);
    let plan = request(64).with_unit(unit).with_mechanism("path-sum".parse().unwrap());
    let times = SelectionTimes::every(16, 64).unwrap();
    let plan = plan.with_selection(Selection::new(Delta::new(1e-6).unwrap(), times)).plan().unwrap();
    let of = |periods| plan.over_periods(periods).unwrap().selection.unwrap().get();
    assert!((of(1) / plan.threshold().unwrap().failure() - 1.0).abs() < 1e-6);
    assert!(of(2) > 2.0 * of(1) && of(4) > 2.0 * of(2), "{} {} {}", of(1), of(2), of(4));
}

#[test]
fn windows_are_refused() {
    let unit = Unit::person(3).in_groups(2).per_period(8).in_any(RollingWindow::new(8, 8));
    let times = SelectionTimes::every(16, 64).unwrap();
    let plan = request(64).with_unit(unit).with_selection(Selection::new(Delta::new(1e-6).unwrap(), times)).plan();
    assert!(plan.unwrap_err().to_string().contains("a protected window and undeclared groups"));
}

/// The smallest threshold, for every kind of noise that supports selection.
#[test]
fn thresholds_are_the_least() {
    let approximate = Budget::Approximate(Epsilon::new(1.0).unwrap(), Delta::new(1e-6).unwrap());
    let values = Values::Sum { lower: -2, upper: 7 };
    for (mechanism, budget) in [
        ("subtract(k=3)", approximate),
        ("honaker-online", approximate),
        ("path-sum", approximate),
        ("blt", approximate),
        ("sqrt", Budget::Zcdp(Rho::new(0.1).unwrap())),
        ("input", Budget::Zcdp(Rho::new(0.1).unwrap())),
    ] {
        let request = PlanRequest::count(40, budget).with_values(values).with_mechanism(mechanism.parse().unwrap());
        let plan = request.plan().unwrap();
        let found = threshold(&plan, 1e-7, 10);
        assert!(found.failure() <= 1e-7 && found.failure() > 1e-8, "{mechanism}: {}", found.failure());
        assert!(found.value() as f64 > 4.0 * plan.std_error(40), "{mechanism}");
        let (half, almost) = (found.shown_half(), found.shown_almost());
        assert!((half - found.value()).abs() <= 9 && almost > half, "{mechanism}: {found:?}");
    }
}

#[test]
fn what_cannot_be_selected_is_refused() {
    let pure = PlanRequest::count(5, Budget::Pure(Epsilon::new(1.0).unwrap())).plan().unwrap();
    let refused = pure.threshold_of(&selection(1e-9, 1, &pure)).unwrap_err();
    assert!(refused.to_string().contains("declare the keys"), "{refused}");
    let plan = request(5).plan().unwrap();
    let other = Selection::new(Delta::new(1e-9).unwrap(), SelectionTimes::every(1, 6).unwrap());
    assert!(plan.threshold_of(&other).is_err());
}

/// A person alone in a key, in every period that steps touch. Selection times with the same law count as the
/// last of them.
#[test]
fn all_periods_together_have_a_delta_of_their_own() {
    let request = request(6).with_unit(Unit::person(2).per_period(3));
    let plan = request.with_mechanism("output".parse().unwrap()).plan().unwrap();
    let found = threshold(&plan, 1e-3, 2);
    let all = 3.0 * gaussian_tail(&plan, found.value() - 6);
    assert!((found.failure_over_periods().unwrap() / all.min(1.0) - 1.0).abs() < 1e-6, "{found:?} {all}");
    assert_eq!((found.failure_of_few(), found.new_keys(), found.events_per_key()), (None, 2, 2));
    // Two persons, if the floor is three.
    let found = plan.threshold_of(&selection(1e-3, 2, &plan).with_floor(3)).unwrap();
    let few = 3.0 * gaussian_tail(&plan, found.value() - 12);
    assert!((found.failure_of_few().unwrap() / few - 1.0).abs() < 1e-6 && few <= 1e-3, "{found:?} {few}");
}
