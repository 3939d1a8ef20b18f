//! The exact release: against big integers, against the matrices, and its sensitivity by brute force.

use super::*;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::number::wide::Wide;
use num_bigint::BigInt;
use proptest::prelude::*;

/// Noise of about `2^(noise_bits + 3)`.
fn noise(blt: &Blt) -> impl Fn(Node) -> i128 + Copy {
    let bits = blt.noise_bits();
    move |node: Node| {
        let x = (node.index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        i128::from((x ^ (x >> 32)) as i64) >> (60 - bits)
    }
}

fn big(wide: Wide) -> BigInt {
    BigInt::from_signed_bytes_le(&wide.to_bytes())
}

/// The recurrences of the module in big integers.
struct Reference {
    fractions: Vec<(BigInt, BigInt)>,
    data: Vec<BigInt>,
    noisy: Vec<BigInt>,
    bits: u32,
}

impl Reference {
    fn new(blt: &Blt) -> Self {
        let pairs = blt.buffers.decays().iter().zip(blt.buffers.echoes());
        let fractions: Vec<_> = pairs.map(|(decay, echo)| (BigInt::from(*decay), BigInt::from(*echo))).collect();
        let zeros = vec![BigInt::ZERO; fractions.len()];
        let bits = blt.noise_bits() - if blt.scaling.is_plain() { 0 } else { WEIGHT_BITS };
        Self { fractions, data: zeros.clone(), noisy: zeros, bits }
    }

    /// `y` and `2^64 w`.
    fn advance(&mut self, weight: u32, total: i64, noise: i128) -> (BigInt, BigInt) {
        let value = BigInt::from(total) * weight;
        let mut echo = BigInt::ZERO;
        for (buffer, (decay, loudness)) in self.data.iter_mut().zip(&self.fractions) {
            echo += (&*buffer * loudness) >> 62u32;
            *buffer = ((&*buffer * decay) >> 62u32) + (&value << 64u32);
        }
        let protected = (value << self.bits) + (echo >> (64 - self.bits)) + noise;
        let mut solved = &protected << 64u32;
        for (buffer, (_, loudness)) in self.noisy.iter().zip(&self.fractions) {
            solved -= (buffer * loudness) >> 62u32;
        }
        for (buffer, (decay, _)) in self.noisy.iter_mut().zip(&self.fractions) {
            *buffer = ((&*buffer * decay) >> 62u32) + &solved;
        }
        (protected, solved)
    }
}

/// Totals whose running sums fit 64 bits, of all sizes and both signs, with long runs of zeros.
fn totals(steps: usize) -> impl Strategy<Value = Vec<i64>> {
    let total =
        prop_oneof![Just(0), -3i64..=9, any::<i32>().prop_map(i64::from), any::<i64>(), Just(i64::MAX), Just(i64::MIN)];
    let run = prop_oneof![4 => total.prop_map(|x| vec![x]), 1 => (1usize..30).prop_map(|n| vec![0; n])];
    prop::collection::vec(run, steps).prop_map(move |runs| {
        let mut closed = 0i64;
        let fitting = |x: i64| match closed.checked_add(x) {
            Some(sum) => {
                closed = sum;
                x
            }
            None => 0,
        };
        runs.into_iter().flatten().take(steps).map(fitting).collect()
    })
}

fn weight_at(blt: &Blt, step: u64) -> u32 {
    let segments = blt.constants.segments();
    segments[segments.partition_point(|segment| segment.last < step)].weight
}

/// 2^16 steps with data: every protected integer, every `w` and every release are those of big integers.
#[test]
fn long_runs_are_those_of_big_integers() {
    for columns in ColumnScaling::BOTH {
        let blt = Blt::optimised(1 << 16, columns, 3, Objective::Max).unwrap();
        let (mut cursor, mut reference) = (BltCursor::new(blt.constants.clone()), Reference::new(&blt));
        let noise = noise(&blt);
        let (mut closed, mut settled, mut run, mut last_weight) = (0i64, BigInt::ZERO, BigInt::ZERO, None);
        let shift = reference.bits + 64 - FRACTION_BITS - 16;
        for step in 1..=blt.horizon {
            let total = noise(Node { level: 1, index: step * 77 }) as i64 >> (step % 40);
            closed += total;
            let released = cursor.advance_with(total, closed, &mut |node| noise(node));
            let weight = weight_at(&blt, step);
            let (_, solved) = reference.advance(weight, total, noise(Node { level: 0, index: step - 1 }));
            if last_weight.is_some_and(|last| last != weight) {
                settled += floor_over(&run >> shift, last_weight.unwrap());
                run = BigInt::ZERO;
            }
            last_weight = Some(weight);
            run += solved;
            let sum: BigInt = &settled + floor_over(&run >> shift, weight) + (1 << 15);
            assert_eq!(BigInt::from(released), (sum >> 16u32) - (BigInt::from(closed) << FRACTION_BITS), "{step}");
        }
        let parts = cursor.memory().unwrap();
        let buffers: Vec<BigInt> = parts.chunks_exact(32).take(6).map(BigInt::from_signed_bytes_le).collect();
        let want: Vec<BigInt> =
            reference.data.iter().zip(&reference.noisy).flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
        assert_eq!(buffers, want);
    }
}

fn floor_over(x: BigInt, divisor: u32) -> BigInt {
    let (quotient, rest) = (&x / divisor, &x % divisor);
    if rest < BigInt::ZERO { quotient - 1 } else { quotient }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The release is the exact running sum plus `L z`, to one unit, for any data.
    #[test]
    fn releases_are_prefix_sums_plus_noise(totals in totals(80), which in 0usize..8) {
        let blt = &some(80)[which];
        let (mut cursor, noise) = (blt.cursor(), noise(blt));
        let unit = libm::exp2(f64::from(FRACTION_BITS)) * libm::exp2(-f64::from(blt.noise_bits()));
        let mut closed = 0;
        for (total, step) in totals.into_iter().zip(1..) {
            closed += total;
            let released = cursor.advance_with(total, closed, &mut |node| noise(node));
            let mut ideal = 0.0;
            blt.visit_row(step, &mut |node, entry| ideal += entry * noise(node) as f64 * unit);
            prop_assert!((released as f64 - ideal).abs() < 1.0, "{} step {step}: {released} {ideal}", blt.name());
        }
    }

    /// `n_t = 2^b (C W x)_t - e_t` with `0 ≤ e_t < E`, by exact arithmetic; hence the differences of two streams.
    #[test]
    fn protected_integers_differ_by_the_matrix_and_the_slack(
        totals in totals(60), other in totals(60), which in 0usize..8,
    ) {
        // Θ and Ω have 62 bits: 61 steps need 61 · 62 fractional bits.
        const POINT: u32 = 61 * 62 + 64;
        let blt = &some(60)[which];
        let bits = blt.noise_bits() - if blt.scaling.is_plain() { 0 } else { WEIGHT_BITS };
        let most = blt.slack() / libm::sqrt(60.0);
        let errors = |totals: &[i64]| -> Vec<f64> {
            let mut cursor = BltCursor::new(blt.constants.clone());
            let mut exact = vec![BigInt::ZERO; blt.buffers.decays().len()];
            let step = |(total, step): (&i64, u64)| {
                let value = i128::from(*total) * i128::from(weight_at(blt, step));
                let echoes = exact.iter().zip(blt.buffers.echoes()).map(|(buffer, echo)| (buffer * *echo) >> 62u32);
                let ideal: BigInt = (BigInt::from(value) << POINT) + echoes.sum::<BigInt>();
                for (buffer, decay) in exact.iter_mut().zip(blt.buffers.decays()) {
                    *buffer = ((&*buffer * *decay) >> 62u32) + (BigInt::from(value) << POINT);
                }
                let short = (ideal << bits) - (big(cursor.protected(value)) << POINT);
                assert!(short >= BigInt::ZERO, "{step}");
                i64::try_from(short >> (POINT - 50)).unwrap() as f64 / libm::exp2(50.0)
            };
            totals.iter().zip(1..).map(step).collect()
        };
        let (here, there) = (errors(&totals), errors(&other));
        for (a, b) in here.iter().zip(&there) {
            prop_assert!(*a < most && *b < most && (a - b).abs() < most, "{a} {b} {most}");
        }
    }

    /// A cursor that recalls a memory continues bit for bit.
    #[test]
    fn memories_continue(totals in totals(40), stop in 0usize..40, which in 0usize..8) {
        let blt = &some(40)[which];
        let noise = noise(blt);
        let (mut whole, mut closed, mut last) = (blt.cursor(), 0, 0);
        let mut resumed = blt.cursor();
        for (i, total) in totals.into_iter().enumerate() {
            if i == stop {
                prop_assert_eq!(resumed.recall(i as u64, &whole.memory().unwrap()).unwrap(), last);
                prop_assert_eq!(resumed.step(), whole.step());
            }
            closed += total;
            last = whole.advance_with(total, closed, &mut |node| noise(node));
            if i >= stop {
                prop_assert_eq!(resumed.advance_with(total, closed, &mut |node| noise(node)), last);
            }
        }
        let memory = whole.memory().unwrap();
        prop_assert!(resumed.recall(3, &memory[1..]).is_err() && resumed.recall(41, &memory).is_err());
    }
}

/// The noise of a stream of zeros, by seeking and step by step.
#[test]
fn seeking_is_a_stream_of_zeros() {
    for blt in some(50) {
        let noise = noise(&blt);
        let mut cursor = blt.cursor();
        let noises: Vec<i128> = (1..=50).map(|_| cursor.advance(&mut |node| noise(node))).collect();
        for step in [50, 7, 0, 30] {
            let there = cursor.seek(step, &mut |node| noise(node));
            assert_eq!(there, if step == 0 { 0 } else { noises[step as usize - 1] }, "{}", blt.name());
        }
    }
}

/// The matrix `2^noise_bits C W` whose columns and the slack give the sensitivity.
fn scaled_matrix(blt: &Blt) -> Vec<Vec<f64>> {
    let unit = libm::exp2(f64::from(blt.noise_bits()));
    let r = blt.dense().r;
    (0..r.shape().0).map(|t| r.row(t).iter().map(|x| x * unit).collect()).collect()
}

/// Every placement of a unit's events, with the worst rounding on top, stays below the bound.
#[test]
fn sensitivities_bound_every_placement() {
    for blt in some(7) {
        let matrix = scaled_matrix(&blt);
        let longest = (0..7).map(|j| matrix.iter().map(|row| row[j] * row[j]).sum::<f64>()).fold(0.0, f64::max);
        let one = blt.spread_squared(Spread::ONE) as f64;
        let slack = blt.slack();
        assert!(slack >= libm::sqrt(7.0) && slack < 1.01 * libm::sqrt(7.0), "{slack}");
        assert!(one >= (longest.sqrt() + slack).powi(2) && one < longest * 1.001, "{}: {one} {longest}", blt.name());
        let l1 = (0..7).map(|j| matrix.iter().map(|row| row[j]).sum::<f64>()).fold(0.0, f64::max);
        assert!(blt.l1_column_sum() as f64 >= l1 + 7.0 && (blt.l1_column_sum() as f64) < l1 * 1.001);
        for spread in [(4, 1), (4, 2), (3, 3), (7, 1)].map(|(total, per_step)| Spread::new(total, per_step)) {
            let bound = blt.spread_squared(spread) as f64;
            let base = spread.per_step as u32 + 1;
            let mut reached = 0.0f64;
            for code in 0..base.pow(7) {
                let u: Vec<f64> = (0..7).map(|t| f64::from(code / base.pow(t) % base)).collect();
                if u.iter().sum::<f64>() <= spread.total as f64 {
                    let moved = |row: &Vec<f64>| row.iter().zip(&u).map(|(r, u)| r * u).sum::<f64>();
                    let norm = matrix.iter().map(|row| moved(row).powi(2)).sum::<f64>().sqrt();
                    reached = reached.max((norm + slack).powi(2));
                }
            }
            assert!(reached <= bound && reached * 1.05 > bound, "{} {spread:?}: {reached} of {bound}", blt.name());
        }
    }
}

/// The rounding is cheap on every horizon, and enormous units are rejected, not wrapped.
#[test]
fn rounding_costs_little() {
    for horizon in [2, 1024, 1 << 20, 1 << 30, 1 << 40] {
        for columns in ColumnScaling::BOTH {
            let blt = Blt::new(horizon, columns, long()).unwrap();
            let unit = libm::exp2(f64::from(blt.noise_bits()));
            let cost = blt.spread_squared(Spread::ONE) as f64 / (blt.columns.l2_squared * unit * unit) - 1.0;
            assert!(cost > 0.0 && cost < 1e-4, "{} at {horizon}: {cost}", blt.name());
        }
    }
    let blt = Blt::new(1 << 40, ColumnScaling::Normalized, long()).unwrap();
    assert_eq!(blt.spread_squared(Spread::new(u64::MAX, u64::MAX)), u128::MAX);
}
