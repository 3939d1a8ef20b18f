//! The exact release: against the rows of `L`, from saved states, and at the ends of the range.

use super::*;

/// Noise of about a unit of the data and more.
fn noise(node: Node) -> i128 {
    let x = (node.index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(node.level) << 40);
    let x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    i128::from((x ^ (x >> 32)) as i64) >> 26
}

fn totals(steps: u64) -> Vec<i64> {
    (1..=steps).map(|step| (noise(Node { level: 9, index: step * 77 }) >> (step % 30)) as i64).collect()
}

#[test]
fn releases_are_prefix_sums_plus_noise() {
    for endless in examples() {
        let (mut cursor, mut closed) = (endless.cursor(), 0i64);
        let unit = libm::exp2(f64::from(FRACTION_BITS) - f64::from(NOISE_BITS));
        for (total, step) in totals(endless.horizon()).into_iter().zip(1..) {
            closed += total;
            let released = cursor.advance_with(total, closed, &mut noise);
            let mut ideal = 0.0;
            endless.visit_row(step, &mut |node, entry| ideal += entry * noise(node) as f64 * unit);
            assert!((released as f64 - ideal).abs() < 3.0, "{} step {step}: {released} {ideal}", endless.name());
        }
    }
}

/// The rows read exactly the nodes that a cursor draws, each once, and no node has two names.
#[test]
fn cursors_draw_the_nodes_of_the_rows() {
    for endless in examples() {
        let mut drawn = vec![];
        let mut cursor = endless.cursor();
        for _ in 1..=endless.horizon() {
            cursor.advance(&mut |node| {
                drawn.push(node);
                0
            });
        }
        drawn.sort_unstable();
        let count = drawn.len();
        drawn.dedup();
        assert_eq!(count, drawn.len(), "{}", endless.name());
        let pair = endless.dense();
        assert!(pair.nodes.iter().all(|node| drawn.contains(node)), "{}", endless.name());
    }
}

#[test]
fn memories_and_seeking_continue() {
    for endless in examples() {
        let totals = totals(endless.horizon());
        let (mut whole, mut closed) = (endless.cursor(), 0i64);
        let mut last = 0;
        for step in 0..endless.horizon() {
            let mut other = endless.cursor();
            match whole.memory() {
                Some(memory) => {
                    assert_eq!(other.recall(step, &memory).unwrap(), last, "{} {step}", endless.name());
                    assert_eq!(other.memory(), Some(memory.clone()));
                    assert!(other.recall(step, &memory[1..]).is_err());
                    assert!(memory.len() < 2000);
                }
                None => assert_eq!(other.seek(step, &mut noise), last, "{} {step}", endless.name()),
            }
            let total = totals[step as usize];
            closed += total;
            last = whole.advance_with(total, closed, &mut noise);
            assert_eq!(other.advance_with(total, closed, &mut noise), last, "{} {step}", endless.name());
        }
    }
}

/// Steps of hats in a later epoch, and the step after its end.
#[test]
fn hats_reach_steps_of_later_epochs() {
    let endless = Endless::new(MAX_HORIZON, Inside::Hats).unwrap();
    for step in [64, 65, 4095, 4096, 9000] {
        let mut cursor = endless.cursor();
        cursor.seek(step, &mut noise);
        let next = cursor.advance(&mut noise);
        assert_eq!(endless.cursor().seek(step + 1, &mut noise), next, "{step}");
    }
}

/// The fourth moments reported to intervals are at least those of the rows.
#[test]
fn tails_of_laplace_noise_are_not_heavier_than_said() {
    for endless in examples().into_iter().filter(|endless| endless.inside.is_laplace()) {
        for step in 1..=endless.horizon() {
            let mut fourth = 0.0;
            endless.visit_row(step, &mut |_, entry| fourth += entry.powi(4));
            let RowLaw::Like { norm_squared, terms } = endless.row_law(step) else { panic!("one law for all") };
            assert!(fourth <= norm_squared * norm_squared / terms as f64 * (1.0 + 1e-9), "{} {step}", endless.name());
        }
    }
}

/// Steps of a tree far ahead, which no step-by-step walk could reach.
#[test]
fn trees_reach_any_step() {
    let endless = Endless::new(MAX_HORIZON, Inside::Trees).unwrap();
    for step in [1 << 30, (1 << 40) - 1, 1 << 40, (1 << 44) + 5, MAX_HORIZON - 3] {
        let mut cursor = endless.cursor();
        cursor.seek(step, &mut noise);
        let next = cursor.advance(&mut noise);
        assert_eq!(endless.cursor().seek(step + 1, &mut noise), next, "{step}");
    }
}

/// Sums that fill 64 bits, up and down, without noise: releases are the running sums, also if an epoch's own sum
/// exceeds 64 bits.
#[test]
fn the_largest_sums_are_exact() {
    for endless in examples() {
        let (mut cursor, mut closed) = (endless.cursor(), 0i64);
        for step in 1..=endless.horizon() {
            let total = match step % 3 {
                1 => i64::MAX - closed.max(0),
                2 => i64::MIN + 1,
                _ => -closed,
            };
            closed = closed.checked_add(total).unwrap();
            let off = cursor.advance_with(total, closed, &mut |_| 0);
            assert!(off.abs() <= 2, "{} at {step}: {off}", endless.name());
        }
    }
}
