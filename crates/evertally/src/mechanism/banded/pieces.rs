//! A banded Toeplitz matrix whose coefficients are whole numbers, equal in pieces.
//!
//! `R̃_j = c_k` for `e_k ≤ j < e_(k+1)`, with `e_0 = 0`, `e_1 = 1` and `c_0 = 2^20`. With the running sums `V` of a
//! sequence `v`, `Σ_j R̃_j v_(t-j) = Σ_k c_k (V_(t-e_k) - V_(t-e_(k+1)))`: one product per piece, not per band.

use crate::mechanism::{SearchWatch, Workload};
use crate::privacy::{Signs, Spread};

/// Bits of the integer coefficients: the first is `2^20`.
pub(super) const COEFFICIENT_BITS: u32 = 20;

/// The coefficients, and values derived from them.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::mechanism) struct Pieces {
    /// `e_0 … e_n`: first bands of the pieces, and the number of bands.
    pub(super) edges: Vec<u64>,
    /// `c_0 …`.
    pub(super) values: Vec<i64>,
    /// `c_0 = 2^bits`.
    pub(super) bits: u32,
}

impl Pieces {
    /// `R = I`: noise on each step.
    pub(in crate::mechanism) fn identity() -> Self {
        Self { edges: vec![0, 1], values: vec![1], bits: 0 }
    }

    /// From real coefficients, the first of which counts as 1.
    pub(super) fn rounded(edges: &[u64], values: &[f64]) -> Self {
        let unit = f64::from(1 << COEFFICIENT_BITS) / values[0];
        let round = |value: &f64| libm::round(value * unit) as i64; // fits: no coefficient is larger than the first
        Self { edges: edges.to_vec(), values: values.iter().map(round).collect(), bits: COEFFICIENT_BITS }
    }

    /// Number of bands.
    pub(super) fn bands(&self) -> u64 {
        *self.edges.last().expect("one piece at least")
    }

    /// The pieces after the first: start, end and value.
    pub(super) fn after_first(&self) -> impl Iterator<Item = (u64, u64, i64)> + '_ {
        self.edges.windows(2).zip(&self.values).skip(1).map(|(ends, value)| (ends[0], ends[1], *value))
    }

    fn lengths(&self) -> impl Iterator<Item = (u64, i64)> + '_ {
        self.edges.windows(2).zip(&self.values).map(|(ends, value)| (ends[1] - ends[0], *value))
    }

    /// `Σ R̃_j²` over the first `bands` bands. fits: coefficients are at most 2^20, and there are fewer than 2^20
    /// bands.
    pub(super) fn square(&self, bands: u64) -> u128 {
        let within = |(ends, value): (&[u64], &i64)| {
            let length = ends[1].min(bands).saturating_sub(ends[0]);
            u128::from(length) * u128::from(value.unsigned_abs()).pow(2)
        };
        self.edges.windows(2).zip(&self.values).map(within).sum()
    }

    /// `Σ |R̃_j|`.
    pub(super) fn absolute_sum(&self) -> u128 {
        self.lengths().map(|(length, value)| u128::from(length) * u128::from(value.unsigned_abs())).sum()
    }

    /// `g_d = Σ_j R̃_j R̃_(j+d)` for every `d` below the number of bands, exactly. `O(bands + n²)`.
    ///
    /// With the jumps `δ` of the coefficients, `R̃ = δ/(1-z)`, so that `2 g_d - g_(d-1) - g_(d+1)` are the inner
    /// products of the jumps at that distance.
    pub(super) fn autocorrelation(&self) -> Vec<i128> {
        let bands = self.bands() as usize;
        let mut jumps: Vec<(usize, i128)> = Vec::with_capacity(self.edges.len());
        let mut before = 0i128;
        for (edge, value) in self.edges.iter().zip(self.values.iter().map(|v| i128::from(*v)).chain([0])) {
            jumps.push((*edge as usize, value - before));
            before = value;
        }
        let mut products = vec![0i128; bands + 1];
        for (later, (end, a)) in jumps.iter().enumerate() {
            for (start, b) in &jumps[..=later] {
                products[end - start] += a * b;
            }
        }
        // fits: every g is at most Σ R̃², below 2^60
        let mut found = vec![0i128; bands + 2];
        for d in (1..=bands).rev() {
            found[d - 1] = 2 * found[d] - found[d + 1] - products[d];
        }
        found.truncate(bands);
        found
    }

    /// `l_j = (W R⁻¹)_j` until the remainder is negligible, with `Σ |(R⁻¹)_j|`; `None` if it does not fade.
    pub(super) fn response(&self, workload: Workload) -> Option<BandedResponse> {
        self.response_watched(workload, None, SearchWatch::NONE)
    }

    /// The same, over at most `ends` steps if there is an end; `None` also if the watch cancels the computation.
    pub(super) fn response_watched(
        &self,
        workload: Workload,
        ends: Option<u64>,
        watch: SearchWatch<'_>,
    ) -> Option<BandedResponse> {
        BandedResponse::new(self, workload, ends, watch)
    }
}

/// The response of the release to the noise of one step.
#[derive(Clone, Debug)]
pub(super) struct BandedResponse {
    /// `l_j`.
    pub(super) left: Vec<f64>,
    /// `Σ |(R⁻¹)_j|`.
    pub(super) inverse_sum: f64,
}

/// The part of `‖l‖²` that is left out, relatively.
const REMAINDER_TOLERANCE: f64 = 1e-9;
/// A response that takes longer than this many lengths of the bands is treated as one that does not fade.
const MAX_FADE_LENGTHS: usize = 4000;

impl BandedResponse {
    fn new(pieces: &Pieces, workload: Workload, ends: Option<u64>, watch: SearchWatch<'_>) -> Option<Self> {
        let mut watch = watch.paced();
        let ends = ends.map_or(usize::MAX, |ends| ends as usize);
        let unit = libm::exp2(-f64::from(pieces.bits));
        let after: Vec<(usize, usize, f64)> =
            pieces.after_first().map(|(from, to, c)| (from as usize, to as usize, c as f64 * unit)).collect();
        let block = (pieces.bands().max(workload.reach(1 << 10).min(1 << 20)) as usize).max(16);
        let decay = match workload {
            Workload::Decay(half_life) => Workload::decay(half_life),
            _ => 0.0,
        };
        // Running sums of R⁻¹, with a 0 in front.
        let mut sums = vec![0.0f64];
        let (mut left, mut inverse_sum, mut total, mut faded) = (Vec::new(), 0.0, 0.0, 0.0f64);
        for number in 0..MAX_FADE_LENGTHS {
            let mut energy = 0.0;
            for t in number * block..((number + 1) * block).min(ends) {
                if watch.is_cancelled_before(after.len() as u64) {
                    return None;
                }
                let sum_at = |lag: usize| sums[(t + 1).saturating_sub(lag)];
                let past: f64 = after.iter().map(|(from, to, c)| c * (sum_at(*from) - sum_at(*to))).sum();
                let inverse = f64::from(u8::from(t == 0)) - past;
                inverse_sum += inverse.abs();
                faded = faded * decay + inverse;
                sums.push(sums[t] + inverse);
                let entry = match workload {
                    Workload::Sum => sums[t + 1],
                    Workload::Window(width) => sums[t + 1] - sums[(t + 1).saturating_sub(width as usize)],
                    Workload::Decay(_) => faded,
                    Workload::Increments => inverse,
                };
                energy += entry * entry;
                left.push(entry);
            }
            total += energy;
            if energy.is_nan() || energy > 1e6 * total.max(1.0) {
                return None;
            }
            let is_over = (number + 1) * block >= ends;
            if is_over || (number > 0 && energy < REMAINDER_TOLERANCE * total) {
                return Some(Self { left, inverse_sum });
            }
        }
        None
    }
}

/// Bounds of how far a unit's events move the sums, by the distance of its steps.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    /// `max g⁺` from a distance on: for events of one sign.
    alike: Vec<i128>,
    /// `max |g|`: for events of either sign.
    either: Vec<i128>,
    /// `max g⁻`: for removed events against added ones.
    opposed: Vec<i128>,
}

impl Distances {
    pub(super) fn new(autocorrelation: &[i128]) -> Self {
        let from_on = |of: fn(i128) -> i128| {
            let mut largest: Vec<i128> = autocorrelation.iter().map(|g| of(*g)).collect();
            for d in (1..largest.len()).rev() {
                largest[d - 1] = largest[d - 1].max(largest[d]);
            }
            largest
        };
        Self { alike: from_on(|g| g.max(0)), either: from_on(i128::abs), opposed: from_on(|g| (-g).max(0)) }
    }

    /// The largest `‖R̃ u‖²`, see the [module](super). `None` if it does not fit. `O(bands/b)`.
    pub(super) fn spread_squared(&self, spread: Spread) -> Option<u128> {
        let bound = match spread.signs {
            Signs::Either => &self.either,
            Signs::One | Signs::Exchanged => &self.alike,
        };
        let packed = packed(bound, spread)?;
        if spread.signs != Signs::Exchanged {
            return Some(packed);
        }
        packed.checked_add(self.exchanged(spread)?)
    }

    /// The largest cross term of added and removed events: `total · c · Σ_i g⁻(⌊i b/2⌋)`.
    fn exchanged(&self, spread: Spread) -> Option<u128> {
        let steps = spread.total.div_ceil(spread.per_step);
        let mut sum = 0u128;
        for i in 0..steps {
            let distance = usize::try_from(u128::from(i) * u128::from(spread.separation) / 2).ok();
            let Some(g) = distance.and_then(|d| self.opposed.get(d)).filter(|g| **g > 0) else { break };
            sum = sum.checked_add(g.unsigned_abs())?;
        }
        sum.checked_mul(spread.total.into())?.checked_mul(spread.per_step.into())
    }
}

/// `Σ_st u_s u_t g(|s - t|)` over the packed pattern, with the rest wherever it adds most.
fn packed(largest: &[i128], spread: Spread) -> Option<u128> {
    let each = spread.per_step.min(spread.total);
    let (full, rest) = (u128::from(spread.total / each), u128::from(spread.total % each));
    let (each, own) = (u128::from(each), largest[0].unsigned_abs());
    let at = |number: u64| {
        let distance = usize::try_from(number.saturating_mul(spread.separation)).ok()?;
        largest.get(distance).map(|g| g.unsigned_abs())
    };
    let mut pairs = 0u128;
    for (apart, number) in (1..).zip((1..full).rev()) {
        let Some(g) = at(apart) else { break };
        pairs = pairs.checked_add(g.checked_mul(number)?)?;
    }
    let mut rest_pairs = 0u128;
    for i in 1..=full {
        let Some(g) = at((i as u64).div_ceil(2)) else { break };
        rest_pairs = rest_pairs.checked_add(g)?;
    }
    let of_full = own.checked_mul(full)?.checked_add(pairs.checked_mul(2)?)?;
    let of_full = of_full.checked_mul(each.checked_mul(each)?)?;
    let of_rest = own.checked_mul(rest)?.checked_add(rest_pairs.checked_mul(2 * each)?)?.checked_mul(rest)?;
    of_full.checked_add(of_rest)
}
