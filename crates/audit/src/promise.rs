//! The promise of a mechanism, in a form that can be compared with releases.
//!
//! **The privacy limit comes from the budget**, never from the noise: a plan whose noise is too narrow must not be
//! compared with its own noise. The law of the releases comes from the plan, which states what is drawn.
//!
//! **Steps.** An audit uses the releases of some steps, `S`. They are `A_S x + unit · L_S z` with the rows of these
//! steps, so everything that holds for `L` holds for `L_S`, whose size does not depend on the horizon. An event that is
//! added to several running sums affects all of them: their noise is independent, and `L` has a block for each.

use crate::law::NodeLaw;
use crate::linear::{Cholesky, transpose_times};
use evertally::mechanism::{LaplaceDistance, Matrix};
use evertally::noise::{DiscreteLaw, Node};
use evertally::plan::{NoiseKind, Plan};
use evertally::privacy::{Budget, Delta, conversions};
use evertally::{Error, Result};
use std::collections::BTreeMap;

/// The maximum number of releases that are audited together: matrices with this many rows and columns are factorized.
pub const MAX_RELEASES: u64 = 1024;

/// The maximum number of entries of `L`: half a gigabyte.
const MAX_ENTRIES: usize = 1 << 26;

/// From this scale on, in grid steps, discrete Gaussian noise hides as much as continuous noise.
const SMOOTH_SCALE: f64 = 5.0;

/// The δ at which a promise of ρ is tested if the noise has no test of μ.
const TESTED_DELTA: f64 = 1e-3;

/// Releases are `A x + unit · L z` with independent `z` of one discrete law, and reveal no more than the guarantee.
#[derive(Debug)]
pub struct Promise {
    /// Releases × nodes: how releases combine node variables.
    pub(crate) l: Matrix,
    /// What Laplace noise has to hide, if the whole horizon is audited.
    pub(crate) distance: Option<LaplaceDistance>,
    /// The audited steps, in rising order.
    pub(crate) steps: Vec<u64>,
    /// The number of running sums that an event is added to. The releases of the first sum come first.
    pub(crate) sums: usize,
    /// The law of a node variable.
    pub(crate) law: NodeLaw,
    /// The step of the noise grid, in units of the data.
    pub(crate) unit: f64,
    /// The step of the grid of values, in units of the data.
    pub(crate) grid: f64,
    /// The maximum distance of a release from `A x + unit · L z`, in units of the data.
    pub(crate) rounding: f64,
    pub(crate) guarantee: PrivacyLimit,
    /// The factor of `L Lᵀ`.
    pub(crate) factor: Cholesky,
}

/// The limit on the information revealed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrivacyLimit {
    /// (ε, δ)-differential privacy; δ = 0 for pure ε.
    pub epsilon_delta: Option<(f64, f64)>,
    /// ρ of a Gaussian mechanism: no test between neighbours does better than between normal laws `√(2ρ)` deviations
    /// apart, except for the effect of the steps of a coarse discrete law.
    pub rho: Option<f64>,
}

impl PrivacyLimit {
    /// The limit that a budget implies for a kind of noise.
    pub fn new(budget: Budget, kind: NoiseKind) -> Self {
        let gaussian = kind == NoiseKind::Gaussian;
        match budget {
            Budget::Pure(epsilon) => Self { epsilon_delta: Some((epsilon.get(), 0.0)), rho: None },
            Budget::Approximate(epsilon, delta) => {
                let mu = conversions::mu_for(epsilon, delta);
                let rho = gaussian.then_some(mu * mu / 2.0);
                Self { epsilon_delta: Some((epsilon.get(), delta.get())), rho }
            }
            Budget::Zcdp(rho) if gaussian => Self { epsilon_delta: None, rho: Some(rho.get()) },
            Budget::Zcdp(rho) => {
                let delta = Delta::new(TESTED_DELTA).expect("between 0 and 1");
                Self { epsilon_delta: Some((conversions::epsilon_of_zcdp(rho, delta), TESTED_DELTA)), rho: None }
            }
        }
    }
}

/// The audited steps by default: all steps if there are not too many; otherwise the first and the last steps, powers of
/// two and their neighbours, where trees change, and some steps between.
pub fn audited_steps(plan: &Plan) -> Vec<u64> {
    let (horizon, most) = (plan.horizon(), max_audited_steps(plan));
    if horizon <= most {
        return (1..=horizon).collect();
    }
    let powers = (0..64).map(|k| 1u64 << k).take_while(|power| *power <= horizon);
    let near_powers = powers.flat_map(|power| [power - 1, power, power + 1]);
    let between = (1..=8).map(|i| (u128::from(horizon) * i / 9) as u64);
    let mut steps: Vec<u64> = near_powers.chain(between).chain([horizon - 1, horizon]).collect();
    steps.retain(|step| (1..=horizon).contains(step));
    steps.sort_unstable();
    steps.dedup();
    let (count, most) = (steps.len(), usize::try_from(most).unwrap_or(usize::MAX));
    if count > most {
        // Spread evenly, including the first and the last.
        steps = (0..most).map(|i| steps[i * (count - 1) / (most - 1).max(1)]).collect();
    }
    steps
}

/// The maximum number of steps of a plan that can be audited together.
fn max_audited_steps(plan: &Plan) -> u64 {
    (MAX_RELEASES / plan.request().sums_per_event()).max(1)
}

impl Promise {
    /// The promise of a plan of the library, from its budget, its matrices and its exact law, in all of its steps.
    ///
    /// # Errors
    /// If there are more than [`MAX_RELEASES`].
    pub fn from_plan(plan: &Plan) -> Result<Self> {
        let most = max_audited_steps(plan);
        if plan.horizon() > most {
            return Err(Error::invalid(format!(
                "an audit solves a system with one equation per release: at most {most} steps, got {}; choose some of \
                 them",
                plan.horizon()
            )));
        }
        Self::at(plan, &(1..=plan.horizon()).collect::<Vec<_>>())
    }

    /// The same for some of its steps.
    ///
    /// # Errors
    /// If they do not rise or are beyond the horizon, or if they are too many or read too many nodes for the memory of
    /// an audit.
    pub fn at(plan: &Plan, steps: &[u64]) -> Result<Self> {
        let (horizon, most) = (plan.horizon(), max_audited_steps(plan));
        if plan.correlation().is_some() {
            return Err(Error::invalid(
                "an audit tests the noise of one running sum, but this plan correlates the noise of several groups; \
                 audit the plan without correlated groups",
            ));
        }
        if !plan.mechanism().workload().is_sum() {
            return Err(Error::invalid(format!(
                "an audit needs running sums, but this plan publishes `{}`; `simulate` draws its noise, for the \
                 covariance",
                plan.request().workload()
            )));
        }
        if steps.is_empty() || steps[0] == 0 || steps.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Error::invalid("audited steps must be rising, without repetitions, from 1 or later"));
        }
        if let Some(step) = steps.last().filter(|step| **step > horizon) {
            return Err(Error::invalid(format!("step {step} is beyond the horizon of {horizon} steps")));
        }
        if steps.len() as u64 > most {
            return Err(Error::invalid(format!(
                "an audit of this plan can use at most {most} steps, got {}",
                steps.len()
            )));
        }
        let grid = plan.request().grid().to_f64(1);
        let limit = PrivacyLimit::new(plan.request().budget(), plan.noise_kind());
        // To 2^-fraction_bits and, if that is not a whole number, to the four more digits that are printed.
        let bits = plan.fraction_bits();
        let rounding = if bits == 0 { 0.0 } else { grid * (0.6 * libm::exp2(-f64::from(bits)) + 0.5e-4) };
        let unit = grid / plan.noise_divisor() as f64;
        let sums = usize::try_from(plan.request().sums_per_event()).unwrap_or(usize::MAX);
        let l = in_sums(&rows_of(plan, steps, sums)?, sums);
        let distance = (plan.noise_kind() == NoiseKind::Laplace && steps.len() as u64 == horizon)
            .then(|| LaplaceDistance::new(plan.mechanism().clone()));
        let promise = Self::new(l, *plan.law(), unit, limit)?.rounded(rounding);
        Ok(Self { grid, steps: steps.to_vec(), sums, distance, ..promise })
    }

    /// The promise of any mechanism with releases `A x + unit · L z`, exactly; values are counted in units of 1.
    ///
    /// # Errors
    /// If the covariance `L Lᵀ` is singular.
    pub fn new(l: Matrix, law: DiscreteLaw, unit: f64, guarantee: PrivacyLimit) -> Result<Self> {
        let factor = Cholesky::new(&l.times(&l.transpose())).ok_or_else(|| {
            Error::invalid("the releases' covariance is singular: some release has no independent noise")
        })?;
        let steps = (1..=l.shape().0 as u64).collect();
        let law = NodeLaw::new(law);
        Ok(Self { law, l, distance: None, steps, sums: 1, unit, grid: 1.0, rounding: 0.0, guarantee, factor })
    }

    /// The same for releases that may be off `A x + unit · L z` by `rounding`, in units of the data.
    pub fn rounded(self, rounding: f64) -> Self {
        Self { rounding, ..self }
    }

    /// Whether all releases are multiples of the noise grid.
    pub(crate) fn is_whole(&self) -> bool {
        self.rounding == 0.0 && (0..self.releases()).all(|t| self.l.row(t).iter().all(|l| l.fract() == 0.0))
    }

    /// The audited steps, in rising order.
    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// The number of running sums that an event is added to.
    pub fn sums(&self) -> usize {
        self.sums
    }

    /// The number of audited releases.
    pub fn releases(&self) -> usize {
        self.l.shape().0
    }

    /// Repeats the values of one running sum for all of them; in units of the data.
    pub(crate) fn of_all_sums(&self, of_one: &[f64]) -> Vec<f64> {
        (0..self.sums).flat_map(|_| of_one.iter().map(|multiple| multiple * self.grid)).collect()
    }

    /// Standard deviation of a node variable, in units of the data.
    pub(crate) fn node_deviation(&self) -> f64 {
        self.unit * self.law.deviation()
    }

    /// `√(Δᵀ C⁻¹ Δ)`: the distance in deviations of two streams whose exact running sums differ by `Δ` (units of the
    /// data).
    pub fn separation(&self, difference: &[f64]) -> f64 {
        let white = self.factor.whiten(difference);
        white.iter().map(|y| y * y).sum::<f64>().sqrt() / self.node_deviation()
    }

    /// What Laplace noise has to hide, in units of the data, for two streams whose running sums differ by `Δ` (units of
    /// the data), if it is known.
    pub(crate) fn node_moves(&self, difference: &[f64]) -> Option<f64> {
        let distance = self.distance.as_ref()?;
        let of_one = &difference[..self.steps.len()];
        let before = std::iter::once(&0.0).chain(of_one);
        let steps: Vec<f64> = of_one.iter().zip(before).map(|(now, before)| now - before).collect();
        Some(distance.of(&steps) * self.sums as f64)
    }

    /// The fraction of the allowed difference that two streams have: 1 if the noise is exactly as wide as the budget
    /// requires, more if it is too narrow. `None` if one number cannot express it.
    pub(crate) fn spent(&self, difference: &[f64]) -> Option<f64> {
        if self.law.is_laplace() {
            let pure = self.guarantee.epsilon_delta.filter(|(_, delta)| *delta == 0.0);
            let moves = self.node_moves(difference)?;
            return pure.map(|(epsilon, _)| moves / (self.unit * self.law.scale()) / epsilon);
        }
        // For coarse noise, (ε, δ) is slightly stronger than for continuous noise; ρ is not.
        let is_known = self.guarantee.epsilon_delta.is_none() || self.law.scale() > SMOOTH_SCALE;
        let rho = self.guarantee.rho.filter(|_| is_known);
        // By the parameter of the law, as in zCDP: the deviation of coarse noise is smaller.
        let by_scale = self.law.deviation() / self.law.scale();
        rho.map(|rho| self.separation(difference) * by_scale / (2.0 * rho).sqrt())
    }

    /// Whether the node variables can be computed from the releases, as integers.
    pub(crate) fn reveals_nodes(&self) -> bool {
        let (steps, nodes) = self.l.shape();
        steps == nodes && self.is_whole()
    }

    /// The weights of the node variables in `v`: `Lᵀ v`.
    pub(crate) fn node_weights(&self, v: &[f64]) -> Vec<f64> {
        transpose_times(&self.l, v)
    }
}

/// The rows of `L` for some steps, with the nodes that they read.
fn rows_of(plan: &Plan, steps: &[u64], sums: usize) -> Result<Matrix> {
    let mechanism = plan.mechanism();
    let mut columns: BTreeMap<Node, usize> = BTreeMap::new();
    let most = MAX_ENTRIES / steps.len() / (sums * sums);
    for &step in steps {
        mechanism.visit_row(step, &mut |node, _| {
            columns.insert(node, 0);
        });
        if columns.len() > most {
            return Err(Error::invalid(format!(
                "the releases of these steps read more than {most} noise variables, which exceeds the memory of an \
                 audit; choose fewer or earlier steps"
            )));
        }
    }
    columns.values_mut().enumerate().for_each(|(column, place)| *place = column);
    let mut l = Matrix::zeros(steps.len(), columns.len());
    for (row, &step) in steps.iter().enumerate() {
        let mut weights: BTreeMap<usize, f64> = BTreeMap::new();
        mechanism.visit_row(step, &mut |node, weight| *weights.entry(columns[&node]).or_default() += weight);
        weights.into_iter().for_each(|(column, weight)| l.set(row, column, weight));
    }
    Ok(l)
}

/// One block for each of `sums` sums.
fn in_sums(l: &Matrix, sums: usize) -> Matrix {
    let (rows, columns) = l.shape();
    let mut blocks = Matrix::zeros(sums * rows, sums * columns);
    for sum in 0..sums {
        for row in 0..rows {
            let entries = l.row(row).iter().enumerate().filter(|(_, entry)| **entry != 0.0);
            entries.for_each(|(column, entry)| blocks.set(sum * rows + row, sum * columns + column, *entry));
        }
    }
    blocks
}
