use super::*;
use crate::noise::{GuardedKey, StreamName, TestSeed};
use crate::plan::{Plan, PlanRequest};
use crate::privacy::selection::{Selection, SelectionTimes};
use crate::privacy::{Budget, Delta, Epsilon, Neighbours, Rho, Unit, Values};
use crate::stream::{GroupedSums, Groups, RunningSum, StatelessSums, StepPass};

fn half() -> Budget {
    Budget::Zcdp(Rho::new(0.5).unwrap())
}

/// A person once in each group of one step.
fn in_one_step(horizon: u64, groups: u64, budget: Budget) -> PlanRequest {
    let person = Unit::person(groups).per_group(1).in_groups(groups).per_period(1);
    PlanRequest::count(horizon, budget).with_unit(person)
}

fn plan(request: PlanRequest, mechanism: &str) -> Plan {
    request.with_mechanism(mechanism.parse().unwrap()).plan().unwrap()
}

/// The standard error of one group falls from `√d` to `(√d + 1)/2`, for every mechanism and budget.
/// A request with groups says so, and its plan gains nothing from them if a person is in one group.
#[test]
fn a_request_tells_whether_groups_are_to_be_correlated() {
    let request = PlanRequest::count(30, Budget::Zcdp(Rho::new(0.5).unwrap())).with_unit(Unit::person(3).in_groups(1));
    assert!(!request.correlates_groups());
    let request = request.with_groups(5, GroupAim::Groups);
    assert!(request.correlates_groups() && request.plan().unwrap().correlation().is_none());
}

#[test]
fn single_groups_have_the_known_variance() {
    let approximate = Budget::Approximate(Epsilon::new(1.0).unwrap(), Delta::new(1e-6).unwrap());
    for (groups, mechanism, budget) in [
        (3, "binary", half()),
        (10, "blt(buffers=3)", half()),
        (100, "sqrt", half()),
        (10, "smooth", half()),
        (10, "subtract(k=3)", approximate),
        (10, "path-sum", approximate),
    ] {
        let request = in_one_step(50, groups, budget);
        let independent = plan(request.clone(), mechanism).node_variance();
        let found = plan(request.with_groups(groups, GroupAim::Groups), mechanism);
        let d = groups as f64;
        let known = ((d.sqrt() + 1.0) / 2.0).powi(2) / d;
        let ratio = found.node_variance() / independent;
        // For few groups it is less: the worst number of groups would be a fraction.
        let whole = if groups == 3 { 0.95 } else { 0.99 };
        assert!(ratio < known * 1.003 && ratio > known * whole, "{groups} {mechanism}: {ratio} for {known}");
        assert!(found.guarantee().rho.get() <= 0.5 && found.guarantee().pure_epsilon.is_none());
    }
}

/// Every pattern of counts over groups and steps, in integers: the shift of the noise never has a larger squared norm
/// than is hidden.
#[test]
fn no_pattern_reveals_more() {
    const STEPS: usize = 4;
    let person = |groups| Unit::person(groups).per_group(1).in_groups(groups);
    let cases = [
        ("one step", Unit::person(3).per_group(1).in_groups(3).per_period(1), 3, 0.99),
        ("two groups of three", Unit::person(4).per_group(2).in_groups(2).per_period(1), 3, 0.99),
        ("a rest", Unit::person(3).per_group(2).per_period(1), 3, 0.99),
        ("apart", Unit::person(3).per_group(1).per_step(3).per_period(2).apart(2), 3, 0.99),
        ("any steps", person(3), 3, 0.95),
        ("two steps", person(3).per_period(2), 3, 0.95),
        ("two events a group", Unit::person(4).per_group(2).in_groups(2).per_step(2), 2, 0.95),
    ];
    for (name, unit, groups, tight) in cases {
        let bounds = unit.bounds().unwrap();
        for mechanism in ["input", "binary", "subtract(k=3)", "output", "sqrt", "normalized-sqrt", "blt(buffers=2)"] {
            let request =
                PlanRequest::count(STEPS as u64, half()).with_unit(unit).with_neighbours(Neighbours::AddRemove);
            let independent = plan(request.clone(), mechanism);
            let found = plan(request.with_groups(groups, GroupAim::Groups), mechanism);
            assert!(found.node_variance() <= independent.node_variance() * (1.0 + 1e-9), "{name} {mechanism}");
            let Some(correlation) = found.correlation() else {
                // Columns of `input` do not overlap, and those of filters are rounded.
                let independent = matches!(mechanism, "input" | "sqrt" | "normalized-sqrt" | "blt(buffers=2)");
                assert!(tight < 0.99 && independent, "{name} {mechanism}: independent");
                continue;
            };
            let r = found.mechanism().dense().r;
            let grid = found.noise_divisor() as f64;
            let kappa = correlation.own_over_common();
            let of_pattern = |u: &[u64]| -> f64 {
                let of_node = |n: usize| {
                    let moved = |g: usize| {
                        let sum = |t: usize| r.row(n)[t] * u[g * STEPS + t] as f64;
                        ((0..STEPS).map(sum).sum::<f64>() * grid).round()
                    };
                    let moved: Vec<f64> = (0..groups as usize).map(moved).collect();
                    let common = (moved.iter().sum::<f64>() * correlation.gamma()).round();
                    moved.iter().map(|s| (s - common).powi(2)).sum::<f64>() / kappa + common * common
                };
                (0..r.shape().0).map(of_node).sum()
            };
            let hidden = found.guarantee().hidden_squared().unwrap();
            let worst = patterns(STEPS, groups as usize, &bounds).iter().map(|u| of_pattern(u)).fold(0.0, f64::max);
            assert!(worst <= hidden, "{name} {mechanism}: {worst} above {hidden}");
            assert!(worst >= hidden * tight, "{name} {mechanism}: {worst} far below {hidden}");
            // The common noise hides that under the budget.
            let DiscreteLaw::Gaussian(common) = found.common_law().unwrap() else { panic!() };
            let DiscreteLaw::Gaussian(own) = found.law() else { panic!() };
            assert!(hidden / (2.0 * common.parameter().to_f64()) <= 0.5 * (1.0 + 1e-12));
            assert!(own.parameter().to_f64() >= kappa * common.parameter().to_f64() * (1.0 - 1e-12));
        }
    }
}

/// All counts by group and step within the bounds.
fn patterns(steps: usize, groups: usize, bounds: &crate::privacy::PersonBounds) -> Vec<Vec<u64>> {
    let per_group = bounds.max_events_per_group.unwrap_or(bounds.max_events);
    let mut all = vec![vec![]];
    for _ in 0..steps * groups {
        let longer = |u: &Vec<u64>| {
            let left = bounds.max_events - u.iter().sum::<u64>();
            let of_group = u[u.len() / steps * steps..].iter().sum::<u64>();
            (0..=left.min(per_group - of_group)).map(|n| [&u[..], &[n]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    let fits = |u: &Vec<u64>| {
        let of_group = |g: usize| u[g * steps..(g + 1) * steps].iter().sum::<u64>();
        let of_step = |t: usize| (0..groups).map(|g| u[g * steps + t]).sum::<u64>();
        let active: Vec<usize> = (0..steps).filter(|t| of_step(*t) > 0).collect();
        let gap = bounds.min_gap.unwrap_or(1) as usize;
        (0..groups).all(|g| of_group(g) <= per_group)
            && (0..groups).filter(|g| of_group(*g) > 0).count() as u64 <= bounds.max_groups.unwrap_or(u64::MAX)
            && active.iter().all(|t| of_step(*t) <= bounds.max_events_per_step.unwrap_or(u64::MAX))
            && active.windows(2).all(|pair| pair[1] - pair[0] >= gap)
            && bounds.period.is_none_or(|p| active.last().unwrap_or(&0) - active.first().unwrap_or(&0) < p as usize)
    };
    all.retain(fits);
    all
}

/// A corner of the set of counts is worst: compared with every way to share events among groups.
#[test]
fn forms_by_enumeration() {
    use crate::privacy::Spread;
    fn largest(left: u64, groups: u64, per_group: u64, gamma: f64, sums: (f64, f64)) -> f64 {
        let (sum, squares) = sums;
        let own = squares - gamma * sum * sum;
        if groups == 0 {
            return own;
        }
        let with = |n: u64| {
            let n_real = n as f64;
            largest(left - n, groups - 1, per_group, gamma, (sum + n_real, squares + n_real * n_real))
        };
        (1..=per_group.min(left)).map(with).fold(own, f64::max)
    }
    for (total, per_group, groups) in [(7, 2, 4), (7, 3, 2), (5, 5, 3), (6, 1, 4), (9, 4, 3), (3, 2, 3)] {
        for gamma in [0.0, 0.02, 0.1, 0.2, 0.24] {
            let exact = largest(total, groups, per_group, gamma, (0.0, 0.0));
            let spread = Spread { per_group, ..Spread::new(total, total) };
            let found = super::shift::in_one_step(spread, groups, gamma);
            assert!((found / exact - 1.0).abs() < 1e-6, "{total} {per_group} {groups} {gamma}: {found} for {exact}");
        }
    }
}

/// The covariance of the releases of two groups, of one group at two steps, and their variances, over many keys.
#[test]
fn releases_have_the_stated_covariance() {
    const KEYS: u64 = 3000;
    for mechanism in ["binary", "sqrt"] {
        let plan = plan(in_one_step(3, 3, half()).with_groups(3, GroupAim::Groups), mechanism);
        let coefficient = plan.correlation().unwrap().coefficient();
        let mut products = [0.0; 4];
        for seed in 0..KEYS {
            let key = GuardedKey::insecure_from_test_seed(TestSeed(seed));
            let groups = Groups::new(["a", "b", "c"]).unwrap();
            let mut sums = GroupedSums::new(plan.clone(), &key, "shops".parse().unwrap(), groups).unwrap();
            let mut drawn = Vec::new();
            for step in 0..3 {
                sums.add_sum(1, 10 * step).unwrap();
                drawn.push(sums.tick().unwrap().iter().map(|release| release.value()).collect::<Vec<_>>());
            }
            // Group b counts 0, 10 and 30.
            let [early, late] = [&drawn[1], &drawn[2]];
            let noise = [late[0], late[1] - 30.0, late[2]];
            let now = [
                (noise[0].powi(2) + noise[1].powi(2) + noise[2].powi(2)) / 3.0,
                (noise[0] * noise[1] + noise[0] * noise[2] + noise[1] * noise[2]) / 3.0,
                (noise[0] + noise[1] + noise[2]).powi(2) / 3.0,
                early[0] * noise[1],
            ];
            products.iter_mut().zip(now).for_each(|(sum, now)| *sum += now / KEYS as f64);
        }
        let (variance, mixed) = (plan.variance(3), plan.node_variance() * plan.mechanism().row_product(2, 3));
        let total = variance * plan.correlation().unwrap().total_factor();
        let stated = [variance, coefficient * variance, total, coefficient * mixed];
        for (found, stated) in products.into_iter().zip(stated) {
            assert!((found - stated).abs() < 0.1 * variance.max(stated), "{mechanism}: {found} for {stated}");
        }
    }
}

/// Totals and differences of groups, as of the covariance of their releases.
#[test]
fn combinations_know_the_correlation() {
    use crate::plan::Combination;
    let plan = plan(in_one_step(9, 4, half()).with_groups(4, GroupAim::Groups), "binary");
    let correlation = plan.correlation().unwrap();
    let of = |weights: [f64; 4]| {
        let one = |all: Combination, (series, weight): (u64, f64)| all.with_stretch(series, 3, 6, weight);
        plan.variance_of(&(0..).zip(weights).fold(Combination::default(), one)) / plan.variance_between(3, 6)
    };
    assert!((of([1.0, 0.0, 0.0, 0.0]) - 1.0).abs() < 1e-9);
    assert!((of([1.0; 4]) - 4.0 * correlation.total_factor()).abs() < 1e-9);
    assert!((of([0.0, 1.0, -1.0, 0.0]) - 2.0 * correlation.difference_factor()).abs() < 1e-9);
    let streams = Combination::default().with_of_stream(0, 0, 9, 1.0).with_of_stream(1, 1, 9, 1.0);
    assert!((plan.variance_of(&streams) / plan.variance(9) - 2.0).abs() < 1e-9, "streams are independent");
}

#[test]
fn every_way_to_the_same_release() {
    let plan = plan(in_one_step(9, 2, half()).with_groups(2, GroupAim::Groups), "binary");
    assert!(plan.correlation().is_some());
    let name: StreamName = "twin".parse().unwrap();
    let key = GuardedKey::insecure_from_test_seed(TestSeed(5));
    let groups = || Groups::new(["a", "b"]).unwrap();
    let mut sums = GroupedSums::new(plan.clone(), &key, name.clone(), groups()).unwrap();
    sums.add_sum(0, 5).unwrap();
    sums.tick().unwrap();
    let mut resumed = GroupedSums::restore(plan.clone(), &key, name.clone(), groups(), &sums.save()).unwrap();
    assert_eq!(resumed.tick().unwrap(), sums.tick().unwrap());
    let stateless = StatelessSums::new(plan.clone(), &key, name.clone()).unwrap();
    assert_eq!(stateless.of_group(b"a").release(2, 5).unwrap(), sums.releases().unwrap()[0]);
    let mut pass = StepPass::for_group(plan, &key, name, b"b").unwrap();
    assert_eq!(pass.release(2, 0).unwrap(), sums.releases().unwrap()[1]);
}

/// A plan's file says how its noise is correlated; a plan without correlation has the digest it always had.
#[test]
fn plans_are_read_back() {
    let request = in_one_step(9, 4, half());
    let correlated = request.clone().with_groups(4, GroupAim::Groups).plan().unwrap();
    let text = serde_json::to_string(&correlated).unwrap();
    let read: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!((read.digest(), read.correlation()), (correlated.digest(), correlated.correlation()));
    assert!(text.contains(r#""correlation":{"groups":4,"own_eighths":"#), "{text}");
    for wrong in [r#""groups":1,"#, r#""groups":5,"#] {
        assert!(serde_json::from_str::<Plan>(&text.replace(r#""groups":4,"#, wrong)).is_err(), "{wrong}");
    }
    let independent = request.clone().plan().unwrap();
    let total = request.with_groups(4, GroupAim::Total).plan().unwrap();
    assert_eq!((total.correlation(), total.digest()), (None, independent.digest()));
    assert_ne!(independent.digest(), correlated.digest());
}

/// Where nothing is gained, noise stays independent: events, changes of both signs, Laplace noise, one group.
#[test]
fn independent_where_nothing_is_gained() {
    let correlation = |request: PlanRequest| request.with_groups(5, GroupAim::Groups).plan().unwrap().correlation();
    let request = in_one_step(20, 5, half());
    assert!(correlation(request.clone()).is_some());
    assert_eq!(correlation(PlanRequest::count(20, half())), None);
    assert_eq!(correlation(request.clone().with_neighbours(Neighbours::ReplaceOne)), None);
    assert_eq!(correlation(request.clone().with_values(Values::Sum { lower: -1, upper: 1 })), None);
    assert!(correlation(request.clone().with_values(Values::Sum { lower: 0, upper: 100 })).is_some());
    assert_eq!(correlation(request.clone().with_budget(Budget::Pure(Epsilon::new(1.0).unwrap()))), None);
    assert_eq!(correlation(request.clone().with_unit(Unit::person(5).in_groups(1).per_period(1))), None);
    assert_eq!(request.with_groups(1, GroupAim::Groups).plan().unwrap().correlation(), None);
}

/// Single steps without an end, as of a service that counts the people of each day.
#[test]
fn endless_streams_of_single_steps() {
    let person = Unit::person(5).per_group(1).in_groups(5).per_period(1);
    let request = PlanRequest::unbounded(half()).with_unit(person).with_workload("increments".parse().unwrap());
    let independent = request.clone().plan().unwrap();
    let found = request.with_groups(5, GroupAim::Groups).plan().unwrap();
    assert!((independent.std_error(1 << 40) / 5f64.sqrt() - 1.0).abs() < 1e-6);
    let (error, known) = (found.std_error(1 << 40), (5f64.sqrt() + 1.0) / 2.0);
    assert!(error < known * 1.003 && error > known * 0.97, "{error} for {known}");
}

/// Both aims: the mean of the variances of groups and of their total is less than that of independent noise.
#[test]
fn both_aims_are_weighed() {
    let request = in_one_step(20, 10, half());
    let independent = request.clone().plan().unwrap().node_variance();
    let of = |aim| {
        let plan = request.clone().with_groups(10, aim).plan().unwrap();
        let factors = plan.correlation().unwrap();
        let own = plan.node_variance() / independent;
        (own, own * factors.total_factor(), own * factors.difference_factor())
    };
    let (groups, total, differences) = of(GroupAim::Groups);
    assert!((groups - 0.432).abs() < 0.003 && (total - 1.385).abs() < 0.03 && differences < 0.34, "{groups} {total}");
    let (own, all, _) = of(GroupAim::Both);
    assert!(own > groups && all < total && own + all < groups + total && own + all < 1.8, "{own} {all}");
}

#[test]
fn other_streams_are_refused() {
    let plan = in_one_step(9, 3, half()).with_groups(3, GroupAim::Groups).plan().unwrap();
    let (key, name) = (GuardedKey::insecure_from_test_seed(TestSeed(1)), || "shops".parse::<StreamName>().unwrap());
    let groups = |names: &[&str]| Groups::new(names.to_vec()).unwrap();
    let error = GroupedSums::new(plan.clone(), &key, name(), groups(&["a", "b"])).unwrap_err().to_string();
    assert!(error.contains("3 groups, and there are 2"), "{error}");
    let mut sums = GroupedSums::new(plan.clone(), &key, name(), groups(&["a", "b", "c"])).unwrap();
    assert!(sums.join(&key, name(), groups(&["a", "b", "c", "d"])).is_err());
    assert!(RunningSum::new(plan.clone(), &key, name()).is_err());
    assert!(StepPass::total(plan.clone(), &key, name()).is_err());
    assert!(crate::stream::LazyPlan::new(plan, 3, crate::stream::LazySampling::Keyed).is_err());
    let selection = Selection::new(Delta::new(1e-9).unwrap(), SelectionTimes::twelve(12).unwrap());
    let request = in_one_step(12, 3, half()).with_selection(selection).with_groups(3, GroupAim::Groups);
    assert!(request.plan().unwrap_err().to_string().contains("declare the groups"));
}

/// A person active in several periods: never less than the squares of single periods, never more than they add up to.
#[test]
fn several_periods_add_up() {
    let plan = plan(in_one_step(12, 4, half()).with_groups(4, GroupAim::Groups), "binary");
    let of = |periods| plan.over_periods(periods).unwrap().rho.get();
    assert!((of(1) / 0.5 - 1.0).abs() < 1e-6 && of(3) > 1.5 && of(3) <= 4.5 * (1.0 + 1e-6), "{} {}", of(1), of(3));
}

/// Also by exact accounting, on a noise grid that is finer than the bound needs: ρ grows by more than the number of
/// periods.
#[test]
fn several_periods_add_up_by_exact_accounting() {
    for mechanism in ["path-sum", "smooth"] {
        let plan = plan(in_one_step(12, 4, half()).with_groups(4, GroupAim::Groups), mechanism);
        assert!(plan.correlation().is_some(), "{mechanism}");
        let of = |periods| plan.over_periods(periods).unwrap().rho.get();
        assert!(of(1) >= 0.5 * (1.0 - 1e-6) && of(3) > 1.2, "{mechanism}: {} {}", of(1), of(3));
    }
}

/// A window of steps touches several periods, so a plan for one period does not protect it: noise stays independent.
#[test]
fn windows_have_independent_noise() {
    use crate::privacy::RollingWindow;
    for (period, width) in [(1, 3), (2, 3), (4, 4)] {
        let person = Unit::person(3).per_group(1).in_groups(3).per_period(period);
        let request = PlanRequest::count(20, half()).with_unit(person.in_any(RollingWindow::new(width, period)));
        let independent = plan(request.clone(), "binary").node_variance();
        let found = plan(request.with_groups(3, GroupAim::Groups), "binary");
        assert!(found.correlation().is_none(), "{period}, {width}");
        assert_eq!(found.node_variance(), independent, "{period}, {width}");
    }
}

/// The first steps of a correlated plan reveal no more than the plan.
#[test]
fn first_steps_reveal_no_more() {
    for groups in [3, 10] {
        let found = plan(in_one_step(50, groups, half()).with_groups(groups, GroupAim::Groups), "binary");
        assert!(found.correlation().is_some());
        let (first, all) = (found.spent(3).unwrap(), found.spent(50).unwrap());
        assert!(first.rho.get() > 0.05 && first.rho <= all.rho, "{groups}: {first:?}");
        // 49 steps use as many levels as 50.
        let at = Delta::new(1e-6).unwrap();
        let (nearly, all) = (found.spent(49).unwrap().epsilon_at(at), all.epsilon_at(at));
        assert!(nearly > all * (1.0 - 1e-3) && nearly <= all, "{groups}: {nearly} of {all}");
    }
}
