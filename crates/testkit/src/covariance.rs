//! Releases compared with the covariance that a plan states.
//!
//! A release of the all-zero stream is `y = L z` with independent `z` of variance `v` and fourth cumulant `κ`, so its
//! covariance is `C = v L Lᵀ` (dense twin). Every statistic here is a quadratic form of the empirical covariance
//! `Ĉ = mean(y yᵀ)` with a weight matrix `B`, whose mean is `tr(B C)` and whose variance over `N` paths is exactly
//!
//! ```text
//! N · Var tr(B Ĉ) = 2 tr(B C B C) + κ Σ_n (l_nᵀ B l_n)²       (l_n = column n of L)
//! ```
//!
//! Only the last step, from the variance to a p-value, is the central limit theorem. With 10⁴ paths and more its tail
//! is accurate to a small factor at the levels used here, also for Laplace noise.

use evertally::mechanism::Matrix;
use evertally::noise::{DiscreteLaw, GuardedKey, TestSeed};
use evertally::plan::Plan;
use evertally::stream::RunningSum;
use evertally_training::{Real, Series, Tuning, VectorNoise, VectorPlan};
use nalgebra::DMatrix;

use crate::{chi_square_tail, normal_tail};

/// Releases of the all-zero stream, one row per path and one column per step.
///
/// Every path is a separate stream name under one test key.
pub fn releases(plan: &Plan, seed: u64, paths: usize) -> DMatrix<f64> {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(seed));
    let steps = plan.horizon() as usize;
    let mut values = DMatrix::zeros(paths, steps);
    for path in 0..paths {
        let name = format!("path {path}").parse().expect("a valid name");
        let mut stream = RunningSum::new(plan.clone(), &key, name).expect("every plan has a stream");
        for step in 0..steps {
            values[(path, step)] = stream.tick().expect("within the horizon").value();
        }
    }
    values
}

/// The noise of this many coordinates under a test key, one row per coordinate and one column per step.
pub fn vector_noise<F: Real>(plan: &VectorPlan, seed: u64, coordinates: usize) -> DMatrix<f64> {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(seed));
    let name = "vectors".parse().expect("a valid name");
    let mut noise = VectorNoise::<F>::new(plan.clone(), &key, name, 0..coordinates as u64, Tuning::default())
        .expect("every vector plan has noise");
    let mut values = DMatrix::zeros(coordinates, plan.horizon() as usize);
    let mut row = vec![F::default(); coordinates];
    for mut column in values.column_iter_mut() {
        noise.next_into(&mut row).expect("within the horizon");
        column.iter_mut().zip(&row).for_each(|(value, x)| *value = x.double());
    }
    values
}

/// Variance and fourth moment of a law, summed from its probabilities; those of the continuous law if the deviation is
/// above 10⁴, which differ relatively by less than 10⁻⁸.
pub fn law_moments(law: &DiscreteLaw) -> (f64, f64) {
    let parameter = law.parameter().to_f64();
    if law.scale() > 1e4 {
        let (variance, kurtosis) = match law {
            DiscreteLaw::Laplace(_) => (2.0 * parameter * parameter, 6.0),
            DiscreteLaw::Gaussian(_) => (parameter, 3.0),
        };
        return (variance, kurtosis * variance * variance);
    }
    let exponent = |x: f64| match law {
        DiscreteLaw::Laplace(_) => x / parameter,
        DiscreteLaw::Gaussian(_) => x * x / (2.0 * parameter),
    };
    let (mut mass, mut second, mut fourth) = (1.0, 0.0, 0.0);
    for x in (1..).map(f64::from).take_while(|&x| exponent(x) < 60.0) {
        let weight = 2.0 * (-exponent(x)).exp();
        mass += weight;
        second += weight * x * x;
        fourth += weight * x.powi(4);
    }
    (second / mass, fourth / mass)
}

/// A dense twin's matrix for linear algebra.
pub fn dense(matrix: &Matrix) -> DMatrix<f64> {
    let (rows, columns) = matrix.shape();
    DMatrix::from_fn(rows, columns, |i, j| matrix.row(i)[j])
}

/// The second and fourth moments of releases that a plan states.
pub struct StatedMoments {
    /// `L` of the dense twin.
    l: DMatrix<f64>,
    /// `C`.
    covariance: DMatrix<f64>,
    /// `C⁻¹`.
    inverse: DMatrix<f64>,
    /// `K⁻¹` with `K Kᵀ = C`: makes steps uncorrelated.
    whitener: DMatrix<f64>,
    /// `κ`.
    cumulant: f64,
}

/// One p-value per family of comparisons: the smallest of the family times their number.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// Every step's mean is 0.
    pub means: f64,
    /// Every entry of the covariance.
    pub entries: f64,
    /// Every node's variance, measured where the releases reveal most of it.
    pub nodes: f64,
    /// One common factor of the covariance: the most powerful test against a wrong scale.
    pub scale: f64,
    /// All entries at once: the squared distance of `Ĉ` from `C` in units of its own spread.
    pub whole: f64,
}

impl Verdict {
    /// Whether all families are above the level.
    pub fn passes(&self, level: f64) -> bool {
        [self.means, self.entries, self.nodes, self.scale, self.whole].into_iter().all(|p| p > level)
    }
}

impl StatedMoments {
    /// From the dense twin and the probabilities of the law.
    pub fn from_plan(plan: &Plan) -> Self {
        let grid = plan.request().grid().to_f64(1) / plan.noise_divisor() as f64;
        let (variance, fourth) = law_moments(plan.law());
        let (variance, fourth) = (variance * grid * grid, fourth * grid.powi(4));
        assert!((plan.node_variance() / variance - 1.0).abs() < 1e-7, "the plan states another variance than its law");
        let promise = Self::new(dense(&plan.mechanism().dense().l), variance, fourth);
        promise.is_what_the_plan_says(plan);
        promise
    }

    /// The plan's own covariances of all pairs of steps, which do not use a matrix.
    fn is_what_the_plan_says(&self, plan: &Plan) {
        let c = &self.covariance;
        for (s, t) in (0..c.nrows()).flat_map(|s| (0..c.nrows()).map(move |t| (s, t))) {
            let (first, second) = (s as u64 + 1, t as u64 + 1);
            let off = plan.covariance(first, second) - c[(s, t)];
            assert!(off.abs() < 1e-7 * (c[(s, s)] * c[(t, t)]).sqrt(), "covariance of the steps {first} and {second}");
            let between = c[(s, s)] + c[(t, t)] - 2.0 * c[(s, t)];
            // Stated variances include the rounding of the matrix.
            let allowed = (1e-7 + plan.mechanism().row_growth() - 1.0) * (c[(s, s)] + c[(t, t)]);
            let off = plan.variance_between(first, second) - between;
            assert!(off.abs() < allowed, "variance between the steps {first} and {second}");
        }
    }

    /// From the continuous noise of vectors; every coordinate is a path.
    pub fn from_vector_plan(plan: &VectorPlan) -> Self {
        let mut l = dense(&plan.mechanism().dense().l);
        if plan.series() == Series::Increments {
            (1..l.nrows()).rev().for_each(|t| {
                let before = l.row(t - 1).into_owned();
                let mut row = l.row_mut(t);
                row -= before;
            });
        }
        let variance = plan.sigma().powi(2);
        Self::new(l, variance, 3.0 * variance * variance)
    }

    /// `L z` with independent `z` of this variance and fourth moment.
    fn new(l: DMatrix<f64>, variance: f64, fourth: f64) -> Self {
        let covariance = &l * l.transpose() * variance;
        let factor = covariance.clone().cholesky().expect("the covariance is positive definite");
        let whitener = factor.l().try_inverse().expect("a Cholesky factor is regular");
        Self { inverse: factor.inverse(), whitener, covariance, cumulant: fourth - 3.0 * variance * variance, l }
    }

    /// Compares releases of the all-zero stream with the stated moments.
    pub fn judge(&self, releases: &DMatrix<f64>) -> Verdict {
        let (paths, steps) = (releases.nrows() as f64, releases.ncols());
        let seen = releases.transpose() * releases / paths;
        let p = |deviation: f64, variance: f64| normal_tail(deviation / (variance / paths).sqrt());

        let c = &self.covariance;
        let means = releases.row_sum() / paths;
        let means = smallest((0..steps).map(|t| p(means[t], c[(t, t)])));

        let squares = self.l.map(|weight| weight * weight);
        let shared = &squares * squares.transpose() * self.cumulant;
        let entries = smallest((0..steps).flat_map(|s| (0..=s).map(move |t| (s, t))).map(|(s, t)| {
            let variance = c[(s, s)] * c[(t, t)] + c[(s, t)].powi(2) + shared[(s, t)];
            p(seen[(s, t)] - c[(s, t)], variance)
        }));

        // B = u uᵀ with u = C⁻¹ l_n: uᵀ C u = l_nᵀ C⁻¹ l_n = H_nn, and u · l_m = H_nm.
        let directions = &self.inverse * &self.l;
        let h = self.l.transpose() * &directions;
        let nodes = smallest((0..h.nrows()).map(|n| {
            let direction = directions.column(n);
            let quadratic = direction.dot(&(&seen * direction));
            let fourth: f64 = h.column(n).iter().map(|h| h.powi(4)).sum();
            p(quadratic - h[(n, n)], 2.0 * h[(n, n)].powi(2) + self.cumulant * fourth)
        }));

        // B = C⁻¹.
        let own: f64 = h.diagonal().iter().map(|h| h * h).sum();
        let distance = &self.inverse * &seen - DMatrix::identity(steps, steps);
        let scale = p(distance.trace(), 2.0 * steps as f64 + self.cumulant * own);

        // N/2 · ‖K⁻¹ (Ĉ − C) K⁻ᵀ‖² is a weighted sum of χ²; these are its first two moments.
        let statistic = paths / 2.0 * (&distance * &distance).trace();
        let fourth: f64 = h.iter().map(|h| h.powi(4)).sum();
        let free = (steps * (steps + 1)) as f64;
        let mean = 0.5 * (free + self.cumulant * own);
        let variance = 0.5 * (2.0 * free + 4.0 * self.cumulant * own + self.cumulant.powi(2) * fourth);
        let whole = chi_square_tail(statistic * 2.0 * mean / variance, 2.0 * mean * mean / variance);

        Verdict { means, entries, nodes, scale, whole }
    }

    /// The p-values of "these releases are independent of those", under two plans: of all products, and of the squares.
    ///
    /// Whitened, the products of different streams are uncorrelated with variance 1, so that `N` times the squared norm
    /// of their means is χ² with `T · T'` degrees of freedom. The squares detect noise that is shared except for its
    /// sign.
    pub fn independent(&self, ours: &DMatrix<f64>, other: &StatedMoments, theirs: &DMatrix<f64>) -> (f64, f64) {
        assert_eq!(ours.nrows(), theirs.nrows(), "as many paths");
        let paths = ours.nrows() as f64;
        let (ours, theirs) = (ours * self.whitener.transpose(), theirs * other.whitener.transpose());
        let products = ours.transpose() * &theirs / paths;
        let free = products.len() as f64;
        let products = chi_square_tail(paths * products.norm_squared(), free);

        let common = ours.ncols().min(theirs.ncols());
        let centred = |x: &f64| x * x - 1.0;
        let sum: f64 = (0..common)
            .map(|t| {
                ours.column(t).iter().zip(theirs.column(t).iter()).map(|(x, y)| centred(x) * centred(y)).sum::<f64>()
            })
            .sum();
        let (a, b) = (self.covariance_of_squares(), other.covariance_of_squares());
        let variance: f64 = (0..common).flat_map(|s| (0..common).map(move |t| (s, t))).map(|at| a[at] * b[at]).sum();
        (products, normal_tail(sum / (paths * variance).sqrt()))
    }

    /// The p-value of the squares of the whitened steps.
    fn covariance_of_squares(&self) -> DMatrix<f64> {
        let weights = (&self.whitener * &self.l).map(|weight| weight * weight);
        let steps = self.covariance.nrows();
        DMatrix::identity(steps, steps) * 2.0 + &weights * weights.transpose() * self.cumulant
    }
}

/// The smallest p-value times their number.
fn smallest(values: impl Iterator<Item = f64>) -> f64 {
    let (least, count) = values.fold((1.0f64, 0.0), |(least, count), p| (least.min(p), count + 1.0));
    least * count
}
