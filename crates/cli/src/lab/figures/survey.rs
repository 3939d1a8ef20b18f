//! The mechanisms of the figures: each family at each horizon, with the planner's parameters, built once.

use evertally::Error;
use evertally::mechanism::{Mechanism, MechanismName};
use evertally::plan::{NoiseKind, Objective, PlanRequest};
use evertally::privacy::{Budget, Epsilon, Rho};
use std::collections::HashMap;
use std::sync::Arc;

/// Family, law, objective, horizon.
type SurveyPoint = (MechanismName, NoiseKind, Objective, u64);

/// A cache of the families found so far, shared by the figures.
#[derive(Default)]
pub(super) struct Survey {
    found: HashMap<SurveyPoint, Option<Arc<dyn Mechanism>>>,
    exact: HashMap<(MechanismName, u64), Option<f64>>,
}

/// The families that a search considers at a horizon.
pub(crate) fn families(horizon: u64) -> impl Iterator<Item = MechanismName> {
    MechanismName::FAMILIES.into_iter().filter(move |family| family.is_searched_at(horizon))
}

/// Whether the error grows with the horizon itself instead of its logarithm; such lines would flatten all others.
pub(super) fn is_plain_noise(family: MechanismName) -> bool {
    family.family().is_plain_noise
}

/// A family at a horizon, with open parameters as the planner chooses them for one event; an error if the family does
/// not support the horizon or the law.
pub(crate) fn as_planned(
    family: MechanismName,
    law: NoiseKind,
    objective: Objective,
    horizon: u64,
) -> evertally::Result<Arc<dyn Mechanism>> {
    if law == NoiseKind::Gaussian && !family.serves(law) {
        return Err(Error::invalid(format!("the planner offers `{family}` for Laplace noise only")));
    }
    let budget = match law {
        NoiseKind::Laplace => Budget::Pure(Epsilon::new(1.0)?),
        NoiseKind::Gaussian => Budget::Zcdp(Rho::new(0.5)?),
    };
    let request = PlanRequest::count(horizon, budget).with_mechanism(family).with_noise(law).with_objective(objective);
    Ok(request.candidates()?.swap_remove(0).mechanism)
}

impl Survey {
    /// [`as_planned`], cached.
    pub(super) fn mechanism(
        &mut self,
        family: MechanismName,
        law: NoiseKind,
        objective: Objective,
        horizon: u64,
    ) -> Option<Arc<dyn Mechanism>> {
        let entry = self.found.entry((family, law, objective, horizon));
        entry.or_insert_with(|| as_planned(family, law, objective, horizon).ok()).clone()
    }

    /// The exact squared sensitivity under Gaussian noise if it is known, cached.
    pub(super) fn exact(&mut self, mechanism: &dyn Mechanism) -> Option<f64> {
        let entry = self.exact.entry((mechanism.name(), mechanism.horizon()));
        *entry.or_insert_with(|| mechanism.exact_l2_squared())
    }
}

/// Powers of two up to a horizon, and the horizon itself.
pub(super) fn horizons(longest: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (1..64).map(|power| 1 << power).take_while(|&t| t <= longest).collect();
    if all.last() != Some(&longest) {
        all.push(longest);
    }
    all
}
