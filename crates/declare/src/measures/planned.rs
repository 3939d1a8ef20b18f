//! The plan of a part.

use super::parts::Part;
use evertally::mechanism::MechanismName;
use evertally::noise::DiscreteLaw;
use evertally::plan::Plan;
use evertally::privacy::Budget;
use serde::{Deserialize, Serialize};

/// A part and its plan.
#[derive(Clone, Debug)]
pub struct PlannedPart {
    /// The part.
    pub part: Part,
    /// Its plan, for its share of the budget.
    pub plan: Plan,
    /// Its share; none for squares, which cost nothing in addition to the sum.
    pub share: Option<f64>,
}

/// A ledger's record of a part of a stream that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BegunPart {
    pub(super) name: String,
    pub(super) digest: String,
    pub(super) mechanism: MechanismName,
    pub(super) noise: DiscreteLaw,
    pub(super) share: Option<f64>,
    pub(super) budget: Budget,
}
