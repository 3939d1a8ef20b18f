//! The joint cost of several plans, and the rest of budgets: exact sums of the declared decimal
//! numbers.

use super::numbers::{decimal, epsilon_of_rho, half_square, near, shown, sum};
use super::plans::for_each;
use evertally::privacy::composition::{Expense, Filter, Odometer};
use evertally::privacy::{Budget, Delta, Epsilon, Rho};
use num_rational::BigRational;
use num_traits::Zero;
use proptest::prelude::*;

/// The cost of a stream, as text: exact decimals.
#[derive(Clone, Debug)]
struct Cost {
    pure: Option<String>,
    rho: Option<String>,
    approximate: Option<(String, String)>,
    selection: Option<String>,
}

fn costs() -> impl Strategy<Value = Vec<Cost>> {
    let figure = (1..10_000u32, 1..5u32).prop_map(|(digits, places)| format!("{digits}e-{places}"));
    let figures = figure.prop_filter("a sensible budget", |text| text.parse::<f64>().unwrap() <= 10.0);
    let delta = (1..1000u32, 8..14u32).prop_map(|(digits, places)| format!("{digits}e-{places}"));
    let of = proptest::option::weighted(0.6, figures.clone());
    let approximate = proptest::option::weighted(0.5, (figures.clone(), delta.clone()));
    let cost = (of.clone(), of, approximate, proptest::option::weighted(0.2, delta)).prop_filter_map(
        "a cost",
        |(pure, rho, approximate, selection)| {
            let is_known = pure.is_some() || rho.is_some() || approximate.is_some();
            is_known.then_some(Cost { pure, rho, approximate, selection })
        },
    );
    proptest::collection::vec(cost, 1..6)
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

impl Cost {
    fn expense(&self) -> Expense {
        let pure = self.pure.as_ref().map(|text| Epsilon::new(number(text)).unwrap());
        let rho = self.rho.as_ref().map(|text| Rho::new(number(text)).unwrap());
        let approximate = self.approximate.as_ref();
        let approximate = approximate.map(|(e, d)| (Epsilon::new(number(e)).unwrap(), Delta::new(number(d)).unwrap()));
        let own = Expense::new(pure, rho, approximate).unwrap();
        self.selection.as_ref().map_or(own, |delta| own.with_selection(Delta::new(number(delta)).unwrap()))
    }

    fn pure(&self) -> Option<BigRational> {
        self.pure.as_ref().map(|text| decimal(text))
    }

    /// The smallest known ρ.
    fn rho(&self) -> Option<BigRational> {
        let implied = self.pure().map(|epsilon| half_square(&epsilon));
        implied.into_iter().chain(self.rho.as_ref().map(|text| decimal(text))).min()
    }

    fn selected(&self) -> BigRational {
        self.selection.as_ref().map_or_else(BigRational::zero, |text| decimal(text))
    }
}

/// The smallest ε at δ over every way to count each cost: by its ε and δ, by its pure ε, or by its
/// ρ.
fn least_epsilon(costs: &[Cost], delta: f64) -> f64 {
    let mut least = f64::INFINITY;
    for choice in 0..3u32.pow(costs.len() as u32) {
        let (mut epsilon, mut spent, mut rho) = (BigRational::zero(), BigRational::zero(), BigRational::zero());
        let taken = costs.iter().enumerate().try_for_each(|(place, cost)| {
            spent += cost.selected();
            match choice / 3u32.pow(place as u32) % 3 {
                0 => {
                    let (own, at) = cost.approximate.as_ref()?;
                    epsilon += decimal(own);
                    spent += decimal(at);
                }
                1 => epsilon += cost.pure()?,
                _ => rho += cost.rho()?,
            }
            Some(())
        });
        let left = near(&(shown(delta) - &spent));
        if taken.is_none() || shown(delta) < spent || (!rho.is_zero() && left <= 0.0) {
            continue;
        }
        let rest = if rho.is_zero() { 0.0 } else { epsilon_of_rho(near(&rho), left) };
        least = least.min(near(&epsilon) + rest);
    }
    least
}

#[test]
fn what_is_spent_together_is_the_exact_sum() {
    for_each(5, 400, &costs(), |costs| {
        let mut spent = Odometer::default();
        costs.iter().for_each(|cost| spent.record(cost.expense()));
        let all = |of: &dyn Fn(&Cost) -> Option<BigRational>| -> Option<BigRational> {
            costs.iter().map(of).sum::<Option<BigRational>>()
        };
        let is_up = |printed: Option<f64>, truth: Option<BigRational>| {
            assert_eq!(printed.is_some(), truth.is_some(), "{costs:?}");
            let (Some(printed), Some(truth)) = (printed, truth) else { return };
            assert!(shown(printed) >= truth, "{costs:?}: {printed} is below {truth}");
            assert!(printed <= near(&truth) * (1.0 + 1e-14), "{costs:?}: {printed} is far above {truth}");
        };
        is_up(spent.pure_epsilon(), all(&|cost| cost.pure().filter(|_| cost.selection.is_none())));
        is_up(spent.rho(), all(&Cost::rho));
        is_up(Some(spent.selection()), Some(sum(costs.iter().map(Cost::selected))));
        for delta in [1e-12, 1e-9, 1e-6, 1e-3] {
            let (printed, least) = (spent.epsilon_at(Delta::new(delta).unwrap()), least_epsilon(&costs, delta));
            // Nothing better is known than the best of all ways, and the printed number is one of
            // them.
            assert!(printed >= least * (1.0 - 1e-12), "{costs:?} at {delta}: {printed} is below {least}");
            assert!(printed.is_finite() || least.is_infinite() || costs.len() > 1, "{costs:?} at {delta}: {least}");
        }
    });
}

#[test]
fn what_is_left_of_a_budget_is_exact() {
    let totals = [
        Budget::Pure(Epsilon::new(3.3).unwrap()),
        Budget::Zcdp(Rho::new(0.7).unwrap()),
        Budget::Approximate(Epsilon::new(2.0).unwrap(), Delta::new(1e-6).unwrap()),
    ];
    let (mut admitted, mut refused) = (0, 0);
    for_each(6, 300, &costs(), |costs| {
        for total in totals {
            for basic in [false, true] {
                let mut filter = match (total, basic) {
                    (Budget::Approximate(epsilon, delta), true) => Filter::basic(epsilon, delta),
                    (_, true) => continue,
                    (total, false) => Filter::new(total),
                };
                let cap = match (total, basic) {
                    (Budget::Pure(epsilon), _) => (shown(epsilon.get()), BigRational::zero()),
                    (Budget::Zcdp(rho), _) => (shown(rho.get()), BigRational::zero()),
                    (Budget::Approximate(epsilon, delta), true) => (shown(epsilon.get()), shown(delta.get())),
                    (Budget::Approximate(epsilon, delta), false) => {
                        let rho = filter.cap().rho.unwrap();
                        let implied = epsilon_of_rho(rho, delta.get());
                        assert!(implied <= epsilon.get() * (1.0 + 1e-12) && implied >= epsilon.get() * (1.0 - 1e-6));
                        (shown(rho), BigRational::zero())
                    }
                };
                let mut used = (BigRational::zero(), BigRational::zero());
                for cost in &costs {
                    let own = match (total, basic) {
                        (Budget::Approximate(..), true) => {
                            let pure = cost.pure().map(|epsilon| (epsilon, BigRational::zero()));
                            let approximate = cost.approximate.as_ref().map(|(e, d)| (decimal(e), decimal(d)));
                            pure.or(approximate).map(|(epsilon, delta)| (epsilon, delta + cost.selected()))
                        }
                        (Budget::Pure(_), _) => cost.pure().map(|epsilon| (epsilon, BigRational::zero())),
                        _ => cost.rho().map(|rho| (rho, BigRational::zero())),
                    };
                    let own = own.filter(|_| basic || cost.selection.is_none());
                    let next = own.map(|(first, second)| (&used.0 + first, &used.1 + second));
                    let fits = next.filter(|(first, second)| *first <= cap.0 && *second <= cap.1);
                    assert_eq!(filter.spend(cost.expense()).is_ok(), fits.is_some(), "{cost:?} of {total}");
                    *(if fits.is_some() { &mut admitted } else { &mut refused }) += 1;
                    used = fits.unwrap_or(used);
                    let (printed, left) = (filter.used(), filter.left());
                    assert!(shown(printed.main()) >= used.0 && shown(left.main()) <= &cap.0 - &used.0);
                    assert!(left.main() >= near(&(&cap.0 - &used.0)) * (1.0 - 1e-14) - 1e-300);
                    if let (Some(delta), Some(left)) = (printed.delta, left.delta) {
                        assert!(shown(delta) >= used.1 && shown(left) <= &cap.1 - &used.1);
                    }
                }
            }
        }
    });
    assert!(admitted > 300 && refused > 300, "{admitted} {refused}");
}
