//! The impulse responses of a BLT, its inverse and its left factor, as sums of exponentials.
//!
//! With poles `θ_1 > θ̂_1 > θ_2 > … > θ̂_d`, the generating function of `C` is `Π (1 - θ̂_i x) / Π (1 - θ_i x)`. Partial
//! fractions give, with `q = 1 - θ` and `q̂ = 1 - θ̂` (so that poles near 1 lose no digits),
//!
//! * `C`: `c_0 = 1`, `c_j = Σ ω_i θ_i^(j-1)`, `ω_i = Π_k (q̂_k - q_i) / Π_{k≠i} (q_k - q_i)`;
//! * `A C⁻¹`: `ℓ_j = λ_0 + Σ λ_i θ̂_i^j`, `λ_0 = Π q_k / q̂_k`, `λ_i = Π_k (q̂_i - q_k) / (q̂_i Π_{k≠i} (q̂_i - q̂_k))`;
//! * `C⁻¹`: 1, then `-Σ λ_i q̂_i θ̂_i^(j-1)`.
//!
//! The poles interlace, so every `ω` and `λ` is positive: all sums below add positive terms and keep their relative
//! precision. `ℓ_0 = 1` gives `λ_0 + Σ λ_i = 1`.

use super::buffers::{Buffers, FRACTION_BITS};

/// A pole `θ` between 0 and 1, held by what is small when it is near 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pole {
    /// `q = 1 - θ`.
    pub(super) q: f64,
    /// `a = -ln θ`.
    pub(super) a: f64,
}

impl Pole {
    pub(super) fn from_gap(q: f64) -> Self {
        Self { q, a: -libm::log1p(-q) }
    }

    pub(super) fn from_rate(a: f64) -> Self {
        Self { q: -libm::expm1(-a), a }
    }

    /// `1 - θ^n`.
    pub(super) fn decayed(self, n: f64) -> f64 {
        -libm::expm1(-n * self.a)
    }

    /// `Σ_{j<n} θ^j`.
    pub(super) fn sum(self, n: f64) -> f64 {
        self.decayed(n) / self.q
    }
}

/// `1 - θ φ` from `1 - θ` and `1 - φ`.
pub(super) fn joined(p: f64, q: f64) -> f64 {
    p + q - p * q
}

/// `Σ_{m=1..n} Σ_{j<m} θ^j` for `1 - θ = q` and `1 - θ^n = decayed`. For small `n q` by the alternating series
/// `Σ_m (-q)^m C(n+1, m+2)`, where the closed form would cancel.
pub(super) fn sum_of_sums(n: f64, q: f64, decayed: f64) -> f64 {
    if n * q >= 0.5 {
        return (n - (1.0 - q) * decayed / q) / q;
    }
    let series = (0..20).rev().fold(1.0, |rest, m| 1.0 - q * (n - 1.0 - f64::from(m)) / f64::from(m + 3) * rest);
    0.5 * n * (n + 1.0) * series
}

/// `Σ_ik w_i w_k Σ_{j<n} (θ_i θ_k)^j`.
pub(super) fn energy(weights: &[f64], poles: &[Pole], n: f64) -> f64 {
    let decayed: Vec<f64> = poles.iter().map(|pole| pole.decayed(n)).collect();
    let mut total = 0.0;
    for i in 0..poles.len() {
        for k in 0..=i {
            let term = weights[i] * weights[k] * joined(decayed[i], decayed[k]) / joined(poles[i].q, poles[k].q);
            total += if i == k { term } else { 2.0 * term };
        }
    }
    total
}

/// Poles and residues.
#[derive(Clone, Debug)]
pub(super) struct Response {
    /// `θ`, longest first.
    pub(super) poles: Vec<Pole>,
    /// `ω`.
    pub(super) echoes: Vec<f64>,
    /// `θ̂`.
    pub(super) inverse: Vec<Pole>,
    /// `λ_0`.
    pub(super) floor: f64,
    /// `λ`.
    pub(super) lambda: Vec<f64>,
}

impl Response {
    /// From interlacing poles.
    pub(super) fn of_poles(poles: Vec<Pole>, inverse: Vec<Pole>) -> Self {
        let echoes = (0..poles.len()).map(|i| echo(&poles, &inverse, i)).collect();
        let floor = poles.iter().zip(&inverse).map(|(p, r)| p.q / r.q).product();
        // λ_i is the residue of the reciprocal over q̂_i, with the roles of the poles exchanged (the signs cancel).
        let lambda = (0..inverse.len()).map(|i| -echo(&inverse, &poles, i) / inverse[i].q).collect();
        Self { poles, echoes, inverse, floor, lambda }
    }

    /// Of frozen parameters: the poles of the inverse are the roots of `1 + Σ ω_i / (q_i - q̂)`, one between any two
    /// poles and one beyond the last.
    pub(super) fn of_buffers(buffers: &Buffers) -> Self {
        let one = 1u64 << FRACTION_BITS;
        let unit = 1.0 / one as f64;
        let poles: Vec<Pole> =
            buffers.decays().iter().map(|decay| Pole::from_gap((one - decay) as f64 * unit)).collect();
        let echoes: Vec<f64> = buffers.echoes().iter().map(|echo| *echo as f64 * unit).collect();
        let ends = poles[1..].iter().map(|pole| pole.q).chain([1.0]);
        let inverse = poles.iter().zip(ends).map(|(pole, end)| Pole::from_gap(root(&poles, &echoes, pole.q, end)));
        let inverse = inverse.collect();
        Self { echoes, ..Self::of_poles(poles, inverse) }
    }

    /// `Σ_{j<n} c_j²`: the squared norm of a column of `C` with `n ≥ 1` entries. Relative error below 10⁻¹²: see
    /// [`Response`]'s module; `expm1` of a negative number does not amplify relative errors.
    pub(super) fn column_norm_squared(&self, n: f64) -> f64 {
        1.0 + energy(&self.echoes, &self.poles, n - 1.0)
    }

    /// `Σ_{j<n} c_j`.
    pub(super) fn column_sum(&self, n: f64) -> f64 {
        1.0 + self.echoes.iter().zip(&self.poles).map(|(echo, pole)| echo * pole.sum(n - 1.0)).sum::<f64>()
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

/// The root of the increasing function `1 + Σ ω_i / (q_i - q̂)` between two of its poles, by bisection to the last digit.
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
