//! Lazy noise of a BLT: the release of any later step, at a cost that does not depend on its distance.
//!
//! **The state.** As in [figures](crate::mechanism::toeplitz::blt::figures), let `u_i(t) = Σ_{s≤t} θ̂_i^(t-s) z_s`. The
//! noise of a release is `N = M + D Σ λ_i u_i`, where `M` is a random walk with increments `D λ_0 z` that also grows by
//! `δ Σ λ_i u_i` where `D` falls by `δ`. The state holds the words `M, D λ_1 u_1, …, D λ_d u_d`: **the noise is their
//! sum**, and it is Markov.
//!
//! **A leap** of `n` steps over which `D` does not change takes `u_i` to `θ̂_i^n u_i + e_i` and `M` to `M + D λ_0 e_0`,
//! where `e_0` is the sum of the new `z`, and `e_i = Σ_{j<n} θ̂_i^j z_(t-j)` the one with a pole. They are normal, with
//! covariances that are geometric sums: `Cov(e_i, e_k) = (1 - (θ̂_i θ̂_k)^n) / (1 - θ̂_i θ̂_k)`, and `θ̂_0 = 1`. Two
//! successive leaps are one leap ([`Leap::then`](leap::Leap::then)), also over falls of `D`, with `M` growing by
//! `Σ c_i λ_i u_i` of the old state and by a normal number that is correlated with all `e_i`. Leaps over runs of whole
//! segments are kept in a [table](spans), so that any skip takes at most four pieces: to the end of its segment, two of
//! the table, and on to its target.
//!
//! **Nothing cancels.** `λ_0, λ_i, D, δ` are positive, so all coefficients, variances and covariances are sums and
//! products of positive numbers. [`Powers`](powers::Powers) holds `1 - θ̂^n`, so variances and covariances have
//! relative errors of a few dozen roundings, for poles next to 1 as for all others. The kept part of the old state has
//! factors `θ̂^n` with absolute errors of a few roundings of 1, which is as accurate relative to the added noise.
//!
//! **The covariance may be singular**: over `n ≤ d` steps it has rank `n`, and over gaps that are short for a buffer
//! its `e_i` and `e_0` agree to many digits. [`factor`] gives `F` with `F Fᵀ = Q + E` and `|E_ik| ≤ ε √(Q_ii Q_kk)`,
//! where `ε` is about `10^-15` (tests: below `10^-14`). That is enough: the leap enters a later release as `Σ f_i x_i`
//! with factors `f_i ≥ 0`, and as `Q` has no negative entry,
//!
//! ```text
//! |Σ f_i f_k E_ik| ≤ ε (Σ f_i √Q_ii)² ≤ ε (d+1) Σ f_i² Q_ii ≤ ε (d+1) Σ f_i f_k Q_ik,
//! ```
//!
//! and for two releases with factors `f` and `g`, `|Σ f_i g_k E_ik| ≤ ε (d+1) √(Var Var')`: every covariance of
//! releases is accurate up to a few `10^-14` of the standard deviations.
//!
//! **Rounding of the state** is relative to its words, at each skip. After any number of skips, it is a few roundings
//! of the standard deviations of the words times the square root of that number, far below the unit of any release.

mod factor;
mod leap;
mod powers;
pub(in crate::mechanism) mod response;
pub(in crate::mechanism) mod segments;
mod spans;

use leap::{Leap, LeapConstants};
use response::PartialFractions;
use segments::Segment;
use spans::Spans;
use std::fmt;

/// The noise of a BLT as a Gaussian state-space model that skips any number of steps in `O(d³)`, with `d` buffers and
/// `d + 1` words of state. The noise at the steps where it stops has the joint law of the entries of `L z` for
/// independent standard normal `z`; covariances are accurate up to a few `10^-14` of the standard deviations.
///
/// Built by [`Blt::lazy`](crate::mechanism::Blt::lazy); it holds no keys, and use does not change it.
///
/// ```
/// use evertally::mechanism::{Blt, ColumnScaling, Mechanism, Objective};
/// let blt = Blt::optimised(1 << 20, ColumnScaling::Normalized, 4, Objective::Max)?;
/// let lazy = blt.lazy();
/// let mut state = vec![0.0; lazy.state_words()];
/// // The first draw is 1 and all others are 0; a real caller passes independent standard normals.
/// let mut normals = std::iter::once(1.0).chain(std::iter::repeat(0.0));
/// lazy.skip(&mut state, 0, 1, || normals.next().unwrap());
/// assert!((lazy.noise(&state).powi(2) / blt.row_norm_squared(1) - 1.0).abs() < 1e-12);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone)]
pub struct LazyBlt {
    shape: LeapConstants,
    stages: Vec<ScaleSegment>,
    spans: Spans,
}

/// A segment of steps with one scale.
#[derive(Clone, Copy)]
struct ScaleSegment {
    /// Its last step.
    last: u64,
    /// `D`.
    scale: f64,
}

impl LazyBlt {
    /// From a response and segments of weights `2^weight_bits / D`.
    pub(in crate::mechanism) fn new(response: &PartialFractions, segments: &[Segment], weight_bits: u32) -> Self {
        let unit = libm::exp2(f64::from(weight_bits));
        let stage = |segment: &Segment| ScaleSegment { last: segment.last, scale: unit / f64::from(segment.weight) };
        let stages: Vec<ScaleSegment> = segments.iter().map(stage).collect();
        let shape = LeapConstants::new(response, stages[stages.len() - 1].last);
        let mut before = 0;
        let whole = stages.windows(2).map(|pair| {
            let steps = pair[0].last - before;
            before = pair[0].last;
            shape.leap(steps, pair[0].scale, pair[0].scale - pair[1].scale)
        });
        let spans = Spans::new(&shape, whole.collect());
        Self { shape, stages, spans }
    }

    /// Length of a state: `d + 1` for `d` buffers.
    pub fn state_words(&self) -> usize {
        self.shape.buffers() + 1
    }

    /// Moves `state` from step `from` to step `to` with independent standard `normal` numbers. All zeros is the state
    /// at step 0. At most `d + 1` numbers are drawn; how many depends on `from` and `to` only. `O(d³ + log S)` for `S`
    /// segments.
    ///
    /// # Panics
    /// Unless `from < to ≤ T` and the state has [`state_words`](Self::state_words) words.
    pub fn skip<F: FnMut() -> f64>(&self, state: &mut [f64], from: u64, to: u64, normal: F) {
        assert!(from < to && to <= self.stages[self.stages.len() - 1].last, "a skip goes forwards and stays below T");
        let (first, last) = (self.stage_of(from.max(1)), self.stage_of(to));
        let (old, new) = (self.stages[first].scale, self.stages[last].scale);
        let leap = self.leap(first, from, last, to);
        let (walk, buffers) = state[..self.state_words()].split_first_mut().expect("a state is not empty");
        let mut kept = 0.0;
        for (i, word) in buffers.iter_mut().enumerate() {
            kept += leap.gains[i] * *word;
            *word *= (1.0 - leap.decayed[i]) * (new / old);
        }
        let (on_walk, on_buffers) = factor::draw(&self.shape, &leap, normal);
        *walk += kept / old + on_walk;
        for (word, drawn) in buffers.iter_mut().zip(on_buffers) {
            *word += new * drawn;
        }
    }

    /// The noise of the release at the state's step, for `z` of variance 1.
    pub fn noise(&self, state: &[f64]) -> f64 {
        state[..self.state_words()].iter().sum()
    }

    /// The index of the segment of a step from 1.
    fn stage_of(&self, step: u64) -> usize {
        self.stages.partition_point(|stage| stage.last < step)
    }

    /// From a step of the segment `first` to one of the segment `last`.
    fn leap(&self, first: usize, from: u64, last: usize, to: u64) -> Leap {
        let scale = self.stages[last].scale;
        if first == last {
            return self.shape.leap(to - from, scale, 0.0);
        }
        let ScaleSegment { last: end, scale: old } = self.stages[first];
        let mut leap = self.shape.leap(end - from, old, old - self.stages[first + 1].scale);
        for piece in self.spans.pieces(first + 1, last) {
            leap = leap.then(&self.shape, piece);
        }
        leap.then(&self.shape, &self.shape.leap(to - self.stages[last - 1].last, scale, 0.0))
    }
}

impl fmt::Debug for LazyBlt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyBlt")
            .field("buffers", &self.shape.buffers())
            .field("segments", &self.stages.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
