//! The pass over a packed pattern compared with chains, which evaluate every step, and with sums of columns.

use super::*;
use crate::mechanism::accounting::chain::{self, Pattern};
use crate::mechanism::toeplitz::blt::aim::interlaced;
use crate::mechanism::toeplitz::blt::runs::{self, WeightedColumns};
use crate::mechanism::{Blt, ColumnScaling, Objective, Participation};
use crate::privacy::Spread;

fn responses() -> Vec<PartialFractions> {
    let of = |rates: &[f64]| {
        let (poles, inverse) = interlaced(rates);
        PartialFractions::from_poles(poles, inverse)
    };
    vec![of(&[0.02, 0.05, 0.3, 0.9]), of(&[1e-6, 1e-5]), of(&[0.4, 0.8])]
}

/// The value of chains of all steps, without margin for rounding.
fn by_chains(response: &PartialFractions, horizon: u64, spread: Spread) -> f64 {
    let once = Participation::ONCE;
    let columns = WeightedColumns::new(response, runs::weights(&runs::norms_squared(response, horizon, once), once));
    chain::largest(&columns, Pattern::new(spread))
}

#[test]
fn one_pass_finds_what_chains_of_all_steps_find() {
    for response in responses() {
        for horizon in [1, 2, 7, 64, 65, 300] {
            for (per_step, separation) in [(1, 1), (1, 3), (2, 1), (3, 1), (5, 7), (4, 100)] {
                let spread = Spread { separation, ..Spread::new(1 << 40, per_step) };
                let events: Vec<u64> =
                    (per_step + 1..40).chain([100, 301, 900, 1501, 1 << 40]).filter(|n| *n > per_step).collect();
                let ours = normalized(&response, horizon, &Packing::new(spread), &events, SearchWatch::NONE);
                for (events, ours) in events.iter().zip(ours) {
                    let theirs = by_chains(&response, horizon, spread.in_one_sum(*events));
                    let ratio = ours / theirs;
                    let place = format!("{events} events, {per_step} a step, {separation} apart, {horizon} steps");
                    assert!((1.0..1.0 + 1e-10).contains(&ratio), "{place}: {ours} is {ratio} times {theirs}");
                }
            }
        }
    }
}

/// The lemma: a step later, the inner product of normalized columns does not grow.
#[test]
fn inner_products_fall_with_the_step() {
    let steps = 200usize;
    for response in responses() {
        let once = Participation::ONCE;
        let weights = runs::weights(&runs::norms_squared(&response, steps as u64, once), once);
        let columns = WeightedColumns::new(&response, weights);
        let mut products = vec![0.0; steps];
        for distance in 1..steps {
            chain::ColumnProducts::inner_products(&columns, distance, &mut products);
            let falls = products[distance..].windows(2).all(|pair| pair[0] >= pair[1] * (1.0 - 1e-12));
            assert!(falls, "{distance} apart");
        }
    }
}

/// Over a long horizon, where chains of all steps take seconds: the squared norm of the sum of the columns, row by row.
#[test]
fn a_long_pattern_by_its_rows() {
    let horizon = 1u64 << 18;
    let response = PartialFractions::from_buffers(
        &Blt::best(1 << 18, ColumnScaling::Normalized, Objective::Max).unwrap().buffers(),
    );
    let once = Participation::ONCE;
    let weights = runs::weights(&runs::norms_squared(&response, horizon, once), once);
    let Modes { weights: echoes, poles, .. } = &response.direct;
    for (full, per_step, separation) in [(1825u64, 1u64, 1u64), (100_000, 1, 1), (1 << 18, 1, 1), (3000, 4, 24)] {
        let mut buffers = BufferRow::default();
        let row_squared = |t: u64| {
            let is_hit = t.is_multiple_of(separation) && t / separation < full;
            let own = if is_hit { per_step as f64 * weights[t as usize] } else { 0.0 };
            let sum = own + echoes.iter().zip(&buffers).map(|(echo, buffer)| echo * buffer).sum::<f64>();
            for (buffer, pole) in buffers.iter_mut().zip(poles) {
                *buffer += own - pole.q * *buffer;
            }
            sum * sum
        };
        let exact: f64 = (0..horizon).map(row_squared).sum();
        let spread = Spread { separation, ..Spread::new(full * per_step, per_step) };
        // The largest number of events last, after a pass over smaller ones.
        let ours = normalized(
            &response,
            horizon,
            &Packing::new(spread),
            &[per_step + 1, full * per_step / 2, full * per_step],
            SearchWatch::NONE,
        );
        let ratio = ours[2] / exact;
        assert!((1.0..1.0 + 1e-8).contains(&ratio), "{full} steps: {} is {ratio} times {exact}", ours[2]);
    }
}
