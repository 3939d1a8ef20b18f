//! The sensitivity of a BLT to a unit that takes part in several steps; the bounds are those of
//! [`participation`](crate::mechanism::accounting::participation).
//!
//! **Plain.** The worst pattern is `1, 1+b, 1+2b, …`. From its `j`-th step (from 0) to the next, the sum of its columns
//! is `1 + Σ_i ω_i θ_i^(b-1) P_i(j-1)`, then `Σ_i ω_i P_i(j) θ_i^m` for `m = 0, 1, …`, with
//! `P_i(j) = Σ_{l≤j} θ_i^(lb)`. Squares of such sums of exponentials add up in closed form. `P_i(j)` grows with `j`:
//! after very many steps, that of the last step is used as a bound.
//!
//! **Normalized.** Columns `s < t`, `d` apart, of which the later has `n` entries, have the inner product `w_s w_t G`,
//!
//! ```text
//! G = Σ_{m<n} c_m c_(m+d) = Σ_i ω_i θ_i^(d-1) (1 + θ_i Σ_k ω_k Σ_{m<n-1} (θ_i θ_k)^m).
//! ```
//!
//! `G` grows with `n`, and weights are constant on segments: only the first step of a segment and the one `d` after it
//! have to be considered as `t`. [Chains](chain) of single steps, or of blocks of them, give smaller bounds.

use super::runs::WeightedColumns;
use crate::mechanism::accounting::chain::{self, ColumnProducts};
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::state_space::response::{BufferRow, Modes, PartialFractions, joined, row};
use crate::mechanism::state_space::segments::Segment;
use crate::mechanism::{MAX_BUFFERS, Participation, SearchWatch};
use crate::privacy::Spread;

/// Margin for the rounding of these sums of positive numbers, as for column norms.
const OPERATIONS: u64 = 1 << 11;
/// Columns of single steps are used if all chains together have at most this many of them.
const MAX_CHAIN_COLUMNS: u64 = 1 << 20;
/// For longer horizons, this many pairs of blocks of columns.
const MAX_BLOCK_PAIRS: u64 = 1 << 14;
/// The same for columns with other weights, which have no closed form to compare with.
const MAX_WEIGHTED_COLUMNS: u64 = 1 << 22;
const MAX_WEIGHTED_BLOCKS: u64 = 1 << 19;
/// After this many steps of a pattern the next ones count as if they were the last.
pub(super) const MAX_PATTERN_STEPS: u64 = 1 << 16;

/// The squared norm of the sum of the columns of a worst pattern of `C`, rounded up. `O(d² min(k, 2^16))`.
pub(super) fn plain(response: &PartialFractions, horizon: u64, participation: Participation) -> f64 {
    sums_of_columns(response, horizon, participation.separation(), &[participation.within(horizon)])[0]
}

/// The same for several numbers of steps, in non-decreasing order, that fit the horizon. `O(d² min(k, 2^16))` for the
/// largest.
fn sums_of_columns(response: &PartialFractions, horizon: u64, separation: u64, numbers: &[u64]) -> Vec<f64> {
    let modes = &response.direct;
    // θ^b = θ^(b-1) θ, and the remainder of a column after b - 1 steps.
    let kept = row(modes.poles.iter().map(|pole| libm::exp(-((separation - 1) as f64) * pole.a)));
    let next =
        |p: &BufferRow| row(modes.poles.iter().enumerate().map(|(i, pole)| 1.0 + kept[i] * (1.0 - pole.q) * p[i]));
    let echoes =
        |before: &BufferRow| (0..modes.poles.len()).map(|i| modes.weights[i] * kept[i] * before[i]).sum::<f64>();
    let first = |before: &BufferRow| (1.0 + echoes(before)) * (1.0 + echoes(before));
    let pairs = energies(modes, separation - 1);
    let stretch = |before: &BufferRow, now: &BufferRow| {
        let rest = if separation == 1 { 0.0 } else { energy(now, &pairs) };
        first(before) + rest
    };
    let end =
        |length: u64, before: &BufferRow, now: &BufferRow| first(before) + energy(now, &energies(modes, length - 1));
    let (mut sum, mut before, mut added) = (0.0, BufferRow::default(), 0);
    let mut squared = |times: &u64| {
        let times = *times;
        let last = horizon - (times - 1) * separation; // fits: times ≤ ⌈T/b⌉
        while added < (times - 1).min(MAX_PATTERN_STEPS) {
            let now = next(&before);
            sum += stretch(&before, &now);
            before = now;
            added += 1;
        }
        let squared = if times <= MAX_PATTERN_STEPS {
            sum + end(last, &before, &next(&before))
        } else {
            // times · b is below 2T ≤ 2^63, and θ^b far enough from 1: the gap of a pole is at least 2^-44.
            let (whole, once) = ((times * separation) as f64, separation as f64);
            let limit = row(modes.poles.iter().map(|pole| pole.decayed(whole) / pole.decayed(once)));
            sum + ((times - MAX_PATTERN_STEPS - 1) as f64 * stretch(&limit, &limit) + end(last, &limit, &limit))
        };
        // Slightly less margin than in earlier versions, so that no plan made by them has too little noise by a last
        // digit.
        rounded_up(squared, OPERATIONS - 64 + 2 * MAX_PATTERN_STEPS.min(times))
    };
    numbers.iter().map(&mut squared).collect()
}

/// The squared norm of `C u` for the worst counts `u` of a unit in one running sum, rounded up: `c` events in each of
/// the steps `1, 1+b, …` and the rest in the step that follows. (Exchanging events, and moving them to earlier steps or
/// closer to each other, increases the norm; in a packed pattern, giving the rest to the last step loses least.) For
/// several numbers of events, in non-decreasing order. `O(d² min(k, 2^16))` for the largest.
pub(super) fn packed(response: &PartialFractions, horizon: u64, unit: &Packing, events: &[u64]) -> Vec<f64> {
    let separation = unit.separation;
    let patterns: Vec<_> = events.iter().map(|events| unit.pattern(*events, horizon)).collect();
    let numbers: Vec<u64> = patterns.iter().map(|(full, _)| *full).collect();
    let squares = sums_of_columns(response, horizon, separation, &numbers);
    let with_rest = |(square, (full, rest)): (f64, (u64, f64))| {
        let whole = unit.each * unit.each * square;
        let place = full * separation; // fits: below T + b
        if rest == 0.0 || place >= horizon {
            return whole;
        }
        // The inner product of the last column, which begins at `place`, with all before it.
        let modes = &response.direct;
        let couplings = modes.couplings(&modes.decayed((horizon - place - 1) as f64));
        let product = |i: usize| {
            let pole = modes.poles[i];
            let apart = (separation as f64, place as f64);
            let columns = libm::exp(-(apart.0 - 1.0) * pole.a) * pole.decayed(apart.1) / pole.decayed(apart.0);
            modes.weights[i] * (1.0 + (1.0 - pole.q) * couplings[i]) * columns
        };
        let products: f64 = (0..modes.poles.len()).map(product).sum();
        let square = response.column_norm_squared((horizon - place) as f64);
        rounded_up(whole + rest * (2.0 * unit.each * products + rest * square), OPERATIONS)
    };
    squares.into_iter().zip(patterns).map(with_rest).collect()
}

/// How the events of a unit are packed: `each` in every step, `separation` apart.
pub(super) struct Packing {
    pub(super) each: f64,
    pub(super) separation: u64,
    per_step: u64,
}

impl Packing {
    /// For a unit with fewer events in a step than in all.
    pub(super) fn new(spread: Spread) -> Self {
        Self { each: spread.per_step as f64, separation: spread.separation, per_step: spread.per_step }
    }

    /// How many steps are full for this many events, and how many events are in the next one, within a horizon.
    pub(super) fn pattern(&self, events: u64, horizon: u64) -> (u64, f64) {
        let room = horizon.div_ceil(self.separation);
        let (full, rest) = (events / self.per_step, events % self.per_step);
        if full >= room { (room, 0.0) } else { (full, rest as f64) }
    }
}

/// `ω_i ω_j Σ_{m<n} (θ_i θ_j)^m`.
fn energies(modes: &Modes, n: u64) -> [BufferRow; MAX_BUFFERS] {
    let (decayed, weights) = (modes.decayed(n as f64), &modes.weights);
    std::array::from_fn(|i| {
        let term = |j: usize| weights[i] * weights[j] * joined(decayed[i], decayed[j]) * modes.pairs[i][j];
        row((0..modes.poles.len()).map(term))
    })
}

/// `Σ_{m<n} (Σ_i ω_i P_i θ_i^m)²`, from the [sums](energies) for every pair. Unused buffers add nothing.
fn energy(factors: &BufferRow, pairs: &[BufferRow; MAX_BUFFERS]) -> f64 {
    let with = |pairs: &BufferRow| pairs.iter().zip(factors).map(|(pair, factor)| pair * factor).sum::<f64>();
    factors.iter().zip(pairs).map(|(factor, pairs)| factor * with(pairs)).sum()
}

/// The bounds by pairs and by chains for columns with the weights of these segments; infinite if the watch cancels the
/// computation. `O(d² S log k)` for `S` segments.
pub(super) fn normalized(
    (response, segments): (&PartialFractions, &[Segment]),
    weight_bits: u32,
    (horizon, participation): (u64, Participation),
    watch: SearchWatch<'_>,
) -> f64 {
    let weights = RisingWeights::new(segments, weight_bits);
    let firsts: Vec<u64> = std::iter::once(1).chain(segments.iter().map(|s| s.last + 1)).collect();
    let gamma = |distance: u64| {
        let later = firsts.iter().flat_map(|first| [first.max(&(distance + 1)), &(first + distance)].map(|t| *t));
        let inner =
            |t: u64| weights.at(t - distance) * weights.at(t) * inner_product(response, horizon - t + 1, distance);
        later.filter(|t| *t <= horizon).map(inner).fold(0.0, f64::max)
    };
    let pairs = rounded_up(participation.of_pairs(horizon, gamma), OPERATIONS);
    let times = participation.within(horizon);
    let chains = match times.saturating_mul(horizon) {
        _ if times == 1 => f64::INFINITY,
        ..=MAX_CHAIN_COLUMNS => {
            let columns = WeightedColumns::new(response, (1..=horizon).map(|step| weights.at(step)).collect());
            chain::of_steps_watched(&columns, participation, (MAX_CHAIN_COLUMNS, OPERATIONS), watch)
        }
        _ => {
            let columns = LongColumns { response, horizon, weights: &weights };
            chain::of_steps_watched(&columns, participation, (MAX_BLOCK_PAIRS, OPERATIONS), watch)
        }
    };
    pairs.min(chains)
}

/// The bound by chains for columns whose weights may change at every step, up to 2^20 of them; infinite if the watch
/// cancels the computation. `O(d T k)`, or of blocks of steps if that is more than 2^22 d.
pub(super) fn weighted(
    (response, segments): (&PartialFractions, &[Segment]),
    weight_bits: u32,
    (horizon, participation): (u64, Participation),
    watch: SearchWatch<'_>,
) -> f64 {
    let columns = WeightedColumns::new(response, rising_weights(segments, weight_bits, horizon));
    let work = participation.within(horizon).saturating_mul(horizon);
    let work = if work <= MAX_WEIGHTED_COLUMNS { MAX_WEIGHTED_COLUMNS } else { MAX_WEIGHTED_BLOCKS };
    chain::of_steps_watched(&columns, participation, (work, OPERATIONS), watch)
}

/// The weights of all steps, which do not fall.
pub(super) fn rising_weights(segments: &[Segment], weight_bits: u32, horizon: u64) -> Vec<f64> {
    let weights = RisingWeights::new(segments, weight_bits);
    (1..=horizon).map(|step| weights.at(step)).collect()
}

/// Weights of segments that do not fall: the bounds need that, and their rounding must not violate it.
struct RisingWeights {
    /// The last step of each segment.
    lasts: Vec<u64>,
    weights: Vec<f64>,
}

impl RisingWeights {
    fn new(segments: &[Segment], weight_bits: u32) -> Self {
        let unit = libm::exp2(-f64::from(weight_bits));
        let rising = |most: &mut u32, segment: &Segment| {
            *most = segment.weight.max(*most);
            Some(f64::from(*most) * unit)
        };
        let lasts = segments.iter().map(|segment| segment.last).collect();
        Self { lasts, weights: segments.iter().scan(0, rising).collect() }
    }

    fn at(&self, step: u64) -> f64 {
        self.weights[self.lasts.partition_point(|last| *last < step)]
    }
}

/// Columns that are merged into blocks.
struct LongColumns<'a> {
    response: &'a PartialFractions,
    horizon: u64,
    weights: &'a RisingWeights,
}

impl ColumnProducts for LongColumns<'_> {
    fn steps(&self) -> usize {
        usize::try_from(self.horizon).unwrap_or(usize::MAX)
    }

    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        for (t, into) in into.iter_mut().enumerate().skip(distance) {
            *into = self.between(distance, (0, t + 1 - distance), (t + 1, t + 1));
        }
    }

    /// Weights grow, and inner products fall with the distance and with the step.
    fn between(&self, distance: usize, earlier: (usize, usize), later: (usize, usize)) -> f64 {
        let last = earlier.1.min(later.1.saturating_sub(distance));
        if last == 0 {
            return 0.0; // no step lies this far before these
        }
        let distance = if distance == 0 { 0 } else { distance.max(later.0.saturating_sub(last)) };
        let entries = self.horizon - later.0 as u64 + 1;
        self.weights.at(last as u64)
            * self.weights.at(later.1 as u64)
            * inner_product(self.response, entries, distance as u64)
    }
}

/// `G` of columns `distance` apart, the later one with `n ≥ 1` entries.
fn inner_product(response: &PartialFractions, n: u64, distance: u64) -> f64 {
    if distance == 0 {
        return response.column_norm_squared(n as f64);
    }
    let modes = &response.direct;
    let partners = modes.couplings(&modes.decayed((n - 1) as f64));
    let kept = |i: usize| libm::exp(-((distance - 1) as f64) * modes.poles[i].a);
    let term = |i: usize| modes.weights[i] * kept(i) * (1.0 + (1.0 - modes.poles[i].q) * partners[i]);
    (0..modes.poles.len()).map(term).sum()
}

#[cfg(test)]
mod tests {
    use crate::mechanism::{Blt, ColumnScaling, Mechanism, Objective, Participation};

    /// Over many steps, in blocks of steps: hardly above a row of steps.
    #[test]
    fn blocks_of_many_steps() {
        let horizon = 1u64 << 20;
        let blt = Blt::best(horizon, ColumnScaling::Normalized, Objective::Max).unwrap();
        let response = blt.figures.response();
        let segments = blt.constants.segments();
        let weight = |step: u64| {
            f64::from(segments[segments.partition_point(|segment| segment.last < step)].weight)
                * libm::exp2(-f64::from(super::super::WEIGHT_BITS))
        };
        for (most, separation, share) in
            [(4, horizon / 4, 0.95), (20, 50_000, 0.95), (60, 10_000, 0.95), (2000, 500, 0.85)]
        {
            let bound = blt.participation_squared(Participation::new(most, separation).unwrap());
            let product =
                |s: u64, t: u64| weight(s) * weight(t) * super::inner_product(response, horizon - t + 1, t - s);
            let row: f64 = (0..most)
                .map(|j| {
                    let before: f64 = (0..j).map(|i| 2.0 * product(1 + i * separation, 1 + j * separation)).sum();
                    before + product(1 + j * separation, 1 + j * separation)
                })
                .sum();
            println!("LONG normalized-blt {most} {separation}: {row} of {bound}, share {:.4}", row / bound);
            assert!(row <= bound && row > share * bound, "{most} steps {separation} apart: {row} of {bound}");
        }
    }

    /// Plain BLTs reach the result of another optimizer, without derivatives and in other coordinates, with four
    /// buffers.
    #[test]
    fn buffers_for_units_that_come_back() {
        for (most, separation, max, mean) in
            [(4, 500, 8.1022, 7.0946), (20, 100, 27.0158, 21.374), (100, 20, 110.6009, 81.6896)]
        {
            let participation = Participation::new(most, separation).unwrap();
            for (objective, want) in [(Objective::Max, max), (Objective::Mean, mean)] {
                let figure = |blt: &Blt| {
                    let row = objective.row_norm_squared(blt);
                    (blt.participation_squared(participation) * row).sqrt()
                };
                let [plain, normalized] =
                    ColumnScaling::BOTH.map(|columns| Blt::best_for(2000, columns, objective, participation).unwrap());
                let ratio = figure(&plain) / want;
                assert!(ratio < 1.01, "{most} steps {separation} apart, {objective}: {ratio} times as much");
                let ratio = figure(&normalized) / figure(&plain);
                assert!(ratio < 1.005, "{most} steps {separation} apart, {objective}: {ratio} times the plain one");
            }
        }
    }
}
