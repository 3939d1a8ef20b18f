//! Sums are exact, every route is a valid one, and filters never exceed their total.

use super::*;
use proptest::prelude::*;

fn pure(epsilon: f64) -> Expense {
    Budget::Pure(Epsilon::new_even_if_weak(epsilon).unwrap()).into()
}

fn zcdp(rho: f64) -> Expense {
    Budget::Zcdp(Rho::new_even_if_weak(rho).unwrap()).into()
}

fn approximate(epsilon: f64, delta: f64) -> Expense {
    Budget::Approximate(Epsilon::new_even_if_weak(epsilon).unwrap(), Delta::new(delta).unwrap()).into()
}

fn odometer(expenses: &[Expense]) -> Odometer {
    Odometer { expenses: expenses.to_vec() }
}

fn delta(value: f64) -> Delta {
    Delta::new(value).unwrap()
}

#[test]
fn sums_are_exact_decimals() {
    let mut filter = Filter::new(Budget::Pure(Epsilon::new(1.0).unwrap()));
    for _ in 0..10 {
        filter.spend(pure(0.1)).unwrap();
    }
    assert!(filter.spend(pure(1e-12)).unwrap_err().to_string().contains("exceed the total budget (ε = 1)"));
    assert_eq!(filter.spent().pure_epsilon(), Some(1.0));
    // 1 + 1e-20 is not a double, so it is rounded up.
    let spent = odometer(&[pure(1.0), zcdp(1e-25)]);
    assert_eq!(spent.rho(), Some(0.5f64.next_up()));
    assert_eq!(odometer(&[]).epsilon_at(delta(1e-9)), 0.0);
    let spent = odometer(&[pure(1e6), pure(1e-12)]);
    assert_eq!((spent.pure_epsilon(), spent.epsilon_at(delta(1e-13))), (Some(1e6f64.next_up()), 1e6f64.next_up()));
    // A cost known in two definitions, and failure probabilities, which always add up.
    let both = Expense::new(Some(Epsilon::new(1.0).unwrap()), Some(Rho::new(0.1).unwrap()), None).unwrap();
    assert_eq!(odometer(&[both]).rho(), Some(0.1));
    assert_eq!(odometer(&[zcdp(0.1).with_selection(delta(1e-7)); 3]).selection(), 3e-7);
}

#[test]
fn routes_are_compared() {
    let d = delta(1e-6);
    // Many small pure expenses are better as zCDP, few large ones as they are.
    let many = odometer(&vec![pure(0.01); 10_000]);
    let concentrated = epsilon_of_zcdp(Rho::new(0.5).unwrap(), d);
    assert!(many.epsilon_at(d) >= concentrated && many.epsilon_at(d) < concentrated * (1.0 + 1e-11));
    assert_eq!(odometer(&[pure(3.0), pure(0.5)]).epsilon_at(d), 3.5);
    // One large pure expense and many small ones: a mixed route beats both.
    let mixed = odometer(&[vec![pure(5.0)], vec![pure(0.01); 1000]].concat());
    let by_hand = 5.0 + epsilon_of_zcdp(Rho::new(0.05).unwrap(), d);
    assert!(mixed.epsilon_at(d) <= by_hand * (1.0 + 1e-12));
    assert!(mixed.epsilon_at(d) < mixed.pure_epsilon().unwrap());
    assert!(mixed.epsilon_at(d) < epsilon_of_zcdp(Rho::derived(mixed.rho().unwrap()), d));
    // Approximate costs add up, and their δ is not available for the rest.
    let spent = odometer(&[approximate(1.0, 4e-7), zcdp(0.1)]);
    let rest = epsilon_of_zcdp(Rho::new(0.1).unwrap(), delta(6e-7));
    assert!((spent.epsilon_at(d) / (1.0 + rest) - 1.0).abs() < 1e-12);
    assert_eq!(odometer(&[approximate(1.0, 1e-6)]).epsilon_at(d), 1.0);
    assert_eq!(odometer(&[approximate(1.0, 1e-6), approximate(1.0, 1e-9)]).epsilon_at(d), f64::INFINITY);
    assert!(spent.pure_epsilon().is_none() && spent.rho().is_none());
    // A cost known in two definitions uses the better one.
    let both = Expense::new(None, Some(Rho::new(0.5).unwrap()), Some((Epsilon::new(1.0).unwrap(), d))).unwrap();
    assert_eq!(odometer(&[both]).epsilon_at(d), 1.0);
    let later = epsilon_of_zcdp(Rho::new(0.5).unwrap(), delta(1e-7));
    assert!((odometer(&[both]).epsilon_at(delta(1e-7)) / later - 1.0).abs() < 1e-12);
}

#[test]
fn filters_refuse_foreign_currencies() {
    let (one, d) = (Epsilon::new(1.0).unwrap(), delta(1e-6));
    let refused = |total, expense| Filter::new(total).spend(expense).unwrap_err().to_string();
    assert!(refused(Budget::Pure(one), zcdp(1e-9)).contains("a pure epsilon"));
    assert!(refused(Budget::Zcdp(Rho::new(1.0).unwrap()), approximate(0.1, 1e-9)).contains("a rho"));
    assert!(refused(Budget::Approximate(one, d), approximate(0.1, 1e-9)).contains("a rho"));
    assert!(Filter::basic(one, d).spend(zcdp(1e-9)).is_err());
    // The whole (ε, δ) through ρ.
    let mut filter = Filter::new(Budget::Approximate(one, d));
    filter.spend(zcdp(rho_for(one, d).get())).unwrap();
    assert!(filter.spend(zcdp(1e-12)).is_err());
}

#[test]
fn files_are_checked() {
    let mut filter = Filter::basic(Epsilon::new(1.0).unwrap(), delta(1e-6));
    filter.spend(approximate(0.25, 1e-7)).unwrap();
    filter.spend(pure(0.5)).unwrap();
    let text = toml::to_string(&filter).unwrap();
    assert_eq!(toml::from_str::<Filter>(&text).unwrap(), filter, "{text}");
    let fresh = Filter::new(Budget::Zcdp(Rho::new(1.0).unwrap()));
    assert_eq!(toml::from_str::<Filter>(&toml::to_string(&fresh).unwrap()).unwrap(), fresh);
    let forged = text.replace("pure_epsilon = 0.5", "pure_epsilon = 0.9");
    assert!(forged != text && toml::from_str::<Filter>(&forged).is_err(), "{forged}");
    for bad in ["", "epsilon = 1.0", "delta = 0.1", "rho = -1.0", "pure_epsilon = nan", "rho = 1.0\nx = 1"] {
        assert!(toml::from_str::<Expense>(bad).is_err(), "{bad}");
    }
}

fn any_expense() -> impl Strategy<Value = Expense> {
    prop_oneof![
        (1u32..300).prop_map(|n| pure(f64::from(n) / 100.0)),
        (1u32..300).prop_map(|n| zcdp(f64::from(n) / 1000.0)),
        (1u32..300, 1u32..9).prop_map(|(n, k)| approximate(f64::from(n) / 100.0, 1e-8 * f64::from(k))),
    ]
}

proptest! {
    /// More expenses cost more, more δ costs less, and order does not matter.
    #[test]
    fn reports_are_monotone(mut expenses in prop::collection::vec(any_expense(), 1..12), log in 2u32..9) {
        let d = delta(0.1f64.powi(log as i32));
        let all = odometer(&expenses).epsilon_at(d);
        prop_assert!(odometer(&expenses).epsilon_at(delta(d.get() * 2.0)) <= all);
        let fewer = odometer(&expenses[1..]).epsilon_at(d);
        prop_assert!(fewer <= all * (1.0 + 1e-12));
        expenses.reverse();
        let reversed = odometer(&expenses).epsilon_at(d);
        prop_assert!(reversed == all || (reversed / all - 1.0).abs() < 1e-12);
    }

    /// A filter never admits more than its total, and refuses only expenses that would exceed it.
    #[test]
    fn filters_keep_their_total(expenses in prop::collection::vec(any_expense(), 1..40), total in 1u32..40) {
        let cap = f64::from(total) / 10.0;
        let mut filter = Filter::new(Budget::Zcdp(Rho::new(cap).unwrap()));
        for expense in expenses {
            let Some(rho) = expense.rho() else { continue };
            let before = filter.spent().rho().unwrap();
            let fits = before + rho.to_f64_up() <= cap;
            let near = (before + rho.to_f64_up() - cap).abs() < 1e-12;
            prop_assert!(filter.spend(expense).is_ok() == fits || near);
            prop_assert!(filter.spent().rho().unwrap() <= cap);
        }
    }
}

#[test]
fn what_is_left_is_exact_and_rounded_down() {
    let mut filter = Filter::new(Budget::Pure(Epsilon::new(1.0).unwrap()));
    for n in 1..=10 {
        assert!(filter.would_admit(pure(0.1)).unwrap());
        filter.spend(pure(0.1)).unwrap();
        assert_eq!(filter.used().epsilon, Some(format!("{}.{}", n / 10, n % 10).parse().unwrap()));
        assert_eq!(filter.left().epsilon, Some(f64::from(10 - n) / 10.0), "{n}");
    }
    assert!(!filter.would_admit(pure(1e-9)).unwrap() && filter.would_admit(zcdp(0.1)).is_err());
    assert_eq!((filter.used(), filter.left().main()), (filter.cap(), 0.0));

    // Thirds are not representable as doubles: the rest and the used amount never add up to more than the total.
    let mut filter = Filter::new(Budget::Zcdp(Rho::new(0.5).unwrap()));
    filter.spend(pure(0.123_456_789)).unwrap();
    let (used, left) = (Exact::decimal(filter.used().main()), Exact::decimal(filter.left().main()));
    assert!(used.plus(&left) <= Exact::decimal(0.5).plus(&Exact::decimal(1e-16)));
    assert!(filter.would_admit(zcdp(filter.left().main())).unwrap());
    assert!(!filter.would_admit(zcdp(filter.left().main().next_up())).unwrap());

    let mut filter = Filter::basic(Epsilon::new(2.0).unwrap(), delta(1e-6));
    filter.spend(approximate(0.5, 1e-7)).unwrap();
    assert_eq!(filter.left(), Amount { epsilon: Some(1.5), delta: Some(9e-7), rho: None });
    assert_eq!(filter.left().to_string(), "ε = 1.5, δ = 9e-7");
    filter.spend(approximate(1.5, 9e-7)).unwrap();
}
