//! The impulse responses of a BLT, its inverse and its left factor, as sums of exponentials.
//!
//! With poles `θ_1 > θ̂_1 > θ_2 > … > θ̂_d`, the generating function of `C` is `Π (1 - θ̂_i x) / Π (1 - θ_i x)`.
//! Partial fractions give, with `q = 1 - θ` and `q̂ = 1 - θ̂` (so that poles near 1 lose no digits),
//!
//! * `C`: `c_0 = 1`, `c_j = Σ ω_i θ_i^(j-1)`, `ω_i = Π_k (q̂_k - q_i) / Π_{k≠i} (q_k - q_i)`;
//! * `A C⁻¹`: `ℓ_j = λ_0 + Σ λ_i θ̂_i^j`, `λ_0 = Π q_k / q̂_k`,
//!   `λ_i = Π_k (q̂_i - q_k) / (q̂_i Π_{k≠i} (q̂_i - q̂_k))`;
//! * `C⁻¹`: 1, then `-Σ λ_i q̂_i θ̂_i^(j-1)`.
//!
//! The poles interlace, so every `ω` and `λ` is positive: all sums below add positive terms and keep their relative
//! precision. `ℓ_0 = 1` gives `λ_0 + Σ λ_i = 1`.

use crate::mechanism::name::buffers::{Buffers, FRACTION_BITS, MAX_BUFFERS};

/// A pole `θ` between 0 and 1, stored as its small distance from 1 so that no digits are lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::mechanism) struct Pole {
    /// `q = 1 - θ`.
    pub(in crate::mechanism) q: f64,
    /// `a = -ln θ`.
    pub(in crate::mechanism) a: f64,
}

impl Pole {
    pub(in crate::mechanism) fn from_gap(q: f64) -> Self {
        Self { q, a: -libm::log1p(-q) }
    }

    pub(in crate::mechanism) fn from_rate(a: f64) -> Self {
        Self { q: -libm::expm1(-a), a }
    }

    /// `1 - θ^n`.
    pub(in crate::mechanism) fn decayed(self, n: f64) -> f64 {
        // A rate may be infinite; nothing decays over no steps.
        if n == 0.0 { 0.0 } else { -libm::expm1(-n * self.a) }
    }

    /// `Σ_{j<n} θ^j`.
    pub(in crate::mechanism) fn sum(self, n: f64) -> f64 {
        self.decayed(n) / self.q
    }
}

/// `1 - θ φ` from `1 - θ` and `1 - φ`.
pub(in crate::mechanism) fn joined(p: f64, q: f64) -> f64 {
    p + q - p * q
}

/// `Σ_{m=1..n} Σ_{j<m} θ^j` for `1 - θ = q` and `1 - θ^n = decayed`. For small `n q` by the alternating series
/// `Σ_m (-q)^m C(n+1, m+2)`, where the closed form would cancel.
pub(in crate::mechanism) fn sum_of_sums(n: f64, q: f64, decayed: f64) -> f64 {
    if n * q >= 0.5 {
        return (n - (1.0 - q) * decayed / q) / q;
    }
    let series = (0..20).rev().fold(1.0, |rest, m| 1.0 - q * (n - 1.0 - f64::from(m)) / f64::from(m + 3) * rest);
    0.5 * n * (n + 1.0) * series
}

/// One number per buffer; those beyond the number of buffers are 0 and stay 0.
pub(in crate::mechanism) type BufferRow = [f64; MAX_BUFFERS];

/// A weighted sum of exponentials, `Σ_i w_i θ_i^j`.
#[derive(Clone, Debug)]
pub(in crate::mechanism) struct Modes {
    pub(in crate::mechanism) weights: BufferRow,
    pub(in crate::mechanism) poles: Vec<Pole>,
    /// `1 / (1 - θ_i θ_j)`.
    pub(in crate::mechanism) pairs: [BufferRow; MAX_BUFFERS],
}

impl Modes {
    fn new(weights: impl Iterator<Item = f64>, poles: Vec<Pole>) -> Self {
        let mut modes = Self { weights: row(weights), poles, pairs: [[0.0; MAX_BUFFERS]; MAX_BUFFERS] };
        for (pairs, own) in modes.pairs.iter_mut().zip(&modes.poles) {
            *pairs = row(modes.poles.iter().map(|other| 1.0 / joined(own.q, other.q)));
        }
        modes
    }

    /// `1 - θ_i^n`.
    pub(in crate::mechanism) fn decayed(&self, n: f64) -> BufferRow {
        row(self.poles.iter().map(|pole| pole.decayed(n)))
    }

    /// `Σ_j w_j V_ij` with `V_ij = Σ_{s<n} (θ_i θ_j)^s`, from `1 - θ_i^n`.
    pub(in crate::mechanism) fn couplings(&self, decayed: &BufferRow) -> BufferRow {
        let coupling = |i: usize| {
            let term = |j: usize| self.weights[j] * joined(decayed[i], decayed[j]) * self.pairs[i][j];
            (0..self.poles.len()).map(term).sum()
        };
        row((0..self.poles.len()).map(coupling))
    }

    /// `Σ_i w_i x_i`.
    pub(in crate::mechanism) fn weighted(&self, values: &BufferRow) -> f64 {
        self.weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
    }

    /// `Σ_{j<n} (Σ_i w_i θ_i^j)²`, from `1 - θ_i^n`.
    pub(in crate::mechanism) fn energy(&self, decayed: &BufferRow) -> f64 {
        self.weighted(&self.couplings(decayed))
    }
}

/// The first numbers of a row.
pub(in crate::mechanism) fn row(values: impl Iterator<Item = f64>) -> BufferRow {
    let mut out = [0.0; MAX_BUFFERS];
    out.iter_mut().zip(values).for_each(|(out, value)| *out = value);
    out
}

/// Poles and residues.
#[derive(Clone, Debug)]
pub(in crate::mechanism) struct PartialFractions {
    /// `ω` and `θ`, longest first.
    pub(in crate::mechanism) direct: Modes,
    /// `λ` and `θ̂`.
    pub(in crate::mechanism) inverse: Modes,
    /// `λ_0`.
    pub(in crate::mechanism) floor: f64,
}

impl PartialFractions {
    /// From interlacing poles.
    pub(in crate::mechanism) fn of_poles(poles: Vec<Pole>, inverse: Vec<Pole>) -> Self {
        let echoes: Vec<f64> = (0..poles.len()).map(|i| echo(&poles, &inverse, i)).collect();
        Self::assemble(poles, &echoes, inverse)
    }

    fn assemble(poles: Vec<Pole>, echoes: &[f64], inverse: Vec<Pole>) -> Self {
        let floor = poles.iter().zip(&inverse).map(|(pole, other)| pole.q / other.q).product();
        // The residues of the reciprocal are those of `C` with the roles of the poles exchanged, and negative.
        let lambda = row((0..inverse.len()).map(|i| -echo(&inverse, &poles, i) / inverse[i].q));
        let direct = Modes::new(echoes.iter().copied(), poles);
        Self { direct, inverse: Modes::new(lambda.into_iter(), inverse), floor }
    }

    /// From frozen parameters: the poles of the inverse are the roots of `1 + Σ ω_i / (q_i - q̂)`, one between any two
    /// poles and one beyond the last.
    pub(in crate::mechanism) fn of_buffers(buffers: &Buffers) -> Self {
        let one = 1u64 << FRACTION_BITS;
        let unit = 1.0 / one as f64;
        let poles: Vec<Pole> =
            buffers.decays().iter().map(|decay| Pole::from_gap((one - decay) as f64 * unit)).collect();
        let echoes: Vec<f64> = buffers.echoes().iter().map(|echo| *echo as f64 * unit).collect();
        let ends = poles[1..].iter().map(|pole| pole.q).chain([1.0]);
        let inverse = poles.iter().zip(ends).map(|(pole, end)| Pole::from_gap(root(&poles, &echoes, pole.q, end)));
        let inverse = inverse.collect();
        Self::assemble(poles, &echoes, inverse)
    }

    /// `Σ_{j<n} c_j²`: the squared norm of a column of `C` with `n ≥ 1` entries. Relative error below 10⁻¹²: see
    /// [`PartialFractions`]'s module; `expm1` of a negative number does not amplify relative errors.
    pub(in crate::mechanism) fn column_norm_squared(&self, n: f64) -> f64 {
        1.0 + self.direct.energy(&self.direct.decayed(n - 1.0))
    }

    /// `Σ_{j<n} c_j`.
    pub(in crate::mechanism) fn column_sum(&self, n: f64) -> f64 {
        1.0 + self
            .direct
            .poles
            .iter()
            .zip(self.direct.weights)
            .map(|(pole, echo)| echo * pole.sum(n - 1.0))
            .sum::<f64>()
    }
}

/// `Π_k (r_k - p_i) / Π_{k≠i} (p_k - p_i)` for the gaps `p` and `r` of two sets of poles.
fn echo(poles: &[Pole], others: &[Pole], i: usize) -> f64 {
    let own = poles[i].q;
    let mut product = others[i].q - own;
    for k in (0..poles.len()).filter(|k| *k != i) {
        product *= (others[k].q - own) / (poles[k].q - own);
    }
    product
}

/// The root of the increasing function `1 + Σ ω_i / (q_i - q̂)` between two of its poles, by bisection to the last
/// digit.
fn root(poles: &[Pole], echoes: &[f64], mut low: f64, mut high: f64) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        let value = 1.0 + poles.iter().zip(echoes).map(|(pole, echo)| echo / (pole.q - middle)).sum::<f64>();
        if value < 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}
