//! The dual problem: row weights `p` and column weights `v` of largest nuclear norm.
//!
//! `X` of the module's proof is `V^(-1/2) K^(-1/2) V^(-1/2)` with `K = V^(-1/2) D P⁻¹ Dᵀ V^(-1/2)`, where `D = A⁻¹` is
//! bidiagonal. With `K^(-1/2) = Σ_j w_j (K + s_j)⁻¹` ([`Poles`]) this is
//!
//! ```text
//! X = Σ_j w_j (D P⁻¹ Dᵀ + s_j V)⁻¹,
//! ```
//!
//! a sum of inverses of tridiagonal matrices. Each is the conductance matrix of a ladder: node `i` is joined to node
//! `i+1` by a resistance `p_i`, the last to the ground by `p_T`, and each node to the ground by a conductance `s v_i`.
//! Let `f_i` be the conductance to the ground seen from node `i` through itself and everything before it, `b_i` through
//! everything after it: `f_i = s v_i + f_{i-1}/(1 + f_{i-1} p_{i-1})`, the same backwards, and the diagonal of the
//! inverse is `1/(f_i + b_i)`. Nothing is subtracted, so everything is accurate to the last digits, for any condition
//! number. The dual value and its gradient cost `O(T n)` with `n` poles; dense algebra takes `O(T³)`.

use super::poles::Poles;
use crate::Result;
use crate::mechanism::{Objective, SearchWatch};

/// Weights, and the bound that they prove.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// `p`, at least 0, summing to 1.
    pub(super) rows: Vec<f64>,
    /// `v`, at least 0, summing to 1.
    pub(super) columns: Vec<f64>,
    /// `X_ii`, up to a common factor.
    pub(super) diagonal: Vec<f64>,
    /// The nuclear norm `‖P^½ A V^½‖_*`.
    pub(super) nuclear: f64,
    /// The poles that were used.
    pub(super) poles: Poles,
}

/// Horizons up to this one start from uniform weights.
const SHORT: usize = 64;

/// Rounding is reached long before.
const MAX_ROUNDS: usize = 2000;

impl Weights {
    /// The optimal weights: for the mean, `p` is uniform and `v` free; for the maximum, `v` is `p` backwards. They are
    /// found when the largest `X_ii` exceeds the weighted mean of all by a factor of at most `1 + slack`. `O(T log T)`
    /// for each of some 20 rounds per digit.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the search.
    pub(super) fn optimal(
        horizon: usize,
        (objective, watch): (Objective, SearchWatch<'_>),
        slack: f64,
    ) -> Result<Self> {
        let uniform = vec![1.0 / horizon as f64; horizon];
        let mut weights = Self::evaluate(uniform.clone(), uniform);
        for _ in 0..MAX_ROUNDS {
            watch.check()?;
            let largest = weights.diagonal.iter().copied().fold(0.0, f64::max);
            if largest <= weights.nuclear * (1.0 + slack) {
                break;
            }
            let columns = weights.raised();
            let rows =
                if objective == Objective::Mean { weights.rows } else { columns.iter().rev().copied().collect() };
            weights = Self::evaluate(rows, columns);
        }
        Ok(weights)
    }

    /// Weights for a root of only this many poles (a multiple of [`LANES`](super::poles::LANES)): the `X_ii` of that
    /// root are equal up to `slack`. Long horizons start from the weights of shorter ones, and the iteration keeps half
    /// of its last step as momentum, so about 15 rounds of `O(T n)` are enough.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the search.
    pub(super) fn with_few_poles(
        horizon: usize,
        aim: (Objective, SearchWatch<'_>),
        slack: f64,
        count: usize,
    ) -> Result<Self> {
        let (objective, watch) = aim;
        let start = if horizon <= SHORT {
            vec![1.0 / horizon as f64; horizon]
        } else {
            stretched(&Self::with_few_poles(horizon.div_ceil(4), aim, slack, count)?.columns, horizon)
        };
        let evaluate = |columns: Vec<f64>| {
            let rows = if objective == Objective::Mean {
                vec![1.0 / horizon as f64; horizon]
            } else {
                columns.iter().rev().copied().collect()
            };
            let poles = poles(&rows, &columns, Some(count));
            Self::with_poles(rows, columns, poles)
        };
        let mut previous = start.clone();
        let mut weights = evaluate(start);
        for _ in 0..MAX_ROUNDS {
            watch.check()?;
            let largest = weights.diagonal.iter().copied().fold(0.0, f64::max);
            if largest <= weights.nuclear * (1.0 + slack) {
                break;
            }
            let next = weights.raised_with_momentum(&previous);
            previous = std::mem::take(&mut weights.columns);
            weights = evaluate(next);
        }
        Ok(weights)
    }

    /// The dual value of given weights that sum to 1.
    pub(super) fn evaluate(rows: Vec<f64>, columns: Vec<f64>) -> Self {
        let poles = poles(&rows, &columns, None);
        Self::with_poles(rows, columns, poles)
    }

    fn with_poles(rows: Vec<f64>, columns: Vec<f64>, poles: Poles) -> Self {
        let diagonal = Ladder::new(&rows, &columns, &poles).diagonal();
        // tr X V = tr (V^½ Aᵀ P A V^½)^½.
        let nuclear = diagonal.iter().zip(&columns).map(|(x, v)| x * v).sum();
        Self { rows, columns, diagonal, nuclear, poles }
    }

    /// The next column weights: `v_i (X_ii / Σ v X)^1.75`. The fixed point iteration (exponent 1) shrinks errors
    /// monotonically (measured: by factors between 0 and 0.95, at every horizon), so that exponents up to 2 converge
    /// too; larger ones help the slow errors.
    fn raised(&self) -> Vec<f64> {
        let raise = |(v, x): (&f64, &f64)| {
            let ratio = x / self.nuclear;
            v * ratio * ratio.sqrt() * ratio.sqrt().sqrt()
        };
        normalised(self.columns.iter().zip(&self.diagonal).map(raise).collect())
    }

    /// The next column weights, with momentum: `v_i (X_ii / Σ v X)^2.5 (v_i / previous v_i)^½`. In logarithms this is
    /// Polyak's heavy ball, which is stable for exponents below `2 (1 + ½)` where the fixed point iteration shrinks
    /// errors monotonically.
    fn raised_with_momentum(&self, previous: &[f64]) -> Vec<f64> {
        let raise = |((v, x), before): ((&f64, &f64), &f64)| {
            let ratio = x / self.nuclear;
            v * ratio * ratio * (ratio * v / before).sqrt()
        };
        normalised(self.columns.iter().zip(&self.diagonal).zip(previous).map(raise).collect())
    }
}

fn normalised(mut weights: Vec<f64>) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|v| *v /= sum);
    weights
}

/// Weights over `horizon` steps with the profile of those over fewer, by geometric interpolation.
fn stretched(weights: &[f64], horizon: usize) -> Vec<f64> {
    let last = weights.len() - 1;
    let logs: Vec<f64> = weights.iter().map(|v| libm::log(*v)).collect();
    let at = |i: usize| {
        let place = ((i as f64 + 0.5) * weights.len() as f64 / horizon as f64 - 0.5).clamp(0.0, last as f64);
        let before = place as usize;
        let after = (before + 1).min(last);
        libm::exp(logs[before] + (place - before as f64) * (logs[after] - logs[before]))
    };
    normalised((0..horizon).map(at).collect())
}

/// Poles for the spectrum of `K`: it is at least `1 / tr K⁻¹`, `K⁻¹ = V^½ Aᵀ P A V^½`, and at most the largest absolute
/// row sum of the similar matrix `V⁻¹ D P⁻¹ Dᵀ`.
fn poles(rows: &[f64], columns: &[f64], count: Option<usize>) -> Poles {
    let (mut tail, mut trace, mut largest) = (0.0, 0.0, 0.0f64);
    for (i, (p, v)) in rows.iter().zip(columns).enumerate().rev() {
        tail += p;
        trace += tail * v;
        let before = if i > 0 { 1.0 / rows[i - 1] } else { 0.0 };
        largest = largest.max(2.0 * (1.0 / p + before) / v);
    }
    match count {
        None => Poles::new(1.0 / trace, largest),
        Some(count) => Poles::with_count(1.0 / trace, largest, count),
    }
}

/// The ladders of all poles, node by node, the poles of a node next to each other.
pub(super) struct Ladder<'a> {
    rows: &'a [f64],
    columns: &'a [f64],
    poles: &'a Poles,
    /// `f_i`.
    before: Vec<f64>,
}

impl<'a> Ladder<'a> {
    pub(super) fn new(rows: &'a [f64], columns: &'a [f64], poles: &'a Poles) -> Self {
        let n = poles.len();
        let mut before = vec![0.0; n * rows.len()];
        for i in 0..rows.len() {
            let (done, here) = before.split_at_mut(i * n);
            let own = here.iter_mut().zip(&poles.shifts);
            if i == 0 {
                own.for_each(|(f, s)| *f = s * columns[0]);
                continue;
            }
            let (resistance, conductance) = (rows[i - 1], columns[i]);
            for ((f, s), previous) in own.zip(&done[(i - 1) * n..]) {
                *f = s * conductance + previous / (1.0 + previous * resistance);
            }
        }
        Self { rows, columns, poles, before }
    }

    /// How the potential falls from node `i+1` to node `i` when a current enters beyond: `1 / (1 + f_i p_i)`, pole by
    /// pole.
    pub(super) fn ratios(&self) -> Vec<f64> {
        (0..self.rows.len()).flat_map(|node| self.ratios_of(node)).collect()
    }

    /// The ladders of one node.
    pub(super) fn ratios_of(&self, node: usize) -> impl Iterator<Item = f64> {
        let n = self.poles.len();
        self.before[node * n..(node + 1) * n].iter().map(move |f| 1.0 / (1.0 + f * self.rows[node]))
    }

    /// `w_j (D P⁻¹ Dᵀ + s_j V)⁻¹_ii`, pole by pole, for the nodes from the last to the first.
    pub(super) fn each_diagonal(&self, mut visit: impl FnMut(usize, &[f64])) {
        let n = self.poles.len();
        // Conductance to the ground through everything after the node.
        let mut after = vec![1.0 / self.rows[self.rows.len() - 1]; n];
        let mut entries = vec![0.0; n];
        for i in (0..self.rows.len()).rev() {
            if let Some(conductance) = self.columns.get(i + 1) {
                let resistance = self.rows[i];
                for (b, s) in after.iter_mut().zip(&self.poles.shifts) {
                    let beyond = *b + s * conductance;
                    *b = beyond / (1.0 + beyond * resistance);
                }
            }
            let seen = self.before[i * n..(i + 1) * n].iter().zip(&after);
            for ((entry, w), (f, b)) in entries.iter_mut().zip(&self.poles.weights).zip(seen) {
                *entry = w / (f + b);
            }
            visit(i, &entries);
        }
    }

    /// `X_ii`.
    fn diagonal(&self) -> Vec<f64> {
        let mut diagonal = vec![0.0; self.rows.len()];
        self.each_diagonal(|i, entries| diagonal[i] = entries.iter().sum());
        diagonal
    }
}
