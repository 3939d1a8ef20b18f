//! Minimising a smooth function of a few variables: BFGS with a backtracking search.

/// Stops where a step gains less than this.
const LEAST_GAIN: f64 = 1e-8;
const MOST_STEPS: usize = 300;

/// A local minimum near `start` of a function that returns its value and gradient.
pub(super) fn minimum(start: Vec<f64>, mut function: impl FnMut(&[f64]) -> (f64, Vec<f64>)) -> Vec<f64> {
    let mut point = start;
    let (mut value, mut gradient) = function(&point);
    let mut inverse = Inverse::new(point.len());
    let mut small = 0;
    for _ in 0..MOST_STEPS {
        let mut direction = inverse.times(&gradient).into_iter().map(|x| -x).collect::<Vec<_>>();
        let mut slope = dot(&direction, &gradient);
        if slope >= 0.0 || slope.is_nan() {
            inverse = Inverse::new(point.len());
            direction = gradient.iter().map(|g| -g).collect();
            slope = -dot(&gradient, &gradient);
        }
        // The variables are logarithms: no step moves one by more than 1.
        let longest = direction.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let Some(found) = search(&point, value, &direction, slope, (1.0 / longest).min(1.0), &mut function) else {
            if inverse.is_fresh() {
                break;
            }
            inverse = Inverse::new(point.len());
            continue;
        };
        let (next, next_value, next_gradient) = found;
        inverse.update(&difference(&next, &point), &difference(&next_gradient, &gradient));
        small = if value - next_value < LEAST_GAIN { small + 1 } else { 0 };
        (point, value, gradient) = (next, next_value, next_gradient);
        if small == 3 {
            break;
        }
    }
    point
}

type Found = (Vec<f64>, f64, Vec<f64>);

/// Halves the step until it gains a share of what the slope promises.
fn search(
    point: &[f64],
    value: f64,
    direction: &[f64],
    slope: f64,
    mut length: f64,
    function: &mut impl FnMut(&[f64]) -> (f64, Vec<f64>),
) -> Option<Found> {
    for _ in 0..30 {
        let next: Vec<f64> = point.iter().zip(direction).map(|(x, d)| x + length * d).collect();
        let (next_value, gradient) = function(&next);
        if next_value <= value + 1e-4 * length * slope && gradient.iter().all(|g| g.is_finite()) {
            return Some((next, next_value, gradient));
        }
        length *= 0.5;
    }
    None
}

/// The estimate of the inverse of the matrix of second derivatives.
struct Inverse {
    rows: Vec<Vec<f64>>,
    updates: usize,
}

impl Inverse {
    fn new(count: usize) -> Self {
        let row = |i: usize| (0..count).map(|j| f64::from(u8::from(i == j))).collect();
        Self { rows: (0..count).map(row).collect(), updates: 0 }
    }

    fn is_fresh(&self) -> bool {
        self.updates == 0
    }

    fn times(&self, vector: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| dot(row, vector)).collect()
    }

    /// The BFGS formula, where the curvature is positive.
    fn update(&mut self, step: &[f64], change: &[f64]) {
        let curvature = dot(step, change);
        if curvature <= 1e-12 * dot(step, step).max(dot(change, change)) {
            return;
        }
        if self.is_fresh() {
            let scale = curvature / dot(change, change);
            self.rows.iter_mut().flatten().for_each(|entry| *entry *= scale);
        }
        let moved = self.times(change);
        let factor = (1.0 + dot(change, &moved) / curvature) / curvature;
        for (i, row) in self.rows.iter_mut().enumerate() {
            for (j, entry) in row.iter_mut().enumerate() {
                *entry += factor * step[i] * step[j] - (moved[i] * step[j] + step[i] * moved[j]) / curvature;
            }
        }
        self.updates += 1;
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's valley in four variables, whose minimum is at 1, 1, 1, 1.
    #[test]
    fn it_finds_the_bottom_of_a_bent_valley() {
        let valley = |x: &[f64]| {
            let (mut value, mut gradient) = (0.0, vec![0.0; 4]);
            for i in 0..3 {
                let (side, along) = (x[i + 1] - x[i] * x[i], 1.0 - x[i]);
                value += 100.0 * side * side + along * along;
                gradient[i] += -400.0 * side * x[i] - 2.0 * along;
                gradient[i + 1] += 200.0 * side;
            }
            (value, gradient)
        };
        let found = minimum(vec![0.0, 0.5, -0.5, 2.0], valley);
        assert!(found.iter().all(|x| (x - 1.0).abs() < 1e-3), "{found:?}");
    }
}
