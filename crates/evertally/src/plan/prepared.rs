//! Mechanisms that took long to build, handed to a plan instead of being built again.

use crate::mechanism::{Mechanism, MechanismName, Optimum};
use std::sync::Arc;

/// Mechanisms that are built already.
///
/// ```
/// use evertally::privacy::{Budget, Epsilon};
/// use evertally::mechanism::PureOptimum;
/// use evertally::plan::{PlanRequest, Prepared};
/// use std::sync::Arc;
/// let found = PureOptimum::search(16, false, &mut |_, _| ())?; // or read from a file: PureOptimum::from_bytes
/// let budget = Budget::Pure(Epsilon::new(1.0)?);
/// let request = PlanRequest::count(16, budget).with_search(Search::default().with_prepared(Prepared::new([Arc::new(found) as _])));
/// assert!(request.plan()?.mechanism().name().starts_with("dense-pure"));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Prepared(Vec<Arc<dyn Mechanism>>);

impl Prepared {
    /// The given mechanisms; those of another horizon than a request's are never used.
    pub fn new(mechanisms: impl IntoIterator<Item = Arc<dyn Mechanism>>) -> Self {
        Self(mechanisms.into_iter().collect())
    }

    /// Those of a horizon, with their names.
    pub(super) fn of_horizon(&self, horizon: u64) -> impl Iterator<Item = (MechanismName, &Arc<dyn Mechanism>)> {
        let named = |m: &Arc<dyn Mechanism>| m.name().parse().expect("a mechanism names itself");
        self.0.iter().filter(move |m| m.horizon() == horizon).map(move |m| (named(m), m))
    }

    /// The one that is asked for by a name, where the objective decides what the name leaves open.
    pub(super) fn named(&self, asked: MechanismName, horizon: u64, mean: bool) -> Option<Arc<dyn Mechanism>> {
        self.of_horizon(horizon).find(|(name, _)| is_asked_for(asked, *name, mean)).map(|(_, m)| m.clone())
    }
}

fn is_asked_for(asked: MechanismName, built: MechanismName, mean: bool) -> bool {
    let agree = |asked: Optimum, built: Optimum| {
        built.mean == asked.mean.or(Some(mean)) && (asked.digest.is_none() || asked.digest == built.digest)
    };
    match (asked, built) {
        (MechanismName::Dense(asked), MechanismName::Dense(built)) => agree(asked, built),
        (MechanismName::DensePure(asked), MechanismName::DensePure(built)) => agree(asked, built),
        _ => asked == built,
    }
}

/// Equal names are equal mechanisms.
impl PartialEq for Prepared {
    fn eq(&self, other: &Self) -> bool {
        let names = |prepared: &Self| prepared.0.iter().map(|m| (m.horizon(), m.name())).collect::<Vec<_>>();
        names(self) == names(other)
    }
}
