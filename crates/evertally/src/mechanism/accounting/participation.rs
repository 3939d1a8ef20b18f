//! A unit that adds a vector to several steps: how far it moves the releases under continuous Gaussian noise.
//!
//! One example of a training set takes part in the steps of a **pattern** `π`: at most `k` steps, any two of them at
//! least `b` apart ([`Participation`]). In step `t ∈ π` it adds a vector `v_t` of norm at most 1. The releases
//! `A x + L z` (the same `L` for every coordinate) move by `A Δ`, `Δ = Σ e_t v_tᵀ`, and the norm of `R Δ` measures how
//! well the two streams can be distinguished.
//!
//! **Vectors.** With `G = RᵀR`, `‖R Δ‖² = Σ_{s,t ∈ π} G_st ⟨v_s, v_t⟩`. Where no entry of `G` is negative (`R ≥ 0` is
//! enough) this is at most `Σ_{s,t ∈ π} G_st`, by Cauchy and Schwarz term by term, and vectors that are all equal reach
//! it: the worst case is that of a single coordinate.
//!
//! **Any right factor.** `R Δ` may be measured by any `R` with `L R = A`: the releases have the covariance `C = L Lᵀ`,
//! and `(A Δ)ᵀ C⁻¹ (A Δ)` is the least `‖v‖²` with `L v = A Δ`. So a bound by one factor is a bound for the releases,
//! and the least of several bounds holds.
//!
//! **Data that react.** The steps of the unit, its vectors and those of all others may depend on all earlier releases,
//! as long as the unit keeps to its participation. Let `K` be the causal Cholesky factor, `K Kᵀ = C`: the releases are
//! those of `y_t = (K⁻¹ A x)_t + z_t`, `z` independent, and step `t` of `K⁻¹ A` uses data up to `t` only. Given the
//! past, `y_t` of the two streams is normal with means `m_t` apart, where `m_t` is known from the past. In every case
//! `m` is `K⁻¹ A Δ` for *some* `Δ` of some pattern, so that `Σ_t ‖m_t‖² ≤ s²`, the bound over all patterns. Append a
//! coordinate with independent noise whose mean is moved by `(s² - Σ ‖m_t‖²)^½`; then the sum is `s²` exactly. Under
//! the first stream the log-likelihood ratio is `Σ ⟨m_t, z_t⟩ - s²/2`, and
//! `E exp(iλ Σ ⟨m_t, z_t⟩ + λ² Σ ‖m_t‖²/2) = 1`, by taking the conditional expectation of the last factor, then of the
//! one before, and so on. So the ratio is normal with variance `s²` and mean `-s²/2`, and under the second stream, by
//! symmetry, `+s²/2`: as for two normal laws of variance 1 whose means are `s` apart. Dropping the extra coordinate is
//! post-processing. Hence **`s/σ`-GDP** for noise of standard deviation `σ`, and adaptivity costs nothing. The argument
//! uses no `R` other than `K⁻¹ A`, so it covers exact accounting (`max_i a_iᵀ C⁻¹ a_i`) for `smooth`, `path-sum` and
//! `honaker-online`, where one event is the pattern `{i}`.
//!
//! **Any mechanism**: the triangle inequality gives `k s`, `s` for one step; `k` is never more than `⌈T/b⌉`.
//!
//! **Levels of disjoint nodes** ([`Participation::of_levels`]), `R` of zeros and ones: a node of `w` steps has at most
//! `c = min(k, ⌈w/b⌉)` of the pattern, and the nodes of a level at most `min(k, N c)` together if there are `N`.
//! `Σ c_n²` is convex, so a level contributes most if all nodes but one are full or empty.
//!
//! **Chains of pairs** ([`chain::of_steps`](super::chain::of_steps)): if no `G_st` grows as `s` moves away from `t`,
//! the `j`-th step of a pattern adds at most `G_tt + 2 Σ_{0<i<j} G_{t-ib,t}`, and the largest sum over steps `b` apart
//! is found step by step. That holds for columns with individual lengths (below), for the blocks of a tree
//! ([`blocks`](super::blocks)) and for exact accounting in a trie ([`trie_pairs`](super::trie_pairs)). Exact if the
//! worst pattern is a row.
//!
//! **Toeplitz matrices** ([`Participation::of_toeplitz`]) with coefficients `c_0 ≥ c_1 ≥ … ≥ 0`: the worst pattern is
//! `1, 1+b, 1+2b, …` (Kalinin, Lampert 2024, arXiv 2405.13763, theorem 2), so the sum of these columns is the exact
//! sensitivity. Proof: `G_st = Σ_{m ≤ T-t} c_m c_{m+t-s}` for `s ≤ t` falls with `t - s` and, at fixed `t - s`, with
//! `t`. The `j`-th step of a pattern is `1 + (j-1) b` at the earliest, and the `i`-th is at least `(j-i) b` before it.
//! So each `G` of a pattern is at most that of its counterpart, and none is negative.
//!
//! **Columns with individual lengths** ([`Participation::of_pairs`]), `R_tj = c_{t-j} w_j` with `w_1 ≤ w_2 ≤ …`: at
//! fixed `t`, `w_s w_t G_st` falls as `s` moves away. So `γ_d = max_t w_{t-d} w_t G_{t-d,t}` falls with `d`, a pair of
//! the pattern with `n - 1` between them is at least `n b` apart, and `s² ≤ k γ_0 + 2 Σ_{0<n<k} (k - n) γ_{nb}`.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// In how many steps one unit takes part, and how far apart they are. The code that forms the batches must enforce it.
///
/// With batches in the same order in every epoch, steps are an epoch apart; with a new order in every epoch they can be
/// adjacent, and the separation is 1.
///
/// ```
/// use evertally::mechanism::Participation;
/// // Ten epochs of 500 batches in a fixed order.
/// let epochs = Participation::new(10, 500)?;
/// assert_eq!((epochs.most(), epochs.separation()), (10, 500));
/// assert!(Participation::new(0, 1).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawParticipation", into = "RawParticipation")]
pub struct Participation {
    most: u64,
    separation: u64,
}

/// How it is written in files.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawParticipation {
    most: u64,
    separation: u64,
}

impl TryFrom<RawParticipation> for Participation {
    type Error = Error;
    fn try_from(raw: RawParticipation) -> Result<Self> {
        Self::new(raw.most, raw.separation)
    }
}

impl From<Participation> for RawParticipation {
    fn from(Participation { most, separation }: Participation) -> Self {
        Self { most, separation }
    }
}

/// Relative head room for one rounded operation on positive numbers, with a margin of eight.
const ROUNDING: f64 = 1.0 / (1u64 << 50) as f64;
/// A bound by pairs evaluates the first distances one by one, then advances by one part in this number.
const FINENESS: u64 = 64;

impl Participation {
    /// A unit in a single step.
    pub const ONCE: Self = Self { most: 1, separation: 1 };

    /// At most `most` steps, at least 1, with at least `separation` from one to the next, at least 1 (1: any steps,
    /// each once).
    ///
    /// # Errors
    /// If one of them is 0.
    pub fn new(most: u64, separation: u64) -> Result<Self> {
        if most == 0 {
            return Err(Error::invalid(
                "an example must take part in at least 1 step; with 0 nothing about it is released",
            ));
        }
        if separation == 0 {
            return Err(Error::invalid(
                "the separation of an example's steps must be at least 1: it takes part in a step only once",
            ));
        }
        Ok(Self { most, separation })
    }

    /// Any number of the `horizon` steps, with at least `separation` from one to the next: `⌈horizon/separation⌉` of
    /// them. DP-FTRL and federated learning state participation this way (min-separation).
    ///
    /// # Errors
    /// If the separation is 0.
    ///
    /// ```
    /// use evertally::mechanism::Participation;
    /// assert_eq!(Participation::at_least_apart(48, 2000)?, Participation::new(42, 48)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[doc(alias = "min_separation")]
    pub fn at_least_apart(separation: u64, horizon: u64) -> Result<Self> {
        Self::new(1, separation)?;
        Self::new(horizon.div_ceil(separation).max(1), separation)
    }

    /// Maximum number of steps of one unit.
    pub fn most(self) -> u64 {
        self.most
    }

    /// The least distance between two steps.
    pub fn separation(self) -> u64 {
        self.separation
    }

    /// Maximum number of the pattern's steps among `width` consecutive ones: `min(most, ⌈width/separation⌉)`.
    ///
    /// ```
    /// use evertally::mechanism::Participation;
    /// assert_eq!(Participation::new(10, 500)?.within(1001), 3);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn within(self, width: u64) -> u64 {
        self.most.min(width.div_ceil(self.separation))
    }

    /// The same, limited to the steps that fit into a horizon.
    pub(in crate::mechanism) fn over(self, horizon: u64) -> Self {
        Self { most: self.within(horizon), ..self }
    }

    /// The bound for any mechanism, from the squared sensitivity for one step.
    pub(in crate::mechanism) fn of_any(self, horizon: u64, once: f64) -> f64 {
        let times = self.within(horizon) as f64;
        rounded_up(times * times * once, 4)
    }

    /// The bound for a 0/1 matrix `R` whose levels are (steps of a node, number of nodes), nodes of a level disjoint.
    pub(in crate::mechanism) fn of_levels(self, horizon: u64, levels: impl Iterator<Item = (u64, u64)>) -> f64 {
        let times = u128::from(self.within(horizon));
        let level = |(width, nodes): (u64, u64)| {
            let in_one = u128::from(self.within(width.min(horizon)));
            // fits: all three are below 2^64, and the product of two smaller than 2^128.
            let held = (in_one * u128::from(nodes)).min(times);
            let (full, rest) = ((held / in_one) as f64, (held % in_one) as f64);
            full * (in_one as f64 * in_one as f64) + rest * rest
        };
        let sum: f64 = levels.map(level).sum();
        // Whole numbers below 2^53 are exact.
        if sum < 9e15 { sum } else { rounded_up(sum, 80) }
    }

    /// The exact value, rounded up, for a Toeplitz matrix with these coefficients: one per step, non-negative and
    /// non-increasing. `operations` bounds the roundings of positive numbers in each of them. `O(T log k)`.
    pub(in crate::mechanism) fn of_toeplitz(self, coefficients: &[f64], operations: u64) -> f64 {
        debug_assert!(
            coefficients.windows(2).all(|pair| pair[0] >= pair[1]),
            "the coefficients of a Toeplitz factor grow"
        );
        let horizon = coefficients.len();
        let sum = self.sum_of_columns(coefficients);
        let squared: f64 = sum.iter().map(|s| s * s).sum();
        rounded_up(squared, 2 * operations + horizon as u64 + 256)
    }

    /// `Σ_{j<k} c_{t-jb}` for every `t`, by doubling `k`: sums of positive numbers only.
    fn sum_of_columns(self, coefficients: &[f64]) -> Vec<f64> {
        let horizon = coefficients.len();
        let times = self.within(horizon as u64);
        let delayed = |values: &[f64], delay: u64, t: usize| {
            // A delay beyond the horizon reaches nothing.
            usize::try_from(delay).ok().and_then(|delay| t.checked_sub(delay)).map_or(0.0, |t| values[t])
        };
        // `sum` has the first `count` columns.
        let (mut sum, mut count) = (coefficients.to_vec(), 1);
        for bit in (0..times.ilog2()).rev() {
            let shift = count * self.separation; // fits: count ≤ times ≤ ⌈T/b⌉, so that this is below 2T
            sum = (0..horizon).map(|t| sum[t] + delayed(&sum, shift, t)).collect();
            count *= 2;
            if times >> bit & 1 == 1 {
                sum = (0..horizon).map(|t| coefficients[t] + delayed(&sum, self.separation, t)).collect();
                count += 1;
            }
        }
        sum
    }

    /// The bound by pairs: `k γ_0 + 2 Σ_{0<n<k} (k-n) γ_{nb}`, from upper bounds of `γ_d`, falling. Large distances are
    /// sampled, and the others use the bound of the next smaller sampled one: `O(log k)` evaluations.
    pub(in crate::mechanism) fn of_pairs(self, horizon: u64, mut gamma: impl FnMut(u64) -> f64) -> f64 {
        let times = self.within(horizon);
        let mut sum = times as f64 * gamma(0);
        let mut first = 1;
        while first < times {
            let next = (first + (first / FINENESS).max(1)).min(times);
            // Σ (k - n) from first to next - 1, twice.
            let pairs = (next - first) as f64 * ((times - first) as f64 + (times - next + 1) as f64);
            sum += pairs * gamma(first * self.separation); // fits: first < times ≤ ⌈T/b⌉
            first = next;
        }
        rounded_up(sum, 1 << 14)
    }
}

/// Times `1 + operations · 2^-50`.
pub(in crate::mechanism) fn rounded_up(value: f64, operations: u64) -> f64 {
    value * (1.0 + operations as f64 * ROUNDING)
}

#[cfg(test)]
mod tests;
