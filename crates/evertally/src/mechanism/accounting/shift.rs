//! Exact Gaussian accounting with discrete noise: the least shift of the noise that hides an event.
//!
//! A release `A x + L z` with Gaussian `z` depends on `C = L Lᵀ` alone: its squared sensitivity is
//! `s² = max_i a_iᵀ C⁻¹ a_i`, `a_i` = ones from step `i` on, less than the column norm of a 0/1 matrix `R` wherever `L`
//! is wider than high. Discrete noise keeps this up to a factor as near to 1 as wanted.
//!
//! **The bijection.** Let `z` be discrete Gaussian of parameter `σ²` on a grid `1/G` of the data's. If an event of
//! integer size `δ` is added at step `i`, and `v ∈ (ℤ/G)^n` has `L v = δ a_i`, then the releases of the one stream
//! under `z` are those of the other under `z + v`. This stays true if every datum depends on the releases before it,
//! since equal releases mean equal data. So the Rényi divergence of order `α` between the two laws of the releases is
//! at most that between `z` and `z + v`, which is at most `α ‖v‖²/(2σ²)` (Canonne, Kamath, Steinke 2020, doi
//! 10.29012/jpc.784): `ρ = ‖v‖²/(2σ²)`.
//!
//! **The shift.** Let `L` be a sum along the paths of a trie: `(L z)_t = Σ λ_n z_n` over the at most `H` nodes `n`
//! above step `t`, `λ_n` whole numbers, each step with its own node. Let `u = C⁻¹ a_i`. The real shift `v* = Lᵀ u` has
//! `‖v*‖² = s_i²`. `C⁻¹` has no positive entry off its diagonal and no negative row sum: that holds for one step, for
//! tries side by side, and under one more node of variance `s`, where with `w = C⁻¹ 1 ≥ 0` and `α = 1ᵀ w` the inverse
//! becomes `C⁻¹ - s/(1+sα) w wᵀ` and the row sums `w/(1+sα)`. Hence
//!
//! * `u_t ≤ 0` for `t < i` and `u_t ≥ 0` for `t ≥ i`;
//! * `Σ_{t≥i} u_t = s_i²` and `Σ_t u_t = 1ᵀ C⁻¹ a_i ≥ 0`, so that `‖u‖₁ ≤ 2 s_i²`;
//! * `⟨v*_i, v*_j⟩ = a_iᵀ C⁻¹ a_j ≥ 0` for any two steps.
//!
//! **Rounding.** Let `P*(n)` be the sum of `δ λ v*` from the root down to `n`; at a step it is the target `δ a_i`.
//! Round every `P*` to the nearest multiple of `q = 2^-b`: the targets do not move, and the differences `d_n` along the
//! edges give `v_n = d_n/λ_n`, a multiple of `1/G` for `G = 2^b · lcm(λ)`, with `L v = δ a_i` exactly. Where `d_n ≠ 0`
//! it differs from `d*_n` by at most `q` and `d_n² - d*_n² ≤ q(|d_n| + |d*_n|)`; where `d_n = 0` nothing is added. With
//! `λ` the least weight, `‖v‖² ≤ δ² s² + E`, `E = q Σ |d*_n|/λ_n² + (q/λ²) Σ |d_n|`, and
//!
//! * `d*_n = δ λ_n² Σ_{t under n} u_t`, so that `Σ |d*_n|/λ_n² ≤ δ H ‖u‖₁ ≤ 2δ H s²` and `Σ |d*_n| ≤ 2δ M s²`, `M` the
//!   largest `‖L_t‖²`;
//! * at most `H` nodes are above both steps `i-1` and `i`; there `|d_n| ≤ |d*_n| + q`;
//! * under any other node the target is the same for all steps, and by the signs of `u` the distance `D*` of `P*` from
//!   it falls along every path, to 0. The rounded distance `D` falls, too, and `D ≤ 2D*`. As `|d_n| = D(parent) -
//!   D(n)`, the sum of all these `|d_n|` is one of distances with coefficients (number of children - 1, or 1 at the
//!   top) that are not negative, hence at most twice that of `|d*_n|`.
//!
//! Together `E ≤ δ q s² (2H + 4M/λ²) + H q²/λ²`, and as `s² ≥ 1/M` and `δ ≥ 1`, with `M' = M/λ²` and
//! `K = 2H + 4M' + H M' q`,
//!
//! ```text
//! ‖v‖² ≤ s² (δ² + δ q K),      ⟨v, v'⟩ ≥ -s² max(δ, δ') q K   for any two events,
//! ```
//!
//! the second by `d d' - d* d'* ≥ -q(|d| + |d'*|)` and the same sums. None of this depends on the horizon.
//!
//! **Neighbours.** Let `δ` be the largest size of an event and `κ = qK/δ`. Shifts of several events add up, so that `m`
//! events, or `m` pairs of a removed and an added one, cost `m` times the norm of one.
//! * An event added or removed: `‖v‖² ≤ δ² s² (1+κ)`.
//! * A pair of one sign: `‖v - v'‖² = ‖v‖² + ‖v'‖² - 2⟨v, v'⟩ ≤ 2 δ² s² (1+2κ)`.
//! * A pair of opposite signs and sizes `y`, `y'`, `y + y'` at most the `span` of the values, which is at least `δ`:
//!   `‖v‖ ≤ s (y + δκ/2)`, so that `‖v‖ + ‖v'‖ ≤ s · span · (1+κ)`.
//!
//! In all cases the squared sensitivity is that of the real shift, times at most `(1+κ)²`.
//!
//! **Scope of the proof.** The above holds for any data that depend on the releases, for events whose steps and sizes
//! are fixed in advance. An adversary who chooses them adaptively is covered for continuous noise: `C` has a square
//! causal factor, and the shift of an event there is 0 before its step. For discrete noise that case is argued, not
//! proven to the last constant. The probability of a noise `y = L z` is a sum over a coset of the lattice of those `z`
//! that `L` maps to 0, a Gaussian in `y` of covariance `C` times the mass of that coset. The lattice contains, as many
//! as its dimension, the vectors "a node minus its children, over their weights", whose length is about `2^-20 √ρ` of
//! `σ` on the grids used here; so `σ` is far above its smoothing parameter, and all cosets have the same mass up to a
//! factor `1 ± ε`, `ε < exp(-2^39/ρ)` (Micciancio, Regev 2007, doi 10.1137/S0097539705447360). The same argument makes
//! the law of a release given those before it a discrete Gaussian of the continuous law's conditional mean and
//! variance, up to such a factor. Step by step the divergences are then those of the continuous case, off by less than
//! about `T ε` in all.

/// How far a change of one unit in one step moves the nodes, in L1 norm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaplaceShift {
    /// The largest L1 norm of a column of the integer matrix `2^noise_bits R` that is protected: exact. `s1` where `R`
    /// is 0/1, or where the releases are protected by the least shift of their noise.
    pub column_sum: u128,
    /// A partition of the nodes into classes, such that the entries of one column of the integer matrix in one class
    /// sum to at most a weight: (weight, number of classes with it). Finer classes give tighter accounting; a single
    /// class of weight [`column_sum`](Self::column_sum) is always valid.
    pub classes: Vec<(u64, u64)>,
}

impl LaplaceShift {
    /// Every class contains at most one of a step's nodes, all of weight 1; `count` classes contain one.
    pub(in crate::mechanism) fn from_single_nodes(count: u64) -> Self {
        Self { column_sum: count.into(), classes: vec![(1, count)] }
    }

    /// The same with these weights.
    pub(in crate::mechanism) fn from_weights(weights: impl Iterator<Item = u64> + Clone) -> Self {
        Self { column_sum: weights.clone().map(u128::from).sum(), classes: weights.map(|weight| (weight, 1)).collect() }
    }

    /// All nodes in one class.
    pub(in crate::mechanism) fn together(column_sum: u64) -> Self {
        Self { column_sum: column_sum.into(), classes: vec![(column_sum, 1)] }
    }
}

/// The least shift of the noise that hides one event; see the header of `mechanism/accounting/shift.rs`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaussianShift {
    squared: f64,
    weights_lcm: u64,
    /// `H`.
    path_nodes: f64,
    /// `M' = M/λ²`.
    relative_norm: f64,
}

/// Largest `κ` a plan accepts; the standard error grows by the same factor.
const MAX_EXCESS: f64 = 1.0 / 1_048_576.0;

impl GaussianShift {
    /// For an `L` that sums along the paths of a trie.
    ///
    /// * `squared`: an upper bound of `s²`;
    /// * `weights_lcm`, `least_weight`: least common multiple and least of the weights of the nodes;
    /// * `path_nodes`: most nodes above one step;
    /// * `row_norm_squared`: the largest `‖L_t‖²`.
    pub(in crate::mechanism) fn from_trie(
        squared: f64,
        weights_lcm: u64,
        least_weight: u64,
        path_nodes: u32,
        row_norm_squared: f64,
    ) -> Self {
        let least = least_weight as f64;
        let relative_norm = row_norm_squared / (least * least);
        Self { squared, weights_lcm, path_nodes: path_nodes.into(), relative_norm }
    }

    /// `s²` of continuous noise for one event of size 1: an upper bound, accurate to a few parts in 10^13.
    pub fn squared(&self) -> f64 {
        self.squared
    }

    /// `κ` for rounding to `2^-bits` of the grid and events of at least `size` grid steps.
    fn excess(&self, bits: u32, size: f64) -> f64 {
        let (h, m, q) = (self.path_nodes, self.relative_norm, libm::exp2(-f64::from(bits)));
        q / size * (2.0 * h + 4.0 * m + h * m * q)
    }

    /// The same if the noise is added along the segments of the paths, `λ_n² σ²` to each, and need not be `λ_n` times a
    /// multiple of the grid. Then the differences `d_n` are themselves shifts, on a grid that the weights do not
    /// divide. Returns the number of grid steps per data step, the squared sensitivity `Σ d_n²/λ_n²` there, and a bound
    /// of how many `d_n` are not 0 for one of its squared steps: those are at least 1, and `λ_n` at most the least
    /// common multiple.
    pub(crate) fn along_stretches(&self, size: f64) -> (u64, f64, f64) {
        let (divisor, squared) = self.on_fine_grid(size);
        (divisor / self.weights_lcm, squared, crate::number::power(self.weights_lcm as f64, 2))
    }

    /// The coarsest grid for events whose largest size is at least `size` (at least 1/2) on which discrete noise costs
    /// less than one part in 10^6 of standard error: `G`, its number of steps per data step, and the squared
    /// sensitivity for one event of size 1 there, never too small, in squared steps of the data's grid.
    pub fn on_fine_grid(&self, size: f64) -> (u64, f64) {
        let bits = (0..40).find(|&bits| self.excess(bits, size) <= MAX_EXCESS).unwrap_or(40);
        let factor = 1.0 + self.excess(bits, size);
        // The last factor covers the rounding of these few operations, and of the decimal text a double is read as.
        (self.weights_lcm << bits, self.squared * factor * factor * (1.0 + 1e-13))
    }
}

#[cfg(test)]
mod tests;
