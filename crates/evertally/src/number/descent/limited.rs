//! Limited-memory BFGS with a bracketing line search (weak Wolfe conditions): for thousands of variables.
//!
//! Nocedal 1980 (doi 10.1090/S0025-5718-1980-0572855-7) for the two-loop recursion; Lewis and Overton 2013
//! (doi 10.1007/s10107-012-0514-2) for the bisection.

use super::{Curvature, DescentPoint, Function, descend};
use crate::number::lanes::dot;
use std::collections::VecDeque;

/// Pairs of steps and gradient changes that are kept.
const MEMORY: usize = 20;
/// Sufficient decrease and curvature.
const DECREASE: f64 = 1e-4;
const CURVATURE: f64 = 0.9;

/// Moves `x` downhill for at most `steps` steps, until ten of them gain less than `tolerance` (relative), or no step
/// decreases the value; returns the value reached. The function returns its value and gradient.
pub(crate) fn minimise(
    x: &mut Vec<f64>,
    steps: usize,
    tolerance: f64,
    function: &mut dyn FnMut(&[f64]) -> (f64, Vec<f64>),
) -> f64 {
    let mut limited = |point: &[f64], limit: f64| Some(function(point)).filter(|(value, _)| *value <= limit);
    minimise_lazily(x, steps, tolerance, &mut limited)
}

/// The same for a function whose gradient costs more than its value.
pub(crate) fn minimise_lazily(x: &mut Vec<f64>, steps: usize, tolerance: f64, function: &mut Function) -> f64 {
    let mut recent = VecDeque::new();
    let is_enough = |before: f64, value: f64| {
        if recent.is_empty() {
            recent.push_back(before);
        }
        recent.push_back(value);
        recent.len() > 10 && recent.pop_front().is_some_and(|old| old - value < tolerance * value.abs())
    };
    let found = descend(&mut Limited::default(), std::mem::take(x), steps, is_enough, function);
    *x = found.point;
    found.value
}

struct GradientPair {
    step: Vec<f64>,
    change: Vec<f64>,
    /// `1 / (step · change)`.
    inverse: f64,
}

/// The last steps, and the changes of the gradient along them.
#[derive(Default)]
struct Limited(VecDeque<GradientPair>);

impl Curvature for Limited {
    fn downhill(&self, gradient: &[f64]) -> Vec<f64> {
        let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let mut along = Vec::with_capacity(self.0.len());
        for pair in self.0.iter().rev() {
            let alpha = pair.inverse * dot(&pair.step, &direction);
            direction.iter_mut().zip(&pair.change).for_each(|(d, c)| *d -= alpha * c);
            along.push(alpha);
        }
        if let Some(last) = self.0.back() {
            let scale = 1.0 / (last.inverse * dot(&last.change, &last.change));
            direction.iter_mut().for_each(|d| *d *= scale);
        }
        for (pair, alpha) in self.0.iter().zip(along.into_iter().rev()) {
            let beta = alpha - pair.inverse * dot(&pair.change, &direction);
            direction.iter_mut().zip(&pair.step).for_each(|(d, s)| *d += beta * s);
        }
        direction
    }

    fn dot(&self, a: &[f64], b: &[f64]) -> f64 {
        dot(a, b)
    }

    /// A point that satisfies both conditions, or at least the first one after 30 trials.
    fn search(
        &self,
        from: &DescentPoint,
        mut direction: Vec<f64>,
        slope: f64,
        function: &mut Function,
    ) -> Option<(DescentPoint, Vec<f64>)> {
        let first = if self.is_fresh() { 0.1 / dot(&from.gradient, &from.gradient).sqrt().max(1e-300) } else { 1.0 };
        let (mut low, mut high, mut length) = (0.0, f64::INFINITY, first);
        let mut best = None;
        for _ in 0..30 {
            let point: Vec<f64> = from.point.iter().zip(&direction).map(|(x, d)| x + length * d).collect();
            if let Some((value, gradient)) = function(&point, from.value + DECREASE * length * slope) {
                let steep = dot(&gradient, &direction) < CURVATURE * slope;
                best = Some((DescentPoint { point, value, gradient }, length));
                if !steep {
                    break;
                }
                low = length;
            } else {
                high = length; // too far, or not a number
            }
            length = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * low };
        }
        let (place, length) = best?;
        direction.iter_mut().for_each(|d| *d *= length);
        Some((place, direction))
    }

    fn learn(&mut self, step: Vec<f64>, change: Vec<f64>) {
        let curvature = dot(&step, &change);
        if curvature > 0.0 {
            self.0.push_back(GradientPair { step, change, inverse: 1.0 / curvature });
            if self.0.len() > MEMORY {
                self.0.pop_front();
            }
        }
    }

    fn is_fresh(&self) -> bool {
        self.0.is_empty()
    }

    fn forget(&mut self) {
        self.0.clear();
    }
}
