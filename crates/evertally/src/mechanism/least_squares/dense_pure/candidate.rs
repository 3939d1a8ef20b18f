//! A point of the search: columns of `R` on the simplex, and the objective over them.
//!
//! **Parameters.** Column `j` of `R` is `φ e_identity + (1 - φ) θ_j² / ‖θ_j‖²`, so that `R ≥ 0` and every column sums
//! to 1 for every `θ`: no constraint remains. A weight can reach 0 and stays there. The floor `φ` keeps the diagonal
//! away from 0, where Woodbury's formula would cancel; it costs nothing, because the only bump that drives a step's
//! diagonal to 0 is one that has shrunk to this very step, and adding its weight to the diagonal is better
//! (`(a + b)² > a² + b²`).
//!
//! **Largest variance.** The power mean `(Σ ‖L_t‖^{2p} / T)^{1/p}` is minimised for growing `p`; its gradient is that
//! of `Σ w_t ‖L_t‖²` with `w_t` proportional to `‖L_t‖^{2(p-1)}`. Powers are taken by squaring, roots by square roots.

use super::bumps::{BumpLayout, Solved};
use crate::mechanism::Objective;
use crate::mechanism::accounting::row_norms::RowNorms;
use crate::number::descent::minimise;

/// `φ`, the least share of the diagonal in a column.
pub(super) const FLOOR: f64 = 1.0 / 64.0;

/// The objective: the mean of `‖L_t‖²`, or its power mean with exponent `2^log_power`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Aim {
    Mean,
    PowerMean { log_power: u32 },
}

/// One attempt: the spans of the bumps, and `θ`.
#[derive(Clone, Debug)]
pub(super) struct BumpCandidate {
    pub(super) layout: BumpLayout,
    pub(super) theta: Vec<f64>,
}

impl BumpCandidate {
    /// The entries of `R`, with column sums 1.
    pub(super) fn entries(&self) -> Vec<f64> {
        columns(&self.layout, &self.theta).0
    }

    /// Mean and largest of `2 ‖L_t‖²`: ε²·variance, for `s1 = 1`.
    pub(super) fn figure(&self, objective: Objective) -> f64 {
        let norms = RowNorms::new(Solved::new(&self.layout, self.entries()).row_norms());
        2.0 * objective.of(norms.max(), norms.mean())
    }

    /// Hats of every spacing `w` in a partition of unity, each level with its budget. Their support is twice the width,
    /// and they are slightly above 0 there so that they can grow.
    pub(super) fn hats(horizon: usize, levels: &[(f64, f64)]) -> Self {
        let (mut spans, mut values) = (vec![], vec![]);
        let steps = horizon as f64;
        for (spacing, budget) in levels {
            let count = (steps / spacing).round().max(1.0);
            let width = steps / count;
            for node in 0..=count as usize {
                let centre = node as f64 * width;
                let first = (centre - 2.0 * width).max(0.0) as usize;
                let last = (centre + 2.0 * width).min(steps) as usize;
                let hat = |j: usize| (1.0 - (j as f64 + 0.5 - centre).abs() / width).max(0.0) + 0.01;
                values.extend((first..last).map(|j| budget * hat(j)));
                spans.push(first..last);
            }
        }
        let identity = 1.0 - levels.iter().map(|(_, budget)| budget).sum::<f64>();
        let mut theta = vec![identity.sqrt(); horizon];
        theta.extend(values.into_iter().map(f64::sqrt));
        Self { layout: BumpLayout::new(horizon, spans), theta }
    }

    /// Descends for at most this many steps and returns the value reached.
    pub(super) fn descend(&mut self, aim: Aim, steps: usize) -> f64 {
        let layout = &self.layout;
        let mut objective = |theta: &[f64]| {
            let mut gradient = vec![0.0; theta.len()];
            let value = evaluate(layout, aim, theta, &mut gradient);
            (value, gradient)
        };
        minimise(&mut self.theta, steps, 1e-7, &mut objective)
    }

    /// Number of bumps.
    pub(super) fn bumps(&self) -> usize {
        self.layout.spans().len()
    }

    /// Removes one bump; the rest of every column grows in proportion.
    pub(super) fn without(&self, bump: usize) -> Self {
        self.replaced(bump, &[])
    }

    /// Cuts one bump in two that overlap around its middle, each fading as the other takes over.
    pub(super) fn split(&self, bump: usize) -> Self {
        let length = self.layout.spans()[bump].len() as f64;
        let right = |i: usize| (1.5 * (i as f64 + 0.5) / length - 0.25).clamp(0.0, 1.0);
        self.replaced(bump, &[&right, &|i| 1.0 - right(i)])
    }

    /// Replaces a bump by parts of it: these shares of its weights.
    fn replaced(&self, bump: usize, parts: &[&dyn Fn(usize) -> f64]) -> Self {
        let mut theta = self.theta[..self.layout.entries(bump).start].to_vec();
        let mut spans = self.layout.spans()[..bump].to_vec();
        let old = &self.theta[self.layout.entries(bump)];
        for part in parts {
            theta.extend(old.iter().enumerate().map(|(i, t)| t * part(i).sqrt()));
            spans.push(self.layout.spans()[bump].clone());
        }
        theta.extend(&self.theta[self.layout.entries(bump).end..]);
        spans.extend_from_slice(&self.layout.spans()[bump + 1..]);
        Self { layout: BumpLayout::new(self.layout.horizon(), spans), theta }
    }

    /// Drops vanished bumps, gives the weight of bumps that shrank to a single step to the diagonal, and lets every
    /// bump reach `margin` steps beyond its support again.
    pub(super) fn tidy(&mut self, margin: usize) {
        let entries = self.entries();
        let horizon = self.layout.horizon();
        let mut theta: Vec<f64> = entries[..horizon].iter().map(|a| a - FLOOR).collect();
        let (mut spans, mut values) = (vec![], vec![]);
        for (bump, span) in self.layout.spans().iter().enumerate() {
            let weights = &entries[self.layout.entries(bump)];
            let mass: f64 = weights.iter().sum();
            let peak = (0..weights.len()).max_by(|a, b| weights[*a].total_cmp(&weights[*b])).unwrap_or(0);
            if mass < 1e-3 {
                continue;
            }
            if weights[peak] > 0.98 * mass {
                theta[span.start + peak] += weights[peak];
                continue;
            }
            let counts = |w: &f64| *w > 1e-6;
            let first = weights.iter().position(counts).unwrap_or(0);
            let last = weights.iter().rposition(counts).unwrap_or(0);
            let wide = (span.start + first).saturating_sub(margin)..(span.start + last + 1 + margin).min(horizon);
            let at = |step: usize| step.checked_sub(span.start).and_then(|i| weights.get(i)).copied().unwrap_or(0.0);
            values.extend(wide.clone().map(|step| at(step).max(1e-4)));
            spans.push(wide);
        }
        theta.extend(values);
        theta.iter_mut().for_each(|t| *t = t.max(0.0).sqrt());
        *self = Self { layout: BumpLayout::new(horizon, spans), theta };
    }
}

/// The entries of `R` and the column sums of `θ²`.
fn columns(layout: &BumpLayout, theta: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let mut entries: Vec<f64> = theta.iter().map(|t| t * t).collect();
    let sums = layout.column_sums(&entries);
    for (a, sum) in entries.iter_mut().zip(&sums) {
        *a = FLOOR + (1.0 - FLOOR) * *a / sum;
    }
    for (bump, span) in layout.spans().iter().enumerate() {
        let at = layout.entries(bump);
        entries[at].iter_mut().zip(&sums[span.clone()]).for_each(|(b, sum)| *b = (1.0 - FLOOR) * *b / sum);
    }
    (entries, sums)
}

/// The aim, times 2, and its derivatives by `θ`.
pub(super) fn evaluate(layout: &BumpLayout, aim: Aim, theta: &[f64], gradient: &mut [f64]) -> f64 {
    let (entries, sums) = columns(layout, theta);
    let solved = Solved::new(layout, entries);
    let (weights, value) = match aim {
        Aim::Mean => (vec![1.0 / layout.horizon() as f64; layout.horizon()], None),
        Aim::PowerMean { log_power } => {
            let (weights, value) = power_mean(&solved.row_norms(), log_power);
            (weights, Some(value))
        }
    };
    let weighted = solved.weighted(&weights, gradient);
    // Chain rule: with p = θ²/s, dp_i/dθ_k = (2 θ_k / s) (δ_ik - p_i).
    let entries = solved.entries();
    let shares: Vec<f64> = (0..entries.len())
        .map(|i| if i < layout.horizon() { entries[i] - FLOOR } else { entries[i] } / (1.0 - FLOOR))
        .collect();
    let products: Vec<f64> = gradient.iter().zip(&shares).map(|(g, p)| g * p).collect();
    let means = layout.column_sums(&products);
    let factor = 4.0 * (1.0 - FLOOR);
    let chain = |gradient: &mut [f64], theta: &[f64], steps: std::ops::Range<usize>| {
        for ((g, t), j) in gradient.iter_mut().zip(theta).zip(steps) {
            *g = factor * t / sums[j] * (*g - means[j]);
        }
    };
    chain(gradient, &theta[..layout.horizon()], 0..layout.horizon());
    for (bump, span) in layout.spans().iter().enumerate() {
        let at = layout.entries(bump);
        chain(&mut gradient[at.clone()], &theta[at], span.clone());
    }
    2.0 * value.unwrap_or(weighted)
}

/// `(Σ v_t^p / T)^{1/p}` for `p = 2^log_power`, and its derivatives by the `v_t`.
fn power_mean(values: &[f64], log_power: u32) -> (Vec<f64>, f64) {
    let top = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let power = |x: f64| (0..log_power).fold(x, |x, _| x * x);
    let powers: Vec<f64> = values.iter().map(|v| power((v / top).max(0.0))).collect();
    let mean = powers.iter().sum::<f64>() / values.len() as f64;
    let norm = top * (0..log_power).fold(mean, |x, _| x.sqrt());
    // d norm / d v_t = norm · v_t^p / (v_t Σ v^p)
    let total = mean * values.len() as f64;
    let weights = powers.iter().zip(values).map(|(power, v)| norm * power / (v * total)).collect();
    (weights, norm)
}
