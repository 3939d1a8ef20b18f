//! A different lazily sampled mechanism, with a known mistake: the path-sum tree (every step's noise is the sum of the
//! node variables on its path) of 16 steps, read at steps 1, 4 and 5 only. The published sampler forgets to mark the
//! prefix sum that it has just drawn as known; then Cov(ν₁, ν₅) is half of its correct value.

use super::*;
use crate::PrivacyLimit;
use evertally::mechanism::Matrix;
use evertally::noise::DiscreteGaussian;
use evertally::number::Ratio;

const HEIGHT: usize = 4;
const QUERIES: [usize; 3] = [1, 4, 5];

/// Noise at the queried steps. `known[m]` tells whether the sum of the first `m` variables of the current path is
/// known; each variable has variance 1.
fn lazy_noise(path: u64, remember: bool) -> Vec<f64> {
    let mut floats = Floats::of(path);
    let mut sums = [0.0; HEIGHT + 1];
    let mut known = [true, false, false, false, false];
    let mut last = 0;
    let mut sample = |step: usize| {
        let leaf = step - 1;
        let common = (0..=HEIGHT).rev().find(|m| leaf >> (HEIGHT - m) == last >> (HEIGHT - m)).unwrap();
        if known[HEIGHT] {
            if !known[common] {
                // The Brownian bridge between the nearest known sums.
                let above = (0..common).rev().find(|&m| known[m]).unwrap();
                let below = (common..=HEIGHT).find(|&m| known[m]).unwrap();
                let share = (common - above) as f64 / (below - above) as f64;
                let variance = share * (below - common) as f64;
                sums[common] = sums[above] + share * (sums[below] - sums[above]) + variance.sqrt() * floats.normal();
                known[common] = remember;
            }
            known[common + 1..HEIGHT].fill(false);
            sums[HEIGHT] = sums[common] + ((HEIGHT - common) as f64).sqrt() * floats.normal();
        } else {
            sums[HEIGHT] = floats.normal() * (HEIGHT as f64).sqrt();
        }
        known[HEIGHT] = true;
        last = leaf;
        sums[HEIGHT]
    };
    QUERIES.map(&mut sample).to_vec()
}

/// One row per query, one column per node of the tree below the root.
fn promise() -> Promise {
    let mut l = Matrix::zeros(QUERIES.len(), (2 << HEIGHT) - 2);
    for (row, step) in QUERIES.iter().enumerate() {
        for depth in 1..=HEIGHT {
            let node = (1 << depth) - 2 + ((step - 1) >> (HEIGHT - depth));
            l.set(row, node, 1.0);
        }
    }
    // Normal noise: a discrete law a million variances wide, on a grid of 1/1000.
    let law = DiscreteGaussian::new(Ratio::new(1_000_000, 1).unwrap()).unwrap();
    Promise::new(l, law.into(), 1e-3, PrivacyLimit::default()).unwrap().rounded(1e-3)
}

fn audited(remember: bool) -> AuditReport {
    let promise = promise();
    let mut second = AuditStream::empty(QUERIES.len());
    second.add(2, 1, 1);
    let pair = Pair { name: "no other events", first: AuditStream::empty(QUERIES.len()), second };
    let mut subject = ClosureBox(|stream: &AuditStream, path| {
        stream.running_sums().iter().zip(lazy_noise(path, remember)).map(|(sum, noise)| sum + noise).collect()
    });
    audit(&mut subject, &promise, &[pair], AuditSettings::default(), &mut || ()).unwrap()
}

#[test]
fn the_missing_bit_is_found() {
    let report = audited(false);
    assert!(failed(&report).contains(&"entries") && failed(&report).contains(&"whole"), "{report:#?}");
}

#[test]
fn the_mended_sampler_passes() {
    let report = audited(true);
    assert!(!report.refuted, "{report:#?}");
}
