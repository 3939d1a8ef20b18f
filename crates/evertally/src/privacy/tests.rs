//! Budgets: refusals, and conversions compared with independent computation.

mod golden;
mod round_trips;

use super::conversions::*;
use super::*;
use crate::ErrorKind;
use crate::privacy::RollingWindow;

fn epsilon(value: f64) -> Epsilon {
    Epsilon::new_even_if_weak(value).unwrap()
}

fn delta(value: f64) -> Delta {
    Delta::new(value).unwrap()
}

fn rho(value: f64) -> Rho {
    Rho::new_even_if_weak(value).unwrap()
}

#[test]
fn senseless_budgets_are_refused_with_a_reason() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-300, 1e300] {
        assert!(Epsilon::new(bad).is_err() && Epsilon::new_even_if_weak(bad).is_err(), "{bad}");
        assert!(Rho::new(bad).is_err() && Rho::new_even_if_weak(bad).is_err(), "{bad}");
    }
    for bad in [0.0, -0.1, 1.0, 1.5, f64::NAN, f64::INFINITY] {
        assert!(Delta::new(bad).is_err(), "{bad}");
    }
    assert!(Epsilon::new(20.0).is_ok() && Epsilon::new(20.1).is_err());
    assert!(Rho::new(10.0).is_ok() && Rho::new(10.1).is_err());
    assert!(Epsilon::new(99.0).unwrap_err().to_string().contains("protects next to nothing"));
    let refused = [
        (None, None, None),
        (Some(1.0), None, Some(1.0)),
        (None, Some(1e-6), None),
        (None, Some(1e-6), Some(1.0)),
        (Some(1.0), Some(1.0), None),
        (Some(1.0), Some(0.5), None),
    ];
    for (e, d, r) in refused {
        assert!(Budget::from_numbers(e, d, r, false).is_err(), "{e:?} {d:?} {r:?}");
    }
    let of = |d, weak| Budget::from_numbers(Some(1.0), Some(d), None, weak).map_err(|error| error.kind());
    assert_eq!((of(0.2, false), of(1.0, false)), (Err(ErrorKind::WeakBudget), Err(ErrorKind::Invalid)));
    assert!([1e-6, 0.1].into_iter().all(|d| of(d, false).is_ok()) && of(0.2, true).is_ok());
}

#[test]
fn budgets_round_trip_through_files() {
    for budget in [Budget::Pure(epsilon(0.1)), Budget::Zcdp(rho(2.0)), Budget::Approximate(epsilon(1.0), delta(1e-9))] {
        let text = toml::to_string(&budget).unwrap();
        assert_eq!(toml::from_str::<Budget>(&text).unwrap(), budget, "{text}");
    }
    assert!(toml::from_str::<Budget>("epsilon = -1.0").is_err());
    assert!(toml::from_str::<Budget>("epsilon = 1.0\nrho = 1.0").is_err());
    assert!(toml::from_str::<Budget>("epsilom = 1.0").is_err());
}

/// Brute force over the Rényi order.
#[test]
fn zcdp_conversion_is_the_minimum_over_orders() {
    for r in [1e-6, 1e-3, 0.1, 0.5, 2.0, 10.0, 200.0] {
        for d in [1e-300f64, 1e-100, 1e-9, 1e-6, 1e-2, 0.3] {
            let orders = (0..200_000).map(|i| 1.0 + 1e-7f64 * 1e19f64.powf(f64::from(i) / 200_000.0));
            let by_order = |a: f64| a * r + (-d.ln() - a.ln()) / (a - 1.0) + (1.0 - 1.0 / a).ln();
            let brute = orders.map(by_order).fold(f64::INFINITY, f64::min).max(0.0);
            let ours = epsilon_of_zcdp(rho(r), delta(d));
            assert!(ours <= brute * (1.0 + 1e-11) + 1e-300, "rho {r} delta {d}: {ours} above {brute}");
            assert!(ours >= brute * (1.0 - 1e-5), "rho {r} delta {d}: {ours} below {brute}");
            let crude = r + 2.0 * (r * -d.ln()).sqrt();
            assert!(ours < crude, "never worse than the closed-form bound");
        }
    }
}

#[test]
fn zcdp_conversions_invert_each_other() {
    for e in [1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0, 50.0] {
        for d in [1e-300, 1e-50, 1e-9, 1e-6, 1e-2] {
            let r = rho_for(epsilon(e), delta(d));
            let back = epsilon_of_zcdp(r, delta(d));
            assert!(back <= e, "rho_for({e}, {d}) spends {back}");
            assert!(back >= e * (1.0 - 1e-9), "rho_for({e}, {d}) wastes: {back}");
            let spent = delta_of_zcdp(r, epsilon(e));
            assert!((spent.ln() / d.ln() - 1.0).abs() < 1e-6, "delta_of_zcdp at {e}: {spent}, want {d}");
        }
    }
}

/// `δ(ε) = ∫ (p(x) - e^ε q(x))₊ dx` by the midpoint rule on a fine grid.
fn hockey_stick(mu: f64, e: f64) -> f64 {
    let start = e / mu + mu / 2.0; // p(x) = N(μ,1) beats e^ε N(0,1) from here on
    let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (cells, width) = (400_000, 14.0);
    let h = width / f64::from(cells);
    (0..cells)
        .map(|i| start + (f64::from(i) + 0.5) * h)
        .map(|x| (density(x - mu) - (e - x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()).max(0.0) * h)
        .sum()
}

#[test]
fn gaussian_curve_is_the_hockey_stick_divergence() {
    for mu in [0.05, 0.3, 1.0, 3.0, 8.0] {
        for e in [1e-6, 0.1, 1.0, 3.0, 10.0] {
            let (ours, brute) = (delta_of_gaussian(mu, epsilon(e)), hockey_stick(mu, e));
            assert!((ours - brute).abs() <= 1e-7 * brute + 1e-300, "mu {mu}, epsilon {e}: {ours}, want {brute}");
        }
    }
}

#[test]
fn gaussian_conversions_invert_each_other_at_the_extremes() {
    for e in [1e-6, 1e-3, 0.5, 1.0, 10.0, 50.0] {
        for d in [1e-300, 1e-100, 1e-12, 1e-6, 1e-2] {
            let mu = mu_for(epsilon(e), delta(d));
            let spent = delta_of_gaussian(mu, epsilon(e));
            assert!(mu > 0.0 && spent <= d, "mu_for({e}, {d}) = {mu} spends {spent}");
            assert!(spent > d * (1.0 - 1e-6), "mu_for({e}, {d}) = {mu} wastes: {spent}");
            let back = epsilon_of_gaussian(mu, delta(d));
            assert!((back - e).abs() < 1e-6 * e + 1e-9, "epsilon_of_gaussian({mu}, {d}) = {back}, want {e}");
            // Exact Gaussian accounting never needs more noise than the route through zCDP.
            assert!(mu * mu / 2.0 >= rho_for(epsilon(e), delta(d)).get() * (1.0 - 1e-9));
        }
    }
}

/// Budgets at the ends of their ranges convert without a panic.
#[test]
fn extreme_budgets_convert() {
    for budget in
        [Budget::Pure(epsilon(1e6)), Budget::Pure(epsilon(1e-12)), Budget::Zcdp(rho(1e-30)), Budget::Zcdp(rho(1e6))]
    {
        assert!(budget.pure_epsilon().get() > 0.0);
    }
    for (e, d) in [(1e6, 5e-324), (1e-12, 5e-324), (1e6, 0.999_999), (1e-12, 0.999_999)] {
        let r = Budget::Approximate(epsilon(e), delta(d)).rho().unwrap();
        assert!(r.get() > 0.0 && epsilon_of_zcdp(r, delta(d)) <= e, "{e} {d}");
        // Also for subnormal numbers, exact Gaussian accounting is close to zCDP, and no worse.
        let mu = mu_for(epsilon(e), delta(d));
        assert!(
            mu * mu / 2.0 >= r.get() * (1.0 - 1e-9) && epsilon_of_gaussian(mu, delta(d)) <= e * (1.0 + 1e-6),
            "{e} {d}"
        );
    }
}

#[test]
fn pure_and_concentrated_imply_each_other_on_the_safe_side() {
    for r in [1e-9, 0.1, 0.3, 0.5, 7.7] {
        let pure = Budget::Zcdp(rho(r)).pure_epsilon();
        assert!(zcdp_of_pure(pure) <= r && zcdp_of_pure(pure) > r * (1.0 - 1e-12));
    }
    assert!(Budget::Pure(epsilon(1.0)).rho().is_none());
}

/// Theorem 1.3 compared with the search that it replaces, and its inverse; never tighter than zCDP or looser
/// than pure ε.
#[test]
fn laplace_closed_form_and_its_inverse() {
    for e in [1e-6, 1e-3, 0.3, 1.0, 7.0, 50.0] {
        for d in [1e-300, 1e-30, 1e-6, 1e-2] {
            for (l1, l2) in [(1.0, 1.0), (9.0, 3.0), (1e6, 1e3), (3.0, 2.9)] {
                let scale = laplace_scale(l1, l2, epsilon(e), delta(d));
                let spent = laplace_epsilon(l1, l2, scale, delta(d));
                assert!(spent <= e && spent > e * (1.0 - 1e-10), "ε {e} δ {d}: scale {scale} spends {spent}");
                assert!(scale <= l1 / e * (1.0 + 1e-11));
                let r = l2 * l2 / (2.0 * scale * scale);
                let tight = epsilon_of_zcdp(Rho::derived(r), delta(d)).min(l1 / scale);
                assert!(tight <= spent * (1.0 + 1e-11), "ε {e} δ {d}: {tight} above {spent}");
            }
        }
    }
}

#[test]
fn crossover_is_where_the_variances_meet() {
    // Laplace: 2/ε² whatever δ; Gaussian: 2 ln(1/δ)/(9 ε²). Equal at δ = e^-9.
    let at = |low, high| crossover_delta(delta(low), delta(high), |_| 2.0, |d| -2.0 * d.get().ln() / 9.0);
    let found = at(1e-300, 0.5).unwrap().get();
    assert!((found.ln() + 9.0).abs() < 2e-6, "{found}");
    assert!(at(1e-3, 0.5).is_none() && at(1e-300, 1e-9).is_none());
}

#[test]
fn units_round_trip_through_files() {
    let simple = Unit::person(5).per_step(2);
    for unit in [
        Unit::Event,
        Unit::person(5),
        simple,
        simple.per_group(1),
        simple.in_groups(2),
        simple.apart(3),
        simple.with_max_total(9),
        simple.per_period(31),
        simple.per_period(31).in_any(RollingWindow::new(30, 31)),
    ] {
        let text = serde_json::to_string(&unit).unwrap();
        assert_eq!(serde_json::from_str::<Unit>(&text).unwrap(), unit, "{text}");
    }
    // The text is an input of plan digests.
    let text = concat!(
        r#"{"person":{"max_events":5,"max_events_per_step":2,"max_events_per_group":null,"max_groups":null,"#,
        r#""min_gap":null,"max_total":null,"period":null}}"#
    );
    assert_eq!(serde_json::to_string(&simple).unwrap(), text);
}

/// At the end of a period, the next step may be near.
#[test]
fn gaps_hold_in_one_period_only() {
    let unit = Unit::person(5).per_step(2).apart(7);
    assert_eq!(unit.per_period(30).over_periods(1), unit);
    assert_eq!(unit.per_period(30).over_periods(3), Unit::person(15).per_step(2));
    assert_eq!(unit.over_periods(3), unit);
}

/// A window has the events of the periods that it touches, as far as they fit into its steps, and those of one period
/// that are kept instead.
#[test]
fn windows_touch_several_periods() {
    let of = |unit: Unit, steps, period| {
        let spread = unit.per_period(period).in_any(RollingWindow::new(steps, period)).spread().unwrap();
        (spread.total, spread.per_step, spread.substitutes.map_or(0, |others| others.total))
    };
    assert_eq!(of(Unit::person(5), 30, 30), (10, 5, 5));
    assert_eq!(of(Unit::person(5).per_step(1), 3, 30), (3, 1, 3));
    assert_eq!(of(Unit::person(5).per_step(1), 30, 30), (10, 1, 5));
    // Periods of one step: the window covers them completely.
    assert_eq!(of(Unit::person(2), 30, 1), (60, 2, 0));
    // With a gap, later events of the period may be refused.
    assert_eq!(of(Unit::person(5).per_step(1).apart(2), 3, 30), (10, 1, 5));
    let unit = Unit::person(5).per_period(30).in_any(RollingWindow::new(30, 30));
    assert_eq!(unit.over_periods(2), Unit::person(10).per_step(5));
    assert_eq!(unit.bounds().unwrap().reach(), Some(59));
    let message = |unit: Unit| unit.spread().unwrap_err().to_string();
    assert!(message(Unit::person(5).in_any(RollingWindow::new(30, 30))).contains("needs a period"));
    assert!(message(Unit::person(5).per_period(30).in_any(RollingWindow::new(0, 30))).contains("window"));
}

/// Every order gives a valid δ; the search finds the smallest of them, by brute force.
#[test]
fn the_searched_delta_is_the_minimum_over_orders() {
    for r in [0.1, 0.5, 10.0] {
        for e in [0.5, 2.0, 8.0] {
            let log_delta = |a: f64| a * (r * (1.0 + a) - e) - a.ln() - (1.0 + a) * (1.0 / a).ln_1p();
            let orders = (0..=120_000).map(|i| 1e-6 * 1e12f64.powf(f64::from(i) / 120_000.0));
            let brute = orders.map(log_delta).fold(0.0, f64::min);
            let ours = searched_delta_of_zcdp(rho(r), epsilon(e)).ln();
            assert!((ours - brute).abs() < 1e-6 * (1.0 + brute.abs()), "ρ {r} ε {e}: {ours} {brute}");
        }
    }
}

/// Rounded up, however small the difference.
#[test]
fn laplace_conversions_keep_head_room() {
    for scale in [3.0, 7.0, 1000.0] {
        assert!(laplace_epsilon(1.0, 1.0, scale, delta(1e-300)) > 1.0 / scale);
    }
}
