//! Per-epoch random allocation: every example takes part once in every epoch, in a newly drawn step, and always at
//! least as many steps after its last one as the mechanism has bands.
//!
//! **Participation.** `R` has `w` bands, an epoch `b ≥ w` steps, and `E = ⌈T/b⌉` epochs cover the horizon. An example's
//! number gives its **phase** `φ`, `0 ≤ φ < b`, and in **round** `e = 0 … E-1` it draws a uniform place `p` from
//! `0 … b-w`, independent of all others; it takes part in the step `(e b + φ + p) mod E b` (from 0), if that is below
//! `T`. So
//!
//! * its steps are at least `w` apart: it rests for the last `w - 1` steps of its round;
//! * in every step the examples of `b - w + 1` phases take part with probability `1/(b-w+1)` each: a batch has the
//!   `b`-th part of all examples in expectation, from the first step to the last;
//! * participations of the last round that would be beyond `E b` wrap around to the start of the run.
//!
//! **The guarantee.** The columns of `w` rows of a round stay within the `b` rows of that round, modulo `E b`, so that
//! rounds have disjoint rows, and [`RandomAllocation`] in rounds accounts for them: its proof needs no order of rounds
//! in time. Places `p`, `q` of a round that belong to the steps `s < t` have the inner product `⟨|R_·s|, |R_·t|⟩`, or 0
//! if one is dropped, or if one begins the run and the other ends it. All are at most
//!
//! ```text
//! γ_d = max { ⟨|R_·s|, |R_·t|⟩ : t - s = d },        d = |p - q|,
//! ```
//!
//! and both divergences grow with every inner product: the Toeplitz matrix of the `γ_d` serves every example and round.
//! (A matrix of such maxima may fail to be one of vectors; then its diagonal is raised until it is.)
//!
//! **Comparison.** With an allocation that is drawn once, an example is in the same place in every epoch. With
//! `b`-min-sep sampling (arXiv 2602.09338) it waits for a geometric time after every rest: the number of its steps
//! varies, and only a Monte Carlo estimate of the guarantee is known. Cyclic Poisson sampling excludes an example from
//! most of the steps in advance.

use super::SamplingGuarantee;
use super::allocation::{Columns, of_independent_noise};
use crate::random_allocation::RandomAllocation;
use evertally::mechanism::Mechanism;
use evertally::{Error, Result};

/// The initial increase of a diagonal.
const RAISED: f64 = 1e-4;

/// The rounds of a mechanism, for noise of standard deviation 1 and vectors of norm 1. `O(T w + b²)`.
///
/// # Errors
/// If it is not banded, has more bands than an epoch has steps, or the horizon is too long.
pub(super) fn guarantee(mechanism: &dyn Mechanism, steps_per_epoch: u64) -> Result<SamplingGuarantee> {
    guarantee_in_rounds(mechanism, steps_per_epoch, mechanism.horizon().div_ceil(steps_per_epoch))
}

/// The same for a number of rounds, which may be more than there are whole epochs.
///
/// # Errors
/// As [`guarantee`].
pub(super) fn guarantee_in_rounds(
    mechanism: &dyn Mechanism,
    steps_per_epoch: u64,
    rounds: u64,
) -> Result<SamplingGuarantee> {
    match of_independent_noise(mechanism, steps_per_epoch, Some(rounds))? {
        Some(own) => Ok(own),
        None => table(mechanism, steps_per_epoch, rounds).map(SamplingGuarantee::Allocation),
    }
}

/// The same from a table of the places of a round.
fn table(mechanism: &dyn Mechanism, steps_per_epoch: u64, rounds: u64) -> Result<RandomAllocation> {
    let (name, horizon) = (mechanism.name().brief(), mechanism.horizon());
    let columns = Columns::new(mechanism, steps_per_epoch)?;
    let (Some(columns), Some(bands)) = (columns, mechanism.bands()) else {
        return Err(Error::invalid(format!(
            "`{name}` is not banded, and per-epoch random allocation needs bands; use {}, or random allocation once \
             for the run",
            super::banded_names(steps_per_epoch.min(32))
        )));
    };
    if bands.count > steps_per_epoch {
        return Err(Error::invalid(format!(
            "`{name}` has {} bands, but an epoch has {steps_per_epoch} steps: an example rests for as many steps as \
             bands; use at most {steps_per_epoch} bands",
            bands.count
        )));
    }
    // fits: at most 2048
    let places = (steps_per_epoch - bands.count + 1) as usize;
    let products = largest_products(&columns, horizon as usize, places);
    let between = |at: usize| products.get((at / places).abs_diff(at % places)).copied().unwrap_or(0.0);
    let mut gram: Vec<f64> = (0..places * places).map(between).collect();
    let mut raise = RAISED;
    loop {
        match RandomAllocation::new(places, gram.clone()) {
            Ok(allocation) => return allocation.in_rounds(rounds),
            Err(error) if raise > 1e3 => return Err(error),
            Err(_) => gram.iter_mut().step_by(places + 1).for_each(|square| *square *= 1.0 + raise),
        }
        raise *= 2.0;
    }
}

/// `γ_d` for `d = 0, 1, …`, for at most this many places, as long as columns overlap.
fn largest_products(columns: &Columns, horizon: usize, places: usize) -> Vec<f64> {
    let coefficients = &columns.coefficients;
    let scale = |step: usize| columns.scales.as_ref().map_or(1.0, |scales| scales[step]);
    let of_distance = |distance: usize| {
        // The later column, row by row.
        let mut sum = 0.0;
        let mut sums = vec![0.0];
        for (later, earlier) in coefficients.iter().zip(&coefficients[distance..]) {
            sum += (later * earlier).abs();
            sums.push(sum);
        }
        let product = |step: usize| {
            let rows = (horizon - step - distance).min(sums.len() - 1);
            sums[rows] * scale(step) * scale(step + distance)
        };
        (0..horizon - distance).map(product).fold(0.0, f64::max)
    };
    (0..places.min(coefficients.len())).map(of_distance).collect()
}

#[cfg(test)]
mod tests;
