use super::*;
use evertally::mechanism::{Criterion, MechanismName, Objective, Participation};
use std::sync::Arc;

fn built(name: &str, horizon: u64, participation: Participation) -> Arc<dyn Mechanism> {
    let criterion = Criterion::from_vectors(Objective::Mean, participation);
    name.parse::<MechanismName>().unwrap().build(horizon, &criterion).unwrap()
}

/// The table bounds the inner products of the dense twin's columns, for every example and round, and equals those of
/// the heaviest.
#[test]
fn no_example_moves_more_than_the_table_says() {
    let weighted = Participation::new(5, 8).unwrap();
    for (name, participation, horizon, steps_per_epoch) in [
        ("input", Participation::ONCE, 30, 7),
        ("banded-sqrt(bands=4)", Participation::ONCE, 31, 10),
        ("banded-sqrt(bands=10)", Participation::ONCE, 30, 10),
        ("epoch-bands(bands=5)", Participation::ONCE, 40, 9),
        ("epoch-bands(bands=6)", weighted, 40, 8),
    ] {
        let mechanism = built(name, horizon, participation);
        let bands = mechanism.bands().unwrap().count;
        let rounds = horizon.div_ceil(steps_per_epoch);
        let own = table(&*mechanism, steps_per_epoch, rounds).unwrap();
        assert_eq!((own.bins() as u64, own.rounds()), (steps_per_epoch - bands + 1, rounds));
        let right = mechanism.dense().r;
        let column = |step: u64| -> Vec<f64> {
            (0..right.shape().0).map(|t| if step < horizon { right.row(t)[step as usize].abs() } else { 0.0 }).collect()
        };
        let product = |s: u64, t: u64| column(s).iter().zip(column(t)).map(|(a, b)| a * b).sum::<f64>();
        let mut nearest = 0.0f64;
        for (phase, round) in (0..steps_per_epoch).flat_map(|phase| (0..rounds).map(move |round| (phase, round))) {
            let step = |place: usize| (round * steps_per_epoch + phase + place as u64) % (rounds * steps_per_epoch);
            for (p, q) in (0..own.bins()).flat_map(|p| (0..own.bins()).map(move |q| (p, q))) {
                let (twin, table) = (product(step(p), step(q)), own.product(p, q));
                // `R` is taken before it is rounded to 14 bits or more.
                assert!(twin <= table * 1.002, "{name}, phase {phase}, round {round}: {twin} {table}");
                nearest = nearest.max(if p == q { twin / table } else { 0.0 });
            }
        }
        assert!(nearest > 0.99, "{name}: {nearest}");
    }
}

#[test]
fn mechanisms_without_disjoint_rounds_are_refused() {
    let refused = |name: &str, horizon: u64, steps_per_epoch: u64, word: &str| {
        let message = guarantee(&*built(name, horizon, Participation::ONCE), steps_per_epoch).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    };
    refused("blt(buffers=2)", 40, 10, "`banded-sqrt(bands=10)`");
    refused("banded-sqrt(bands=11)", 40, 10, "at most 10 bands");
    refused("input", 8, 16, "plan at least one epoch");
}
