//! Squared row norms of a mechanism without a closed form, one per step.

use std::sync::Arc;

/// `‖L_t‖²` for `t = 1 ..= T`, with the largest and the mean.
#[derive(Clone, Debug)]
pub(in crate::mechanism) struct RowNorms {
    squared: Arc<[f64]>,
    max: f64,
    mean: f64,
}

impl RowNorms {
    /// From the norms in order of steps, at least one.
    pub(in crate::mechanism) fn new(squared: Vec<f64>) -> Self {
        let max = squared.iter().copied().fold(0.0, f64::max);
        let mean = squared.iter().sum::<f64>() / squared.len() as f64;
        Self { squared: squared.into(), max, mean }
    }

    /// The norm of one step, from 1.
    pub(in crate::mechanism) fn at(&self, step: u64) -> f64 {
        self.squared[step as usize - 1]
    }

    /// Those of the first steps.
    pub(in crate::mechanism) fn through(&self, steps: u64) -> Self {
        Self::new(self.squared[..steps as usize].to_vec())
    }

    pub(in crate::mechanism) fn max(&self) -> f64 {
        self.max
    }

    pub(in crate::mechanism) fn mean(&self) -> f64 {
        self.mean
    }
}

/// The three methods of a [`Mechanism`](crate::mechanism::Mechanism) whose field `row_norms` is a [`RowNorms`].
macro_rules! row_norms_of_table {
    () => {
        fn row_norm_squared(&self, step: u64) -> f64 {
            self.row_norms.at(step)
        }

        fn max_row_norm_squared(&self) -> f64 {
            self.row_norms.max()
        }

        fn mean_row_norm_squared(&self) -> f64 {
            self.row_norms.mean()
        }
    };
}
pub(in crate::mechanism) use row_norms_of_table;
