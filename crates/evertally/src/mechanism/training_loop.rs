//! Training with vectors: the loop that a mechanism is optimised for, and families by their number of bands.

use super::{Criterion, Mechanism, MechanismName, Participation, Sharpness};

/// A training loop that consumes the noisy vectors, and the error by which mechanisms are compared in it.
#[derive(Clone, Copy)]
pub struct TrainingLoop<'a> {
    /// The criterion for running sums, whose objective also holds for the loop.
    pub criterion: &'a Criterion<'a>,
    /// The steps in which an example takes part.
    pub participation: Participation,
    /// The recursion of the loop.
    pub recursion: &'a Recursion,
    /// The squared error of a mechanism under one budget; `None` if it cannot be computed.
    pub squared_error: &'a dyn Fn(&dyn Mechanism) -> Option<f64>,
}

impl TrainingLoop<'_> {
    /// Number of steps `T`.
    pub fn horizon(&self) -> u64 {
        self.recursion.steps.len() as u64
    }
}

impl std::fmt::Debug for TrainingLoop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { criterion, participation, recursion, .. } = self;
        write!(f, "TrainingLoop({criterion:?}, {participation:?}, {recursion:?})")
    }
}

/// A linear recursion over the increments `x_t`: `m_t = momentum · m_(t-1) + x_t`, `u_t = kept_t u_(t-1) + rate_t m_t`;
/// running sums if all factors are 1 and there is no momentum.
#[derive(Clone, Debug, PartialEq)]
pub struct Recursion {
    /// Momentum of the loop, 0 for none.
    pub momentum: f64,
    /// `(kept, rate)` of every step.
    pub steps: Vec<(f64, f64)>,
}

impl Recursion {
    /// Running sums.
    pub(crate) fn sums(horizon: u64) -> Self {
        Self { momentum: 0.0, steps: vec![(1.0, 1.0); horizon as usize] }
    }
}

/// The names of a family by their number of bands: columns of `R` at least that many steps apart share no row.
#[derive(Clone, Copy, Debug)]
pub struct BandedFamily {
    /// The name with this number of bands and all other parameters left open.
    pub with_bands: fn(u64) -> MechanismName,
    /// The number of bands of a name.
    pub bands: fn(MechanismName) -> Option<u64>,
    /// Whether a search optimises the bands for the steps in which examples take part, or for a training loop;
    /// otherwise they have a closed form.
    pub are_optimised: bool,
    /// The name with this sharpness; `None` if it has none, or one is given.
    pub with_sharpness: fn(MechanismName, Sharpness) -> Option<MechanismName>,
}
