//! Compared with chains of single steps.

use super::*;
use crate::mechanism::accounting::chain::{self, Pattern};
use crate::mechanism::state_space::segments::WEIGHT_BITS;
use crate::mechanism::toeplitz::blt::aim::interlaced;
use crate::mechanism::toeplitz::blt::runs::{WeightedColumns, norms_squared, weights};

fn response() -> PartialFractions {
    let (poles, inverse) = interlaced(&[1e-4, 4e-4, 3e-3, 0.02, 0.3, 1.1]);
    PartialFractions::from_poles(poles, inverse)
}

/// The weights of all steps.
fn of_steps(segments: &[Segment]) -> Vec<f64> {
    let mut steps = vec![];
    for segment in segments {
        steps.resize(segment.last as usize, f64::from(segment.weight) * libm::exp2(-f64::from(WEIGHT_BITS)));
    }
    steps
}

#[test]
fn segments_bound_chains_of_steps_closely() {
    let response = response();
    for (horizon, most, separation) in
        [(2000, 1, 1), (2000, 10, 1), (4096, 700, 1), (3000, 30, 20), (3000, 7, 400), (300, 300, 1), (100, 1000, 3)]
    {
        let runs = Participation::new(most, separation).unwrap();
        let segments = segments(&response, horizon, runs);
        let columns = WeightedColumns::new(&response, of_steps(&segments));
        let bounds = SegmentColumns::new(&response, &segments, WEIGHT_BITS);
        let room = horizon.div_ceil(separation);
        for (full, each, rest) in [(1, 1.0, 0.0), (most, 1.0, 0.0), (most, 3.0, 0.0), (most / 2 + 1, 3.0, 2.0)] {
            let full = full.min(room);
            let rest = if full == room { 0.0 } else { rest };
            let exact = chain::largest(&columns, Pattern { full, each, rest, separation });
            let bound = bounds.largest(each, separation, &[(full, rest)])[0];
            let place = format!("{horizon} {runs:?}, {full} {each} {rest}: {exact} of {bound}");
            // A pattern with a rest is bounded in another way here.
            assert!(bound >= exact * if rest == 0.0 { 1.0 - 1e-12 } else { 0.95 }, "{place}");
            // Steps with events may count as the same step, which costs more if patterns fill the horizon.
            let near = if 2 * full * separation > horizon { 2.0 } else { 1.1 };
            assert!(bound <= exact * if rest == 0.0 && near < 2.0 { 1.02 } else { near }, "{place}");
        }
    }
}

/// For patterns with a rest, too, no placement is longer: all of them over a short horizon.
#[test]
fn no_pattern_with_a_rest_is_longer() {
    let (response, horizon) = (response(), 14u64);
    for (most, separation) in [(1, 1), (3, 1), (3, 2)] {
        let segments = segments(&response, horizon, Participation::new(most, separation).unwrap());
        let weights = of_steps(&segments);
        let c = crate::mechanism::toeplitz::blt::runs::tests::coefficients(&response, horizon as usize);
        for (full, each, rest, separation) in [(2, 3.0, 2.0, 1), (4, 2.0, 1.0, 1), (3, 2.0, 1.0, 2), (1, 5.0, 1.0, 3)] {
            let pattern = Pattern { full, each, rest, separation };
            let exact = crate::mechanism::toeplitz::blt::runs::tests::by_enumeration(&c, &weights, pattern);
            let columns = SegmentColumns::new(&response, &segments, WEIGHT_BITS);
            let bound = columns.largest(each, separation, &[(full, rest)])[0];
            assert!(exact <= bound * (1.0 + 1e-12) && bound <= 1.1 * exact, "{pattern:?}: {exact} of {bound}");
        }
    }
}

/// Weights from closed forms are those of the table.
#[test]
fn weights_are_those_of_single_steps() {
    for (horizon, most, separation) in [(2000, 10, 1), (8000, 700, 1), (8000, 30, 200), (300, 300, 1)] {
        let (response, runs) = (response(), Participation::new(most, separation).unwrap());
        let table = segments::of_weights(horizon, {
            let table = weights(&norms_squared(&response, horizon, runs), runs);
            move |step| table[step as usize - 1]
        });
        let (ours, table) = (of_steps(&segments(&response, horizon, runs)), of_steps(&table));
        let unit = libm::exp2(-f64::from(WEIGHT_BITS));
        assert!(ours.iter().zip(&table).all(|(a, b)| (a - b).abs() <= unit * 1.01), "{most} {separation}");
    }
}

/// Over four million steps: patterns of the real columns are within the bound, and the worst are close to it.
#[test]
fn patterns_over_long_horizons_are_bounded() {
    let (response, horizon) = (response(), 1u64 << 22);
    let modes = &response.direct;
    // ⟨C_s, C_t⟩ for s < t, and ‖C_t‖².
    let product = |s: u64, t: u64| {
        let entries = (horizon - t + 1) as f64;
        if s == t {
            return response.column_norm_squared(entries);
        }
        let couplings = modes.couplings(&modes.decayed(entries - 1.0));
        let term = |i: usize| {
            let kept = libm::exp(-((t - s - 1) as f64) * modes.poles[i].a);
            modes.weights[i] * kept * (1.0 + (1.0 - modes.poles[i].q) * couplings[i])
        };
        (0..modes.poles.len()).map(term).sum()
    };
    for (most, separation) in [(2, 1), (40, 1), (40, 3000), (12, 350_000)] {
        let segments = segments(&response, horizon, Participation::new(most, separation).unwrap());
        let weight = |step: u64| {
            let segment = segments[segments.partition_point(|segment| segment.last < step)];
            f64::from(segment.weight) * libm::exp2(-f64::from(WEIGHT_BITS))
        };
        let bound = SegmentColumns::new(&response, &segments, WEIGHT_BITS).largest(1.0, separation, &[(most, 0.0)])[0];
        let length = (most - 1) * separation;
        let mut worst = 0.0f64;
        for place in 0..40 {
            // From the beginning to the end, closer and closer to it; packed, or with a part at the beginning.
            let last = horizon - (horizon - 1 - length) / 2u64.saturating_pow(place).max(1);
            for early in [0, most / 2] {
                let apart = |j: u64| if j < early { 1 + j * separation } else { last - (most - 1 - j) * separation };
                let steps: Vec<u64> = (0..most).map(apart).collect();
                if steps.windows(2).any(|pair| pair[1] < pair[0] + separation) {
                    continue;
                }
                let pair = |s: &u64, t: &u64| weight(*s) * weight(*t) * product(*s.min(t), *s.max(t));
                let squared: f64 = steps.iter().map(|s| steps.iter().map(|t| pair(s, t)).sum::<f64>()).sum();
                assert!(squared <= bound, "{most} {separation} {place} {early}: {squared} of {bound}");
                worst = worst.max(squared);
            }
        }
        assert!(worst >= 0.97 * bound, "{most} {separation}: {worst} of {bound}");
    }
}
