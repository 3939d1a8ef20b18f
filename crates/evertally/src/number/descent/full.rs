//! BFGS with the whole matrix and a backtracking search: for a few variables that are logarithms.

use super::{Curvature, DescentPoint, Function, descend};

/// Stops if this many steps in a row each gain less than this.
const MIN_GAIN: f64 = 1e-8;
const MAX_SMALL_STEPS: usize = 3;

/// A point at most `steps` steps below `start`: usually a local minimum of a [function](Function) if these are many.
pub(crate) fn minimum_within(start: Vec<f64>, steps: usize, function: &mut Function) -> Vec<f64> {
    let mut small = 0;
    let is_enough = |before: f64, after: f64| {
        small = if before - after < MIN_GAIN { small + 1 } else { 0 };
        small == MAX_SMALL_STEPS
    };
    descend(&mut Full::new(start.len()), start, steps, is_enough, function).point
}

/// The estimate of the inverse of the matrix of second derivatives.
struct Full {
    rows: Vec<Vec<f64>>,
    updates: usize,
}

impl Full {
    fn new(count: usize) -> Self {
        let row = |i: usize| (0..count).map(|j| f64::from(u8::from(i == j))).collect();
        Self { rows: (0..count).map(row).collect(), updates: 0 }
    }

    fn times(&self, vector: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| dot(row, vector)).collect()
    }
}

impl Curvature for Full {
    fn downhill(&self, gradient: &[f64]) -> Vec<f64> {
        self.times(gradient).into_iter().map(|x| -x).collect()
    }

    fn dot(&self, a: &[f64], b: &[f64]) -> f64 {
        dot(a, b)
    }

    /// Halves the step until it gains a share of the gain that the slope predicts. No step moves a variable by more
    /// than 1.
    fn search(
        &self,
        from: &DescentPoint,
        direction: Vec<f64>,
        slope: f64,
        function: &mut Function,
    ) -> Option<(DescentPoint, Vec<f64>)> {
        let longest = direction.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let mut length = (1.0 / longest).min(1.0);
        for _ in 0..30 {
            let point: Vec<f64> = from.point.iter().zip(&direction).map(|(x, d)| x + length * d).collect();
            if let Some((value, gradient)) = function(&point, from.value + 1e-4 * length * slope)
                && gradient.iter().all(|g| g.is_finite())
            {
                let step = point.iter().zip(&from.point).map(|(new, old)| new - old).collect();
                return Some((DescentPoint { point, value, gradient }, step));
            }
            length *= 0.5;
        }
        None
    }

    /// The BFGS formula, if the curvature is positive.
    fn learn(&mut self, step: Vec<f64>, change: Vec<f64>) {
        let curvature = dot(&step, &change);
        if curvature <= 1e-12 * dot(&step, &step).max(dot(&change, &change)) {
            return;
        }
        if self.is_fresh() {
            let scale = curvature / dot(&change, &change);
            self.rows.iter_mut().flatten().for_each(|entry| *entry *= scale);
        }
        let moved = self.times(&change);
        let factor = (1.0 + dot(&change, &moved) / curvature) / curvature;
        for (i, row) in self.rows.iter_mut().enumerate() {
            for (j, entry) in row.iter_mut().enumerate() {
                *entry += factor * step[i] * step[j] - (moved[i] * step[j] + step[i] * moved[j]) / curvature;
            }
        }
        self.updates += 1;
    }

    fn is_fresh(&self) -> bool {
        self.updates == 0
    }

    fn forget(&mut self) {
        *self = Self::new(self.rows.len());
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
