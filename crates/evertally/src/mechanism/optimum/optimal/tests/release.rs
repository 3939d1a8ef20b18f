//! The exact release: against big integers, against the matrices, and its sensitivity by brute force.

use super::*;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::number::wide::Wide;
use proptest::prelude::*;

/// Noise of about `2^(noise_bits + 3)`.
fn noise(filter: &Optimal) -> impl Fn(Node) -> i128 + Copy {
    let bits = filter.noise_bits();
    move |node: Node| {
        let x = (node.index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        i128::from((x ^ (x >> 32)) as i64) >> (60 - bits)
    }
}

fn big(wide: Wide) -> BigInt {
    BigInt::from_signed_bytes_le(&wide.to_bytes())
}

fn cursor(filter: &Optimal) -> FilterCursor {
    FilterCursor::new(filter.frozen.clone(), filter.noise_bits())
}

/// `⌊x / y⌋` for positive `y`.
fn floor_over(x: BigInt, y: u64) -> BigInt {
    let (quotient, rest) = (&x / y, &x % y);
    if rest < BigInt::ZERO { quotient - 1 } else { quotient }
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

/// 2^16 steps with data: every release, and the states at the end, are those of the recurrences in big integers.
#[test]
fn long_runs_are_those_of_big_integers() {
    let filter = solve(1 << 16, 4, Objective::Max);
    let (mut ours, noise, bits) = (cursor(&filter), noise(&filter), filter.noise_bits());
    let mut states = vec![(BigInt::ZERO, BigInt::ZERO); 4];
    let (mut closed, mut sum) = (0i64, BigInt::ZERO);
    for (numbers, step) in filter.frozen.each_step().zip(1u64..) {
        let total = noise(Node { level: 1, index: step * 77 }) as i64 >> (step % 40);
        closed += total;
        let released = ours.advance_with(total, closed, &mut |node| noise(node));
        let mut output = BigInt::ZERO;
        for ((state, _), number) in states.iter_mut().zip(numbers) {
            *state = ((&*state * number.decay) >> 32u32) + (BigInt::from(total) << 64u32);
            output += (&*state * number.output) >> 32u32;
        }
        let noisy = (output >> (62 - bits)) + noise(Node { level: 0, index: step - 1 });
        let mut left = noisy << 62u32;
        for ((_, state), number) in states.iter_mut().zip(numbers) {
            *state = (&*state * number.decay) >> 32u32;
            left -= (&*state * number.output) >> 32u32;
        }
        let solved = floor_over(left << 32u32, numbers.iter().map(|number| u64::from(number.output)).sum());
        states.iter_mut().for_each(|(_, state)| *state += &solved);
        sum += solved;
        let shifted: BigInt = (&sum >> (40 + bits)) + (1 << 15);
        assert_eq!(BigInt::from(released), (shifted >> 16u32) - (BigInt::from(closed) << FRACTION_BITS), "{step}");
    }
    let parts = ours.memory().unwrap();
    let held: Vec<BigInt> = parts.chunks_exact(32).take(9).map(BigInt::from_signed_bytes_le).collect();
    let want: Vec<BigInt> = states.into_iter().flat_map(|(a, b)| [a, b]).chain([sum]).collect();
    assert_eq!(held, want);
}

/// Over 2^14 steps with large data and without noise, releases are the running sums: the inverse filter loses nothing.
#[test]
fn long_runs_without_noise_are_the_running_sums() {
    for filter in BOTH.map(|objective| solve(1 << 14, 12, objective)) {
        let (mut ours, mut closed) = (cursor(&filter), 0i64);
        for step in 1..=filter.horizon() {
            let total = if closed > 0 { -i64::MAX } else { i64::MAX - step as i64 };
            closed += total;
            // The floor of each protected integer acts as noise below one noise step: far below 2^-8 of the grid.
            let off = ours.advance_with(total, closed, &mut |_| 0);
            assert!(off.abs() <= 1, "{} at {step}: {off}", filter.name());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The release is the exact running sum plus `L z`, to one unit, for any data.
    #[test]
    fn releases_are_prefix_sums_plus_noise(totals in totals(80), which in 0usize..6) {
        let filter = &some(80)[which];
        let (mut cursor, noise) = (filter.cursor(), noise(filter));
        let unit = libm::exp2(f64::from(FRACTION_BITS)) * libm::exp2(-f64::from(filter.noise_bits()));
        let mut closed = 0;
        for (total, step) in totals.into_iter().zip(1..) {
            closed += total;
            let released = cursor.advance_with(total, closed, &mut |node| noise(node));
            let mut ideal = 0.0;
            filter.visit_row(step, &mut |node, entry| ideal += entry * noise(node) as f64 * unit);
            prop_assert!((released as f64 - ideal).abs() < 1.0, "{} step {step}: {released} {ideal}", filter.name());
        }
    }

    /// `n_t = 2^b (R x)_t - e_t` with `0 ≤ e_t < E`, by exact arithmetic; hence the differences of two streams.
    #[test]
    fn protected_integers_differ_by_the_matrix_and_the_slack(
        totals in totals(60), other in totals(60), which in 0usize..6,
    ) {
        // 60 steps need 60 · 32 fractional bits.
        const POINT: u32 = 30 + 60 * 32;
        let filter = &some(60)[which];
        let bits = filter.noise_bits();
        let most = filter.slack / libm::sqrt(60.0);
        let matrix = exact_matrix(&filter.frozen, POINT);
        let errors = |totals: &[i64]| -> Vec<f64> {
            let mut cursor = cursor(filter);
            let step = |(t, total): (usize, &i64)| {
                let ideal: BigInt = matrix[t].iter().zip(totals).map(|(entry, x)| entry * *x).sum();
                let short = (ideal << bits) - (big(cursor.protected(t, *total)) << POINT);
                assert!(short >= BigInt::ZERO, "{t}");
                i64::try_from(short >> (POINT - 50)).unwrap() as f64 / libm::exp2(50.0)
            };
            totals.iter().enumerate().map(step).collect()
        };
        let (here, there) = (errors(&totals), errors(&other));
        for (a, b) in here.iter().zip(&there) {
            prop_assert!(*a < most && *b < most && (a - b).abs() < most, "{a} {b} {most}");
        }
    }

    /// A cursor that recalls a memory continues bit for bit.
    #[test]
    fn memories_continue(totals in totals(40), stop in 0usize..40, which in 0usize..6) {
        let filter = &some(40)[which];
        let noise = noise(filter);
        let (mut whole, mut closed, mut last) = (filter.cursor(), 0, 0);
        let mut resumed = filter.cursor();
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

/// The largest shortfall of the states, in units: with few guard bits it would show. Here `Σ y_i m_i` itself, by adding
/// up the possible loss of every step.
#[test]
fn the_truncation_bound_adds_what_every_step_may_lose() {
    for filter in some(50) {
        let n = filter.frozen.states();
        let mut most = 0.0f64;
        for t in 0..50 {
            let mut lost = 0.0;
            for i in 0..n {
                let mut kept = 1.0;
                for s in (0..=t).rev() {
                    lost += filter.frozen.of_step(t)[i].output() * kept;
                    kept *= filter.frozen.of_step(s)[i].decay();
                }
            }
            most = most.max(lost);
        }
        // Enough bits that the term shows next to the 1.
        let units = (cursor::truncation_bound(&filter.frozen, 64) - 1.0) / (4.0 * n as f64 + most);
        assert!(units > 1.0 && units < 1.0 + 1e-8, "{}: {units}", filter.name());
    }
}

/// The noise of a stream of zeros, by seeking and step by step.
#[test]
fn seeking_is_a_stream_of_zeros() {
    for filter in some(50) {
        let noise = noise(&filter);
        let mut cursor = filter.cursor();
        let noises: Vec<i128> = (1..=50).map(|_| cursor.advance(&mut |node| noise(node))).collect();
        for step in [50, 7, 0, 30] {
            let there = cursor.seek(step, &mut |node| noise(node));
            assert_eq!(there, if step == 0 { 0 } else { noises[step as usize - 1] }, "{}", filter.name());
        }
    }
}

/// Every placement of a unit's events, with the worst rounding on top, stays below the bound.
#[test]
fn sensitivities_bound_every_placement() {
    for filter in some(7) {
        let unit = libm::exp2(f64::from(filter.noise_bits()));
        let matrix: Vec<Vec<f64>> =
            (0..7).map(|t| filter.frozen.row(t).iter().map(|x| x * unit).chain([0.0; 7]).take(7).collect()).collect();
        let column = |j: usize, power: i32| matrix.iter().map(move |row| row[j].powi(power)).sum::<f64>();
        let longest = (0..7).map(|j| column(j, 2)).fold(0.0, f64::max);
        let one = filter.spread_squared(Spread::ONE) as f64;
        let slack = filter.slack;
        assert!(slack >= libm::sqrt(7.0) && slack < 1.01 * libm::sqrt(7.0), "{slack}");
        assert!(one >= (longest.sqrt() + slack).powi(2) && one < longest * 1.001, "{}: {one} {longest}", filter.name());
        let l1 = (0..7).map(|j| column(j, 1)).fold(0.0, f64::max);
        assert!(filter.l1_column_sum() as f64 >= l1 + 7.0 && (filter.l1_column_sum() as f64) < l1 * 1.001);
        for spread in [(4, 1), (4, 2), (3, 3), (7, 1)].map(|(total, per_step)| Spread::new(total, per_step)) {
            let bound = filter.spread_squared(spread) as f64;
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
            assert!(reached <= bound && reached * 4.0 > bound, "{} {spread:?}: {reached} of {bound}", filter.name());
        }
    }
}

/// The rounding is cheap on every horizon, and enormous units are rejected, not wrapped.
#[test]
fn rounding_costs_little() {
    for horizon in [2, 1024, 1 << 16] {
        let filter = solve(horizon, 4, Objective::Max);
        let unit = libm::exp2(f64::from(filter.noise_bits()));
        let cost = filter.spread_squared(Spread::ONE) as f64 / (filter.columns.l2_squared * unit * unit) - 1.0;
        assert!(cost > 0.0 && cost < 1e-4, "{} at {horizon}: {cost}", filter.name());
    }
    let enormous = Spread::new(u64::MAX, u64::MAX);
    assert_eq!(solve(1 << 16, 4, Objective::Max).spread_squared(enormous), u128::MAX, "nothing wraps around");
}
