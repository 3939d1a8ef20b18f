//! Every bound against every pattern, in dense matrices.

use super::*;
use crate::mechanism::{MechanismName, NamedShape};
use nalgebra::DMatrix;
use std::sync::Arc;

const STREAMED: [&str; 22] = [
    "input",
    "output",
    "binary",
    "honaker-online",
    "kary(k=3)",
    "kary(k=4)",
    "subtract(k=3)",
    "subtract(k=4)",
    "subtract(k=5)",
    "smooth",
    "smooth(h=10,zeros=2)",
    "path-sum",
    "path-sum(levels=unit)",
    "sqrt",
    "normalized-sqrt",
    "banded-sqrt(bands=1)",
    "banded-sqrt(bands=3)",
    "banded-inverse-sqrt(bands=2)",
    "banded-inverse-sqrt(bands=4)",
    "blt(buffers=2)",
    "normalized-blt(buffers=2)",
    "normalized-blt",
];

/// Those whose figure is exact, not only a bound.
const EXACT: [&str; 9] =
    ["input", "output", "sqrt", "banded-sqrt", "banded-inverse-sqrt", "blt", "honaker", "smooth", "path"];

fn build(name: &str, horizon: u64) -> Option<Arc<dyn Mechanism>> {
    name.parse::<MechanismName>().unwrap().build(horizon, &NamedShape::gaussian_max()).ok()
}

/// `Aᵀ (L Lᵀ)⁻¹ A`, by another library's linear algebra.
fn gram(mechanism: &dyn Mechanism) -> DMatrix<f64> {
    let l = mechanism.dense().l;
    let (rows, columns) = l.shape();
    let l = DMatrix::from_fn(rows, columns, |i, j| l.row(i)[j]);
    let sums = DMatrix::from_fn(rows, rows, |t, i| f64::from(u8::from(t >= i)));
    let covariance = (&l * l.transpose()).cholesky().expect("releases are linearly independent");
    sums.transpose() * covariance.solve(&sums)
}

/// The largest `Σ G_st` over all patterns; where `G` has negative entries, over all signs of the vectors too.
fn largest(gram: &DMatrix<f64>, participation: Participation) -> f64 {
    let steps = gram.nrows();
    let signed = gram.iter().any(|entry| *entry < -1e-9);
    let mut largest = 0.0f64;
    for pattern in 1u32..1 << steps {
        let chosen: Vec<usize> = (0..steps).filter(|t| pattern >> t & 1 == 1).collect();
        let apart = chosen.windows(2).all(|pair| (pair[1] - pair[0]) as u64 >= participation.separation());
        if !apart || chosen.len() as u64 > participation.most() {
            continue;
        }
        for signs in 0..if signed { 1u32 << (chosen.len() - 1) } else { 1 } {
            let sign = |i: usize| if signs >> i & 1 == 1 { -1.0 } else { 1.0 };
            let row = |i: usize| chosen.iter().enumerate().map(|(j, t)| sign(j) * gram[(chosen[i], *t)]).sum::<f64>();
            largest = largest.max((0..chosen.len()).map(|i| sign(i) * row(i)).sum());
        }
    }
    largest
}

/// No pattern of steps beats a figure; some pattern reaches those that are exact.
#[test]
fn no_pattern_beats_the_figures() {
    for horizon in [1, 2, 3, 7, 8, 11] {
        for name in STREAMED {
            let Some(mechanism) = build(name, horizon) else { continue };
            let gram = gram(&*mechanism);
            for (most, separation) in [(1, 1), (1, 4), (2, 1), (2, 3), (3, 2), (4, 1), (3, 4), (20, 1), (20, 2)] {
                let participation = Participation::new(most, separation).unwrap();
                let (ours, want) = (mechanism.participation_squared(participation), largest(&gram, participation));
                let place = format!("{name} at {horizon}, {most} steps {separation} apart: {ours}, largest {want}");
                println!("{place} {}", ours / want);
                assert!(ours >= want * (1.0 - 1e-10), "{place}");
                let several = most > 1 && ["honaker", "smooth", "path"].iter().any(|tree| name.starts_with(tree));
                let exact = EXACT.iter().any(|exact| name.starts_with(exact)) && !several;
                assert!(!exact || ours <= want * (1.0 + 1e-6), "{place}");
                assert!(ours <= 3.0 * want, "{place}");
            }
        }
    }
}
