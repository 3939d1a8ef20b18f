//! Buffers whose memory grows with the stream: one filter that suits every horizon.
//!
//! Step `s` enters buffer `i` with a gain `γ_i(s)`, and a buffer keeps the part `θ_i` of its contents in every step:
//!
//! ```text
//! R_ss = w_s,    R_ts = w_s Σ_i γ_i(s) θ_i^(t-s-1)   for t > s,    L = A R⁻¹
//! ```
//!
//! With `θ_i = e^(-a_i)`, rates `a_i` in equal ratios and constant gains near `√a_i` the columns would be those of the
//! [square root](super::super::SquareRoot) of `A`, whose norms grow without end. Here
//!
//! ```text
//! γ_i(s) = γ_i (x / (x + κ))^p,   x = a_i (s + s_0)
//! ```
//!
//! so slow buffers open as the stream grows older: column `s` is a square root up to a distance of about `s`, and falls
//! faster by the power `p` beyond. Its norm over all steps is finite, and grows with `√log s`; the weight `w_s` divides
//! by it. Nothing is reset, so no step pays for the end of an epoch, and a row has the error of a horizon near its own.
//!
//! **Units with events in several steps.** Let a unit have events in `m` steps, `b` apart, and `M = m b`. The weights
//! divide by the norm of such a pattern. Noise of steps that are closer than a pattern is worth little: for `b = 1` the
//! fastest rate is about `1/(4M)`, and all echoes are smaller by `√m`. This is the same shape at every scale `M`.
//!
//! **Gains and weights** are constant on [stages](filter::GrowthStage) whose age `s + s_0` grows by a half. Constants
//! were searched for the least mean logarithm of the variance over scales from a pattern to 2^40 steps.
//!
//! **Exact release**: [cursor]. **Errors**: [rows]. **Sensitivity**: [shift].

mod cursor;
mod filter;
mod rows;
mod shift;

use super::grids::{NOISE_BITS, WEIGHT_BITS};
use crate::mechanism::accounting::truncation::ROUNDING;
use crate::mechanism::toeplitz::filter::frame::filters_one_node_a_step;
use crate::mechanism::{
    ColumnNorms, Cost, Cursor, EndlessChoice, Mechanism, MechanismName, Participation, SearchWatch, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use cursor::GrowingCursor;
pub(super) use filter::LONGEST;
use filter::{GrowingFilter, GrowthStage, LONGEST_PATTERN};
use rows::GrowingRows;
use std::sync::Arc;

/// A filter over some steps, as part of an endless mechanism.
#[derive(Clone, Debug)]
pub(super) struct Growing {
    horizon: u64,
    runs: Participation,
    filter: Arc<GrowingFilter>,
    rows: Arc<GrowingRows>,
    columns: ColumnNorms,
}

impl Growing {
    /// Over 1 ..= 2^44 steps, for units with events in these steps. `O(d³ log² T)` for `d` buffers, at most 17.
    pub(super) fn new(horizon: u64, runs: Participation, watch: SearchWatch<'_>) -> Result<Self> {
        check_horizon(horizon, LONGEST, "endless(inside=growing)")?;
        let (most, separation) = (runs.most(), runs.separation());
        if most.saturating_mul(separation) > LONGEST_PATTERN {
            return Err(Error::invalid(format!(
                "`endless(inside=growing)` is for units whose events lie within 2^32 steps; events in {most} steps, at \
                 least {separation} apart, may take more: lower the bound on the events, or use `endless(inside=plain)`"
            )));
        }
        let filter = GrowingFilter::new(horizon, runs);
        let mut columns = ColumnNorms { l1: 0.0, l2_squared: 0.0 };
        for stage in &filter.stages {
            let weight = GrowingFilter::weight(stage);
            // Of the first column of the stage, up to the horizon.
            let after = (horizon - stage.before - 1) as f64;
            let sum = |(i, gain): (usize, f64)| gain * -libm::expm1(-after * filter.rates[i]) / filter.q[i];
            let echoes: f64 = stage.gains().into_iter().enumerate().map(sum).sum();
            columns.l1 = columns.l1.max(weight * (1.0 + echoes) * (1.0 + 1e-12));
            columns.l2_squared = columns.l2_squared.max(weight * weight * filter.square(stage) * (1.0 + 1e-12));
        }
        let rows = GrowingRows::new(&filter, watch)?.into();
        Ok(Self { horizon, runs, filter: filter.into(), rows, columns })
    }

    /// The numbers that a release depends on: of every stage the last step, the weight and the gains, and all gaps.
    pub(super) fn frozen_numbers(&self) -> Vec<u64> {
        let of_stage = |stage: &GrowthStage| {
            let head = [stage.last, u64::from(stage.weight)];
            head.into_iter().chain(stage.gains.iter().copied()).collect::<Vec<_>>()
        };
        self.filter.gaps.iter().copied().chain(self.filter.stages.iter().flat_map(of_stage)).collect()
    }

    /// `R_ts` of the steps `s ≤ t`, from 1.
    pub(super) fn entry(&self, row: u64, column: u64) -> f64 {
        let stage = &self.filter.stages[self.filter.place(column)];
        let echo = |(i, gain): (usize, f64)| gain * self.filter.kept(i, row - column - 1);
        let coefficient =
            if row == column { 1.0 } else { stage.gains().into_iter().enumerate().map(echo).sum::<f64>() };
        GrowingFilter::weight(stage) * coefficient
    }

    /// The largest and the mean `‖L_s‖²` of the first `steps` steps.
    pub(super) fn norms_through(&self, steps: u64) -> (f64, f64) {
        self.rows.norms_through(steps)
    }

    /// `E √T`, see [`cursor`].
    pub(super) fn slack(&self) -> f64 {
        let rest: f64 = self.filter.q.iter().map(|q| 1.0 / q).sum();
        let lost = 1.0 + libm::exp2(f64::from(NOISE_BITS - WEIGHT_BITS) - 64.0) * rest;
        lost * libm::sqrt(self.horizon as f64) * (1.0 + ROUNDING)
    }

    /// The largest `‖R u‖²` over the counts `u` of a unit, never below the true value, for several numbers of events in
    /// non-decreasing order.
    pub(super) fn largest_squares(&self, spread: Spread, events: &[u64]) -> Vec<f64> {
        shift::largest_squares(&self.filter, self.horizon, self.columns.l2_squared, spread, events)
    }

    /// The largest `‖R u‖²` divided by the number of events, over the counts `u` of at most these numbers of events,
    /// all of them more than one step may have; never below the true value.
    pub(super) fn largest_ratios(&self, spread: Spread, events: &[u64]) -> Vec<f64> {
        shift::largest_ratios(&self.filter, self.horizon, spread, events)
    }
}

impl Mechanism for Growing {
    fn name(&self) -> MechanismName {
        MechanismName::Endless(EndlessChoice::growing(self.runs))
    }

    fn horizon(&self) -> u64 {
        self.horizon
    }

    fn column_norms(&self) -> ColumnNorms {
        self.columns
    }

    fn noise_bits(&self) -> u32 {
        NOISE_BITS
    }

    fn spread_squared(&self, spread: Spread) -> u128 {
        let squared = self.largest_squares(spread, &[spread.total])[0];
        let slack = self.slack() * libm::sqrt(spread.total as f64);
        crate::mechanism::accounting::truncation::in_noise_steps(squared, 2, NOISE_BITS, slack)
    }

    fn row_norm_squared(&self, step: u64) -> f64 {
        self.rows.product(step, step)
    }

    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        self.rows.product(earlier, later)
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.norms_through(self.horizon).0
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.norms_through(self.horizon).1
    }

    filters_one_node_a_step!();

    /// From the last node back: `r` are the effects of the buffers before a step on the release. The innovation of the
    /// step adds `D` to the release, and its gains to the buffers. `O(t d)`.
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let filter = &*self.filter;
        let mut effects = vec![0.0; filter.q.len()];
        for stage in filter.stages[..=filter.place(step)].iter().rev() {
            let (gains, scale) = (stage.gains(), 1.0 / GrowingFilter::weight(stage));
            for s in (stage.before + 1..=stage.last.min(step)).rev() {
                let entry = scale + effects.iter().zip(&gains).map(|(effect, gain)| effect * gain).sum::<f64>();
                visit(Node { level: 0, index: s - 1 }, entry);
                effects.iter_mut().zip(&filter.q).for_each(|(effect, q)| *effect -= q * *effect + entry);
            }
        }
    }

    fn cost(&self) -> Cost {
        Cost::from_draws(1.0, 8 * self.filter.q.len() as u64 + 9)
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(GrowingCursor::new(self.filter.clone()))
    }
}
