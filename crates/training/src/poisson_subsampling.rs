//! Certified (ε, δ) curves of Gaussian noise with Poisson subsampling: the accounting of stochastic gradient descent.
//!
//! In a [`SampledGaussian`] step every example takes part independently with probability `q`, and the sum of the
//! participating examples is released with normal noise of standard deviation `σ` times the sensitivity. Neighbours
//! differ by one example, added or removed.
//!
//! ## Why every result is an upper bound
//!
//! **The pair.** With `Q = N(0, σ²)` and `P = (1-q) N(0, σ²) + q N(1, σ²)`, the pair (P, Q) dominates a step when an
//! example is removed, (Q, P) when one is added: no step has a larger hockey-stick divergence at any ε. Products of
//! dominating pairs dominate adaptive compositions (Zhu, Dong and Wang 2022, arXiv 2106.08567). So δ is the larger of
//! two divergences of product laws, `δ(ε) = E (1 - e^{ε - loss})₊`, where the loss is a sum of independent ones. All of
//! the following steps overstate masses or move them to larger losses, and either increases `δ(ε)`.
//!
//! **Batches of fixed size.** Let a batch be a uniform subset of `B` of `n` examples, `q = B/n`, and let neighbours
//! differ by one example that is **replaced**. With probability `1-q` the batch is without it: the same law `μ₀` of the
//! release for both. Otherwise the laws are `μ₁` and `μ₁'`. Batches with the example or with its replacement, or with
//! another example instead, differ by the exchange of one example, which moves the sum by at most `2 norm =: 1`. Let
//! `Δ(α)` be the hockey-stick divergence of `N(1, σ²)` and `N(0, σ²)`. For `α ≥ 1`, `α' = 1 + q(α-1)` and `β = α'/α`
//! advanced joint convexity (Balle, Barthe and Gaboardi 2018, arXiv 1807.01647, theorem 2), then joint convexity over
//! coupled batches give
//!
//! ```text
//! H_α'((1-q) μ₀ + q μ₁ ‖ (1-q) μ₀ + q μ₁') = q H_α(μ₁ ‖ (1-β) μ₀ + β μ₁') ≤ q ((1-β) Δ(α) + β Δ(α)) = q Δ(α),
//! ```
//!
//! which is `H_α'` of the pair (P, Q) above. Below 1, `H_α(X‖Y) = 1 - α + α H_{1/α}(Y‖X)`, and neighbours can be
//! exchanged: the bound is `H_α` of (Q, P). So the step is dominated by a pair that has the losses of (P, Q) above 0
//! (where `x > ½`), those of (Q, P) below 0, and 0 with the rest of the probability,
//! `(1-q)(Φ(1/2σ) - Φ(-1/2σ))` under both laws. (Zhu, Dong and Wang 2022, theorem 11. To compose (P, Q) alone would not
//! be enough: the losses below 0 count in a composition.) This pair equals its exchange, so there is one direction.
//!
//! **Cells.** The loss is monotone in `x`. Between two grid points `a < b` of the loss, the masses `p` and `p'` under
//! the two laws are known from normal tails, and are put on the ends so that both ends have the loss they name,
//!
//! ```text
//! p_a + p_b = p,    p_a e^{-a} + p_b e^{-b} = p'.
//! ```
//!
//! As in [`loss`](evertally::privacy::loss), the original is a post-processing of the result (Doroshenko, Ghazi,
//! Kamath, Kumar and Manurangsi 2022, arXiv 2207.04380), also inside a composition, and the error is of second order.
//! The roundings of `p` and `p'` carry explicit bounds; their possible effect on `p_b` is moved up from `a` to `b`,
//! which costs `(b-a)` times a small number. Ends of cells, as places `x`, are moved inwards by the bound of their own
//! rounding, so that no loss of a cell exceeds `b`; one that is below `a` by that much is rounded up to `a`, which
//! changes `p'` by a known fraction. The loss of the mixture is at least `ln(1-q)`: the cell next to that bound has an
//! end beyond it. Tails cut where the loss is unbounded count as `+∞`, or as the lowest grid point.
//!
//! **Tilting.** For a constant `λ > 0` the masses `t_l = p_l e^{λl - κ}`, `κ = ln Σ p_l e^{λl}`, are convolved instead
//! of `p_l`, and `δ(ε) = Σ t_l e^{Σκ - λl} (1 - e^{ε-l})₊` with the sum of losses `l`. This holds for any `λ` and `κ`;
//! with the `λ` of the saddle point the tilted sum concentrates around ε, which determines δ, and rounding errors are
//! relative to δ, however small it is.
//!
//! **Window.** The convolution is cyclic. Masses from outside the window wrap around inside and only add; those above
//! it are counted again with weight 1, by Chernoff's bound with another `λ`. Masses below the window are below ε, where
//! they do not count.
//!
//! **Transforms.** A Fourier transform of `t ≥ 0` has an error of at most `e = c log₂(n) Σ t` at every frequency, so a
//! power `z^k` has one of `k e (|z|+e)^{k-1}`, and the powers together, `z_f`, have the root of their sum of squares.
//! That, and the rounding of the inverse transform, bound the Euclidean norm of the errors of the composed masses. By
//! the Cauchy–Schwarz inequality the sum for δ has an error of at most this norm times that of its weights, which is
//! added.
//!
//! **Grid.** Its step is such that δ grows by about as much as with 5·10⁻⁵ less noise; for large losses, which are
//! rare, cells grow in proportion. The tilt and the cut tails follow from an estimate of δ by a saddle point, which is
//! corrected if it fails. The bound holds regardless of these choices.
//!
//! ## Tightness
//!
//! For training (10² to 10⁶ steps, rates from 10⁻⁴, δ from 10⁻¹²) the noise is within 2·10⁻⁴ of the minimum. If one or
//! two steps of a small rate dominate, the tilt cannot help, and δ is too large by a rounding error of up to about
//! 10⁻¹³ per step, which does not matter unless δ is as small.

mod cells;
mod compose;
mod composition;
mod event;
mod loss_law;
mod saddle;
mod search;

pub(crate) use cells::{Cut, LossCells, boundaries, mass, precision};
pub(crate) use compose::{LossSpectrum, TransformErrors, Workspace, divergence};
pub(crate) use event::Direction;
pub use event::SampledGaussian;
pub(crate) use loss_law::LossLaw;
pub(crate) use saddle::rough_tilt;

use composition::Composition;
use event::scaled;
use evertally::privacy::{Delta, Epsilon};
use evertally::{Error, Result};

/// Maximum number of kinds of steps.
const MAX_KINDS: usize = 4096;

/// A composition of steps of Gaussian noise with Poisson subsampling, each sampled independently.
///
/// ```
/// use evertally_training::poisson_subsampling::{SampledGaussian, SampledGaussians};
/// use evertally::privacy::{Delta, Epsilon};
/// let training = SampledGaussians::new(&[SampledGaussian::new(0.01, 1.0, 1000)?])?;
/// let delta = Delta::new(1e-5)?;
/// let epsilon = training.epsilon(delta);
/// assert!((epsilon - 1.8283).abs() < 0.0001);
/// assert!(training.delta(Epsilon::new(epsilon)?) <= 1e-5);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SampledGaussians {
    events: Vec<SampledGaussian>,
}

impl SampledGaussians {
    /// Some steps, of different kinds; their order does not matter.
    ///
    /// # Errors
    /// If there are no steps, or more than 4096 kinds.
    pub fn new(events: &[SampledGaussian]) -> Result<Self> {
        let mut merged: Vec<SampledGaussian> = Vec::new();
        for event in events {
            match merged.iter_mut().find(|own| SampledGaussian { times: event.times, ..**own } == *event) {
                Some(own) => own.times += event.times,
                None => merged.push(*event),
            }
        }
        if merged.is_empty() || merged.len() > MAX_KINDS {
            return Err(Error::invalid(format!(
                "from 1 to {MAX_KINDS} kinds of steps can be accounted, got {}",
                merged.len()
            )));
        }
        Ok(Self { events: merged })
    }

    /// The kinds of steps, equal ones together.
    pub fn events(&self) -> &[SampledGaussian] {
        &self.events
    }

    /// δ at this ε, whether an example is added or removed (with batches of fixed size: replaced): never below the true
    /// value, and as close to it as [stated above](self). At least 10⁻³⁰⁷.
    pub fn delta(&self, epsilon: Epsilon) -> f64 {
        Composition::new(&self.events).delta(epsilon.get(), 1.0, &mut Workspace::default())
    }

    /// The smallest ε with δ(ε) at most this δ, rounded up; 0 if even ε = 0 holds, infinite if no ε up to 10⁶ does.
    pub fn epsilon(&self, delta: Delta) -> f64 {
        search::epsilon(&Composition::new(&self.events), delta.get())
    }

    /// The smallest factor, rounded up, such that these steps with their noise multiplied by it are (ε,
    /// δ)-differentially private. So for steps whose noise is 1 over their relative sensitivity, this is the noise
    /// multiplier of sensitivity 1.
    ///
    /// ```
    /// use evertally_training::poisson_subsampling::{SampledGaussian, SampledGaussians};
    /// use evertally::privacy::{Delta, Epsilon};
    /// let training = SampledGaussians::new(&[SampledGaussian::new(0.01, 1.0, 1000)?])?;
    /// let noise = training.noise_factor_for(Epsilon::new(2.0)?, Delta::new(1e-5)?)?;
    /// assert!((noise - 0.9591).abs() < 0.0001);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// The inverse is consistent: [`epsilon`](Self::epsilon) at this δ, of these steps [`scaled`](Self::scaled) by the
    /// result, is at most this ε.
    ///
    /// # Errors
    /// If a noise multiplier would be out of range.
    pub fn noise_factor_for(&self, epsilon: Epsilon, delta: Delta) -> Result<f64> {
        let least = self.certified_factor_for(epsilon, delta)?;
        crate::noise_search::rounded_up_until(least, |factor| Ok(self.scaled(factor)?.epsilon(delta) / epsilon.get()))
    }

    /// The same by δ at this ε alone, as plans use it: `epsilon` is another bound, and may be larger in the tenth
    /// digit. The result of this function is part of plans, so it must not change.
    pub(crate) fn certified_factor_for(&self, epsilon: Epsilon, delta: Delta) -> Result<f64> {
        search::noise_factor(&self.events, epsilon, delta)
    }

    /// An estimate of the same in milliseconds; `None` if it is out of range.
    pub(crate) fn rough_factor_for(&self, epsilon: Epsilon, delta: Delta) -> Option<f64> {
        search::rough_noise_factor(&self.events, epsilon, delta)
    }

    /// The same steps with the noise multiplied by `factor`.
    ///
    /// # Errors
    /// If a noise multiplier is out of range.
    pub fn scaled(&self, factor: f64) -> Result<Self> {
        let one =
            |own: &SampledGaussian| SampledGaussian::new(own.rate, own.noise * factor, 1).map(|_| scaled(own, factor));
        let events: Result<Vec<_>> = self.events.iter().map(one).collect();
        Self::new(&events?)
    }
}

#[cfg(test)]
mod tests;
