//! The worst patterns of a unit for columns of one length, for every number of events in one pass.
//!
//! Column `t` of a normalized BLT is that of `C` times `w_t = 1/D(n)`, `D(n)² = Σ_{m<n} c_m²` for its `n = T-t+1`
//! entries. Let `ρ_d(n)` be the inner product of two columns `d` apart of which the later one has `n` entries.
//!
//! **Lemma.** `ρ_d(n)` does not fall as `n` grows. *Proof.* `Σ ω_i/θ_i < 1` ([`Buffers`](super::Buffers)), so
//! `c_m = ∫ θ^m dμ` for a positive measure `μ` on `[0, 1)`, with the rest of the mass at 0. By Cauchy and Schwarz
//! `c_m² ≤ c_{m-1} c_{m+1}`: the sequence falls, and `c_{m+d}/c_m` grows with `m`. Let `f(n) = Σ_{m<n} c_m c_{m+d}`, so
//! that `ρ_d(n) = f(n) / (D(n) D(n+d))`. As `f(n) = Σ_{m<n} c_m² (c_{m+d}/c_m) ≤ D(n)² c_{n+d}/c_n`,
//!
//! ```text
//! f(n+1)/f(n) = 1 + c_n c_{n+d}/f(n) ≥ 1 + c_n²/D(n)² = D(n+1)²/D(n)².
//! ```
//!
//! As `c` falls and `D` grows, `D(n+1)²/D(n)² ≥ D(n+d+1)²/D(n+d)²`. So `f` grows at least as fast as the geometric mean
//! of `D(n)²` and `D(n+d)²`, which is the denominator. ∎
//!
//! So the chains of [`chain`](crate::mechanism::accounting::chain) are largest if every step of a pattern is as early
//! as possible: at `t_k = 1 + (k-1)b`. With `Q_k = 1 + 2 Σ_{i<k} G_{t_i t_k}` and `f_k = 2 G_{t_1 t_k}` (`f_1 = 0`)
//! such a chain of `K` steps with `c` events is `c² Σ Q_k`, exactly. If one of the steps, `p`, has `r < c` events, and
//! counts as the farthest of those before the later ones, it is
//!
//! ```text
//! c² Σ_{k<p} Q_k + r (r + c (Q_p - 1)) + c Σ_{p<k≤K} (c Q_k - (c-r) f_k)
//!   = c² Σ_{k≤K} Q_k - c (c-r) Σ_{k≤K} f_k - (c-r) (c (Q_p - Σ_{k≤p} f_k) + r),
//! ```
//!
//! largest if `Q_p - Σ_{k≤p} f_k` is least.

use super::participation::Packing;
use crate::mechanism::SearchWatch;
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::state_space::response::{BufferRow, Modes, PartialFractions, joined, row};

/// Roundings are counted as if they grew with the horizon up to here. (They grow with the steps of a pattern.)
const MAX_HORIZON_ROUNDINGS: u64 = 1 << 20;
/// Decays are computed from those of the next step of a pattern, and from scratch once every this many steps.
const CHUNK: u64 = 64;
/// A step of a pattern counts as this many operations.
const STEP_OPERATIONS: u64 = 64;

/// The largest squared norms for several numbers of events, in non-decreasing order, rounded up; infinite from the one
/// on at which the watch cancels the computation. `O(k d²)` for `k` steps with events.
pub(super) fn normalized(
    response: &PartialFractions,
    horizon: u64,
    unit: &Packing,
    events: &[u64],
    watch: SearchWatch<'_>,
) -> Vec<f64> {
    let (mut watch, mut is_cancelled) = (watch.paced(), false);
    let mut rows = PatternSteps::new(&response.direct, horizon, unit.separation);
    let squared = |events: &u64| {
        let (full, rest) = unit.pattern(*events, horizon);
        while rows.number < full + u64::from(rest > 0.0) {
            is_cancelled |= watch.is_cancelled_before(STEP_OPERATIONS);
            if is_cancelled {
                return f64::INFINITY;
            }
            rows.advance();
        }
        let (each, missing) = (unit.each, unit.each - rest);
        let mut squared = each * each * rows.sums;
        if rest > 0.0 {
            squared -= missing * (each * rows.farthest + each * rows.least + rest);
        }
        // Sums of positive numbers with a few roundings each. Slightly less margin than in earlier versions, so that no
        // plan made by them has too little noise by a last digit.
        let operations = horizon.min(MAX_HORIZON_ROUNDINGS) + full.min(horizon);
        rounded_up(squared, 4 * operations - operations / 32 + 192)
    };
    events.iter().map(squared).collect()
}

/// The steps of a packed pattern, one after the other.
struct PatternSteps<'a> {
    modes: &'a Modes,
    horizon: u64,
    separation: u64,
    /// `θ^(b-1)` and `1 - θ^b`.
    kept: BufferRow,
    apart: BufferRow,
    /// `1 - θ^(n-1)` of the following steps, the next one last.
    ahead: Vec<BufferRow>,
    /// `Σ_{i<k} w_i θ^((k-i)b-1)`, and the part of the first step.
    echoes: BufferRow,
    first: BufferRow,
    /// Steps added so far.
    number: u64,
    /// `Σ Q_k`.
    sums: f64,
    /// `Σ f_k`.
    farthest: f64,
    /// The least `Q_p - Σ_{k≤p} f_k`.
    least: f64,
}

impl<'a> PatternSteps<'a> {
    fn new(modes: &'a Modes, horizon: u64, separation: u64) -> Self {
        let kept = row(modes.poles.iter().map(|pole| libm::exp(-((separation - 1) as f64) * pole.a)));
        Self {
            modes,
            horizon,
            separation,
            kept,
            apart: modes.decayed(separation as f64),
            ahead: Vec::with_capacity(CHUNK as usize),
            echoes: BufferRow::default(),
            first: BufferRow::default(),
            number: 0,
            sums: 0.0,
            farthest: 0.0,
            least: f64::INFINITY,
        }
    }

    fn advance(&mut self) {
        let decayed = self.decayed();
        let modes = self.modes;
        let couplings = modes.couplings(&decayed);
        let weight = 1.0 / libm::sqrt(1.0 + modes.weighted(&couplings));
        let count = modes.poles.len();
        let partner = |i: usize| modes.weights[i] * (1.0 + (1.0 - modes.poles[i].q) * couplings[i]);
        let product = |of: &BufferRow| 2.0 * weight * (0..count).map(|i| partner(i) * of[i]).sum::<f64>();
        let own = 1.0 + product(&self.echoes);
        self.farthest += product(&self.first);
        self.sums += own;
        self.least = self.least.min(own - self.farthest);
        for i in 0..count {
            let added = weight * self.kept[i];
            self.echoes[i] = self.echoes[i] * (1.0 - self.apart[i]) + added;
            self.first[i] = if self.number == 0 { added } else { self.first[i] * (1.0 - self.apart[i]) };
        }
        self.number += 1;
    }

    /// `1 - θ^(n-1)` of the next step.
    fn decayed(&mut self) -> BufferRow {
        if self.ahead.is_empty() {
            let room = self.horizon.div_ceil(self.separation);
            let end = (self.number + CHUNK).min(room);
            let mut decayed = self.modes.decayed((self.horizon - 1 - (end - 1) * self.separation) as f64);
            for _ in self.number..end {
                self.ahead.push(decayed);
                decayed = row(decayed.iter().zip(&self.apart).map(|(longer, apart)| joined(*longer, *apart)));
            }
        }
        self.ahead.pop().expect("a pattern has no more steps than fit the horizon")
    }
}

#[cfg(test)]
mod tests;
