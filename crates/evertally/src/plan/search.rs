//! How a plan is searched for: what never becomes part of it.

use super::Prepared;

/// Options of the search over mechanisms. They decide what is looked at, and are no part of the plan that is found: the
/// same plan has the same digest however it was found.
///
/// ```
/// use evertally::plan::{PlanRequest, Search};
/// use evertally::privacy::{Budget, Rho};
/// let request = PlanRequest::count(1 << 20, Budget::Zcdp(Rho::new(0.5)?));
/// let light = request.with_search(Search::default().with_light_steps(true)).plan()?;
/// assert!(light.mechanism().cost().memory_words < 100);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    pub(super) light_steps: bool,
    pub(super) prepared: Prepared,
}

impl Search {
    /// Whether only mechanisms are searched whose steps cost logarithmic time and memory; not, unless this says so. A
    /// named mechanism is taken as it is.
    pub fn with_light_steps(self, light_steps: bool) -> Self {
        Self { light_steps, ..self }
    }

    /// Mechanisms that are built already and compete with the families, or stand for their name where it is asked for;
    /// none, unless this says so.
    pub fn with_prepared(self, prepared: Prepared) -> Self {
        Self { prepared, ..self }
    }
}
