//! Filters whose memory grows: norms far from the start, sensitivities against rows of events, errors against bounds.

use super::*;
use crate::plan::unit_lower_bound;
use growing::{Growing, LONGEST};

fn of_unit(most: u64, separation: u64) -> (Participation, Spread) {
    (Participation::new(most, separation).unwrap(), Spread { separation, ..Spread::new(most, 1) })
}

/// Squared noise steps to one unit of the data.
fn unit_squared() -> f64 {
    libm::exp2(2.0 * f64::from(NOISE_BITS))
}

/// Covariances by powers of steps, against sums over the nodes: another recurrence, over thousands of steps.
#[test]
fn norms_are_those_of_the_rows() {
    for (most, separation) in [(1, 1), (20, 1), (4, 9)] {
        let filter = Growing::new(LONGEST, of_unit(most, separation).0, SearchWatch::NONE).unwrap();
        let row = |step: u64| {
            let mut entries = vec![0.0; step as usize];
            filter.visit_row(step, &mut |node, entry| entries[node.index as usize] = entry);
            entries
        };
        let long = row(20_000);
        for step in [1, 2, 3, 77, 1024, 9999, 20_000] {
            let short = row(step);
            let sum: f64 = short.iter().map(|entry| entry * entry).sum();
            assert!(close(filter.row_norm_squared(step), sum), "{most} {separation} {step}");
            let product: f64 = short.iter().zip(&long).map(|(a, b)| a * b).sum();
            assert!(close(filter.row_product(step, 20_000), product), "{most} {separation} {step}");
        }
    }
}

/// `L = A R⁻¹`: the rows of `L` times the columns of `R` are prefix sums.
#[test]
fn rows_and_columns_are_inverse() {
    let filter = Growing::new(LONGEST, of_unit(10, 1).0, SearchWatch::NONE).unwrap();
    filter.visit_row(300, &mut |node, entry| assert!(node.index < 300 && entry.is_finite()));
    for column in [1, 17, 200, 300] {
        let mut sum = 0.0;
        filter.visit_row(300, &mut |node, entry| {
            if node.index + 1 >= column {
                sum += entry * filter.entry(node.index + 1, column);
            }
        });
        assert!(close(sum, 1.0), "{column}: {sum}");
    }
}

/// The bound exceeds the squared length of the longest row of events by a tenth at most, so it could not be a half.
#[test]
fn rows_of_events_nearly_reach_the_sensitivity() {
    for (most, separation) in [(1, 1), (2, 1), (10, 1), (5, 7), (40, 1)] {
        let (runs, spread) = of_unit(most, separation);
        let filter = Growing::new(LONGEST, runs, SearchWatch::NONE).unwrap();
        let squared = |first: u64| {
            let steps: Vec<u64> = (0..most).map(|n| first + n * separation).collect();
            let of_row =
                |row: u64| steps.iter().filter(|s| **s <= row).map(|s| filter.entry(row, *s)).sum::<f64>().powi(2);
            // Row by row, and after the last event by the trapezoidal rule.
            let near = steps[steps.len() - 1] + 2000;
            let mut sum: f64 = (first..near).map(of_row).sum();
            let (mut row, mut value) = (near, of_row(near));
            sum += 0.5 * value;
            while row < LONGEST {
                let next = row + (row - first) / 50;
                let after = of_row(next);
                sum += 0.5 * (next - row) as f64 * (value + after);
                (row, value) = (next, after);
            }
            sum
        };
        let longest = [1, 2, 3, 5, 8, 30, 100, 1000, 100_000].map(squared).into_iter().fold(0.0, f64::max);
        let bound = filter.largest_squares(spread, &[most])[0];
        println!("{most} {separation}: {longest} of {bound}");
        assert!(longest <= bound * (1.0 + 1e-4) && longest > 0.9 * bound, "{most} {separation}: {longest} of {bound}");
        if most > 1 {
            let by_ratio = most as f64 * filter.largest_ratios(spread, &[most])[0];
            assert!(close(by_ratio, bound), "{most} {separation}: {by_ratio} {bound}");
        }
    }
}

/// The bound per event covers every smaller number of events, and one of them reaches it. (Up to 15 steps are bounded
/// one by one.)
#[test]
fn ratios_cover_every_number_of_events() {
    for (per_step, separation) in [(1, 1), (1, 9), (4, 1), (7, 30)] {
        let filter = Growing::new(LONGEST, of_unit(5, separation).0, SearchWatch::NONE).unwrap();
        let spread = Spread { separation, ..Spread::new(15 * per_step, per_step) };
        let events: Vec<u64> = (1..=spread.total).collect();
        let squares = filter.largest_squares(spread, &events);
        let mut largest = 0.0f64;
        let per_event: Vec<f64> = squares.iter().zip(&events).map(|(squared, n)| squared / *n as f64).collect();
        let spread_out = &events[per_step as usize..];
        let ratios = filter.largest_ratios(spread, spread_out);
        per_event[..per_step as usize].iter().for_each(|own| largest = largest.max(*own));
        for ((own, ratio), events) in per_event[per_step as usize..].iter().zip(ratios).zip(spread_out) {
            largest = largest.max(*own);
            let part = ratio / largest;
            assert!((1.0 - 1e-12..1.01).contains(&part), "{per_step} {separation} {events}: {part}");
        }
    }
}

/// Standard errors over the proven bound for a mechanism that ends at the step.
#[test]
fn persons_come_near_the_bound_at_every_step() {
    for (most, separation, ratio) in [(1, 1, 1.31), (2, 1, 1.5), (10, 1, 1.5), (1000, 1, 1.5), (10, 7, 1.7)] {
        let (runs, spread) = of_unit(most, separation);
        let endless = Endless::growing(MAX_HORIZON, runs).unwrap();
        let squared = crate::mechanism::units::squared(&endless, spread) as f64 / unit_squared();
        for times in [1, 10, 100, 10_000, 1_000_000] {
            let step = (most * separation).max(16) * times;
            let found = libm::sqrt(squared * endless.row_norm_squared(step)) / unit_lower_bound(step, spread);
            println!("{most} {separation} at {step}: {found}");
            assert!(found > 1.0 && found < ratio, "{most} {separation} at {step}: {found}");
        }
    }
}

/// An open name is never worse for a unit than any mechanism inside.
#[test]
fn growing_memory_is_chosen_where_it_wins() {
    for (most, per_step) in [(1, 1), (3, 1), (30, 1), (1000, 1), (30, 10), (8, 8)] {
        let spread = Spread::new(most, per_step);
        let criterion = Criterion::new(NoiseKind::Gaussian, Objective::Max).with_spread(spread);
        let figure = |name: &str| {
            let built = name.parse::<MechanismName>().unwrap().build(MAX_HORIZON, &criterion).unwrap();
            let squared = crate::mechanism::units::squared(&*built, spread) as f64;
            REFERENCE_STEPS.map(|step| libm::log(squared * built.row_norm_squared(step))).iter().sum::<f64>()
        };
        let all = ["plain", "normalized", "growing"].map(|inside| figure(&format!("endless(inside={inside})")));
        assert_eq!(figure("endless"), all.into_iter().fold(f64::INFINITY, f64::min), "{most} {per_step}: {all:?}");
        assert!(all[2] < all[0].min(all[1]), "{most} {per_step}: {all:?}");
    }
}
