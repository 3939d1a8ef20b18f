//! The optimal division of one budget between several plans on the same data.
//!
//! Let plan `i` have the share `r_i` of the budget, `Σ r_i = 1`. Under ρ-zCDP its variances are `a_i/r_i` with its
//! variances `a_i` for the whole budget, under pure ε they are `a_i/r_i²`. The goal is the smallest `Σ a_i/r_i^p`, `p`
//! = 1 or 2, where the `a_i` are weighted sums of variances over everything computed from plan `i`. By Lagrange's
//! condition `a_i/r_i^(p+1)` is the same for all:
//!
//! ```text
//! r_i = a_i^(1/(p+1)) / Σ_k a_k^(1/(p+1)),     Σ a_i/r_i^p = (Σ a_i^(1/(p+1)))^(p+1).
//! ```
//!
//! (ε, δ) is spent as the largest ρ that implies it. Shares of a budget are decimal numbers whose exact sum is at most
//! the budget: the [`Filter`] admits all of them.

use super::{Budget, Expense, Filter};
use crate::number::power;
use crate::privacy::{Epsilon, Rho};
use crate::{Error, Result};

/// How variances depend on shares of a budget.
///
/// ```
/// use evertally::privacy::{Budget, Epsilon, Rho, composition::Split};
/// // A sum whose variances are 100 times those of a count, each as important as the other in relation to its own size,
/// // is one question; in absolute terms the sum takes 10 times the share of the count.
/// let split = Split::new(Budget::Zcdp(Rho::new(0.5)?));
/// let shares = split.shares(&[1.0, 100.0])?;
/// assert!((shares[1] / shares[0] - 10.0).abs() < 1e-9);
/// assert_eq!(split.least(&[1.0, 100.0]), 121.0);
/// let budgets = split.budgets(&[0.25, 0.75])?;
/// assert_eq!(budgets[0], Budget::Zcdp(Rho::new(0.125)?));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    budget: Budget,
    /// Variances go with the share to the power of minus this.
    power: i32,
}

/// Shares of a budget are rounded down to this many decimal digits of it.
const DIGITS: i32 = 6;

impl Split {
    /// From a budget; (ε, δ) is divided as the largest ρ that implies it.
    pub fn new(budget: Budget) -> Self {
        match budget.rho() {
            None => Self { budget, power: 2 },
            Some(rho) => Self { budget: Budget::Zcdp(rho), power: 1 },
        }
    }

    /// The divided quantity: pure ε or ρ.
    pub fn whole(&self) -> Budget {
        self.budget
    }

    /// The shares with the smallest sum of variances, given each weighted variance under the whole budget. They add up
    /// to 1.
    ///
    /// # Errors
    /// Unless all are positive and finite, and there is at least one.
    pub fn shares(&self, variances: &[f64]) -> Result<Vec<f64>> {
        if variances.is_empty() || !variances.iter().all(|variance| *variance > 0.0 && variance.is_finite()) {
            return Err(Error::invalid("the division of a budget needs positive variances"));
        }
        let sum: f64 = variances.iter().map(|variance| self.root(*variance)).sum();
        Ok(variances.iter().map(|variance| self.root(*variance) / sum).collect())
    }

    /// The smallest sum, which those shares attain.
    pub fn least(&self, variances: &[f64]) -> f64 {
        power(variances.iter().map(|variance| self.root(*variance)).sum(), self.power + 1)
    }

    /// The variance under this share of one that is `variance` under the whole budget.
    pub fn under_share(&self, variance: f64, share: f64) -> f64 {
        variance / power(share, self.power)
    }

    fn root(&self, variance: f64) -> f64 {
        match self.power {
            1 => variance.sqrt(),
            _ => libm::cbrt(variance),
        }
    }

    /// The budgets of these shares, whose exact sum is at most the whole.
    ///
    /// # Errors
    /// If a share is so small that nothing is left of it, or they add up to more than 1.
    pub fn budgets(&self, shares: &[f64]) -> Result<Vec<Budget>> {
        let part = |share: &f64| match self.budget {
            Budget::Pure(epsilon) => Ok(Budget::Pure(Epsilon::new_even_if_weak(rounded_down(epsilon.get(), *share)?)?)),
            Budget::Zcdp(rho) => Ok(Budget::Zcdp(Rho::new_even_if_weak(rounded_down(rho.get(), *share)?)?)),
            Budget::Approximate(..) => unreachable!("spent as ρ"),
        };
        let parts = shares.iter().map(part).collect::<Result<Vec<_>>>()?;
        let mut filter = Filter::new(self.budget);
        parts.iter().try_for_each(|part| filter.spend(Expense::from(*part)).map(drop))?;
        Ok(parts)
    }
}

/// The share of a number, rounded down to few digits.
fn rounded_down(whole: f64, share: f64) -> Result<f64> {
    if share == 1.0 {
        return Ok(whole);
    }
    let exponent = libm::log10(whole).floor() as i32 - DIGITS; // fits: a budget is between 1e-30 and 1e308
    let unit: f64 = format!("1e{exponent}").parse().expect("a power of ten");
    let units = (whole * share / unit * (1.0 - 4.0 * f64::EPSILON)).floor();
    // If the product itself is a short number, rounding must not remove a whole unit.
    let units = if (whole * share / unit - units - 1.0).abs() < 1e-9 && share < 1.0 { units + 1.0 } else { units };
    // Through text, so that it is the decimal number that it prints as.
    let value = format!("{units:.0}e{exponent}").parse::<f64>().expect("a decimal number");
    if value > 0.0 { Ok(value) } else { Err(Error::invalid(format!("a share of {share} of a budget leaves nothing"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::{Budget, Delta};

    fn budgets() -> [Budget; 4] {
        [
            Budget::Pure(Epsilon::new(1.0).unwrap()),
            Budget::Zcdp(Rho::new(0.5).unwrap()),
            Budget::Zcdp(Rho::new(0.037).unwrap()),
            Budget::Approximate(Epsilon::new(1.0).unwrap(), Delta::new(1e-6).unwrap()),
        ]
    }

    /// No other division is better: neither a random one nor a step from the best.
    #[test]
    fn the_closed_form_is_the_least() {
        let variances = [[1.0, 2.0, 30.0], [5.0, 5.0, 5.0], [0.001, 70.0, 1.0]];
        for (budget, variances) in budgets().into_iter().flat_map(|budget| variances.map(|v| (budget, v))) {
            let split = Split::new(budget);
            let sum = |shares: &[f64]| -> f64 {
                variances.iter().zip(shares).map(|(v, share)| split.under_share(*v, *share)).sum()
            };
            let shares = split.shares(&variances).unwrap();
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let least = sum(&shares);
            assert!((least / split.least(&variances) - 1.0).abs() < 1e-12);
            for a in 1..40 {
                for b in 1..40 - a {
                    let other = [f64::from(a) / 40.0, f64::from(b) / 40.0, f64::from(40 - a - b) / 40.0];
                    assert!(sum(&other) >= least * (1.0 - 1e-12), "{other:?}");
                }
            }
            let moved = [shares[0] + 1e-4 * shares[1], shares[1] * (1.0 - 1e-4), shares[2]];
            assert!(sum(&moved) > least);
        }
        assert!(Split::new(budgets()[0]).shares(&[]).is_err());
        assert!(Split::new(budgets()[0]).shares(&[1.0, 0.0]).is_err());
    }

    #[test]
    fn parts_add_up_to_no_more_than_the_whole() {
        for budget in budgets() {
            let split = Split::new(budget);
            for shares in [vec![1.0], vec![0.5, 0.5], vec![0.1, 0.2, 0.7], vec![1.0 / 3.0; 3], vec![1.0 / 7.0; 7]] {
                let parts = split.budgets(&shares).unwrap();
                let number = |budget: Budget| match budget {
                    Budget::Pure(epsilon) => epsilon.get(),
                    Budget::Zcdp(rho) => rho.get(),
                    Budget::Approximate(..) => unreachable!(),
                };
                let whole = number(split.whole());
                let sum: f64 = parts.iter().map(|part| number(*part)).sum();
                assert!(sum > whole * (1.0 - 1e-4), "{budget}: {sum} of {whole}");
            }
            assert!(split.budgets(&[0.6, 0.6]).is_err());
        }
        let halves = Split::new(budgets()[1]).budgets(&[0.5, 0.5]).unwrap();
        assert_eq!(halves[0], Budget::Zcdp(Rho::new(0.25).unwrap()), "short shares stay unchanged");
    }
}
