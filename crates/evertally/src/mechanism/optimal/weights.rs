//! The dual problem: row weights `p` and column weights `v` of largest nuclear norm.
//!
//! `X` of the module's proof is `V^(-1/2) K^(-1/2) V^(-1/2)` with `K = V^(-1/2) D P⁻¹ Dᵀ V^(-1/2)`, where `D = A⁻¹` is
//! bidiagonal. With `K^(-1/2) = Σ_j w_j (K + s_j)⁻¹` ([`Poles`]) this is
//!
//! ```text
//! X = Σ_j w_j (D P⁻¹ Dᵀ + s_j V)⁻¹,
//! ```
//!
//! a sum of inverses of tridiagonal matrices. Each is the conductance matrix of a ladder: node `i` is joined to node `i+1` by a
//! resistance `p_i`, the last to the ground by `p_T`, and each node to the ground by a conductance `s v_i`. Let `f_i` be the
//! conductance to the ground seen from node `i` through itself and everything before it, `b_i` through everything after
//! it: `f_i = s v_i + f_{i-1}/(1 + f_{i-1} p_{i-1})`, the same backwards, and the diagonal of the inverse is `1/(f_i + b_i)`.
//! Nothing is subtracted, so all is accurate to the last digits, whatever the condition. The dual value and its gradient
//! cost `O(T n)` with `n` poles where dense algebra takes `O(T³)`.

use super::poles::Poles;

/// Weights, and what they prove.
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

/// Rounding is reached long before.
const MAX_ROUNDS: usize = 2000;

impl Weights {
    /// The optimal weights: for the mean, `p` is uniform and `v` free; for the maximum, `v` is `p` backwards. They are found
    /// when the largest `X_ii` exceeds the weighted mean of all by a factor of at most `1 + slack`. `O(T log T)` for each of some
    /// 20 rounds per digit.
    pub(super) fn optimal(horizon: usize, mean: bool, slack: f64) -> Self {
        let uniform = vec![1.0 / horizon as f64; horizon];
        let mut weights = Self::evaluate(uniform.clone(), uniform);
        for _ in 0..MAX_ROUNDS {
            let largest = weights.diagonal.iter().copied().fold(0.0, f64::max);
            if largest <= weights.nuclear * (1.0 + slack) {
                break;
            }
            let columns = weights.raised();
            let rows = if mean { weights.rows } else { columns.iter().rev().copied().collect() };
            weights = Self::evaluate(rows, columns);
        }
        weights
    }

    /// The dual value of given weights that sum to 1.
    pub(super) fn evaluate(rows: Vec<f64>, columns: Vec<f64>) -> Self {
        let poles = poles(&rows, &columns);
        let diagonal = Ladder::new(&rows, &columns, &poles).diagonal();
        // tr X V = tr (V^½ Aᵀ P A V^½)^½.
        let nuclear = diagonal.iter().zip(&columns).map(|(x, v)| x * v).sum();
        Self { rows, columns, diagonal, nuclear, poles }
    }

    /// The next column weights: `v_i (X_ii / Σ v X)^1.75`. The fixed point iteration (exponent 1) shrinks errors monotonically
    /// (measured: by factors between 0 and 0.95, at every horizon), so that exponents up to 2 converge too; larger ones help the
    /// slow errors.
    fn raised(&self) -> Vec<f64> {
        let raise = |(v, x): (&f64, &f64)| {
            let ratio = x / self.nuclear;
            v * ratio * ratio.sqrt() * ratio.sqrt().sqrt()
        };
        let raised: Vec<f64> = self.columns.iter().zip(&self.diagonal).map(raise).collect();
        let sum: f64 = raised.iter().sum();
        raised.iter().map(|v| v / sum).collect()
    }
}

/// Poles for the spectrum of `K`: it is at least `1 / tr K⁻¹`, `K⁻¹ = V^½ Aᵀ P A V^½`, and at most the largest absolute row sum of the
/// similar matrix `V⁻¹ D P⁻¹ Dᵀ`.
fn poles(rows: &[f64], columns: &[f64]) -> Poles {
    let (mut tail, mut trace, mut largest) = (0.0, 0.0, 0.0f64);
    for (i, (p, v)) in rows.iter().zip(columns).enumerate().rev() {
        tail += p;
        trace += tail * v;
        let before = if i > 0 { 1.0 / rows[i - 1] } else { 0.0 };
        largest = largest.max(2.0 * (1.0 / p + before) / v);
    }
    Poles::new(1.0 / trace, largest)
}

/// The ladders of all poles, node by node, the poles of a node side by side.
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

    /// How the potential falls from node `i+1` to node `i` when a current enters beyond: `1 / (1 + f_i p_i)`, pole by pole.
    pub(super) fn ratios(&self) -> Vec<f64> {
        let n = self.poles.len();
        self.before.iter().enumerate().map(|(place, f)| 1.0 / (1.0 + f * self.rows[place / n])).collect()
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
