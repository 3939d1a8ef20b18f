//! What a plan promises, in every currency.

use super::Sensitivity;
use crate::budget::{Budget, Delta, Epsilon, Rho, conversions};
use crate::mechanism::Mechanism;
use crate::noise::DiscreteLaw;

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
    /// What calibrated noise gives on the node sums of a mechanism.
    ///
    /// Laplace noise of scale λ on a node whose sum can change by `d` is `|d|/λ`-DP, hence `d²/(2λ²)`-zCDP, and independent
    /// nodes add: `Δ2² s2² / (2λ²)`, which is less than `ε²/2` as soon as a change touches more than one node.
    pub(super) fn of(budget: &Budget, law: &DiscreteLaw, sensitivity: Sensitivity, mechanism: &dyn Mechanism) -> Self {
        let stated = match *budget {
            Budget::Approximate(epsilon, delta) => Some((epsilon, delta)),
            _ => None,
        };
        match law {
            DiscreteLaw::Laplace(law) => {
                let epsilon = budget.pure_epsilon();
                let capped = mechanism.capped_column_sum(sensitivity.spread) as f64 * sensitivity.spread.total as f64;
                let scale = law.scale().to_f64();
                // Rounded up: the products are right to a few units in the last place.
                let by_nodes = sensitivity.event_squared as f64 * capped / (2.0 * scale * scale) * (1.0 + 1e-12);
                let rho = Rho::derived(conversions::zcdp_of_pure(epsilon).min(by_nodes));
                Self { pure_epsilon: Some(epsilon), rho, stated }
            }
            DiscreteLaw::Gaussian(_) => {
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
