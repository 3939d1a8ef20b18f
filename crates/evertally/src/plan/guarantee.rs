//! What a plan promises, in every currency.

use super::NoiseKind;
use crate::budget::{Budget, Delta, Epsilon, Rho, conversions};

/// A guarantee for the whole release history, in zCDP and, for Laplace noise, pure ε.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guarantee {
    /// Pure ε, or `None` under Gaussian noise.
    pub pure_epsilon: Option<Epsilon>,
    /// ρ of zCDP.
    pub rho: Rho,
    /// The pair the budget was stated in, if it was (ε, δ).
    pub stated: Option<(Epsilon, Delta)>,
}

impl Guarantee {
    /// What noise of this kind gives when it is calibrated to a budget.
    ///
    /// # Panics
    /// For Gaussian noise under a pure budget, which no plan has.
    pub fn of(budget: &Budget, kind: NoiseKind) -> Self {
        let stated = match *budget {
            Budget::Approximate(epsilon, delta) => Some((epsilon, delta)),
            _ => None,
        };
        match kind {
            NoiseKind::Laplace => {
                let epsilon = budget.pure_epsilon();
                let rho = Rho::derived(conversions::zcdp_of_pure(epsilon));
                Self { pure_epsilon: Some(epsilon), rho, stated }
            }
            NoiseKind::Gaussian => {
                let rho = budget.rho().expect("a Gaussian plan has a ρ");
                Self { pure_epsilon: None, rho, stated }
            }
        }
    }

    /// The ε of (ε, δ)-differential privacy at this δ: the better of pure ε and the optimal conversion from zCDP.
    ///
    /// ```
    /// use evertally::budget::{Budget, Delta, Epsilon};
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
        concentrated.min(pure).min(stated)
    }
}
