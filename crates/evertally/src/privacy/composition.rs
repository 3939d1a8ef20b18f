//! The joint cost of several plans on the same data.
//!
//! An [`Odometer`] adds up the budgets spent and reports the total in every definition. A [`Filter`] holds a total and
//! refuses plans that would exceed it. Sums are exact: every number is read as the decimal number it prints as.
//!
//! ## Adaptive choice
//! The next plan, and its budget, may depend on everything released so far. A filter still guarantees its total:
//!
//! * **pure ε** and **(ε, δ) by basic composition**: the sums stay below the caps whatever the choices, and the privacy
//!   loss is bounded along every history (Rogers, Roth, Ullman and Vadhan 2016, arXiv 1605.08294);
//! * **zCDP**: the rule "refuse as soon as Σ ρ would exceed ρ" gives ρ-zCDP under fully adaptive composition (Feldman
//!   and Zrnic 2021, arXiv 2008.11193, for each Rényi order; Whitehouse, Ramdas, Rogers and Wu 2023, arXiv 2203.05481);
//! * **(ε, δ) by zCDP**: the cap ρ is fixed before the first plan as the largest one that implies (ε, δ).
//!
//! The δ of a [selection](super::selection) of keys is admitted only by basic composition, which treats it like any
//! other δ: a cap in ρ that is fixed in advance has no room for it.
//!
//! An odometer's report is valid for plans whose number and budgets were fixed in advance. If they are chosen
//! adaptively, its pure ε and its ρ are those of the filter that would have admitted them, but a report at a time
//! chosen by looking at releases guarantees less (Rogers et al., section 6). Use a filter in that case.

mod split;

pub use split::Split;

use super::conversions::{epsilon_of_zcdp, rho_for};
use super::{Budget, Delta, Epsilon, Rho};
use crate::number::exact::Exact;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The cost of one plan, in every definition in which it is known.
///
/// ```
/// use evertally::privacy::{Budget, Epsilon, Rho, composition::Expense};
/// let laplace = Expense::new(Some(Epsilon::new(1.0)?), Some(Rho::new(0.1)?), None)?;
/// let gaussian = Expense::from(Budget::Zcdp(Rho::new(0.1)?));
/// assert!(Expense::new(None, None, None).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawExpense", into = "RawExpense")]
pub struct Expense {
    pure: Option<Epsilon>,
    rho: Option<Rho>,
    approximate: Option<(Epsilon, Delta)>,
    /// In addition to all of them: the δ of the selection of undeclared keys.
    selection: Option<Delta>,
}

impl Expense {
    /// A cost known in these definitions; each of them holds separately.
    ///
    /// # Errors
    /// If all are `None`.
    pub fn new(pure: Option<Epsilon>, rho: Option<Rho>, approximate: Option<(Epsilon, Delta)>) -> Result<Self> {
        if pure.is_none() && rho.is_none() && approximate.is_none() {
            return Err(Error::invalid("an expense needs a cost: pure epsilon, rho, or epsilon and delta"));
        }
        Ok(Self { pure, rho, approximate, selection: None })
    }

    /// The same with the δ of the [selection](crate::privacy::selection) of keys, with which all the other costs hold
    /// except for a failure of this probability. Such failures add up, whatever else is composed.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Rho, composition::{Expense, Odometer}};
    /// let noise = Expense::from(Budget::Zcdp(Rho::new(0.1)?));
    /// let (mut with, mut without) = (Odometer::default(), Odometer::default());
    /// (with.record(noise.with_selection(Delta::new(1e-7)?)), without.record(noise));
    /// assert!(with.epsilon_at(Delta::new(1e-6)?) > without.epsilon_at(Delta::new(1e-6)?));
    /// assert!(with.epsilon_at(Delta::new(1e-7)?).is_infinite());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[must_use]
    pub fn with_selection(self, delta: Delta) -> Self {
        Self { selection: Some(delta), ..self }
    }

    fn selection(&self) -> Exact {
        self.selection.map_or(Exact::zero(), |delta| Exact::decimal(delta.get()))
    }

    /// Pure ε, if there is no failure probability.
    fn only_pure(&self) -> Option<Exact> {
        self.pure.filter(|_| self.selection.is_none()).map(|epsilon| Exact::decimal(epsilon.get()))
    }

    /// ρ: as stated, or `ε²/2`, whichever is smaller, if there is no failure probability.
    fn only_rho(&self) -> Option<Exact> {
        self.rho().filter(|_| self.selection.is_none())
    }

    /// ρ: as stated, or `ε²/2`, whichever is smaller.
    fn rho(&self) -> Option<Exact> {
        let implied = self.pure.map(|epsilon| Exact::decimal(epsilon.get()).half_square());
        let stated = self.rho.map(|rho| Exact::decimal(rho.get()));
        implied.into_iter().chain(stated).min()
    }

    /// ε and δ for basic composition: pure ε if there is one.
    fn basic(&self) -> Option<(Exact, Exact)> {
        let pure = self.pure.map(|epsilon| (Exact::decimal(epsilon.get()), Exact::zero()));
        let own = pure
            .or(self.approximate.map(|(epsilon, delta)| (Exact::decimal(epsilon.get()), Exact::decimal(delta.get()))));
        own.map(|(epsilon, delta)| (epsilon, delta.plus(&self.selection())))
    }
}

impl From<Budget> for Expense {
    /// The cost of a plan about which only this budget is known.
    fn from(budget: Budget) -> Self {
        let nothing = Self { pure: None, rho: None, approximate: None, selection: None };
        match budget {
            Budget::Pure(epsilon) => Self { pure: Some(epsilon), ..nothing },
            Budget::Zcdp(rho) => Self { rho: Some(rho), ..nothing },
            Budget::Approximate(epsilon, delta) => Self { approximate: Some((epsilon, delta)), ..nothing },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExpense {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pure_epsilon: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rho: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epsilon: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delta: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selection_delta: Option<f64>,
}

impl TryFrom<RawExpense> for Expense {
    type Error = Error;

    fn try_from(raw: RawExpense) -> Result<Self> {
        let approximate = match (raw.epsilon, raw.delta) {
            (Some(epsilon), Some(delta)) => Some((Epsilon::new_even_if_weak(epsilon)?, Delta::new(delta)?)),
            (None, None) => None,
            _ => {
                return Err(Error::invalid(
                    "an expense needs epsilon and delta together; alone, epsilon is pure_epsilon",
                ));
            }
        };
        let pure = raw.pure_epsilon.map(Epsilon::new_even_if_weak).transpose()?;
        let selection = raw.selection_delta.map(Delta::new).transpose()?;
        Ok(Self { selection, ..Self::new(pure, raw.rho.map(Rho::new_even_if_weak).transpose()?, approximate)? })
    }
}

impl From<Expense> for RawExpense {
    fn from(expense: Expense) -> Self {
        Self {
            pure_epsilon: expense.pure.map(Epsilon::get),
            rho: expense.rho.map(Rho::get),
            epsilon: expense.approximate.map(|(epsilon, _)| epsilon.get()),
            delta: expense.approximate.map(|(_, delta)| delta.get()),
            selection_delta: expense.selection.map(Delta::get),
        }
    }
}

/// The running total of the budgets spent on the same data. Reports take `O(n log n)` for `n` expenses.
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon, Rho, composition::Odometer};
/// let mut spent = Odometer::default();
/// for _ in 0..10 {
///     spent.record(Budget::Pure(Epsilon::new(0.1)?).into());
/// }
/// assert_eq!((spent.pure_epsilon(), spent.rho()), (Some(1.0), Some(0.05)));
/// spent.record(Budget::Zcdp(Rho::new(0.05)?).into());
/// assert_eq!((spent.pure_epsilon(), spent.rho()), (None, Some(0.1)));
/// assert!(spent.epsilon_at(Delta::new(1e-6)?) < 2.3);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Odometer {
    expenses: Vec<Expense>,
}

impl Odometer {
    /// Adds an expense.
    pub fn record(&mut self, expense: Expense) {
        self.expenses.push(expense);
    }

    /// Everything spent, in order.
    pub fn expenses(&self) -> &[Expense] {
        &self.expenses
    }

    /// The sum of all pure ε, rounded up; `None` if some expense is not pure, or has a δ of selection.
    pub fn pure_epsilon(&self) -> Option<f64> {
        let terms = self.expenses.iter().map(Expense::only_pure);
        Some(sum(terms)?.to_f64_up())
    }

    /// The sum of all ρ, rounded up, where a pure ε counts as `ε²/2`; `None` if some expense has neither. It holds
    /// apart from failures of [`selection`](Self::selection).
    pub fn rho(&self) -> Option<f64> {
        Some(sum(self.expenses.iter().map(Expense::rho))?.to_f64_up())
    }

    /// The sum of the δ of the selection of keys, rounded up.
    pub fn selection(&self) -> f64 {
        self.failures().to_f64_up()
    }

    fn failures(&self) -> Exact {
        self.expenses.iter().fold(Exact::zero(), |sum, expense| sum.plus(&expense.selection()))
    }

    /// The smallest ε known for this δ, from which the δ of selections are subtracted first; infinite if no route
    /// applies, 0 if nothing was spent.
    ///
    /// Routes: (ε, δ) costs add up by basic composition, and the remaining δ converts the sum of the ρ of some of the
    /// other expenses, while the pure ε of the rest add up. An expense with two possible routes is tried with both: (ε,
    /// δ) costs whenever known or only when needed; pure ε for those expenses whose ε is smallest relative to ρ.
    pub fn epsilon_at(&self, delta: Delta) -> f64 {
        let routes = [true, false].map(|approximate_first| self.epsilon_by(delta, approximate_first));
        routes[0].min(routes[1])
    }

    fn epsilon_by(&self, delta: Delta, approximate_first: bool) -> f64 {
        let (mut basic, mut spent_delta, mut forced) = (Exact::zero(), self.failures(), 0.0);
        let mut either = vec![];
        for expense in &self.expenses {
            let rho = expense.rho().map(|rho| rho.to_f64_up());
            match (expense.approximate, expense.pure, rho) {
                (Some((epsilon, delta)), _, rho) if approximate_first || rho.is_none() => {
                    basic = basic.plus(&Exact::decimal(epsilon.get()));
                    spent_delta = spent_delta.plus(&Exact::decimal(delta.get()));
                }
                (_, Some(epsilon), Some(rho)) => either.push((epsilon.get(), rho)),
                (_, None, Some(rho)) => forced = (forced + rho) * (1.0 + f64::EPSILON),
                _ => unreachable!("an expense has a cost"),
            }
        }
        if spent_delta > Exact::decimal(delta.get()) {
            return f64::INFINITY;
        }
        let left = (delta.get() - spent_delta.to_f64_up()) * (1.0 - 2.0 * f64::EPSILON);
        // First those whose pure ε is small relative to ρ; from each place on, the rest is counted in ρ.
        either.sort_by(|a, b| (a.0 * b.1).total_cmp(&(b.0 * a.1)));
        let mut rhos = vec![forced];
        rhos.extend(either.iter().rev().scan(forced, |sum, (_, rho)| {
            *sum = (*sum + rho) * (1.0 + f64::EPSILON);
            Some(*sum)
        }));
        let (mut least, mut pure) = (f64::INFINITY, basic);
        for place in 0..=either.len() {
            let rho = rhos[either.len() - place];
            let rest = match Delta::new(left) {
                _ if place == either.len() && forced == 0.0 => 0.0,
                Ok(left) => epsilon_of_zcdp(Rho::derived(rho), left),
                Err(_) => f64::INFINITY,
            };
            least = least.min(if rest == 0.0 {
                pure.to_f64_up()
            } else {
                (pure.to_f64_up() + rest) * (1.0 + f64::EPSILON)
            });
            if let Some((epsilon, _)) = either.get(place) {
                pure = pure.plus(&Exact::decimal(*epsilon));
            }
        }
        least
    }
}

fn sum(terms: impl Iterator<Item = Option<Exact>>) -> Option<Exact> {
    terms.into_iter().try_fold(Exact::zero(), |sum, term| Some(sum.plus(&term?)))
}

/// A total budget that admits plans one by one, each chosen after seeing all earlier releases, and refuses the first
/// that would exceed it.
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon, Rho, composition::Filter};
/// let mut filter = Filter::new(Budget::Zcdp(Rho::new(0.5)?));
/// filter.spend(Budget::Zcdp(Rho::new(0.3)?).into())?;
/// filter.spend(Budget::Pure(Epsilon::new(0.6)?).into())?; // ρ = 0.18
/// assert!(filter.spend(Budget::Zcdp(Rho::new(0.03)?).into()).is_err());
/// filter.spend(Budget::Zcdp(Rho::new(0.02)?).into())?;
/// assert_eq!(filter.spent().expenses().len(), 3);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawFilter", into = "RawFilter")]
pub struct Filter {
    total: Budget,
    basic: bool,
    spent: Odometer,
}

impl Filter {
    /// A filter for this total. Pure ε admits pure expenses; ρ, and (ε, δ) through the largest ρ that implies it, admit
    /// expenses with a ρ or a pure ε.
    pub fn new(total: Budget) -> Self {
        Self { total, basic: false, spent: Odometer::default() }
    }

    /// A filter for (ε, δ) that adds the ε and the δ of its expenses, which must be pure or (ε, δ).
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon, composition::Filter};
    /// let mut filter = Filter::basic(Epsilon::new(1.0)?, Delta::new(1e-6)?);
    /// filter.spend(Budget::Approximate(Epsilon::new(0.9)?, Delta::new(1e-6)?).into())?;
    /// filter.spend(Budget::Pure(Epsilon::new(0.1)?).into())?;
    /// assert!(filter.spend(Budget::Pure(Epsilon::new(0.1)?).into()).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn basic(epsilon: Epsilon, delta: Delta) -> Self {
        Self { basic: true, ..Self::new(Budget::Approximate(epsilon, delta)) }
    }

    /// The guaranteed total.
    pub fn total(&self) -> Budget {
        self.total
    }

    /// The expenses admitted so far.
    pub fn spent(&self) -> &Odometer {
        &self.spent
    }

    /// Admits an expense, or refuses it and stays unchanged.
    ///
    /// # Errors
    /// If the expense has no cost in the definition of the filter, or would exceed its total.
    pub fn spend(&mut self, expense: Expense) -> Result<()> {
        let mut next = self.spent.clone();
        next.record(expense);
        if !self.admits(&next)? {
            return Err(Error::invalid(format!(
                "this plan would exceed the total budget ({}); give the plan less, or stop releasing from this data",
                self.total
            )));
        }
        self.spent = next;
        Ok(())
    }

    /// Whether an expense would be admitted; changes nothing.
    ///
    /// # Errors
    /// If the expense has no cost in the definition of the filter.
    pub fn would_admit(&self, expense: Expense) -> Result<bool> {
        let mut next = self.spent.clone();
        next.record(expense);
        self.admits(&next)
    }

    /// The amount admitted so far, in the definition of the filter, rounded up.
    pub fn used(&self) -> Amount {
        let (used, _) = self.sums();
        self.amount(&used, Exact::to_f64_up)
    }

    /// The rest of the total, in the definition of the filter, rounded down.
    pub fn left(&self) -> Amount {
        let (used, cap) = self.sums();
        let left = [cap[0].less(&used[0]), cap[1].less(&used[1])];
        self.amount(&left, Exact::to_f64_down)
    }

    /// The total in the definition of the filter.
    pub fn cap(&self) -> Amount {
        let (_, cap) = self.sums();
        self.amount(&cap, Exact::to_f64_down)
    }

    /// The admitted amount and the cap: ε or ρ, and δ.
    fn sums(&self) -> ([Exact; 2], [Exact; 2]) {
        let known = "every expense was admitted, so its cost is known";
        let first = |cost: fn(&Expense) -> Option<Exact>| sum(self.spent.expenses.iter().map(cost)).expect(known);
        let zero = Exact::zero;
        match (self.total, self.basic) {
            (Budget::Approximate(epsilon, delta), true) => (
                [
                    first(|expense| expense.basic().map(|(epsilon, _)| epsilon)),
                    first(|expense| expense.basic().map(|(_, delta)| delta)),
                ],
                [Exact::decimal(epsilon.get()), Exact::decimal(delta.get())],
            ),
            (Budget::Pure(epsilon), _) => {
                ([first(Expense::only_pure), zero()], [Exact::decimal(epsilon.get()), zero()])
            }
            (Budget::Zcdp(rho), _) => ([first(Expense::only_rho), zero()], [Exact::decimal(rho.get()), zero()]),
            (Budget::Approximate(epsilon, delta), false) => {
                ([first(Expense::only_rho), zero()], [Exact::decimal(rho_for(epsilon, delta).get()), zero()])
            }
        }
    }

    fn amount(&self, of: &[Exact; 2], rounded: fn(&Exact) -> f64) -> Amount {
        let first = rounded(&of[0]);
        match (self.total, self.basic) {
            (Budget::Approximate(..), true) => {
                Amount { epsilon: Some(first), delta: Some(rounded(&of[1])), ..Amount::default() }
            }
            (Budget::Pure(_), _) => Amount { epsilon: Some(first), ..Amount::default() },
            _ => Amount { rho: Some(first), ..Amount::default() },
        }
    }

    fn admits(&self, spent: &Odometer) -> Result<bool> {
        let wrong = |what: &str| Error::invalid(format!("a total of {} only admits plans with {what}", self.total));
        let expenses = spent.expenses.iter();
        if let (Budget::Approximate(epsilon, delta), true) = (self.total, self.basic) {
            let costs: Option<Vec<_>> = expenses.map(Expense::basic).collect();
            let costs = costs.ok_or_else(|| wrong("a pure epsilon, or epsilon and delta"))?;
            let (zero, cap) =
                ((Exact::zero(), Exact::zero()), (Exact::decimal(epsilon.get()), Exact::decimal(delta.get())));
            let sums = costs.iter().fold(zero, |sums, cost| (sums.0.plus(&cost.0), sums.1.plus(&cost.1)));
            return Ok(sums.0 <= cap.0 && sums.1 <= cap.1);
        }
        if let Budget::Pure(epsilon) = self.total {
            let pure = sum(expenses.map(Expense::only_pure));
            return Ok(pure.ok_or_else(|| wrong("a pure epsilon"))? <= Exact::decimal(epsilon.get()));
        }
        let cap = match self.total {
            Budget::Zcdp(rho) => rho,
            Budget::Approximate(epsilon, delta) => rho_for(epsilon, delta),
            Budget::Pure(_) => unreachable!("handled above"),
        };
        if spent.expenses.iter().any(|expense| expense.selection.is_some()) {
            return Err(Error::invalid(format!(
                "a total of {} does not admit the δ of a selection of undeclared keys; use a total of epsilon \
                 and delta with basic composition, or declare the keys",
                self.total
            )));
        }
        Ok(sum(expenses.map(Expense::only_rho)).ok_or_else(|| wrong("a rho or a pure epsilon"))?
            <= Exact::decimal(cap.get()))
    }
}

/// An amount in the definition of a [`Filter`]: ε, ε and δ, or ρ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amount {
    /// ε, for a total in ε alone or with δ by basic composition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// δ, by basic composition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// ρ, for a total in ρ, or in (ε, δ) through ρ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho: Option<f64>,
}

impl Amount {
    /// The number that counts: ε or ρ.
    pub fn main(&self) -> f64 {
        self.epsilon.or(self.rho).unwrap_or(0.0)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { epsilon: Some(epsilon), delta: Some(delta), .. } => write!(f, "ε = {epsilon}, δ = {delta:e}"),
            Self { epsilon: Some(epsilon), .. } => write!(f, "ε = {epsilon}"),
            Self { rho, .. } => write!(f, "ρ = {}", rho.unwrap_or(0.0)),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFilter {
    total: Budget,
    basic: bool,
    spent: Odometer,
}

impl TryFrom<RawFilter> for Filter {
    type Error = Error;

    fn try_from(raw: RawFilter) -> Result<Self> {
        if raw.basic && !matches!(raw.total, Budget::Approximate(..)) {
            return Err(Error::invalid("basic composition needs a total of epsilon and delta"));
        }
        let mut filter = Self { total: raw.total, basic: raw.basic, spent: Odometer::default() };
        if !filter.admits(&raw.spent)? {
            return Err(Error::invalid("this filter has spent more than its total; it was changed by hand"));
        }
        filter.spent = raw.spent;
        Ok(filter)
    }
}

impl From<Filter> for RawFilter {
    fn from(filter: Filter) -> Self {
        Self { total: filter.total, basic: filter.basic, spent: filter.spent }
    }
}

#[cfg(test)]
mod tests;
