//! Search options, which never become part of a plan.

use super::{Prepared, SearchObserver};

/// Options of the search over mechanisms. They determine the candidates and are not part of the resulting plan: the
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
    observer: SearchObserver,
}

impl Search {
    /// Whether to search only mechanisms whose steps cost logarithmic time and memory; false by default. A named
    /// mechanism is used as it is.
    pub fn with_light_steps(self, light_steps: bool) -> Self {
        Self { light_steps, ..self }
    }

    /// Reports progress to this observer, which may cancel the search; none by default.
    pub fn with_observer(self, observer: SearchObserver) -> Self {
        Self { observer, ..self }
    }

    /// The observer of the search.
    pub fn observer(&self) -> &SearchObserver {
        &self.observer
    }

    /// Mechanisms that are already built. They compete with the families, or are used if their name is requested; none
    /// by default.
    pub fn with_prepared(self, prepared: Prepared) -> Self {
        Self { prepared, ..self }
    }
}
