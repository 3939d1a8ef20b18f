//! What a plan promises, in every currency.

use super::calibrate::Calibration;
use crate::noise::DiscreteLaw;
use crate::number::Ratio;
use crate::number::exact::Exact;
use crate::privacy::composition::Expense;
use crate::privacy::{Budget, Delta, Epsilon, Rho, conversions, loss};

/// ε of Laplace noise of this scale where sums move by at most `l1`.
fn exact_spent(l1: f64, scale: Ratio) -> Exact {
    let scale = Exact::from(scale.numerator()).over(&Exact::from(scale.denominator()));
    Exact::decimal(l1).over(&scale)
}

/// A guarantee for the whole release history, in zCDP and, for Laplace noise, pure ε.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guarantee {
    /// Pure ε, or `None` under Gaussian noise.
    pub pure_epsilon: Option<Epsilon>,
    /// ρ of zCDP.
    pub rho: Rho,
    /// The pair the budget was stated in, if it was (ε, δ).
    pub stated: Option<(Epsilon, Delta)>,
    /// Of Gaussian noise: its parameter σ² and the squared norm it hides.
    gaussian: Option<(f64, f64)>,
}

impl Guarantee {
    /// What calibrated noise gives.
    ///
    /// Laplace noise of scale λ on a node whose sum can change by `d` is `|d|/λ`-DP, hence `d²/(2λ²)`-zCDP, and
    /// independent nodes add: less than `ε²/2` as soon as a change touches more than one node. (Only where nodes are
    /// read after their last step, see [`Mechanism::is_causal`](crate::mechanism::Mechanism::is_causal).)
    pub(super) fn of(budget: &Budget, calibration: &Calibration) -> Self {
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
                // What rounding up to 25 bits leaves over is not worth another number than the budget's; what is spent
                // beyond it is, however little, where δ is spent too.
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
                let rho = Rho::derived(conversions::zcdp_of_pure(epsilon).min(concentrated(scale * scale)));
                Self { pure_epsilon: Some(epsilon), rho, stated, gaussian: None }
            }
            DiscreteLaw::Gaussian(law) => {
                let rho = match *budget {
                    Budget::Zcdp(rho) => rho,
                    _ => Rho::derived(concentrated(law.parameter().to_f64())),
                };
                let gaussian = Some((law.parameter().to_f64(), calibration.l2_squared));
                Self { pure_epsilon: None, rho, stated, gaussian }
            }
        }
    }

    /// The promise of the same noise to a unit whose change is larger: so many times as large, in L1 norm, and by this
    /// square in squared L2 norm, in squared steps of the noise grid.
    pub(super) fn to_larger(&self, times: f64, l2_squared: f64) -> Self {
        let pure_epsilon = self.pure_epsilon.map(|epsilon| Epsilon::derived(epsilon.get() * times));
        let rho = match self.gaussian {
            Some((variance, _)) => Rho::derived(l2_squared / (2.0 * variance) * (1.0 + 1e-12)),
            None => Rho::derived(self.rho.get() * times * times * (1.0 + 1e-12)),
        };
        Self { pure_epsilon, rho, stated: None, gaussian: self.gaussian.map(|(variance, _)| (variance, l2_squared)) }
    }

    /// What it costs, in every currency in which that is known.
    pub fn expense(&self) -> Expense {
        Expense::new(self.pure_epsilon, Some(self.rho), self.stated).expect("it has a ρ")
    }

    /// Of Gaussian noise: the squared norm it hides, in squared steps of its grid.
    pub(super) fn hidden_squared(&self) -> Option<f64> {
        self.gaussian.map(|(_, squared)| squared)
    }

    /// The promise as one would say it in ε: pure where that is all there is or no more than the stated ε, else the
    /// stated pair; `None` for Gaussian noise under zCDP.
    pub fn epsilon_delta(&self) -> Option<(Epsilon, Option<Delta>)> {
        let pure = self.pure_epsilon.filter(|pure| self.stated.is_none_or(|(epsilon, _)| *pure <= epsilon));
        pure.map(|pure| (pure, None)).or(self.stated.map(|(epsilon, delta)| (epsilon, Some(delta))))
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
        let concentrated = conversions::epsilon_of_zcdp(self.rho, delta);
        let pure = self.pure_epsilon.map_or(f64::INFINITY, Epsilon::get);
        // The stated pair holds at its own δ and above by definition; the inverse conversion only adds rounding.
        let stated = self.stated.filter(|(_, at)| at.get() <= delta.get()).map_or(f64::INFINITY, |(e, _)| e.get());
        let gaussian = self.gaussian.map_or(f64::INFINITY, |(variance, squared)| {
            loss::epsilon_of_discrete_gaussian_by_norm(variance, squared, delta)
        });
        concentrated.min(gaussian).min(pure).min(stated)
    }
}
