//! Minimising a smooth function: quasi-Newton descent, with one of two estimates of the curvature.
//!
//! [`Full`] keeps the whole matrix, for a few variables; [`Limited`] the last steps, for thousands. Only IEEE
//! additions, products, quotients and square roots, in a fixed order: a search finds the same parameters on every
//! machine, to the last bit.

mod full;
mod limited;
mod line;

pub(crate) use full::minimum_within;
pub(crate) use limited::{minimise, minimise_lazily};
pub(crate) use line::minimise_between;

/// A point with the value and the gradient there.
struct DescentPoint {
    point: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// The objective: a function that returns its value and gradient at a point, or nothing if the value is above a limit
/// or not a number: a rejected step needs no gradient.
pub(crate) type Function<'f> = dyn FnMut(&[f64], f64) -> Option<(f64, Vec<f64>)> + 'f;

/// An estimate of the curvature, and its line search.
trait Curvature {
    /// The quasi-Newton direction; the negative gradient as long as nothing has been learnt.
    fn downhill(&self, gradient: &[f64]) -> Vec<f64>;

    /// The inner product, in this estimate's order of summation.
    fn dot(&self, a: &[f64], b: &[f64]) -> f64;

    /// A better point along a direction with this (negative) slope, and the step to it.
    fn search(
        &self,
        from: &DescentPoint,
        direction: Vec<f64>,
        slope: f64,
        function: &mut Function,
    ) -> Option<(DescentPoint, Vec<f64>)>;

    /// Learns from a step and the change of the gradient along it.
    fn learn(&mut self, step: Vec<f64>, change: Vec<f64>);

    /// Whether nothing has been learnt.
    fn is_fresh(&self) -> bool;

    /// Forgets everything.
    fn forget(&mut self);
}

/// Descends from a point for at most `steps` steps, until `is_enough` returns true for the values before and after a
/// step, or no step decreases the value.
fn descend(
    curvature: &mut impl Curvature,
    start: Vec<f64>,
    steps: usize,
    mut is_enough: impl FnMut(f64, f64) -> bool,
    function: &mut Function,
) -> DescentPoint {
    let Some((value, gradient)) = function(&start, f64::INFINITY) else {
        return DescentPoint { point: start, value: f64::NAN, gradient: Vec::new() };
    };
    let mut here = DescentPoint { point: start, value, gradient };
    for _ in 0..steps {
        let mut direction = curvature.downhill(&here.gradient);
        let mut slope = curvature.dot(&direction, &here.gradient);
        if slope >= 0.0 || slope.is_nan() {
            curvature.forget();
            direction = curvature.downhill(&here.gradient);
            slope = curvature.dot(&direction, &here.gradient);
        }
        let Some((next, step)) = curvature.search(&here, direction, slope, function) else {
            if curvature.is_fresh() {
                break;
            }
            curvature.forget(); // once more, along the gradient
            continue;
        };
        let change = next.gradient.iter().zip(&here.gradient).map(|(new, old)| new - old).collect();
        curvature.learn(step, change);
        let before = std::mem::replace(&mut here, next).value;
        if is_enough(before, here.value) {
            break;
        }
    }
    here
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's valley, whose minimum is at 1, 1, ….
    fn valley(x: &[f64]) -> (f64, Vec<f64>) {
        let (mut value, mut gradient) = (0.0, vec![0.0; x.len()]);
        for i in 0..x.len() - 1 {
            let (side, along) = (x[i + 1] - x[i] * x[i], 1.0 - x[i]);
            value += 100.0 * side * side + along * along;
            gradient[i] += -400.0 * side * x[i] - 2.0 * along;
            gradient[i + 1] += 200.0 * side;
        }
        (value, gradient)
    }

    #[test]
    fn the_full_estimate_finds_the_bottom_of_a_bent_valley() {
        let mut limited = |x: &[f64], limit: f64| Some(valley(x)).filter(|(value, _)| *value <= limit);
        let found = minimum_within(vec![0.0, 0.5, -0.5, 2.0], 300, &mut limited);
        assert!(found.iter().all(|x| (x - 1.0).abs() < 1e-3), "{found:?}");
    }

    #[test]
    fn the_limited_estimate_finds_the_bottom_of_a_bent_valley() {
        let mut x = vec![-1.2, 1.0];
        assert!(minimise(&mut x, 200, 1e-12, &mut valley) < 1e-12);
        assert!((x[0] - 1.0).abs() < 1e-6 && (x[1] - 1.0).abs() < 1e-6);
    }
}
