//! What a mechanism promises, in the form in which it can be held against releases.

use crate::law::NodeLaw;
use crate::linear::{Cholesky, transpose_times};
use evertally::mechanism::Matrix;
use evertally::noise::DiscreteLaw;
use evertally::plan::{NoiseKind, Plan};
use evertally::privacy::Delta;
use evertally::{Error, Result};

/// Longest horizon: matrices of `T × T` are factorized.
pub const MAX_HORIZON: u64 = 1024;

/// Releases are `A x + unit · L z` with independent `z` of one discrete law, and reveal no more than stated.
#[derive(Debug)]
pub struct Promise {
    /// `T × n`: how releases combine node variables.
    pub(crate) l: Matrix,
    /// The law of a node variable.
    pub(crate) law: NodeLaw,
    /// The step of the noise grid, in units of the data.
    pub(crate) unit: f64,
    /// The step of the grid of values, in units of the data.
    pub(crate) grid: f64,
    /// How far a release may be off `A x + unit · L z`, in units of the data.
    pub(crate) rounding: f64,
    pub(crate) guarantee: PrivacyLimit,
    /// Of `L Lᵀ`.
    pub(crate) factor: Cholesky,
}

/// How much may be revealed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrivacyLimit {
    /// (ε, δ)-differential privacy; δ = 0 for pure ε.
    pub epsilon_delta: Option<(f64, f64)>,
    /// ρ of a Gaussian mechanism: no test between neighbours does better than between normal laws `√(2ρ)` deviations
    /// apart, but for what the steps of a coarse discrete law add.
    pub rho: Option<f64>,
}

impl Promise {
    /// The promise of a plan of the library, from its dense twin and its exact law.
    ///
    /// # Errors
    /// If the horizon exceeds [`MAX_HORIZON`].
    pub fn of(plan: &Plan) -> Result<Self> {
        if plan.horizon() > MAX_HORIZON {
            return Err(Error::invalid(format!(
                "an audit solves systems of as many equations as there are steps: at most {MAX_HORIZON} steps, got {}; \
                 audit the same mechanism over a shorter horizon",
                plan.horizon()
            )));
        }
        let mechanism = plan.mechanism();
        let grid = plan.request().grid().to_f64(1);
        let guarantee = plan.guarantee();
        let pair = guarantee.epsilon_delta().map(|(epsilon, delta)| (epsilon.get(), delta.map_or(0.0, Delta::get)));
        let gaussian = plan.noise_kind() == NoiseKind::Gaussian;
        let revealed = PrivacyLimit { epsilon_delta: pair, rho: gaussian.then_some(guarantee.rho.get()) };
        // To 2^-fraction_bits and, where that is no whole number, to the four more digits that are shown.
        let bits = plan.fraction_bits();
        let rounding = if bits == 0 { 0.0 } else { grid * (0.6 * libm::exp2(-f64::from(bits)) + 0.5e-4) };
        let unit = grid / plan.noise_divisor() as f64;
        Ok(Self { grid, ..Self::new(mechanism.dense().l, *plan.law(), unit, revealed)?.rounded(rounding) })
    }

    /// Of any mechanism with releases `A x + unit · L z`, exactly; values are counted in units of 1.
    ///
    /// # Errors
    /// If the covariance `L Lᵀ` is singular.
    pub fn new(l: Matrix, law: DiscreteLaw, unit: f64, guarantee: PrivacyLimit) -> Result<Self> {
        let factor = Cholesky::of(&l.times(&l.transpose())).ok_or_else(|| {
            Error::invalid("the releases' covariance is singular: some release carries no noise of its own")
        })?;
        Ok(Self { law: NodeLaw::new(law), l, unit, grid: 1.0, rounding: 0.0, guarantee, factor })
    }

    /// The same where a release may be off `A x + unit · L z` by so much, in units of the data.
    pub fn rounded(self, rounding: f64) -> Self {
        Self { rounding, ..self }
    }

    /// Whether all releases are whole multiples of the noise grid.
    pub(crate) fn is_whole(&self) -> bool {
        self.rounding == 0.0 && (0..self.horizon()).all(|t| self.l.row(t).iter().all(|l| l.fract() == 0.0))
    }

    /// Number of steps.
    pub fn horizon(&self) -> usize {
        self.l.shape().0
    }

    /// Standard deviation of a node variable, in units of the data.
    pub(crate) fn node_deviation(&self) -> f64 {
        self.unit * self.law.deviation()
    }

    /// `√(Δᵀ C⁻¹ Δ)`: how many deviations apart two streams are whose exact running sums differ by `Δ` (units of the
    /// data).
    pub fn separation(&self, difference: &[f64]) -> f64 {
        let white = self.factor.whiten(difference);
        white.iter().map(|y| y * y).sum::<f64>().sqrt() / self.node_deviation()
    }

    /// Whether the node variables can be computed from the releases, as whole numbers.
    pub(crate) fn reveals_nodes(&self) -> bool {
        let (steps, nodes) = self.l.shape();
        steps == nodes && self.is_whole()
    }

    /// The node variables that `v` weighs: `Lᵀ v`.
    pub(crate) fn node_weights(&self, v: &[f64]) -> Vec<f64> {
        transpose_times(&self.l, v)
    }
}
