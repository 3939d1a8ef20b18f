//! Errors in the papers, each with the computation that shows it. `docs/mechanisms.md` lists them.

use evertally::mechanism::{Criterion, MechanismName, NoiseKind, Objective, ShapeChoice};
use nalgebra::{DMatrix, DVector};

/// Lazy sampling of a path-sum tree without a root, as a symbolic computation with independent standard normals: every
/// value is a row of coefficients, so covariances are exact. Levels 1 ..= L lie below the root, P_0 = 0, and bits count
/// from the root.
struct LazyPath {
    levels: u32,
    corrected: bool,
    known: Vec<bool>,
    path: Vec<Vec<f64>>,
    last: Option<u32>,
    normals: usize,
}

impl LazyPath {
    const NORMALS: usize = 64;

    fn new(levels: u32, corrected: bool) -> Self {
        let depth = levels as usize + 1;
        let path = vec![vec![0.0; Self::NORMALS]; depth];
        Self { levels, corrected, known: vec![false; depth], path, last: None, normals: 0 }
    }

    fn fresh(&mut self, mean: Vec<f64>, variance: f64) -> Vec<f64> {
        let mut value = mean;
        value[self.normals] = variance.sqrt();
        self.normals += 1;
        value
    }

    fn query(&mut self, step: u32) -> Vec<f64> {
        let leaf = self.levels as usize;
        let Some(last) = self.last.replace(step) else {
            self.path[leaf] = self.fresh(vec![0.0; Self::NORMALS], f64::from(self.levels));
            (self.known[0], self.known[leaf]) = (true, true);
            return self.path[leaf].clone();
        };
        if last == step {
            return self.path[leaf].clone();
        }
        let split = (self.levels - bits((last - 1) ^ (step - 1))) as usize;
        if !self.known[split] {
            let above = (0..split).rev().find(|l| self.known[*l]).unwrap();
            let below = (split..=leaf).find(|l| self.known[*l]).unwrap();
            let (from, whole, rest) = ((split - above) as f64, (below - above) as f64, (below - split) as f64);
            let mix = |(a, b): (&f64, &f64)| a + from / whole * (b - a);
            let mean = self.path[above].iter().zip(&self.path[below]).map(mix).collect();
            self.path[split] = self.fresh(mean, from * rest / whole);
        }
        self.path[leaf] = self.fresh(self.path[split].clone(), (leaf - split) as f64);
        if self.corrected {
            self.known[split] = true; // the line missing in algorithm 1
        }
        self.known[split + 1..leaf].fill(false);
        self.path[leaf].clone()
    }
}

fn bits(x: u32) -> u32 {
    u32::BITS - x.leading_zeros()
}

fn covariance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Pagh, Sejer 2026, algorithm 1: the bit of the level where the paths part must be set.
#[test]
fn lazy_sampling_needs_the_bit_of_the_splitting_level() {
    let answers = |corrected| {
        let mut lazy = LazyPath::new(4, corrected);
        [1, 4, 5].map(|step| lazy.query(step))
    };
    let [one, _, five] = answers(false);
    assert!((covariance(&one, &five) - 0.5).abs() < 1e-12, "as published: half of the correct value");
    let [one, _, five] = answers(true);
    assert!((covariance(&one, &five) - 1.0).abs() < 1e-12);
    // With the bit, every pattern of queries over 16 steps has the covariance of the tree.
    for pattern in (1u32..1 << 16).filter(|pattern| pattern.count_ones() <= 5) {
        let mut lazy = LazyPath::new(4, true);
        let steps: Vec<u32> = (1..=16).filter(|t| pattern >> (t - 1) & 1 == 1).collect();
        let values: Vec<_> = steps.iter().map(|t| lazy.query(*t)).collect();
        for (s, a) in steps.iter().zip(&values) {
            for (t, b) in steps.iter().zip(&values) {
                let shared = 4 - bits((s - 1) ^ (t - 1));
                assert!((covariance(a, b) - f64::from(shared)).abs() < 1e-9, "pattern {pattern:b}: {s}, {t}");
            }
        }
    }
}

/// `max_i a_iᵀ C⁻¹ a_i` of a path-sum tree with 2^levels leaves and unit variances.
fn path_sum_sensitivity(levels: u32, root: bool) -> f64 {
    let steps = 1u32 << levels;
    let shared = |i: usize, j: usize| levels - bits((i ^ j) as u32) + u32::from(root);
    let covariance = DMatrix::from_fn(steps as usize, steps as usize, |i, j| f64::from(shared(i, j)));
    let factor = covariance.cholesky().unwrap();
    let cut = |i: usize| DVector::from_fn(steps as usize, |t, _| f64::from(u8::from(t >= i)));
    // Without a root, the two halves are independent.
    (0..steps as usize).map(|i| cut(i).dot(&factor.solve(&cut(i)))).fold(0.0, f64::max)
}

/// Pagh, Sejer 2026, lemma 2.2 promises ρ from σ² = Δ²/(2ρ) without the factor's sensitivity, which exceeds 1; and its
/// appendix B, with a root, describes a different mechanism than its algorithm, without one.
#[test]
fn the_sensitivity_of_the_factor_is_not_one() {
    for levels in [6u32, 8] {
        let (with_root, without) = (path_sum_sensitivity(levels, true), path_sum_sensitivity(levels, false));
        assert!(with_root > 1.25 && without > 1.25, "{levels}: {with_root}, {without}");
        assert!(with_root <= f64::from(levels + 2) / 4.0, "{levels}: the published bound holds");
        assert!(without > with_root * 1.001, "{levels}: less noise, more leakage");
    }
}

/// The sum along a path down a ternary tree of three levels with digits -1, 0, 1, with a given subtracted block.
fn covered(step: i64, subtracted: impl Fn(i64, i64) -> (i64, i64)) -> Vec<i64> {
    let (mut covered, mut p) = (vec![0; 40], 0i64);
    for width in [9i64, 3, 1] {
        match (step + 13) / width % 3 - 1 {
            1 => {
                (p + 1..=p + width).for_each(|i| covered[i as usize] += 1);
                p += width;
            }
            -1 => {
                let (first, last) = subtracted(p, width);
                (first.max(0)..=last).for_each(|i| covered[i as usize] -= 1);
                p -= width;
            }
            _ => {}
        }
    }
    covered
}

/// Andersson, Pagh, Steiner, Torkamani 2024, algorithm 3, line 15: the subtracted block is `[p - k^(l-1) + 1, p]`.
#[test]
fn the_subtracted_block_ends_where_the_prefix_does() {
    let prefix = |step: i64| (0..40).map(|i| i64::from((1..=step).contains(&i))).collect::<Vec<_>>();
    for step in 1..=13 {
        assert_eq!(covered(step, |p, width| (p - width + 1, p)), prefix(step), "step {step}");
    }
    assert_ne!(covered(2, |p, width| (p - width - 1, p)), prefix(2), "as published");
}

fn pure_mean(name: &str, horizon: u64) -> f64 {
    let name: MechanismName = name.parse().unwrap();
    let mechanism = name.build(horizon, &Criterion::new(NoiseKind::Laplace, Objective::Max)).unwrap();
    2.0 * mechanism.column_norms().l1.powi(2) * mechanism.mean_row_norm_squared()
}

/// Andersson, Pagh, Torkamani 2024, theorem 6: the constant of additive k-ary trees is (k-1)/log(k)³, without a
/// factor h.
#[test]
fn the_constant_of_additive_trees() {
    for (k, h) in [(2u64, 30u32), (3, 20), (5, 12)] {
        let horizon = k.pow(h) - 1;
        let (log_t, log_k) = ((horizon as f64).log2(), (k as f64).log2());
        let constant = pure_mean(&format!("kary(k={k})"), horizon) / log_t.powi(3);
        assert!((constant * log_k.powi(3) / (k - 1) as f64 - 1.0).abs() < 1e-6, "k = {k}: {constant}");
    }
}

/// Andersson, Pagh 2023, table 1: the constant of the square root is (ln 2/π)² = 0.0487 in log² T, not twice that.
#[test]
fn the_constant_of_the_square_root() {
    let root_of_figure = |horizon| {
        let mechanism =
            MechanismName::Sqrt.build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).unwrap();
        (mechanism.column_norms().l2_squared * mechanism.max_row_norm_squared()).sqrt()
    };
    // √(2ρ·variance) = c log T + d + o(1): the slope over ten doublings.
    let slope = (root_of_figure(1 << 20) - root_of_figure(1 << 10)) / 10.0;
    assert!((slope * slope - 0.0487).abs() < 1e-4, "{}", slope * slope);
}

/// Andersson, Pagh 2023: step T reads the leaf m(T+1), so a shape with C(h, m) = T leaves is one short.
#[test]
fn smooth_needs_one_leaf_more_than_steps() {
    let shape = MechanismName::Smooth(ShapeChoice::Given { height: 6, zeros: 3 }); // C(6, 3) = 20
    assert!(shape.build(19, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).is_ok());
    assert!(shape.build(20, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).is_err());
}
