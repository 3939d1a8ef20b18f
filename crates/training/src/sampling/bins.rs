//! The rows that the examples of a bin move: the Gram matrix that [`RandomAllocation`] needs, for any mechanism with a
//! row of `R` for every step.
//!
//! All of these stream by a Toeplitz matrix with scaled columns, `R_tj = c_(t-j) d_j` (negative entries count as
//! positive). Bin `i` moves row `t` by `m_i(t) = Σ_e |R_(t, i+eb)|`, over the steps `i + e b ≤ t`.

use crate::random_allocation::RandomAllocation;
use evertally::mechanism::{BandSteps, BufferSteps, Convolution, Mechanism, Streaming};
use evertally::{Error, Result};

/// Longest horizon.
const MAX_STEPS: u64 = 1 << 14;

/// `c_0, c_1, …` up to the last that is not 0, and `d_1, d_2, …` if they are not all 1.
pub(super) struct Columns {
    pub(super) coefficients: Vec<f64>,
    pub(super) scales: Option<Vec<f64>>,
}

impl Columns {
    /// From a mechanism with a feasible horizon; `None` if it has no row of `R` for every step.
    ///
    /// # Errors
    /// If the horizon is too long, there are too many bins, or more than steps.
    pub(super) fn for_bins(mechanism: &dyn Mechanism, bins: u64) -> Result<Option<Self>> {
        let horizon = mechanism.horizon();
        if horizon > MAX_STEPS {
            return Err(Error::invalid(format!(
                "examples in bins are accounted for up to {MAX_STEPS} steps, got {horizon}"
            )));
        }
        RandomAllocation::check(bins)?;
        if bins > horizon {
            return Err(Error::invalid(format!(
                "with {bins} bins and {horizon} steps some examples would never take part: use at least as many steps \
                 as bins"
            )));
        }
        Ok(mechanism.streaming().and_then(|streaming| Self::new(&streaming, horizon as usize)))
    }

    /// From the way the noise streams.
    fn new(streaming: &Streaming, horizon: usize) -> Option<Self> {
        let banded = |past: &[f64]| std::iter::once(1.0).chain(past.iter().copied()).take(horizon).collect();
        let inverted = |values: &[f64]| values.iter().map(|value| 1.0 / value).collect();
        Some(match streaming {
            Streaming::Inputs => Self { coefficients: vec![1.0], scales: None },
            Streaming::Outputs(past) => Self { coefficients: banded(past), scales: None },
            Streaming::Bands(BandSteps { past, scales, .. }) => {
                Self { coefficients: banded(past), scales: Some(inverted(scales)) }
            }
            Streaming::Buffers(steps) => Self {
                coefficients: response(steps, horizon),
                scales: Some((1..=horizon as u64).map(|step| 1.0 / steps.scale(step)).collect()),
            },
            Streaming::Innovations(weights) => Self { coefficients: reciprocal(weights, horizon), scales: None },
            Streaming::Convolution(Convolution { increments, scales, .. }) => Self {
                coefficients: reciprocal(increments, horizon),
                scales: scales.as_ref().map(|scales| inverted(scales)),
            },
            Streaming::Paths(_) | Streaming::Estimates => return None,
        })
    }

    /// How far every bin moves a row, row after row.
    fn rows(&self, horizon: usize, bins: usize, mut visit: impl FnMut(&[f64])) {
        let mut moved = vec![0.0; bins];
        for step in 0..horizon {
            let reach = self.coefficients.len().min(step + 1);
            for (back, coefficient) in self.coefficients[..reach].iter().enumerate() {
                let column = step - back;
                let scale = self.scales.as_ref().map_or(1.0, |scales| scales[column]);
                moved[column % bins] += (coefficient * scale).abs();
            }
            visit(&moved);
            moved.fill(0.0);
        }
    }
}

/// `c_0 = 1`, `c_j = Σ ω_i θ_i^(j-1)`.
fn response(steps: &BufferSteps, horizon: usize) -> Vec<f64> {
    let mut powers = vec![1.0; steps.gaps.len()];
    let mut coefficients = vec![1.0];
    for _ in 1..horizon {
        coefficients.push(steps.echoes.iter().zip(&powers).map(|(echo, power)| echo * power).sum());
        for (power, gap) in powers.iter_mut().zip(&steps.gaps) {
            *power *= 1.0 - gap;
        }
    }
    coefficients
}

/// The first coefficients of one over a series.
fn reciprocal(series: &[f64], horizon: usize) -> Vec<f64> {
    let mut inverse = vec![1.0 / series[0]];
    for at in 1..horizon {
        let reach = series.len().min(at + 1);
        let sum: f64 = (1..reach).map(|back| series[back] * inverse[at - back]).sum();
        inverse.push(-sum / series[0]);
    }
    inverse
}

/// The bins of a mechanism, for noise of standard deviation 1 and vectors of norm 1. `O(T r b)` if a row reads `r` of
/// `b` bins.
///
/// # Errors
/// If it has no row of `R` for every step, or the horizon is too long.
pub(super) fn allocation(mechanism: &dyn Mechanism, bins: u64) -> Result<RandomAllocation> {
    let (name, horizon) = (mechanism.name(), mechanism.horizon());
    let Some(columns) = Columns::for_bins(mechanism, bins)? else {
        return Err(Error::invalid(format!(
            "`{}` adds up noise in more than one row per step, and this library has no bound on what bins add to \
             it; use `epoch-bands(bands={})`, `blt` or `input`, or plan without bins",
            name.brief(),
            horizon.min(64)
        )));
    };
    let wide = bins as usize; // fits: at most the horizon
    let mut gram = vec![0.0; wide * wide];
    columns.rows(horizon as usize, wide, |moved| {
        for (i, one) in moved.iter().enumerate().filter(|(_, one)| **one > 0.0) {
            for (sum, other) in gram[i * wide..][..=i].iter_mut().zip(moved) {
                *sum += one * other;
            }
        }
    });
    for i in 0..wide {
        for j in 0..i {
            gram[j * wide + i] = gram[i * wide + j];
        }
    }
    RandomAllocation::new(wide, gram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally::mechanism::{Criterion, MechanismName, Objective, Participation};

    /// The table compared with the columns of the dense twin, for every way of streaming.
    #[test]
    fn bins_move_the_sums_of_their_columns() {
        let participation = Participation::new(4, 10).unwrap();
        let names = [
            "input",
            "epoch-bands(bands=7)",
            "banded-sqrt(bands=12)",
            "banded-inverse-sqrt(bands=5)",
            "blt(buffers=2)",
            "normalized-blt(buffers=3)",
            "sqrt",
            "normalized-sqrt",
        ];
        for name in names {
            let criterion = Criterion::from_vectors(Objective::Mean, participation);
            let mechanism = name.parse::<MechanismName>().unwrap().build(37, &criterion).unwrap();
            let right = mechanism.dense().r;
            let moved = |bin: usize, row: usize| (bin..37).step_by(10).map(|j| right.row(row)[j].abs()).sum::<f64>();
            let bins = allocation(&*mechanism, 10).unwrap();
            for i in 0..10 {
                for j in 0..10 {
                    let twin: f64 = (0..37).map(|row| moved(i, row) * moved(j, row)).sum();
                    let own = bins.product(i, j);
                    // `R` of the square roots is taken before it is rounded to 14 bits or more.
                    assert!((own / twin.max(1e-300) - 1.0).abs() < 2e-3 || twin == own, "{name}: {own} {twin}");
                }
            }
            // To anyone who knows the bin, the largest of them matters: that of fixed epochs.
            let fixed = mechanism.participation_squared(participation);
            let largest = (0..10).map(|i| bins.product(i, i)).fold(0.0, f64::max);
            assert!(largest <= fixed * 1.001, "{name}: {largest} {fixed}");
        }
        let tree = "binary".parse::<MechanismName>().unwrap();
        let tree = tree.build(37, &Criterion::from_vectors(Objective::Max, participation)).unwrap();
        assert!(allocation(&*tree, 10).unwrap_err().to_string().contains("plan without bins"));
    }
}
