//! The shift of the module built explicitly: it hides an event exactly, and is at most as long as stated.

use crate::mechanism::{Criterion, Mechanism, MechanismName, NoiseKind, Objective};
use nalgebra::{DMatrix, DVector};

/// A mechanism with its dense `L`, and the parent of every node in the trie (the node above it with the most steps).
struct Trie {
    mechanism: std::sync::Arc<dyn Mechanism>,
    /// Integer weights, one row per step.
    l: DMatrix<f64>,
    inverse: DMatrix<f64>,
    parents: Vec<Option<usize>>,
}

impl Trie {
    fn new(name: &str, horizon: u64) -> Self {
        let shape = Criterion::new(NoiseKind::Gaussian, Objective::Max);
        let mechanism = name.parse::<MechanismName>().unwrap().build(horizon, &shape).unwrap();
        let dense = mechanism.dense().l;
        let (steps, nodes) = dense.shape();
        let l = DMatrix::from_fn(steps, nodes, |t, n| dense.row(t)[n]);
        let inverse = (&l * l.transpose()).cholesky().unwrap().inverse();
        let above = |n: usize| -> Vec<usize> { (0..steps).filter(|&t| l[(t, n)] != 0.0).collect() };
        let steps_of: Vec<_> = (0..nodes).map(above).collect();
        // Nodes over the same steps are stacked in the order of their numbers.
        let holds = |m: usize, n: usize| {
            steps_of[n].iter().all(|t| steps_of[m].contains(t)) && (steps_of[m].len(), m) > (steps_of[n].len(), n)
        };
        let parent = |n| (0..nodes).filter(|&m| holds(m, n)).min_by_key(|&m| (steps_of[m].len(), m));
        Self { parents: (0..nodes).map(parent).collect(), inverse, l, mechanism }
    }

    fn weight(&self, node: usize) -> f64 {
        self.l.column(node).amax()
    }

    /// `P` of a vector of nodes: the sum from the root down to each.
    fn path_sums(&self, values: &DVector<f64>) -> Vec<f64> {
        let sum = |n: usize| {
            std::iter::successors(Some(n), |&n| self.parents[n]).map(|n| self.weight(n) * values[n]).sum::<f64>()
        };
        (0..values.len()).map(sum).collect()
    }

    /// The rounded shift of an event of this size at a step (from 0), in units of `1/G`.
    fn shift(&self, step: usize, size: f64, bits: i32, divisor: u64) -> Vec<i128> {
        let steps = self.l.nrows();
        let cut = DVector::from_fn(steps, |t, _| if t >= step { size } else { 0.0 });
        let real = self.l.transpose() * (&self.inverse * cut);
        // In units of 2^-bits, nearest.
        let rounded: Vec<i128> = self.path_sums(&real).iter().map(|p| (p * 2f64.powi(bits)).round() as i128).collect();
        let unit = i128::from(divisor >> bits);
        (0..rounded.len())
            .map(|n| {
                let difference = (rounded[n] - self.parents[n].map_or(0, |p| rounded[p])) * unit;
                let weight = self.weight(n) as i128;
                assert_eq!(difference % weight, 0, "the shift is not on the grid");
                difference / weight
            })
            .collect()
    }
}

fn dot(a: &[i128], b: &[i128], divisor: u64) -> f64 {
    a.iter().zip(b).map(|(a, b)| (*a as f64 / divisor as f64) * (*b as f64 / divisor as f64)).sum()
}

const CASES: [(&str, u64); 11] = [
    ("smooth(h=2,zeros=1)", 1),
    ("smooth(h=6,zeros=3)", 19),
    ("smooth(h=9,zeros=3)", 60),
    ("smooth(h=8,zeros=5)", 50),
    ("smooth", 33),
    ("path-sum", 1),
    ("path-sum", 21),
    ("path-sum", 64),
    ("path-sum(levels=unit)", 33),
    ("path-sum(levels=unit,root=false)", 40),
    ("path-sum(levels=9:1:12:4:6:2)", 32),
];

/// For every step, many grids and sizes: `L v = δ a_i` in whole numbers, and the bounds of the module for one event,
/// two events apart, and events of opposite signs. Coarse grids, where the bound is loose, are tested as well.
#[test]
fn explicit_shifts_hide_events_within_the_bound() {
    for (name, horizon) in CASES {
        let trie = Trie::new(name, horizon);
        let shift = trie.mechanism.gaussian_shift().unwrap();
        for (bits, size) in [(2, 1.0), (5, 1.0), (5, 7.0), (0, 100.0), (12, 1.0), (22, 3.0)] {
            let divisor = shift.weights_lcm << bits;
            let excess = shift.excess(bits, size);
            let bound = shift.squared() * size * size * (1.0 + excess);
            let shifts: Vec<Vec<i128>> =
                (0..horizon as usize).map(|step| trie.shift(step, size, bits as i32, divisor)).collect();
            let mut longest = 0.0f64;
            for (step, v) in shifts.iter().enumerate() {
                for t in 0..horizon as usize {
                    let sum: i128 = v.iter().enumerate().map(|(n, v)| trie.l[(t, n)] as i128 * v).sum();
                    let target = if t >= step { size as i128 * i128::from(divisor) } else { 0 };
                    assert_eq!(sum, target, "{name}: step {step} at {t}");
                }
                longest = longest.max(dot(v, v, divisor));
                for other in &shifts {
                    let inner = dot(v, other, divisor);
                    assert!(inner >= -shift.squared() * size * size * excess, "{name}: {inner}");
                }
            }
            assert!(longest <= bound, "{name} with {bits} bits, size {size}: {longest} > {bound}");
            // The bound is tight: fine grids reach it.
            assert!(bits < 12 || longest >= shift.squared() * size * size * (1.0 - 2e-3), "{name}: {longest}, {bound}");
        }
    }
}

/// The excess that the bound allows is at most the promised one, and a coarser grid would exceed it.
#[test]
fn the_grid_is_as_coarse_as_the_promise_allows() {
    for (name, horizon) in CASES {
        let shift = Trie::new(name, horizon).mechanism.gaussian_shift().unwrap();
        for size in [0.5, 1.0, 1e3, 1e9] {
            let (divisor, squared) = shift.on_fine_grid(size);
            assert!(squared >= shift.squared() && squared <= shift.squared() * (1.0 + 2.1e-6), "{name}");
            let bits = (divisor / shift.weights_lcm).trailing_zeros();
            assert!(bits == 0 || shift.excess(bits - 1, size) > super::MAX_EXCESS, "{name} {size}");
            assert!(bits < 36, "{name}: {bits} bits");
        }
    }
}
