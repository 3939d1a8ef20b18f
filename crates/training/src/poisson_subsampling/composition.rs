//! A composition of sampled releases, as it is computed.

use super::compose::{self, Workspace};
use super::event::{Direction, SampledGaussian, Subsampling};
use evertally::privacy::gaussian;

/// Headroom for the few roundings of a formula.
const ROUNDING: f64 = 1e-14;

/// Steps in computed form: those in which all examples take part are merged into one step of Gaussian noise.
pub(super) struct Composition {
    /// For the steps in which all examples take part, `μ² = Σ k/σ²`.
    pub(super) mu: f64,
    /// All steps, the one of `mu` included.
    pub(super) events: Vec<SampledGaussian>,
}

impl Composition {
    pub(super) fn new(events: &[SampledGaussian]) -> Self {
        let (whole, mut events): (Vec<_>, Vec<_>) =
            events.iter().partition::<Vec<SampledGaussian>, _>(|own| own.rate == 1.0);
        let square: f64 = whole.iter().map(|own| own.times as f64 / (own.noise * own.noise)).sum();
        let mu = square.sqrt() * (1.0 + ROUNDING * (1.0 + whole.len() as f64));
        if mu > 0.0 {
            let noise = (1.0 - ROUNDING) / mu;
            events.push(SampledGaussian { rate: 1.0, noise, times: 1, subsampling: Subsampling::Poisson });
        }
        Self { mu, events }
    }

    /// Only steps in which all examples take part.
    pub(super) fn is_gaussian(&self) -> bool {
        self.mu > 0.0 && self.events.len() == 1
    }

    /// Whether both directions have the same δ: noise alone is symmetric, and so are batches of fixed size.
    pub(super) fn is_symmetric(&self) -> bool {
        self.events.iter().all(|own| own.rate == 1.0 || own.is_symmetric())
    }

    /// δ at this ε, rounded up; precise if it is near or above `wanted`.
    pub(super) fn delta(&self, epsilon: f64, wanted: f64, space: &mut Workspace) -> f64 {
        let removed = self.delta_removed(epsilon, wanted, space);
        removed.max(self.delta_added(epsilon, removed, space))
    }

    /// δ if an example is removed, which is usually the larger one.
    pub(super) fn delta_removed(&self, epsilon: f64, wanted: f64, space: &mut Workspace) -> f64 {
        if self.is_gaussian() {
            return (gaussian::delta(self.mu, epsilon) * (1.0 + 1e-11)).clamp(f64::MIN_POSITIVE, 1.0);
        }
        compose::divergence(&self.events, Direction::Remove, epsilon, (0.0, wanted), space)
    }

    /// δ if an example is added, or a bound of it that is at most `enough`, which is at least [`delta_removed`].
    ///
    /// [`delta_removed`]: Self::delta_removed
    pub(super) fn delta_added(&self, epsilon: f64, enough: f64, space: &mut Workspace) -> f64 {
        if self.is_symmetric() {
            return enough;
        }
        compose::divergence(&self.events, Direction::Add, epsilon, (enough, 1.0), space)
    }
}
