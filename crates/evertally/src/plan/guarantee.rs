//! A plan's guarantee, in every privacy definition.

use super::calibrate::Calibration;
use crate::noise::DiscreteLaw;
use crate::number::Ratio;
use crate::number::exact::Exact;
use crate::privacy::composition::{Expense, Filter, Odometer};
use crate::privacy::{Budget, Delta, Epsilon, Rho, conversions, loss};
use crate::{Error, Result};

/// ε of Laplace noise of this scale if sums move by at most `l1`.
fn exact_spent(l1: f64, scale: Ratio) -> Exact {
    let scale = Exact::from(scale.numerator()).over(&Exact::from(scale.denominator()));
    Exact::decimal(l1).over(&scale)
}

/// A product, rounded up.
fn product_up(x: f64, y: f64) -> f64 {
    let product = x * y;
    if x.mul_add(y, -product) > 0.0 { product.next_up() } else { product }
}

/// A guarantee for the whole release history, in zCDP and, for Laplace noise, pure ε.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guarantee {
    /// Pure ε, or `None` under Gaussian noise, and if keys are selected.
    pub pure_epsilon: Option<Epsilon>,
    /// ρ of zCDP, together with the δ of [`selection`](Self::selection).
    pub rho: Rho,
    /// The (ε, δ) pair of the budget, if it was given as one; without the δ of selection.
    pub stated: Option<(Epsilon, Delta)>,
    /// The δ of the [selection](crate::privacy::selection) of undeclared keys: it is added to the δ of every other
    /// statement.
    pub selection: Option<Delta>,
    /// ε of the noise alone, if keys are selected.
    noise_epsilon: Option<Epsilon>,
    /// For Gaussian noise: its parameter σ² and the squared norm it hides.
    gaussian: Option<(f64, f64)>,
    /// Most moved variables for each unit of that squared norm: 1 unless the noise of groups is correlated.
    variables: f64,
}

impl Guarantee {
    /// The guarantee of calibrated noise.
    ///
    /// Laplace noise of scale λ on a node whose sum can change by `d` is `|d|/λ`-DP, hence `d²/(2λ²)`-zCDP, and
    /// independent nodes add up: to less than `ε²/2` as soon as a change touches more than one node. (Only if nodes
    /// are read after their last step, see [`Mechanism::is_causal`](crate::mechanism::Mechanism::is_causal).)
    pub(super) fn new(budget: &Budget, calibration: &Calibration) -> Self {
        let stated = match *budget {
            Budget::Approximate(epsilon, delta) => Some((epsilon, delta)),
            _ => None,
        };
        // Rounded up: the products are right to a few units in the last place.
        let concentrated = |variance: f64| calibration.l2_squared / (2.0 * variance) * (1.0 + 1e-12);
        match calibration.law {
            DiscreteLaw::Laplace(law) => {
                let scale = law.scale().to_f64();
                let spent = calibration.l1 / scale * (1.0 + 1e-12);
                // The slack from rounding up to 25 bits does not justify a number other than the budget's. An excess
                // over the budget, however small, does if δ is spent too.
                let planned = budget.pure_epsilon();
                let near = (spent / planned.get() - 1.0).abs() < 1e-6;
                let planned_holds = match budget {
                    Budget::Pure(_) => true,
                    Budget::Approximate(..) => {
                        exact_spent(calibration.l1, law.scale()) <= Exact::decimal(planned.get())
                    }
                    Budget::Zcdp(_) => false,
                };
                let epsilon = if near && planned_holds { planned } else { Epsilon::derived(spent) };
                let implied = Exact::decimal(epsilon.get()).half_square().to_f64_up();
                let rho = Rho::derived(implied.min(concentrated(scale * scale)));
                Self { pure_epsilon: Some(epsilon), gaussian: None, ..Self::from_rho(rho, stated) }
            }
            DiscreteLaw::Gaussian(law) => {
                // The norm is in units of the common noise of correlated groups.
                let (parameter, variables) = match &calibration.common {
                    None => (law.parameter().to_f64(), 1.0),
                    Some((correlation, common)) => (common.parameter().to_f64(), correlation.own_over_common()),
                };
                let rho = match *budget {
                    Budget::Zcdp(rho) => rho,
                    _ => Rho::derived(concentrated(parameter)),
                };
                Self { gaussian: Some((parameter, calibration.l2_squared)), variables, ..Self::from_rho(rho, stated) }
            }
        }
    }

    /// The joint guarantee of several plans on the same data, each under its part of one budget.
    ///
    /// # Errors
    /// If the parts add up to more than the budget, or there are no parts.
    ///
    /// ```
    /// use evertally::plan::{Guarantee, PlanRequest};
    /// use evertally::privacy::{Budget, Epsilon, composition::Split};
    /// let budget = Budget::Pure(Epsilon::new(1.0)?);
    /// let mut parts = Vec::new();
    /// for part in Split::new(budget).budgets(&[0.25, 0.75])? {
    ///     parts.push((part, PlanRequest::count(100, part).plan()?.guarantee()));
    /// }
    /// assert_eq!(Guarantee::composed(budget, &parts)?.pure_epsilon, Some(Epsilon::new(1.0)?));
    /// assert!(Guarantee::composed(Budget::Pure(Epsilon::new(0.9)?), &parts).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn composed(budget: Budget, parts: &[(Budget, Self)]) -> Result<Self> {
        let mut admitted = Filter::new(budget);
        let mut all = Odometer::default();
        for (part, guarantee) in parts {
            admitted.spend(Expense::from(*part))?;
            all.record(guarantee.expense());
        }
        let stated = match budget {
            Budget::Approximate(epsilon, delta) => Some((epsilon, delta)),
            _ => None,
        };
        // The parts are known to spend at most the budget; their slack does not justify another number.
        let pure_epsilon = match budget {
            Budget::Pure(epsilon) => Some(epsilon),
            _ => all.pure_epsilon().map(Epsilon::derived),
        };
        let sum = all.rho().filter(|rho| *rho > 0.0).ok_or_else(|| Error::invalid("a guarantee needs a plan"))?;
        let rho = budget.rho().map_or(sum, |rho| rho.get().min(sum));
        Ok(Self { pure_epsilon, ..Self::from_rho(Rho::derived(rho), stated) })
    }

    fn from_rho(rho: Rho, stated: Option<(Epsilon, Delta)>) -> Self {
        let (selection, noise_epsilon, gaussian) = (None, None, None);
        Self { pure_epsilon: None, rho, stated, selection, noise_epsilon, gaussian, variables: 1.0 }
    }

    /// The same with a selection of keys, which fails to keep them hidden with this probability.
    pub(super) fn with_selection(self, delta: Delta) -> Self {
        Self { selection: Some(delta), pure_epsilon: None, noise_epsilon: self.pure_epsilon, ..self }
    }

    /// ε of the noise, without the selection of keys.
    fn epsilon_of_noise(&self) -> Option<Epsilon> {
        self.pure_epsilon.or(self.noise_epsilon)
    }

    /// The guarantee of the same noise for a unit whose change is larger: by this factor in L1 norm, and with this
    /// squared L2 norm, in squared steps of the noise grid. If keys are selected, it is that of the noise alone.
    pub(super) fn enlarged(&self, times: f64, l2_squared: f64) -> Self {
        let pure_epsilon = self.epsilon_of_noise().map(|epsilon| Epsilon::derived(product_up(epsilon.get(), times)));
        let rho = match self.gaussian {
            Some((variance, _)) => Rho::derived(l2_squared / (2.0 * variance) * (1.0 + 1e-12)),
            None => Rho::derived(self.rho.get() * times * times * (1.0 + 1e-12)),
        };
        let gaussian = self.gaussian.map(|(variance, _)| (variance, l2_squared));
        Self { pure_epsilon, gaussian, variables: self.variables, ..Self::from_rho(rho, None) }
    }

    /// The guarantee of the same noise for the first releases alone, in which a unit's change moves the protected
    /// values by less: at most by `l1` (under Laplace noise) and `l2_squared`, in steps of the noise grid. Statements
    /// about all releases hold for the first of them, too.
    pub(super) fn of_first_steps(&self, law: &DiscreteLaw, l1: f64, l2_squared: f64) -> Self {
        let least = |rho: f64| Rho::derived(rho.min(self.rho.get()));
        let concentrated = |variance: f64| l2_squared / (2.0 * variance) * (1.0 + 1e-12);
        match law {
            DiscreteLaw::Gaussian(law) => {
                let variance = law.parameter().to_f64();
                let hidden = self.hidden_squared().unwrap_or(f64::INFINITY);
                let gaussian = Some((variance, l2_squared.min(hidden)));
                Self { rho: least(concentrated(variance)), gaussian, ..*self }
            }
            DiscreteLaw::Laplace(law) => {
                let scale = law.scale().to_f64();
                let spent = l1 / scale * (1.0 + 1e-12);
                let all = self.epsilon_of_noise().map_or(f64::INFINITY, Epsilon::get);
                let epsilon = if spent < all { Epsilon::derived(spent) } else { Epsilon::derived(all) };
                let implied = Exact::decimal(epsilon.get()).half_square().to_f64_up();
                let rho = least(implied.min(concentrated(scale * scale)));
                match self.selection {
                    None => Self { pure_epsilon: Some(epsilon), rho, ..*self },
                    Some(_) => Self { noise_epsilon: Some(epsilon), rho, ..*self },
                }
            }
        }
    }

    /// Its cost, in every privacy definition in which it is known.
    pub fn expense(&self) -> Expense {
        let noise = Expense::new(self.epsilon_of_noise(), Some(self.rho), self.stated).expect("it has a ρ");
        self.selection.map_or(noise, |delta| noise.with_selection(delta))
    }

    /// For Gaussian noise: the squared norm it hides, in squared steps of its grid.
    pub(super) fn hidden_squared(&self) -> Option<f64> {
        self.gaussian.map(|(_, squared)| squared)
    }

    /// The guarantee stated in ε: pure ε if there is nothing else or if it is at most the stated ε, otherwise the
    /// stated pair; `None` for Gaussian noise under zCDP.
    pub fn epsilon_delta(&self) -> Option<(Epsilon, Option<Delta>)> {
        let pure = self.epsilon_of_noise().filter(|pure| self.stated.is_none_or(|(epsilon, _)| *pure <= epsilon));
        let own = pure.map(|pure| (pure, None)).or(self.stated.map(|(epsilon, delta)| (epsilon, Some(delta))));
        let Some(selection) = self.selection else { return own };
        let with = |delta: Delta| Delta::new(delta.plus(selection)).unwrap_or(delta);
        own.map(|(epsilon, delta)| (epsilon, Some(delta.map_or(selection, with))))
    }

    /// The ε of (ε, δ)-differential privacy at this δ: the best of pure ε, the optimal conversion from zCDP and, for
    /// Gaussian noise, the comparison with continuous noise.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon};
    /// use evertally::plan::PlanRequest;
    /// let delta = Delta::new(1e-6)?;
    /// let plan = PlanRequest::count(100, Budget::Approximate(Epsilon::new(1.0)?, delta)).plan()?;
    /// assert!((plan.guarantee().epsilon_at(delta) - 1.0).abs() < 1e-9);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn epsilon_at(&self, delta: Delta) -> f64 {
        let delta = match self.selection {
            None => delta,
            // The part of δ that selection leaves.
            Some(selection) => match Delta::new((delta.get() - selection.get()) * (1.0 - f64::EPSILON)) {
                Ok(left) => left,
                Err(_) => return f64::INFINITY,
            },
        };
        let concentrated = conversions::epsilon_of_zcdp(self.rho, delta);
        let pure = self.epsilon_of_noise().map_or(f64::INFINITY, Epsilon::get);
        // The stated pair holds at its own δ and above by definition; the inverse conversion only adds rounding.
        let stated = self.stated.filter(|(_, at)| at.get() <= delta.get()).map_or(f64::INFINITY, |(e, _)| e.get());
        let gaussian = self.gaussian.map_or(f64::INFINITY, |(variance, squared)| {
            loss::epsilon_of_shifts(variance, squared, squared * self.variables, delta)
        });
        concentrated.min(gaussian).min(pure).min(stated)
    }
}

#[cfg(test)]
mod tests {
    use super::product_up;

    /// The smallest double that is not below the product.
    #[test]
    fn products_are_rounded_up() {
        for x in (1..200).map(|n| f64::from(n) / 10.0) {
            for y in [2.0, 3.0, 7.0, 1e9 + 7.0] {
                let up = product_up(x, y);
                assert!(x.mul_add(y, -up) <= 0.0 && x.mul_add(y, -up.next_down()) > 0.0, "{x} {y}: {up}");
            }
        }
    }
}
