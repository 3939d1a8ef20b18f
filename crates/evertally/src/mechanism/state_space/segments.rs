//! Column weights that are constant on segments of steps.
//!
//! Column `j` of `C` has `n = T - j + 1` entries, so its norm `D` falls with `j`. Instead of `1 / D` it gets an integer
//! weight `W` near `2^14 / D`, the same for a segment of columns whose lengths differ by at most a fiftieth (single
//! ones below 50): `O(log T)` integers. A weight is rounded down from the longest column of its segment, so that no
//! column is longer than the last one, whose norm is exactly `2^14`.

use super::response::PartialFractions;

/// Bits of the weights of a normalized BLT.
pub(in crate::mechanism) const WEIGHT_BITS: u32 = 14;
/// Lengths of the columns of one segment differ by less than one part in this many.
const FINENESS: u64 = 50;

/// Consecutive steps with one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mechanism) struct Segment {
    /// The last step, from 1.
    pub(in crate::mechanism) last: u64,
    /// `W`.
    pub(in crate::mechanism) weight: u32,
}

/// A single segment of weight 1.
pub(in crate::mechanism) fn plain(horizon: u64) -> Vec<Segment> {
    vec![Segment { last: horizon, weight: 1 }]
}

/// A single segment, in which the first column, the longest, has a norm of at most `2^14`.
pub(in crate::mechanism) fn of_one_weight(response: &PartialFractions, horizon: u64) -> Vec<Segment> {
    vec![Segment { last: horizon, weight: weight(response.column_norm_squared(horizon as f64)) }]
}

/// The same with every weight multiplied by `share / 2^bits`, rounded down.
pub(in crate::mechanism) fn shared(segments: Vec<Segment>, share: u32, bits: u32) -> Vec<Segment> {
    if share == 1 << bits {
        return segments;
    }
    // Below 2^28 before the shift.
    let weight = |weight: u32| ((u64::from(weight) * u64::from(share)) >> bits) as u32;
    segments.into_iter().map(|segment| Segment { weight: weight(segment.weight), ..segment }).collect()
}

/// The segments of a normalized BLT, in order of steps.
pub(in crate::mechanism) fn normalized(response: &PartialFractions, horizon: u64) -> Vec<Segment> {
    let mut segments: Vec<Segment> = vec![];
    let mut shortest = 1;
    while shortest <= horizon {
        let longest = (shortest + shortest / FINENESS).min(horizon);
        // Weights never fall with the step, even if the last bits of the norms do not follow their order.
        let later = segments.last().map_or(u32::MAX, |later| later.weight);
        let weight = weight(response.column_norm_squared(longest as f64)).min(later);
        match segments.last_mut() {
            Some(later) if later.weight == weight => {} // the later segment begins earlier
            _ => segments.push(Segment { last: horizon - shortest + 1, weight }),
        }
        shortest = longest + 1;
    }
    segments.reverse();
    segments
}

/// The segments of given weights of the steps, from 1, which grow to 1. A segment has the weight of its first step,
/// rounded down, so no column gets more than its own weight.
pub(in crate::mechanism) fn of_weights(horizon: u64, weight: impl Fn(u64) -> f64) -> Vec<Segment> {
    let mut segments: Vec<Segment> = vec![];
    let mut shortest = 1;
    while shortest <= horizon {
        let longest = (shortest + shortest / FINENESS).min(horizon);
        let exact = weight(horizon - longest + 1) * f64::from(1 << WEIGHT_BITS);
        let later = segments.last().map_or(1 << WEIGHT_BITS, |later| later.weight);
        let weight = ((exact * (1.0 - 1e-9)) as u32).min(later);
        match segments.last_mut() {
            Some(later) if later.weight == weight => {}
            _ => segments.push(Segment { last: horizon - shortest + 1, weight }),
        }
        shortest = longest + 1;
    }
    segments.reverse();
    segments
}

/// `⌊2^14 / D⌋`, and no more if the float is inaccurate.
fn weight(norm_squared: f64) -> u32 {
    let exact = f64::from(1 << WEIGHT_BITS) / libm::sqrt(norm_squared);
    // The column of one entry has norm 1 without any error.
    if norm_squared == 1.0 { 1 << WEIGHT_BITS } else { (exact * (1.0 - 1e-12)) as u32 }
}
