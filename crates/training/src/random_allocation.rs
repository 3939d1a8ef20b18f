//! Certified (ε, δ) of Gaussian noise under random allocation, for any factorization: every example is allocated to one
//! of the `b` steps of an epoch at random. The proofs call these steps **bins**, as in "balls in bins".
//!
//! An example in bin `i` takes part in the steps `i, i+b, i+2b, …` (from step `i` of the first epoch on), and nobody
//! else knows its bin. With the noise `z` on the rows of a lower triangular `R`, bin `i` moves these rows by at most
//! `m_i = Σ_e |R|_(·, i+eb)`, row by row. The noise has standard deviation `σ` times the norm of an example's
//! contribution. The following uses only the **Gram matrix** of `R`, `H_ij = ⟨m_i, m_j⟩`; let `G = H/σ²` and
//! `g_i = G_ii`.
//!
//! ## The pair
//!
//! `Q = N(0, σ²)` and `P = (1/b) Σ_i N(m_i, σ²)` dominate: (P, Q) if the example is removed, (Q, P) if it is added
//! (Choquette-Choo, Ganesh, Haque, Steinke, Thakurta 2024, arXiv 2410.06266). A proof for vectors and adaptive choices:
//! given the bins of all others, and under the data without the example, the rows are noise around values known from
//! earlier rows. With the example in bin `i`, row `t` is moved by a vector `a_i(t)` that is known from earlier rows, of
//! length at most `(m_i)_t`. The likelihood ratio is `M = (1/b) Σ L_i` with the exponential martingales `L_i` whose
//! increments have the volatility `a_i(t)`. Both divergences are `E φ(M)` with `φ` convex: `(M - e^ε)₊` and
//! `(1 - e^ε M)₊`. Take the noise of a row as a Brownian motion over a unit of time, and let `V(t, ℓ)` be
//! `E φ((1/b) Σ ℓ_i L'_i)` for the martingales `L'` from time `t` on of one coordinate with the volatilities `(m_i)_t`.
//! Then `ℓ_i ℓ_j ∂²V/∂ℓ_i∂ℓ_j ≥ 0`, because `φ'' ≥ 0` and the `L'` are positive, and `V(t, L(t))` has the drift
//!
//! ```text
//! ½ Σ_ij ℓ_i ℓ_j ∂²V/∂ℓ_i∂ℓ_j (⟨a_i, a_j⟩ - (m_i)_t (m_j)_t) ≤ 0:
//! ```
//!
//! it is a supermartingale, and `E φ(M) ≤ V(0, 1)`, which is that of the pair. (`φ` is a limit of smooth functions.)
//! The same argument shows that both divergences grow with every entry of `G`, that other examples do not reveal a bin,
//! and that less than with the worst bin alone is revealed.
//!
//! ## The common move
//!
//! Let `τ² = 1/(1ᵀ G⁻¹ 1)`, the smallest variance of a weighted mean of the `u_i = ⟨m_i, x⟩/σ²` with weights that add
//! up to 1, and `τξ` that mean under `Q`. Then every `u_i` has the covariance `τ²` with it, so that `u_i = τξ + u'_i`
//! with `u'` independent of `ξ`: **every bin moves `ξ` by `τ`**, and the release is one of Gaussian noise without
//! allocation, next to an allocation to bins with the Gram matrix `G' = G - τ²`. With `g'_i = g_i - τ²`
//!
//! ```text
//! M = e^{τξ - τ²/2} M',      M' = (1/b) Σ e^{u'_i - g'_i/2},      h(a) = E (1 - e^{a + τξ - τ²/2})₊,
//! ```
//!
//! where `h` is the δ of Gaussian noise at `a`, the divergences are `E M' h(ε - ln M')` for a removed example and `E
//! h(ε + ln M')` for an added one. So `ξ` is integrated, not drawn. With correlated noise most of the variance of `ln
//! M` is that of `ξ`; the rest is that of few bins with an unusual `u'_i`. (Without a common move `h(a) = (1 - e^a)₊`.)
//! With the triangular factor `G = L Lᵀ` and `L d = 1`, `τ² = 1/‖d‖²`, and `u' = L (z - d ⟨d, z⟩/‖d‖²)`. If `L d`
//! misses 1 by `η`, the covariances of `u'` and of a common move of `(1 + |η|) τ` are still at least `G`, which only
//! adds to the divergences; the headroom below covers it.
//!
//! ## Removed: tuples
//!
//! Large `M'` are so rare under `Q` that the sampling aims at them: **bins `i_1 … i_s` are drawn**, each with
//! probability proportional to `Π e^{G'_(i i')}` over the earlier ones, and `u'` with the mean `Σ_l G'_(· i_l)`. The
//! pair (tuple, u') gets the weight
//!
//! ```text
//! W = h(ε - ln M') M'^{1-s} Π_l S_l/b,        S_l = Σ_j Π_(l' < l) e^{G'_(i_l' j)}.
//! ```
//!
//! `E W = δ(ε)`: of the density of the pair, `Π_l (e^{…}/S_l) e^{Σ_l u'_(i_l) - …}` relative to `Q`, all products of
//! the tuple cancel, and there remains `M' h(ε - ln M') dQ` times `Π_l e^{u' - g'/2}/(b M')`, which sums to 1 over the
//! tuples. And `W` is **bounded**: with `A_k = max_i (1/b) Σ_j e^{k G'_ij}`, by Hölder's inequality `S_l ≤ b A_(l-1)`,
//! so that
//!
//! ```text
//! W ≤ B = Π_(k<s) A_k · max_a h(a) e^{(s-1)(a - ε)},
//! ```
//!
//! which is about the bound of Rényi's divergence of order `s` for δ, a hundred to a few thousand times δ. (That alone
//! is the accounting of Schuchardt and Kalinin 2026, arXiv 2601.21636.) Its spread is a few times δ.
//!
//! ## From a mean to a bound
//!
//! `N` weights are drawn, each the mean over four tuples with one vector of noise. If `E W ≥ μ`, then `Π_n (1 + λ(μ -
//! W_n))` has at most the expectation 1, for a `λ` below `1/B` that does not depend on them, so that it exceeds `1/β`
//! with probability at most `β` (Markov). The smallest `μ` at which it does is the **upper bound of δ**; it is about
//! `√(2 ln(1/β)/N)` times the spread and `B ln(1/β)/N` above the mean. `N` is chosen for 5 % of δ, or for 20 % if that
//! takes more than 2¹⁵ vectors, at most 2²⁵ entries of vectors in all.
//!
//! `β = δ/2²⁰`, and **it is part of δ**: the bound holds for all but that share of the coins, and a release with bad
//! coins reveals at most everything. The share is so small that a thousand plans can be compared and the best one used
//! at the cost of a thousandth of δ. **Coins are public**: a function (BLAKE3) of Gram matrix, noise, ε and δ. So
//! everyone gets the same numbers and can check them; finding a plan with bad coins takes about 2²⁰/δ attempts.
//!
//! ## Added
//!
//! Here `M < e^{-ε}` is rare under `Q`. Let `m̄` be the mean of the `m_i`, `v = ‖m̄‖²/σ²`, `ḡ` the mean of the `g_i`,
//! `ū` the mean of the `u_i`. By Jensen `ln M ≥ ū - ḡ/2`, so that `Q(M ≤ e^-ε) ≤ e^{-(ε - ḡ/2)²/2v}` if `ε > ḡ/2`. If
//! that is not enough, draw `u'` with the mean `-s` times its covariances with `ū'`, `s = (ε - ḡ/2)/v`: the weights
//! `h(ε + ln M') e^{s ū' + s² v'/2}`, `v' = v - τ²`, are at most `e^{s ḡ'/2 + s² v'/2} max_a h(a) e^{s(a - ε)}`, and
//! bounded as above.
//!
//! Otherwise the probabilities of `ln M' ≤ r` are estimated by counting at hundreds of `r`, and bounded together. Left
//! of these, `ln M'` is convex in the noise, so **`Φ⁻¹(Q(ln M' ≤ r))` is concave in `r`** (Ehrhard 1983; Borell 2003),
//! and lies below all lines through two points to the right of `r`. With these bounds as its distribution function, the
//! law gives a bound of `E h(ε + ln M')`, as `h` falls.
//!
//! ## Rounds
//!
//! If an example is allocated to a **new bin in each of `E` rounds**, whose rows are disjoint, it moves them by `m_π =
//! Σ_e m_(e, i_e)` for a pattern `π` of independent bins. The above requires only that the bins are vectors without
//! negative entries, so the patterns act as `b^E` bins. Inner products of patterns are sums over rounds, so all
//! computed quantities factor: `M' = Π_e M'_e`, tuples of patterns are drawn round by round, `Π_l S_l` is a product
//! over rounds, and `A_k` the power of that of one round. The common moves add up to one of `√E τ`. All rounds have one
//! Gram matrix here; if their matrices differ, no entry may be smaller than that of any round.
//!
//! For the added direction, `ū`, `ḡ` and `v` are `E` times those of a round. The probabilities of `ln M'_e ≤ r` are
//! bounded for one round, and the convolution of that law bounds the sum. (Of very many rounds the sum itself is
//! counted: it is so nearly normal that the lines are close.)
//!
//! ## Disjoint rows
//!
//! If no two bins share a row, as with independent noise, the law of `M` is computed instead: see the header of
//! `random_allocation/disjoint.rs`. Nothing is drawn then.
//!
//! ## Rounding
//!
//! `H` is increased by a relative 10⁻⁹, and so are the square of the common move and δ. Normal numbers have the law of
//! [`Normals`](evertally_kernels::Normals) in double precision.

mod added;
mod bets;
mod chances;
mod coins;
mod disjoint;
mod many;
mod paths;
mod removed;
mod rounds;
mod search;
mod shifted;
mod smoothed;

pub(crate) use disjoint::Coarseness;
use evertally::privacy::{Delta, Epsilon};
use evertally::{Error, Result};
pub(crate) use many::DisjointAllocation;
use paths::Factor;
pub(crate) use paths::in_parts;
use smoothed::Smoothed;
use std::sync::Arc;

/// Maximum number of bins: matrices have their square as number of entries.
pub(crate) const MAX_BINS: u64 = 1 << 11;
/// Maximum number of rounds.
const MAX_ROUNDS: u64 = 1 << 14;
/// Headroom for roundings; see the header.
const ROUNDING: f64 = 1e-9;
/// The failure probability of the coins of one test, relative to δ.
const SHARE: f64 = 1.0 / (1u64 << 20) as f64;
/// The share of δ that remains after a thousand tests.
const KEPT: f64 = 1.0 - 1.0 / 1024.0;

/// Examples that are allocated to bins, the steps of an epoch, at random, and the noise on their contributions; see the
/// [module](self).
///
/// ```
/// use evertally_training::random_allocation::RandomAllocation;
/// use evertally::privacy::{Delta, Epsilon};
/// // One epoch of 20 batches with independent noise: every bin has its own row.
/// let gram: Vec<f64> = (0..400).map(|at| f64::from(u8::from(at / 20 == at % 20))).collect();
/// let bins = RandomAllocation::new(20, gram)?;
/// let noise = bins.noise_for(Epsilon::new(2.0)?, Delta::new(1e-4)?)?;
/// // If the bin were known, this noise would be needed:
/// assert!(noise < 0.75 * bins.noise_if_known(Epsilon::new(2.0)?, Delta::new(1e-4)?));
/// # Ok::<(), evertally::Error>(())
/// ```
#[doc(alias = "balls in bins")]
#[doc(alias = "b-min-sep")]
#[derive(Clone, Debug)]
pub struct RandomAllocation {
    /// The Gram matrix of one round.
    bins: usize,
    rounds: u64,
    /// Row after row, with headroom.
    gram: Arc<[f64]>,
    factor: Arc<Factor>,
}

impl RandomAllocation {
    /// `bins` bins (1 ..= 2048), and the `bins · bins` inner products of the vectors `m_i` for noise of standard
    /// deviation 1, row after row. `O(bins³)`, less if most are 0.
    ///
    /// # Errors
    /// If there are too many bins, or the products are not those of vectors without negative entries.
    pub fn new(bins: usize, gram: Vec<f64>) -> Result<Self> {
        Self::check(bins as u64)?;
        let symmetric = || (0..bins).all(|i| (0..i).all(|j| gram[i * bins + j] == gram[j * bins + i]));
        let fine = |value: &f64| (0.0..1e12).contains(value);
        if gram.len() != bins * bins || !gram.iter().all(fine) || !symmetric() {
            return Err(Error::invalid(format!(
                "inner products of {bins} bins must be a symmetric table of {bins} times {bins} numbers from 0 to 1e12"
            )));
        }
        let mut gram: Vec<f64> = gram.into_iter().map(|value| value * (1.0 + ROUNDING)).collect();
        let Some(factor) = Factor::new(bins, &mut gram) else {
            return Err(Error::invalid("the table of inner products must be positive semidefinite"));
        };
        Ok(Self { bins, rounds: 1, gram: gram.into(), factor: factor.into() })
    }

    /// Independent noise of standard deviation 1 on every step of an epoch, and contributions of norm 1 in `selected`
    /// of its `steps` steps, drawn at random without replacement (`k` of `t` allocation). `O(steps/selected)²`.
    ///
    /// This is at least as private as allocation to one of `⌊steps/selected⌋` bins in each of `selected` rounds
    /// (Feldman and Shenfeld 2025, arXiv 2502.08202): cut a random order of the steps into that many blocks of that
    /// size, discard the rest, and draw one step of each block. The drawn set is uniform, so the release is the
    /// mixture, over the orders, of these rounds, and δ of a mixture is at most the largest δ of its parts.
    ///
    /// ```
    /// use evertally_training::random_allocation::RandomAllocation;
    /// use evertally::privacy::Delta;
    /// // 3 of 60 steps.
    /// let epsilon = RandomAllocation::of_steps(3, 60)?.epsilon(1.5, Delta::new(1e-5)?)?;
    /// assert!((1.1..1.15).contains(&epsilon), "{epsilon}");
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `selected` is 0, more than `steps` or above 2^14, or blocks have more than 2048 steps.
    #[doc(alias = "k of t")]
    pub fn of_steps(selected: u64, steps: u64) -> Result<Self> {
        if selected == 0 || selected > steps {
            return Err(Error::invalid(format!(
                "an example takes part in 1 to all {steps} steps of an epoch, got {selected}"
            )));
        }
        Self::check(steps / selected)?;
        let bins = (steps / selected) as usize; // fits: at most 2048
        let entry = |at: usize| f64::from(u8::from(at / bins == at % bins));
        Self::new(bins, (0..bins * bins).map(entry).collect())?.in_rounds(selected)
    }

    /// The same in this many rounds, at least 1. Each round draws a new bin, and rounds have disjoint rows.
    ///
    /// ```
    /// use evertally_training::random_allocation::RandomAllocation;
    /// use evertally::privacy::{Delta, Epsilon};
    /// let gram = |size: f64| (0..400).map(|at| if at / 20 == at % 20 { size } else { 0.0 }).collect();
    /// let budget = (Epsilon::new(2.0)?, Delta::new(1e-4)?);
    /// let once = RandomAllocation::new(20, gram(4.0))?.noise_for(budget.0, budget.1)?;
    /// let anew = RandomAllocation::new(20, gram(1.0))?.in_rounds(4)?.noise_for(budget.0, budget.1)?;
    /// // Four epochs: learning one bin does not reveal the others.
    /// assert!(anew < 0.75 * once);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `rounds` is 0 or above 2^14.
    pub fn in_rounds(self, rounds: u64) -> Result<Self> {
        if !(1..=MAX_ROUNDS).contains(&rounds) {
            return Err(Error::invalid(format!("the number of rounds must be from 1 to {MAX_ROUNDS}, got {rounds}")));
        }
        Ok(Self { rounds, ..self })
    }

    /// Refuses numbers of bins whose tables would be too large.
    pub(crate) fn check(bins: u64) -> Result<()> {
        if !(1..=MAX_BINS).contains(&bins) {
            return Err(Error::invalid(format!(
                "random allocation of correlated noise is accounted for with 1 to {MAX_BINS} steps per epoch, got \
                 {bins}"
            )));
        }
        Ok(())
    }

    /// The number of bins in a round.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// The number of rounds.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// The inner product of the vectors of two bins, with headroom.
    pub fn product(&self, one: usize, other: usize) -> f64 {
        assert!(one < self.bins && other < self.bins, "there are {} bins", self.bins);
        self.gram[one * self.bins + other]
    }

    /// The largest squared norm of a bin's vector.
    fn largest(&self) -> f64 {
        (0..self.bins).map(|i| self.gram[i * self.bins + i]).fold(0.0, f64::max)
    }

    /// The move that all bins of all rounds have in common, in standard deviations of this noise, and ε.
    fn smoothed(&self, noise: f64, epsilon: f64) -> Smoothed {
        let square = self.rounds as f64 * self.factor.common() * (1.0 + ROUNDING);
        Smoothed { moved: square.sqrt() / noise, epsilon }
    }

    /// The squared length of that of a round.
    fn common(&self) -> f64 {
        self.factor.common()
    }

    /// The distance that the releases move for an observer who knows the bins: that of the worst bin of every round.
    fn moved_if_known(&self) -> f64 {
        (self.rounds as f64 * self.largest()).sqrt()
    }

    /// The noise that (ε, δ) needs against an observer who knows the bins, rounded up: that of the worst bin.
    pub fn noise_if_known(&self, epsilon: Epsilon, delta: Delta) -> f64 {
        self.moved_if_known() / evertally::privacy::conversions::mu_for(epsilon, delta) * (1.0 + ROUNDING)
    }

    /// A noise with which (ε, δ) holds: within a tenth of a percent of the minimum if no two bins share a row, as with
    /// independent noise, in about a second (or the noise of known bins where the bound is imprecise). Otherwise within
    /// one or two percent of the minimum, half a percent if bins have similar vectors; this takes some seconds for
    /// hundreds of bins, minutes for two thousand bins or hundreds of rounds.
    ///
    /// The inverse is consistent: [`epsilon`](Self::epsilon) of the result, at this δ, is at most this ε.
    ///
    /// # Errors
    /// If the noise is out of range.
    pub fn noise_for(&self, epsilon: Epsilon, delta: Delta) -> Result<f64> {
        let least = self.certified_noise_for(epsilon, delta)?;
        crate::noise_search::rounded_up_until(least, |noise| Ok(self.epsilon(noise, delta)? / epsilon.get()))
    }

    /// The same by δ at this ε alone, as plans use it: `epsilon` uses other coins, and its result may be larger by some
    /// tenths of a percent. The result of this function is part of plans, so it must not change.
    pub(crate) fn certified_noise_for(&self, epsilon: Epsilon, delta: Delta) -> Result<f64> {
        search::noise(self, epsilon, delta)
    }

    /// A faster estimate of that noise, without certification: to compare one `R` with another.
    pub(crate) fn likely_noise_for(&self, epsilon: Epsilon, delta: Delta) -> f64 {
        search::likely_noise(self, epsilon, delta)
    }

    /// An estimate in milliseconds, for mechanisms that are alike.
    pub(crate) fn rough_noise_for(&self, epsilon: Epsilon, delta: Delta) -> f64 {
        search::rough_noise(self, epsilon, delta)
    }

    /// An ε with which this δ holds under this noise, rounded up. Takes some seconds, as above.
    ///
    /// # Errors
    /// If the noise is out of range.
    pub fn epsilon(&self, noise: f64, delta: Delta) -> Result<f64> {
        search::epsilon(self, noise, delta)
    }
}

/// The same inner products and rounds.
impl PartialEq for RandomAllocation {
    fn eq(&self, other: &Self) -> bool {
        (self.bins, self.rounds) == (other.bins, other.rounds) && self.gram == other.gram
    }
}

#[cfg(test)]
mod tests;
