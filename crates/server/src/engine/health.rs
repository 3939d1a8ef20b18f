//! The health of the service.

use super::core::Core;

/// The health of the service, for its operator.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Why nothing is accepted or published, if so.
    pub read_only: Option<String>,
    /// Current problems, in words.
    pub problems: Vec<String>,
    /// Where the witness is.
    pub witness: Option<String>,
    /// How often it was updated.
    pub witness_counter: u64,
    /// Why it could not be updated, if it could not.
    pub witness_problem: Option<String>,
    /// Whether it lacks committed publications.
    pub witness_behind: bool,
    /// Why the clock is wrong, if it is earlier than a step that it has closed.
    pub slow_clock: Option<String>,
}

impl Core {
    /// Its health, for its operator.
    pub fn health(&self) -> Health {
        Health {
            read_only: self.read_only.clone(),
            problems: self.problems(),
            witness: self.witness.as_ref().map(|witness| witness.place()),
            witness_counter: self.witnessed.counter,
            witness_problem: self.witness_problem.clone(),
            witness_behind: self.is_unrecorded || self.settling.is_some(),
            slow_clock: self.slow_clock(),
        }
    }
}
