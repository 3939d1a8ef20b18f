//! Several workloads that are read from one release.

use super::Workload;
use crate::{Error, Result};

/// Maximum number of workloads of one release.
pub(crate) const MAX_WORKLOADS: usize = 8;

/// Several workloads that are read from one release, each with the weight of its variance.
///
/// All are post-processing of the same noisy integers, so the budget is spent once. The best factorization for them
/// minimises the weighted sum of their variances.
///
/// ```
/// use evertally::mechanism::{Mix, Workload};
/// let mix = Mix::new(&[(Workload::Sum, 1.0), (Workload::Window(7), 2.0)])?;
/// assert_eq!(mix.readings().len(), 2);
/// assert!(Mix::new(&[(Workload::Sum, 1.0), (Workload::Sum, 2.0)]).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// The remaining entries are unused.
    readings: [(Workload, f64); MAX_WORKLOADS],
    count: usize,
}

impl Mix {
    /// Different workloads, at least two and at most eight, with positive weights.
    ///
    /// # Errors
    /// If there are fewer or more, two are the same, or a weight is out of range.
    pub fn new(readings: &[(Workload, f64)]) -> Result<Self> {
        if !(2..=MAX_WORKLOADS).contains(&readings.len()) {
            let why = format!("one release has 2 to {MAX_WORKLOADS} workloads, got {}", readings.len());
            return Err(Error::invalid(why));
        }
        for (place, (workload, weight)) in readings.iter().enumerate() {
            if !(*weight > 0.0 && *weight < 1e12) {
                return Err(Error::invalid(format!("the weight of `{workload}` should be above 0, got {weight}")));
            }
            if readings[..place].iter().any(|(other, _)| other == workload) {
                return Err(Error::invalid(format!("`{workload}` is named twice")));
            }
        }
        let mut all = [(Workload::Sum, 0.0); MAX_WORKLOADS];
        all[..readings.len()].copy_from_slice(readings);
        Ok(Self { readings: all, count: readings.len() })
    }

    /// The workloads with their weights, in the order in which they were named.
    pub fn readings(&self) -> &[(Workload, f64)] {
        &self.readings[..self.count]
    }

    /// The workloads alone.
    pub fn workloads(&self) -> impl Iterator<Item = Workload> + '_ {
        self.readings().iter().map(|(workload, _)| *workload)
    }

    /// Each workload reduced to what a horizon of this length can read, and each weight multiplied by its factor.
    #[must_use]
    pub(crate) fn over(mut self, horizon: u64, times: impl Fn(Workload) -> f64) -> Self {
        for (workload, weight) in &mut self.readings[..self.count] {
            *workload = workload.over(horizon);
            *weight *= times(*workload);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_of_different_workloads() {
        let window = |width| (Workload::Window(width), 1.0);
        assert!(Mix::new(&[window(2)]).is_err());
        assert!(Mix::new(&[window(2), window(2)]).is_err());
        assert!(Mix::new(&[window(2), (Workload::Sum, 0.0)]).is_err());
        assert!(Mix::new(&[window(2), (Workload::Sum, f64::NAN)]).is_err());
        assert!(Mix::new(&(1..=9).map(window).collect::<Vec<_>>()).is_err());
        let mix = Mix::new(&(1..=8).map(window).collect::<Vec<_>>()).unwrap();
        assert_eq!(mix.over(3, |_| 2.0).workloads().nth(2), Some(Workload::Sum));
    }
}
