//! Mechanisms that took long to build, passed to a plan instead of being built again.

use crate::mechanism::{Mechanism, MechanismName, Objective};
use std::sync::Arc;

/// Mechanisms that are already built.
///
/// ```
/// use evertally::mechanism::DensePure;
/// use evertally::plan::{Objective, PlanRequest, Prepared, Search};
/// use evertally::privacy::{Budget, Epsilon};
/// use std::ops::ControlFlow;
/// use std::sync::Arc;
/// // Or read from a file: `DensePure::from_bytes`.
/// let found = DensePure::search(16, Objective::Max, &mut |_, _| ControlFlow::Continue(()))?;
/// let budget = Budget::Pure(Epsilon::new(1.0)?);
/// let request = PlanRequest::count(16, budget);
/// let request = request.with_search(Search::default().with_prepared(Prepared::new([Arc::new(found) as _])));
/// assert_eq!(request.plan()?.mechanism().name().family().stem, "dense-pure");
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Prepared(Vec<Arc<dyn Mechanism>>);

impl Prepared {
    /// The given mechanisms; those of another horizon than a request's are never used.
    pub fn new(mechanisms: impl IntoIterator<Item = Arc<dyn Mechanism>>) -> Self {
        Self(mechanisms.into_iter().collect())
    }

    /// Those of a horizon.
    pub(super) fn of_horizon(&self, horizon: u64) -> impl Iterator<Item = &Arc<dyn Mechanism>> {
        self.0.iter().filter(move |mechanism| mechanism.horizon() == horizon)
    }

    /// The mechanism with a requested name; the objective decides what the name leaves open.
    pub(super) fn named(&self, asked: MechanismName, horizon: u64, objective: Objective) -> Option<Arc<dyn Mechanism>> {
        self.of_horizon(horizon).find(|built| asked.matches_request(built.name(), objective)).cloned()
    }
}

/// Equal names are equal mechanisms.
impl PartialEq for Prepared {
    fn eq(&self, other: &Self) -> bool {
        let names = |prepared: &Self| prepared.0.iter().map(|m| (m.horizon(), m.name())).collect::<Vec<_>>();
        names(self) == names(other)
    }
}
