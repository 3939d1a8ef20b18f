//! Limited-memory BFGS with a bracketing line search (weak Wolfe conditions).
//!
//! Nocedal 1980 (doi 10.1090/S0025-5718-1980-0572855-7) for the two-loop recursion; Lewis and Overton 2013
//! (doi 10.1007/s10107-012-0514-2) for the bisection. Only IEEE additions, products, quotients: the same on every machine.

use super::bumps::dot;
use std::collections::VecDeque;

/// Pairs of steps and gradient changes that are kept.
const MEMORY: usize = 20;
/// Sufficient decrease and curvature.
const DECREASE: f64 = 1e-4;
const CURVATURE: f64 = 0.9;

/// A function to minimise: its value at a point, with the gradient written to the second argument.
pub(super) type Objective<'a> = dyn FnMut(&[f64], &mut [f64]) -> f64 + 'a;

struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    /// `1 / (step · change)`.
    rho: f64,
}

/// Moves `x` downhill for at most so many steps, until ten of them gain less than `tolerance` (relative), or no step goes down;
/// returns the value reached.
pub(super) fn minimise(x: &mut Vec<f64>, steps: usize, tolerance: f64, objective: &mut Objective) -> f64 {
    let mut gradient = vec![0.0; x.len()];
    let mut value = objective(x, &mut gradient);
    let mut memory: VecDeque<Pair> = VecDeque::new();
    let mut recent = VecDeque::from([value]);
    for _ in 0..steps {
        let mut direction = downhill(&gradient, &memory);
        if dot(&direction, &gradient) >= 0.0 {
            memory.clear();
            direction = downhill(&gradient, &memory);
        }
        let first = if memory.is_empty() { 0.1 / dot(&gradient, &gradient).sqrt().max(1e-300) } else { 1.0 };
        let Some((length, next, next_value, next_gradient)) =
            line_search(x, value, &gradient, &direction, first, objective)
        else {
            if memory.is_empty() {
                break;
            }
            memory.clear(); // once more, along the gradient
            continue;
        };
        let change: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(new, old)| new - old).collect();
        direction.iter_mut().for_each(|d| *d *= length);
        let curvature = dot(&direction, &change);
        if curvature > 0.0 {
            memory.push_back(Pair { step: direction, change, rho: 1.0 / curvature });
            if memory.len() > MEMORY {
                memory.pop_front();
            }
        }
        (*x, value, gradient) = (next, next_value, next_gradient);
        recent.push_back(value);
        if recent.len() > 10 && recent.pop_front().is_some_and(|old| old - value < tolerance * value.abs()) {
            break;
        }
    }
    value
}

/// The quasi-Newton direction.
fn downhill(gradient: &[f64], memory: &VecDeque<Pair>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut along = Vec::with_capacity(memory.len());
    for pair in memory.iter().rev() {
        let alpha = pair.rho * dot(&pair.step, &direction);
        direction.iter_mut().zip(&pair.change).for_each(|(d, c)| *d -= alpha * c);
        along.push(alpha);
    }
    if let Some(last) = memory.back() {
        let scale = 1.0 / (last.rho * dot(&last.change, &last.change));
        direction.iter_mut().for_each(|d| *d *= scale);
    }
    for (pair, alpha) in memory.iter().zip(along.into_iter().rev()) {
        let beta = alpha - pair.rho * dot(&pair.change, &direction);
        direction.iter_mut().zip(&pair.step).for_each(|(d, s)| *d += beta * s);
    }
    direction
}

/// A point that satisfies both conditions, or at least the first one after 30 trials: (length, point, value, gradient).
fn line_search(
    x: &[f64],
    value: f64,
    gradient: &[f64],
    direction: &[f64],
    first: f64,
    objective: &mut Objective,
) -> Option<(f64, Vec<f64>, f64, Vec<f64>)> {
    let slope = dot(gradient, direction);
    let (mut low, mut high, mut length) = (0.0, f64::INFINITY, first);
    let mut best = None;
    for _ in 0..30 {
        let point: Vec<f64> = x.iter().zip(direction).map(|(x, d)| x + length * d).collect();
        let mut there = vec![0.0; x.len()];
        let found = objective(&point, &mut there);
        if found <= value + DECREASE * length * slope {
            let steep = dot(&there, direction) < CURVATURE * slope;
            best = Some((length, point, found, there));
            if !steep {
                break;
            }
            low = length;
        } else {
            high = length; // too far, or not a number
        }
        length = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * low };
    }
    best
}
