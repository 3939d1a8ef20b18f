//! The law of a plan's noise in one coordinate: the matrix that standard normal variables are multiplied by.

use super::recurrence::{Form, Recurrence};
use super::schedule::{Schedule, schedule};
use super::scheme::Scheme;
use super::{Memory, Series, VectorPlan};
use evertally::noise::Node;
use evertally::{Error, Result};
use std::collections::HashMap;

/// Maximum number of entries of a matrix.
const MAX_ENTRIES: u64 = 1 << 26;
/// Maximum number of steps whose standard deviations are listed.
const MAX_STEPS: u64 = 1 << 27;

/// A matrix `B` with a row for each step: the noise of a coordinate is `B z` with independent standard normal variables
/// `z`. This is the noise that [`VectorNoise`](super::VectorNoise) draws, for running sums or increments as in the
/// plan.
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseMatrix {
    variables: usize,
    values: Vec<f64>,
}

impl NoiseMatrix {
    /// Number of variables: columns.
    pub fn variables(&self) -> usize {
        self.variables
    }

    /// All rows, one after another.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The row of a step (from 1).
    ///
    /// # Panics
    /// If there is no such step.
    pub fn row(&self, step: u64) -> &[f64] {
        self.values.chunks_exact(self.variables).nth(step as usize - 1).expect("a step of the plan")
    }
}

impl VectorPlan {
    /// The matrix of the noise, for checking a guarantee or a program. `O(T · variables)` numbers.
    ///
    /// # Errors
    /// If it has more than 2^26 numbers.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally_training::{Series, VectorRequest};
    /// let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0).with_series(Series::Increments);
    /// let plan = request.with_mechanism("input".parse()?).plan()?;
    /// let matrix = plan.noise_matrix()?;
    /// assert_eq!((matrix.variables(), matrix.row(3)[2], matrix.row(3)[1]), (100, plan.sigma(), 0.0));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn noise_matrix(&self) -> Result<NoiseMatrix> {
        matrix(&Scheme::from(self))
    }

    /// The standard deviation of the noise added to each coordinate in each step: that of [running sums or
    /// increments](Series) as in the plan. `O(T)` for mechanisms that keep few vectors.
    ///
    /// # Errors
    /// If there are too many steps.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally_training::{Series, VectorRequest};
    /// let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0).with_series(Series::Increments);
    /// let plan = request.with_mechanism("normalized-blt(buffers=2)".parse()?).plan()?;
    /// let squares: f64 = plan.noise_matrix()?.row(100).iter().map(|weight| weight * weight).sum();
    /// assert!((plan.noise_stds()?[99] / squares.sqrt() - 1.0).abs() < 1e-12);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn noise_stds(&self) -> Result<Vec<f64>> {
        stds(&Scheme::from(self))
    }
}

fn matrix(scheme: &Scheme) -> Result<NoiseMatrix> {
    let horizon = scheme.mechanism.horizon();
    let mut columns = HashMap::<Node, usize>::new();
    let mut rows: Vec<Vec<(usize, f64)>> = vec![];
    let mut numbers = 0;
    for step in 1..=horizon {
        let mut row = vec![];
        scheme.mechanism.visit_row(step, &mut |node, weight| {
            let next = columns.len();
            row.push((*columns.entry(node).or_insert(next), scheme.sigma * weight));
        });
        numbers += row.len() as u64;
        if numbers > MAX_ENTRIES || horizon.saturating_mul(columns.len() as u64) > MAX_ENTRIES {
            return Err(Error::invalid(format!(
                "the matrix of {horizon} steps has more than 2^26 numbers; use a shorter plan of the same mechanism"
            )));
        }
        rows.push(row);
    }
    let variables = columns.len();
    let mut values = vec![0.0; rows.len() * variables];
    let mut out = values.chunks_exact_mut(variables);
    for (step, row) in rows.iter().enumerate() {
        let out = out.next().expect("a row each");
        row.iter().for_each(|(column, weight)| out[*column] += weight);
        if scheme.series == Series::Increments && step > 0 {
            rows[step - 1].iter().for_each(|(column, weight)| out[*column] -= weight);
        }
    }
    Ok(NoiseMatrix { variables, values })
}

fn stds(scheme: &Scheme) -> Result<Vec<f64>> {
    let horizon = scheme.mechanism.horizon();
    if scheme.series == Series::RunningSums {
        if horizon > MAX_STEPS {
            return Err(Error::invalid(format!("{horizon} steps are too many; use fewer than 2^27")));
        }
        let of = |step| scheme.sigma * scheme.mechanism.row_norm_squared(step).sqrt();
        return Ok((1..=horizon).map(of).collect());
    }
    let mut programs = schedule(scheme, Memory::Keep)?;
    if programs.response().is_some() {
        return Ok(response_stds(&*programs));
    }
    let recurrence = Recurrence::new(&mut *programs, horizon)?;
    let mut covariance = vec![vec![0.0; recurrence.width()]; recurrence.width()];
    Ok((1..=horizon).map(|step| advance(&recurrence, step, &mut covariance).sqrt()).collect())
}

fn response_stds(programs: &dyn Schedule) -> Vec<f64> {
    let response = programs.response().expect("asked before");
    let mut sum = 0.0;
    let mut of = |step: usize| {
        sum += response.series().get(step).map_or(0.0, |weight| weight * weight);
        response.scales().map_or(1.0, |scales| scales[step].abs()) * sum.sqrt()
    };
    (0..response.horizon() as usize).map(&mut of).collect()
}

/// The variance of a step's noise; advances the covariance of the kept vectors by that step.
fn advance(recurrence: &Recurrence, step: u64, covariance: &mut [Vec<f64>]) -> f64 {
    let step = recurrence.step(step);
    // The covariances of a form with everything kept before.
    let with_kept = |covariance: &[Vec<f64>], form: &Form| -> Vec<f64> {
        covariance.iter().map(|row| dot(row, &form.kept)).collect()
    };
    let noise = with_kept(covariance, &step.noise);
    let variance = dot(&noise, &step.noise.kept) + dot(&step.noise.drawn, &step.noise.drawn);
    let changed: Vec<Vec<f64>> = step.changed.iter().map(|(_, form)| with_kept(covariance, form)).collect();
    for ((slot, form), own) in step.changed.iter().zip(&changed) {
        for other in 0..covariance.len() {
            // The covariances with the changing vectors are written below.
            covariance[*slot][other] = own[other];
            covariance[other][*slot] = own[other];
        }
        for ((other, other_form), _) in step.changed.iter().zip(&changed) {
            let both = dot(own, &other_form.kept) + dot(&form.drawn, &other_form.drawn);
            covariance[*slot][*other] = both;
            covariance[*other][*slot] = both;
        }
    }
    variance
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{SERIES, mechanisms, scheme};

    /// For every family, the matrix is that of the definition, and the deviations are the lengths of its rows.
    #[test]
    fn matrix_and_deviations_are_those_of_the_mechanism() {
        for horizon in [1, 2, 13, 40] {
            for mechanism in mechanisms(horizon) {
                for series in SERIES {
                    let scheme = scheme(mechanism.clone(), series);
                    let (matrix, stds) = (matrix(&scheme).unwrap(), stds(&scheme).unwrap());
                    let mut sum = vec![0.0; matrix.variables()];
                    for step in 1..=horizon {
                        let row = matrix.row(step);
                        let length = dot(row, row).sqrt();
                        let off = (stds[step as usize - 1] - length).abs() / length;
                        assert!(off < 1e-9, "{} of {horizon}, step {step}, {series:?}: {off}", mechanism.name());
                        let sums = if series == Series::Increments { &mut sum } else { &mut row.to_vec() };
                        if series == Series::Increments {
                            sums.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight);
                        }
                        let norm = scheme.sigma.powi(2) * mechanism.row_norm_squared(step);
                        assert!((dot(sums, sums) / norm - 1.0).abs() < 1e-9, "{}", mechanism.name());
                    }
                }
            }
        }
    }
}
